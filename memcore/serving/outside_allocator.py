"""What lies outside a server's allocator: the CUDA context and NCCL's buffers."""

from __future__ import annotations

from collections.abc import Iterable
from math import hypot

from memcore.hardware import Accelerator, communicators, context
from memcore.memory.ledger import Entry, Range
from memcore.serving.devices import switched
from memcore.serving.entries import observed
from memcore.units import GiB

CATEGORY = "outside the allocator"
_UNEXPLAINED = 0.012
"""A share of the GPU. Of public starts whose checkpoint, version and share of the GPU are known, and from which nothing
was derived, six of seven leave as much for the cache as predicted, give or take this."""


_RCCL = dict.fromkeys(("gfx942", "gfx950"), int(8.6 * GiB))
"""RCCL's buffers, by the architectures that logs show. Fitted to one log: 182.63 of 191.98 GiB are free on each of four
MI300X before SGLang 0.5.11 loads DeepSeek-V4-Flash, of which one GPU alone has 0.7 less. Three starts on four and eight
MI355X have as much less than with NCCL's."""


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
        if accelerator is not None and accelerator.capability in _RCCL:
            rccl = _RCCL[accelerator.capability]
            bounds = Range(nccl.low, rccl, int(1.15 * rccl))
        elif not switched(accelerator):
            # Without NVLink it has few channels: none of a start of SGLang on four L4 sees any.
            bounds = Range(0, nccl.low, 2 * nccl.expected)
        found.append(observed("NCCL buffers", CATEGORY, bounds, nccl.source, "channels × connections"))
    return found
