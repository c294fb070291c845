"""What ZeRO sends in a step of Megatron-DeepSpeed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memcore.trace.job import Job
from memcore.trace.traffic import Traffic
from memcore.trainers.deepspeed.costs import zero

TRAFFIC: Mapping[str, Callable[[Job], Traffic]] = {
    f"megatron-deepspeed{stage}": zero for stage in ("", "3", "3-offload")
}
"""By the key of an engine: over how many ranks parameters or states are sharded, and how often a step gathers and
reduces."""

STOPS_EARLY = False
"""Checkpoints run all of a layer again (Megatron-DeepSpeed, core/tensor_parallel/random.py, `CheckpointFunction`)."""


def fuses(job: Job) -> bool:
    """Return whether norms, rotations and activations are fused: always (Megatron-LM, fusions/)."""
    return True
