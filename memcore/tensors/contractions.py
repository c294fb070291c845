"""Products over chosen axes (`torch.einsum`), and triangular systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memcore.symbols import Axis, Shape
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import autocast, clone, like, new, only, permute
from memcore.tensors.tensor import Tensor


def einsum(equation: str, x: Tensor, y: Tensor) -> Tensor:
    """Return the sum over the axes that the result lacks, as one batched product.

    Both operands are permuted to (shared, own, summed) and (shared, summed, own) and copied where they cannot be
    viewed as three axes; the result is permuted back (aten/src/ATen/native/Linear.cpp, sumproduct_pair).
    """
    x, y = autocast(x), autocast(y)
    given = (x, y)
    left, right, out = equation.replace("->", ",").split(",")
    sizes = {**_sizes(x, left), **_sizes(y, right)}
    labels = [each for each in out if each in sizes]
    summed = sorted(each for each in sizes if each not in out)
    shared = [each for each in labels if each in left and each in right]
    rows = [each for each in labels if each not in right]
    columns = [each for each in labels if each not in left]
    if rows and columns and out.index(columns[-1]) < out.index(rows[0]):
        x, y, left, right, rows, columns = y, x, right, left, columns, rows
    x = _arranged(x, left, (shared, rows, summed))
    y = _arranged(y, right, (shared, summed, columns))
    result = bmm(x, y, [tuple(sizes[each] for each in group) for group in (shared, rows, summed, columns)])
    del given
    order = [*shared, *rows, *columns]
    return permute(result, *(order.index(each) for each in out))


def _sizes(x: Tensor, labels: str) -> Mapping[str, Axis]:
    return dict(zip(labels, x.shape, strict=True))


def _arranged(x: Tensor, labels: str, groups: Sequence[Sequence[str]]) -> Tensor:
    x = permute(x, *(labels.index(each) for group in groups for each in group))
    start = 0
    for group in groups:
        if not x.mergeable(start, start + len(group)):
            return clone(x)
        start += len(group)
    return x


def bmm(x: Tensor, y: Tensor, groups: Sequence[Shape]) -> Tensor:
    """Return a batched product of (batch, rows, inner) and (batch, inner, columns), each a group of axes; saves both.

    A gradient that cannot be viewed as three axes is copied.
    """
    batch, rows, inner, columns = groups
    y, x = autocast(y), autocast(x)
    x_needs, y_needs = tracked(x), tracked(y)
    saved = save(x.tape, x if y_needs else None, y if x_needs else None)
    tape, dtype = x.tape, x.dtype
    out = new(tape, (*batch, *rows, *columns), dtype, "bmm")

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        _as_matrices(gradients, (len(batch), len(rows), len(columns)))
        for_y = new(tape, (*batch, *inner, *columns), dtype, "bmm_backward") if y_needs else None
        for_x = new(tape, (*batch, *rows, *inner), dtype, "bmm_backward") if x_needs else None
        return [for_x, for_y]

    if x_needs or y_needs:
        attach([out], [x, y], saved, apply)
    return out


def baddbmm(bias: Tensor, x: Tensor, y: Tensor, groups: Sequence[Shape], *, scaled: bool = False) -> Tensor:
    """Return a batched product of the same groups with a bias that is broadcast over it.

    With `scaled` (`alpha`) each gradient is multiplied once more (tools/autograd/derivatives.yaml, `maybe_multiply`).
    """
    y, x, bias = autocast(y), autocast(x), autocast(bias)
    batch, rows, inner, columns = groups
    x_needs, y_needs = tracked(x), tracked(y)
    saved = save(x.tape, x if y_needs else None, y if x_needs else None)
    tape, dtype = x.tape, x.dtype
    out = new(tape, (*batch, *rows, *columns), dtype, "bmm")

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        _as_matrices(gradients, (len(batch), len(rows), len(columns)))
        for_x = new(tape, (*batch, *rows, *inner), dtype, "bmm_backward") if x_needs else None
        if for_x is not None and scaled:
            for_x = like(for_x, "mul_backward")
        for_y = new(tape, (*batch, *inner, *columns), dtype, "bmm_backward") if y_needs else None
        if for_y is not None and scaled:
            for_y = like(for_y, "mul_backward")
        return [gradients[0], for_x, for_y]

    if tracked(bias, x, y):
        attach([out], [bias, x, y], saved, apply)
    return out


def _as_matrices(gradients: list[Gradient], counts: Sequence[int]) -> None:
    gradient, start = only(gradients), 0
    for count in counts:
        if not gradient.mergeable(start, start + count):
            gradients[0] = new(gradient.tape, gradient.shape, gradient.dtype, "clone")
            return
        start += count


def solve_triangular(system: Tensor, right: Tensor) -> Tensor:
    """The solution of lower triangular systems, which it saves with them; its last two axes are swapped in memory.

    The backward pass solves another one for the right-hand side; the gradient of the system is a product, negated and
    cut to its triangle (FunctionsManual.cpp, linalg_solve_triangular_backward).
    """
    tape, dtype, axes = right.tape, right.dtype, len(right.shape)
    order = (*range(axes - 2), axes - 1, axes - 2)
    shape, square = right.shape, system.shape
    saved = save(tape, system) if tracked(system, right) else []
    out = new(tape, shape, dtype, "solve_triangular", order=order)

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        for_right = new(tape, shape, dtype, "solve_triangular_backward", order=order)
        product = new(tape, square, dtype, "solve_triangular_backward")
        negated = new(tape, square, dtype, "solve_triangular_backward")
        del product
        for_system = new(tape, square, dtype, "solve_triangular_backward")
        del negated
        return [for_system, for_right]

    if tracked(system, right):
        attach([out], [system, right], saved + save(tape, out), apply)
    return out


def solve(system: Tensor, right: Tensor) -> Tensor:
    """`torch.linalg.solve`: keeps the systems, their LU factors and the solution.

    The backward pass solves for the right-hand side; the gradient of the systems is a product, negated
    (FunctionsManual.cpp, linalg_solve_backward).
    """
    tape, dtype, shape = system.tape, system.dtype, right.shape
    saved = save(tape, system)
    out, factors = (new(tape, each, dtype, "solve") for each in (shape, system.shape))
    pivots = new(tape, system.shape[:-1], "int32", "solve")

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        for_right = new(tape, shape, dtype, "solve_backward")
        product = new(tape, saved[0].shape, dtype, "solve_backward")
        for_system = new(tape, saved[0].shape, dtype, "solve_backward")
        del product
        return [for_system, for_right]

    attach([out], [system, right], saved + save(tape, out, factors, pivots), apply)
    return out
