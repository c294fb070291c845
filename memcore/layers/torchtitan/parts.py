"""The parts of torchtitan's layers that are the same in all its models: norms, rotations, dense layers.

Source: torchtitan/models/common (rope.py, feed_forward.py) and, until 2025, torchtitan/models/llama3/model.
"""

from __future__ import annotations

from functools import partial

from memcore.layers.compiled import gated, unread
from memcore.layers.tensor_parallel import normalized, prepared
from memcore.layers.transformers.context import Weights, leaf, project
from memcore.networks.parts import FeedForward
from memcore.networks.weights import Norm
from memcore.symbols import Axis, half
from memcore.tensors.autograd import Gradient, attach, tracked
from memcore.tensors.basics import cat, like, narrow, new, only, to
from memcore.tensors.operations import ACTIVATIONS, add, mean, mul, power, rms_norm, rsqrt, scale
from memcore.tensors.tensor import Parameter, Tensor


def norm(x: Tensor, weights: Weights, part: Norm, *, compiled: bool = False) -> Tensor:
    """`nn.RMSNorm`: one kernel, or composed: normalized and weighted in fp32, and cast at the end or in between."""
    with x.tape.module(leaf(part.name)):
        return normalized(partial(_rms_norm, compiled=compiled), x, weights, part)


def _rms_norm(x: Tensor, weights: Weights, part: Norm, *, compiled: bool) -> Tensor:
    weight: Parameter = weights[f"{part.name}.weight"]
    if part.fused or compiled:
        out = rms_norm(x, weight)
        out.fused = compiled
        return out
    upcast = to(x, "fp32")
    inverse = rsqrt(mean(power(upcast)))
    if part.casts_first:
        return mul(to(mul(upcast, inverse), x.dtype), weight)
    return to(mul(mul(upcast, inverse), weight), x.dtype)


def feed_forward(x: Tensor, weights: Weights, part: FeedForward, module: str, *, compiled: bool = False) -> Tensor:
    """`FeedForward.forward`."""
    with x.tape.module(module):
        act = ACTIVATIONS[part.activation]
        if part.gate is None:
            return project(act(project(x, weights, part.up)), weights, part.down)
        gate = part.gate
        if compiled:
            product = gated(project(x, weights, gate), project(x, weights, part.up))
            with unread(x.tape):
                return project(product, weights, part.down)
        return project(mul(act(project(x, weights, gate)), project(x, weights, part.up)), weights, part.down)


def dense(x: Tensor, weights: Weights, part: FeedForward, *, compiled: bool) -> Tensor:
    """Run the layer's only feed-forward network, under tensor parallelism with the input it needs."""
    with x.tape.module(part.module):
        given = prepared(x)
    return feed_forward(given, weights, part, part.module, compiled=compiled)


def rotate(x: Tensor, width: Axis = "d") -> Tensor:
    """Pairs of neighbours as complex numbers, in fp32."""
    upcast = to(x, "fp32")
    return to(_complex_product(upcast, width), x.dtype)


def _complex_product(x: Tensor, width: Axis) -> Tensor:
    """Return the input as complex numbers times the rotations; the backward pass conjugates the rotations first."""
    tape = x.tape
    out = like(x, "rotary")

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        conjugated = new(tape, ("s", width), "fp32", "rotary")
        result = like(only(gradients), "rotary_backward")
        del conjugated
        return [result]

    if tracked(x):
        attach([out], [x], [], apply)
    return out


def rotate_halves(x: Tensor) -> Tensor:
    """`CosSinRoPE.apply_rotary_emb` for one tensor: halves of a head, in fp32; its table is a buffer."""
    upcast = to(x, "fp32")
    table = Tensor(x.tape, None, (1, "s", 1, "d"), "fp32")
    return to(add(mul(upcast, table), mul(_half_rotated(upcast), table)), x.dtype)


def _half_rotated(x: Tensor) -> Tensor:
    last = len(x.shape) - 1
    width = half(x.shape[last])
    x1, x2 = narrow(x, last, width), narrow(x, last, width)
    return cat([scale(x2, "neg"), x1], x.shape)
