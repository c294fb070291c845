"""What an optimizer's step needs for a moment where it updates parameters one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from memcore.dtypes import ITEMSIZE
from memcore.job.job import Job
from memcore.model.weights import Weight
from memcore.optimizers.states import Implementation, Needs, Optimizer
from memcore.symbols import Quotient, Shape, Smaller, Total, product, spell, whole
from memcore.timeline import aligned


class Updated(Protocol):
    """A parameter that the optimizer updates."""

    @property
    def weight(self) -> Weight:
        """The parameter of the network."""

    @property
    def path(self) -> str:
        """Its name."""

    @property
    def axes(self) -> tuple[Shape, ...]:
        """What a rank updates of it."""

    @property
    def updated(self) -> str:
        """Its dtype."""


@dataclass(frozen=True, slots=True)
class Temporary:
    """Tensors of the step."""

    rule: str
    path: str
    shape: Shape
    dtype: str
    copies: int = 1

    def size(self, sizes: Mapping[str, int]) -> int:
        """Bytes of all of them."""
        return self.copies * aligned(product(self.shape, sizes) * ITEMSIZE[self.dtype])


def states_of(job: Job, each: Updated) -> Iterator[tuple[str, Shape, str | None]]:
    """The optimizer's states of a parameter on the GPU: rule, shape and dtype of each."""
    kind, name, gradient = each.weight.kind, each.weight.name, _whole_gradient(job, each)
    return job.optimizer.states_of(each.axes, job.sizes, kind, name, gradient)


def _whole_gradient(job: Job, each: Updated) -> Shape:
    """The shape of a gradient that tensor parallelism leaves whole beside a sharded parameter: an embedding's.

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
    """What there is when there is most, given the parameters in the order in which they are updated."""
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
        needed = copies and not (state.of == "cast" and state.dtype == each.updated)
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
