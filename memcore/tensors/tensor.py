"""Tensors that have a shape, a physical order of their axes, a dtype and a lifetime; their graph and their modes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Protocol

from memcore.symbols import Axis, Shape
from memcore.tensors.modes import Float8, Quantization, TensorParallel
from memcore.tensors.tape import Held, Recording, Storage


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
        "cast",
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
        self.cast: Tensor | None = None
        """Itself in another dtype, where a compiled block has cast it already: it casts it once."""
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
        """Return the same memory outside the graph."""
        return Tensor(
            self.tape, self.storage, self.shape, self.dtype, order=self.order, cut=self.cut, spread=self.spread
        )

    def mergeable(self, first: int, last: int) -> bool:
        """Return whether the logical axes from `first` up to `last` lie in memory such that a view can merge them."""
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
        """Return whether the axes lie in memory in logical order."""
        return self.cut != len(self.shape) and self.mergeable(0, len(self.shape))

    def behind_gap(self) -> int | None:
        """Return the first axis with an extent that lies behind a gap in memory."""
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


class Saved(Protocol):
    """A tensor kept for the backward pass."""

    def unpack(self) -> Tensor:
        """Return the tensor; a checkpoint recomputes it first."""


class Node:
    """One operation of the graph."""

    __slots__ = ("apply", "before", "captured", "edges", "inputs", "outputs", "saved", "sequence", "where", "wrapped")

    def __init__(
        self,
        sequence: int,
        where: str,
        inputs: list[tuple[Shape, str]],
        edges: Sequence[tuple[Node, int] | None],
        saved: list[Saved],
        apply: Callable[[list[Tensor | None], list[Tensor]], Sequence[Tensor | None]],
        outputs: int,
    ) -> None:
        self.sequence = sequence
        self.where = where
        self.inputs = inputs
        self.edges = edges
        self.saved = saved
        self.apply = apply
        """The backward formula: gradients of the outputs and saved tensors in, gradients of the inputs out."""
        self.outputs = outputs
        self.wrapped = False
        """Its outputs are DTensors."""
        self.captured = False
        """It is part of a CUDA graph, and so is its backward formula."""
        self.before: list[Callable[[], None]] = []
        """Called when the gradient of the output is complete (`Tensor.register_hook`)."""

    def __lt__(self, other: Node) -> bool:
        return self.sequence > other.sequence


class Tape(Recording):
    """The recording that tensors share, and the modes that PyTorch keeps per thread."""

    evaluating = False
    """Modules are in evaluation mode."""
    liger: frozenset[str] = frozenset()
    """Which of norms, gated activations and rotations are Liger's kernels, or Unsloth's, which keep as much."""
    tiles = 0
    """Tiles of the feed-forward layers that are recorded; 0: they run as a whole."""
    adapting = True
    """Adapters run; a preference trainer's reference is the model without them (`disable_adapter`)."""
    fuses_lora = False
    """Linear layers with LoRA are Unsloth's functions."""
    before_ampere = False
    """The GPU has no flash attention."""

    def __init__(
        self, *, units: frozenset[Axis] = frozenset(), fake: bool = False, parallel: TensorParallel | None = None
    ) -> None:
        super().__init__()
        self.units = units
        """Axes whose size is 1: a permutation of such an axis is still contiguous."""
        self.parallel = parallel
        """How tensor parallelism divides the layers, if it does."""
        self.wrapped = False
        """Results are DTensors, a tensor subclass: their gradients are never added in place."""
        self.fake = fake
        """Tensors are fake tensors, a tensor subclass: PyTorch then avoids some in-place operations."""
        self.grad_enabled = True
        self.compiled = False
        """What runs is compiled."""
        self.float8: Float8 | None = None
        """Linear layers multiply in float8."""
        self.rounds = False
        """Linear layers round their inputs and weights (quantization-aware training)."""
        self.autocast: str | None = None
        """The dtype of `torch.autocast`, or None when it is off."""
        self._casts: Held[dict[int, Tensor]] = {}
        """Autocast's copies of trainable parameters, kept until the outermost autocast ends."""
        self.pack: Callable[[Tensor], Saved] | None = None
        """What becomes of tensors saved for the backward pass; None keeps them."""
        self.select: Callable[[str, Callable[[], Sequence[Tensor]]], Sequence[Tensor]] | None = None
        """What becomes of operations whose results a selective checkpoint may keep; None runs them."""
        self.offload: Callable[[Tensor], Saved] | None = None
        """What becomes of the inputs of checkpoints; None keeps them."""
        self.around: Callable[[Callable[[Tensor], Tensor], Tensor], Tensor] | None = None
        """Runs a part of a layer, given its input; None runs it as it is."""
        self.steps: int | None = None
        """Step the optimizer as soon as a gradient exists, with a number of temporaries of its shape."""
        self.sequence = 0
        """Number of graph nodes so far."""
        self.left: list[object] = []
        """Graphs that modules keep until they run again."""
        self.whole = False
        """The forward pass with its loss is one compiled graph, and so is the backward pass."""
        self.arguments: list[object] = []
        """What the call of a compiled backward pass holds until it returns."""

    @contextmanager
    def wrapping(self) -> Iterator[None]:
        """Return what operations inside return are DTensors."""
        before, self.wrapped = self.wrapped, True
        try:
            yield
        finally:
            self.wrapped = before

    @contextmanager
    def no_grad(self) -> Iterator[None]:
        """Build no autograd graph inside."""
        before, self.grad_enabled = self.grad_enabled, False
        try:
            yield
        finally:
            self.grad_enabled = before

    @contextmanager
    def autocasting(self, dtype: str | None) -> Iterator[None]:
        """`torch.autocast(dtype)`, or None to switch it off: its weight copies go when the outermost one ends."""
        before, self.autocast = self.autocast, dtype
        try:
            yield
        finally:
            self.autocast = before
            if before is None:
                self.let_go(self._casts, "end of autocast")

    @contextmanager
    def compiling(self, compiled: bool) -> Iterator[None]:
        """Return what runs inside is compiled."""
        before, self.compiled = self.compiled, compiled
        try:
            yield
        finally:
            self.compiled = before

    @contextmanager
    def multiplying(self, float8: Float8 | None) -> Iterator[None]:
        """Linear layers inside multiply in float8."""
        before, self.float8 = self.float8, float8
        try:
            yield
        finally:
            self.float8 = before

    @contextmanager
    def apart(self, around: Callable[[Callable[[Tensor], Tensor], Tensor], Tensor] | None) -> Iterator[None]:
        """Inside, run each part of a layer through `around`, and parts of parts as they are."""
        before, self.around = self.around, around
        try:
            yield
        finally:
            self.around = before

    def part(self, run: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """Run a part of a layer: a norm, a mixer or a feed-forward layer."""
        around = self.around
        if around is None:
            return run(x)
        with self.apart(None):
            return around(run, x)

    @contextmanager
    def without_autocast(self) -> Iterator[None]:
        """`torch.autocast(enabled=False)`: the casts of before stay."""
        before, self.autocast = self.autocast, None
        try:
            yield
        finally:
            self.autocast = before

    @property
    def casts(self) -> dict[int, Tensor]:
        """Autocast's copies of the parameters of the layer that is running."""
        return self._casts.setdefault(self.repeats, {})

    @contextmanager
    def packing(self, pack: Callable[[Tensor], Saved]) -> Iterator[None]:
        """Save tensors through `pack` inside."""
        before, self.pack = self.pack, pack
        try:
            yield
        finally:
            self.pack = before

    @contextmanager
    def selecting(self, select: Callable[[str, Callable[[], Sequence[Tensor]]], Sequence[Tensor]]) -> Iterator[None]:
        """Run operations whose results may be kept through `select` inside."""
        before, self.select = self.select, select
        try:
            yield
        finally:
            self.select = before
