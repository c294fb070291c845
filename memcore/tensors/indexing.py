"""Operations that choose, sort and move elements by index.

Where PyTorch scatters a gradient in place into zeros, it makes a second tensor under tensor subclasses such as fake
tensors (FunctionsManual.cpp, `areAnyTensorSubclassLike`).
"""

from __future__ import annotations

from memcore.symbols import Axis, Shape
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import like, new, only
from memcore.tensors.tensor import Tape, Tensor


def _scattered(tape: Tape, shape: Shape, dtype: str, rule: str) -> Tensor:
    """Return a gradient that is scattered into zeros of the full size."""
    zeros = new(tape, shape, dtype, rule)
    return new(tape, shape, dtype, rule) if tape.fake else zeros


def topk(x: Tensor, count: Axis, rule: str = "topk") -> tuple[Tensor, Tensor]:
    """Return the `count` largest elements of the last axis and their indices, which it saves."""
    tape, full = x.tape, x.shape
    shape = (*full[:-1], count)
    values, indices = new(tape, shape, x.dtype, rule), new(tape, shape, "int64", rule)

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        return [_scattered(tape, full, only(gradients).dtype, "topk_backward")]

    if tracked(x):
        attach([values], [x], save(tape, indices), apply)
    return values, indices


def largest(x: Tensor) -> tuple[Tensor, Tensor]:
    """`max(dim=-1, keepdim=True)`: the largest element and its index."""
    return topk(x, 1, "max")


def gather(x: Tensor, index: Tensor) -> Tensor:
    """Return elements of the last axis by index; saves its input and the indices."""
    tape, full = x.tape, x.shape
    needs = tracked(x)
    saved = save(tape, x, index) if needs else []
    out = new(tape, index.shape, x.dtype, "gather")
    if needs:
        attach([out], [x], saved, lambda g, s: [_scattered(tape, full, only(g).dtype, "gather_backward")])
    return out


def scatter(x: Tensor, index: Tensor) -> Tensor:
    """Return a copy with a number written at some indices, which it saves."""
    saved = save(x.tape, index) if tracked(x) else []
    out = like(x, "scatter")
    if tracked(x):
        attach([out], [x], saved, lambda g, s: [like(only(g), "scatter_backward")])
    return out


def take(x: Tensor, index: Tensor, width: int) -> Tensor:
    """`x[index]` over all axes but the last `width`; saves the indices.

    The gradient is added up in zeros of the full size, in the order of sorted indices (Indexing.cu,
    index_put_with_sort_kernel).
    """
    tape, full, rows = x.tape, x.shape, index.shape
    rest = full[len(full) - width :]
    saved = save(tape, index) if tracked(x) else []
    out = new(tape, (*rows, *rest), x.dtype, "index")

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        result = new(tape, full, only(gradients).dtype, "index_backward")
        if tape.fake:
            return [new(tape, full, only(gradients).dtype, "index_backward")]
        held = [new(tape, rows, "int64", "index_workspace") for _ in range(_LINEAR + _SORTED + _RADIX)]
        del held
        return [result]

    if tracked(x):
        attach([out], [x], saved, apply)
    return out


_LINEAR, _SORTED, _RADIX = 1, 3, 2
"""int64 tensors while indices are sorted: linear indices; keys and values of the result and the places before; what
CUB's radix sort needs to go back and forth."""


def sort(index: Tensor) -> tuple[Tensor, Tensor]:
    """Sorted integers and where each was; no gradient."""
    values, places = like(index, "sort"), like(index, "sort")
    if not index.tape.fake:
        held = [like(index, "sort") for _ in range(1 + _RADIX)]
        del held
    return values, places
