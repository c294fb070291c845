"""Means and deviations beyond those of norms, and repetition along a new axis."""

from __future__ import annotations

from memcore.symbols import Axis
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import like, new, only
from memcore.tensors.tensor import Tensor


def mean_of_first(x: Tensor) -> Tensor:
    """Mean over the first axis, which goes."""
    tape, full = x.tape, x.shape
    out = new(tape, full[1:], x.dtype, "mean")
    if tracked(x):
        attach([out], [x], [], lambda g, s: [new(tape, full, only(g).dtype, "mean_backward")])
    return out


def std(x: Tensor) -> Tensor:
    """Standard deviation over the last axis, kept with size one; saves x and its result."""
    tape = x.tape
    needs = tracked(x)
    saved = save(tape, x) if needs else []
    out = new(tape, (*x.shape[:-1], 1), x.dtype, "std")

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        """Through the variance: each element less the mean, times a factor for each row."""
        centered = like(saved[0], "std_backward")
        result = like(saved[0], "std_backward")
        del centered
        return [result]

    if needs:
        attach([out], [x], saved + save(tape, out), apply)
    return out


def repeat_first(x: Tensor, times: Axis) -> Tensor:
    """Repeat x along a new first axis: a copy; the gradient is summed."""
    out = new(x.tape, (times, *x.shape), x.dtype, "repeat")
    if tracked(x):
        attach([out], [x], [], lambda g, s: [g[0]])
    return out
