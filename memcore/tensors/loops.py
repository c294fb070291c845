"""Loops over tokens or chunks inside a layer: a few iterations are recorded, and one of them stands for all others."""

from __future__ import annotations

from collections.abc import Iterator

from memcore.symbols import Axis, Shifted
from memcore.tensors.tensor import Tape, Tensor

LOOP = 5
"""Iterations that are recorded at most."""
_STANDS = LOOP - 3
"""The one that stands for those that are not: two come before and two after it."""


def iterations(tape: Tape, trips: Axis, recorded: int) -> Iterator[int]:
    """Yield the iterations to record of a loop that runs `trips` times: all, or `LOOP` of them.

    What the one that stands for others leaves behind when the next is over is there once more for each of those.
    Memory grows by as much in each iteration, and falls by as much backwards, so that the last ones, which are all
    recorded, are the highest; temporaries of an iteration are there once.
    """
    for index in range(recorded):
        if recorded == LOOP and index == _STANDS:
            tape.watched = []
            yield index
            found, tape.watched = tape.watched, None
            continue
        yield index
        if recorded == LOOP and index == _STANDS + 1:
            for each in found:
                storage = each()
                if storage is not None:
                    tape.multiply(storage, Shifted(trips, -1, LOOP))


def returns(result: Tensor, index: int, trips: Axis, recorded: int) -> None:
    """An iteration ends in `result`, and the backward pass gathers what it leaves behind of each iteration.

    The gradients that the one that stands for others leaves behind are there once more for each of those, too.
    """
    tape, node = result.tape, result.node
    if recorded != LOOP or node is None or index not in (_STANDS, _STANDS - 1):
        return

    def begin() -> None:
        tape.watched = []

    def end() -> None:
        found, tape.watched = tape.watched or [], None
        for storage in filter(None, (each() for each in found)):
            tape.multiply(storage, Shifted(trips, -1, LOOP))

    node.before.append(begin if index == _STANDS else end)
