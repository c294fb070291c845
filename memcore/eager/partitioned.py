"""What checkpoints of DeepSpeed keep of their inputs: parts of them, or nothing on the GPU.

Source: deepspeed, runtime/activation_checkpointing/checkpointing.py (`partition_activations`,
`gather_partitioned_activations`) and offload_activations.py (`_ActivationOffloadEngine`: the newest input stays, and
the one before is still on its way when the backward pass wants it).
"""

from __future__ import annotations

from memcore.eager.basics import new
from memcore.eager.offloading import Offloaded
from memcore.eager.tensor import Tensor
from memcore.symbols import Quotient

NEWEST = 2
"""Inputs that are still on the GPU (`keep_last_count`, and what is being copied)."""


class Part:
    """A tensor-parallel rank's part of an input; all parts are gathered for the backward pass."""

    __slots__ = ("_part", "_whole")

    def __init__(self, tensor: Tensor, *, hosted: bool) -> None:
        part = new(tensor.tape, (Quotient(tensor.shape, "tp"),), tensor.dtype, "partitioned_activation")
        self._part: Tensor | None = None if hosted else part
        self._whole = tensor.tape, tensor.shape, tensor.dtype, tensor.order

    def unpack(self) -> Tensor:
        """The whole input."""
        tape, shape, dtype, order = self._whole
        found = new(tape, shape, dtype, "gathered_activation", order=order)
        self._part = None
        return found


class Hosted:
    """The inputs of a micro-batch's checkpoints, of which the newest are on the GPU."""

    def __init__(self) -> None:
        self._newest: list[Offloaded] = []

    def keep(self, tensor: Tensor) -> Offloaded:
        """An input. Of layers that stand for many, others' newest stand for their own."""
        entry = Offloaded(tensor)
        if tensor.tape.repeats is None:
            self._newest.append(entry)
        else:
            entry.leave()
        return entry

    def settle(self) -> None:
        """The layer has run, and the copy of an older input is done."""
        while len(self._newest) > NEWEST:
            self._newest.pop(0).leave()
