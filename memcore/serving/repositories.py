"""Names of quantized and re-uploaded repositories, and what well-known ones hold beyond their language model.

A name says model and recipe: `RedHatAI/Qwen3-8B-FP8-dynamic` is Qwen3-8B in fp8 with one scale for each channel.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from memcore.errors import ConfigError
from memcore.networks.catalog import catalog, find_model, full_name
from memcore.networks.network import Model
from memcore.networks.read import read_model

Raw = Mapping[str, Any]

_BLOCKS = frozenset({"qwen", "deepseek-ai", "zai-org", "minimaxai", "moonshotai", "stepfun-ai", "xiaomimimo"})
"""Makers whose own `-FP8` repositories have blocks of 128 × 128 (`weight_block_size`)."""
_ENDINGS: tuple[tuple[str, str], ...] = (
    (r"-fp8-dynamic|-fp8-channel", "fp8-channel"),
    (r"-fp8-block|-block-fp8", "fp8-block"),
    (r"-fp8|\.fp8", "fp8"),
    (r"-quantized\.w8a8|-w8a8|-int8-w8a8", "int8"),
    (r"-quantized\.w8a16|-w8a16|-gptq-int8|-gptq-8bit", "w8a16"),
    (r"-quantized\.w4a16|-w4a16(?:-g128)?|-int4-autoround|-autoround(?:-int4)?|-int4", "int4"),
    (r"-awq(?:-int4|-4bit|-w4a16|-marlin)?", "awq"),
    (r"-gptq(?:-int4|-4bit)?(?:-g?\d+)?", "gptq"),
    (r"-nvfp4(?:a16)?|-fp4", "nvfp4"),
    (r"-mxfp4", "mxfp4"),
    (r"-mxfp8", "mxfp8"),
    (r"(?:-unsloth)?-bnb-4bit", "nf4"),
    (r"-bnb-8bit", "int8"),
    (r"-gguf", "gguf"),
)
"""How names end, and which format that is."""
_TUNED = re.compile(r"-(?:instruct|it|chat|base|thinking|hf|bf16)(?:-\d{4})?$|-\d{4}$", re.IGNORECASE)
"""Endings that change no shape."""


@dataclass(frozen=True, slots=True)
class Named:
    """What a name stands for."""

    base: str
    """The hub id of the catalog."""
    format: str | None = None
    """How the name says it is quantized; `gguf` leaves the type open."""


def named(name: str) -> Named | None:
    """The model and the format behind a name that the catalog has not; None where neither is known.

    >>> named("RedHatAI/Qwen3-8B-FP8-dynamic"), named("unsloth/Qwen3-8B")
    (Named(base='Qwen/Qwen3-8B', format='fp8-channel'), Named(base='Qwen/Qwen3-8B', format=None))
    >>> named("somebody/something-else") is None
    True
    """
    maker, _, last = name.strip().rpartition("/")
    for ending, format_ in _ENDINGS:
        found = re.fullmatch(rf"(.+?)(?:{ending})", last, re.IGNORECASE)
        base = _base(found[1]) if found else None
        if base is not None:
            blocks = format_ == "fp8" and maker.lower() in _BLOCKS
            return Named(base, "fp8-block" if blocks else format_)
    base = _base(last)
    return None if base is None else Named(base)


def _base(last: str) -> str | None:
    names = [last, last.removeprefix("Meta-").removeprefix("meta-"), last.removeprefix("NVIDIA-")]
    names += [_TUNED.sub("", each) for each in names]
    for each in names:
        found = full_name(each)
        if found in catalog():
            return found
    return None


def identified(name: str) -> Named:
    """What a config's name stands for.

    Raises ConfigError with the nearest name of the catalog.
    """
    if full_name(name) in catalog():
        return Named(full_name(name))
    found = named(name)
    if found is None:
        find_model(name)
        raise ConfigError([])  # find_model has refused it
    return found


def _tower(depth: int, hidden: int, wide: int, heads: int, out: int) -> Raw:
    return {
        "model_type": "qwen3_5_vision", "depth": depth, "hidden_size": hidden, "intermediate_size": wide,
        "num_heads": heads, "in_channels": 3, "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2,
        "num_position_embeddings": 2304, "out_hidden_size": out, "deepstack_visual_indexes": [],
    }  # fmt: skip


_QWEN_TOWERS: Mapping[int, tuple[int, int, int, int]] = {
    1024: (12, 768, 3072, 12),
    2048: (24, 1024, 4096, 16),
    2560: (24, 1024, 4096, 16),
}
"""Depth, width, feed-forward width and heads of Qwen3.5's tower by the language model's width; others have the large.

Their sizes and those of one further layer explain the published totals: 873,438,784 of 0.8B, 4,659,865,088 of 4B,
9,653,104,368 of 9B, 27,781,427,952 of 27B.
"""
_LARGE = (27, 1152, 4304, 16)
_WHOLE = {"qwen3_5_text": "qwen3_5", "qwen3_5_moe_text": "qwen3_5_moe"}
"""The `model_type` that published files have around a language model."""
_MIXTURE = "qwen3_5_moe_text"
_FP8: Raw = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
_NATIVE: Mapping[str, Raw] = {
    "deepseek-ai/DeepSeek-V4-Flash": {"expert_dtype": "fp4", "quantization_config": {**_FP8, "scale_fmt": "ue8m0"}},
}
"""Keys of published files that the catalog's do without: how they are quantized.

Source: vllm, models/deepseek_v4/quant_config.py: experts in MXFP4 (`expert_dtype`), the rest in blocks of fp8.
"""
OBSERVED_TOWERS: Mapping[str, tuple[int, int, int]] = {
    "google/gemma-4-26B-A4B": (1_000_000_000, 1_100_000_000, 1_250_000_000),
    "google/gemma-4-31B": (1_000_000_000, 1_100_000_000, 1_250_000_000),
    "google/gemma-4-E4B": (800_000_000, 900_000_000, 1_000_000_000),
    "google/gemma-4-E2B": (800_000_000, 900_000_000, 1_000_000_000),
}
"""Bytes of towers whose layers are not described: Gemma 4's model cards say about 550 million parameters of vision, and
150 of vision and 300 of sound in the small ones."""


def published(name: str, *, whole: bool) -> Raw:
    """The config.json of a catalog entry as its repository has it; `whole`: with its tower."""
    config: Raw = catalog()[name]["config"]
    composite = _WHOLE.get(str(config.get("model_type")))
    # Qwen3.5's files ask for recurrent states in fp32.
    text = config if composite is None else {"mamba_ssm_dtype": "float32", **config}
    if composite is None or not whole:
        return {**text, **_NATIVE.get(name, {})}
    width = config["hidden_size"]
    large = config["model_type"] == _MIXTURE
    tower = _tower(*(_LARGE if large else _QWEN_TOWERS.get(width, _LARGE)), width)
    tied = config.get("tie_word_embeddings", False)
    return {"model_type": composite, "text_config": text, "vision_config": tower, "tie_word_embeddings": tied}


@lru_cache(maxsize=256)
def whole_model(name: str) -> Model:
    """The model of a catalog entry with everything that its repository holds."""
    if str(catalog()[name]["config"].get("model_type")) not in _WHOLE:
        return find_model(name)
    return read_model(published(name, whole=True), name=name)
