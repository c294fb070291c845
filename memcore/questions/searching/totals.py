"""Exact totals of many layouts of one config: what layouts share is computed once.

A layout's total is what `estimate` finds: the highest peak of all ranks. It is put together from

- points: a tensor, context and expert division, a shard group and a micro-batch give sizes to symbols;
- structures: points that leave the same tape, with a policy, give a recipe, from which stages are cut;
- peaks of recorded programs, narrowed to what can be the highest within the sizes of the search;
- what a stage keeps, by the layers it has and the ranks that share them.

`resolve` decides about each point and each structure; a layout then costs a few sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import reduce
from math import gcd
from operator import mul

from memcore.config.settings import Config
from memcore.dtypes import ITEMSIZE
from memcore.errors import MemcoreError
from memcore.memory.persistent import Persistent, bytes_of, persistent
from memcore.memory.pipeline import stage_job
from memcore.networks.network import Layer
from memcore.questions.searching.growth import RUN, grown
from memcore.questions.searching.layouts import Layout, config_of
from memcore.questions.searching.peaks import Amount, Fixed, Peaks, Vector, highest, names
from memcore.questions.searching.spaces import Part, Space, parts_of_layers
from memcore.records import dataclass
from memcore.symbols import product
from memcore.trace.job import Job
from memcore.trace.program import Program
from memcore.trace.record import forward_of, program_of
from memcore.trace.schedules import LOOPED

Sizes = Mapping[str, int]

COUNTS = ("mb", "mu", "mf")
"""Symbols for micro-batches, which stages add."""
FEW = 16
"""Evaluations after which a program is reduced to what can be its peak; that takes as long as some of them."""


@dataclass(frozen=True, slots=True)
class Point:
    """What a division of layers, sequence, experts and parameters makes of the sizes."""

    sizes: Sizes
    kind: int
    """Points of one kind leave the same tape."""


@dataclass(frozen=True, slots=True)
class Structure:
    """A recipe, and who keeps what."""

    number: int
    job: Job
    share: int
    """The number of what ranks have of the model, as they keep it."""


@dataclass(slots=True)
class Cut:
    """A stage of a structure."""

    job: Job
    uses: int = 0
    """How often it was evaluated event by event; a program that is needed more often is reduced first."""
    recorded: Program | None = None

    @property
    def program(self) -> Program:
        """Return its step, recorded when it is first asked for: a bound may do without."""
        if self.recorded is None:
            self.recorded = program_of(self.job.recipe)
        return self.recorded


@dataclass(frozen=True, slots=True)
class Region:
    """The sizes that points of one tensor and expert division have."""

    fixed: Fixed
    low: Sizes
    high: Sizes
    sharding: Mapping[int, Sizes]
    """By shards, the symbols that depend on them."""
    shard_names: frozenset[str]


@dataclass(slots=True)
class Line:
    """The peak of a stage as sums over amounts that depend on shards alone."""

    candidates: tuple[tuple[int, Vector], ...]
    """A number of bytes, and how often each amount comes on top."""
    end: tuple[int, Vector]
    amounts: tuple[Amount, ...]
    sizes: Sizes
    variable: int
    """Buffers that depend on micro-batches."""
    values: dict[int, Sequence[int]] = field(default_factory=dict)
    """By shards, the amounts' bytes."""


class Totals:
    """Totals of the layouts of one config, whose engine shares recorded steps."""

    def __init__(self, base: Config, space: Space) -> None:
        if space.row.resolve is None:
            raise ValueError(space.engine)
        self.resolve = space.row.resolve
        self.base = base
        self.space = space
        self.policies = space.policies
        self._points: dict[tuple[int, ...], Point | MemcoreError] = {}
        self._kinds: dict[object, int] = {}
        self._structures: dict[tuple[object, ...], Structure | MemcoreError] = {}
        self._shares: dict[object, int] = {}
        self._regions: dict[tuple[int, int], Region] = {}
        self._cuts: dict[tuple[int, ...], Cut] = {}
        self._peaks: dict[tuple[int, int, int], Peaks] = {}
        self._narrowed: dict[tuple[object, ...], tuple[Vector, ...]] = {}
        self._kept: dict[tuple[object, ...], tuple[int, int]] = {}
        self._gradients: dict[tuple[object, ...], int] = {}
        self._stacks: dict[tuple[int, ...], tuple[int, int, int]] = {}
        self._lines: dict[tuple[int, ...], Line] = {}
        self._numbers: dict[tuple[int, int], tuple[int, ...]] = {}
        self._growths: dict[tuple[int, ...], int | None] = {}
        self._worst: dict[tuple[int, int], int] = {}

    def total(self, layout: Layout, ceiling: int | None = None) -> int | MemcoreError:
        """Allocated memory at the peak of the worst rank, or why engine or model cannot do it.

        With a ceiling, the first stage that is found to need more, whatever the others need.
        """
        point = self._point(layout)
        if isinstance(point, MemcoreError):
            return point
        structure = self._structure(layout, point)
        if isinstance(structure, MemcoreError):
            return structure
        found, numbers = 0, self.numbers(structure, layout.stages)
        worst = self._worst.get((structure.number, layout.stages), numbers[0])
        for number in sorted(numbers, key=lambda each: each != worst):
            held = self._stage(layout, point, structure, number)
            if held > found:
                found = held
                self._worst[structure.number, layout.stages] = number
            if ceiling is not None and found > ceiling:
                break
        return found

    def least(self, layout: Layout) -> int:
        """Return bytes that the worst rank of a layout surely has when the optimizer steps, without recording a step.

        Parameters, optimizer states and buffers of each stage, and the gradients and temporaries of the step; 0 for a
        layout that engine or model cannot do, for which `total` says why.
        """
        point = self._point(layout)
        structure = point if isinstance(point, MemcoreError) else self._structure(layout, point)
        if isinstance(point, MemcoreError) or isinstance(structure, MemcoreError):
            return 0
        return max(
            sum(self._keeps(layout, point, structure, number))
            + self._gradients[self._key_of_kept(layout, structure, number)]
            for number in self.numbers(structure, layout.stages)
        )

    def parts(self, layout: Layout) -> list[Part]:
        """Return what stages have between steps, without recording one; empty for looped schedules."""
        point = self._point(layout)
        structure = point if isinstance(point, MemcoreError) else self._structure(layout, point)
        if isinstance(point, MemcoreError) or isinstance(structure, MemcoreError) or structure.job.schedule in LOOPED:
            return []
        return [
            Part(number, self._keeps(layout, point, structure, number)[0], *self._layers(layout, structure, number))
            for number in self.numbers(structure, layout.stages)
        ]

    def _layers(self, layout: Layout, structure: Structure, number: int) -> tuple[int, int, int]:
        """Return how many layers a stage has, and their parameters: those of routed experts apart."""
        key = structure.share, layout.stages, number
        found = self._stacks.get(key)
        if found is None:
            model = self._cut(layout, structure, number).job.model
            each = parts_of_layers(model)
            found = len(each), sum(dense for dense, _ in each), sum(routed for _, routed in each)
            self._stacks[key] = found
        return found

    def job(self, layout: Layout) -> Job | MemcoreError:
        """Return the job of a layout's structure, with another layout's sizes."""
        point = self._point(layout)
        found = point if isinstance(point, MemcoreError) else self._structure(layout, point)
        return found if isinstance(found, MemcoreError) else found.job

    def sized(self, layout: Layout) -> Job | MemcoreError:
        """Return the job of a layout's structure, with the sizes of the layout."""
        point, job = self._point(layout), self.job(layout)
        return (
            job
            if isinstance(point, MemcoreError) or isinstance(job, MemcoreError)
            else replace(job, sizes={**job.sizes, **point.sizes})
        )

    def extremes(self, layout: Layout) -> tuple[int, ...]:
        """Return the ranks of a layout of which one needs most, by their numbers: `total` has recorded their steps."""
        point = self._point(layout)
        structure = point if isinstance(point, MemcoreError) else self._structure(layout, point)
        return () if isinstance(structure, MemcoreError) else self.numbers(structure, layout.stages)

    def growth(self, layout: Layout) -> int | None:
        """Return bytes that each layer surely keeps of one sequence between its passes, from a step without a pipeline.

        Blocks are rounded up; several sequences have as many blocks as one, so that their rounding is taken off.
        """
        key = layout.tensor, layout.context, layout.experts, self.space.keeps_like(layout.policy)
        if key not in self._growths:
            sizes = {"stages": 1, "replicas": 1, "micro_batch": 1, "micro_batches": 1}
            shards = max(layout.context, layout.experts, min(2, layout.shards))
            plain = layout._replace(**sizes, shards=shards, policy=key[3])
            point = self._point(plain)
            structure = point if isinstance(point, MemcoreError) else self._structure(plain, point)
            if isinstance(point, MemcoreError) or isinstance(structure, MemcoreError):
                self._growths[key] = None
            else:
                job = structure.job
                self._growths[key] = grown(forward_of(job.recipe), {**job.sizes, **point.sizes}, job.model.network)
        return self._growths[key]

    def _resolved(self, config: Config) -> Job | MemcoreError:
        try:
            return self.resolve(config)
        except MemcoreError as error:
            return error

    def _point(self, layout: Layout) -> Point | MemcoreError:
        key = layout.tensor, layout.context, layout.experts, layout.shards, layout.micro_batch
        found = self._points.get(key)
        if found is None:
            plain = layout._replace(stages=1, replicas=1, micro_batches=1, policy=0)
            job = self._resolved(config_of(self.base, plain, self.policies))
            found = job if isinstance(job, MemcoreError) else self._point_of(job)
            self._points[key] = found
        return found

    def _point_of(self, job: Job) -> Point:
        kind = self._kinds.setdefault((job.recipe, job.share.network), len(self._kinds))
        sizes = {name: size for name, size in job.sizes.items() if not name.startswith(RUN)}
        return Point(sizes, kind)

    def _structure(self, layout: Layout, point: Point) -> Structure | MemcoreError:
        # A number of stages may be refused where others are not: one of them would have no layers.
        key = point.kind, layout.policy, layout.stages, layout.replicas > 1, layout.micro_batches > 1
        found = self._structures.get(key)
        if found is None:
            job = self._resolved(config_of(self.base, layout, self.policies))
            if isinstance(job, MemcoreError):
                found = job
            else:
                kept = job.share.network, job.recipe.sharding.offloaded, job.recipe.precision, job.optimizer.title
                share = self._shares.setdefault(kept, len(self._shares))
                found = Structure(len(self._structures), job, share)
            self._structures[key] = found
        return found

    def numbers(self, structure: Structure, stages: int) -> tuple[int, ...]:
        """Return the stages that can need most: the ends, and of those between with the same layers the first."""
        key = structure.share, stages
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = tuple(_extremes(structure.job, stages))
        return found

    def _stage(self, layout: Layout, point: Point, structure: Structure, number: int) -> int:
        key = (
            structure.number,
            layout.stages,
            number,
            layout.micro_batches,
            layout.tensor,
            layout.context,
            layout.experts,
            layout.micro_batch,
        )
        line = self._lines.get(key)
        # Ranks that take turns among stages have sizes of each of them, which are not the same for all layouts.
        looped = structure.job.schedule in LOOPED
        if line is None and (looped or self._cut(layout, structure, number).uses < FEW):
            return self._one(layout, point, structure, number)
        if line is None:
            line = self._lines[key] = self._line(layout, point, structure, number)
        values = line.values.get(layout.shards)
        if values is None:
            sizes = {**line.sizes, **point.sizes}
            values = line.values[layout.shards] = [amount.bytes(sizes) for amount in line.amounts]
        core, ending = self._keeps(layout, point, structure, number)
        highest_end = line.end[0] + sum(map(mul, line.end[1], values)) + ending
        peak = max([base + sum(map(mul, counts, values)) for base, counts in line.candidates])
        return int(core + line.variable + max(peak, highest_end))

    def _one(self, layout: Layout, point: Point, structure: Structure, number: int) -> int:
        """Estimate one program that few layouts have needed so far."""
        self._cut(layout, structure, number).uses += 1
        job = self._sized(layout, point, structure, number)
        keeps = persistent(job)
        moments = self._cut(layout, structure, number).program.moments(job.sizes, keeps.before_step)
        last = moments[-1]
        peak = max(moment.peak for moment in moments if moment.turn[0] == last.turn[0])
        return max(peak, last.end + max(keeps.clipping, keeps.stepping))

    def _keeps(self, layout: Layout, point: Point, structure: Structure, number: int) -> tuple[int, int]:
        """Return what a stage keeps whatever the micro-batch is, and what its step's end needs for a moment."""
        key = self._key_of_kept(layout, structure, number)
        found = self._kept.get(key)
        if found is None:
            keeps = persistent(self._sized(layout, point, structure, number))
            variable = keeps.buffers + _received(keeps)
            found = self._kept[key] = keeps.before_step - variable, max(keeps.clipping, keeps.stepping)
            self._gradients[key] = _gradients(keeps)
        return found

    @staticmethod
    def _key_of_kept(layout: Layout, structure: Structure, number: int) -> tuple[object, ...]:
        return structure.share, layout.stages, number, layout.tensor, layout.experts, layout.shards

    def _sized(self, layout: Layout, point: Point, structure: Structure, number: int) -> Job:
        """Return the job of a stage with the sizes of a layout."""
        cut = self._cut(layout, structure, number).job
        return replace(cut, sizes={**cut.sizes, **point.sizes})

    def _cut(self, layout: Layout, structure: Structure, number: int) -> Cut:
        key = structure.number, layout.stages, number, layout.micro_batches
        found = self._cuts.get(key)
        if found is None:
            job = replace(structure.job, stages=layout.stages, micro_batches=layout.micro_batches)
            found = self._cuts[key] = Cut(stage_job(job, number))
        return found

    def _line(self, layout: Layout, point: Point, structure: Structure, number: int) -> Line:
        cut = self._cut(layout, structure, number)
        sizes = {**cut.job.sizes, **point.sizes}
        region = self._region(layout)
        peaks = self._peaks_of(cut.program, layout, region)
        repeats = tuple(sizes[name] - 1 for name in peaks.runs)
        narrowed = self._narrow(cut, layout, peaks, repeats, region)
        moving = [index for index, amount in enumerate(peaks.amounts) if _depends(amount, region.shard_names)]
        still = [index for index in range(len(peaks.amounts)) if index not in moving]
        weights = [peaks.amounts[index].bytes(sizes) for index in still]
        times = (1, *repeats)

        def fold(counts: Vector) -> tuple[int, Vector]:
            sums = [sum(map(mul, times, counts[index :: len(peaks.amounts)])) for index in range(len(peaks.amounts))]
            return sum(map(mul, [sums[index] for index in still], weights)), tuple(sums[index] for index in moving)

        amounts = tuple(peaks.amounts[index] for index in moving)
        ranges = [_range(amount, sizes, sizes, region.sharding) for amount in amounts]
        folded = [(1, *each) for each in ((base, *counts) for base, counts in map(fold, narrowed))]
        flat = [(base, *counts) for _, base, *counts in folded]
        kept = highest(flat, [1, *(low for low, _ in ranges)], [1, *(high for _, high in ranges)])
        keeps = replace(persistent(cut.job), job=replace(cut.job, sizes=sizes))
        variable = bytes_of(keeps.tensors, keeps.job) + _received(keeps)
        return Line(tuple((base, tuple(counts)) for base, *counts in kept), fold(peaks.end), amounts, sizes, variable)

    def _peaks_of(self, program: Program, layout: Layout, region: Region) -> Peaks:
        key = id(program), layout.tensor, layout.experts
        found = self._peaks.get(key)
        if found is None:
            found = self._peaks[key] = Peaks(program, region.fixed)
        return found

    def _narrow(
        self, cut: Cut, layout: Layout, peaks: Peaks, repeats: tuple[int, ...], region: Region
    ) -> tuple[Vector, ...]:
        key = id(cut.program), layout.tensor, layout.experts, repeats
        found = self._narrowed.get(key)
        if found is None:
            counts = {name: cut.job.sizes.get(name, 0) for name in COUNTS}
            low, high = {**region.low, **dict.fromkeys(COUNTS, 0)}, {**region.high, **counts}
            if any(counts.values()):
                high |= {name: max(2**16, counts[name]) for name in COUNTS}
            pairs = [_range(amount, low, high, region.sharding) for amount in peaks.amounts]
            times = (1, *repeats)
            lows = [count * least for count in times for least, _ in pairs]
            highs = [count * most for count in times for _, most in pairs]
            found = self._narrowed[key] = peaks.narrowed(lows, highs)
        return found

    def _region(self, layout: Layout) -> Region:
        """Return what is known of the sizes of all points with a tensor and expert division."""
        key = layout.tensor, layout.experts
        found = self._regions.get(key)
        if found is None:
            tried = [(each.shards, self._point(each)) for each in self.space.points(*key)]
            found = self._regions[key] = _region_of([(z, each) for z, each in tried if isinstance(each, Point)])
        return found


def _region_of(points: Sequence[tuple[int, Point]]) -> Region:
    low, high = dict(points[0][1].sizes), dict(points[0][1].sizes)
    by_shards: dict[int, Sizes] = {}
    groups: dict[tuple[int, int], list[Sizes]] = {}
    for shards, point in points:
        for name, size in point.sizes.items():
            low[name], high[name] = min(low.get(name, size), size), max(high.get(name, size), size)
        by_shards.setdefault(shards, point.sizes)
        groups.setdefault((point.sizes["b"], point.sizes["s"]), []).append(point.sizes)
    varying = {name for name in low if low[name] != high[name]} | {"b", "s", "z", "cp", *COUNTS}
    shard_names = {"z"} | {
        name
        for group in groups.values()
        for other in group[1:]
        for name, size in other.items()
        if size != group[0][name]
    }
    granules = {name: reduce(gcd, (each.sizes.get(name, 0) for _, each in points)) or 1 for name in varying}
    granules |= dict.fromkeys(shard_names | set(COUNTS), 1)
    sharding = {z: {name: sizes[name] for name in shard_names if name in sizes} for z, sizes in by_shards.items()}
    return Region(Fixed(points[0][1].sizes, granules), low, high, sharding, frozenset(shard_names))


def _range(amount: Amount, low: Sizes, high: Sizes, sharding: Mapping[int, Sizes]) -> tuple[int, int]:
    """Return the least and the most bytes of an amount: it grows with every size but those that shards decide."""
    if not _depends(amount, frozenset(next(iter(sharding.values())))):
        return amount.bytes(low), amount.bytes(high)
    least = min(amount.bytes({**low, **each}) for each in sharding.values())
    return least, max(amount.bytes({**high, **each}) for each in sharding.values())


def _depends(amount: Amount, symbols: frozenset[str]) -> bool:
    return any(name in symbols for axis in amount.axes for name in names(axis))


def _received(keeps: Persistent) -> int:
    return sum(entry.bytes for entry in keeps.receive_buffers())


def _gradients(keeps: Persistent) -> int:
    """Bytes of the gradients that the optimizer is given, as parameters are stored; none where it steps in backward."""
    if keeps.job.recipe.steps_in_backward is not None:
        return 0
    return sum(each.learning * product(each.shape, keeps.job.sizes) * ITEMSIZE[each.dtype] for each in keeps.stored)


def _extremes(job: Job, stages: int) -> Iterable[int]:
    """Yield the first and the last stage, and the first of those between that have the same layers, or more of them.

    Later stages have fewer micro-batches in flight, and those with the same kinds of layers, but fewer, keep less.
    """
    if job.schedule in LOOPED:
        yield from range(stages)
        return
    yield 0
    seen: list[list[Layer]] = []
    for number in range(1, stages - 1):
        model = job.staged(job.model, number, stages)
        layers = [layer for run, times in zip(model.network.runs, model.repeats, strict=True) for layer in run * times]
        if not any(_within(layers, other) for other in seen):
            seen.append(layers)
            yield number
    if stages > 1:
        yield stages - 1


def _within(layers: Sequence[object], other: Sequence[object]) -> bool:
    """Return whether a row of layers is part of another."""
    return any(layers == other[start : start + len(layers)] for start in range(len(other) - len(layers) + 1))
