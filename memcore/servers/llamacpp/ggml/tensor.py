"""Tensors of a ggml graph: shape, strides, and what they view, but no data.

Axes are in ggml's order: `ne[0]` is a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from memcore.serving.gguf_types import BLOCK_TYPES, row_bytes


class Tensor:
    """A tensor: a leaf (a weight, a cache, an input), or the result of an operation."""

    __slots__ = (
        "input",
        "name",
        "nb",
        "ne",
        "offset",
        "op",
        "output",
        "pinned",
        "place",
        "src",
        "type",
        "view",
        "weight",
    )

    def __init__(
        self,
        kind: str,
        ne: Sequence[int],
        op: str = "NONE",
        src: Sequence[Tensor | None] = (),
        view: Tensor | None = None,
    ) -> None:
        self.type = kind
        self.ne: tuple[int, ...] = (*ne, 1, 1, 1)[:4]
        self.nb = contiguous_strides(kind, self.ne)
        self.op = op
        self.src: list[Tensor] = [each for each in src if each is not None]
        self.view: Tensor | None = (view.view or view) if view is not None else None
        """The tensor whose memory it shows."""
        self.offset = 0
        self.input = False
        """Filled from outside before the graph runs."""
        self.output = False
        """Read from outside afterwards, so its memory is not used again."""
        self.place: str | None = None
        """The device whose buffer already holds it."""
        self.weight = False
        self.pinned: str | None = None
        """The device that must compute it."""
        self.name = ""

    @property
    def bytes(self) -> int:
        """Return its data (`ggml_nbytes`), for a tensor that is no view."""
        return prod(self.ne[1:]) * row_bytes(self.type, self.ne[0])

    @property
    def elements(self) -> int:
        """Return how many it has."""
        return prod(self.ne)

    @property
    def contiguous(self) -> bool:
        """Return whether its elements lie one after the other."""
        return self.nb == contiguous_strides(self.type, self.ne)

    def like(self, other: Tensor) -> bool:
        """Return whether type, shape and strides agree (`ggml_are_same_layout`)."""
        return self.type == other.type and self.ne == other.ne and self.nb == other.nb


def contiguous_strides(kind: str, ne: tuple[int, ...]) -> tuple[int, ...]:
    """Return bytes from one element of each axis to the next, of a tensor without gaps."""
    block = BLOCK_TYPES[kind]
    first = block.row_bytes + ne[0] * block.bytes // block.elements
    return (block.bytes, first, first * ne[1], first * ne[1] * ne[2])
