"""Slices: tensors split into unequal parts, expanded axes, and writes into slices of a fresh tensor."""

from __future__ import annotations

from collections.abc import Sequence

from memcore.symbols import Axis, Shape
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import clone, contiguous, in_order, new, only, to, view
from memcore.tensors.tensor import Tensor


def split_sizes(x: Tensor, axis: int, sizes: Sequence[Axis]) -> list[Tensor]:
    """`torch.split` into parts of these sizes, as views; the backward pass concatenates their gradients."""
    outs = [view(x, (*x.shape[:axis], size, *x.shape[axis + 1 :]), x.order, cut=axis) for size in sizes]
    if tracked(x):
        tape, full = x.tape, x.shape
        shapes = [out.shape for out in outs]

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            dtype = next(each.dtype for each in gradients if each is not None)
            absent = [
                new(tape, shape, dtype, "zeros") for shape, each in zip(shapes, gradients, strict=True) if each is None
            ]
            out = new(tape, full, dtype, "cat")
            del absent
            return [out]

        attach(outs, [x], [], apply)
    return outs


def index(x: Tensor, axis: int) -> Tensor:
    """Return one element of an axis, chosen by a list: a copy. The gradient is put into zeros of the full size."""
    tape, full = x.tape, x.shape
    chosen = new(tape, (1,), "int64", "index")
    needs = tracked(x)
    saved = save(tape, chosen) if needs else []
    out = new(tape, (*full[:axis], 1, *full[axis + 1 :]), x.dtype, "index")
    if needs:
        attach([out], [x], saved, lambda g, s: [_put(only(g), full)])
    return out


def _put(gradient: Tensor, shape: Shape) -> Tensor:
    """`index_put` into zeros: in place, but not for fake tensors."""
    zeros = new(gradient.tape, shape, gradient.dtype, "index_backward")
    return new(gradient.tape, shape, gradient.dtype, "index_backward") if gradient.tape.fake else zeros


def merge(x: Tensor, axis: int, size: Axis) -> Tensor:
    """Return two axes as one, in a copy where a view cannot do it; the gradient is a view."""
    if not x.mergeable(axis, axis + 2):
        x = clone(x)
    order = tuple(each - (each > axis) for each in x.order if each != axis + 1)
    out = view(x, (*x.shape[:axis], size, *x.shape[axis + 2 :]), order, cut=x.cut)
    if tracked(x):
        full = x.shape
        attach([out], [x], [], lambda g, s: [view(only(g), full)])
    return out


def expand(x: Tensor, axis: int, size: Axis) -> Tensor:
    """Return an axis of one element, seen `size` times without a copy; the gradient is summed over it (`sum_to`)."""
    out = view(x, (*x.shape[:axis], size, *x.shape[axis + 1 :]), x.order, x.cut)
    out.spread = axis
    if tracked(x):
        tape, before, once = x.tape, x.shape, size == 1 or size in x.tape.units
        attach([out], [x], [], lambda g, s: [g[0] if once else new(tape, before, only(g).dtype, "expand_backward")])
    return out


def written(parts: Sequence[Tensor], shape: Shape, dtype: str) -> Tensor:
    """`new_empty` of this shape, and each part copied into its slice of it.

    Every write is a node of its own (torch/csrc/autograd/functions/tensor.cpp, CopySlices): the gradient is copied, the
    slice is copied out of it for the part, and zeros take its place for what was there before.
    """
    out = new(parts[0].tape, shape, dtype, "empty")
    for part in parts:
        write(out, part)
    return out


def write(base: Tensor, part: Tensor) -> None:
    """`base[...] = part` for a slice of the part's shape."""
    tape, full, overwrites = base.tape, base.shape, base.requires_grad
    shape, dtype = part.shape, part.dtype

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        rest = new(tape, full, only(gradients).dtype, "copy_slices")
        piece = new(tape, shape, rest.dtype, "copy_slices")
        zeros = new(tape, shape, rest.dtype, "zeros") if overwrites else None
        result = to(piece, dtype)
        del zeros
        return [rest, result]

    if tracked(base, part):
        before = base.detach()
        before.node, before.slot, before.requires_grad = base.node, base.slot, base.requires_grad
        attach([base], [before, part], [], apply)


def unsqueeze(x: Tensor, axis: int) -> Tensor:
    """Return a new axis of size one."""
    later = [each + (each >= axis) for each in x.order]
    later.insert(later.index(axis - 1) + 1 if axis else 0, axis)
    cut = None if x.cut is None else x.cut + (x.cut >= axis)
    out = view(x, (*x.shape[:axis], 1, *x.shape[axis:]), tuple(later), cut)
    if tracked(x):
        rank = len(out.shape)
        attach([out], [x], [], lambda g, s: [squeeze(only(g), axis) if len(only(g).shape) == rank else g[0]])
    return out


def squeeze(x: Tensor, axis: int) -> Tensor:
    """Without an axis of size one."""
    order = tuple(each - (each > axis) for each in x.order if each != axis)
    cut = None if x.cut is None else x.cut - (x.cut > axis)
    out = view(x, (*x.shape[:axis], *x.shape[axis + 1 :]), order, cut)
    if tracked(x):
        attach([out], [x], [], lambda g, s: [g[0]])
    return out


def reshape(x: Tensor, shape: Shape) -> Tensor:
    """Other axes for the same elements: a view if they lie in order, else a copy; the gradient likewise."""
    x = contiguous(x)
    out = view(x, shape)
    if tracked(x):
        before = x.shape
        attach([out], [x], [], lambda g, s: [view(in_order(g), before)])
    return out
