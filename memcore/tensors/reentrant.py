"""Reentrant checkpoints, the old form of torch.utils.checkpoint.

Source: torch/utils/checkpoint.py, `CheckpointFunction`: the forward pass builds no graph and keeps the inputs; the
backward pass runs all of it again with a graph, and a backward pass of its own through that.
"""

from __future__ import annotations

from collections.abc import Callable

from memcore.tensors.autograd import Gradient, SavedTensor, attach, backward, memory_of, tracked
from memcore.tensors.basics import only, view
from memcore.tensors.tensor import Parameter, Saved, Tensor


def checkpoint_reentrant(
    function: Callable[..., Tensor],
    *inputs: Tensor,
    keep: Callable[[Tensor], Saved] | None = None,
    ended: Callable[[], None] = lambda: None,
) -> Tensor:
    """Run `function` without a graph; again, with one, in the backward pass.

    `keep`: how inputs are kept; `ended`: called when all gradients are there, while the second run's result still is.
    """
    tape, autocast, where = inputs[0].tape, inputs[0].tape.autocast, inputs[0].tape.here
    pack = keep or tape.offload or SavedTensor
    kept = [pack(memory_of(each)) for each in inputs]
    learns = [each.requires_grad for each in inputs]
    with tape.no_grad():
        out = function(*inputs)
    if not tracked(*inputs):
        return out
    result = view(out, out.shape, out.order)

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        inputs = [entry.unpack() for entry in kept]
        leaves = [leaf_of(each) if learned else each.detach() for each, learned in zip(inputs, learns, strict=True)]
        inputs.clear()
        before = tape.grad_enabled, tape.recomputing
        tape.grad_enabled = tape.recomputing = True
        try:
            with tape.at(where), tape.packing(SavedTensor), tape.autocasting(autocast):
                output = function(*leaves)
        finally:
            tape.grad_enabled, tape.recomputing = before
        held = only(gradients)
        held.viewed = True  # `args` of `CheckpointFunction.backward` refer to it until all of it has run
        backward(output, held)
        ended()
        return [each.grad if isinstance(each, Parameter) else None for each in leaves]

    attach([result], inputs, [], apply)
    return result


def leaf_of(tensor: Tensor) -> Parameter:
    """Return a detached tensor that holds a gradient."""
    leaf = Parameter(tensor.tape, "", tensor.shape, (), tensor.dtype)
    leaf.storage, leaf.order, leaf.cut, leaf.spread = tensor.storage, tensor.order, tensor.cut, tensor.spread
    return leaf
