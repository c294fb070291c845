"""Collective operations between processes on the CPU that hold nothing once they return.

torch.distributed's gloo backend works in threads of its own, which hold the tensors of an operation for a moment after
it is done, and buffers of their own besides; on a busy machine that moment reaches into the next phase of a step.
Here gloo sees copies only, and the tensors of a step are let go where the step lets them go, as with NCCL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.futures import Future
from torch.utils._python_dispatch import _disable_current_modes

NAME = "memcore"
"""The backend's name in torch.distributed."""

_REDUCE: dict[Any, Callable[[Tensor], Tensor]] = {
    dist.ReduceOp.SUM: lambda every: every.sum(0),
    dist.ReduceOp.AVG: lambda every: every.mean(0),
    dist.ReduceOp.MAX: lambda every: every.amax(0),
    dist.ReduceOp.MIN: lambda every: every.amin(0),
}


def _done(result: Any) -> Any:
    """The handle of an operation that is finished."""
    future: Future[Any] = Future()
    future.set_result(result)
    return torch._C._distributed_c10d._create_work_from_future(future)


def _reduced(every: Sequence[Tensor], operation: Any) -> Tensor:
    return _REDUCE[operation.op if hasattr(operation, "op") else operation](torch.stack(list(every)))


class Together(dist.ProcessGroup):
    """A process group whose operations wait, and work on copies that no tracker sees."""

    def __init__(self, inner: Any, rank: int, size: int) -> None:
        super().__init__(rank, size)
        self._inner, self._rank, self._size = inner, rank, size

    def _every(self, tensor: Tensor) -> list[Tensor]:
        """Return what each rank gives, in order of ranks."""
        own = tensor.detach().clone()
        every = [torch.empty_like(own) for _ in range(self._size)]
        self._inner.allgather([every], [own]).wait()
        return every

    def allreduce(self, tensors: Any, opts: Any = None) -> Any:
        """Reduce all ranks' tensors on every rank."""
        given = [tensors] if isinstance(tensors, Tensor) else tensors
        with _disable_current_modes(), torch.no_grad():
            for each in given:
                each.copy_(_reduced(self._every(each), opts.reduceOp if opts else dist.ReduceOp.SUM))
        return _done(given)

    def broadcast(self, tensors: Any, opts: Any) -> Any:
        """One rank's tensors on every rank."""
        with _disable_current_modes(), torch.no_grad():
            for each in tensors:
                each.copy_(self._every(each)[opts.rootRank])
        return _done(tensors)

    def scatter(self, outputs: Any, inputs: Any, opts: Any) -> Any:
        """One rank's tensors, one for each rank."""
        with _disable_current_modes(), torch.no_grad():
            (output,) = outputs
            given = (
                torch.stack(inputs[0]) if self._rank == opts.rootRank else output.new_zeros(self._size, *output.shape)
            )
            output.copy_(self._every(given)[opts.rootRank][self._rank])
        return _done(outputs)

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """All ranks' tensors on every rank."""
        with _disable_current_modes(), torch.no_grad():
            for targets, given in zip(outputs, inputs, strict=True):
                for target, each in zip(targets, self._every(given), strict=True):
                    target.copy_(each)
        return _done(None)

    def all_gather_single(self, output: Tensor, given: Tensor, opts: Any = None) -> Any:
        """All ranks' tensors one after the other in one."""
        with _disable_current_modes(), torch.no_grad():
            output.view(-1).copy_(torch.cat([each.view(-1) for each in self._every(given)]))
        return _done(None)

    def reduce_scatter_single(self, output: Tensor, given: Tensor, opts: Any) -> Any:
        """This rank's share of the reduction of all ranks' tensors."""
        with _disable_current_modes(), torch.no_grad():
            output.view(-1).copy_(_reduced(self._every(given), opts.reduceOp).view(self._size, -1)[self._rank])
        return _done(None)

    def all_gather_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Several of `all_gather_single`."""
        for output, given in zip(outputs, inputs, strict=True):
            self.all_gather_single(output, given, opts)
        return _done(None)

    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Any, opts: Any) -> Any:
        """Several of `reduce_scatter_single`."""
        for output, given in zip(outputs, inputs, strict=True):
            self.reduce_scatter_single(output, given, opts)
        return _done(None)

    allreduce_coalesced = allreduce
    allgather_into_tensor_coalesced, reduce_scatter_tensor_coalesced = (
        all_gather_single_coalesced,
        reduce_scatter_single_coalesced,
    )
    _allgather_base, _reduce_scatter_base = all_gather_single, reduce_scatter_single

    def barrier(self, opts: Any = None) -> Any:
        """Wait for all ranks."""
        return self._inner.barrier()

    @property
    def group_name(self) -> str:
        """The name under which torch.distributed knows this group."""
        name: str = dist.distributed_c10d._world.pg_names[self]
        return name

    def getBackendName(self) -> str:  # noqa: N802 - torch.distributed's name
        """The backend's name."""
        return NAME


def _create(store: dist.Store, rank: int, size: int, timeout: timedelta) -> Together:
    return Together(dist.ProcessGroupGloo(store, rank, size, timeout=timeout), rank, size)


dist.Backend.register_backend(NAME, _create, devices=["cpu"])
