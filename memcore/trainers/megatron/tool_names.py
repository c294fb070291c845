"""The arguments and calls of Megatron-LM.

Source: Megatron-LM, megatron/training/arguments.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.engine import EngineSettings
from memcore.config.training import Training
from memcore.trainers.megatron.settings import MegatronSettings
from memcore.trainers.pytorch.tool_names import ALLOCATOR, TORCHRUN

MEGATRON_NAMES: Mapping[str, str] = {
    **ALLOCATOR,
    **TORCHRUN,
    "model": "--num-layers, --hidden-size",
    EngineSettings.type: "pretrain_gpt.py",
    MegatronSettings.transformer_impl: "--transformer-impl",
    Training.gradient_accumulation_steps: "--global-batch-size",
    Training.precision: "--bf16, --fp16",
    Training.gradient_dtype: "--accumulate-allreduce-grads-in-fp32",
    Training.implementation: "--transformer-impl",
    Training.loss: "--cross-entropy-loss-fusion",
}
TOOL_NAMES: Mapping[str, Mapping[str, str]] = {"megatron": MEGATRON_NAMES, "megatron-fsdp": MEGATRON_NAMES}
"""By engine and path, for settings that its tool has no key of its own for: the argument or call that sets them."""
