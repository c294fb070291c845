"""What the header of a GGUF file says of a job: its model, its type, and the types of tensors that differ from it.

Source: gguf-py 0.19, gguf/constants.py (`Keys`, `LlamaFileType`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

from memcore import registry
from memcore.config.engine import EngineSettings
from memcore.errors import ConfigError
from memcore.networks.catalog import catalog, find_model, named
from memcore.servers.llamacpp.gguf import published_file
from memcore.servers.llamacpp.settings import LlamaCppSettings
from memcore.servers.llamacpp.tensor_types import entries
from memcore.serving.gguf_types import BLOCK_TYPES, tensor_bytes
from memcore.serving.inference import Inference
from memcore.tools.checkpoints import Checkpoint, depth

_FILE_TYPES: Mapping[int, str] = {
    0: "f32", 1: "f16", 2: "q4_0", 3: "q4_1", 7: "q8_0", 8: "q5_0", 9: "q5_1", 10: "q2_k", 11: "q3_k_s", 12: "q3_k_m",
    13: "q3_k_l", 14: "q4_k_s", 15: "q4_k_m", 16: "q5_k_s", 17: "q5_k_m", 18: "q6_k", 19: "iq2_xxs", 20: "iq2_xs",
    21: "q2_k_s", 22: "iq3_xs", 23: "iq3_xxs", 24: "iq1_s", 25: "iq4_nl", 26: "iq3_s", 27: "iq3_m", 28: "iq2_s",
    29: "iq2_m", 30: "iq4_xs", 31: "iq1_m", 32: "bf16", 36: "tq1_0", 37: "tq2_0", 38: "mxfp4_moe", 40: "q1_0",
}  # fmt: skip


def gguf_of(found: Mapping[str, Any]) -> tuple[Checkpoint, Mapping[str, object], str | None] | None:
    """Return the tensors of a header, the settings that it says, and the model that it names; None for another file.

    A name counts if the catalog's model has as many layers and nearly as many parameters: files have no towers.
    """
    keys = found.get("gguf")
    if not isinstance(keys, Mapping):
        return None
    tensors = list(_tensors(keys))
    if not tensors:
        return None
    parameters, sizes = sum(prod(shape) for *_, shape in tensors), Counter[str]()
    try:
        for _, kind, shape in tensors:
            sizes[kind] += tensor_bytes(kind, shape) if kind in BLOCK_TYPES else 0
    except ValueError:  # a row that is no whole number of blocks
        raise ConfigError.at("the file", "is not a GGUF file") from None
    layers = keys.get(f"{keys.get('general.architecture')}.block_count")
    listed = Checkpoint(len(tensors), layers if isinstance(layers, int) else 0, sizes.total(), parameters, sizes)
    most = max(sizes, key=lambda kind: sizes[kind]).lower()
    said = keys.get("general.file_type")
    format_ = _FILE_TYPES.get(said, most) if isinstance(said, int) else most
    return listed, {EngineSettings.type: registry.GGUF_SERVER, Inference.quantization: format_}, _named_in(keys, listed)


def differing(found: Mapping[str, Any], settings: Mapping[str, object], source: Any) -> Mapping[str, object]:
    """Return the types of matrices that a file of its format would not have, as a setting.

    Without a model, which another file describes, these are the types of all matrices.
    """
    types = {name: kind for name, kind, shape in _tensors(found["gguf"]) if len(shape) > 1}
    usual = (
        () if source is None else published_file(find_model(source), str(settings[Inference.quantization]).upper(), {})
    )
    text = entries(types, {tensor.name: tensor.type for tensor in usual})
    return {LlamaCppSettings.tensor_types: text} if text else {}


def _tensors(keys: Mapping[str, Any]) -> Iterator[tuple[str, str, list[int]]]:
    """Yield the names, types and shapes of tensors, `{"Q4_K": {"output.weight": "128x256"}}`."""
    tensors = keys.get("tensors")
    for kind, shapes in tensors.items() if isinstance(tensors, Mapping) else ():
        for name, text in shapes.items() if isinstance(shapes, Mapping) else ():
            if _SHAPE.fullmatch(str(text)):
                yield str(name), str(kind), [int(each) for each in str(text).split("x")]


_SHAPE = re.compile(r"\d{1,12}(?:x\d{1,12}){0,7}")


def _named_in(keys: Mapping[str, Any], listed: Checkpoint) -> str | None:
    """Return the model that a GGUF file's keys name, if it has such tensors."""
    repository = str(keys.get("general.base_model.0.repo_url", "")).rpartition("huggingface.co/")[2]
    parts = [str(keys[name]) for name in ("general.basename", "general.size_label", "general.finetune") if name in keys]
    for name in (repository, str(keys.get("general.name", "")), "-".join(parts), "-".join(parts[:2])):
        known = named(name) if name else None
        if known is None or listed.layers != depth(catalog()[known.base]["config"]):
            continue
        if _LEAST <= (listed.parameters or 0) / find_model(known.base).parameters <= _MOST:
            return known.base
    return None


_LEAST, _MOST = 0.8, 1.02
"""Of a model's parameters: without towers, with rotary frequencies and a head that is tied."""
