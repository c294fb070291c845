"""What well-known repositories hold beyond their language model, and how they are quantized."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from memcore.networks.catalog import catalog, find_model
from memcore.networks.network import Model
from memcore.networks.read import read_model

Raw = Mapping[str, Any]


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
_STRETCHED: Raw = {"rope_type": "linear", "factor": 8.0}
_STRETCHED_NAMES = frozenset(f"google/gemma-3-{size}b-{kind}" for size in (4, 12, 27) for kind in ("pt", "it"))
"""Gemma 3 was trained on an eighth of its positions; the catalog's entries do without the key that says so."""
_MIXED_FP4: Raw = {"expert_dtype": "fp4", "quantization_config": {**_FP8, "scale_fmt": "ue8m0"}}
_LEFT_BY_MINIMAX = ["gate", "e_score_correction_bias", "lm_head"]
_INT4_EXPERTS: Raw = {
    "quantization_config": {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "config_groups": {
            "group_0": {
                "targets": ["Linear"],
                "weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": True},
            }
        },
        "ignore": [
            "re:.*self_attn.*", "re:.*shared_experts.*", "re:.*mlp\\.(gate|up|gate_up|down)_proj.*", "re:.*lm_head.*",
            "re:vision_tower.*", "re:mm_projector.*",
        ],
    }
}  # fmt: skip
_FP8_BY_MISTRAL: Raw = {
    "quantization_config": {
        "quant_method": "fp8",
        "activation_scheme": "static",
        "modules_to_not_convert": ["model.vision_tower", "model.multi_modal_projector", "lm_head"],
    }
}
_NATIVE: Mapping[str, Raw] = {
    "deepseek-ai/DeepSeek-V3": {"quantization_config": _FP8},
    "deepseek-ai/DeepSeek-V3.2": {"quantization_config": {**_FP8, "scale_fmt": "ue8m0"}},
    "deepseek-ai/DeepSeek-V4-Flash": _MIXED_FP4,
    "deepseek-ai/DeepSeek-V4-Pro": _MIXED_FP4,
    "MiniMaxAI/MiniMax-M2": {"quantization_config": {**_FP8, "modules_to_not_convert": _LEFT_BY_MINIMAX}},
    **dict.fromkeys(
        (f"moonshotai/Kimi-{name}" for name in ("K2-Thinking", "K2.5", "K2.6", "K2.7-Code")), _INT4_EXPERTS
    ),
    "mistralai/Devstral-Small-2-24B-Instruct-2512": _FP8_BY_MISTRAL,
    **dict.fromkeys((f"mistralai/Ministral-3-{size}-Instruct-2512" for size in ("3B", "8B", "14B")), _FP8_BY_MISTRAL),
    "google/gemma-4-26B-A4B": {"use_bidirectional_attention": "vision"},
    "google/gemma-4-31B": {"use_bidirectional_attention": "vision"},
}
"""Keys of published files that the catalog's do without: how they are quantized, and that images see themselves whole.

Sources: vllm, models/deepseek_v4/quant_config.py: experts in MXFP4 (`expert_dtype`), the rest in blocks of fp8; vllm,
tests/quantization/test_humming.py: what Kimi-K2.6 leaves in 16 bits, which is all but its routed experts; the published
files of DeepSeek-V3, of MiniMax-M2.1, which M2 has too, of Gemma 4, whose small models have `null`, and of Devstral
Small 2, whose format Ministral 3's cards name.
"""


def published(name: str, *, whole: bool) -> Raw:
    """The config.json of a catalog entry as its repository has it; `whole`: with its tower."""
    config: Raw = catalog()[name]["config"]
    composite = _WHOLE.get(str(config.get("model_type")))
    # Qwen3.5's files ask for recurrent states in fp32.
    text = config if composite is None else {"mamba_ssm_dtype": "float32", **config}
    if name in _STRETCHED_NAMES:
        return {**text, "text_config": {**text["text_config"], "rope_scaling": _STRETCHED}}
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
