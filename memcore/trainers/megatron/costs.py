"""What Megatron-Core sends in a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import inf

from memcore.trace.job import Job
from memcore.trace.traffic import Behind, Dispatch, Traffic
from memcore.trainers.megatron.resolve import MegatronJob
from memcore.trainers.megatron.settings import MegatronSettings
from memcore.trainers.megatron.step_plan import MegatronPlan
from memcore.trainers.pytorch.costs import DISPATCHERS


def _megatron(job: Job) -> Traffic:
    """Gradients are summed once; with the distributed optimizer parameters are gathered after the step.

    Both wait for the last backward pass and for the optimizer, unless `--overlap-grad-reduce` and
    `--overlap-param-gather` are set (core/distributed/distributed_data_parallel_config.py: False by default).
    Megatron-FSDP's last strategies reduce in every micro-batch, and gather for every pass.
    """
    count, strategy = job.micro_batches, job.config.get(MegatronSettings.data_parallel_sharding_strategy)
    often = {"optim": (1, 1), "optim_grads": (1, count), "optim_grads_params": (2 * count, count)}.get(strategy)
    if often is not None:
        return Traffic(job.sizes["z"], *often)
    gathers: Behind = "one" if job.config.get(MegatronSettings.overlap_param_gather) else "nothing"
    reduces: Behind = "one" if job.config.get(MegatronSettings.overlap_grad_reduce) else "nothing"
    shards = job.sizes["z"] if job.config.get(MegatronSettings.distributed_optimizer) else 1
    bucket = max(_BUCKET, 1e6 * shards) if gathers == "one" or reduces == "one" else inf
    return Traffic(shards, int(shards > 1), 1, gathers, reduces, bucket, bucket)


TRAFFIC: Mapping[str, Callable[[Job], Traffic]] = {
    "megatron": _megatron,
    "megatron-fsdp": _megatron,
}
"""By the key of an engine: over how many ranks parameters or states are sharded, and how often a step gathers and
reduces."""
_BUCKET = 40e6
"""Elements of a bucket of gradients where they are reduced during the backward pass; otherwise there is one for all
(core/distributed/distributed_data_parallel.py: max(40,000,000, 1,000,000 for each rank))."""


def fuses(job: Job) -> bool:
    """Whether norms, rotations and activations are fused: always (Megatron-LM, fusions/)."""
    return True


def dispatch(job: Job) -> Dispatch:
    """How tokens reach their experts; two micro-batches' passes may run together (`--overlap-moe-...`)."""
    plan = job.recipe.plan(MegatronPlan)
    found = DISPATCHERS["alltoall" if plan is None or plan.experts is None else plan.experts.dispatcher]
    return found._replace(hidden=bool(job.config.get(MegatronSettings.overlap_moe_expert_parallel_comm)))


def layers_of_ranks(job: Job) -> Iterator[int]:
    """Decoder layers that each rank of the pipeline has."""
    if not isinstance(job, MegatronJob):
        raise TypeError(job)
    return (sum(chunk.layers + chunk.predicts for chunk in chunks) for chunks in job.layout)
