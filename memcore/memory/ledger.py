"""The ledger: everything that is in memory at one moment, each with its name, formula and source.

An entry's bytes follow from its shape, dtype and number of copies, and from nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from memcore.dtypes import ITEMSIZE
from memcore.messages import Message, joined
from memcore.rules.table import RULES
from memcore.symbols import Factors, Quotient, Shape, Total, measure, product, spell
from memcore.tally import Tally
from memcore.tensors.tape import Block
from memcore.trace.program import Program, aligned

CATEGORIES: Mapping[str, str] = {
    "parameters": "this rank's share of the weights",
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One kind of tensor that is in memory: `copies` blocks of one shape."""

    rule: str
    category: str
    module: str
    """Dotted module path, with `*` for the index of a layer."""
    shape: Shape
    """In symbols; already the part of this rank."""
    dtype: str
    copies: int
    each: int
    """Bytes of one copy, rounded up to 512 as the caching allocator does."""
    lifetime: str
    savers: tuple[str, ...] = ()
    """The operations that keep it for their backward pass."""

    @property
    def bytes(self) -> int:
        """Bytes of all copies."""
        return self.each * self.copies

    @property
    def title(self) -> str:
        """What it is, in words."""
        return RULES[self.rule].title

    @property
    def source(self) -> str:
        """Where its rule can be checked."""
        return RULES[self.rule].source

    @property
    def formula(self) -> str:
        """Its bytes in symbols: `b·s·h × 2 B × 32`."""
        return _spelled(spell(self.shape), self.dtype, self.copies)

    def numbers(self, sizes: Mapping[str, int]) -> str:
        """Its bytes with the sizes put in: `1·8192·4096 × 2 B × 32 = 2,147,483,648 B`."""
        values = "·".join(f"{measure(axis, sizes):,}" for axis in self.shape if axis != 1) or "1"
        exact = self.each == product(self.shape, sizes) * ITEMSIZE[self.dtype]
        note = "" if exact else " (each block rounded up to 512 B)"
        return f"{_spelled(values, self.dtype, self.copies)} = {self.bytes:,} B{note}"

    @property
    def why(self) -> str:
        """Why it is there at this moment."""
        if not self.savers:
            return self.lifetime
        return Message("{}; saved by {}", self.lifetime, joined(", ", self.savers))

    @property
    def divided_by(self) -> tuple[str, ...]:
        """The symbols of the parallel sizes that divide it."""
        return ("z",) if any(_is_sharded(axis) for axis in self.shape) and "z" not in self.shape else ()


def _spelled(elements: str, dtype: str, copies: int) -> str:
    times = f" × {copies}" if copies != 1 else ""
    return f"{elements} × {ITEMSIZE[dtype]} B{times}"


def _is_sharded(axis: object) -> bool:
    if isinstance(axis, Total | Factors):
        return any(_is_sharded(inner) for shape in axis.shapes for inner in shape)
    return isinstance(axis, Quotient) and axis.divisor == "z"


def entry_of(rule: str, module: str, shape: Shape, dtype: str, copies: int, each: int, lifetime: str) -> Entry:
    """A row in the category of its rule; `each`: bytes of one copy."""
    category = RULES[rule].category or "temporaries"
    return Entry(
        rule=rule,
        category=category,
        module=module,
        shape=shape,
        dtype=dtype,
        copies=copies,
        each=each,
        lifetime=lifetime,
    )


@dataclass(frozen=True)
class Ledger(Tally[Entry]):
    """Everything in memory at one moment, largest first."""

    categories = CATEGORIES


def ledger(entries: Iterable[Entry]) -> Ledger:
    """A ledger, in which entries that differ only in the number of copies are one."""
    merged: dict[tuple[object, ...], Entry] = {}
    for entry in entries:
        key = (entry.rule, entry.category, entry.module, entry.shape, entry.dtype, entry.lifetime)
        found = merged.get(key)
        merged[key] = entry if found is None else _joined(found, entry)
    return Ledger(tuple(sorted(merged.values(), key=lambda entry: (-entry.bytes, entry.module, entry.rule))))


def _joined(first: Entry, second: Entry) -> Entry:
    return Entry(
        rule=first.rule,
        category=first.category,
        module=first.module,
        shape=first.shape,
        dtype=first.dtype,
        copies=first.copies + second.copies,
        each=first.each,
        lifetime=first.lifetime,
        savers=tuple(dict.fromkeys(first.savers + second.savers)),
    )


def block_entries(program: Program, held: Mapping[int, int], sizes: Mapping[str, int]) -> Iterator[Entry]:
    """Entries for the blocks of a step that are in memory, given how many of each there are."""
    for index, copies in held.items():
        if not copies:
            continue
        block = program.blocks[index]
        category = category_of(program, index)
        yield Entry(
            rule=block.rule,
            category=category,
            module=block.module,
            shape=block.shape,
            dtype=block.dtype,
            copies=copies,
            each=aligned(product(block.shape, sizes) * ITEMSIZE[block.dtype]),
            lifetime=_lifetime(block, category, outlives=index in program.outliving),
            savers=program.savers.get(index, ()),
        )


def category_of(program: Program, index: int) -> str:
    """The category of a block: by its rule, else by where it lives."""
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
        return "until what comes next in the backward pass has read it"
    return "while its layer runs" if block.module else "during one operation"


_LIFETIMES = {
    "gradients": "from the backward pass to the end of the step",
    "recomputation": "while the backward pass of its layer runs",
    "logits and loss": "from the output head to the gradient of the hidden states",
}
