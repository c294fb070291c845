"""Checkpoints whose input tensor-parallel ranks share: each keeps a part, and gathers it before it runs again.

Source: Megatron-LM, core/tensor_parallel/random.py (`CheckpointFunction`, `distribute_saved_activations`:
`split_tensor_into_1d_equal_chunks`, `gather_split_1d_tensor`).
"""

from __future__ import annotations

from collections.abc import Callable

from memcore.symbols import Quotient, Shape
from memcore.tensors.autograd import SavedTensor, checkpoint
from memcore.tensors.basics import new
from memcore.tensors.tensor import Saved, Tape, Tensor


class Part:
    """An input of which a tensor-parallel rank keeps a part once it is divided; all parts are gathered to unpack it.

    `rules` name the part's memory and that of the whole once more.
    """

    __slots__ = ("_held", "_rules", "_whole")

    def __init__(self, tensor: Tensor, *rules: str) -> None:
        self._held: Tensor | None = tensor
        self._whole: tuple[Tape, Shape, str, tuple[int, ...] | None] | None = None
        self._rules = rules

    def divide(self, *, hosted: bool = False) -> None:
        """Keep a part of its elements in memory of its own, or on the host."""
        tensor = self._held
        if tensor is None:
            raise TypeError(self)
        part = new(tensor.tape, (Quotient(tensor.shape, "tp"),), tensor.dtype, self._rules[0])
        self._whole = tensor.tape, tensor.shape, tensor.dtype, tensor.order
        self._held = None if hosted else part

    def unpack(self) -> Tensor:
        """Return the whole input; the part is replaced by it."""
        if self._whole is None:
            if self._held is None:
                raise TypeError(self)
            return self._held
        tape, shape, dtype, order = self._whole
        whole = new(tape, shape, dtype, self._rules[1], order=order)
        self._held = None
        return whole


def checkpoint_divided(function: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """Run `function`, keep a part of its first input and all of the others, and run it again in the backward pass."""
    tape = inputs[0].tape
    parts: list[Part] = []

    def pack(tensor: Tensor) -> Saved:
        if parts:
            return SavedTensor(tensor)
        parts.append(Part(tensor, "divided_input", "megatron_all_gather"))
        return parts[0]

    before, tape.offload = tape.offload, pack
    try:
        out = checkpoint(function, *inputs, early_stop=False)
    finally:
        tape.offload = before
    parts[0].divide()
    return out
