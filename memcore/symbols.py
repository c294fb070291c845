"""Sizes as symbols: what the axes of a shape are made of, and their values.

A shape is a row of axes whose product is the number of elements. An axis is a number, the name of a size (`h`), or a
size derived from others, such as `⌈a·d/z⌉`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TypeAlias


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
        return -(-size // step) * step


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


Derived: TypeAlias = Quotient | Rounded | Shifted | Smaller | Total
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
    return prod(measure(axis, sizes) for axis in shape)


def spell(shape: Shape) -> str:
    """A shape as a product: `b·s·h`."""
    return "·".join(str(axis) for axis in shape if axis != 1) or "1"


def half(axis: Axis) -> Quotient:
    """Half of a size."""
    return Quotient((axis,), 2)


def split_over(axis: Axis, ranks: str = "tp") -> Quotient:
    """One rank's part of a size."""
    return Quotient((axis,), ranks)


def whole(axis: Axis) -> Axis:
    """The size that a rank has a part of."""
    if not isinstance(axis, Quotient):
        raise TypeError(axis)
    return axis.numerator[0]
