"""What PyTorch's allocator sets aside for a tensor that stays: `allocated_bytes` counts blocks, not requests.

Source: c10/cuda/CUDACachingAllocator.cpp (PyTorch 2.10): requests of at least 10 MiB get a segment of their own,
rounded up to 2 MiB, whose end is split off only if it is larger than 1 MiB.
"""

from __future__ import annotations

from memcore.memory.allocator import LARGE_SEGMENT, ROUNDING, SMALL
from memcore.symbols import round_up

_ALIGNMENT = 512


def block(size: int, whole: int | None = None) -> int:
    """Return bytes of the block that serves a request; those from `whole` on are not split (`max_split_size_mb`).

    >>> block(100), block(11 * 2**20), block(11 * 2**20 - 1), block(12 * 2**20 + 512)
    (512, 12582912, 12582912, 12583424)
    >>> block(24 * 2**20 + 512), block(24 * 2**20 + 512, 20 * 2**20)
    (25166336, 27262976)
    """
    aligned = round_up(size, _ALIGNMENT)
    if aligned < LARGE_SEGMENT // 2:
        return aligned
    segment = round_up(aligned, ROUNDING)
    splits = whole is None or size < whole
    return aligned if splits and segment - aligned > SMALL else segment
