"""Matrix products with a matrix of its own for each group of rows, such as routed experts."""

from __future__ import annotations

from memcore.eager.autograd import Gradient, attach, save, tracked
from memcore.eager.basics import autocast, new, only, to
from memcore.eager.tensor import Tensor
from memcore.symbols import Shape


def grouped_mm(x: Tensor, weight: Tensor, offsets: Tensor, outer: Shape) -> Tensor:
    """`F.grouped_mm`: each row of x times the matrix of its group; the result's last axes are `outer`.

    Autocast does not know it, so that x takes the dtype of the weight (integrations/moe.py, `_grouped_mm`).
    """
    x = to(x, weight.dtype)
    return _product(x, weight, outer, "grouped_mm", offsets)


def batched_mm(x: Tensor, weight: Tensor, outer: Shape) -> Tensor:
    """`torch.bmm`: as many rows for each group."""
    weight, x = autocast(weight), autocast(x)
    return _product(x, weight, outer, "matmul")


def _product(x: Tensor, weight: Tensor, outer: Shape, rule: str, offsets: Tensor | None = None) -> Tensor:
    tape, x_shape, weight_shape = x.tape, x.shape, weight.shape
    x_needs, weight_needs = tracked(x), tracked(weight)
    saved = save(tape, x if weight_needs else None, weight if x_needs else None, offsets)
    out = new(tape, (*x_shape[:-1], *outer), x.dtype, rule)

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        dtype = only(gradients).dtype
        for_weight = new(tape, weight_shape, dtype, "weight_gradient") if weight_needs else None
        for_x = new(tape, x_shape, dtype, "input_gradient") if x_needs else None
        return [for_x, for_weight]

    if x_needs or weight_needs:
        attach([out], [x, weight], saved, apply)
    return out
