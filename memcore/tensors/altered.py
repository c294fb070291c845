"""Sums and quotients in place into a view of a tensor.

Such a write is a node of its own (torch/csrc/autograd/functions/tensor.cpp, CopySlices): the gradient is copied, and
the view's part of it once more for the operation. What is a view of the tensor from then on has a new node, too.
"""

from __future__ import annotations

from memcore.symbols import Axis, Shape
from memcore.tensors.autograd import Gradient, attach, tracked
from memcore.tensors.basics import new, only, permute, view
from memcore.tensors.tensor import Tensor


def add_to_permuted(x: Tensor, y: Tensor, *axes: int) -> Tensor:
    """`x.permute(axes)`, and y added to it in place."""
    tape, full, order = x.tape, x.shape, x.order
    added = view(x, full, order)
    seen = permute(x.detach(), *axes)
    shape, places = seen.shape, seen.order

    def split(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        dtype = only(gradients).dtype
        rest = new(tape, full, dtype, "copy_slices", order=order)
        return [rest, new(tape, shape, dtype, "copy_slices", order=places)]

    attach([added], [x, y], [], split)
    out = view(added, shape, places)
    inverse = [axes.index(axis) for axis in range(len(axes))]

    def restore(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        if tape.fake:
            return [permute(only(gradients), *inverse)]
        return [new(tape, full, only(gradients).dtype, "as_strided_backward", order=order)]

    attach([out], [added], [], restore)
    return out


def add_to_slice(x: Tensor, size: Axis, y: Tensor) -> Tensor:
    """`x[1:] += y`, where `size` is what remains of the axis: a sum in place, and a copy of the slice onto itself."""
    tape, full = x.tape, x.shape
    piece: Shape = (size, *full[1:])
    added = view(x, x.shape, x.order)
    attach([added], [x, y], [], lambda g, s: _parted(only(g), piece))
    sliced = view(added, piece, x.order, cut=0)
    attach([sliced], [added], [], lambda g, s: [new(tape, full, only(g).dtype, "slice_backward")])
    out = view(added, x.shape, x.order)
    attach([out], [added, sliced], [], lambda g, s: _overwritten(only(g), piece))
    return out


def divide_part(x: Tensor, axis: int, size: Axis) -> Tensor:
    """`x.narrow(axis, 0, size).div_(number)`, seen through the view: the gradient of the whole is copied for it."""
    tape, full = x.tape, x.shape
    piece: Shape = (*full[:axis], size, *full[axis + 1 :])
    if not tracked(x):
        return view(x, piece, x.order, cut=axis)
    divided = view(x, full, x.order)

    def part(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        found = _parted(only(gradients), piece)
        new(tape, piece, only(gradients).dtype, "div_backward")
        return found[:1]

    attach([divided], [x], [], part)
    out = view(divided, piece, x.order, cut=axis)
    attach([out], [divided], [], lambda g, s: [new(tape, full, only(g).dtype, "as_strided_backward")])
    return out


def _parted(gradient: Tensor, piece: Shape) -> list[Gradient]:
    rest = new(gradient.tape, gradient.shape, gradient.dtype, "copy_slices")
    return [rest, new(gradient.tape, piece, gradient.dtype, "copy_slices")]


def _overwritten(gradient: Tensor, piece: Shape) -> list[Gradient]:
    results = _parted(gradient, piece)
    new(gradient.tape, piece, gradient.dtype, "zeros")
    return results
