"""What PyTorch's engines send in a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memcore.trace.job import Job


def _fsdp(job: Job) -> tuple[int, int, int]:
    """Each micro-batch gathers for its forward pass, and again for its backward pass if it has let go.

    Stages of a pipeline reduce once, and gather once if they keep what they have (torchtitan, pipeline_llama).
    """
    sharding, count = job.recipe.sharding, job.micro_batches
    again = 2 if sharding.reshard_after_forward is not False else 1
    if job.stages > 1:
        return job.sizes["z"], count * again if again > 1 else 1, 1
    return job.sizes["z"], count * again, count if sharding.syncs_every_micro_batch else 1


def _ddp(job: Job) -> tuple[int, int, int]:
    """Nothing is sharded; gradients are summed."""
    return 1, 0, job.micro_batches if job.recipe.sharding.syncs_every_micro_batch else 1


TRAFFIC: Mapping[str, Callable[[Job], tuple[int, int, int]]] = {
    "none": lambda job: (1, 0, 0),
    "ddp": _ddp,
    "fsdp": _fsdp,
    "fsdp1": _fsdp,
}
"""By the key of an engine: over how many ranks parameters or states are sharded, and how often a step gathers and
reduces."""
