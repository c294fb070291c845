"""The order of forward and backward passes on a stage, and what is in flight when.

Source: Megatron-LM, core/pipeline_parallel/schedules.py (`forward_backward_pipelining_without_interleaving`,
`get_pp_rank_microbatches`, `get_schedule_table`). A chunk's forward pass adds what it keeps for the backward pass;
micro-batches go through a chunk in groups before the next chunk's turn, and back in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from operator import ge, sub

from memcore.records import dataclass

Live = tuple[int, ...]
"""Micro-batches in flight in each kind of chunk of a stage."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """What is in flight before each pass of a chunk, as far as nothing else has at least as much of every kind."""

    forward: tuple[tuple[Live, ...], ...]
    """By chunk."""
    backward: tuple[tuple[Live, ...], ...]
    highest: tuple[tuple[int, bool, Live], ...]
    """Chunk, whether its pass is forward, and what is in flight besides: of each kind of chunk the highest."""

    @property
    def most(self) -> int:
        """Return the most chunks in flight at once, that which begins its backward pass included."""
        return max(sum(live) for chunk in self.backward for live in chunk)


def warm_up(stage: int, stages: int, chunks: int, micro_batches: int, group: int, *, overlapped: bool = False) -> int:
    """Forward passes of chunks before the first backward pass."""
    if chunks == 1:
        return min(stages - stage - 1, micro_batches)
    found = 2 * (stages - stage - 1) + (chunks - 1) * group + overlapped
    return min(found, micro_batches * chunks)


def schedule(
    stage: int, stages: int, kinds: tuple[int, ...], micro_batches: int, group: int, *, overlapped: bool = False
) -> Schedule:
    """Return what is in flight on a stage, whose chunks are of these kinds."""
    chunks = len(kinds)
    warm = warm_up(stage, stages, chunks, micro_batches, group, overlapped=overlapped)
    if chunks == 1:
        before, after = min(warm, micro_batches - 1), min(warm + 1, micro_batches)
        return Schedule((((before,),),), (((after,),),), ((0, True, (before,)), (0, False, (after - 1,))))
    # After the warm-up everything comes again when a group has gone through all chunks: further groups change nothing.
    most = warm + 2 * group * chunks + group
    enough = -(-most // (group * chunks)) * group
    return in_chunks(warm, kinds, min(micro_batches, enough), group, overlapped=overlapped)


@lru_cache(maxsize=4096)
def in_chunks(warm: int, kinds: tuple[int, ...], micro_batches: int, group: int, *, overlapped: bool) -> Schedule:
    """Return the schedule of any number of chunks, after `warm` forward passes."""
    order, back, counts = _passes(kinds, micro_batches, group)
    # Passes that run side by side: when the forward pass ends, the backward pass has freed what it needed.
    before = warm if overlapped else warm + 1
    lives: tuple[list[list[int]], list[list[int]]] = ([], [])
    for begun, ended in counts:
        # Passes in one direction that have begun before each one in the other.
        lives[0].append(list(map(sub, begun[:-1], [0] * (before - 1) + ended[before < 1 :])))
        lives[1].append(list(map(sub, begun[before:] + begun[-1:] * before, ended[:-1])))
    forward, backward = _by_chunk(kinds, order, lives[0]), _by_chunk(kinds, back, lives[1])
    return Schedule(forward, backward, tuple(_highest(kinds, forward, backward)))


@lru_cache(maxsize=64)
def _passes(
    kinds: tuple[int, ...], micro_batches: int, group: int
) -> tuple[list[int], list[int], Sequence[tuple[list[int], list[int]]]]:
    """Return the chunks of all forward and all backward passes, and of each kind how many come before each."""
    order = _order(len(kinds), micro_batches, group)
    back = [len(kinds) - 1 - chunk for chunk in order]
    found = []
    for kind in range(max(kinds) + 1):
        chunks = [number == kind for number in kinds]
        begun, ended = (list(accumulate(map(chunks.__getitem__, each), initial=0)) for each in (order, back))
        found.append((begun, ended))
    return order, back, found


def _by_chunk(
    kinds: Sequence[int], order: Sequence[int], lives: Sequence[Sequence[int]]
) -> tuple[tuple[Live, ...], ...]:
    """For each chunk, the most that is in flight before its passes; given of each kind what is before every pass."""
    found: list[set[Live]] = [set() for _ in kinds]
    for chunk, live in set(zip(order, zip(*lives, strict=True), strict=True)):
        found[chunk].add(live)
    return tuple(map(_most, found))


def _highest(
    kinds: Sequence[int], forward: Sequence[Sequence[Live]], backward: Sequence[Sequence[Live]]
) -> Iterator[tuple[int, bool, Live]]:
    """Passes that no other one of the same kind and direction exceeds."""
    for is_forward, chunks in ((True, forward), (False, backward)):
        for kind in dict.fromkeys(kinds):
            found: dict[Live, int] = {}
            for number, lives in enumerate(chunks):
                for live in lives if kinds[number] == kind else ():
                    found.setdefault(live if is_forward else without(live, kind), number)
            yield from ((found[live], is_forward, live) for live in _most(set(found)))


def without(live: Live, kind: int) -> Live:
    """Return the others, while one micro-batch of a chunk of a kind runs."""
    return tuple(count - (number == kind) for number, count in enumerate(live))


def _order(chunks: int, micro_batches: int, group: int) -> list[int]:
    """Return the chunk of each forward pass."""
    full, rest = ([chunk for chunk in range(chunks) for _ in range(size)] for size in (group, micro_batches % group))
    return full * (micro_batches // group) + rest


def _most(found: set[Live]) -> tuple[Live, ...]:
    """Return the states that no other one exceeds in every chunk."""
    highest: list[Live] = []
    for live in sorted(found, reverse=True):  # nothing exceeds what comes before it
        if not any(all(map(ge, other, live)) for other in highest):
            highest.append(live)
    return tuple(reversed(highest))
