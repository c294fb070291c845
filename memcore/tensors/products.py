"""Matrix products fused with a sum."""

from __future__ import annotations

from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import autocast, new, only
from memcore.tensors.tensor import Tensor


def baddbmm(bias: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """bias + a · x @ y over batches, with a bias that needs no gradient; saves both factors.

    A gradient is a product first, and a multiple of it then.
    """
    y, x, bias = autocast(y), autocast(x), autocast(bias)
    tape, x_needs, y_needs = x.tape, tracked(x), tracked(y)
    saved = save(tape, x if y_needs else None, y if x_needs else None)
    out = new(tape, (*x.shape[:-1], y.shape[-1]), x.dtype, "matmul")
    shapes = [x.shape if x_needs else None, y.shape if y_needs else None]

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        dtype = only(gradients).dtype
        results: list[Gradient] = []
        for shape in shapes:
            product = None if shape is None else new(tape, shape, dtype, "matmul_backward")
            results.append(None if shape is None else new(tape, shape, dtype, "mul_backward"))
            del product
        return results

    if x_needs or y_needs:
        attach([out], [x, y], saved, apply)
    return out
