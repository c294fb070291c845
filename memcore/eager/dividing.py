"""Checkpoints whose input tensor-parallel ranks share: each keeps a part, and gathers it before it runs again.

Source: Megatron-LM, core/tensor_parallel/random.py (`CheckpointFunction`, `distribute_saved_activations`).
"""

from __future__ import annotations

from collections.abc import Callable

from memcore.eager.autograd import Kept, Saved, checkpoint
from memcore.eager.tensor import Tensor
from memcore.symbols import Quotient


class _Part:
    """An input that is whole until the first run ends."""

    __slots__ = ("_part", "_whole", "dtype", "shape", "tape")

    def __init__(self, tensor: Tensor) -> None:
        self._whole: Tensor | None = tensor
        self._part: Tensor | None = None
        self.tape, self.shape, self.dtype = tensor.tape, tensor.shape, tensor.dtype

    def divide(self) -> None:
        """`split_tensor_into_1d_equal_chunks`: a part of its elements, in memory of its own."""
        shape = (Quotient(self.shape, "tp"),)
        storage = self.tape.allocate(shape, self.dtype, "divided_input")
        self._part, self._whole = Tensor(self.tape, storage, shape, self.dtype), None

    def unpack(self) -> Tensor:
        """`gather_split_1d_tensor`; the part itself is replaced by the whole."""
        if self._whole is not None:
            return self._whole
        storage = self.tape.allocate(self.shape, self.dtype, "megatron_all_gather")
        self._part = None
        return Tensor(self.tape, storage, self.shape, self.dtype)


def checkpoint_divided(function: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """Run `function`, keep a part of its first input and all of the others, and run it again in the backward pass."""
    tape = inputs[0].tape
    parts: list[_Part] = []

    def pack(tensor: Tensor) -> Saved:
        if parts:
            return Kept(tensor)
        parts.append(_Part(tensor))
        return parts[0]

    before, tape.offload = tape.offload, pack
    try:
        out = checkpoint(function, *inputs, early_stop=False)
    finally:
        tape.offload = before
    parts[0].divide()
    return out
