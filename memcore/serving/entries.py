"""What is in a server's memory: its categories, and how its entries and its ledger are made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from fractions import Fraction
from math import ceil
from operator import attrgetter

from memcore.memory.ledger import Entry, Ledger, Range
from memcore.symbols import Axis, Quotient, Shape, product

CATEGORIES: Mapping[str, str] = {
    "weights": "parameters, with their scales",
    "draft model": "weights of the draft model",
    "adapters": "LoRA slots",
    "KV cache": "keys and values of cached tokens",
    "recurrent states": "states of recurrent mixers, per sequence",
    "activations": "peak activations of a step",
    "workspaces": "buffers that stay allocated",
    "CUDA graphs": "captured graphs and their pool",
    "outside the allocator": "CUDA context, NCCL, libraries",
}
"""Categories in the order in which they are stacked."""


def tensor(
    title: str,
    category: str,
    shape: Shape,
    itemsize: Fraction | int,
    sizes: Mapping[str, int],
    source: str,
    **more: object,
) -> Entry:
    """Return an entry whose bytes follow from its shape."""
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
    """Return a shape without divisions by one rank."""
    found: list[Axis] = []
    for axis in shape:
        if isinstance(axis, Quotient) and isinstance(axis.divisor, str) and sizes.get(axis.divisor) == 1:
            found += axis.numerator
        else:
            found.append(axis)
    return tuple(found)


def observed(title: str, category: str, bounds: Range, source: str, text: str, because: str = "") -> Entry:
    """Return an entry that no source fixes."""
    return Entry(title=title, category=category, range=bounds, source=source, text=text, because=because)


def spread(entries: Iterable[Entry]) -> tuple[int, int]:
    """Return how much less and how much more some entries can be together."""
    found = list(entries)
    return sum(entry.bytes - entry.low for entry in found), sum(entry.high - entry.bytes for entry in found)


def ledger(entries: Iterable[Entry]) -> Ledger:
    """Return a ledger in which entries that differ only in the number of copies are one; by category, largest first."""
    merged: dict[object, list[Entry]] = {}
    ranged: list[Entry] = []
    for entry in entries:
        if entry.range is not None:
            ranged.append(entry)
        elif entry.bytes:
            merged.setdefault(_but_copies(entry), []).append(entry)
    found = [
        *(replace(same[0], copies=sum(entry.copies for entry in same)) if same[1:] else same[0]
          for same in merged.values()),
        *ranged,
    ]  # fmt: skip
    order = list(CATEGORIES)
    shown = sorted(found, key=lambda entry: (order.index(entry.category), -entry.bytes, entry.module))
    return Ledger(tuple(shown), CATEGORIES)


_but_copies = attrgetter(*(field.name for field in fields(Entry) if field.compare and field.name != "copies"))
