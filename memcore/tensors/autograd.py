"""Autograd: the graph, the backward pass, and checkpointing.

Follows PyTorch's engine (torch/csrc/autograd: engine.cpp, input_buffer.cpp, saved_variable.cpp): nodes run in
reverse order of creation and leaves first; when a node has run, its incoming gradients are freed, then what it had
saved; a gradient that arrives at an occupied place is added to it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TypeAlias
from weakref import ref

from memcore.symbols import Axis, Shape
from memcore.tensors.selection import Selected, Selection
from memcore.tensors.tape import CAPTURED
from memcore.tensors.tensor import Node, Parameter, Saved, Tape, Tensor

Gradient: TypeAlias = "Tensor | None"
Apply: TypeAlias = Callable[[list[Gradient], list[Tensor]], Sequence[Gradient]]
"""A backward formula: gradients of the outputs and saved tensors in, gradients of the inputs out."""

_HERE = nullcontext()
_LEAF = 1 << 62
"""The sequence number of leaves: they run as soon as they are ready."""


class SavedTensor:
    """A saved tensor that stays in memory until its node has run."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    def unpack(self) -> Tensor:
        return self._tensor


def _edge(tensor: Tensor) -> tuple[Node, int] | None:
    if not tensor.requires_grad:
        return None
    if isinstance(tensor, Parameter):
        if tensor.sink is None:
            tensor.sink = Node(_LEAF, "", [], [], [], _Accumulate(tensor), 1)
        return tensor.sink, 0
    return (tensor.node, tensor.slot) if tensor.node is not None else None


class _Accumulate:
    """Puts a gradient where the optimizer finds it: the first as it is, later ones added in place."""

    __slots__ = ("_parameter",)

    def __init__(self, parameter: Parameter) -> None:
        self._parameter = parameter

    def __call__(self, gradients: list[Gradient], saved: list[Tensor]) -> Sequence[Gradient]:
        gradient = gradients[0]
        tape = self._parameter.tape
        if tape.steps is not None and gradient is not None:
            # The optimizer steps at once and lets go of the gradient (`register_post_accumulate_grad_hook`).
            held = [tape.allocate(gradient.shape, gradient.dtype, "optimizer_temporary") for _ in range(tape.steps)]
            del held
        elif self._parameter.grad is None and gradient is not None and not self._parameter.bucketed:
            self._parameter.grad = kept = gradient.detach()
            if gradient.storage is not None:
                gradient.tape.gradients.add(gradient.storage.block)
                kept.storage = gradient.storage.handed_on()
        self._parameter.sink = None
        return ()


def save(tape: Tape, *tensors: Tensor | None) -> list[Saved]:
    """Keep tensors for the backward pass. Called before the operation's output exists, as PyTorch does."""
    pack = tape.pack or SavedTensor
    return [pack(memory_of(tensor)) for tensor in tensors if tensor is not None]


def memory_of(tensor: Tensor) -> Tensor:
    """Return a tensor as the graph keeps it."""
    # A parameter's memory belongs to its engine: FSDP frees it even while the graph refers to it.
    storage = None if isinstance(tensor, Parameter) else tensor.storage
    found = tensor.detach()
    found.storage = storage
    return found


def attach(outputs: Sequence[Tensor], inputs: Sequence[Tensor], saved: list[Saved], apply: Apply) -> None:
    """Make `outputs` the results of a graph node over `inputs`."""
    tape = outputs[0].tape
    tape.sequence += 1
    shapes, edges = [(each.shape, each.dtype) for each in inputs], [_edge(each) for each in inputs]
    node = Node(tape.sequence, tape.here, shapes, edges, saved, apply, len(outputs))
    node.wrapped = tape.wrapped
    node.captured = tape.pool == CAPTURED
    for entry in saved:
        if isinstance(entry, SavedTensor):
            _note_saver(entry.unpack(), outputs[0])
    for slot, output in enumerate(outputs):
        output.node, output.slot, output.requires_grad = node, slot, True


def _note_saver(saved: Tensor, output: Tensor) -> None:
    if saved.storage is not None and output.storage is not None:
        savers = saved.tape.savers.setdefault(saved.storage.block, {})
        savers[saved.tape.blocks[output.storage.block].rule] = None


def tracked(*tensors: Tensor | None) -> bool:
    """Return whether an operation over `tensors` becomes part of the graph."""
    for tensor in tensors:  # noqa: SIM110 - asked for every operation, and a generator takes twice as long
        if tensor is not None and tensor.requires_grad and tensor.tape.grad_enabled:
            return True
    return False


def backward(loss: Tensor, gradient: Tensor | None = None) -> None:
    """Run the backward pass from a scalar, or from a tensor whose gradient is given."""
    tape, root = loss.tape, loss.node
    if root is None:
        return
    loss.node = None
    waiting = _dependencies(root)
    seed = gradient or Tensor(tape, tape.allocate((), loss.dtype, "backward_seed"), (), loss.dtype)
    buffers: dict[Node, list[Gradient]] = {root: [seed]}
    made = seed if gradient is None else None  # torch.autograd.backward holds it until it returns
    del seed, gradient
    ready = [root]
    with tape.no_grad():
        while ready:
            node = heapq.heappop(ready)
            with tape.at(node.where):
                gradients = _run(node, buffers.pop(node), tape.stream(CAPTURED) if node.captured else _HERE)
                for target in _deliver(node, gradients, buffers):
                    waiting[target] -= 1
                    if not waiting[target]:
                        buffers.setdefault(target, [None] * target.outputs)
                        heapq.heappush(ready, target)
    del made


def _run(node: Node, gradients: list[Gradient], pool: AbstractContextManager[None]) -> list[Gradient]:
    for hook in node.before:
        hook()
    with pool:
        saved = [entry.unpack() for entry in node.saved]
        given = gradients[0] is not None or gradients.count(None) < len(gradients)
        results: list[Gradient] = list(node.apply(gradients, saved)) if given else [None] * len(node.edges)
        del saved  # a node's `apply` unpacks its saved variables into locals, which go when it returns
        index = 0
        for edge, (shape, dtype) in zip(node.edges, node.inputs, strict=True):
            if edge is None:
                results[index] = None
            elif results[index] is not None:
                _validate(results, index, shape, dtype)
            index += 1  # noqa: SIM113 - counted here, which is faster
    gradients.clear()
    node.saved = []
    if node.sequence != _LEAF:
        node.apply = _consumed
    return results


def _consumed(gradients: list[Gradient], saved: list[Tensor]) -> Sequence[Gradient]:
    raise RuntimeError("an earlier backward pass has consumed the graph")


def _deliver(node: Node, gradients: list[Gradient], buffers: dict[Node, list[Gradient]]) -> Iterator[Node]:
    """Hand each gradient on to the node that waits for it.

    A gradient that takes an empty place moves there; one that is added to another lives until the node is done.
    """
    for index, edge in enumerate(node.edges):
        if edge is None:
            continue
        target, slot = edge
        gradient = gradients[index]
        if gradient is not None:
            buffer = buffers.setdefault(target, [None] * target.outputs)
            if buffer[slot] is None:
                gradients[index] = None
            buffer[slot] = accumulate(buffer[slot], gradient, wrapped=target.wrapped)
        del gradient
        yield target
    gradients.clear()


def _validate(gradients: list[Gradient], index: int, shape: Shape, dtype: str) -> None:
    """Sum a broadcast gradient to its input's shape, then cast it to its dtype (engine.cpp, validate_outputs)."""
    gradient = gradients[index]
    if gradient is None:
        return
    tape = gradient.tape
    if gradient.shape != shape and _size(gradient.shape, tape.units) != _size(shape, tape.units):
        gradient = gradients[index] = _summed(gradient, shape)
    if gradient.dtype != dtype:
        storage = tape.allocate(shape, dtype, "to")
        gradients[index] = Tensor(tape, storage, gradient.shape, dtype, order=gradient.order)


def _summed(gradient: Tensor, shape: Shape) -> Tensor:
    """Return a gradient summed over the axes that were broadcast."""
    storage = gradient.tape.allocate(shape, gradient.dtype, "sum_to_size")
    return Tensor(gradient.tape, storage, shape, gradient.dtype)


def _size(shape: Shape, units: frozenset[Axis]) -> list[str]:
    return sorted(str(axis) for axis in shape if axis != 1 and axis not in units)


def accumulate(first: Gradient, second: Tensor, *, wrapped: bool = False) -> Tensor:
    """Add two gradients of one tensor.

    PyTorch adds in place when nothing else refers to the first one, all of whose elements lie in memory
    (input_buffer.cpp, `can_accumulate_inplace`). With tensor subclasses, such as fake tensors and DTensors (`wrapped`),
    it never does: the sum is a third tensor for a moment.
    """
    if first is None:
        return second
    if not (first.tape.fake or wrapped or first.viewed) and first.spread is None:
        return first
    storage = first.tape.allocate(first.shape, first.dtype, "gradient_sum")
    return Tensor(first.tape, storage, first.shape, first.dtype, order=first.order)


def _dependencies(root: Node) -> dict[Node, int]:
    """Return how many gradients each node waits for."""
    waiting = {root: 0}
    stack = [root]
    while stack:
        for edge in stack.pop().edges:
            if edge is None:
                continue
            target = edge[0]
            if target in waiting:
                waiting[target] += 1
            else:
                waiting[target] = 1
                stack.append(target)
    return waiting


class _Stop(Exception):
    """Everything that the backward pass needs has been recomputed."""


class Frame:
    """One checkpointed call (torch/utils/checkpoint.py, `_CheckpointFrame`, non-reentrant)."""

    def __init__(
        self,
        tape: Tape,
        function: Callable[..., Tensor],
        inputs: Sequence[Tensor],
        early_stop: bool,
        selection: Selection | None,
    ) -> None:
        self._tape = tape
        self._function = function
        pack = tape.offload or tape.pack or SavedTensor
        self._inputs = [pack(memory_of(tensor)) for tensor in inputs]
        self._learns = [tensor.requires_grad for tensor in inputs]
        self._early_stop = early_stop
        self._holes: list[ref[_Hole]] = []
        """What stands for each saved tensor; those of operations that nothing depends on go, and need no tensor."""
        self._recomputed: dict[int, Tensor] | None = None
        self._selected = None if selection is None else Selected(selection)
        self._autocast = tape.autocast
        self._where = tape.here

    def run(self) -> AbstractContextManager[None]:
        """The first run keeps what the selection names."""
        return nullcontext() if self._selected is None else self._tape.selecting(self._selected.keep)

    def pack(self, tensor: Tensor) -> Saved:
        hole = _Hole(self, len(self._holes))
        self._holes.append(ref(hole))
        return hole

    def unpack(self, index: int) -> Tensor:
        return self.rerun().pop(index)

    def rerun(self) -> dict[int, Tensor]:
        """Run the function again, once."""
        if self._recomputed is None:
            self._recomputed = {}
            self._recompute(self._recomputed)
        return self._recomputed

    def _recompute(self, found: dict[int, Tensor]) -> None:
        tape, count = self._tape, 0

        def collect(tensor: Tensor) -> Saved:
            nonlocal count
            if self._holes[count]() is not None:
                found[count] = tensor
            count += 1
            if self._early_stop and count == len(self._holes):
                raise _Stop
            return SavedTensor(tensor)

        before = tape.grad_enabled, tape.recomputing
        tape.grad_enabled = tape.recomputing = True
        inputs = [entry.unpack().detach() for entry in self._inputs]
        for tensor, learns in zip(inputs, self._learns, strict=True):
            tensor.requires_grad = learns
        try:
            with tape.at(self._where), tape.packing(collect), self._autocasting(), self._recalling():
                self._function(*inputs)
        except _Stop:
            pass
        finally:
            tape.grad_enabled, tape.recomputing = before

    def _recalling(self) -> AbstractContextManager[None]:
        return nullcontext() if self._selected is None else self._tape.selecting(self._selected.recall)

    def _autocasting(self) -> AbstractContextManager[None]:
        return self._tape.autocasting(self._autocast) if self._autocast else nullcontext()


class _Hole:
    """A saved tensor that the checkpoint did not keep."""

    __slots__ = ("__weakref__", "_frame", "_index")

    def __init__(self, frame: Frame, index: int) -> None:
        self._frame = frame
        self._index = index

    def unpack(self) -> Tensor:
        return self._frame.unpack(self._index)


def checkpoint(
    function: Callable[..., Tensor], *inputs: Tensor, early_stop: bool = True, selection: Selection | None = None
) -> Tensor:
    """Run `function`, keep only its inputs and what `selection` names, and run it again in the backward pass.

    With `early_stop` (PyTorch's default) the second run ends as soon as the last saved tensor exists again.
    """
    tape = inputs[0].tape
    frame = Frame(tape, function, inputs, early_stop, selection)
    with tape.packing(frame.pack), frame.run():
        return function(*inputs)
