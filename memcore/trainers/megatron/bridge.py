"""What frameworks around Megatron-Core set where a job leaves it open.

Source: Megatron-Bridge, src/megatron/bridge/recipes: a recipe is used when `engine.framework` names Megatron Bridge and
the model is one that has a recipe. ms-swift, swift/megatron/arguments/megatron_args.py: its defaults, which differ from
Megatron-LM's.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.settings import Config
from memcore.config.defaults import Assumption

_FEW_BITS: Mapping[str, object] = {
    "engine.distributed_optimizer": True,
    "engine.grad_reduce_in_bf16": True,
    "engine.precision_aware_optimizer": True,
    "engine.main_grads_dtype": "bf16",
    "engine.exp_avg_dtype": "bf16",
    "engine.exp_avg_sq_dtype": "bf16",
}
"""Gradients and moments in bf16, in an optimizer that is aware of it."""
_KERNELS: Mapping[str, object] = {
    "engine.moe_token_dispatcher": "alltoall",
    "engine.moe_permute_fusion": True,
    "engine.moe_grouped_gemm": True,
    "engine.cross_entropy_loss_fusion": True,
    "engine.cross_entropy_fusion_impl": "te",
    "engine.overlap_grad_reduce": True,
    "engine.overlap_param_gather": True,
    "parallelism.expert_tensor_parallel_size": 1,
}

_IMAGES: Mapping[str, object] = {
    "engine.distributed_optimizer": True,
    "engine.cross_entropy_loss_fusion": True,
    "engine.cross_entropy_fusion_impl": "native",
}
_IMAGES_ROUTED: Mapping[str, object] = {
    **_IMAGES,
    "engine.moe_token_dispatcher": "alltoall",
    "engine.moe_permute_fusion": True,
    "engine.moe_grouped_gemm": True,
}
RECIPES: Mapping[str, Mapping[str, object]] = {
    "moonlight-16b": {**_FEW_BITS, **_KERNELS, "engine.moe_shared_expert_overlap": True},
    "deepseek-v3": {**_FEW_BITS, **_KERNELS},
    "qwen3-vl-30b": _IMAGES_ROUTED,
    "qwen3-vl-235b": _IMAGES_ROUTED,
    "qwen3-vl": _IMAGES,
    "qwen2.5-vl": _IMAGES,
}
"""By a part of the model's name: recipes/moonlight/moonlight_16b.py, recipes/deepseek/deepseek_v3.py, and fine-tuning
of qwen_vl/h100/{qwen25_vl,qwen3_vl}.py."""


DEFAULTS: Mapping[str, Mapping[str, object]] = {
    "ms-swift": {
        "engine.distributed_optimizer": True,
        "engine.moe_token_dispatcher": "alltoall",
        "engine.moe_grouped_gemm": True,
        "engine.no_rope_fusion": True,
        "engine.cross_entropy_loss_fusion": True,
        "parallelism.expert_tensor_parallel_size": 1,
        "training.activation_checkpointing.policy": "selective",
    },
}
"""Of frameworks, by name."""


def with_recipe(config: Config, name: str) -> tuple[Config, list[Assumption]]:
    """A config with what the framework sets for a model of this name, and what that was."""
    framework = (config.engine.framework or "").lower()
    row, source = DEFAULTS.get(framework, {}), f"{config.engine.framework}'s default"
    if "bridge" in framework:
        row = next((values for part, values in RECIPES.items() if part in name.lower()), {})
        source = "Megatron Bridge's recipe for this model"
    noted = []
    for path, value in row.items():
        if config.get(path) is None:
            config = config.replaced(path, value)
            noted.append(Assumption(path, value, source, notable=True))
    return config, noted
