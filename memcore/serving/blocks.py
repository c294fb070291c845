"""What PyTorch's allocator sets aside for a tensor that stays: `allocated_bytes` counts blocks, not requests.

Source: c10/cuda/CUDACachingAllocator.cpp (PyTorch 2.10): requests of at least 10 MiB get a segment of their own,
rounded up to 2 MiB, whose end is split off only if it is larger than 1 MiB.
"""

from __future__ import annotations

from memcore.memory.allocator import LARGE_SEGMENT, ROUNDING, SMALL

_ALIGNMENT = 512


def block(size: int) -> int:
    """Bytes of the block that serves a request.

    >>> block(100), block(11 * 2**20), block(11 * 2**20 - 1), block(12 * 2**20 + 512)
    (512, 12582912, 12582912, 12583424)
    """
    aligned = -(-size // _ALIGNMENT) * _ALIGNMENT
    if aligned < LARGE_SEGMENT // 2:
        return aligned
    segment = -(-aligned // ROUNDING) * ROUNDING
    return aligned if segment - aligned > SMALL else segment
