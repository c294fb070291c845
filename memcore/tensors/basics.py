"""What every operation is made of: new tensors, views of old ones, copies and casts.

A result's physical order follows its operands as in PyTorch's TensorIterator.
"""

from __future__ import annotations

from collections.abc import Sequence

from memcore.symbols import Axis, Shape
from memcore.tensors.autograd import Gradient, attach, tracked
from memcore.tensors.tensor import Parameter, Tape, Tensor

_PROMOTION = ("bool", "int64", "bf16", "fp16", "fp32")


def new(tape: Tape, shape: Shape, dtype: str, rule: str, *, order: tuple[int, ...] | None = None) -> Tensor:
    """Return a freshly allocated tensor."""
    return Tensor(tape, tape.allocate(shape, dtype, rule), shape, dtype, order=order)


def like(x: Tensor, rule: str, dtype: str | None = None) -> Tensor:
    """Return a freshly allocated tensor with the shape and the physical order of another."""
    return new(x.tape, x.shape, dtype or x.dtype, rule, order=x.order)


def promote(*dtypes: str) -> str:
    """Return the dtype of a result over operands of these dtypes."""
    every = set(dtypes)
    if len(every) == 1:
        return dtypes[0]
    if {"bf16", "fp16"} <= every:
        return "fp32"
    return max(dtypes, key=_PROMOTION.index)


def only(gradients: list[Gradient]) -> Tensor:
    """Return the gradient of a node's single output."""
    gradient = gradients[0]
    if gradient is None:
        raise RuntimeError("a node ran without a gradient")
    return gradient


def elementwise(rule: str, *operands: Tensor) -> Tensor:
    """Return the result of a broadcasting kernel; it lies in memory like the first operand of full size."""
    shape: Shape = ()
    for operand in operands:
        shape = _broadcast(shape, operand.shape)
    leader = next((operand for operand in operands if operand.shape == shape), None)
    dtype = promote(*(operand.dtype for operand in operands))
    return new(operands[0].tape, shape, dtype, rule, order=leader.order if leader else None)


def _broadcast(x: Shape, y: Shape) -> Shape:
    if not x or x == y:
        return y
    length = max(len(x), len(y))
    pairs = zip((1,) * (length - len(x)) + x, (1,) * (length - len(y)) + y, strict=True)
    return tuple(b if a == 1 else a for a, b in pairs)


# Views: no memory, but nodes of the graph.


def view(x: Tensor, shape: Shape, order: tuple[int, ...] | None = None, cut: int | None = None) -> Tensor:
    """Return the memory of `x` under other axes, outside the graph."""
    return Tensor(x.tape, x.storage, shape, x.dtype, order=order, cut=cut)


def permute(x: Tensor, *axes: int) -> Tensor:
    """Reorder the logical axes."""
    out = _permuted(x, axes)
    if tracked(x):
        inverse = [axes.index(axis) for axis in range(len(axes))]
        attach([out], [x], [], lambda g, s: [_permuted(only(g), inverse)])
    return out


def _permuted(x: Tensor, axes: Sequence[int]) -> Tensor:
    places = list(axes)
    out = view(x, tuple(x.shape[axis] for axis in axes), tuple(places.index(axis) for axis in x.order))
    out.spread = None if x.spread is None else places.index(x.spread)
    out.cut = x.cut if x.cut is None or x.cut == len(places) else places.index(x.cut)
    return out


def in_order(gradients: list[Gradient]) -> Tensor:
    """Return a node's gradient in logical order; a copy replaces it where it is not."""
    gradient = only(gradients)
    if not gradient.contiguous:
        gradient = gradients[0] = new(gradient.tape, gradient.shape, gradient.dtype, "clone")
    return gradient


def unmerged(x: Tensor, first: int) -> Tensor:
    """Return a view whose axes from `first` on were one; a gradient that cannot be viewed as one again is copied."""
    out = view(x, x.shape, x.order, x.cut)
    if tracked(x):
        attach([out], [x], [], lambda g, s: [_mergeable(g, first)])
    return out


def _mergeable(gradients: list[Gradient], first: int) -> Tensor:
    gradient = only(gradients)
    return gradient if gradient.mergeable(first, len(gradient.shape)) else in_order(gradients)


def narrow(x: Tensor, axis: int, size: Axis) -> Tensor:
    """Return a slice along one axis; its gradient is written into a tensor of the full size."""
    out = view(x, (*x.shape[:axis], size, *x.shape[axis + 1 :]), x.order, cut=axis)
    if tracked(x):
        tape, full = x.tape, x.shape
        attach([out], [x], [], lambda g, s: [new(tape, full, only(g).dtype, "slice_backward")])
    return out


def split(
    x: Tensor, shape: Shape, parts: int = 3, *, order: tuple[int, ...] | None = None, cut: int | None = None
) -> list[Tensor]:
    """Equal parts as views of one shape; the backward pass concatenates their gradients."""
    outs = [view(x, shape, order, cut) for _ in range(parts)]
    if tracked(x):
        tape, full, dtype = x.tape, x.shape, x.dtype
        attach(outs, [x], [], lambda g, s: [new(tape, full, dtype, "cat")])
    return outs


def identity(x: Tensor) -> Tensor:
    """Return the tensor behind a graph node of its own, where engines attach hooks."""
    out = view(x, x.shape, x.order)
    if tracked(x):
        attach([out], [x], [], lambda g, s: [g[0]])
    return out


# Copies and casts.


def clone(x: Tensor) -> Tensor:
    """Return a copy in logical order; its gradient passes through."""
    out = new(x.tape, x.shape, x.dtype, "clone")
    if tracked(x):
        attach([out], [x], [], lambda g, s: [g[0]])
    return out


def contiguous(x: Tensor) -> Tensor:
    """Return a copy in logical order, unless it lies so already."""
    return x if x.contiguous else clone(x)


def to(x: Tensor, dtype: str) -> Tensor:
    """Cast; the same tensor where nothing changes. The gradient is cast back."""
    if x.dtype == dtype:
        return x
    out = like(x, "to", dtype)
    if tracked(x):
        before = x.dtype
        attach([out], [x], [], lambda g, s: [like(only(g), "to", before)])
    return out


def autocast(x: Tensor, *, fresh: bool = False) -> Tensor:
    """Cast to the dtype of `torch.autocast`.

    Only casts of trainable parameters are cached, until it ends; not `fresh` ones, which are views of them, nor those
    that are part of a compiled block.
    """
    tape = x.tape
    if tape.autocast is None or x.dtype != "fp32":
        return x
    if fresh or tape.compiled or not (isinstance(x, Parameter) and x.requires_grad):
        return to(x, tape.autocast)
    casts = tape.casts
    if id(x) not in casts:
        casts[id(x)] = to(x, tape.autocast)
    return casts[id(x)]


def cat(parts: Sequence[Tensor], shape: Shape, empty: str | None = None) -> Tensor:
    """Concatenate along one axis, perhaps with an empty part of dtype `empty`; the gradients of the parts are views."""
    dtypes = [part.dtype for part in parts] + ([empty] if empty else [])
    out = new(parts[0].tape, shape, promote(*dtypes), "cat")
    if tracked(*parts):
        shapes = [part.shape for part in parts]
        attach([out], parts, [], lambda g, s: [view(only(g), each, only(g).order) for each in shapes])
    return out
