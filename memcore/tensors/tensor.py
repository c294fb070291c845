"""Tensors that have a shape, a physical order of their axes, a dtype and a lifetime."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from memcore.symbols import Shape
from memcore.tensors.tape import Storage, Tape

if TYPE_CHECKING:
    from memcore.tensors.autograd import Node
    from memcore.tensors.quantized import Quantization


@cache
def natural(rank: int) -> tuple[int, ...]:
    """Axes that lie in memory in logical order."""
    return tuple(range(rank))


class Tensor:
    """A tensor of one rank.

    `shape` is in logical order. `order` lists the logical axes as they lie in memory, so that a transpose is a view
    and an operation that needs another order makes a copy, as in PyTorch. `storage` is None for a parameter whose
    memory its engine accounts for.
    """

    __slots__ = (
        "cut",
        "dtype",
        "fused",
        "node",
        "order",
        "requires_grad",
        "shape",
        "slot",
        "spread",
        "storage",
        "tape",
        "terms",
        "viewed",
    )

    def __init__(
        self,
        tape: Tape,
        storage: Storage | None,
        shape: Shape,
        dtype: str,
        *,
        order: tuple[int, ...] | None = None,
        cut: int | None = None,
        spread: int | None = None,
    ) -> None:
        self.tape = tape
        self.storage = storage
        self.shape = shape
        self.dtype = dtype
        self.order = natural(len(shape)) if order is None else order
        self.fused = False
        """A compiled kernel's pointwise result, which others can compute again from what it read."""
        self.terms: tuple[Tensor, ...] = ()
        """What it is a sum of, if a compiled kernel that reads it can add them up again."""
        self.cut = cut
        """The axis of which this is a slice: there are gaps in memory before it. The number of axes stands for gaps
        between elements."""
        self.spread = spread
        """The axis along which everything is one and the same memory (`expand`)."""
        self.viewed = False
        """It is a view of a tensor that stays with it: nothing is added to it in place."""
        self.requires_grad = False
        self.node: Node | None = None
        self.slot = 0

    def detach(self) -> Tensor:
        """The same memory outside the graph."""
        return Tensor(
            self.tape, self.storage, self.shape, self.dtype, order=self.order, cut=self.cut, spread=self.spread
        )

    def mergeable(self, first: int, last: int) -> bool:
        """Whether the logical axes from `first` up to `last` lie in memory such that a view can merge them."""
        if self.cut is None and self.spread is None and self.order == natural(len(self.shape)):
            return True
        lying = [axis for axis in self.order if not self._unit(axis)]
        group = [axis for axis in range(first, last) if not self._unit(axis)]
        if self.behind_gap() in group[1:] or (self.spread in group and len(group) > 1):
            return False
        start = lying.index(group[0]) if group else 0
        return lying[start : start + len(group)] == group

    @property
    def contiguous(self) -> bool:
        """Whether the axes lie in memory in logical order."""
        return self.cut != len(self.shape) and self.mergeable(0, len(self.shape))

    def behind_gap(self) -> int | None:
        """The first axis with an extent that lies behind a gap in memory."""
        if self.cut is None or self.cut == len(self.shape):
            return None
        behind = self.order[self.order.index(self.cut) :]
        return next((axis for axis in behind if not self._unit(axis)), None)

    def _unit(self, axis: int) -> bool:
        size = self.shape[axis]
        return size == 1 or size in self.tape.units


class Parameter(Tensor):
    """A leaf of the graph; `grad` is what the backward pass leaves there.

    `outer` are the axes of the result of a linear layer, `inner` those it sums over.
    """

    __slots__ = ("bucketed", "grad", "inner", "name", "outer", "partial", "quantization", "shared", "sink")

    def __init__(
        self, tape: Tape, name: str, outer: Shape, inner: Shape, dtype: str, *, trainable: bool = True
    ) -> None:
        super().__init__(tape, None, outer + inner, dtype)
        self.requires_grad = trainable
        self.name = name
        self.outer = outer
        self.inner = inner
        self.grad: Tensor | None = None
        self.bucketed = False
        """The gradient is a view of a communication bucket: it is copied there and freed."""
        self.partial = False
        """Each tensor-parallel rank has only its part of the sum that the gradient is."""
        self.quantization: Quantization | None = None
        """It is a frozen matrix in few bits."""
        self.shared = False
        """Several layers use it."""
        self.sink: Node | None = None
        """The graph node that receives the gradient, while one is waiting for it."""
