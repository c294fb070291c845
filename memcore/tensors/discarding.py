"""Results whose memory goes as soon as they are used, and comes back for the backward pass.

Source: Megatron-LM, core/tensor_parallel/random.py (`CheckpointWithoutOutput`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from memcore.tensors.autograd import Frame, SavedTensor, memory_of
from memcore.tensors.tensor import Saved, Tensor

_NOTHING = nullcontext()


class _Discarded:
    """What the consumer of a discarded result has saved of it."""

    __slots__ = ("_frame", "_place", "_results")

    def __init__(self, frame: Frame, results: list[Tensor], place: int) -> None:
        self._frame = frame
        self._results = results
        self._place = place

    def unpack(self) -> Tensor:
        self._frame.rerun()
        return self._results[self._place]


def discard(
    function: Callable[..., Sequence[Tensor]],
    use: Callable[..., Tensor],
    *inputs: Tensor,
    within: AbstractContextManager[None] = _NOTHING,
) -> Tensor:
    """Give a function's results to their consumer, free them, and compute them again for its backward pass.

    `within`: what its inputs are kept by.
    """
    tape = inputs[0].tape
    again: list[Tensor] = []
    results: list[Tensor] = []
    ran = False

    def remember(*given: Tensor) -> Tensor:
        nonlocal ran
        found = function(*given)
        if ran:
            again.extend(memory_of(each) for each in found)
        else:
            results.extend(found)
        ran = True
        return found[0]

    with within:
        frame = Frame(tape, remember, inputs, False, None)
    with tape.packing(frame.pack):
        remember(*inputs)
    storages, pack = [each.storage for each in results], tape.pack or SavedTensor

    def pack_for_consumer(tensor: Tensor) -> Saved:
        places = [place for place, each in enumerate(storages) if each is tensor.storage and each is not None]
        return _Discarded(frame, again, places[0]) if places else pack(tensor)

    with tape.packing(pack_for_consumer):
        out = use(*results)
    results.clear()
    storages.clear()
    if out.node is not None:
        waiting = [frame]
        out.node.before.append(lambda: _again(waiting.pop()))
    return out


def _again(frame: Frame) -> None:
    """The results are there again; only the consumer's saved tensors refer to them, and to the frame, from now on."""
    frame.rerun()
