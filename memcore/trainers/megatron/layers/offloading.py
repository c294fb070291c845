"""Fine-grained activation offloading: what single modules save goes to the host, and comes back one group ahead.

Source: Megatron-LM, core/pipeline_parallel/fine_grained_activation_offload.py. A module's saved tensors are a group.
When the group is committed, those of at least `least` elements are copied to pinned memory and let go, and tensors that
the layer still refers to are freed by force. When a group's backward pass ends, the latest group that is still on the
host comes back, on a stream of its own; once all are there, the last ones of the next pass. Of the pass whose backward
pass is next the last group of each name stays, as nothing could come back in time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager

from memcore.networks.network import Layer
from memcore.networks.parts import Attention, Experts, LatentAttention
from memcore.symbols import Shape, product
from memcore.tensors.autograd import Gradient, SavedTensor, attach, tracked
from memcore.tensors.basics import new, view
from memcore.tensors.tape import Storage
from memcore.tensors.tensor import Saved, Tape, Tensor
from memcore.trainers.megatron.step_plan import MegatronPlan, Offload

_WHOLE = 0.5
"""A view of at least this part of its storage takes all of it along (`BASE_OFFLOAD_MIN_COVERAGE`)."""

RETURN = "return from the host"
"""The stretch in which the last groups of a pass come back."""


class _Entry:
    """A saved tensor of a group."""

    __slots__ = ("_dtype", "_hosted", "_order", "_shape", "_tape", "_used", "_where", "tensor")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor: Tensor | None = tensor
        self._used = False
        self._where = tensor.tape.here
        self._tape, self._shape, self._dtype, self._order = tensor.tape, tensor.shape, tensor.dtype, tensor.order
        self._hosted: Shape | None = None

    def leave(self, hosted: Shape) -> None:
        """It goes to the host; `hosted`: what is copied."""
        self.tensor, self._hosted = None, hosted

    def unpack(self) -> Tensor:
        found = self._tensor_again() if self.tensor is None else self.tensor
        self.tensor, self._used = None, True
        return found

    def reload(self) -> None:
        """It comes back, unless it was needed already."""
        if self.tensor is None and not self._used:
            self.tensor = self._tensor_again()

    def copies(self) -> list[Storage]:
        """Return the storages that another pass needs."""
        return [self._allocated()] if self._hosted is not None else []

    def _tensor_again(self) -> Tensor:
        return Tensor(self._tape, self._allocated(), self._shape, self._dtype, order=self._order)

    def _allocated(self) -> Storage:
        with self._tape.at(self._where), self._tape.stream("reload"):
            return self._tape.allocate(self._hosted or (), self._dtype, "reloaded_activation")


class Group(AbstractContextManager[None]):
    """One module's pass; inside, its saved tensors are collected. Without `owner` nothing happens."""

    def __init__(self, name: str = "", owner: Groups | None = None) -> None:
        self.name = name
        self._owner = owner
        self._entries: list[_Entry] = []
        self._before: tuple[Callable[[Tensor], Saved] | None, Callable[[Tensor], Saved] | None] = None, None
        self._tape: Tape | None = None

    def start(self, x: Tensor) -> Tensor:
        """Return the module's input; when its gradient is there, the next group comes back."""
        owner = self._owner
        if owner is None:
            return x
        self._tape = x.tape
        out = view(x, x.shape, x.order, x.cut)
        if tracked(x):

            def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
                owner.reload()
                return [gradients[0]]

            attach([out], [x], [], apply)
        return out

    def __enter__(self) -> None:
        if self._tape is not None:
            self._before = self._tape.pack, self._tape.offload
            self._tape.pack = self._tape.offload = self._pack

    def __exit__(self, *_: object) -> None:
        if self._tape is not None:
            self._tape.pack, self._tape.offload = self._before

    def _pack(self, tensor: Tensor) -> Saved:
        if tensor.storage is None:
            return SavedTensor(tensor)
        self._entries.append(_Entry(tensor))
        return self._entries[-1]

    def commit(self, *released: Tensor) -> None:
        """The module has run: its group leaves, and so do tensors that something else refers to."""
        if self._owner is None or not self._owner.leaves(self.name):
            return
        self._owner.waiting.append(self)
        for entry in self._entries:
            tensor = entry.tensor
            if tensor is not None and self._owner.offloads(tensor):
                hosted = self._owner.hosted(tensor)
                if not tensor.contiguous and hosted == tensor.shape:
                    _gather(tensor)
                entry.leave(hosted)
            del tensor
        for each in released:
            if each.storage is not None and self._owner.offloads(each):
                each.storage.release()

    def reload(self) -> None:
        """Everything that is on the host comes back."""
        for entry in self._entries:
            entry.reload()

    def copies(self) -> list[Storage]:
        """Return the storages that another pass needs."""
        return [storage for entry in self._entries for storage in entry.copies()]


def _gather(tensor: Tensor) -> None:
    """A copy in order, on its way to the host."""
    with tensor.tape.stream("offload"):
        new(tensor.tape, tensor.shape, tensor.dtype, "clone")


class Groups:
    """The groups of one pass of a chunk."""

    def __init__(self, plan: Offload, layers: Iterable[Layer], how: MegatronPlan) -> None:
        self._plan = plan
        self._sizes = dict(plan.sizes)
        self._left = Counter(name for layer in layers for name in groups_of(layer, how))
        self.waiting: list[Group] = []
        """Those on the host, in the order in which they left."""
        self._next: list[Group] = []
        """Those of the next pass, which has the same ones."""
        self._arrived: list[Storage] = []

    def group(self, name: str) -> Group:
        """Return a module's group."""
        return Group(name, self if name in self._plan.modules else None)

    def leaves(self, name: str) -> bool:
        """Return whether a group goes to the host."""
        self._left[name] -= 1
        return not (self._plan.stays and self._left[name] == 0)

    def offloads(self, tensor: Tensor) -> bool:
        """Return whether a tensor is large enough."""
        return self._elements(tensor.shape) >= self._plan.least

    def hosted(self, tensor: Tensor) -> Shape:
        """Return what is copied of it."""
        if tensor.contiguous or tensor.storage is None:
            return tensor.shape
        whole = tensor.tape.blocks[tensor.storage.block].shape
        return whole if self._elements(tensor.shape) >= _WHOLE * self._elements(whole) else tensor.shape

    def _elements(self, shape: Shape) -> int:
        return product(shape, self._sizes)

    def reload(self) -> None:
        """The latest group comes back, or that of the next pass."""
        if self.waiting:
            self.waiting.pop().reload()
        elif self._next:
            self._arrived += self._next.pop().copies()

    def begin(self, x: Tensor) -> None:
        """Reload the last group of each name, if it was offloaded, when the backward pass begins at x."""
        if self._plan.stays or x.node is None:
            return
        tape, count = x.tape, len({group.name for group in self.waiting})
        self._next = self.waiting[len(self.waiting) - count :]

        def reload() -> None:
            with tape.aside(RETURN):
                for _ in range(count):
                    self.reload()

        x.node.before.insert(0, reload)


NO_GROUP = Group()


def opened(groups: Groups | None, name: str) -> Group:
    """Return a module's group, or one that does nothing."""
    return NO_GROUP if groups is None else groups.group(name)


def groups_of(layer: Layer, how: MegatronPlan) -> Iterable[str]:
    """Yield the modules of a layer that can be offloaded; a norm is one where no matrix is fused with it."""
    again = frozenset[str]() if how.recompute is None else how.recompute.modules
    for mixer in layer.mixers:
        if isinstance(mixer, LatentAttention):
            yield "attn_norm"
        if isinstance(mixer, (Attention, LatentAttention)):
            yield "qkv_linear"
            if "core_attn" not in again:
                yield "core_attn"
            yield "attn_proj"
    for ffn in layer.ffns:
        if isinstance(ffn, Experts):
            yield "mlp_norm"
            if how.experts is not None and how.experts.grouped:
                yield from ("expert_fc1", "moe_act")
