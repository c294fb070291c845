"""What frameworks around Megatron-Core set where a job leaves it open.

Source: Megatron-Bridge, src/megatron/bridge/recipes: a recipe is used when `engine.framework` names Megatron Bridge and
the model is one that has a recipe. ms-swift, swift/megatron/arguments/megatron_args.py: its defaults, which differ from
Megatron-LM's, and of which that of the loss was another one in some releases (`cross_entropy_loss_fusion`,
`cross_entropy_fusion_impl`: 3.8 and 3.12, 4.0.0 to 4.0.4, 4.1 to 4.5; those from 4.0.2 to 4.3 take TransformerEngine's
kernel where that is 2.8 or later, as it is in their images).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memcore.config.defaults import Assumption
from memcore.config.engine import EngineSettings, release
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.trainers.megatron.settings import MegatronSettings
from memcore.trainers.pytorch.settings import TorchSettings

Release = tuple[int, ...]
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

PERFORMANCE = frozenset({
    ("deepseek-v3", "h100", 64, 2, 8, 64), ("deepseek-v3", "h100", 1024, 2, 8, 64),
    ("deepseek-v3", "b200", 256, 1, 16, 8), ("deepseek-v3", "b200", 256, 1, 8, 32),
    ("deepseek-v3", "b300", 256, 1, 8, 8),
    ("gpt-oss-120b", "h100", 64, 1, 4, 8), ("gpt-oss-120b", "b200", 64, 1, 1, 8), ("gpt-oss-120b", "b300", 64, 1, 1, 8),
    ("llama-3.1-405b", "h100", 512, 8, 8, 1), ("llama-3.1-405b", "h100", 1024, 8, 8, 1),
    ("llama-3.1-405b", "b200", 128, 4, 16, 1), ("llama-3.1-405b", "b300", 128, 2, 8, 1),
    ("llama-3-70b", "h100", 64, 4, 4, 1), ("llama-3-70b", "h100", 64, 4, 8, 1), ("llama-3-70b", "b200", 64, 2, 4, 1),
    ("llama-3-70b", "b200", 64, 1, 1, 1), ("llama-3-70b", "b300", 64, 1, 4, 1), ("llama-3-70b", "b300", 64, 1, 1, 1),
    ("llama-3-8b", "h100", 8, 1, 1, 1), ("llama-3-8b", "h100", 64, 1, 1, 1), ("llama-3-8b", "b200", 8, 1, 1, 1),
    ("llama-3-8b", "b200", 64, 1, 1, 1), ("llama-3-8b", "b300", 8, 1, 1, 1),
    ("nemotron-3-nano", "h100", 16, 1, 1, 8), ("nemotron-3-nano", "h100", 16, 1, 1, 16),
    ("nemotron-3-nano", "b200", 8, 1, 1, 8), ("nemotron-3-nano", "b300", 8, 1, 1, 8),
    ("nemotron-3-super", "b200", 64, 1, 1, 64), ("nemotron-3-super", "b200", 64, 2, 1, 64),
    ("nemotron-3-super", "b300", 64, 1, 1, 8),
    ("qwen3-235b", "h100", 256, 2, 8, 32), ("qwen3-235b", "b200", 64, 1, 8, 8), ("qwen3-235b", "b200", 128, 2, 4, 16),
    ("qwen3-235b", "b200", 256, 1, 8, 8), ("qwen3-235b", "b300", 64, 1, 8, 8), ("qwen3-235b", "b300", 128, 2, 1, 16),
    ("qwen3-30b", "h100", 16, 1, 1, 16), ("qwen3-30b", "h100", 32, 1, 1, 8), ("qwen3-30b", "h100", 64, 1, 1, 16),
    ("qwen3-30b", "b200", 8, 1, 1, 8), ("qwen3-30b", "b200", 64, 1, 1, 8), ("qwen3-30b", "b300", 8, 1, 1, 8),
})  # fmt: skip
"""What has a performance recipe for pre-training: a part of the model's name and of the accelerator's, the number of
GPUs, the sizes of tensor, pipeline and expert parallelism (Megatron Bridge 0.7, perf_recipes/*/{h100,b200,b300})."""
BENCHMARK: Mapping[str, object] = {
    MegatronSettings.grad_reduce_in_bf16: True,
    MegatronSettings.cross_entropy_fusion_impl: "te",
}
"""What performance recipes set besides (perf_recipes/_common.py, `_benchmark_common`)."""

PRECISIONS: Mapping[object, Mapping[str, object]] = {
    recipe: {MegatronSettings.fp8_param_gather: True} for recipe in ("delayed", "tensorwise", "mxfp8")
}
"""What presets of fp8 set besides the recipe (Megatron Bridge 0.7, training/mixed_precision.py; NeMo,
collections/llm/recipes/precision/mixed_precision.py)."""
_IN_FP8: Mapping[object, str] = {"fp8-mixed": "delayed", "fp8": "delayed", "mxfp8": "mxfp8"}
"""The recipe of a job in FP8 that names none, by its precision or the dtype of its products."""


NEMO: Mapping[str, object] = {
    MegatronSettings.distributed_optimizer: True,
    MegatronSettings.cross_entropy_loss_fusion: True,
    MegatronSettings.overlap_grad_reduce: True,
    MegatronSettings.overlap_param_gather: True,
    TorchSettings.moe_token_dispatcher: "alltoall",
    MegatronSettings.moe_grouped_gemm: True,
}
"""What recipes of NeMo 2 have in common: collections/llm/recipes (`DistributedDataParallelConfig`, optim/adam.py) and
collections/llm/gpt/model/{base,mixtral,llama,qwen3,deepseek}.py."""
DEFAULTS: Mapping[str, Mapping[str, object]] = {
    "nemo": NEMO,
    "ms-swift": {
        MegatronSettings.distributed_optimizer: True,
        TorchSettings.moe_token_dispatcher: "alltoall",
        MegatronSettings.moe_grouped_gemm: True,
        MegatronSettings.no_rope_fusion: True,
        MegatronSettings.no_create_attention_mask_in_dataloader: True,  # `padding_free`: trainers/utils.py
        MegatronSettings.cross_entropy_loss_fusion: True,
        Parallelism.expert_tensor_parallel_size: 1,
        Training.activation_checkpointing.policy: "selective",
    },
}
"""Of frameworks, by name."""
_UNFUSED: Mapping[str, object] = {MegatronSettings.cross_entropy_loss_fusion: False}
_BY_RELEASE: Mapping[str, Sequence[tuple[Release, Release, Mapping[str, object]]]] = {
    "ms-swift": (((0,), (4,), _UNFUSED), ((4, 0, 1), (4, 4), _FUSED)),
}
"""What a framework's releases set that its newest does not: from one on, and before another."""


def _is_benchmark(config: Config, name: str) -> bool:
    """Return whether a performance recipe has this model, accelerator and number of GPUs; they train all parameters."""
    if config[Training.adapter.type] is not None:
        return False
    sizes = (
        Parallelism.tensor_parallel_size, Parallelism.pipeline_parallel_size, Parallelism.expert_parallel_size,
    )  # fmt: skip
    accelerator = str(config[Hardware.accelerator]).partition("-")[0]
    layout = (accelerator, config[Hardware.num_gpus], *(config[path] or 1 for path in sizes))
    return any(part in name and (part, *layout) in PERFORMANCE for part in {row[0] for row in PERFORMANCE})


def _of_release(config: Config) -> Mapping[str, object]:
    """Return what the release of a framework sets that a config names; nothing for the newest."""
    named, found = (config[EngineSettings.framework] or "").lower(), release(config[EngineSettings.framework_version])
    rows = _BY_RELEASE.get(named, ()) if found else ()
    return next((values for since, until, values in rows if since <= found < until), {})


def with_recipe(config: Config, name: str) -> tuple[Config, list[Assumption]]:
    """Return a config with what the framework sets for a model of this name, and what that was."""
    framework = (config[EngineSettings.framework] or "").lower()
    row, source = (
        {**DEFAULTS.get(framework, {}), **_of_release(config)},
        f"{config[EngineSettings.framework]}'s default",
    )
    usual = _IN_FP8.get(config[Training.compute_dtype] or config[Training.precision])
    preset = PRECISIONS.get(config[EngineSettings.fp8_recipe] or usual, {})
    if framework == "nemo":
        row, source = {**row, **preset}, "NeMo's recipes"
    if "bridge" in framework:
        row = {**BRIDGE, **preset, **next((values for part, values in RECIPES.items() if part in name.lower()), {})}
        source = "Megatron Bridge's recipe for this model"
        if _is_benchmark(config, name.lower()):
            row = {**row, **BENCHMARK}
            source = "Megatron Bridge's performance recipe for this model and GPU count"
    noted = []
    for path, value in row.items():
        if config.get(path) is None:
            config = config.replaced(path, value)
            noted.append(Assumption(path, value, source, notable=True))
    return config, noted
