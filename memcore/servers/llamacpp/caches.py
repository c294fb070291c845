"""What llama.cpp caches for a layer: rows of keys and values, an indexer's keys, recurrent states.

Source: `src/llama-kv-cache*.cpp`, `llama-memory-recurrent.cpp` and `llama-hparams.cpp` of llama.cpp 0.5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from memcore.messages import Message
from memcore.networks.network import Layer, Model
from memcore.networks.parts import Attention, LatentAttention, SpecialMixer
from memcore.serving.gguf_types import BLOCK_TYPES, row_bytes
from memcore.symbols import Shape, round_up

WINDOWED: Mapping[str, int] = {
    "gemma2": 4096, "gemma3": 1024, "gemma3_text": 1024, "gemma3n_text": 512, "gemma4": 1024,
    "gemma4_text": 1024, "gpt_oss": 128,
    "cohere2": 4096, "llama4": 8192, "olmo3": 4096, "exaone4": 4096, "mimo_v2_flash": 128,
}  # fmt: skip
"""Families whose windows llama.cpp knows, with the window where the config leaves it out."""


def cache_type(name: str) -> str:
    """Return the type of a cache in any spelling."""
    found = name.upper().replace("FP16", "F16").replace("FP32", "F32")
    if found not in BLOCK_TYPES:
        raise ValueError(Message("{!r} is not a cache type", name))
    return found


def cache_rows(model: Model, part: Attention | LatentAttention) -> tuple[int, int]:
    """Return elements of keys and of values of a token."""
    if isinstance(part, LatentAttention):
        return model.size(part.expand.inner) + model.size((part.heads.rotated,)), 0
    heads = part.heads
    return model.size((heads.key, heads.width)), model.size((heads.key, heads.value))


def cache_bytes(kind: str, row: int, rows: int) -> int:
    """Return bytes of a cache; CUDA reads its last row in steps of 512 elements too."""
    name = cache_type(kind)
    rest = row % 512
    more = row_bytes(name, 512 - rest) if BLOCK_TYPES[name].quantized and rest else 0
    return round_up(row_bytes(name, row) * rows + more, 128)


def indexer_row(model: Model, part: LatentAttention) -> int:
    """Return elements of an indexer's key (DeepSeek-V3.2)."""
    return next(model.size(weight.axes[0]) for weight in part.indexer if weight.name.endswith("indexer.wk.weight"))


def state_rows(model: Model, part: SpecialMixer) -> tuple[int, int]:
    """Elements that a recurrent layer keeps for a sequence: the last inputs of its convolution, and its state."""
    if part.variant not in STATES:
        return sum(prod(model.size((axis,)) for axis in shape) for shape in part.state), 0
    channels, state = STATES[part.variant]
    return model.size(channels) * (model.sizes["K"] - 1), model.size(state) if state else 0


STATES: Mapping[str, tuple[Shape, Shape]] = {
    "mamba": (("D",), ("N", "D")),
    "mamba2": (("X",), ("N", "D")),
    "gated-delta": (("X",), ("B", "dk", "dv")),
    "kimi-delta": ((3, "B", "dk"), ("B", "dk", "dk")),
    "short-conv": (("h",), ()),
}
"""By variant: channels of the convolution, and the shape of the state."""


def attentions(model: Model) -> Iterator[Attention]:
    """Yield every kind of attention with keys and values of its own."""
    for layer, _ in model.layers:
        yield from (part for part in layer.mixers if isinstance(part, Attention))


def slides(model: Model, layer: Layer) -> bool:
    """Return whether a layer's cache holds a window only."""
    masks = {part.mask for part in layer.mixers if isinstance(part, Attention)}
    return bool(masks & {"sliding", "chunked"}) and model.network.family in WINDOWED
