"""What checkpoints of DeepSpeed keep of their inputs: parts of them, or nothing on the GPU.

Source: deepspeed, runtime/activation_checkpointing/checkpointing.py (`partition_activations`,
`gather_partitioned_activations`) and offload_activations.py (`_ActivationOffloadEngine`: the newest input stays, and
the one before is still on its way when the backward pass wants it).
"""

from __future__ import annotations

from memcore.tensors.dividing import Part
from memcore.tensors.offloading import Offloaded
from memcore.tensors.tensor import Tensor

NEWEST = 2
"""Inputs that are still on the GPU (`keep_last_count`, and what is being copied)."""


def partitioned(tensor: Tensor, *, hosted: bool) -> Part:
    """Return a tensor-parallel rank's part of an input, which it keeps at once."""
    part = Part(tensor, "partitioned_activation", "gathered_activation")
    part.divide(hosted=hosted)
    return part


class Hosted:
    """The inputs of a micro-batch's checkpoints, of which the newest are on the GPU."""

    def __init__(self) -> None:
        self._newest: list[Offloaded] = []

    def keep(self, tensor: Tensor) -> Offloaded:
        """Return an input. Of layers that stand for many, others' newest stand for their own."""
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
