"""The clock: how many bytes a rank holds at every moment of a step.

A recorded tape is compiled into a `Program` once. With sizes for its symbols, a program yields the exact maximum of
every moment in microseconds: within a run of equal layers memory changes linearly with the layer's index, so that the
first or the last of the run is the peak.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from math import prod

from memcore.dtypes import ITEMSIZE
from memcore.eager.tape import Block, Segment, Tape
from memcore.symbols import Axis, measure

ALIGNMENT = 512
"""The caching allocator rounds requests up to this many bytes (c10/cuda/CUDACachingAllocator.cpp, kMinBlockSize)."""


def aligned(size: int) -> int:
    """Bytes rounded up as the caching allocator does."""
    return (size + ALIGNMENT - 1) & -ALIGNMENT


@dataclass(frozen=True, slots=True)
class Moment:
    """A stretch of the step, with the bytes held beyond what was there before the step."""

    phase: str
    """forward, loss, backward, gradient_clipping or optimizer_step."""
    place: str
    peak: int
    end: int
    """What is held when it ends."""
    first: int
    """What the first of its repetitions peaks at."""
    repeats: int
    segment: int
    """Its number in the program."""


@dataclass(frozen=True, slots=True)
class _Span:
    """Segments that repeat together, as one pattern of layers."""

    segments: tuple[int, ...]
    start: int
    end: int
    repeats: str | None


class Program:
    """A tape compiled for evaluation with any sizes."""

    def __init__(self, blocks: Sequence[Block], events: Sequence[int], segments: Sequence[Segment]) -> None:
        self.blocks = tuple(blocks)
        self.segments = tuple(segments)
        self.events = tuple(events)
        shapes: dict[tuple[int, tuple[Axis, ...]], int] = {}
        kinds = [shapes.setdefault(_shape_of(block), len(shapes)) for block in self.blocks]
        self._shapes = tuple(shapes)
        self._axes = tuple({axis for _, axes in self._shapes for axis in axes})
        self._moves = [kinds[event] if event >= 0 else kinds[~event] + len(shapes) for event in events]
        self._spans = tuple(_spans(self.segments))

    def sizes(self, values: Mapping[str, int]) -> list[int]:
        """Bytes of each shape that occurs."""
        known = {axis: measure(axis, values) for axis in self._axes}
        return [aligned(factor * prod([known[axis] for axis in axes])) for factor, axes in self._shapes]

    def moments(self, values: Mapping[str, int]) -> list[Moment]:
        """Every segment's peak and end, for these sizes."""
        sizes = self.sizes(values)
        signed = sizes + [-size for size in sizes]
        running = list(accumulate(map(signed.__getitem__, self._moves)))
        found, offset = [], 0
        for span in self._spans:
            count = 1 if span.repeats is None else values[span.repeats]
            before = running[span.start - 1] if span.start else 0
            growth = (count - 1) * ((running[span.end - 1] if span.end else 0) - before)
            for number in span.segments:
                segment = self.segments[number]
                peak = max(running[segment.start : segment.end], default=before) + offset
                end = (running[segment.end - 1] if segment.end else 0) + offset + growth
                found.append(Moment(segment.phase, segment.place, max(peak, peak + growth), end, peak, count, number))
            offset += growth
        return found

    def held(self, moment: Moment, values: Mapping[str, int]) -> Counter[int]:
        """How many of each block are in memory when a moment is at its peak."""
        sizes = self.sizes(values)
        span = next(span for span in self._spans if moment.segment in span.segments)
        segment = self.segments[moment.segment]
        done = moment.repeats - 1 if moment.peak > moment.first else 0
        held: Counter[int] = Counter()
        for earlier in self._spans:
            if earlier is span:
                break
            self._tally(held, earlier.start, earlier.end, values[earlier.repeats] if earlier.repeats else 1)
        self._tally(held, span.start, span.end, done)
        self._tally(held, span.start, self._peak_event(segment, sizes) + 1, 1)
        return held

    def held_at_end(self, values: Mapping[str, int]) -> Counter[int]:
        """How many of each block are still in memory when the tape ends."""
        held: Counter[int] = Counter()
        for span in self._spans:
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


def compile_tape(tape: Tape) -> Program:
    """A program from a recorded tape."""
    return Program(tape.blocks, tape.events, tape.segments)


def _shape_of(block: Block) -> tuple[int, tuple[Axis, ...]]:
    """A block's bytes as a number times a product of axes."""
    factor = ITEMSIZE[block.dtype] * prod(axis for axis in block.shape if isinstance(axis, int))
    return factor, tuple(sorted((axis for axis in block.shape if not isinstance(axis, int)), key=str))


def _spans(segments: Sequence[Segment]) -> Iterator[_Span]:
    """Consecutive segments of one phase that repeat under one name belong together."""
    numbered = list(enumerate(segments))
    for (_, repeats), group in groupby(numbered, key=lambda each: (each[1].phase, each[1].repeats)):
        members = list(group)
        groups = [members] if repeats is not None else [[member] for member in members]
        for each in groups:
            yield _Span(tuple(number for number, _ in each), each[0][1].start, each[-1][1].end, repeats)
