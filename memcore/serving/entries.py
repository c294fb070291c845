"""What is in a server's memory: entries with their formula, their numbers and their source, and a ledger of them.

An entry's bytes follow from its shape and the bytes of an element. What no source fixes has a range instead, and says
where that was observed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import ceil

from memcore.symbols import Axis, Quotient, Shape, measure, product, spell
from memcore.tally import Tally

CATEGORIES: Mapping[str, str] = {
    "weights": "parameters as the server stores them, including scales",
    "draft model": "weights of the draft model",
    "adapters": "LoRA slots",
    "KV cache": "keys and values of all tokens in flight",
    "recurrent states": "states of recurrent mixers, per sequence",
    "activations": "peak activations of a step",
    "workspaces": "buffers that the server keeps allocated",
    "CUDA graphs": "captured graphs and their private pool",
    "outside the allocator": "CUDA context, NCCL, libraries",
}
"""Categories in the order in which they are stacked."""


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes that no source fixes: what is expected, and within which bounds."""

    low: int
    expected: int
    high: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One kind of tensor: `copies` of one shape, already the part of this rank."""

    title: str
    category: str
    source: str
    why: str = ""
    module: str = ""
    shape: Shape = ()
    """In symbols."""
    itemsize: Fraction = Fraction(1)
    """Bytes of an element."""
    copies: int = 1
    sizes: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)
    """The values of the symbols."""
    each: int = 0
    """Bytes of one copy."""
    range: Range | None = None
    """For bytes that no shape gives."""
    text: str = ""
    """The formula, where it is not a product."""

    @property
    def bytes(self) -> int:
        """Bytes of all copies; what is expected."""
        return self.each * self.copies if self.range is None else self.range.expected

    @property
    def low(self) -> int:
        """The least that it can be."""
        return self.bytes if self.range is None else self.range.low

    @property
    def high(self) -> int:
        """The most that it can be."""
        return self.bytes if self.range is None else self.range.high

    @property
    def formula(self) -> str:
        """Its bytes in symbols: `2·k·d·n × 2 B × 32`."""
        return self.text or _spelled(spell(self.shape), self)

    def numbers(self, sizes: Mapping[str, int] | None = None) -> str:
        """Its bytes with the sizes put in."""
        if self.text:
            return f"{self.bytes:,} B"
        values = "·".join(f"{measure(axis, self.sizes):,}" for axis in self.shape if axis != 1) or "1"
        return f"{_spelled(values, self)} = {self.bytes:,} B"


def _spelled(elements: str, entry: Entry) -> str:
    size = entry.itemsize
    width = str(size.numerator) if size.denominator == 1 else f"{float(size):.6g}"
    return f"{elements} × {width} B" + (f" × {entry.copies}" if entry.copies != 1 else "")


def tensor(
    title: str,
    category: str,
    shape: Shape,
    itemsize: Fraction | int,
    sizes: Mapping[str, int],
    source: str,
    **more: object,
) -> Entry:
    """An entry whose bytes follow from its shape."""
    size, shape = Fraction(itemsize), simplified(shape, sizes)
    fields: dict[str, object] = {
        "title": title,
        "category": category,
        "shape": shape,
        "itemsize": size,
        "sizes": sizes,
        "source": source,
        "each": ceil(product(shape, sizes) * size),
        **more,
    }
    return Entry(**fields)  # type: ignore[arg-type]


def simplified(shape: Shape, sizes: Mapping[str, int]) -> Shape:
    """A shape without divisions by one rank."""
    found: list[Axis] = []
    for axis in shape:
        if isinstance(axis, Quotient) and isinstance(axis.divisor, str) and sizes.get(axis.divisor) == 1:
            found += axis.numerator
        else:
            found.append(axis)
    return tuple(found)


def observed(title: str, category: str, bounds: Range, source: str, text: str, why: str = "") -> Entry:
    """An entry that no source fixes."""
    return Entry(title=title, category=category, range=bounds, source=source, text=text, why=why)


def spread(entries: Iterable[Entry]) -> tuple[int, int]:
    """How much less and how much more some entries can be together."""
    found = list(entries)
    return sum(entry.bytes - entry.low for entry in found), sum(entry.high - entry.bytes for entry in found)


@dataclass(frozen=True)
class Ledger(Tally[Entry]):
    """Everything that one GPU holds as expected, largest first within a category."""

    categories = CATEGORIES

    @cached_property
    def low(self) -> int:
        """The least they can be together."""
        return sum(entry.low for entry in self.entries)

    @cached_property
    def high(self) -> int:
        """The most they can be together."""
        return sum(entry.high for entry in self.entries)

    def sum(self, *categories: str) -> int:
        """Bytes of some categories."""
        return sum(entry.bytes for entry in self.entries if entry.category in categories)


def ledger(entries: Iterable[Entry]) -> Ledger:
    """A ledger in which entries that differ only in the number of copies are one."""
    merged: dict[Entry, int] = {}
    ranged: list[Entry] = []
    for entry in entries:
        if entry.range is not None:
            ranged.append(entry)
        elif entry.bytes:
            key = replace(entry, copies=1)
            merged[key] = merged.get(key, 0) + entry.copies
    found = [*(replace(entry, copies=copies) for entry, copies in merged.items()), *ranged]
    order = list(CATEGORIES)
    return Ledger(tuple(sorted(found, key=lambda entry: (order.index(entry.category), -entry.bytes, entry.module))))
