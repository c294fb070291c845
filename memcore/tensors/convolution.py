"""Convolutions over tokens and over samples of sounds."""

from __future__ import annotations

from memcore.symbols import Shape, Shifted
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import autocast, new, only
from memcore.tensors.tensor import Parameter, Tensor


def conv1d(x: Tensor, weight: Parameter, bias: Parameter | None) -> Tensor:
    """Return a depthwise convolution over tokens with K - 1 zeros on both sides; saves x and the weight.

    `x` is (b, channels, s). On a GPU without cuDNN's help it runs over a contiguous copy
    (aten/src/ATen/native/Convolution.cpp, `CudaDepthwise2d`), forwards and backwards.
    """
    given = x
    b, w, x = None if bias is None else autocast(bias), autocast(weight), autocast(x)
    tape, batch, channels, length = x.tape, *x.shape
    inputs = [x, w] if b is None else [x, w, b]
    kernel = weight.inner[-1]
    saved = save(tape, x, w) if tracked(*inputs) else []
    copied = not (tape.fake or x.contiguous)
    copy = new(tape, x.shape, x.dtype, "convolution_input") if copied else None
    out = new(tape, (batch, channels, Shifted(Shifted(length, 1, kernel), -1, 1)), x.dtype, "convolution")
    del copy, given
    shapes = [each.shape for each in inputs]

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        copy = new(tape, shapes[0], only(gradients).dtype, "convolution_input") if copied else None
        results: list[Gradient] = [new(tape, each, only(gradients).dtype, "convolution_backward") for each in shapes]
        del copy
        return results

    if tracked(*inputs):
        attach([out], inputs, saved, apply)
    return out


def strided(x: Tensor, weight: Parameter, bias: Parameter | None, shape: Shape) -> Tensor:
    """A convolution over samples, which makes `shape` of `x`; saves x and the weight (derivatives.yaml, `convolution`).

    What workspace cuDNN takes is its own and unknown.
    """
    b, w, x = None if bias is None else autocast(bias), autocast(weight), autocast(x)
    tape, inputs = x.tape, [x, w] if b is None else [x, w, b]
    saved = save(tape, x, w) if tracked(*inputs) else []
    out = new(tape, shape, x.dtype, "convolution")
    needed = [(each.shape, tracked(each)) for each in inputs]

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        dtype = only(gradients).dtype
        return [new(tape, each, dtype, "convolution_backward") if needs else None for each, needs in needed]

    if tracked(*inputs):
        attach([out], inputs, saved, apply)
    return out
