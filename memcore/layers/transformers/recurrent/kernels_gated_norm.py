"""flash-linear-attention 0.6 (fla-org): `LayerNormGatedFunction` in fla/modules/norm/fused_norm_gate.py.

Sums of the weight's gradient, one row in fp32 for each multiprocessor (below 0.1 MB), are left out.
"""

from __future__ import annotations

from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import contiguous, like, new
from memcore.tensors.tensor import Parameter, Tensor


def gated_norm(x: Tensor, gate: Tensor, weight: Parameter) -> Tensor:
    """RMSNorm over (b, s, heads, width) and the gate in one kernel; saves both inputs and a statistic of each row."""
    tape, inputs = x.tape, [x, gate, weight]
    rows = contiguous(x.detach()), contiguous(gate.detach())
    out = like(rows[0], "gated_norm")
    statistics = new(tape, x.shape[:-1], "fp32", "norm_statistics")

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        found: list[Gradient] = [like(each, "gated_norm_backward") for each in saved[:2]]
        return [*found, new(tape, weight.shape, weight.dtype, "gated_norm_backward")]

    if tracked(*inputs):
        attach([out], inputs, save(tape, *rows, statistics), apply)
    return out
