"""What a model takes while it is loaded: the most that is in tensors, and what the allocator keeps of that.

bitsandbytes quantizes a model on its way to the GPU, and releases of transformers differ in how much of it is there in
16 bits meanwhile (`Quantization.loading`). The allocator keeps what it got then, unless a loop empties its cache.
"""

from __future__ import annotations

from memcore.dtypes import ITEMSIZE
from memcore.hardware import context
from memcore.symbols import product
from memcore.trace.job import Job
from memcore.units import GiB

_ADAPTER = "adapter"
"""The kind of weights that are made when the model is loaded."""
_SPARED = round(1.2 * GiB)
"""What `caching_allocator_warmup` leaves of a GPU."""


def largest_quantized(job: Job) -> int:
    """Return bytes that the largest matrix has before it is quantized; 0 if none is."""
    how = job.recipe.quantization
    sizes = [product(w.shape, job.sizes) for w, _, _ in job.share.tensors if w.quantized is not None]
    return 0 if how is None else max(sizes, default=0) * ITEMSIZE[how.stored]


def whole(job: Job, *, stacked: bool = True) -> int:
    """Return bytes of the model in 16 bits, without adapters; if not `stacked`, stacked experts have been quantized."""
    how = job.recipe.quantization
    if how is None:
        return 0

    found = 0.0
    for weight, _, count in job.share.tensors:
        if weight.kind != _ADAPTER:
            few = weight.quantized is not None and len(weight.axes) > 2 and not stacked
            found += product(weight.shape, job.sizes) * count * (how.bits / 8 if few else ITEMSIZE[how.stored])
    return round(found)


def reads_ahead(job: Job) -> bool:
    """Return whether matrices reach the GPU while others are quantized."""
    how = job.recipe.quantization
    return how is not None and how.loading == "ahead"


def loaded(job: Job, after_init: int, *, most: bool = False) -> int:
    """Return the peak bytes in tensors; with `most`, threads have also read stacked experts ahead."""
    return max(
        after_init + max(largest_quantized(job), _cast_ends(job)), whole(job, stacked=most) if reads_ahead(job) else 0
    )


def kept_of_loading(job: Job, after_init: int, *, most: bool = False) -> int:
    """Bytes that the allocator has reserved when the model is loaded, as far as releases differ; 0 if they do not."""
    how = job.recipe.quantization
    if how is None or job.recipe.fake:
        return 0
    if how.loading != "half":
        return loaded(job, after_init, most=most)
    room = None if job.capacity is None else job.capacity - context(job.accelerator).expected - _SPARED
    size = whole(job)
    half = (size if room is None else max(min(size, room), 0)) // 2
    return max(half, after_init) + _outside(half - after_init, [end * ITEMSIZE["fp32"] for end in _cast(job)])


def _outside(room: int, sizes: list[int]) -> int:
    """Return bytes of tensors for which what is free of one block has no room left, one after the other."""
    beyond = 0
    for size in sizes:
        if size > room:
            beyond += size
        else:
            room -= size
    return beyond


def _cast(job: Job) -> list[int]:
    """Return elements of embedding and output head, where they are cast to fp32 and back."""
    how = job.recipe.quantization
    if how is None or not how.casts_ends:
        return []
    kinds = ("embedding", "head")
    return [product(w.shape, job.sizes) * count for w, _, count in job.share.tensors if w.kind in kinds]


def _cast_ends(job: Job) -> int:
    """Bytes beyond those that stay when the last of embedding and head is cast to fp32, or the first one back."""
    how, sizes = job.recipe.quantization, _cast(job)
    if how is None or not sizes:
        return 0
    return sum(sizes) * (ITEMSIZE["fp32"] - ITEMSIZE[how.stored]) + max(sizes) * ITEMSIZE[how.stored]
