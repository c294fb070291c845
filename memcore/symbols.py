"""Sizes as symbols: what the axes of a shape are made of, and their values.

A shape is a row of axes whose product is the number of elements. An axis is a number, the name of a size (`h`), or a
size derived from others, such as `⌈a·d/z⌉`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from math import prod
from operator import itemgetter
from typing import TypeAlias

from memcore.records import dataclass


def round_up(size: int, multiple: int) -> int:
    """Return the least multiple that is at least a size.

    >>> round_up(100, 64), round_up(128, 64)
    (128, 128)
    """
    return -(-size // multiple) * multiple


@dataclass(frozen=True, slots=True)
class Quotient:
    """A product divided by a size, rounded up."""

    numerator: tuple[Axis, ...]
    divisor: Axis

    def __str__(self) -> str:
        return f"⌈{spell(self.numerator)}/{self.divisor}⌉"

    def value(self, sizes: Mapping[str, int]) -> int:
        """Its value."""
        return -(-product(self.numerator, sizes) // measure(self.divisor, sizes))


@dataclass(frozen=True, slots=True)
class Rounded:
    """A size rounded up to a multiple; values above `limit` are rounded to `beyond` instead."""

    axis: Axis
    multiple: int
    limit: int | None = None
    beyond: int = 1

    def __str__(self) -> str:
        return f"⌈{self.axis}⌉{str(self.multiple).translate(_SUBSCRIPTS)}"

    def value(self, sizes: Mapping[str, int]) -> int:
        """Its value."""
        size = measure(self.axis, sizes)
        step = self.beyond if self.limit is not None and size > self.limit else self.multiple
        return round_up(size, step)


@dataclass(frozen=True, slots=True)
class Shifted:
    """A size plus or minus another."""

    axis: Axis
    sign: int
    other: Axis

    def __str__(self) -> str:
        return f"({self.axis}{'+' if self.sign > 0 else '-'}{self.other})"

    def value(self, sizes: Mapping[str, int]) -> int:
        """Its value."""
        return measure(self.axis, sizes) + self.sign * measure(self.other, sizes)


@dataclass(frozen=True, slots=True)
class Smaller:
    """The smaller of two sizes."""

    axis: Axis
    other: Axis

    def __str__(self) -> str:
        return f"min({self.axis},{self.other})"

    def value(self, sizes: Mapping[str, int]) -> int:
        """Its value."""
        return min(measure(self.axis, sizes), measure(self.other, sizes))


@dataclass(frozen=True, slots=True)
class Total:
    """The elements of several tensors together."""

    name: str
    shapes: tuple[tuple[Axis, ...], ...]

    def __str__(self) -> str:
        return self.name

    def value(self, sizes: Mapping[str, int]) -> int:
        """Its value."""
        return sum(product(shape, sizes) for shape in self.shapes)


def total_of(axes: Collection[Axis]) -> Axis:
    """Return the axis of several, one after the other; of one, itself."""
    found = list(axes)
    return Total("+".join(map(str, found)), tuple((each,) for each in found)) if len(found) > 1 else found[0]


@dataclass(frozen=True, slots=True)
class Factors:
    """A square for each axis of each tile into which a tensor is cut, or its upper triangle.

    Neighbouring axes whose product is no larger than a tile's side become one, and those of size 1 go. Every square is
    an allocation of its own.
    """

    shapes: tuple[tuple[Axis, ...], ...]
    """The axes."""
    side: int
    """Of the largest tile."""
    multiple: int
    """The elements that allocations are rounded up to."""
    packed: bool = True
    """Only the triangle."""

    def __str__(self) -> str:
        each = "d·(d+1)/2" if self.packed else "d²"
        return f"Σ {each} of {' × '.join(map(spell, self.shapes))} in tiles of {self.side}"

    def value(self, sizes: Mapping[str, int]) -> int:
        """Its value."""
        axes = [self._cut(axis) for axis in self._merged(sizes)]
        rounded = [sum(round_up(self._each(side), self.multiple) for side in axis) for axis in axes]
        tiles = prod(map(len, axes))
        return sum(tiles // len(axis) * size for axis, size in zip(axes, rounded, strict=True))

    def sides(self, sizes: Mapping[str, int]) -> frozenset[int]:
        """The sides of tiles."""
        return frozenset(side for axis in self._merged(sizes) for side in self._cut(axis))

    def _each(self, side: int) -> int:
        return triangle(side) if self.packed else side * side

    def _cut(self, axis: int) -> list[int]:
        return [min(self.side, axis - start) for start in range(0, axis, self.side)]

    def _merged(self, sizes: Mapping[str, int]) -> list[int]:
        found: list[int] = []
        for axis in (product(axes, sizes) for axes in reversed(self.shapes)):
            if found and (1 in (axis, found[-1]) or found[-1] * axis <= self.side):
                found[-1] *= axis
            else:
                found.append(axis)
        return found


def triangle(side: int) -> int:
    """Elements of a square's upper triangle."""
    return side * (side + 1) // 2


Derived: TypeAlias = Quotient | Rounded | Shifted | Smaller | Total | Factors
Axis: TypeAlias = "str | int | Derived"
Shape: TypeAlias = tuple[Axis, ...]

_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def measure(axis: Axis, sizes: Mapping[str, int]) -> int:
    """The value of an axis."""
    if isinstance(axis, str):
        return sizes[axis]
    return axis if isinstance(axis, int) else axis.value(sizes)


def product(shape: Shape, sizes: Mapping[str, int]) -> int:
    """The number of elements of a shape."""
    found = 1
    for axis in shape:
        found *= sizes[axis] if isinstance(axis, str) else measure(axis, sizes)
    return found


class Products:
    """Shapes prepared for many sizes: each axis is measured once, and numbers are multiplied beforehand."""

    def __init__(self, shapes: Sequence[Shape]) -> None:
        places: dict[Axis, int] = {}
        self._rows: list[tuple[int, itemgetter[tuple[int, ...]]]] = []
        for shape in shapes:
            row = [places.setdefault(axis, len(places) + 1) for axis in shape if not isinstance(axis, int)]
            # A getter of two places or more yields a row: the first two are of the number 1.
            self._rows.append((prod(axis for axis in shape if isinstance(axis, int)), itemgetter(0, 0, *row)))
        self._axes = tuple(places)

    def __call__(self, sizes: Mapping[str, int]) -> list[int]:
        """The number of elements of each."""
        known = [1, *[measure(axis, sizes) for axis in self._axes]]
        return [factor * prod(row(known)) for factor, row in self._rows]


def spell(shape: Shape) -> str:
    """A shape as a product: `b·s·h`."""
    return "·".join(str(axis) for axis in shape if axis != 1) or "1"


@cache
def half(axis: Axis) -> Quotient:
    """Half of a size."""
    return Quotient((axis,), 2)


@cache
def split_over(axis: Axis, ranks: str = "tp") -> Quotient:
    """One rank's part of a size; always the same object, which tells it from others at a glance."""
    return Quotient((axis,), ranks)


def whole(axis: Axis) -> Axis:
    """The size that a rank has a part of."""
    if not isinstance(axis, Quotient):
        raise TypeError(axis)
    return axis.numerator[0]
