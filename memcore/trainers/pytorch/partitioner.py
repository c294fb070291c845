"""What PyTorch's partitioner keeps of a compiled block under an activation memory budget.

Source: torch/_functorch/partitioners.py (`choose_saved_values_set`, `get_default_op_list`, `estimate_runtime`) and
torch/_functorch/_activation_checkpointing/knapsack.py (`dp_knapsack`). The partitioner cuts a block's graph up to
three times, each time allowed to compute more again: first what it would anyway, then all that is on its list of cheap
operations, then all but products, attention and reductions. The first cut that stays below the budget is taken. If
none does, a knapsack is filled with results of the last kind, those that take longest to compute.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from struct import pack, unpack

from memcore.records import dataclass

CHEAP = 0
"""Kept only where nothing needs to be saved: pointwise results that the backward pass reads."""
UNLISTED = 1
"""Results of operations that are not on the partitioner's list of what may be computed again, such as `cat`."""
COSTLY = 2
"""Results of matrix products and attention kernels that it calls compute-intensive, and of reductions."""

Name = tuple[str, int]
"""An operation, and how many of its kind ran before."""

_STEPS = 10000
"""The number of parts into which `dp_knapsack` divides all memory."""


@dataclass(frozen=True, slots=True)
class Result:
    """What an operation of a block returns and the backward pass reads."""

    name: Name
    size: int
    """Bytes."""
    cost: int
    """How it may be computed again: CHEAP, UNLISTED or COSTLY."""
    runtime: int = 1
    """Floating-point operations, at least 1 (`torch.utils.flop_counter`)."""
    instead: int = 0
    """Bytes of inputs that the backward pass need not read where it has this."""


def kept(results: Sequence[Result], unread: int, budget: float) -> frozenset[Name]:
    """Return what stays in memory, in addition to the block's inputs, under a budget from 0 to 1.

    `results`: in the order of the block's graph; `unread`: bytes of its inputs that the backward pass does not read,
    which count as memory of a checkpoint around the block, and so are subtracted from what is above that.
    """
    if budget == 0:
        return frozenset()
    everything = _size(results) - unread
    if everything <= 0:
        return _names(results)
    for cost in (CHEAP, UNLISTED, COSTLY):
        found = [each for each in results if each.cost >= cost]
        if cost == CHEAP and budget == 1:
            return _names(found)
        if cost != CHEAP and (_size(found) - unread) / everything < budget:
            return _names(found)
    costly = sorted(found, key=lambda each: each.size, reverse=True)
    return _names(_filled(costly, everything / 1e9, budget))


def _size(results: Sequence[Result]) -> int:
    return sum(each.size - each.instead for each in results)


def _names(results: Sequence[Result]) -> frozenset[Name]:
    return frozenset(each.name for each in results)


class _Row:
    """The most runtime that fits into each room: a step function, as starts and values."""

    def __init__(self, starts: list[int], values: list[float]) -> None:
        self.starts, self.values = starts, values

    def at(self, room: int) -> float:
        """Return the value for a room."""
        return self.values[bisect_right(self.starts, room) - 1]

    def with_item(self, size: int, runtime: float, most: int) -> _Row:
        """Return the best choices with one more item, up to a room."""
        if not size:
            return _Row(self.starts, [_single(value + runtime) for value in self.values])
        moved = [start + size for start in self.starts if start + size <= most]
        starts = sorted({*self.starts, *moved})
        return _Row(starts, [self._best_runtime(start, size, runtime) for start in starts])

    def _best_runtime(self, room: int, size: int, runtime: float) -> float:
        without = self.at(room)
        return without if room < size else max(without, _single(self.at(room - size) + runtime))


def _filled(items: Sequence[Result], scale: float, budget: float) -> list[Result]:
    """Return the knapsack (`dp_knapsack`): sizes are rounded to ten-thousandths, runtimes are added in fp32."""
    sizes = [round(each.size / 1e9 / scale * _STEPS) for each in items]
    room = round(budget * _STEPS)
    rows = [_Row([0], [0.0])]
    for item, size in zip(items, sizes, strict=True):
        rows.append(rows[-1].with_item(size, _single(item.runtime), room))
    found = []
    for number in range(len(items), 0, -1):
        if rows[number].at(room) != rows[number - 1].at(room):
            found.append(items[number - 1])
            room -= sizes[number - 1]
    return found


def _single(value: float) -> float:
    """Return a number in fp32."""
    rounded: float = unpack("f", pack("f", value))[0]
    return rounded
