"""What frameworks around Megatron-Core set where a job leaves it open.

Source: Megatron-Bridge, src/megatron/bridge/recipes: a recipe is used when `engine.framework` names Megatron Bridge and
the model is one that has a recipe. ms-swift, swift/megatron/arguments/megatron_args.py: its defaults, which differ from
Megatron-LM's.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.defaults import Assumption
from memcore.config.engine import EngineSettings
from memcore.config.parallelism import Parallelism
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.trainers.megatron.settings import MegatronSettings
from memcore.trainers.pytorch.settings import TorchSettings

_FEW_BITS: Mapping[str, object] = {
    MegatronSettings.distributed_optimizer: True,
    MegatronSettings.grad_reduce_in_bf16: True,
    MegatronSettings.precision_aware_optimizer: True,
    MegatronSettings.main_grads_dtype: "bf16",
    MegatronSettings.exp_avg_dtype: "bf16",
    MegatronSettings.exp_avg_sq_dtype: "bf16",
}
"""Gradients and moments in bf16, in an optimizer that is aware of it."""
_KERNELS: Mapping[str, object] = {
    TorchSettings.moe_token_dispatcher: "alltoall",
    MegatronSettings.moe_permute_fusion: True,
    MegatronSettings.moe_grouped_gemm: True,
    MegatronSettings.cross_entropy_loss_fusion: True,
    MegatronSettings.cross_entropy_fusion_impl: "te",
    MegatronSettings.overlap_grad_reduce: True,
    MegatronSettings.overlap_param_gather: True,
    Parallelism.expert_tensor_parallel_size: 1,
}

_IMAGES: Mapping[str, object] = {
    MegatronSettings.distributed_optimizer: True,
    MegatronSettings.cross_entropy_loss_fusion: True,
    MegatronSettings.cross_entropy_fusion_impl: "native",
}
_IMAGES_ROUTED: Mapping[str, object] = {
    **_IMAGES,
    TorchSettings.moe_token_dispatcher: "alltoall",
    MegatronSettings.moe_permute_fusion: True,
    MegatronSettings.moe_grouped_gemm: True,
}
_FUSED: Mapping[str, object] = {MegatronSettings.cross_entropy_fusion_impl: "te"}
RECIPES: Mapping[str, Mapping[str, object]] = {
    "qwen3-30b": _FUSED,
    "qwen3-235b": _FUSED,
    "kimi-k2": _FUSED,
    "deepseek-v2": _FUSED,
    "moonlight-16b": {**_FEW_BITS, **_KERNELS, MegatronSettings.moe_shared_expert_overlap: True},
    "deepseek-v3": {**_FEW_BITS, **_KERNELS},
    "qwen3-vl-30b": _IMAGES_ROUTED,
    "qwen3-vl-235b": _IMAGES_ROUTED,
    "qwen3-vl": _IMAGES,
    "qwen2.5-vl": _IMAGES,
}
"""By a part of the model's name: recipes/moonlight/moonlight_16b.py, recipes/deepseek/deepseek_v3.py, fine-tuning of
qwen_vl/h100/{qwen25_vl,qwen3_vl}.py; the loss of h100/qwen3_moe.py, h100/kimi_k2.py and h100/deepseek_v2.py."""
BRIDGE: Mapping[str, object] = {
    MegatronSettings.distributed_optimizer: True,
    MegatronSettings.cross_entropy_loss_fusion: True,
    MegatronSettings.overlap_grad_reduce: True,
    MegatronSettings.overlap_param_gather: True,
}
"""What all its recipes start from (Megatron Bridge 0.7: recipes/common.py, models/{gpt,hybrid}_provider.py)."""

PRECISIONS: Mapping[object, Mapping[str, object]] = {
    recipe: {MegatronSettings.fp8_param_gather: True} for recipe in ("delayed", "tensorwise", "mxfp8")
}
"""What its presets of fp8 set besides the recipe (Megatron Bridge 0.7, training/mixed_precision.py)."""


DEFAULTS: Mapping[str, Mapping[str, object]] = {
    "ms-swift": {
        MegatronSettings.distributed_optimizer: True,
        TorchSettings.moe_token_dispatcher: "alltoall",
        MegatronSettings.moe_grouped_gemm: True,
        MegatronSettings.no_rope_fusion: True,
        MegatronSettings.cross_entropy_loss_fusion: True,
        Parallelism.expert_tensor_parallel_size: 1,
        Training.activation_checkpointing.policy: "selective",
    },
}
"""Of frameworks, by name."""


def with_recipe(config: Config, name: str) -> tuple[Config, list[Assumption]]:
    """A config with what the framework sets for a model of this name, and what that was."""
    framework = (config[EngineSettings.framework] or "").lower()
    row, source = DEFAULTS.get(framework, {}), f"{config[EngineSettings.framework]}'s default"
    if "bridge" in framework:
        preset = PRECISIONS.get(config.get(EngineSettings.fp8_recipe), {})
        row = {**BRIDGE, **preset, **next((values for part, values in RECIPES.items() if part in name.lower()), {})}
        source = "Megatron Bridge's recipe for this model"
    noted = []
    for path, value in row.items():
        if config.get(path) is None:
            config = config.replaced(path, value)
            noted.append(Assumption(path, value, source, notable=True))
    return config, noted
