"""torchtitan's config registries: modules whose functions make the configs that its files held before.

Source: torchtitan of August 2026, models/*/config_registry.py, trainer.py (`Trainer.Config`), config/configs.py,
components/loss.py (`ChunkedLossWrapper`), distributed/activation_checkpoint.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from memcore.formats.builders import FUNCTION, built
from memcore.formats.readers import flat

TELLS = "Trainer.Config("
REFUSED, LOSS = "*refused", "*loss"
_MODEL = re.compile(r"^from\s\.model\simport\s(\w{1,80}?)Model\b", re.MULTILINE)
_NAMES: Mapping[str, str] = {"DeepSeekV3": "deepseek_v3", "GptOss": "gpt_oss"}
_CHECKPOINTS: Mapping[str, str] = {"FullAC": "full", "SelectiveAC": "selective", "MemoryBudgetAC": "memory_budget"}
_CONVERTERS: Mapping[str, str] = {"Float8LinearConverter": "float8"}
_TOKENS, _LENGTH = "training.num_tokens_per_microbatch_per_dp_rank", "training.max_context_length"
_KEPT = ("training", "parallelism", "compile", "checkpoint", "validation")
_CHUNKS = 8


def configs(code: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each config of a registry by its function's name, with the keys of torchtitan's files."""
    model = _MODEL.search(code)
    for name, config in built(code).items():
        if not name.startswith("_") and str(config.get(FUNCTION, "")).endswith(TELLS.rstrip("(")):
            family = _NAMES.get(model[1], model[1].lower()) if model else name.split("_")[0]
            yield name, _keys(config, family)


def _keys(config: Mapping[str, Any], family: str) -> dict[str, Any]:
    sections = {section: config[section] for section in _KEPT if isinstance(config.get(section), dict)}
    keys = {name: value for name, value in flat(sections).items() if not name.endswith(FUNCTION)}
    spec = config.get("model_spec")
    if isinstance(spec, dict):
        keys |= {"model.name": family, "model.flavor": spec.get("0", spec.get("flavor"))}
        keys |= _converted(spec.get("converters"))
    length = keys.pop(_LENGTH, None)
    if length is not None:
        tokens = keys.pop(_TOKENS, length)
        counted = isinstance(tokens, int) and isinstance(length, int) and length > 0
        keys |= {"training.seq_len": length, "training.local_batch_size": max(1, tokens // length) if counted else None}
    checkpoints = config.get("activation_checkpoint")
    if isinstance(checkpoints, dict):
        kind = str(checkpoints.get(FUNCTION, "")).partition(".")[0]
        keys |= {"activation_checkpoint.mode": checkpoints.get("mode", _CHECKPOINTS.get(kind, kind))}
    elif checkpoints is None and "activation_checkpoint" in config:
        keys["activation_checkpoint.mode"] = "none"
    loss = config.get("loss")
    if isinstance(loss, dict) and str(loss.get(FUNCTION)).startswith("ChunkedLoss"):
        keys[LOSS] = f"chunked:{loss.get('num_chunks', _CHUNKS)}"
    return {name: value for name, value in keys.items() if value is not None}


def _converted(found: object) -> dict[str, Any]:
    """Layers that are replaced: float8's in the words of files, others by their names."""
    names = [str(each.get(FUNCTION, "")).partition(".")[0] for each in found if isinstance(each, dict)] if isinstance(
        found, list
    ) else []  # fmt: skip
    strange = [name for name in names if name not in _CONVERTERS]
    if strange:
        return {REFUSED: strange[0]}
    return {"model.converters": [_CONVERTERS[name] for name in names]} if names else {}
