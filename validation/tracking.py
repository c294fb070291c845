"""Follows every storage on one kind of device: when it is allocated, when it is freed, how much is held in between.

A `TorchDispatchMode` sees the results of every operation, in the forward pass, in the backward pass and in the
optimizer; a storage is allocated when it is first seen, and freed when PyTorch drops it. On the CPU and on fake tensors
this stands in for the counters of the CUDA caching allocator. PyTorch's own `torch.distributed._tools.MemTracker` works
the same way and agrees on the peak (a test holds them to that), but knows no phases of a step.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch._guards import active_fake_mode
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves

from validation import workspaces

BLOCK = 512
"""Bytes to which the CUDA caching allocator rounds every request (kMinBlockSize, CUDACachingAllocator.cpp)."""


def rounded(size: int) -> int:
    """Return what the allocator hands out for a request."""
    return -(-size // BLOCK) * BLOCK


@dataclass(slots=True)
class Held:
    """A storage that is there."""

    size: int
    category: str
    operation: str
    shape: tuple[int, ...]
    reference: object = None


@dataclass(slots=True)
class Watched:
    """What was held while a phase ran."""

    name: str
    peak: int
    end: int = 0


class Tracker(TorchDispatchMode):
    """Counts bytes in storages, phase by phase.

    `workspaces` adds what CUDA kernels allocate for themselves, which no dispatch mode sees. More than `limit` bytes
    are out of memory, as on a GPU of that size.
    """

    def __init__(self, device: str, *, workspaces: bool = False, limit: int | None = None) -> None:
        super().__init__()
        self._device, self._workspaces, self._limit = device, workspaces, limit
        self._held: dict[int, Held] = {}
        self._mode: object = None
        self._operation = "created before"
        self.paused = False
        self.current = 0
        self.phases = [Watched("start", 0)]

    def phase(self, name: str) -> None:
        """Whatever comes now belongs to another phase."""
        self._close()
        self.phases.append(Watched(name, self.current))

    def finish(self) -> Sequence[Watched]:
        """All phases, in order."""
        self._close()
        return self.phases

    def _close(self) -> None:
        self.phases[-1].end = self.current

    def follow(self, tensors: Iterable[torch.Tensor], category: str) -> None:
        """Count these tensors, which may have been there before, under a category."""
        for tensor in tensors:
            self._see(tensor, category)

    def by_category(self) -> dict[str, int]:
        """Return what is held now."""
        found: dict[str, int] = {}
        for each in self._held.values():
            found[each.category] = found.get(each.category, 0) + each.size
        return found

    def largest(self, count: int = 10) -> Sequence[tuple[str, str, tuple[int, ...], int]]:
        """The largest storages that are held now: category, operation, shape, bytes."""
        most = sorted(self._held.values(), key=lambda each: -each.size)[:count]
        return [(each.category, each.operation, each.shape, each.size) for each in most]

    def _see(self, tensor: torch.Tensor, category: str | None = None) -> None:
        for inner in _plain(tensor):
            if inner.device.type != self._device:
                continue
            storage = inner.untyped_storage()
            key = storage._cdata
            known = self._held.get(key)
            if known is None:
                known = Held(0, category or "activations", self._operation, tuple(inner.shape))
                known.reference = weakref.ref(storage, partial(self._forget, key))
                self._held[key] = known
                self._resize(known, storage.nbytes())
            elif category is not None:
                known.category = category

    def _resize(self, held: Held, size: int) -> None:
        self.current += rounded(size) - held.size
        held.size = rounded(size)
        self._record()

    def _record(self) -> None:
        self.phases[-1].peak = max(self.phases[-1].peak, self.current)
        if self._limit is not None and self.current > self._limit:
            raise torch.OutOfMemoryError(f"{self.current} bytes are held, {self._limit} are there")

    def _forget(self, key: int, _: object) -> None:
        """A storage is gone."""
        self.current -= self._held.pop(key).size

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run an operation and look at its results."""
        given = dict(kwargs or {})
        if any(issubclass(each, DTensor) for each in types):
            return NotImplemented  # DTensor runs the operation on its local tensors, which come here
        if func is torch.ops._c10d_functional.wait_tensor.default and active_fake_mode():
            result = args[0]  # eager waits in place; the fake rule would return another tensor
        else:
            result = func(*args, **given)
        # A fake mode of somebody else works out shapes; nothing in it exists in a real run.
        if self.paused or active_fake_mode() is not self._mode:
            return result
        self._operation = str(func)
        for each in tree_leaves(result):
            if isinstance(each, torch.Tensor):
                self._see(each)
        if self._workspaces:
            self._own(sum(rounded(size) for _, size in workspaces.of(func, args)))
        return result

    def _own(self, size: int) -> None:
        """A kernel holds so many bytes while it runs."""
        self.current += size
        self._record()
        self.current -= size

    def __enter__(self) -> Any:
        """Start to follow; FSDP frees and refills the storages of gathered parameters by `resize_`."""
        self._mode = active_fake_mode()
        self._original = torch.UntypedStorage.resize_
        torch.UntypedStorage.resize_ = _resizing(self, self._original)
        return super().__enter__()

    def __exit__(self, *details: object) -> None:
        """Stop."""
        torch.UntypedStorage.resize_ = self._original
        super().__exit__(*details)


def _resizing(tracker: Tracker, original: Callable[..., Any]) -> Callable[..., Any]:
    def resize(storage: torch.UntypedStorage, size: int) -> Any:
        result = original(storage, size)
        held = tracker._held.get(storage._cdata)
        if held is not None:
            tracker._resize(held, size)
        return result

    return resize


def _plain(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The tensors with storages behind one that may wrap others."""
    if isinstance(tensor, DTensor):
        yield from _plain(tensor._local_tensor)
    elif type(tensor).__name__ == "AsyncCollectiveTensor":
        yield from _plain(tensor.elem)
    elif is_traceable_wrapper_subclass(tensor):
        for name in tensor.__tensor_flatten__()[0]:
            yield from _plain(getattr(tensor, name))
    else:
        yield tensor
