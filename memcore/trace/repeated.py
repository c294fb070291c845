"""Micro-batches after the first, from its tape: a gradient that has one to be added to goes once it is added."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from memcore.records import dataclass
from memcore.tensors.tape import Handed, Segment, Storage
from memcore.tensors.tensor import Tape
from memcore.trace.program import left


@dataclass(frozen=True, slots=True)
class First:
    """The first micro-batch of a step, and what the others have to know."""

    tape: Tape
    events: tuple[int, ...]
    freed: tuple[tuple[int, int, tuple[int, ...]], ...] | None
    """Segment, number of events, and what goes there where gradients are added to others; None: it is not known."""


def first_of(tape: Tape) -> First:
    """Read a tape that has ended, while its gradients are there."""
    handed, tape.handed = tape.handed, None
    return First(tape, tuple(tape.events), None if handed is None or tape.left else _freed(tape, handed))


def repeated(first: First, turns: Sequence[tuple[int, int]]) -> Tape | None:
    """Return the tape of several micro-batches that do as the first; None: that one left more than gradients."""
    if first.freed is None:
        return None
    source, tape = first.tape, Tape()
    tape.blocks, tape.savers, tape.gradients = source.blocks, source.savers, source.gradients
    tape.events, tape.segments = list(first.events), list(source.segments)
    for turn in turns[1:]:
        freed = list(first.freed)
        for number, segment in enumerate(source.segments):
            start, at = len(tape.events), segment.start
            while freed and freed[0][0] == number:
                _, place, blocks = freed.pop(0)
                tape.events += first.events[at:place]
                tape.events += blocks
                at = place
            tape.events += first.events[at : segment.end]
            tape.segments.append(replace(segment, turn=turn, start=start, end=len(tape.events)))
    return tape


def _freed(tape: Tape, handed: Sequence[Handed]) -> tuple[tuple[int, int, tuple[int, ...]], ...] | None:
    """Return what goes where there are gradients, if gradients are all that is left."""
    found, there = [], Counter[int]()
    for each in handed:
        storage = each.storage()
        if storage is None:
            continue  # the engine took it
        if not _within(each, tape.segments):
            return None
        blocks = _blocks(storage)
        found.append((each.segments, each.events, tuple(~block for block in blocks)))
        there.update(blocks)
    begin = tape.segments[0].start if tape.segments else 0
    return tuple(found) if not tape.collectives and left(tape.events[begin:]) == there else None


def _within(each: Handed, segments: Sequence[Segment]) -> bool:
    """Return whether the stretch that ran has left a segment: one in which nothing else happened has not."""
    if each.segments == len(segments) or each.stretch is None:
        return False
    segment = segments[each.segments]
    return each.stretch == (segment.turn, segment.place, segment.start, segment.repeats)


def _blocks(storage: Storage | None) -> list[int]:
    """Return a storage's blocks in the order in which they go."""
    found = []
    while storage is not None:
        found.append(storage.block)
        storage = storage.others
    return found
