"""What lies outside a server's allocator: the CUDA context and NCCL's buffers."""

from __future__ import annotations

from collections.abc import Iterable
from math import hypot

from memcore.hardware import Accelerator, communicators, context
from memcore.memory.ledger import Entry, Range
from memcore.serving.devices import switched
from memcore.serving.entries import observed

CATEGORY = "outside the allocator"
_UNEXPLAINED = 0.012
"""A share of the GPU. Of public starts whose checkpoint, version and share of the GPU are known, and from which nothing
was derived, six of seven leave as much for the cache as predicted, give or take this."""


def uncertainty(entries: Iterable[Entry], capacity: int | None) -> tuple[int, int]:
    """Return how much less and how much more entries may take, and what all that is known does not explain.

    They are independent of each other, so that squares are added.
    """
    ranges = [(entry.bytes - entry.low, entry.high - entry.bytes) for entry in entries]
    rest = _UNEXPLAINED * (capacity or 0)
    below, above = (hypot(rest, *side) for side in zip(*ranges, strict=True)) if ranges else (rest, rest)
    return int(below), int(above)


def context_and_nccl(accelerator: Accelerator | None, gpus: int) -> list[Entry]:
    """There before anything is loaded; observed, not derived."""
    over = context(accelerator)
    bounds = Range(over.low, over.expected, over.high)
    found = [observed("CUDA context and kernels", CATEGORY, bounds, over.source, "by architecture")]
    if gpus > 1:
        nccl = communicators(1)
        bounds = Range(nccl.low, nccl.expected, nccl.high)
        if not switched(accelerator):
            # Without NVLink it has few channels: none of a start of SGLang on four L4 sees any.
            bounds = Range(0, nccl.low, 2 * nccl.expected)
        found.append(observed("NCCL buffers", CATEGORY, bounds, nccl.source, "channels × connections"))
    return found
