"""What an optimizer's step needs for a moment where it updates parameters one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from memcore.dtypes import ITEMSIZE
from memcore.networks.weights import Weight
from memcore.optimizers.states import Implementation, Needs, Optimizer, as_one
from memcore.records import dataclass
from memcore.symbols import Axis, Factors, Quotient, Shape, Smaller, Total, product, spell, triangle, whole
from memcore.trace.job import Job
from memcore.trace.program import aligned


class Updated(Protocol):
    """A parameter that the optimizer updates."""

    @property
    def weight(self) -> Weight:
        """Return the parameter of the network."""

    @property
    def path(self) -> str:
        """Return its name."""

    @property
    def axes(self) -> tuple[Shape, ...]:
        """Return what a rank updates of it."""

    @property
    def updated(self) -> str:
        """Return its dtype."""


@dataclass(frozen=True, slots=True)
class Temporary:
    """Tensors of the step."""

    rule: str
    path: str
    shape: Shape
    dtype: str
    copies: int = 1

    def size(self, sizes: Mapping[str, int]) -> int:
        """Return bytes of all of them."""
        return self.copies * aligned(product(self.shape, sizes) * ITEMSIZE[self.dtype])


def states_of(job: Job, each: Updated) -> Iterator[tuple[str, Shape, str | None]]:
    """Return the optimizer's states of a parameter on the GPU: rule, shape and dtype of each."""
    kind, name, gradient = each.weight.kind, each.weight.name, _whole_gradient(job, each)
    row, projected = job.optimizer, None
    if row.rank and job.engine.shards and row.is_matrix(len(each.axes), kind):
        projection = _projection(row, each, job.sizes)
        projected = projection.low, projection.side
    return row.states_of(each.axes, job.sizes, kind, name, gradient, projected)


def shared_of(row: Optimizer, parameters: Sequence[Updated], sizes: Mapping[str, int]) -> Iterator[Temporary]:
    """Yield what all parameters' states share.

    Maps of quantized numbers, and where a triangle's elements lie in a square.
    """
    if row.maps and parameters:
        yield Temporary("quantization_map", "optimizer", (256,), "fp32", row.maps)
    if row.tile:
        tiles = [Factors(each.axes, row.tile, 1).sides(sizes) for each in parameters]
        for side in sorted(frozenset[int]().union(*tiles)):
            yield Temporary("triangle_indices", "optimizer", (2, triangle(side)), "int32")


def _whole_gradient(job: Job, each: Updated) -> Shape:
    """Return the shape of a gradient that stays whole although tensor parallelism shards the parameter: an embedding's.

    Source: torch/distributed/tensor/_ops/_embedding_ops.py (`embedding_dense_backward`). FSDP reduces it to its part.
    """
    if job.recipe.tensor is None or job.engine.distributed or each.weight.kind != "embedding":
        return ()
    return tuple(whole(axis) if isinstance(axis, Quotient) else axis for axes in each.axes for axis in axes)


def _total(found: Sequence[Temporary], sizes: Mapping[str, int]) -> int:
    return sum(each.size(sizes) for each in found)


def temporaries(
    row: Optimizer, how: Implementation, parameters: Iterable[Updated], sizes: Mapping[str, int]
) -> Sequence[Temporary]:
    """Return the most that exists at once, given the parameters in the order of their updates."""
    ordered = list(parameters)
    if how.plain_times:
        ordered.sort(key=lambda each: row.is_matrix(len(each.axes), each.weight.kind))
    most: Sequence[Temporary] = ()
    before: Updated | None = None
    was_plain = False
    for each in ordered:
        plain = bool(how.plain_times) and not row.is_matrix(len(each.axes), each.weight.kind)
        times = how.plain_times if plain else how.times
        for needs in (needs for needs in times if was_plain or not needs.after_plain):
            found = list(_at_a_time(row, needs, before, each, sizes))
            most = max(most, found, key=lambda some: _total(some, sizes))
        before, was_plain = each, plain
    return most


def _at_a_time(
    row: Optimizer, needs: Needs, before: Updated | None, each: Updated, sizes: Mapping[str, int]
) -> Iterator[Temporary]:
    for one, copies in ((before, needs.before), (each, needs.own)):
        if one is not None and copies:
            whole = tuple(axis for axes in one.axes for axis in axes)
            yield Temporary("optimizer_temporary", one.path, whole, one.updated, copies)
    for copies, state in needs.other:
        as_it_is = (state.of == "cast" and state.dtype == each.updated) or (
            state.of == "tile-cast" and each.updated == "fp32"
        )
        needed = copies and not as_it_is
        if needed and row.has(state, each.axes, sizes):
            shape = row.shape_of(state, each.axes)
            yield Temporary(state.rule, each.path, shape, state.dtype or each.updated, copies)


def sharded_newton_schulz(
    row: Optimizer, parameters: Iterable[Updated], sizes: Mapping[str, int]
) -> Sequence[Temporary]:
    """Muon over DTensors sharded by rows: what Newton-Schulz needs for the matrix that needs most.

    A matrix with more rows than columns multiplies what it has and sums squares of the smaller side over ranks: at most
    four are there. Another gathers whole matrices: one, and a copy of it in order (torch/optim/_muon.py on DTensor).
    """
    matrices = [each for each in parameters if row.is_matrix(len(each.axes), each.weight.kind)]
    candidates = [list(_stacked(each) if len(each.axes) > 2 else _newton_schulz(each, sizes)) for each in matrices]
    return max(candidates, key=lambda found: _total(found, sizes), default=())


@dataclass(frozen=True, slots=True)
class _Projection:
    """Shapes of a DTensor's projection, on one rank."""

    low: Shape
    side: Axis
    """The smaller side of the whole matrix."""
    back: Shape
    """The update, projected back."""


def _projection(row: Optimizer, each: Updated, sizes: Mapping[str, int]) -> _Projection:
    """A matrix with more rows is projected where its rows are; another's projection adds up over ranks, to a whole."""
    rows, columns = each.weight.axes
    if product(rows, sizes) >= product(columns, sizes):
        return _Projection((*each.axes[0], row.rank), as_one(columns), (*each.axes[0], *columns))
    return _Projection((row.rank, *columns), as_one(rows), (*rows, *columns))


def sharded_projections(
    row: Optimizer, how: Implementation, parameters: Iterable[Updated], sizes: Mapping[str, int]
) -> Sequence[Temporary]:
    """GaLore over DTensors sharded by rows: what the parameter that needs most needs.

    Singular vectors are those of the whole gradient, which every rank gathers (torch/distributed/tensor/_ops,
    linalg_svd replicates); the update before it is still there.
    """
    ordered = sorted(parameters, key=lambda each: row.is_matrix(len(each.axes), each.weight.kind))
    most: Sequence[Temporary] = ()
    for before, each in zip([None, *ordered], ordered, strict=False):
        if row.is_matrix(len(each.axes), each.weight.kind):
            times = _projecting(row, before, each, sizes)
        else:
            times = [list(_at_a_time(row, needs, before, each, sizes)) for needs in how.plain_times]
        most = max(most, *times, key=lambda some: _total(some, sizes))
    return most


def _projecting(
    row: Optimizer, before: Updated | None, each: Updated, sizes: Mapping[str, int]
) -> list[list[Temporary]]:
    def some(shape: Shape, copies: int = 1, dtype: str = each.updated) -> Temporary:
        return Temporary("optimizer_temporary", each.path, shape, dtype, copies)

    own, left = _projection(row, each, sizes), _left(row, before, sizes)
    local: Shape = tuple(axis for axes in each.axes for axis in axes)
    cast = [some(local, dtype="fp32")] if each.updated != "fp32" else []
    gathered: Shape = tuple(axis for axes in each.weight.axes for axis in axes)
    vectors = [some(gathered, 2, "fp32"), some((own.side, own.side), 1, "fp32"), some((own.side,), 1, "fp32")]
    return [[*left, *cast, *vectors], [*left[1:], some(own.low, 3)], [some(own.low, 3), some(own.back, 2)]]


def _left(row: Optimizer, before: Updated | None, sizes: Mapping[str, int]) -> list[Temporary]:
    """Return the root of second moments and the update of the parameter before."""
    if before is None:
        return []
    own: Shape = tuple(axis for axes in before.axes for axis in axes)
    shapes = own, own
    if row.is_matrix(len(before.axes), before.weight.kind):
        projection = _projection(row, before, sizes)
        shapes = projection.low, projection.back
    return [Temporary("optimizer_temporary", before.path, shape, before.updated) for shape in shapes]


def _newton_schulz(each: Updated, sizes: Mapping[str, int]) -> Iterator[Temporary]:
    own = tuple(axis for axes in each.axes for axis in axes)
    rows, columns = each.weight.axes
    yield Temporary("muon_update", each.path, own, each.updated)
    if product(rows, sizes) > product(columns, sizes):
        side = Smaller(Total(spell(rows), (rows,)), Total(spell(columns), (columns,)))
        yield Temporary("newton_schulz", each.path, own, "bf16")
        yield Temporary("newton_schulz", each.path, (side, side), "bf16", 4)
        return
    yield Temporary("newton_schulz", each.path, own, "bf16", 2)
    yield Temporary("newton_schulz", each.path, (*each.axes[0], *rows), "bf16", 2)
    yield Temporary("newton_schulz", each.path, (*rows, *columns), "bf16", 2)


def _stacked(each: Updated) -> Iterator[Temporary]:
    """Of several matrices at once, which one rank gathers (pithtrain/modules/optimizer/muon.py)."""
    *many, rows, columns = each.weight.axes
    leading = tuple(axis for axes in many for axis in axes)
    side = Smaller(Total(spell(rows), (rows,)), Total(spell(columns), (columns,)))
    yield Temporary("muon_update", each.path, tuple(axis for axes in each.axes for axis in axes), each.updated)
    yield Temporary("muon_update", each.path, (*leading, *rows, *columns), each.updated)
    yield Temporary("newton_schulz", each.path, (*leading, *rows, *columns), "bf16", 2)
    yield Temporary("newton_schulz", each.path, (*leading, side, side), "bf16", 2)
