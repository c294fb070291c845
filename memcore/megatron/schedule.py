"""The order of forward and backward passes on a stage, and what is in flight when.

Source: Megatron-LM, core/pipeline_parallel/schedules.py (`forward_backward_pipelining_without_interleaving`,
`get_pp_rank_microbatches`, `get_schedule_table`). A chunk's forward pass adds what it keeps for the backward pass;
micro-batches go through a chunk in groups before the next chunk's turn, and back in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

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
        """The most chunks in flight at once, that which begins its backward pass included."""
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
    """What is in flight on a stage, whose chunks are of these kinds."""
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
    """The same for any number of chunks, after so many forward passes to warm up."""
    chunks = len(kinds)
    order = list(_order(chunks, micro_batches, group))
    live = [0] * (max(kinds) + 1)
    before: tuple[list[set[Live]], list[set[Live]]] = ([set() for _ in kinds], [set() for _ in kinds])
    for index in range(len(order) + warm):
        passes = [index < len(order), index >= warm]
        # Passes that run side by side: when the forward pass ends, the backward pass has freed what it needed.
        for forward in (False, True) if overlapped else (True, False):
            if forward and passes[0]:
                before[0][order[index]].add(tuple(live))
                live[kinds[order[index]]] += 1
            elif not forward and passes[1]:
                back = chunks - 1 - order[index - warm]
                before[1][back].add(tuple(live))
                live[kinds[back]] -= 1
    ahead, behind = (tuple(_most(each) for each in sets) for sets in before)
    return Schedule(ahead, behind, tuple(_highest(kinds, ahead, behind)))


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
    """The others, while one micro-batch of a chunk of a kind runs."""
    return tuple(count - (number == kind) for number, count in enumerate(live))


def _order(chunks: int, micro_batches: int, group: int) -> Iterator[int]:
    """The chunk of each forward pass."""
    for start in range(0, micro_batches, group):
        for chunk in range(chunks):
            yield from [chunk] * min(group, micro_batches - start)


def _most(found: set[Live]) -> tuple[Live, ...]:
    """Those that no other one exceeds in every chunk."""
    return tuple(sorted(live for live in found if not any(other != live and _covers(other, live) for other in found)))


def _covers(first: Sequence[int], second: Sequence[int]) -> bool:
    return all(a >= b for a, b in zip(first, second, strict=True))
