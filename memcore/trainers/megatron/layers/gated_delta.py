"""Gated delta nets (Qwen3-Next, Qwen3.5).

Sources: Megatron-LM, core/ssm/gated_delta_net/{common,gdn}.py (core/ssm/gated_delta_net.py in 0.16);
flash-linear-attention, fla/modules/conv/triton/ops.py (the convolution takes and keeps a view), fla/modules/l2norm.py.
Local variables live as long here as they do in `GatedDeltaNet.forward`. What `jit_fuser` compiles is one kernel.
"""

from __future__ import annotations

from collections.abc import Sequence

from memcore.layers.compiled import pointwise
from memcore.layers.transformers.recurrent.kernels_delta import chunk_gated_delta_rule
from memcore.networks.parts import SpecialMixer
from memcore.networks.weights import Norm
from memcore.symbols import Quotient, Shape, split_over
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import clone, contiguous, like, new, only, permute, view
from memcore.tensors.tensor import Parameter, Tensor
from memcore.trainers.megatron.layers.attention import LayerContext
from memcore.trainers.megatron.layers.fused import norm
from memcore.trainers.megatron.layers.linear import Weights, linear, norm_linear

_BLOCK = 64
"""Tokens that a program of the convolution's backward pass takes, each with its own sum for the kernel."""


def gated_delta(x: Tensor, part: SpecialMixer, before: Norm, weights: Weights, around: LayerContext) -> Tensor:
    """The result before its bias is added: projection, convolution, gated delta rule, gated norm and projection."""
    projection, output = part.linears
    axes = {each.name: each.axes[0] for each in part.parameters}
    channels, values = (axes[f"{part.module}.{name}"] for name in ("conv1d.weight", "dt_bias"))
    with x.tape.module(part.module):
        projected = permute(norm_linear(x, before, projection, weights, around.how), 1, 0, 2)
        qkv, gate, beta, alpha = _split(projected, (channels, (*values, "dv"), values, values))
        qkv = _convolved(qkv, weights[f"{part.module}.conv1d.weight"])
        keys: Shape = (split_over("A"), "dk")
        query, key, value = _normalized_heads(qkv, keys, (*values, "dv"), grouped="grouped" in part.options)
        g, beta, gate = _decay(alpha, weights, part), _compiled_copy(beta), clone(gate)
        core_attn_out = chunk_gated_delta_rule(query, key, value, g, beta, grouped=False, normalizes=False)
        y = norm(core_attn_out, Norm(f"{part.module}.out_norm", before.kind, ("dv",)), weights)
        norm_out = pointwise(y, gate)  # `y * act_fn(gate.float())`
        del y
        norm_out = contiguous(permute(norm_out, 1, 0, 2, 3))
        return linear(norm_out, output, weights, around.how, biased=False)


def _split(x: Tensor, widths: Sequence[Shape]) -> list[Tensor]:
    """`torch.split` of the last axis: views; their gradients are concatenated."""
    rows = x.shape[:2]
    outs = [view(x, (*rows, *width), cut=2) for width in widths]
    if tracked(x):
        tape, full, dtype = x.tape, x.shape, x.dtype
        attach(outs, [x], [], lambda g, s: [new(tape, full, dtype, "cat")])
    return outs


def _convolved(x: Tensor, weight: Parameter) -> Tensor:
    """`CausalConv1dFunction` with its activation; each program's sum for the kernel's gradient is a row of its own."""
    tape, (batch, length, _) = x.tape, x.shape
    out = new(tape, x.shape, x.dtype, "causal_convolution")
    if tracked(x, weight):

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            for_x = like(saved[0], "causal_convolution_backward")
            rows: Shape = (batch, Quotient((length,), _BLOCK))
            sums = new(tape, (*rows, *weight.shape), "fp32", "causal_convolution_backward")
            found = new(tape, weight.shape, weight.dtype, "sum")
            del sums
            return [for_x, found]

        attach([out], [x, weight], save(tape, x, weight), apply)
    return out


def _normalized_heads(qkv: Tensor, keys: Shape, values: Shape, *, grouped: bool) -> list[Tensor]:
    """Queries and keys of length one, repeated for each value head, and values: each in order."""
    both, value = _split(qkv, ((2, *keys), values))
    query_key = _l2norm(clone(both))
    halves = [view(query_key, (*query_key.shape[:2], *keys), cut=2) for _ in range(2)]
    if tracked(query_key):
        tape, full, dtype = qkv.tape, query_key.shape, qkv.dtype
        attach(halves, [query_key], [], lambda g, s: [new(tape, full, dtype, "cat")])
    query, key = (_repeated(each, (values[0], keys[1])) if grouped else clone(each) for each in halves)
    return [query, key, clone(value)]


def _l2norm(x: Tensor) -> Tensor:
    """`L2NormFunction`: keeps its result, and the reciprocal length of each row."""
    out = like(x, "delta_norm")
    statistics = new(x.tape, x.shape[:-1], "fp32", "norm_statistics")
    if tracked(x):
        attach([out], [x], save(x.tape, out, statistics), lambda g, s: [like(s[0], "delta_backward")])
    return out


def _repeated(x: Tensor, heads: Shape) -> Tensor:
    """`repeat_interleave` of heads: a copy, whose gradients are summed."""
    tape, shape = x.tape, x.shape
    out = new(tape, (*shape[:2], *heads), x.dtype, "repeat_interleave")
    if tracked(x):
        attach([out], [x], [], lambda g, s: [new(tape, shape, only(g).dtype, "sum")])
    return out


def _decay(alpha: Tensor, weights: Weights, part: SpecialMixer) -> Tensor:
    """`-A_log.exp() * softplus(alpha.float() + dt_bias)` in one kernel, in fp32."""
    rates, bias = (weights[f"{part.module}.{name}"] for name in ("A_log", "dt_bias"))
    inputs = [alpha, rates, bias]
    saved = save(alpha.tape, *inputs) if tracked(*inputs) else []
    out = new(alpha.tape, alpha.shape, "fp32", "fused_activation")
    if saved:
        attach([out], inputs, saved, lambda g, s: [new(each.tape, each.shape, each.dtype, "sum") for each in s])
    return out


def _compiled_copy(x: Tensor) -> Tensor:
    """`x.sigmoid().contiguous()` in one kernel, which keeps its result."""
    out = new(x.tape, x.shape, x.dtype, "fused_activation")
    if tracked(x):
        attach([out], [x], save(x.tape, out), lambda g, s: [like(s[0], "fused_activation_backward")])
    return out
