"""Whole parameters for each rank: how the layer-wise distributed optimizer shares them out.

Source: Megatron-LM, core/optimizer/layer_wise_optimizer.py: `_compute_per_buffer_param_layout`, by what the update of a
matrix costs, in buffers whose parts are equally long; `_shard_params_ping_pong`, by size, without such a layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from math import lcm

from memcore.records import dataclass
from memcore.symbols import round_up

_START = 64
"""Elements that the beginning of a parameter is aligned to."""
_BUCKET = 128
"""Elements that a bucket's end is aligned to, in addition to the ranks that split it."""
_CAP = 1.3
"""How much more than an even part of a bucket a rank may have (`1 + _NUMEL_EPSILON`)."""
_FLOOR = 0.9
"""A bucket is at least this part of its largest parameter on every rank (`PADDING_FLOOR`)."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """One parameter: an index into what the caller has, and its sides; what is no matrix has one side."""

    index: int
    sides: tuple[int, ...]
    size: int

    @property
    def cost(self) -> int:
        """Of its update: the longer side times the square of the shorter one."""
        return max(self.sides) * min(self.sides) ** 2 if len(self.sides) == 2 else self.size


@dataclass(frozen=True, slots=True)
class Shares:
    """What every rank has, and how long a buffer of everything is."""

    ranks: tuple[tuple[int, ...], ...]
    """Indices."""
    length: int
    """Elements, with padding."""


def ping_pong(parameters: Sequence[Matrix], ranks: int) -> Shares:
    """From the smallest to the largest: forth and back over the ranks."""
    found: list[list[int]] = [[] for _ in range(ranks)]
    turns = [*range(ranks), *reversed(range(ranks))]
    for number, each in enumerate(sorted(parameters, key=lambda each: each.size)):
        found[turns[number % len(turns)]].append(each.index)
    return Shares(tuple(map(tuple, found)), sum(each.size for each in parameters))


def laid_out(parameters: Sequence[Matrix], ranks: int, bucket: int | None) -> Shares:
    """In buckets of the order in which gradients come, each divided equally; `bucket`: the least elements of one."""
    layout = _Layout(ranks)
    for each in reversed(parameters):
        if bucket is not None and layout.waiting:
            enough = layout.elements >= max(bucket, int(ranks * layout.largest * _FLOOR))
            if enough and not layout.absorbs(each.size):
                layout.emit()
        layout.place(each)
    layout.emit()
    return Shares(tuple(map(tuple, layout.found)), layout.length)


@dataclass(slots=True)
class _Layout:
    """A layout in the making."""

    ranks: int
    length: int = 0
    found: list[list[int]] = field(default_factory=list)
    waiting: list[Matrix] = field(default_factory=list)
    costs: list[int] = field(default_factory=list)
    """Of what each rank has so far."""
    loads: list[int] = field(default_factory=list)
    """Elements that the bucket in the making is expected to have for each rank."""

    def __post_init__(self) -> None:
        self.found = [[] for _ in range(self.ranks)]
        self.costs, self.loads = [0] * self.ranks, [0] * self.ranks

    @property
    def divisor(self) -> int:
        """Return what a rank's part of a bucket is aligned to."""
        return lcm(_START, lcm(self.ranks, _BUCKET) // self.ranks)

    @property
    def elements(self) -> int:
        """Of the bucket in the making."""
        return sum(each.size for each in self.waiting)

    @property
    def largest(self) -> int:
        """Of its parameters."""
        return max((each.size for each in self.waiting), default=0)

    def absorbs(self, size: int) -> bool:
        """Return whether a parameter fits into the padding."""
        return round_up(min(self.loads), _START) + size <= round_up(max(self.loads), self.divisor)

    def place(self, each: Matrix) -> None:
        """A parameter joins the bucket."""
        least = min(range(self.ranks), key=lambda rank: self.loads[rank])
        self.loads[least] = round_up(self.loads[least], _START) + each.size
        self.waiting.append(each)

    def emit(self) -> None:
        """The bucket's parameters go to ranks: what costs most first, to the rank with the least work so far."""
        if not self.waiting:
            return
        cursors = [0] * self.ranks
        most = self.elements / self.ranks * _CAP
        for each in sorted(self.waiting, key=lambda each: -each.cost):
            fitting = [rank for rank in range(self.ranks) if round_up(cursors[rank], _START) + each.size <= most]
            least = self.costs if fitting else cursors
            rank = min(fitting or range(self.ranks), key=lambda rank: least[rank])
            cursors[rank] = round_up(cursors[rank], _START) + each.size
            self.costs[rank] += each.cost
            self.found[rank].append(each.index)
        self.length += self.ranks * round_up(max(cursors), self.divisor)
        self.waiting, self.loads = [], [0] * self.ranks
