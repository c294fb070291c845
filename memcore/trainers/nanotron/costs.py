"""What nanotron sends in a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memcore.trace.job import Job
from memcore.trainers.nanotron.told import NanotronPlan


def _nanotron(job: Job) -> tuple[int, int, int]:
    """Gradients are summed once; under ZeRO-1 parameters are gathered after the step."""
    plan = job.recipe.plan(NanotronPlan)
    return (job.sizes["z"], 1, 1) if plan is not None and plan.zero_stage else (1, 0, 1)


TRAFFIC: Mapping[str, Callable[[Job], tuple[int, int, int]]] = {
    "nanotron": _nanotron,
}
"""By the key of an engine: over how many ranks parameters or states are sharded, and how often a step gathers and
reduces."""
