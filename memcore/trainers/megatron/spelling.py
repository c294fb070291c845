"""Settings as Megatron-LM spells them.

Source: Megatron-LM, megatron/training/arguments.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.engine import EngineSettings
from memcore.config.parallelism import Parallelism
from memcore.config.training import Training
from memcore.trainers.megatron.settings import MegatronSettings
from memcore.trainers.pytorch.spelling import ALLOCATOR, EVERYWHERE, TORCHRUN

_MEGATRON: Mapping[str, object] = {
    **EVERYWHERE,
    Training.activation_checkpointing.policy: {
        "full": "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
        "selective": "--recompute-granularity selective",
    },
    Training.activation_checkpointing.modules: "--recompute-modules {}",
    Training.micro_batch_size: "--micro-batch-size {}",
    Training.sequence_length: "--seq-length {}",
    Training.loss: {"vocab-parallel": "--cross-entropy-loss-fusion"},
    MegatronSettings.distributed_optimizer: {True: "--use-distributed-optimizer"},
    MegatronSettings.precision_aware_optimizer: {True: "--use-precision-aware-optimizer"},
    MegatronSettings.grad_reduce_in_bf16: {True: "--grad-reduce-in-bf16"},
    Parallelism.tensor_parallel_size: "--tensor-model-parallel-size {}",
    Parallelism.sequence_parallel: {True: "--sequence-parallel"},
    Parallelism.context_parallel_size: "--context-parallel-size {}",
    Parallelism.pipeline_parallel_size: "--pipeline-model-parallel-size {}",
    Parallelism.virtual_pipeline_parallel_size: "--num-virtual-stages-per-pipeline-rank {}",
    Parallelism.expert_parallel_size: "--expert-model-parallel-size {}",
    Parallelism.expert_tensor_parallel_size: "--expert-tensor-parallel-size {}",
}
SIZES: Mapping[str, Mapping[str, str]] = {"megatron": {"step": "--global-batch-size {}"}}
"""By dialect: sequences of a step."""
SPELLING: Mapping[str, Mapping[str, object]] = {"megatron": _MEGATRON}
"""By dialect and path: a text with the value in it, or a text for each value."""
MEGATRON_NAMES: Mapping[str, str] = {
    **ALLOCATOR,
    **TORCHRUN,
    "model": "--num-layers, --hidden-size",
    EngineSettings.type: "pretrain_gpt.py",
    MegatronSettings.transformer_impl: "--transformer-impl",
    Training.gradient_accumulation_steps: "--global-batch-size",
    Training.precision: "--bf16, --fp16",
    Training.implementation: "--transformer-impl",
    Training.gradient_dtype: "--accumulate-allreduce-grads-in-fp32",
    Training.loss: "--cross-entropy-loss-fusion",
}
TOOL_NAMES: Mapping[str, Mapping[str, str]] = {"megatron": MEGATRON_NAMES, "megatron-fsdp": MEGATRON_NAMES}
"""By engine and path, for settings that its tool has no key of its own for: the argument or call that sets them."""
