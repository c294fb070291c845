"""Schedules of pipelines with several stages on a rank: what each rank does, and when most is in flight.

Follows torch/distributed/pipelining/schedules.py, `_calculate_single_rank_operations` of each class. Stages are
numbered on their rank: with loops, rank r of p has stages r, p + r, 2p + r …; in a V, it has r and 2p - 1 - r.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

BOTH_WAYS = "dualpipe"
"""The schedule whose micro-batches enter at both ends: each stage is on two ranks, and has half of them on each."""
Action: TypeAlias = tuple[str, int]
"""What is done with which of the rank's stages: F is a forward pass, B a backward pass, I and W one for inputs and one
for weights. Micro-batches come in order."""


def interleaved(rank: int, ranks: int, chunks: int, count: int) -> list[Action]:
    """`ScheduleInterleaved1F1B`."""
    warm = _warm_up(rank, ranks, chunks, count, hops=2)
    return [("F" if forward else "B", chunk) for forward, chunk in _loops(ranks, chunks, count, warm)]


def zero_bubble(rank: int, ranks: int, chunks: int, count: int) -> list[Action]:
    """`ScheduleInterleavedZeroBubble`, which is ZB-H1 with one stage on each rank.

    Backward passes for weights follow those for inputs by as many as there are ranks before this one.
    """
    warm = _warm_up(rank, ranks, chunks, count, hops=1)
    found: list[Action] = []
    waiting: list[int] = []
    for step, (forward, chunk) in enumerate(_loops(ranks, chunks, count, warm)):
        found.append(("F" if forward else "I", chunk))
        if not forward:
            waiting.append(chunk)
            if _operation(step, warm, chunks * count) - warm >= rank:
                found.append(("W", waiting.pop(0)))
    return [*found, *(("W", chunk) for chunk in waiting)]


def _operation(step: int, warm: int, total: int) -> int:
    """The number of the operation that a step belongs to: after the warm-up a forward and a backward pass are one."""
    paired = 2 * (total - warm)
    return warm + (step - warm) // 2 if step < warm + paired else total + step - warm - paired


def _warm_up(rank: int, ranks: int, chunks: int, count: int, *, hops: int) -> int:
    return min((chunks - 1) * _round(ranks, count) + hops * (ranks - 1 - rank), count * chunks)


def _round(ranks: int, count: int) -> int:
    """Micro-batches that pass through a stage before the next one's turn."""
    return count // max(1, count // ranks)


def _loops(ranks: int, chunks: int, count: int, warm: int) -> Iterator[tuple[bool, int]]:
    """Forward passes up to `warm`, then one of each in turn, then what is left: whether forward, and the stage."""
    each, total = _round(ranks, count), chunks * count
    for step in range(total + warm):
        if step < total:
            yield True, step // each % chunks
        if step >= warm:
            yield False, chunks - 1 - (step - warm) // each % chunks


def zbv(rank: int, ranks: int, chunks: int, count: int) -> list[Action]:
    """`ScheduleZBVZeroBubble`: both backward passes one after the other until the last few micro-batches."""
    many = max(2 * ranks - 1, count)
    both: list[Action] = [("I", 1), ("W", 1)]
    found: list[Action] = [("F", 0)] * (2 * (ranks - rank) - 1)
    found += [("F", 1), ("F", 0)] * rank
    found += [("F", 1), *both] * (ranks - rank)
    first, second = 2 * ranks - rank - 1, ranks
    while second < first or first < many:
        if first < many:
            found.append(("F", 0))
            first += 1
        found += [("I", 0), ("W", 0), ("F", 1), *both]
        second += 1
    found += [("I", 0), ("I", 1)] * rank + [("I", 0), ("W", 0)] * (ranks - rank)
    return _of_the_first(count, [*found, *[("W", 1)] * rank, *[("W", 0)] * rank])


def _of_the_first(count: int, actions: Sequence[Action]) -> list[Action]:
    """Without the micro-batches that only fill the pipeline."""
    done: dict[Action, int] = {}
    found = []
    for action in actions:
        done[action] = done.get(action, 0) + 1
        if done[action] <= count:
            found.append(action)
    return found


def dualpipev(rank: int, ranks: int, chunks: int, count: int) -> list[Action]:
    """`ScheduleDualPipeV`: in its main part whole backward passes."""
    later = ranks - rank - 1
    found: list[Action] = [("F", 0)] * (2 * later) + [("F", 0), ("F", 1)] * (rank + 1)
    found += [("I", 1), ("W", 1), ("F", 1)] * later
    found += [("F", 0), ("B", 1), ("F", 1), ("B", 0)] * (count - 2 * ranks + rank + 1)
    found += [("B", 1), ("F", 1), ("B", 0)] * later
    waiting: list[int] = []
    halves = 2 * (rank + 1)
    switch = 2 * ((rank + 1) // 2) + (rank % 2 == 0)
    for place in range(halves):
        chunk = 1 - place % 2
        found.append(("I" if place >= switch else "B", chunk))
        if place >= switch:
            waiting.append(chunk)
    for _ in range(later):
        if waiting:
            found.append(("W", waiting.pop(0)))
        found.append(("I", 0) if halves > switch else ("B", 0))
        if halves > switch:
            waiting.append(0)
    return [*found, *(("W", chunk) for chunk in waiting)]


def dualpipe(rank: int, ranks: int, chunks: int, count: int) -> list[Action]:
    """DeepSeek's DualPipe (`dualpipe/dualpipe.py`, `DualPipe.step`), with the stages as `facing` gives them.

    Half of the micro-batches enter at the first rank and half at the last. Ranks of the second half take phases the
    other way around, so that a rank does what its mirror image does: what DualPipeV does on half of the ranks.
    """
    return dualpipev(min(facing(rank, ranks)), ranks // 2, chunks, count // 2)


def facing(rank: int, ranks: int) -> tuple[int, int]:
    """Return the stages of a rank of DualPipe, of as many as there are ranks: the one nearer to the beginning first."""
    near = min(rank, ranks - 1 - rank)
    return near, ranks - 1 - near


Schedule: TypeAlias = Callable[[int, int, int, int], list[Action]]
LOOPED: Mapping[str, Schedule] = {
    "interleaved-1f1b": interleaved,
    "zb-h1": zero_bubble,
    "zbv": zbv,
    "dualpipev": dualpipev,
    BOTH_WAYS: dualpipe,
}
"""By the value of `parallelism.pipeline_schedule`: what a rank does, given its number, the number of ranks, of stages
on each and of micro-batches."""
V_SHAPED = frozenset({"zbv", "dualpipev"})
"""Those whose second half of stages goes back from the last rank to the first."""


_ROUNDS = 4


def enough(ranks: int, count: int) -> int:
    """Micro-batches whose fullest moment, on any rank and in any of these schedules, is that of `count` of them.

    What is in flight before a forward pass repeats once every stage is filled, so that more rounds add no moment that
    was not there before, and four rounds have them all:

    - With loops, a round is as many micro-batches as pass through a stage before the next one's turn, from `ranks` up
      to less than twice as many, and it is the same for four rounds as for all of them. Forward passes come in periods
      of one round through all stages; so do the backward passes that end micro-batches, later by the warm-up, and
      with a zero bubble by one more for each rank before this one. After the first forward pass that follows both, what
      is in flight depends on its place in the period alone. Warm-up, delay and one period are at most 2 · chunks + 1
      times the forward passes of a round through one stage; four rounds have 4 · chunks times as many.
    - In a V, and both ways, passes before the steady part are the same for any number of micro-batches from
      `2 * ranks` on. The steady part is one sequence of passes that leaves in flight what it found, and runs at least
      once. After it no stage that goes forward has more in flight than it had there.
    """
    rounds = count // ranks
    return count if rounds <= _ROUNDS else _ROUNDS * _round(ranks, count)


def fullest(actions: Sequence[Action], weights: Sequence[int]) -> tuple[int, ...]:
    """Micro-batches in flight on each stage, before the forward pass after which there is most of them.

    A micro-batch stays until its backward pass for weights: PyTorch retains the graph in the one for inputs
    (`stage_backward_input`). `weights` says how much one micro-batch counts on each stage.
    """
    live, best, most = [0] * len(weights), (0,) * len(weights), -1
    for kind, chunk in actions:
        if kind == "F":
            before = tuple(live)
            live[chunk] += 1
            level = sum(number * weight for number, weight in zip(live, weights, strict=True))
            if level > most:
                most, best = level, before
        elif kind in "BW":
            live[chunk] -= 1
    return best
