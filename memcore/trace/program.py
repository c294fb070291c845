"""The clock: how many bytes a rank holds at every moment of a step.

A recorded tape is compiled into a `Program` once. With sizes for its symbols, a program yields the exact maximum of
every moment in microseconds: within a run of equal layers memory changes linearly with the layer's index, so that the
first or the last of the run is the peak.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, chain, groupby
from math import prod
from operator import itemgetter, neg
from typing import ClassVar, NamedTuple

from memcore.dtypes import ITEMSIZE
from memcore.records import dataclass
from memcore.symbols import Axis, Products
from memcore.tensors.tape import ALIGNMENT, Block, Segment
from memcore.tensors.tensor import Tape


def aligned(size: int) -> int:
    """Return bytes rounded up as the caching allocator does."""
    return (size + ALIGNMENT - 1) & -ALIGNMENT


@dataclass(frozen=True, slots=True)
class Moment:
    """A stretch of the step."""

    of_micro_batch: ClassVar[bool] = True
    """It belongs to one micro-batch, whose number `turn` has."""
    phase: str
    """forward, loss, backward, gradient_clipping or optimizer_step."""
    place: str
    peak: int
    """The most bytes in memory while it lasts."""
    end: int
    """What is held when it ends."""
    first: int
    """What the first of its repetitions peaks at."""
    repeats: int
    segment: int | None
    """Its number in the program; None for what comes after the backward pass."""
    turn: tuple[int, int]
    """Step and micro-batch: 0 is the first, 1 any later one that differs."""


class Height(NamedTuple):
    """What a stretch of the step holds; as in `Moment`."""

    peak: int
    end: int
    first: int
    repeats: int


@dataclass(frozen=True, slots=True)
class Span:
    """Segments that repeat together, as one pattern of layers."""

    segments: tuple[int, ...]
    start: int
    end: int
    repeats: str | None


@dataclass(frozen=True, slots=True)
class Sample:
    """The highest point of a stretch of the step, by category."""

    phase: str
    place: str
    turn: tuple[int, int]
    layers: int
    """How many layers run before the next sample; 0 marks the last of equal layers."""
    levels: tuple[int, ...]
    """Bytes of each category."""
    moments: int = 1
    """How many moments the stretch has: one for each segment of a pattern of layers."""


class Program:
    """A tape compiled for evaluation with any sizes."""

    def __init__(self, tape: Tape) -> None:
        self.blocks = tuple(tape.blocks)
        self.segments = tuple(tape.segments)
        self.events = tuple(tape.events)
        self.gradients = frozenset(tape.gradients)
        """Blocks that became the gradient of a parameter."""
        self.communicated = frozenset(block for _, blocks in tape.collectives for block in blocks)
        """Blocks that a collective reads or writes on its own stream."""
        self.collectives = Counter(place for place, _ in tape.collectives)
        """How many collectives are called right before an event."""
        self.savers = {block: tuple(rules) for block, rules in tape.savers.items()}
        """For a block, the rules of the operations that keep it for their backward pass."""
        self.outliving = _outliving(self.events, self.segments)
        """Blocks that are still there when the stretch of the step that allocated them is over."""
        shapes: dict[tuple[int, tuple[Axis, ...]], int] = {}
        self.kinds = [shapes.setdefault(_shape_of(block), len(shapes)) for block in self.blocks]
        self.shapes = tuple(shapes)
        self._products = Products([(factor, *axes) for factor, axes in self.shapes])
        kinds = self.kinds
        self._moves = [kinds[event] if event >= 0 else kinds[~event] + len(shapes) for event in self.events]
        self.spans = tuple(_spans(self.segments))
        courses = [tuple(self._moves[each.start : each.end]) for each in self.segments]
        self._courses = dict.fromkeys(courses)
        """What comes and goes in the stretches; those of equal layers have one."""
        numbers = {course: number for number, course in enumerate(self._courses)}
        self._walks = [(span.repeats, [numbers[courses[each]] for each in span.segments]) for span in self.spans]
        self._signed = itemgetter(-1, -1, *chain.from_iterable(self._courses))

    def part(self, keep: Callable[[Block], bool]) -> Program:
        """Return the same stretches with only some of the blocks."""
        tape, kept = Tape(), [keep(block) for block in self.blocks]
        tape.blocks = list(self.blocks)
        for each in self.segments:
            found = [event for event in self.events[each.start : each.end] if kept[event if event >= 0 else ~event]]
            start = len(tape.events)
            tape.events += found
            tape.segments.append(replace(each, start=start, end=len(tape.events)))
        tape.gradients, tape.collectives = set(self.gradients), [(0, set(self.communicated))]
        tape.savers = {block: dict.fromkeys(rules) for block, rules in self.savers.items()}
        return Program(tape)

    def sizes(self, values: Mapping[str, int]) -> list[int]:
        """Return bytes of each shape that occurs."""
        return [aligned(size) for size in self._products(values)]

    def heights(self, values: Mapping[str, int], base: int = 0) -> list[Height]:
        """Return every segment's peak and end, for these sizes, on top of `base` bytes."""
        rises, found, level = self._rises(self.sizes(values)), [], base
        for repeats, walk in self._walks:
            count = 1 if repeats is None else values[repeats]
            before, growth = level, (count - 1) * sum([rises[course][1] for course in walk])
            for course in walk:
                rise, gain = rises[course]
                peak = before if rise is None else level + rise
                level += gain
                found.append(Height(max(peak, peak + growth), level + growth, peak, count))
            level += growth
        return found

    def _rises(self, sizes: list[int]) -> list[tuple[int | None, int]]:
        """Return how far each course goes up, and what it adds; None: nothing happens in it."""
        # The getter's first two places, of nothing, make it yield a row however few the others are.
        running, start = list(accumulate(self._signed([*sizes, *map(neg, sizes), 0]))), 2
        found: list[tuple[int | None, int]] = []
        for course in self._courses:
            stop, before = start + len(course), running[start - 1]
            highest = max(running[start:stop]) - before if course else None
            found.append((highest, running[stop - 1] - before))
            start = stop
        return found

    def moments(self, values: Mapping[str, int], base: int = 0) -> list[Moment]:
        """Return the moments with what each segment is."""
        return self.placed(self.heights(values, base))

    def placed(self, heights: Sequence[Height]) -> list[Moment]:
        """Heights with what their segments are."""
        return [
            Moment(segment.phase, segment.place, *height, number, segment.turn)
            for number, (segment, height) in enumerate(zip(self.segments, heights, strict=True))
        ]

    def allocated(self, rule: str, values: Mapping[str, int]) -> int:
        """Return bytes of all blocks of a rule that a micro-batch allocates, one after the other."""
        sizes, total = self.block_sizes(values), 0
        turn = self.segments[-1].turn
        for segment in self.segments:
            count = 1 if segment.repeats is None else values[segment.repeats]
            events = self.events[segment.start : segment.end] if segment.turn == turn else ()
            total += count * sum(sizes[event] for event in events if event >= 0 and self.blocks[event].rule == rule)
        return total

    def block_sizes(self, values: Mapping[str, int]) -> list[int]:
        """Return bytes of each block."""
        sizes = self.sizes(values)
        return [sizes[kind] for kind in self.kinds]

    def high_water(self, sizes: Sequence[int], values: Mapping[str, int]) -> int:
        """Return the most that is held at once of blocks with these sizes."""
        signed = [*sizes, *map(neg, reversed(sizes))]  # the complement of an index counts from the end
        running = list(accumulate(map(signed.__getitem__, self.events)))
        highest = offset = 0
        for span in self.spans:
            before = running[span.start - 1] if span.start else 0
            count = 1 if span.repeats is None else values[span.repeats]
            growth = (count - 1) * ((running[span.end - 1] if span.end else 0) - before)
            peak = max(running[span.start : span.end], default=before) + offset
            highest = max(highest, peak, peak + growth)
            offset += growth
        return highest

    def profile(self, values: Mapping[str, int], categories: Sequence[int], number: int) -> list[Sample]:
        """Return the highest point of every stretch, by category, given the category of each block and their number.

        A run of equal layers has two samples, its first and its last; between them memory changes linearly.
        """
        sizes = self.sizes(values)
        levels = [0] * number
        found: list[Sample] = []
        for span in self.spans:
            before, highest, total = list(levels), list(levels), 0
            top: int | None = None
            for event in self.events[span.start : span.end]:
                block = event if event >= 0 else ~event
                size = sizes[self.kinds[block]] if event >= 0 else -sizes[self.kinds[block]]
                levels[categories[block]] += size
                total += size
                if top is None or total > top:
                    top, highest = total, list(levels)
            count = 1 if span.repeats is None else values[span.repeats]
            growth = [(count - 1) * (after - level) for after, level in zip(levels, before, strict=True)]
            levels = [level + more for level, more in zip(levels, growth, strict=True)]
            segment = self.segments[span.segments[0]]
            where = segment.phase, segment.place, segment.turn
            moments = len(span.segments)
            found.append(Sample(*where, count * moments, tuple(highest), moments))
            if count > 1:
                last = tuple(level + more for level, more in zip(highest, growth, strict=True))
                found.append(Sample(*where, 0, last, moments))
        return found

    def held(self, moment: Moment, values: Mapping[str, int], done: int | None = None) -> Counter[int]:
        """Return how many of each block are in memory when a moment is at its peak.

        `done`: the same after `done` of its repetitions, at the highest point of the next one.
        """
        if moment.segment is None:
            return self.held_at_end(values)
        sizes = self.sizes(values)
        span = next(span for span in self.spans if moment.segment in span.segments)
        segment = self.segments[moment.segment]
        if done is None:
            done = moment.repeats - 1 if moment.peak > moment.first else 0
        held: Counter[int] = Counter()
        for earlier in self.spans:
            if earlier is span:
                break
            self._tally(held, earlier.start, earlier.end, values[earlier.repeats] if earlier.repeats else 1)
        self._tally(held, span.start, span.end, done)
        self._tally(held, span.start, self._peak_event(segment, sizes) + 1, 1)
        return held

    def held_at_end(self, values: Mapping[str, int]) -> Counter[int]:
        """Return how many of each block are still in memory when the tape ends."""
        held: Counter[int] = Counter()
        for span in self.spans:
            self._tally(held, span.start, span.end, values[span.repeats] if span.repeats else 1)
        return held

    def _tally(self, held: Counter[int], start: int, end: int, times: int) -> None:
        for event in self.events[start:end]:
            if event >= 0:
                held[event] += times
            else:
                held[~event] -= times

    def _peak_event(self, segment: Segment, sizes: Sequence[int]) -> int:
        signed = [*sizes, *(-size for size in sizes)]
        running = list(accumulate(signed[move] for move in self._moves[segment.start : segment.end]))
        return segment.start + running.index(max(running)) if running else segment.start - 1


def _outliving(events: Sequence[int], segments: Sequence[Segment]) -> frozenset[int]:
    """Blocks that some segment has allocated and not freed when it ends."""
    found: set[int] = set()
    for segment in segments:
        found.update(left(events[segment.start : segment.end]))
    return frozenset(found)


def left(events: Sequence[int]) -> dict[int, int]:
    """Return how many of each block these events leave."""
    counts = Counter(events)
    found = {event: count - counts[~event] for event, count in counts.items() if event >= 0}
    return {event: count for event, count in found.items() if count > 0}


def _shape_of(block: Block) -> tuple[int, tuple[Axis, ...]]:
    """Return a block's bytes as a number times a product of axes."""
    factor = ITEMSIZE[block.dtype] * prod(axis for axis in block.shape if isinstance(axis, int))
    return factor, tuple(sorted((axis for axis in block.shape if not isinstance(axis, int)), key=str))


def _spans(segments: Sequence[Segment]) -> Iterator[Span]:
    """Consecutive segments of one phase that repeat under one name belong together."""
    numbered = list(enumerate(segments))
    for (_, repeats), group in groupby(numbered, key=lambda each: (each[1].phase, each[1].repeats)):
        members = list(group)
        groups = [members] if repeats is not None else [[member] for member in members]
        for each in groups:
            yield Span(tuple(number for number, _ in each), each[0][1].start, each[-1][1].end, repeats)
