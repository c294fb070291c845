"""Recomputation of single modules. Source: Megatron-LM, core/tensor_parallel/random.py."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from memcore.tensors.autograd import checkpoint
from memcore.tensors.discarding import discard
from memcore.tensors.tensor import Tensor
from memcore.trainers.megatron.step_plan import MegatronPlan


def recomputes(how: MegatronPlan, module: str) -> bool:
    """Return whether selective recomputation covers a module."""
    return how.recompute is not None and module in how.recompute.modules


def run_again(function: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """`tensor_parallel.checkpoint`: keeps the inputs, and runs everything again before the backward pass."""
    return checkpoint(function, *inputs, early_stop=False)


def discarded(
    function: Callable[..., Tensor],
    use: Callable[[Tensor], Tensor],
    *inputs: Tensor,
    within: AbstractContextManager[None],
) -> Tensor:
    """`CheckpointWithoutOutput`: the result's memory goes once it is used, and comes back for the backward pass.

    `within`: what its inputs are kept by.
    """
    return discard(lambda *given: [function(*given)], use, *inputs, within=within)
