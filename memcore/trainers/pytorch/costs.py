"""What PyTorch's engines send in a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memcore.trace.job import Job
from memcore.trace.traffic import Traffic


def _fsdp(job: Job) -> Traffic:
    """Each micro-batch gathers for its forward pass, and again for its backward pass if it has let go.

    Stages of a pipeline reduce once, and gather once if they keep what they have (torchtitan, pipeline_llama).
    """
    sharding, count = job.recipe.sharding, job.micro_batches
    again = 2 if sharding.reshard_after_forward is not False else 1
    if job.stages > 1:
        return Traffic(job.sizes["z"], count * again if again > 1 else 1, 1, reduces_behind="one")
    if sharding.syncs_every_micro_batch:
        return Traffic(job.sizes["z"], count * again, count)
    return Traffic(job.sizes["z"], count * again, 1, reduces_behind="one")


def _ddp(job: Job) -> Traffic:
    """Nothing is sharded; gradients are summed during the backward pass, or next to the last one."""
    if job.recipe.sharding.syncs_every_micro_batch:
        return Traffic(1, 0, job.micro_batches, reduced=_BUCKET)
    return Traffic(1, 0, 1, reduces_behind="one", reduced=_BUCKET)


_BUCKET = 25 * 2**20 / 4
"""Elements of a bucket of DistributedDataParallel with gradients in fp32 (bucket_cap_mb)."""
TRAFFIC: Mapping[str, Callable[[Job], Traffic]] = {
    "none": lambda job: Traffic(1, 0, 0),
    "ddp": _ddp,
    "fsdp": _fsdp,
    "fsdp1": _fsdp,
}
"""By the key of an engine: over how many ranks parameters or states are sharded, and how often a step gathers and
reduces."""
