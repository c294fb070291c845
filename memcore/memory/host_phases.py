"""Host memory of a node over a job: while the model is loaded, during steps, and while it is saved.

Sources: transformers 5.23, modeling_utils.py (`from_pretrained`: on the host, and with FSDP only in the first process
of a node; `save_pretrained`: files of at most 50 GB); torchtitan, train.py (the model is built without memory and read
into its shards); safetensors/torch.py (`_flatten`: a file's tensors as bytes);
torch/distributed/checkpoint/state_dict.py (`full_state_dict` with `cpu_offload`: all of it in rank 0).
"""

from __future__ import annotations

from collections.abc import Iterator

from memcore.config.hardware import Hardware
from memcore.dtypes import ITEMSIZE
from memcore.memory.communicators import node
from memcore.memory.host import ALWAYS
from memcore.memory.rank import Rank
from memcore.records import dataclass
from memcore.symbols import product
from memcore.trace.job import Job

FILE = 50 * 10**9
"""Bytes of the largest file that transformers writes."""
_FROM_PRETRAINED = ("transformers", "liger", "unsloth")
"""Implementations whose models transformers loads."""


@dataclass(frozen=True, slots=True)
class HostPhase:
    """One of them."""

    name: str
    """load, step or save."""
    title: str
    bytes: int
    """The most that the processes of a node hold together."""
    each: int
    """The most that one of them holds."""
    because: str


def host_phases(rank: Rank) -> tuple[HostPhase, ...]:
    """Return the phases of a job on the node of its first process; of PyTorch's own engines, without pipelines."""
    return tuple(_phases(rank))


def processes(job: Job) -> int:
    """Processes of a node, one for each of its GPUs."""
    return min(job.num_gpus, node(job.accelerator, job.config[Hardware.gpus_per_node]))


def _phases(rank: Rank) -> Iterator[HostPhase]:
    job, count = rank.job, processes(rank.job)
    kept = sum(each.bytes for each in rank.host)
    if not job.engine.native or job.recipe.pipeline is not None or job.sizes["tp"] > 1:
        yield _during(kept, count)
        return
    yield _loading(job, sum(each.bytes for each in rank.host if each.because == ALWAYS), count)
    yield _during(kept, count)
    yield _saving(job, kept, count)


def _during(kept: int, count: int) -> HostPhase:
    because = "offloaded shards, states and activations" if kept else "nothing is offloaded"
    return HostPhase("step", "Steps", kept * count, kept, because)


def _loading(job: Job, kept: int, count: int) -> HostPhase:
    title = "Loading"
    if job.recipe.implementation not in _FROM_PRETRAINED:
        because = "the model is built without memory, and read into its shards"
        return HostPhase("load", title, kept * count, kept, because)
    if job.recipe.quantization is not None:
        largest = max(product(weight.shape, job.sizes) for weight, _, _ in job.share.tensors)
        single = largest * ITEMSIZE[job.recipe.quantization.stored]
        return HostPhase("load", title, single * count, single, "a matrix at a time, on its way to the GPU")
    whole = _whole(job)
    if job.engine.shards:
        because = "the whole model in the first process of each node, which sends it to the others"
        return HostPhase("load", title, whole + kept * count, whole + kept, because)
    because = "the whole model in every process, before it goes to the GPU"
    return HostPhase("load", title, (whole + kept) * count, whole + kept, because)


def _saving(job: Job, kept: int, count: int) -> HostPhase:
    sharded = job.engine.shards and job.sizes["z"] > 1
    written = _whole(job) if sharded else min(_whole(job), FILE)
    because = "the full state dict in rank 0" if sharded else "the tensors of one file, in the process that writes it"
    return HostPhase("save", "Saving", written + kept * count, written + kept, because)


def _whole(job: Job) -> int:
    """Return bytes of all parameters, before anything is divided."""
    stored = job.recipe.precision.parameter
    return sum(
        product(weight.stored_shape, job.sizes) * ITEMSIZE[weight.dtype or stored] * count
        for weight, _, count in job.share.tensors
    )
