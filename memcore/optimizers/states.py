"""What an optimizer keeps for a parameter, and what its step needs for a moment: the columns of the table.

Unless a row says otherwise, states have the parameter's dtype and shape, on the rank that has the parameter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from memcore.records import dataclass
from memcore.symbols import Axis, Factors, Quotient, Shape, Smaller, Total, product, spell

_BLOCK = 128
"""The fp32 numbers that the caching allocator rounds up to: 512 bytes."""
PAGED_FROM = 100_000
"""Elements from which bitsandbytes keeps a state in CUDA's managed memory (optimizer.py, `get_state_buffer`)."""
ENDS = frozenset({"embedding", "position", "head", "norm"})
"""Kinds of parameters that optimizers of matrices leave to Adam."""


@dataclass(frozen=True, slots=True)
class State:
    """A tensor that is kept for a parameter."""

    rule: str
    of: str = "like"
    """`like` the parameter; `rows` or `columns` of a matrix, and like a vector; `blocks`: a number for each block;
    `halves`: two in each byte; `map`: a table of `size` numbers; `pair`: two like it; `square`: the smaller side of a
    matrix by itself; `side`: an axis by itself, the one of number `size`; `low`: the larger side of a matrix by the
    rank; `low-blocks`: a number for each block of that; `thin`: the smaller side by the rank; `scalar`; `heads`: a
    number for each attention head; `cast`: a copy in another dtype; `factors`: a packed
    square for each axis of each of its tiles; `squares`: the whole squares; `tile`: the largest of these; `tile-cast`:
    that of a parameter that is not in fp32; `tile-side`: a square of an axis of the largest, the one of number
    `size`."""
    dtype: str | None = None
    """None: the parameter's."""
    size: int = 256
    """Of a table; or which axis."""
    limit: int = 0
    """Longer axes have none; 0: all have."""
    alone: bool = False
    """Only where no other axis has one."""
    paged: bool = False
    """Large ones lie in managed memory, outside PyTorch's pool."""
    cloned: bool = False
    """Made of the gradient (`grad.clone()`, `zeros_like(grad)`), whose shape it has, not the parameter's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What there is at one time while a parameter is updated on its own, as numbers of tensors."""

    before: int = 0
    """Like the parameter before it."""
    own: int = 0
    """Like the parameter at hand."""
    other: tuple[tuple[int, State], ...] = ()
    """Others, as often each."""
    after_plain: bool = False
    """Only where the parameter before it keeps `plain` states."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Implementation:
    """What a step needs besides parameters, gradients and states."""

    temporaries: int = 0
    """Tensors as large as all parameters of the rank, at once."""
    matrix: tuple[State, ...] = ()
    """Temporaries of a matrix at hand, where matrices of layers are updated in a way of their own."""
    times: tuple[Needs, ...] = ()
    """What there is while a parameter is updated on its own, at the times that may need most."""
    alone: tuple[Needs, ...] = ()
    """The same at times when there are none of `temporaries`."""
    plain_times: tuple[Needs, ...] = ()
    """The same as `times` of those that keep `plain` states; they are updated first."""
    upcasts: bool = False
    """The parameter at hand is copied in fp32, if it is not."""
    own: int = 0
    """Tensors like the parameter at hand, where parameters are updated one by one."""
    before: int = 0
    """Tensors like the parameter before it, whose variables are still there."""
    step_on_device: bool = False
    """Each parameter's step count is a tensor on the GPU."""
    states: tuple[State, ...] | None = None
    """What is kept, where that is not what the row says."""
    dtypes: tuple[str, ...] = ()
    """Dtypes that these states can have, where the optimizer is told."""
    masters: tuple[str, ...] = ()
    """Dtypes that its copy of the parameters, or of the bits that they lack, can have; the first is the usual one."""
    source: str = ""
    """Where the implementation is, if not where the row says."""
    seconds: float = 0.0
    """Seconds that the kernel takes for an element at least, where it computes for longer than it reads and writes."""
    waits: float = 0.0
    """Seconds for each parameter, where the host waits for the GPU after each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimizer:
    """A row of the table."""

    title: str
    states: tuple[State, ...]
    """What is kept for each parameter, from the first step on."""
    implementations: Mapping[str, Implementation]
    default: str
    source: str
    vector: tuple[State, ...] | None = None
    """What is kept for a vector, where that is something else."""
    quantized_from: int = 0
    """Parameters with fewer elements than this keep `plain` states instead."""
    whole_blocks: bool = False
    """So do those that are no whole number of blocks."""
    only_matrices: bool = False
    """So do all but matrices of layers."""
    stacks: bool = False
    """Tensors of several matrices, such as those of routed experts, count as matrices."""
    large_states: tuple[State, ...] = ()
    """What those keep instead that are not small, if not `plain` states."""
    plain: tuple[State, ...] = ()
    named: tuple[tuple[frozenset[str], tuple[State, ...]], ...] = ()
    """What is kept for parameters whose names have one of these parts, the first that does."""
    whole: bool = False
    """Its step needs whole parameters, which engines that shard them do not give it."""
    rank: int = 0
    """The rank of gradients, where they are projected."""
    exempts_embeddings: bool = False
    """So do embeddings."""
    block: int = 1
    """Elements that share a scale."""
    tile: int = 0
    """The most rows and columns of a tile in which tensors are updated."""
    maps: int = 0
    """Maps of 256 numbers that all parameters share."""
    from_start: bool = False
    """States are there before the first step."""
    on_host: bool = False
    """States and step are on the host."""
    fetched: bool = False
    """States are on the host, but for the step, which is on the GPU."""

    def states_of(
        self,
        shape: tuple[Shape, ...],
        sizes: Mapping[str, int],
        kind: str,
        name: str = "",
        gradient: Shape = (),
        projected: tuple[Shape, Axis] | None = None,
    ) -> Iterator[tuple[str, Shape, str | None]]:
        """Yield the states on the GPU of a parameter with these axes on a rank: rule, shape and dtype of each.

        `gradient`: the shape of its gradient, where that is another. `projected`: that of the projected one, and the
        side that goes, where ranks share the parameter and project it as a whole.
        """
        for state, usual in self._all(shape, sizes, kind, name):
            found = usual
            if projected is not None and state.of in ("low", "square", "thin"):
                low, side = projected
                found = low if state.of == "low" else (side, side if state.of == "square" else self.rank)
            if not self._hosts(state, found, sizes):
                yield state.rule, gradient if gradient and state.cloned else found, state.dtype

    def hosted_of(
        self, shape: tuple[Shape, ...], sizes: Mapping[str, int], kind: str, name: str = ""
    ) -> Iterator[tuple[Shape, str | None]]:
        """Shape and dtype of those in managed memory, or on the host."""
        for state, found in self._all(shape, sizes, kind, name):
            if self._hosts(state, found, sizes):
                yield found, state.dtype

    def _hosts(self, state: State, shape: Shape, sizes: Mapping[str, int]) -> bool:
        return self.on_host or (state.paged and product(shape, sizes) >= PAGED_FROM)

    def _all(
        self, shape: tuple[Shape, ...], sizes: Mapping[str, int], kind: str, name: str
    ) -> Iterator[tuple[State, Shape]]:
        whole: Shape = tuple(axis for axes in shape for axis in axes)
        for state in self._states(len(shape), product(whole, sizes), kind, name.lower()):
            if self.has(state, shape, sizes):
                yield state, self._shape(state, shape, whole)

    def has(self, state: State, shape: tuple[Shape, ...], sizes: Mapping[str, int]) -> bool:
        """Return whether a parameter of this shape has such a state or temporary."""
        if state.of == "tile-side":
            return state.size < len(shape)
        if state.of != "side":
            return True
        having = [side for side, axes in enumerate(shape) if not state.limit or product(axes, sizes) <= state.limit]
        return state.size in having and not (state.alone and len(having) > 1)

    def _states(self, axes: int, elements: int, kind: str, name: str) -> Sequence[State]:
        named = next((states for parts, states in self.named if any(part in name for part in parts)), None)
        if named is not None:
            return named
        if self.large_states and elements >= self.quantized_from and not self.is_matrix(axes, kind):
            return self.large_states
        small = elements < self.quantized_from or (self.whole_blocks and elements % self.block)
        small = small or (self.only_matrices and not self.is_matrix(axes, kind))
        if small or (self.exempts_embeddings and kind in ("embedding", "position")):
            return self.plain
        return self.vector if self.vector is not None and axes == 1 else self.states

    def is_matrix(self, axes: int, kind: str) -> bool:
        """Return whether a parameter is a matrix of a layer."""
        return (axes == 2 or (self.stacks and axes > 2)) and kind not in ENDS

    def shape_of(self, state: State, shape: tuple[Shape, ...]) -> Shape:
        """Return the shape of a state or a temporary of a parameter."""
        return self._shape(state, shape, tuple(axis for axes in shape for axis in axes))

    def _shape(self, state: State, shape: tuple[Shape, ...], whole: Shape) -> Shape:
        if state.of == "blocks":
            return (Quotient(whole, self.block),)
        if state.of == "halves":
            return (Quotient(whole, 2),)
        if state.of in ("map", "scalar"):
            return (state.size,) if state.of == "map" else ()
        if state.of == "pair":
            return (2, *whole)
        if state.of == "side":
            return (*shape[state.size], *shape[state.size])
        if state.of in ("factors", "squares", "tile", "tile-cast", "tile-side"):
            return self._of_tiles(state, shape)
        if state.of == "heads":
            return (Quotient((*whole, "a"), Total("h·h", (("h", "h"),))),)
        if state.of in ("square", "low", "low-blocks", "thin"):
            return self._of_matrix(state, whole, Smaller(as_one(shape[0]), as_one(shape[1])))
        if state.of in ("like", "cast") or len(shape) == 1:
            return whole
        leading = tuple(axis for axes in shape[:-2] for axis in axes)
        return (*leading, *(shape[-2] if state.of == "rows" else shape[-1]))

    def _of_tiles(self, state: State, shape: tuple[Shape, ...]) -> Shape:
        """Shapes that tiles decide."""
        if state.of in ("factors", "squares"):
            return (Factors(shape, self.tile, _BLOCK, packed=state.of == "factors"),)
        largest = tuple(Smaller(as_one(axes), self.tile) for axes in shape)
        return (largest[state.size],) * 2 if state.of == "tile-side" else largest

    def _of_matrix(self, state: State, whole: Shape, side: Axis) -> Shape:
        """Shapes that a matrix's smaller side decides."""
        if state.of == "square":
            return (side, side)
        if state.of == "thin":
            return (side, self.rank)
        low: Shape = (Quotient(whole, side), self.rank)
        return low if state.of == "low" else (Quotient(low, self.block),)


def as_one(axes: Shape) -> Axis:
    """Return a product of sizes as one size."""
    return axes[0] if len(axes) == 1 else Total(spell(axes), (axes,))
