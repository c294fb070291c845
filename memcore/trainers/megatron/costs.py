"""What Megatron-Core sends in a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memcore.trace.job import Job
from memcore.trainers.megatron.settings import MegatronSettings


def _megatron(job: Job) -> tuple[int, int, int]:
    """Gradients are summed once; with the distributed optimizer parameters are gathered after the step.

    Megatron-FSDP's last strategies reduce in every micro-batch, and gather for every pass.
    """
    count, strategy = job.micro_batches, job.config.get(MegatronSettings.data_parallel_sharding_strategy)
    often = {"optim": (1, 1), "optim_grads": (1, count), "optim_grads_params": (2 * count, count)}.get(strategy)
    if often is not None:
        return (job.sizes["z"], *often)
    return (job.sizes["z"], 1, 1) if job.config.get(MegatronSettings.distributed_optimizer) else (1, 0, 1)


TRAFFIC: Mapping[str, Callable[[Job], tuple[int, int, int]]] = {
    "megatron": _megatron,
    "megatron-fsdp": _megatron,
}
"""By the key of an engine: over how many ranks parameters or states are sharded, and how often a step gathers and
reduces."""
HIDDEN_BYTES = 20
"""Bytes for each element of the residual stream that a layer's fused kernels move (Megatron-LM, fusions/)."""
