"""Parts of tensors, tensors from parts, and other shapes of the same elements.

Axes that a reshape merges stay separate in a shape here; what matters is whether it has to copy them.
"""

from __future__ import annotations

from collections.abc import Sequence

from memcore.symbols import Axis, Shape
from memcore.tensors.autograd import Gradient, attach, tracked
from memcore.tensors.basics import clone, like, new, only, promote, view
from memcore.tensors.tensor import Tensor


def select(x: Tensor, axis: int) -> Tensor:
    """Return one index of an axis (`x[:, i]`); its gradient is written into zeros of the full size."""
    places = [each - (each > axis) for each in x.order if each != axis]
    behind = x.order[x.order.index(axis) + 1 :]
    following = behind[0] - (behind[0] > axis) if behind else len(x.shape) - 1
    out = view(x, (*x.shape[:axis], *x.shape[axis + 1 :]), tuple(places), following)
    if tracked(x):
        tape, full = x.tape, x.shape
        attach([out], [x], [], lambda g, s: [new(tape, full, only(g).dtype, "select_backward")])
    return out


def insert(x: Tensor, axis: int) -> Tensor:
    """Return a further axis of one element (`unsqueeze`)."""
    order = tuple(each + (each >= axis) for each in x.order)
    place = order.index(axis + 1) if axis < len(x.shape) else len(order)
    out = view(x, (*x.shape[:axis], 1, *x.shape[axis:]), (*order[:place], axis, *order[place:]))
    out.cut = x.cut if x.cut is None else x.cut + (x.cut >= axis)
    out.spread = x.spread if x.spread is None else x.spread + (x.spread >= axis)
    if tracked(x):
        attach([out], [x], [], lambda g, s: [_without(only(g), axis)])
    return out


def _without(x: Tensor, axis: int) -> Tensor:
    order = tuple(each - (each > axis) for each in x.order if each != axis)
    return view(x, (*x.shape[:axis], *x.shape[axis + 1 :]), order)


def repeat_interleave(x: Tensor, axis: int, size: Axis, times: Axis) -> Tensor:
    """Return each index of an axis `times` times in a row, `size` in all: always a copy; the gradient is summed."""
    out = new(x.tape, (*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype, "repeat_interleave")
    if tracked(x):
        tape, before = x.tape, x.shape
        once = times == 1 or times in tape.units

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            gradient = only(gradients)
            return [gradient if once else new(tape, before, gradient.dtype, "expand_backward")]

        attach([out], [x], [], apply)
    return out


def pieces(x: Tensor, axis: int, sizes: Sequence[Shape]) -> list[Tensor]:
    """Consecutive parts of an axis, each under axes of its own; the backward pass concatenates their gradients."""
    outs = [_piece(x, axis, size) for size in sizes]
    if tracked(x):
        tape, full, dtype = x.tape, x.shape, x.dtype
        shapes = [out.shape for out in outs]

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            zeros = [
                new(tape, shape, dtype, "zeros")
                for shape, gradient in zip(shapes, gradients, strict=True)
                if gradient is None
            ]
            joined = new(tape, full, dtype, "cat")
            del zeros
            return [joined]

        attach(outs, [x], [], apply)
    return outs


def _piece(x: Tensor, axis: int, size: Shape) -> Tensor:
    more = len(size) - 1
    moved = [each + more * (each > axis) for each in x.order]
    place = moved.index(axis)
    order = (*moved[:place], *range(axis, axis + len(size)), *moved[place + 1 :])
    return view(x, (*x.shape[:axis], *size, *x.shape[axis + 1 :]), order, axis)


def join(parts: Sequence[Tensor], axis: int, size: Axis, trailing: int = 0) -> Tensor:
    """Concatenate along an axis of `size` elements, which is several of a part's axes but for the `trailing` ones.

    The gradients of the parts are slices of the whole one's.
    """
    first = parts[0]
    behind = len(first.shape) - trailing
    shape = (*first.shape[:axis], size, *first.shape[behind:])
    out = new(first.tape, shape, promote(*(part.dtype for part in parts)), "cat")
    if tracked(*parts):
        own = [(part.shape[axis : len(part.shape) - trailing], part.dtype) for part in parts]

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            gradient = only(gradients)
            slices = [(_piece(gradient, axis, each), dtype) for each, dtype in own]
            return [part if dtype == part.dtype else like(part, "to", dtype) for part, dtype in slices]

        attach([out], parts, [], apply)
    return out


def stack(parts: Sequence[Tensor], axis: int, size: Axis) -> Tensor:
    """Stack along a further axis that has `size` elements."""
    first = parts[0]
    shape = (*first.shape[:axis], size, *first.shape[axis:])
    out = new(first.tape, shape, first.dtype, "stack")
    if tracked(*parts):
        before, count = first.shape, len(parts)
        attach([out], parts, [], lambda g, s: [_unbound(only(g), axis, before) for _ in range(count)])
    return out


def _unbound(x: Tensor, axis: int, shape: Shape) -> Tensor:
    places = tuple(each - (each > axis) for each in x.order if each != axis)
    behind = x.order[x.order.index(axis) + 1 :]
    following = behind[0] - (behind[0] > axis) if behind else len(shape)
    return view(x, shape, places, following)


def store(base: Tensor, part: Tensor) -> None:
    """`base[:, :, i] = part` (torch/csrc/autograd/functions/tensor.cpp, CopySlices).

    Its gradient is a copy of the whole one; a slice of that is copied for the part, and zeros take its place for what
    was there before.
    """
    if not tracked(base, part):
        return
    tape, overwrites, order = base.tape, base.requires_grad, base.order
    full, shape, dtype = base.shape, part.shape, part.dtype

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        rest = new(tape, full, only(gradients).dtype, "copy_slices", order=order)
        piece = new(tape, shape, rest.dtype, "copy_slices")
        zeros = new(tape, shape, rest.dtype, "zeros") if overwrites else None
        result = piece if rest.dtype == dtype else like(piece, "to", dtype)
        del zeros
        return [rest, result]

    before = base.detach()
    before.node, before.slot, before.requires_grad = base.node, base.slot, base.requires_grad
    attach([base], [before, part], [], apply)


def pad(x: Tensor, axis: int, into: Shape) -> Tensor:
    """Zeros before or after along an axis, which then is `into`: a copy even if there is nothing to add."""
    out = new(x.tape, (*x.shape[:axis], *into, *x.shape[axis + 1 :]), x.dtype, "pad")
    if tracked(x):
        size = x.shape[axis : axis + 1]

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            gradient = _viewable(gradients, axis, axis + len(into))
            return [like(_regrouped(gradient, axis, len(into), size), "pad_backward")]

        attach([out], [x], [], apply)
    return out


def regroup(x: Tensor, axis: int, count: int, into: Shape) -> Tensor:
    """View `count` axes from `axis` on as others (`reshape`), copying what does not lie like that in memory.

    The gradient is viewed back, and copied where it does not lie like that.
    """
    if not x.mergeable(axis, axis + count):
        x = clone(x)
    out = _regrouped(x, axis, count, into)
    if tracked(x):
        before = x.shape[axis : axis + count]
        width = len(into)

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            return [_regrouped(_viewable(gradients, axis, axis + width), axis, width, before)]

        attach([out], [x], [], apply)
    return out


def _regrouped(x: Tensor, axis: int, count: int, into: Shape) -> Tensor:
    more = len(into) - count
    order: list[int] = []
    for each in x.order:
        if each == axis:
            order += range(axis, axis + len(into))
        elif not axis < each < axis + count:
            order.append(each + more * (each > axis))
    cut = x.cut if x.cut == len(x.shape) else x.behind_gap()
    if cut is not None and cut > axis:
        cut = max(cut + more, axis)
    return view(x, (*x.shape[:axis], *into, *x.shape[axis + count :]), tuple(order), cut)


def _viewable(gradients: list[Gradient], first: int, last: int) -> Tensor:
    """Return the gradient, copied unless it can be viewed with the axes from `first` up to `last` as one."""
    gradient = only(gradients)
    if not gradient.mergeable(first, last):
        gradient = gradients[0] = new(gradient.tape, gradient.shape, gradient.dtype, "clone")
    return gradient


def cropped(x: Tensor, axis: int, count: int, size: Axis) -> Tensor:
    """The first `size` elements of what `count` axes are together; its gradient is written into the full size."""
    out = view(_regrouped(x, axis, count, (size,)), (*x.shape[:axis], size, *x.shape[axis + count :]), cut=axis)
    if tracked(x):
        tape, full = x.tape, x.shape
        attach([out], [x], [], lambda g, s: [new(tape, full, only(g).dtype, "slice_backward")])
    return out


def contiguous_to(x: Tensor, dtype: str) -> Tensor:
    """`x.to(dtype, memory_format=torch.contiguous_format)`: a copy in logical order, but x itself in its own dtype."""
    if x.dtype == dtype:
        return x
    out = new(x.tape, x.shape, dtype, "to")
    if tracked(x):
        before = x.dtype
        attach([out], [x], [], lambda g, s: [like(only(g), "to", before)])
    return out


def fold(x: Tensor, first: int, last: int) -> Tensor:
    """Return a reshape that makes the axes from `first` up to `last` one: a copy where memory does not allow a view."""
    return x if x.mergeable(first, last) else clone(x)


def folded(x: Tensor, first: int, last: int) -> Tensor:
    """A view whose axes from `first` up to `last` were one; a gradient that cannot be viewed as one is copied."""
    out = view(x, x.shape, x.order, x.cut)
    if tracked(x):
        attach([out], [x], [], lambda g, s: [_viewable(g, first, last)])
    return out
