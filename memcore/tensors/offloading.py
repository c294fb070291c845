"""Activation offloading: what is saved for the backward pass goes to the host, and comes back when it is needed.

Source: torchtune/training/_activation_offloading.py and trl/models/activation_offloading.py (`OffloadActivations`):
saved tensors of the layers, but no parameters, are copied on a stream of their own; the newest five stay until their
copies are done. Here they stay until the layer ends.
"""

from __future__ import annotations

from memcore.tensors.autograd import SavedTensor
from memcore.tensors.tensor import Saved, Tensor

STASH = 5
"""The newest tensors, which stay (`max_fwd_stash_size`)."""


class Offloaded:
    """A saved tensor on the host, or on its way."""

    __slots__ = ("_tensor", "dtype", "order", "shape", "tape")

    def __init__(self, tensor: Tensor) -> None:
        self._tensor: Tensor | None = tensor
        self.tape, self.shape, self.dtype, self.order = tensor.tape, tensor.shape, tensor.dtype, tensor.order

    def leave(self) -> None:
        """Its copy is done."""
        self._tensor = None

    def unpack(self) -> Tensor:
        if self._tensor is not None:
            return self._tensor
        storage = self.tape.allocate(self.shape, self.dtype, "offloaded_activation")
        return Tensor(self.tape, storage, self.shape, self.dtype, order=self.order)


class Offload:
    """The hooks around a layer."""

    def __init__(self) -> None:
        self._stash: list[Offloaded] = []

    def pack(self, tensor: Tensor) -> Saved:
        """Send a tensor to the host; parameters stay."""
        if tensor.storage is None:
            return SavedTensor(tensor)
        entry = Offloaded(tensor)
        self._stash.append(entry)
        if len(self._stash) > STASH:
            self._stash.pop(0).leave()
        return entry

    def finish(self) -> None:
        """All copies are done."""
        for entry in self._stash:
            entry.leave()
        self._stash.clear()
