"""What ZeRO sends in a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memcore.trace.job import Job
from memcore.trainers.deepspeed.told import ZeroPlan


def zero(job: Job) -> tuple[int, int, int]:
    """Stage 2 reduces in every micro-batch, stage 1 once; stage 3 gathers for each forward and backward pass."""
    plan, count = job.recipe.plan(ZeroPlan), job.micro_batches
    stage = 0 if plan is None else plan.stage
    return ((1, 0, 1), (job.sizes["z"], 1, 1), (job.sizes["z"], 1, count), (job.sizes["z"], 2 * count, count))[stage]


TRAFFIC: Mapping[str, Callable[[Job], tuple[int, int, int]]] = {
    f"deepspeed{stage}": zero for stage in ("", "3", "3-offload")
}
"""By the key of an engine: over how many ranks parameters or states are sharded, and how often a step gathers and
reduces."""
