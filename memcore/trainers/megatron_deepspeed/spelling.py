"""Settings as Megatron-DeepSpeed spells them.

Source: Megatron-DeepSpeed, megatron/arguments.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.parallelism import Parallelism
from memcore.config.training import Training
from memcore.trainers.deepspeed.settings import DeepSpeedSettings
from memcore.trainers.megatron.spelling import MEGATRON_NAMES

_MEGATRON_DEEPSPEED_NAMES: Mapping[str, str] = {
    **MEGATRON_NAMES,
    DeepSpeedSettings.zero_init: "deepspeed.zero.Init",
    Training.sequence_length: "--seq-length",
    Training.gradient_clipping: "gradient_clipping",
    Training.dropout.hidden: "--hidden-dropout",
    Training.dropout.attention: "--attention-dropout",
    Parallelism.tensor_parallel_size: "--tensor-model-parallel-size",
    Parallelism.pipeline_parallel_size: "--pipeline-model-parallel-size",
    Training.activation_checkpointing.policy: "--recompute-granularity",
}
TOOL_NAMES: Mapping[str, Mapping[str, str]] = {"megatron-deepspeed": _MEGATRON_DEEPSPEED_NAMES}
"""By engine and path, for settings that its tool has no key of its own for: the argument or call that sets them."""
