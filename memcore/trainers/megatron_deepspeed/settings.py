"""What Megatron-DeepSpeed takes; its own settings are DeepSpeed's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcore.config.parallelism import Parallelism
from memcore.config.schema import Setting
from memcore.config.training import Training
from memcore.trainers.deepspeed.settings import OWN_OFFLOADING

SECTIONS = ()
TAKES: Mapping[str, tuple[Setting[Any], ...]] = {
    "megatron-deepspeed": (
        Training.offload.optimizer,
        Training.offload.parameters,
        Parallelism.data_parallel_size,
        Parallelism.pipeline_parallel_size,
        Parallelism.pipeline_schedule,
        Parallelism.expert_parallel_size,
        Parallelism.ulysses_parallel_size,
    ),
}
"""What of the settings that engines have in common each of these takes."""
REFUSED: Mapping[str, tuple[str, ...]] = {
    "megatron-deepspeed": (
        *OWN_OFFLOADING, Training.parameter_dtype, Training.compute_dtype, Training.adapter.type, Training.loss_shift,
        Training.liger_kernels, Training.tiled_mlp,
    ),
}  # fmt: skip
"""Settings that every engine could have, but this one refuses whatever their value."""
