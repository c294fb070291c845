"""Complex numbers: pairs of fp32 elements, whose tensors are written here with the elements of both."""

from __future__ import annotations

from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import in_order, like
from memcore.tensors.tensor import Tensor


def complex_product(x: Tensor, rotations: Tensor) -> Tensor:
    """Return the input as complex numbers times rotations, which need no gradient but are saved.

    The backward pass takes gradients in logical order, and conjugates the rotations first.
    """
    needs = tracked(x)
    saved = save(x.tape, rotations) if needs else []
    out = like(x, "rotary")

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        gradient = in_order(gradients)
        conjugated = like(saved[0], "rotary")
        result = like(gradient, "rotary_backward")
        del conjugated
        return [result]

    if needs:
        attach([out], [x], saved, apply)
    return out
