"""gpt-oss's experts as torchtitan and NeMo Automodel have them: with biases, gate and up in every other column.

Sources: torchtitan/models/gpt_oss/moe.py (August 2026), and nemo_automodel/components/moe/experts.py
(`GroupedExpertsDeepEP.forward`, `_apply_bias`, and `quick_geglu_deepep`, which is compiled). Local variables live as
long here as they do there.
"""

from __future__ import annotations

from memcore.layers.transformers.context import Weights
from memcore.layers.transformers.sinks import compiled_gate
from memcore.networks.parts import Experts
from memcore.networks.weights import Weight
from memcore.symbols import Shape
from memcore.tensors.arithmetic import sigmoid
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import cat, like, new, only, view
from memcore.tensors.grouped import grouped_mm
from memcore.tensors.operations import add, mul, scale
from memcore.tensors.running import clamp
from memcore.tensors.tensor import Tensor


def interleaved_experts(x: Tensor, factor: Tensor | None, weights: Weights, part: Experts, *, compiled: bool) -> Tensor:
    """`GptOssGroupedExperts.forward`: biases are repeated for every row, and stay until it returns.

    `factor`: scores of rows, which the activation multiplies by.
    """
    tape, (first, first_bias, second, second_bias) = x.tape, part.experts
    with tape.module("experts"):
        many = first.axes[0]
        offsets = new(tape, many, "int32", "cumsum")
        counts = new(tape, many, "int64", "to")
        h = grouped_mm(x, weights[first.name], offsets, first.axes[1])
        b1 = _repeated(weights, first_bias, x.shape, counts)
        h = add(h, b1)
        if compiled or factor is not None:
            product = compiled_gate(h, second.axes[2], factor)
        else:
            product = _gate(h, second.axes[2])
        out = grouped_mm(product, weights[second.name], offsets, second.axes[1])
        b2 = _repeated(weights, second_bias, x.shape, counts)
        result = add(out, b2)
        del h, b1, product, out, b2
        return result


def _repeated(weights: Weights, bias: Weight, rows: Shape, counts: Tensor) -> Tensor:
    """Return a row of the biases, and one of zeros for rows that stand for no token, for each row of the input."""
    tape, parameter = counts.tape, weights[bias.name]
    table = cat([parameter, new(tape, (1, *bias.axes[1]), parameter.dtype, "zeros")], parameter.shape)
    indices = new(tape, rows[:-1], "int64", "repeat_interleave")
    saved = save(tape, indices) if tracked(table) else []
    out = new(tape, (*rows[:-1], *bias.axes[1]), parameter.dtype, "index_select")
    full = table.shape
    if saved:
        attach([out], [table], saved, lambda g, s: [new(tape, full, only(g).dtype, "index_backward")])
    return out


def _gate(h: Tensor, inner: Shape) -> Tensor:
    """`swiglu`, operation by operation: gate and up are every other column."""
    glu, linear = _every_other(h, inner), _every_other(h, inner)
    glu, linear = clamp(glu, bounds=1), clamp(linear)
    out_glu = mul(glu, sigmoid(scale(glu)))
    return _addcmul(out_glu, linear)


def _every_other(x: Tensor, inner: Shape) -> Tensor:
    tape, full = x.tape, x.shape
    shape = (*full[: len(full) - 1 - len(inner)], *inner)
    out = view(x, shape, cut=len(shape) - 1)
    if tracked(x):
        attach([out], [x], [], lambda g, s: [new(tape, full, only(g).dtype, "slice_backward")])
    return out


def _addcmul(x: Tensor, y: Tensor) -> Tensor:
    """`torch.addcmul(x, x, y)`: keeps both; each gradient is made of a scaled copy of the other."""
    saved = save(x.tape, x, y) if tracked(x, y) else []
    out = like(x, "addcmul")

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        found = []
        for other in reversed(saved):
            scaled = like(other, "mul")
            found.append(like(only(gradients), "mul_backward"))
            del scaled
        return [gradients[0], *found]

    if saved:
        attach([out], [x, x, y], saved, apply)
    return out
