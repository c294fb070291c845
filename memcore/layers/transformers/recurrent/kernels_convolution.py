"""causal-conv1d 1.6 (Dao-AILab/causal-conv1d): `CausalConv1dFn` in causal_conv1d/causal_conv1d_interface.py."""

from __future__ import annotations

from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import like, new, only
from memcore.tensors.tensor import Parameter, Tape, Tensor


def causal_conv1d(x: Tensor, weight: Parameter, bias: Parameter | None) -> Tensor:
    """Return a depthwise convolution over (b, channels, s) in one kernel, with its activation; saves x."""
    tape = x.tape
    inputs = [x, weight] if bias is None else [x, weight, bias]
    out = like(x, "causal_convolution")

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        dx = like(saved[0], "causal_convolution_backward")
        copied = not _alike(only(gradients), saved[0])
        return [dx, *parameter_gradients(tape, weight, bias, only(gradients) if copied else None)]

    if tracked(*inputs):
        attach([out], inputs, save(tape, *inputs), apply)
    return out


def _alike(x: Tensor, y: Tensor) -> bool:
    """Return whether the same axis is the innermost in memory: the kernel takes channels last or tokens last."""
    return x.order[-1] == y.order[-1]


def parameter_gradients(
    tape: Tape, weight: Parameter, bias: Parameter | None, copied: Tensor | None = None
) -> list[Gradient]:
    """Return what the backward kernel adds up in fp32, cast to the parameters' dtype.

    `copied` is turned for the kernel.
    """
    parameters = [weight] if bias is None else [weight, bias]
    sums = [new(tape, each.shape, "fp32", "causal_convolution_backward") for each in parameters]
    turned = None if copied is None else like(copied, "clone")
    del turned
    found: list[Gradient] = []
    for each in parameters:
        total = sums.pop(0)
        found.append(total if each.dtype == "fp32" else new(tape, each.shape, each.dtype, "to"))
        del total
    return found
