"""Matrix products with a matrix of its own for each group of rows, such as routed experts."""

from __future__ import annotations

from memcore.symbols import Shape
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import autocast, new, only, to
from memcore.tensors.tensor import Parameter, Tensor


class Delayed:
    """Weight gradients that wait: until then inputs and gradients of results are held.

    Source: mlc-ai/pith-train, pithtrain/layers/group_linear.py (`GroupLinearFunc`) and dualpipe/utils.py
    (`WeightGradStore`); commits 287070f and 078f90b say that these gradients stay in the compute dtype.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[Parameter, Tensor, Tensor]] = []

    def put(self, weight: Parameter, x: Tensor, gradient: Tensor) -> None:
        """Hold what a weight's gradient is made of."""
        self._waiting.append((weight, x, gradient))

    def pop(self) -> None:
        """Compute them in order: the first of a weight stays in `grad`, later ones are added in place."""
        for weight, _, gradient in self._waiting:
            made = new(weight.tape, weight.shape, gradient.dtype, "weight_gradient")
            if weight.grad is None:
                weight.grad = made
                if made.storage is not None:
                    made.tape.gradients.add(made.storage.block)
            del made
        self._waiting = []


def grouped_mm(x: Tensor, weight: Tensor, offsets: Tensor, outer: Shape, delayed: Delayed | None = None) -> Tensor:
    """`F.grouped_mm`: each row of x times the matrix of its group; the result's last axes are `outer`.

    Autocast does not know it, so that x takes the dtype of the weight (integrations/moe.py, `_grouped_mm`).
    """
    x = to(x, weight.dtype)
    return _product(x, weight, outer, "grouped_mm", offsets, delayed)


def batched_mm(x: Tensor, weight: Tensor, outer: Shape) -> Tensor:
    """`torch.bmm`: as many rows for each group."""
    weight, x = autocast(weight), autocast(x)
    return _product(x, weight, outer, "matmul")


def _product(
    x: Tensor, weight: Tensor, outer: Shape, rule: str, offsets: Tensor | None = None, delayed: Delayed | None = None
) -> Tensor:
    tape, x_shape, weight_shape = x.tape, x.shape, weight.shape
    x_needs, weight_needs = tracked(x), tracked(weight)
    saved = save(tape, x if weight_needs else None, weight if x_needs else None, offsets)
    out = new(tape, (*x_shape[:-1], *outer), x.dtype, rule)
    # A computed matrix is for checkpoints to let go of, so that the node does not name it.
    waits = weight if delayed is not None and isinstance(weight, Parameter) and weight_needs else None

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        dtype = only(gradients).dtype
        if delayed is not None and waits is not None:
            delayed.put(waits, saved[0], only(gradients))
            return [new(tape, x_shape, dtype, "input_gradient") if x_needs else None, None]
        for_weight = new(tape, weight_shape, dtype, "weight_gradient") if weight_needs else None
        for_x = new(tape, x_shape, dtype, "input_gradient") if x_needs else None
        return [for_x, for_weight]

    if x_needs or weight_needs:
        attach([out], [x, weight], saved, apply)
    return out
