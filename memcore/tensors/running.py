"""Exponentials, masks and running sums; see `operations.py` for what these functions record."""

from __future__ import annotations

from memcore.symbols import Axis
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import like, new, only, to
from memcore.tensors.tensor import Tape, Tensor


def _wide(x: Tensor) -> Tensor:
    """Autocast runs these operations in fp32."""
    return to(x, "fp32") if x.tape.autocast else x


def exp(x: Tensor) -> Tensor:
    """e to the x; saves its result."""
    x = _wide(x)
    out = like(x, "exp")
    if tracked(x):
        attach([out], [x], save(x.tape, out), lambda g, s: [like(only(g), "exp_backward")])
    return out


def log(x: Tensor) -> Tensor:
    """Return the logarithm of x, which it saves."""
    x = _wide(x)
    saved = save(x.tape, x) if tracked(x) else []
    out = like(x, "log")
    if tracked(x):
        attach([out], [x], saved, lambda g, s: [like(only(g), "log_backward")])
    return out


def softplus(x: Tensor) -> Tensor:
    """log(1 + e^x); saves x."""
    x = _wide(x)
    saved = save(x.tape, x) if tracked(x) else []
    out = like(x, "softplus")
    if tracked(x):
        attach([out], [x], saved, lambda g, s: [like(only(g), "softplus_backward")])
    return out


def clamp(x: Tensor, *, bounds: int = 2) -> Tensor:
    """x within one or two bounds; saves x."""
    saved = save(x.tape, x) if tracked(x) else []
    out = like(x, "clamp")
    if tracked(x):
        attach([out], [x], saved, lambda g, s: [clamp_backward(only(g), s[0], bounds)])
    return out


def clamp_backward(gradient: Tensor, x: Tensor, bounds: int = 2) -> Tensor:
    """Return the gradient where x is within its bounds, else a zero: a comparison with each, and a choice."""
    held = [new(gradient.tape, (), gradient.dtype, "clamp_backward")]
    held += [like(x, "clamp_backward", "bool") for _ in range(bounds)]
    result = like(gradient, "clamp_backward")
    del held
    return result


def masked_fill(x: Tensor, mask: Tensor) -> Tensor:
    """Return a copy with a number where the mask says so, in logical order; saves the mask."""
    saved = save(x.tape, mask) if tracked(x) else []
    out = new(x.tape, x.shape, x.dtype, "masked_fill")
    if tracked(x):
        attach([out], [x], saved, _masked_fill_backward)
    return out


def _masked_fill_backward(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
    gradient = only(gradients)
    return [new(gradient.tape, gradient.shape, gradient.dtype, "masked_fill_backward")]


def triangle(tape: Tape, size: Axis) -> Tensor:
    """Return a square of booleans with one of its triangles zeroed (`torch.tril(torch.ones(...))`)."""
    ones = new(tape, (size, size), "bool", "triangle")
    return like(ones, "triangle")


def logical_not(mask: Tensor) -> Tensor:
    """Return the inverted mask."""
    return like(mask, "logical_not")


def cumsum(x: Tensor, axis: int) -> Tensor:
    """Running sums along an axis, in logical order; the gradient is reversed, summed and reversed again.

    The CUDA kernel takes a contiguous copy of its input (aten/src/ATen/native/cuda/ScanUtils.cuh, scan_dim).
    """
    x = _wide(x)
    out = new(x.tape, x.shape, x.dtype, "cumsum")
    _contiguous_for_a_moment(x)
    if tracked(x):
        alone = x.shape[axis] == 1 or x.shape[axis] in x.tape.units
        attach([out], [x], [], lambda g, s: [g[0] if alone else _reversed_sum(g)])
    return out


def _contiguous_for_a_moment(x: Tensor) -> None:
    """Allocate the contiguous copy that a kernel reads; nothing refers to it afterwards, so it is freed at once."""
    if not (x.tape.fake or x.contiguous):
        new(x.tape, x.shape, x.dtype, "cumsum_input")


def _reversed_sum(gradients: list[Gradient]) -> Tensor:
    turned = like(only(gradients), "cumsum_backward")
    summed = new(turned.tape, turned.shape, turned.dtype, "cumsum_backward")
    _contiguous_for_a_moment(turned)
    return like(summed, "cumsum_backward")
