"""What nanotron sends in a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf

from memcore.config.devices import node_of
from memcore.trace.job import Job
from memcore.trace.traffic import Traffic
from memcore.trainers.nanotron.step_plan import NanotronPlan


def _nanotron(job: Job) -> Traffic:
    """Gradients are summed once, during the last backward pass; under ZeRO-1 parameters are gathered after the step.

    Every rank gets all sums, under ZeRO-1 too: the hook of DistributedDataParallel knows no reduce-scatter. Source:
    nanotron, engine.py (hooks of DistributedDataParallel, no_sync until the last micro-batch),
    optim/gradient_accumulator.py (get_fp32_accum_hook: all_reduce_coalesced; reduce_scatter is not implemented) and
    optim/zero.py (_all_gather_params at the end of step).
    """
    plan = job.recipe.plan(NanotronPlan)
    sharded = plan is not None and plan.zero_stage
    if sharded:
        return Traffic(job.sizes["z"], 1, 1, "nothing", "one", inf, _BUCKET, all_reduces=True)
    return Traffic(1, 0, 1, "nothing", "one", reduced=_BUCKET)


_BUCKET = 25 * 2**20 / 2
"""Elements of a bucket of DistributedDataParallel (bucket_cap_mb of parameters in 16 bits, whose gradients are summed
in fp32); parameters are gathered together (optim/zero.py: all_gather_coalesced)."""
TRAFFIC: Mapping[str, Callable[[Job], Traffic]] = {
    "nanotron": _nanotron,
}
"""By the key of an engine: over how many ranks parameters or states are sharded, and how often a step gathers and
reduces."""


def layer_launched(job: Job) -> float:
    """Seconds of the host for a layer of a micro-batch, forward and backward passes together.

    Measured with one sequence at once (nanotron/ultrascale-playbook, assets/data/benchmarks): with tensor parallelism
    over 2 to 8 GPUs 4.4 to 4.6 ms whatever the width and the number of nodes. Where a pipeline crosses nodes, ranks of
    tensor parallelism wait longer for each other: 10 ms over 2 GPUs, 14 to 16 over 4, 24 to 28 over 8.
    """
    tensor = job.sizes["tp"]
    if tensor == 1:
        return 1e-3
    node = node_of(job.config)
    return 4.5e-3 + (2.5e-3 * tensor if job.stages > 1 and job.num_gpus > node else 0.0)


PASSED = 0.003
"""Seconds that hosts wait for each other where a micro-batch passes between stages, for each tensor-parallel rank: they
exchange shapes first, and read them (parallel/pipeline_parallel/p2p.py). Measured: 10 to 25 ms over 4 and 8 ranks of
tensor parallelism beyond what layers take (the same)."""
