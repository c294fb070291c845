"""Operations on images and their features: convolutions over patches, class tokens, and features put among tokens."""

from __future__ import annotations

from collections.abc import Sequence

from memcore.symbols import Shape
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import autocast, in_order, like, new, only, promote, view
from memcore.tensors.tensor import Parameter, Tape, Tensor


def convolution(pixels: Tensor, weight: Parameter, bias: Parameter | None, patches: Shape, axis: int) -> Tensor:
    """Return a convolution whose stride is its kernel: one vector for each of `patches`, as the axes from `axis` on.

    Channels come first. Saves the pixels, which need no gradient, and the weight. cuDNN wants the gradient in logical
    order (ConvShared.cpp); what workspace it takes is its own and unknown.
    """
    tape = pixels.tape
    b = None if bias is None else autocast(bias)
    w, x = autocast(weight), autocast(pixels)
    inputs = [x, w] if b is None else [x, w, b]
    saved = save(tape, x, w) if tracked(w) else []
    shape = (*patches[:axis], *weight.outer, *patches[axis:])
    out = new(tape, shape, x.dtype, "convolution")
    w_shape = w.shape

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        gradient = only(gradients)
        copy = None if tape.fake or gradient.contiguous else new(tape, gradient.shape, gradient.dtype, "clone")
        found: list[Gradient] = [None, new(tape, w_shape, gradient.dtype, "convolution_backward")]
        if b is not None:
            found.append(new(tape, b.shape, gradient.dtype, "convolution_backward"))
        del copy
        return found

    if tracked(*inputs):
        attach([out], inputs, saved, apply)
    return out


def viewed(x: Tensor, shape: Shape) -> Tensor:
    """`x.view(shape)` of a slice: the gradient is copied where it does not lie in order."""
    out = view(x, shape, cut=x.cut)
    if tracked(x):
        before = x.shape
        attach([out], [x], [], lambda g, s: [view(in_order(g), before)])
    return out


def unfolded(pixels: Tensor, shape: Shape) -> Tensor:
    """`Unfold` whose stride is its kernel: the elements of each patch, patches last (im2col). Pixels learn nothing."""
    return new(pixels.tape, shape, pixels.dtype, "unfold")


def unfolded_rows(patches: Tensor, shape: Shape) -> Tensor:
    """`Unfold` whose stride is its kernel, over the grid that rows of patches are: a row for each window of it.

    Channels have to come first (Im2Col.cu), and elements of a window in the gradient (Col2Im.cu): both are copied.
    """
    tape, before, dtype = patches.tape, patches.shape, patches.dtype
    copy = None if tape.fake else new(tape, before, dtype, "clone")
    out = new(tape, shape, dtype, "unfold", order=(1, 0))
    del copy

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        gradient = only(gradients)
        copy = None if tape.fake else new(tape, shape, gradient.dtype, "clone")
        found = new(tape, before, gradient.dtype, "unfold_backward", order=(1, 0))
        del copy
        return [found]

    if tracked(patches):
        attach([out], [patches], [], apply)
    return out


def padded_rows(x: Tensor, shape: Shape) -> Tensor:
    """`F.pad`; the gradient is a copy without what was added."""
    out = new(x.tape, shape, x.dtype, "pad")
    if tracked(x):
        tape, before = x.tape, x.shape
        attach([out], [x], [], lambda g, s: [new(tape, before, only(g).dtype, "pad_backward")])
    return out


def stacked(parts: Sequence[Tensor]) -> Tensor:
    """`torch.stack(parts, dim=-1)`; the gradients of the parts are slices."""
    tape, shape = parts[0].tape, parts[0].shape
    out = new(tape, (*shape, len(parts)), parts[0].dtype, "stack")
    if tracked(*parts):
        attach([out], list(parts), [], lambda g, s: [view(only(g), shape, cut=len(shape) - 1) for _ in parts])
    return out


def joined(parts: Sequence[Tensor], shape: Shape, axis: int) -> Tensor:
    """`torch.cat`; the gradients of the parts are slices, and that of a part that was expanded is summed."""
    out = new(parts[0].tape, shape, promote(*(part.dtype for part in parts)), "cat")
    if tracked(*parts):
        orders = [part.order if len(part.shape) == len(shape) else None for part in parts]
        shapes = [part.shape for part in parts]

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            gradient = only(gradients)
            return [
                view(gradient, each, gradient.order, cut=axis) if order is not None else _summed(gradient, each)
                for each, order in zip(shapes, orders, strict=True)
            ]

        attach([out], list(parts), [], apply)
    return out


def _summed(gradient: Tensor, shape: Shape) -> Tensor:
    return new(gradient.tape, shape, gradient.dtype, "expand_backward")


def divided(x: Tensor, rule: str) -> Tensor:
    """`list(x)` or `torch.split(x, sizes)`, as one view: the gradients of the parts are stacked or concatenated."""
    out = view(x, x.shape, x.order)
    if tracked(x):
        tape, before = x.tape, x.shape
        attach([out], [x], [], lambda g, s: [new(tape, before, only(g).dtype, rule)])
    return out


def rejoined(parts: Tensor, shape: Shape) -> Tensor:
    """`torch.cat` of all such parts; their gradients are slices."""
    out = new(parts.tape, shape, parts.dtype, "cat")
    if tracked(parts):
        before = parts.shape
        attach([out], [parts], [], lambda g, s: [view(only(g), before)])
    return out


def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Write the rows of `source` where a mask says; saves the mask.

    The kernel counts in int64 how many elements of an expanded copy of the mask come before each (IndexKernel.cu,
    launch_masked_scatter_kernel); the gradient of the source is selected by the indices of what is not zero in it.
    """
    tape = x.tape
    saved = save(tape, mask) if tracked(x, source) else []
    out = new(tape, x.shape, x.dtype, "masked_scatter")
    if not tape.fake:
        held = [new(tape, x.shape, "int64", "mask_prefix_sum"), new(tape, x.shape, "bool", "clone")]
        del held
    x_shape, shape = x.shape, source.shape
    needs, source_needs = tracked(x), tracked(source)

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        gradient = only(gradients)
        for_x = like(gradient, "masked_fill_backward") if needs else None
        for_source = _selected(gradient, x_shape, shape) if source_needs else None
        return [for_x, for_source]

    if tracked(x, source):
        attach([out], [x, source], saved, apply)
    return out


def _selected(gradient: Tensor, full: Shape, shape: Shape) -> Tensor:
    """`masked_select`: the mask is expanded and copied, and its true elements are found as int64 indices."""
    tape = gradient.tape
    held: list[Tensor] = []
    if not tape.fake:
        held = [new(tape, full, "bool", "clone"), new(tape, (len(full), *shape), "int64", "nonzero")]
        del held[0]
    found = new(tape, shape, gradient.dtype, "masked_select")
    del held
    return found


def buffer(tape: Tape, shape: Shape, dtype: str) -> Tensor:
    """Return a buffer of the model, whose memory is counted with the model."""
    return Tensor(tape, None, shape, dtype)


def unbound(x: Tensor, axis: int) -> list[Tensor]:
    """`x.movedim(axis, 0).unbind(0)`: slices, whose gradients are stacked."""
    count = x.shape[axis]
    if not isinstance(count, int):
        raise TypeError(x.shape)
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    outs = [view(x, shape, cut=axis) for _ in range(count)]
    if tracked(x):
        tape, full = x.tape, x.shape
        order = (axis, *(each for each in range(len(full)) if each != axis))
        attach(outs, [x], [], lambda g, s: [new(tape, full, first_dtype(g), "stack", order=order)])
    return outs


def first_dtype(gradients: list[Gradient]) -> str:
    """Return the dtype of gradients of which some may be absent."""
    return next(each.dtype for each in gradients if each is not None)


def average_pool(x: Tensor, shape: Shape) -> Tensor:
    """`avg_pool2d` over windows that do not overlap; saves x."""
    saved = save(x.tape, x) if tracked(x) else []
    out = new(x.tape, shape, x.dtype, "average_pool")
    if tracked(x):
        attach([out], [x], saved, lambda g, s: [like(s[0], "average_pool_backward")])
    return out


def rows_at(x: Tensor, mask: Tensor, rows: Shape) -> Tensor:
    """`x[mask]`: the rows that a mask selects; saves the mask.

    Their indices are int64; the gradient is added up in zeros of the full size, in the order of sorted indices.
    """
    tape, full = x.tape, x.shape
    saved = save(tape, mask) if tracked(x) else []
    places = _places(tape, mask, rows)
    out = new(tape, (*rows, *full[len(mask.shape) :]), x.dtype, "index")
    del places

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        result = new(tape, full, only(gradients).dtype, "index_backward")
        if tape.fake:
            return [new(tape, full, only(gradients).dtype, "index_backward")]
        held = [*_places(tape, saved[0], rows), *(new(tape, rows, "int64", "index_workspace") for _ in range(_SORTING))]
        del held
        return [result]

    if tracked(x):
        attach([out], [x], saved, apply)
    return out


_SORTING = 6
"""int64 tensors while indices are sorted (Indexing.cu, index_put_with_sort_kernel), as in `indexing.take`."""


def _places(tape: Tape, mask: Tensor, rows: Shape) -> list[Tensor]:
    """Return the indices of what a mask selects."""
    return [] if tape.fake else [new(tape, (len(mask.shape), *rows), "int64", "nonzero")]


def put_rows(x: Tensor, mask: Tensor, values: Tensor) -> Tensor:
    """`x[mask] = values` in place; saves the mask. The gradient of x is a copy with zeros at those rows."""
    tape, rows = x.tape, values.shape[:1]
    needs = tracked(x, values)
    saved = save(tape, mask) if needs else []
    places = _places(tape, mask, rows)
    del places
    out = view(x, x.shape, x.order)
    shape = values.shape

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        gradient = only(gradients)
        zeros = new(tape, shape, gradient.dtype, "zeros")
        for_x = like(gradient, "index_put_backward")
        places = _places(tape, saved[0], rows)
        del zeros, places
        places = _places(tape, saved[0], rows)
        for_values = new(tape, shape, gradient.dtype, "index")
        del places
        return [for_x, for_values]

    if needs:
        attach([out], [x, values], saved, apply)
    return out
