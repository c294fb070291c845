"""Liger's kernels: norms, gated activations and rotations that keep less, and work in place.

Source: liger_kernel/ops/rms_norm.py (`LigerRMSNormFunction`: keeps the input and a statistic of each row; the gradient
of the input takes the place of the result's), swiglu.py (`LigerSiLUMulFunction`: keeps gate and up projection, whose
gradients take their places) and rope.py (`LigerRopeFunction`: queries and keys are rotated where they lie).
"""

from __future__ import annotations

from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import like, new, only, view
from memcore.tensors.tensor import Parameter, Tensor


def rms_norm(x: Tensor, weight: Parameter) -> Tensor:
    """RMSNorm in one kernel."""
    tape = x.tape
    out = like(x, "liger_rms_norm")
    statistics = new(tape, (*x.shape[:-1], 1), "fp32", "norm_statistics")
    learns = tracked(weight)
    if tracked(x, weight):

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            gradient = only(gradients)
            for_weight = new(tape, weight.shape, weight.dtype, "liger_rms_norm_backward") if learns else None
            return [view(gradient, gradient.shape, gradient.order), for_weight]

        attach([out], [x, weight], save(tape, x, weight, statistics), apply)
    return out


def gated(gate: Tensor, up: Tensor) -> Tensor:
    """act(gate) · up in one kernel."""
    saved = save(gate.tape, gate, up) if tracked(gate, up) else []
    out = like(gate, "liger_gate")
    if saved:
        attach([out], [gate, up], saved, lambda g, s: [view(each, each.shape, each.order) for each in s])
    return out


def rotated(x: Tensor) -> Tensor:
    """Queries or keys, rotated where they lie, and so are their gradients."""
    out = view(x, x.shape, x.order)
    if tracked(x):
        attach([out], [x], [], lambda g, s: [g[0]])
    return out
