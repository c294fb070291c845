"""Results whose memory goes as soon as they are used, and comes back for the backward pass.

Source: Megatron-LM, core/tensor_parallel/random.py (`CheckpointWithoutOutput`).
"""

from __future__ import annotations

from collections.abc import Callable

from memcore.eager.autograd import Frame, Kept, Saved, memory_of
from memcore.eager.tensor import Tensor


class _Discarded:
    """What the consumer of a discarded result has saved of it."""

    __slots__ = ("_frame", "_results")

    def __init__(self, frame: Frame, results: list[Tensor]) -> None:
        self._frame = frame
        self._results = results

    def unpack(self) -> Tensor:
        self._frame.rerun()
        return self._results[-1]


def discard(function: Callable[..., Tensor], use: Callable[[Tensor], Tensor], *inputs: Tensor) -> Tensor:
    """Give a function's result to its consumer, free it, and compute it again before the consumer's backward pass."""
    tape = inputs[0].tape
    results: list[Tensor] = []

    def remember(*given: Tensor) -> Tensor:
        out = function(*given)
        if tape.recomputing:
            results.append(memory_of(out))
        return out

    frame = Frame(tape, remember, inputs, False, None)
    with tape.packing(frame.pack):
        result = remember(*inputs)
    storage, pack = result.storage, tape.pack or Kept

    def pack_for_consumer(tensor: Tensor) -> Saved:
        return _Discarded(frame, results) if tensor.storage is storage else pack(tensor)

    with tape.packing(pack_for_consumer):
        out = use(result)
    if out.node is not None:
        out.node.before.append(lambda: _ignore(frame.rerun()))
    return out


def _ignore(found: object) -> None:
    """Nothing is left to do."""
