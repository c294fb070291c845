"""What lies outside a server's allocator: the CUDA context and NCCL's buffers."""

from __future__ import annotations

from memcore.hardware import Accelerator, communicators, context
from memcore.serving.entries import Entry, Range, observed

CATEGORY = "outside the allocator"


def surroundings(accelerator: Accelerator | None, gpus: int) -> list[Entry]:
    """There before anything is loaded; observed, not derived."""
    over = context(accelerator)
    bounds = Range(over.low, over.expected, over.high)
    found = [observed("CUDA context and kernels", CATEGORY, bounds, over.source, "by architecture")]
    if gpus > 1:
        nccl = communicators(1)
        bounds = Range(nccl.low, nccl.expected, nccl.high)
        found.append(observed("NCCL buffers", CATEGORY, bounds, nccl.source, "channels × connections"))
    return found
