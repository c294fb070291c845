"""The peak of a recorded step for many sizes: a program reduced to the few moments that can be its highest.

While a step runs, the bytes held are a sum over the shapes that occur: how often each is held, times its bytes. Within
runs of equal layers the counts grow linearly with the number of layers. A moment can be the peak only if no other holds
at least as much of everything, so nearly all of them drop out, whatever the sizes will be; those that are left give
exactly the maximum that `Program.moments` finds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from operator import ge, mul

from memcore.records import dataclass
from memcore.symbols import Axis, Quotient, Rounded, Shifted, Smaller, Total, measure
from memcore.tensors.tape import ALIGNMENT
from memcore.trace.program import Program, aligned

Vector = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Amount:
    """A number of bytes that sizes decide: a factor times axes, rounded up where it may not be a whole of blocks."""

    factor: int
    axes: tuple[Axis, ...]
    rounded: bool

    def bytes(self, sizes: Mapping[str, int]) -> int:
        """Return its value."""
        found = self.factor * prod([measure(axis, sizes) for axis in self.axes])
        return aligned(found) if self.rounded else found


def names(axis: Axis) -> Iterator[str]:
    """Yield the sizes that an axis is made of."""
    match axis:
        case str():
            yield axis
        case Quotient(numerator, divisor):
            for each in (*numerator, divisor):
                yield from names(each)
        case Rounded():
            yield from names(axis.axis)
        case Shifted() | Smaller():
            yield from names(axis.axis)
            yield from names(axis.other)
        case Total():
            for shape in axis.shapes:
                for each in shape:
                    yield from names(each)


@dataclass(frozen=True)
class Fixed:
    """Sizes that stay as they are while others vary, and what surely divides those."""

    sizes: Mapping[str, int]
    granules: Mapping[str, int]
    """For a size that varies, a number that divides all its values."""

    def amount(self, factor: int, axes: Sequence[Axis]) -> tuple[Amount, int]:
        """A shape's bytes as an amount and how often it is there: multiples of one another share their amount."""
        free: list[Axis] = []
        divisor = 1
        for axis in axes:
            if not any(name in self.granules for name in names(axis)):
                factor *= measure(axis, self.sizes)
                continue
            plain, split = self._plain(axis)
            divisor *= split
            free.append(plain)
        if factor % divisor:
            return Amount(factor, tuple(axes), rounded=True), 1
        factor //= divisor
        sure = factor * prod(self.granules.get(axis, 1) for axis in free if isinstance(axis, str))
        key = tuple(sorted(free, key=str))
        return (Amount(factor, key, rounded=True), 1) if sure % ALIGNMENT else (Amount(1, key, rounded=False), factor)

    def _plain(self, axis: Axis) -> tuple[Axis, int]:
        """Return a part of a size that surely divides equally, as that size and the divisor; else the axis."""
        if isinstance(axis, Quotient) and len(axis.numerator) == 1 and axis.numerator[0] in self.granules:
            size = axis.numerator[0]
            if not any(name in self.granules for name in names(axis.divisor)) and isinstance(size, str):
                divisor = measure(axis.divisor, self.sizes)
                if self.granules[size] % divisor == 0:
                    return size, divisor
        if isinstance(axis, Rounded) and axis.limit is None and isinstance(axis.axis, str):
            return (axis, 1) if self.granules.get(axis.axis, 1) % axis.multiple else (axis.axis, 1)
        return axis, 1


class Peaks:
    """What a program's peak can be, as sums over amounts."""

    def __init__(self, program: Program, fixed: Fixed) -> None:
        keys: dict[Amount, int] = {}
        units: list[tuple[int, int]] = []
        for factor, axes in program.shapes:
            amount, count = fixed.amount(factor, axes)
            units.append((keys.setdefault(amount, len(keys)), count))
        self.amounts = tuple(keys)
        self.runs = tuple(sorted({span.repeats for span in program.spans if span.repeats is not None}))
        moments, self.end = self._walk(program, units)
        self.candidates = _undominated(moments)

    def _walk(self, program: Program, units: Sequence[tuple[int, int]]) -> tuple[list[Vector], Vector]:
        """The counts at every local maximum of the last step, and at the end.

        The first counts are those with one layer for each name of repeats; then, for each name, what one more adds.
        """
        last = program.segments[-1].turn[0]
        level = [0] * len(self.amounts)
        more = {name: [0] * len(level) for name in self.runs}
        found: dict[Vector, None] = {}
        changes = [units[kind] for kind in program.kinds]
        for span in program.spans:
            before = list(level)
            tops = list(_tops(level, program.events[span.start : span.end], changes))
            counts = program.segments[span.segments[0]].turn[0] == last
            if counts:
                found.update(dict.fromkeys((*top, *_flat(more)) for top in tops))
            if span.repeats is not None:
                adds = zip(more[span.repeats], level, before, strict=True)
                more = {**more, span.repeats: [had + after - then for had, after, then in adds]}
                if counts:
                    found.update(dict.fromkeys((*top, *_flat(more)) for top in tops))
        return list(found), (*level, *_flat(more))

    def narrowed(self, low: Sequence[int], high: Sequence[int]) -> tuple[Vector, ...]:
        """Return the candidates that can be the highest while each amount is within a range."""
        return tuple(highest(self.candidates, low, high))


def highest(candidates: Sequence[Vector], low: Sequence[int], high: Sequence[int]) -> list[Vector]:
    """Sums of counts times weights that can be the highest, where each weight is within a range.

    One is out if another is at least as high even where that is worst for the other.
    """
    middle = [least + most for least, most in zip(low, high, strict=True)]
    kept: list[Vector] = []
    for each in sorted(candidates, key=lambda counts: sum(map(mul, counts, middle)), reverse=True):
        if not any(_beats(other, each, low, high) for other in kept):
            kept.append(each)
    return kept


def _beats(first: Vector, second: Vector, low: Sequence[int], high: Sequence[int]) -> bool:
    margin = 0
    for one, other, least, most in zip(first, second, low, high, strict=True):
        more = one - other
        if more:
            margin += more * (least if more > 0 else most)
    return margin >= 0


def _flat(more: Mapping[str, Sequence[int]]) -> list[int]:
    return [count for each in more.values() for count in each]


def _tops(level: list[int], events: Sequence[int], changes: Sequence[tuple[int, int]]) -> Iterator[Vector]:
    """Run events, and yield the counts wherever something is freed after something came."""
    rising = True
    for event in events:
        if event >= 0:
            key, count = changes[event]
            level[key] += count
            rising = True
        else:
            if rising:
                yield tuple(level)
            key, count = changes[~event]
            level[key] -= count
            rising = False
    if rising:
        yield tuple(level)


def _undominated(moments: Sequence[Vector]) -> tuple[Vector, ...]:
    """Return those that no other equals or exceeds in every count."""
    kept: list[Vector] = []
    for each in sorted(moments, key=sum, reverse=True):
        if not any(all(map(ge, other, each)) for other in kept):
            kept.append(each)
    return tuple(kept)
