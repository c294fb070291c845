"""How ggml places a graph's tensors in one buffer for each device, and how large the buffers get.

Source: `ggml/src/ggml-alloc.c` of ggml 0.25: nodes are placed in the order of computation, in the best fitting free
block; an operation that can work in place takes its operand's memory when nothing else needs it; memory is free again
after the last use.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from memcore.servers.llamacpp.ggml.tensor import Tensor
from memcore.symbols import round_up

IN_PLACE = frozenset(
    [
        "FILL",
        "SCALE",
        "DIAG_MASK_ZERO",
        "DIAG_MASK_INF",
        "ADD",
        "ADD_ID",
        "ADD1",
        "SUB",
        "MUL",
        "DIV",
        "SQR",
        "SQRT",
        "LOG",
        "UNARY",
        "ROPE",
        "RMS_NORM",
        "CLAMP",
        "SOFT_MAX",
        "SILU",
        "GELU",
        "RELU",
        "SIGMOID",
        "TANH",
        "SOFTPLUS",
        "EXP",
        "NEG",
        "ELU",
        "XIELU",
    ]
)
"""Operations whose result may take an operand's memory (`ggml_op_can_inplace`); activations are ggml's UNARY."""
_ENDLESS = 1 << 62


class Reserved(NamedTuple):
    """Bytes of a device's compute buffer, and of the largest tensor in it."""

    bytes: int
    largest: int


class Buffer:
    """The free blocks of a buffer that grows as needed (`ggml_dyn_tallocr`)."""

    def __init__(self, alignment: int) -> None:
        self.alignment = alignment
        self.size = 0
        self.largest = 0
        """Bytes of the largest block that was ever taken."""
        self.free = [[0, _ENDLESS]]

    def aligned(self, size: int) -> int:
        """Return a size rounded up to the alignment."""
        return round_up(size, self.alignment)

    def take(self, size: int) -> int:
        """Return the offset of a new block: in the smallest free one that is large enough, else at the end."""
        size = self.aligned(size)
        self.largest = max(self.largest, size)
        best = None
        for block in self.free[:-1]:
            if block[1] >= size and (best is None or block[1] <= best[1]):
                best = block
        if best is None:
            best = self.free[-1]
        offset = best[0]
        best[0] += size
        best[1] -= size
        if best[1] == 0:
            self.free = [block for block in self.free if block is not best]
        self.size = max(self.size, offset + size)
        return offset

    def give(self, offset: int, size: int) -> None:
        """Free a block, and merge it with its neighbours."""
        size = self.aligned(size)
        for place, block in enumerate(self.free):
            if block[0] + block[1] == offset:
                block[1] += size
                if place + 1 < len(self.free) and block[0] + block[1] == self.free[place + 1][0]:
                    block[1] += self.free.pop(place + 1)[1]
                return
            if offset + size == block[0]:
                block[0], block[1] = offset, block[1] + size
                if place and self.free[place - 1][0] + self.free[place - 1][1] == offset:
                    self.free[place - 1][1] += self.free.pop(place)[1]
                return
        place = next((number for number, block in enumerate(self.free) if block[0] >= offset), len(self.free))
        self.free.insert(place, [offset, size])


class _State:
    """What the allocator knows about a tensor."""

    __slots__ = ("allocated", "children", "device", "offset", "views")

    def __init__(self) -> None:
        self.children = 0
        self.views = 0
        self.device = ""
        self.offset = 0
        self.allocated = False


class Allocator:
    """Places one graph (`ggml_gallocr`)."""

    def __init__(self, alignments: Mapping[str, int], size_on: Callable[[Tensor, str], int]) -> None:
        self.buffers = {device: Buffer(alignment) for device, alignment in alignments.items()}
        self._size_on = size_on
        self._states: defaultdict[int, _State] = defaultdict(_State)
        """By the identity of a tensor."""

    def run(self, nodes: Sequence[tuple[Tensor, str]], leaves: Sequence[tuple[Tensor, str]]) -> Mapping[str, Reserved]:
        """Place leaves and nodes, each with its device; return each device's buffer."""
        for tensor, device in leaves:
            self._allocate(tensor, device)
        for node, device in nodes:
            if node.view is not None and node.op != "NONE":
                self._states[id(node.view)].views += 1
            if node.input:
                self._allocate(node, device)
            for source in node.src:
                self._states[id(source)].children += 1
                if source.input:
                    self._allocate(source, device)
        for node, device in nodes:
            for source in node.src:
                self._allocate(source, device)
            self._allocate(node, device)
            for source in node.src:
                self._release(source)
        return {device: Reserved(buffer.size, buffer.largest) for device, buffer in self.buffers.items()}

    def _allocate(self, tensor: Tensor, device: str) -> None:
        if tensor.place is not None or tensor.view is not None:
            return
        state = self._states[id(tensor)]
        if state.allocated:
            return
        state.allocated = True
        if tensor.op in IN_PLACE and self._reuse(tensor, state):
            return
        state.device = device
        state.offset = self.buffers[device].take(self._size_on(tensor, device))

    def _reuse(self, tensor: Tensor, state: _State) -> bool:
        """Take the memory of an operand that nothing else needs any more; what a view shows is not taken."""
        for parent in tensor.src:
            its = self._states[id(parent)]
            if its.allocated and not parent.output and tensor.like(parent) and its.children == 1 and its.views == 0:
                state.device, state.offset = its.device, its.offset
                its.allocated = False
                self._shrink(tensor, parent, state)
                return True
        return False

    def _shrink(self, tensor: Tensor, parent: Tensor, state: _State) -> None:
        buffer = self.buffers[state.device]
        before = buffer.aligned(self._size_on(parent, state.device))
        after = buffer.aligned(self._size_on(tensor, state.device))
        if before > after:
            buffer.give(state.offset + after, before - after)

    def _release(self, tensor: Tensor) -> None:
        state = self._states[id(tensor)]
        state.children -= 1
        if state.children or state.views:
            return
        if tensor.view is not None:
            owner = self._states[id(tensor.view)]
            owner.views -= 1
            if owner.views == 0 and owner.children == 0 and owner.allocated:
                self._free(tensor.view, owner)
        elif state.allocated:
            self._free(tensor, state)

    def _free(self, tensor: Tensor, state: _State) -> None:
        if tensor.output:
            return
        self.buffers[state.device].give(state.offset, self._size_on(tensor, state.device))
        state.allocated = False
