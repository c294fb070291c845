"""Files of sentence-transformers next to a model: they pool what it computes, so it is loaded without a head for words.

Sources: sentence_transformers 5, models/Transformer.py (`AutoModel.from_pretrained`) and models/Pooling.py
(`config_keys`); vllm 0.33, config/model.py (`_get_default_runner_type`) and transformers_utils/config.py
(`get_pooling_config`): modules.json with a pooling module makes a pooling model of any class.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

_HEAD = re.compile(r"(For(CausalLM|MaskedLM|PreTraining)|LMHeadModel)$")
_POOLS = "pooling_mode"
_MODULE = re.compile(r"sentence_transformers\..*\bPooling")


def pools(text: str) -> bool:
    """Return whether a text is a modules.json with a pooling module, its config.json, or the library's own file.

    >>> pools('[{"idx": 1, "type": "sentence_transformers.models.Pooling"}]'), pools('{"model_type": "bert"}')
    (True, False)
    """
    if _POOLS not in text and "sentence_transformers" not in text:
        return False
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if isinstance(found, list):
        return any(isinstance(each, Mapping) and bool(_MODULE.match(str(each.get("type")))) for each in found)
    if not isinstance(found, Mapping) or "architectures" in found:
        return False
    releases = found.get("__version__")
    whole = isinstance(releases, Mapping) and "sentence_transformers" in releases
    embeds = whole and found.get("model_type", "SentenceTransformer") == "SentenceTransformer"
    return embeds or any(str(key).startswith(_POOLS) for key in found)


def without_head(model: Mapping[str, object]) -> Mapping[str, object]:
    """Return a config.json that names the class without a language-model head; other heads stay."""
    named = model.get("architectures")
    first = named[0] if isinstance(named, list) and named and isinstance(named[0], str) else ""
    return {**model, "architectures": [_HEAD.sub("Model", first)]} if _HEAD.search(first) else model
