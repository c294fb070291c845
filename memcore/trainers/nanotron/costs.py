"""What nanotron sends in a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf

from memcore.trace.job import Job
from memcore.trace.traffic import Traffic
from memcore.trainers.nanotron.step_plan import NanotronPlan


def _nanotron(job: Job) -> Traffic:
    """Gradients are summed once, during the last backward pass; under ZeRO-1 parameters are gathered after the step.

    Source: nanotron, engine.py (hooks of DistributedDataParallel, no_sync until the last micro-batch) and
    optim/zero.py (_all_gather_params at the end of step).
    """
    plan = job.recipe.plan(NanotronPlan)
    sharded = plan is not None and plan.zero_stage
    if sharded:
        return Traffic(job.sizes["z"], 1, 1, "nothing", "one", inf, _BUCKET)
    return Traffic(1, 0, 1, "nothing", "one", reduced=_BUCKET)


_BUCKET = 25 * 2**20 / 4
"""Elements of a bucket of DistributedDataParallel (bucket_cap_mb), whose gradients are in fp32; parameters are gathered
together (optim/zero.py: all_gather_coalesced)."""
TRAFFIC: Mapping[str, Callable[[Job], Traffic]] = {
    "nanotron": _nanotron,
}
"""By the key of an engine: over how many ranks parameters or states are sharded, and how often a step gathers and
reduces."""


def layer_launched(job: Job) -> float:
    """Seconds of the host for a layer of a micro-batch, forward and backward passes together.

    Measured: with tensor parallelism over 2, 4 and 8 GPUs a micro-batch of one sequence takes 70 to 74 ms in sixteen
    layers of width 2,048, whatever each GPU has to compute (nanotron/ultrascale-playbook, assets/data/benchmarks).
    """
    return 4.5e-3 if job.sizes["tp"] > 1 else 1e-3


PASSED = 0.02
"""Seconds that hosts wait for each other where a micro-batch passes between stages, for each tensor-parallel rank: they
exchange shapes first, and read them (parallel/pipeline_parallel/p2p.py). Measured: 20 to 50 ms for each rank of tensor
parallelism on two nodes and more (nanotron/ultrascale-playbook, assets/data/benchmarks)."""
