"""The step as stretches: moments and runs of equal layers, where they lie across a picture, and what they hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memcore.memory.ledger import Ledger
from memcore.memory.rank import Rank
from memcore.records import dataclass
from memcore.trace.program import Moment, Sample


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of the step: one moment, or a run of equal layers, along which memory changes linearly."""

    moment: Moment
    """The moment that holds most of it."""
    start: float
    end: float
    """Where it begins and ends, from 0 to 1."""
    first: tuple[int, ...]
    last: tuple[int, ...]
    """Bytes of each category at the highest point of the first and of the last repetition."""

    @property
    def repeats(self) -> int:
        """Return how many layers, or patterns of layers, run one after the other."""
        return self.moment.repeats if self.moment.segment is not None else 1

    def ledger(self, rank: Rank, done: int) -> Ledger:
        """Return everything in memory after `done` repetitions, at the highest point of the next."""
        return rank.ledger(self.moment, min(max(done, 0), self.repeats - 1))


def stretches(rank: Rank) -> tuple[Stretch, ...]:
    """Return a rank's step as stretches, in order."""
    return tuple(_stretches(rank.profile, rank.moments))


def _stretches(samples: Sequence[Sample], moments: Sequence[Moment]) -> Iterator[Stretch]:
    """Samples and moments walk through the same segments; a run's last sample belongs to its first one."""
    places, at = places_of(samples), 0
    for number, sample in enumerate(samples):
        if not sample.layers:
            continue
        own = moments[at : at + sample.moments]
        at += sample.moments
        ramps = number + 1 < len(samples) and not samples[number + 1].layers
        last = samples[number + 1 if ramps else number].levels
        start, end = places[number][0], places[number + 1 if ramps else number][1]
        yield Stretch(max(own, key=lambda moment: moment.first), start, end, sample.levels, last)


def places_of(samples: Sequence[Sample]) -> list[tuple[float, float]]:
    """Return where each sample begins and ends, from 0 to 1.

    The two samples of a run share its width, one at each end.
    """
    widths = [max(sample.layers, 1) if sample.layers else 0 for sample in samples]
    total, start = sum(widths), 0
    found = []
    for number, width in enumerate(widths):
        is_ramp = number + 1 < len(samples) and not widths[number + 1]
        end = start if is_ramp else start + width
        found.append((start / total, end / total))
        start += width
        if not width:
            found[-1] = (start / total, start / total)
    return found
