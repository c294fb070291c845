"""What follows from tensors in a way that no code describes."""

from __future__ import annotations

from collections.abc import Sequence

from memcore.symbols import Shape
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import new, only
from memcore.tensors.tensor import Tensor


def mixed(parts: Sequence[Tensor], axes: Shape) -> Tensor:
    """Return a tensor of tokens with these last axes, made of others; all of them are saved, and each gets a gradient.

    So it is for attention kernels, products and most activations: they save what they read.
    """
    first = parts[0]
    tape, shapes, needs = first.tape, [each.shape for each in parts], [tracked(each) for each in parts]
    saved = save(tape, *(each if need else None for each, need in zip(parts, needs, strict=True)))
    out = new(tape, (*first.shape[:2], *axes), first.dtype, "mixed")

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        dtype = only(gradients).dtype
        pairs = zip(shapes, needs, strict=True)
        return [new(tape, shape, dtype, "mixed_backward") if need else None for shape, need in pairs]

    if any(needs):
        attach([out], list(parts), saved, apply)
    return out
