"""What the files of well-known repositories say beyond the catalog: how their weights are quantized."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcore.networks.catalog import catalog

Raw = Mapping[str, Any]


_FP8: Raw = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
_STRETCHED: Raw = {"rope_type": "linear", "factor": 8.0}
_STRETCHED_NAMES = frozenset(f"google/gemma-3-{size}b-{kind}" for size in (4, 12, 27) for kind in ("pt", "it"))
"""Gemma 3 was trained on an eighth of its positions; the catalog's entries do without the key that says so."""
_LEFT_BY_V4 = ["compressor.kv_proj", "compressor.gate_proj", "indexer.kv_proj", "indexer.gate_proj", "weights_proj"]
_MIXED_FP4: Raw = {
    "expert_dtype": "fp4",
    "quantization_config": {**_FP8, "scale_fmt": "ue8m0", "modules_to_not_convert": _LEFT_BY_V4},
}
_MIXED_FP8: Raw = {**_MIXED_FP4, "expert_dtype": "fp8"}
_LEFT_BY_MINIMAX = ["gate", "e_score_correction_bias", "lm_head"]


def _experts_in_four_bits(kind: str, form: str, *towers: str) -> Raw:
    """Return what compressed-tensors says where experts alone have four bits, with a scale for 32 values."""
    weights = {"num_bits": 4, "type": kind, "strategy": "group", "group_size": 32, "symmetric": True}
    left = ["re:.*self_attn.*", "re:.*shared_experts.*", "re:.*mlp\\.(gate|up|gate_up|down)_proj.*", "re:.*lm_head.*"]
    return {
        "quantization_config": {
            "quant_method": "compressed-tensors",
            "format": form,
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
            "ignore": [*left, *towers],
        }
    }


_INT4_EXPERTS = _experts_in_four_bits("int", "pack-quantized", "re:vision_tower.*", "re:mm_projector.*")
_MXFP4_EXPERTS = _experts_in_four_bits("float", "mxfp4-pack-quantized", "re:.*vision_tower.*", "re:.*mm_projector.*")
_FP8_BY_MISTRAL: Raw = {
    "quantization_config": {
        "quant_method": "fp8",
        "activation_scheme": "static",
        "modules_to_not_convert": ["model.vision_tower", "model.multi_modal_projector", "lm_head"],
    }
}
_LEFT_BY_GLM = [
    *(f"layers.{place}.self_attn" for place in range(45) if (place + 1) % 4),
    "indexer",
    "visual",
    "lm_head",
]
"""Linear attention is taken to be among them, for want of a list: with it in 16 bits, and with multi-token prediction,
the files have the 305.79 GiB that vLLM counts, but for 0.2."""
_PREDICTING: Raw = {"num_nextn_predict_layers": 1}
_V3 = ("V3", "V3-0324", "V3.1", "R1", "R1-0528", "R1-Zero", "Prover-V2-671B")
_OF_V3: Raw = {"quantization_config": _FP8, **_PREDICTING}
_OF_V32: Raw = {"quantization_config": {**_FP8, "scale_fmt": "ue8m0"}, **_PREDICTING}
_OF_MIMO: Raw = {"quantization_config": {**_FP8, "ignored_layers": ["self_attn.o_proj"]}}
_NATIVE: Mapping[str, Raw] = {
    **dict.fromkeys((f"deepseek-ai/DeepSeek-{name}" for name in _V3), _OF_V3),
    **dict.fromkeys((f"deepseek-ai/DeepSeek-{name}" for name in ("V3.2", "V3.2-Exp", "Math-V2")), _OF_V32),
    **dict.fromkeys(
        (f"zai-org/GLM-{name}" for name in ("4.5", "4.5-Air", "4.6", "4.7", "4.7-Flash", "5", "5.1")), _PREDICTING
    ),
    **dict.fromkeys((f"XiaomiMiMo/MiMo-{name}" for name in ("V2-Flash", "V2.5", "V2.5-Pro")), _OF_MIMO),
    "deepseek-ai/DeepSeek-V4.1-Flash": {
        "quantization_config": {**_FP8, "weight_block_size": [32, 32], "scale_fmt": "ue8m0", "expert_dtype": "fp4"}
    },
    **dict.fromkeys((f"deepseek-ai/DeepSeek-V4-{size}" for size in ("Flash", "Pro")), _MIXED_FP4),
    **dict.fromkeys((f"deepseek-ai/DeepSeek-V4-{size}-Base" for size in ("Flash", "Pro")), _MIXED_FP8),
    "MiniMaxAI/MiniMax-M2": {"quantization_config": {**_FP8, "modules_to_not_convert": _LEFT_BY_MINIMAX}},
    **dict.fromkeys(
        (f"moonshotai/Kimi-{name}" for name in ("K2-Thinking", "K2.5", "K2.6", "K2.7-Code")), _INT4_EXPERTS
    ),
    "moonshotai/Kimi-K3": _MXFP4_EXPERTS,
    "zai-org/GLM-5.3-Flash": {"quantization_config": {**_FP8, "modules_to_not_convert": _LEFT_BY_GLM}},
    "mistralai/Devstral-Small-2-24B-Instruct-2512": _FP8_BY_MISTRAL,
    **dict.fromkeys((f"mistralai/Ministral-3-{size}-Instruct-2512" for size in ("3B", "8B", "14B")), _FP8_BY_MISTRAL),
    "google/gemma-4-26B-A4B": {"use_bidirectional_attention": "vision"},
    "google/gemma-4-31B": {"use_bidirectional_attention": "vision"},
}
"""Keys of published files that the catalog's do without: how they are quantized, and that images see themselves whole.

Sources: vllm, models/deepseek_v4/quant_config.py: experts in MXFP4 (`expert_dtype`), the rest in blocks of fp8; vllm,
tests/quantization/test_humming.py: what Kimi-K2.6 leaves in 16 bits, which is all but its routed experts; the published
files of DeepSeek-V3, of Kimi-K3 (ai-dynamo/aiconfigurator, model_configs), of MiniMax-M2.1, which M2 has too, of
MiMo-V2.5 and V2.5-Pro, of DeepSeek-V4.1-Flash, of Gemma 4, whose small models have `null`, and of Devstral Small 2,
whose format Ministral 3's cards name.
"""


def published(name: str, named: str | None = None) -> Raw:
    """Return the config.json of a catalog entry as its repository has it, or another one that is named for a format.

    >>> published("deepseek-ai/DeepSeek-V4-Flash", "fp8")["expert_dtype"]
    'fp8'
    """
    config: Raw = catalog()[name]["config"]
    if named == "fp8" and _NATIVE.get(name) is _MIXED_FP4:
        return {**config, **_MIXED_FP8}
    if name in _STRETCHED_NAMES:
        return {**config, "text_config": {**config["text_config"], "rope_scaling": _STRETCHED}}
    return {**config, **_NATIVE.get(name, {})}
