"""The ledger: everything that is in memory at one moment, each with its name, formula and source.

An entry's bytes follow from its shape, the bytes of an element and the number of copies. What no source fixes has a
range instead, and says where that was observed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from fractions import Fraction
from functools import cached_property

from memcore.dtypes import ITEMSIZE
from memcore.messages import Message, joined
from memcore.records import dataclass
from memcore.rules.table import RULES
from memcore.symbols import Factors, Quotient, Shape, Total, measure, product, spell
from memcore.tensors.tape import Block
from memcore.trace.program import Program, aligned

CATEGORIES: Mapping[str, str] = {
    "parameters": "this rank's part of the weights",
    "gradients": "weight gradients, from the backward pass to the optimizer step",
    "optimizer states": "allocated in the first step and kept",
    "communication": "gathered parameters and gradients exchanged with other ranks",
    "activations": "saved in the forward pass for the backward pass",
    "recomputation": "recomputed activations of checkpointed layers",
    "logits and loss": "from the output head to the gradient of the hidden states",
    "temporaries": "allocated only while an operation or layer runs",
    "buffers": "inputs, tables and library workspaces",
}
"""Categories in the order in which they are stacked, with their meanings."""


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes that no source fixes: what is expected, and within which bounds."""

    low: int
    expected: int
    high: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One kind of tensor in memory: `copies` blocks of one shape, already the part of this rank."""

    title: str
    """What it is, in words."""
    category: str
    source: str
    """Where that can be checked."""
    module: str = ""
    """Dotted module path, with `*` for the index of a layer."""
    shape: Shape = ()
    """In symbols."""
    itemsize: Fraction | int = 1
    """Bytes of an element."""
    copies: int = 1
    each: int = 0
    """Bytes of one copy; blocks of a recorded step are rounded up to 512, as the caching allocator does."""
    because: str = ""
    """How long it lives, or what asks for it."""
    rule: str = ""
    """Of a recorded step's blocks: the row of `RULES` that put it there, and their dtype."""
    dtype: str = ""
    savers: tuple[str, ...] = ()
    """The operations that keep it for their backward pass."""
    range: Range | None = None
    """For bytes that no shape gives."""
    text: str = ""
    """The formula, where it is not a product."""
    sizes: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)
    """The values of the symbols, where they are not those of the whole job."""

    @property
    def bytes(self) -> int:
        """Return the bytes of all copies, as expected."""
        return self.each * self.copies if self.range is None else self.range.expected

    @property
    def low(self) -> int:
        """Return the least that it can be."""
        return self.bytes if self.range is None else self.range.low

    @property
    def high(self) -> int:
        """Return the most that it can be."""
        return self.bytes if self.range is None else self.range.high

    @property
    def formula(self) -> str:
        """Return the bytes in symbols: `b·s·h × 2 B × 32`."""
        return self.text or self._spelled(spell(self.shape))

    def numbers(self, sizes: Mapping[str, int] | None = None) -> str:
        """Return the bytes with numbers for the symbols: `1·8192·4096 × 2 B × 32 = 2,147,483,648 B`."""
        if self.text:
            return f"{self.bytes:,} B"
        known = self.sizes or sizes or {}
        values = "·".join(f"{measure(axis, known):,}" for axis in self.shape if axis != 1) or "1"
        exact = not self.dtype or self.each == product(self.shape, known) * self.itemsize
        note = "" if exact else " (each block rounded up to 512 B)"
        return f"{self._spelled(values)} = {self.bytes:,} B{note}"

    def _spelled(self, elements: str) -> str:
        size = self.itemsize
        width = str(size.numerator) if size.denominator == 1 else f"{float(size):.6g}"
        return f"{elements} × {width} B" + (f" × {self.copies}" if self.copies != 1 else "")

    @property
    def why(self) -> str:
        """Return why the tensor is in memory at this moment."""
        if not self.savers:
            return self.because
        return Message("{}; saved by {}", self.because, joined(", ", self.savers))

    @property
    def divided_by(self) -> tuple[str, ...]:
        """Return the symbols of the parallel sizes that divide it."""
        return ("z",) if any(_is_sharded(axis) for axis in self.shape) and "z" not in self.shape else ()


def _is_sharded(axis: object) -> bool:
    if isinstance(axis, Total | Factors):
        return any(_is_sharded(inner) for shape in axis.shapes for inner in shape)
    return isinstance(axis, Quotient) and axis.divisor == "z"


def entry_of(rule: str, module: str, shape: Shape, dtype: str, copies: int, each: int, because: str) -> Entry:
    """Return a row in the category of its rule; `each`: bytes of one copy."""
    return _entry(rule, RULES[rule].category or "temporaries", module, shape, dtype, copies, each, because)


def _entry(
    rule: str,
    category: str,
    module: str,
    shape: Shape,
    dtype: str,
    copies: int,
    each: int,
    because: str,
    savers: tuple[str, ...] = (),
) -> Entry:
    row = RULES[rule]
    return Entry(
        title=row.title, category=category, source=row.source, module=module, shape=shape, itemsize=ITEMSIZE[dtype],
        copies=copies, each=each, because=because, rule=rule, dtype=dtype, savers=savers,
    )  # fmt: skip


@dataclass(frozen=True)
class Ledger:
    """The tensors in memory at one moment, in the order they are shown; `total` and `by_category` are bytes."""

    entries: tuple[Entry, ...]
    categories: Mapping[str, str] = field(default_factory=lambda: CATEGORIES, compare=False, repr=False)
    """All of them in the order in which they are stacked, with their meanings."""

    @cached_property
    def total(self) -> int:
        """Return bytes of all entries."""
        return sum(entry.bytes for entry in self.entries)

    @cached_property
    def low(self) -> int:
        """Return the least they can be together."""
        return sum(entry.low for entry in self.entries)

    @cached_property
    def high(self) -> int:
        """Return the most they can be together."""
        return sum(entry.high for entry in self.entries)

    @cached_property
    def by_category(self) -> Mapping[str, int]:
        """Return bytes of each category that occurs, in stacking order."""
        sums = dict.fromkeys(self.categories, 0)
        for entry in self.entries:
            sums[entry.category] += entry.bytes
        return {category: value for category, value in sums.items() if value}

    def of(self, *categories: str) -> tuple[Entry, ...]:
        """Return the entries of some categories."""
        return tuple(entry for entry in self.entries if entry.category in categories)

    def sum(self, *categories: str) -> int:
        """Return bytes of some categories."""
        return sum(entry.bytes for entry in self.of(*categories))


def ledger(entries: Iterable[Entry]) -> Ledger:
    """Return a ledger, in which entries that differ only in the number of copies are one; largest first."""
    merged: dict[tuple[object, ...], Entry] = {}
    for entry in entries:
        key = (entry.rule, entry.category, entry.module, entry.shape, entry.dtype, entry.because)
        found = merged.get(key)
        merged[key] = entry if found is None else _together(found, entry)
    return Ledger(tuple(sorted(merged.values(), key=lambda entry: (-entry.bytes, entry.module, entry.rule))))


def _together(first: Entry, second: Entry) -> Entry:
    savers = tuple(dict.fromkeys(first.savers + second.savers))
    return replace(first, copies=first.copies + second.copies, savers=savers)


def block_entries(program: Program, held: Mapping[int, int], sizes: Mapping[str, int]) -> Iterator[Entry]:
    """Entries for the blocks of a step that are in memory, given how many of each there are."""
    for index, copies in held.items():
        if not copies:
            continue
        block = program.blocks[index]
        category = category_of(program, index)
        yield _entry(
            block.rule, category, block.module, block.shape, block.dtype, copies,
            aligned(product(block.shape, sizes) * ITEMSIZE[block.dtype]),
            _lifetime(block, category, outlives=index in program.outliving),
            program.savers.get(index, ()),
        )  # fmt: skip


def category_of(program: Program, index: int) -> str:
    """Return the category of a block: by its rule, else by where it lives."""
    block = program.blocks[index]
    fixed = RULES[block.rule].category
    if fixed is not None:
        return fixed
    if index in program.gradients:
        return "gradients"
    if block.phase == "loss":
        return "logits and loss"
    if block.recomputed:
        return "recomputation"
    return "activations" if block.phase == "forward" and index in program.outliving else "temporaries"


def _lifetime(block: Block, category: str, *, outlives: bool) -> str:
    if category in _LIFETIMES:
        return _LIFETIMES[category]
    if block.phase == "forward" and outlives:
        return "from the forward pass to the backward pass"
    if outlives:
        return "until the next operation of the backward pass has read it"
    return "while its layer runs" if block.module else "during one operation"


_LIFETIMES = {
    "gradients": "from the backward pass to the end of the step",
    "recomputation": "while the backward pass of its layer runs",
    "logits and loss": "from the output head to the gradient of the hidden states",
}
