"""Self-attention: queries, keys and values out of one matrix, their norms and rotations, the core, and the projection.

Source: Megatron-LM, core/transformer/attention.py and core/models/common/embeddings/rope_utils.py;
TransformerEngine, transformer_engine/pytorch/attention/{rope.py,dot_product_attention/utils.py}.
"""

from __future__ import annotations

from memcore.layers.compiled import pointwise
from memcore.networks.parts import Attention, LatentAttention
from memcore.networks.weights import Linear, Norm
from memcore.records import dataclass
from memcore.symbols import Axis, Rounded, Shape, half
from memcore.tensors.arithmetic import divide
from memcore.tensors.attention import Heads
from memcore.tensors.autograd import Gradient, attach, tracked
from memcore.tensors.basics import cat, clone, contiguous, like, new, only, to, view
from memcore.tensors.operations import add, add_scalar, mean, mul, power, sqrt
from memcore.tensors.tensor import Parameter, Tensor
from memcore.trainers.megatron.layers.core_attention import KERNELS, Core, exchanged, local
from memcore.trainers.megatron.layers.fused import norm
from memcore.trainers.megatron.layers.linear import Weights, linear, local_linear, local_row_linear, norm_linear
from memcore.trainers.megatron.layers.offloading import Groups, opened
from memcore.trainers.megatron.layers.recompute import recomputes, run_again
from memcore.trainers.megatron.step_plan import MegatronPlan


@dataclass(frozen=True, slots=True)
class LayerContext:
    """What every layer is given besides its input."""

    how: MegatronPlan
    kernel: str
    """A value of `training.attention`."""
    local: bool
    """Megatron-Core's own modules instead of TransformerEngine's."""
    mask: Tensor | None
    """Of all pairs of tokens."""
    offloads: Groups | None = None
    """What goes to the host."""


def attention(
    x: Tensor, part: Attention, before: Norm, weights: Weights, around: LayerContext, angles: Tensor | None = None
) -> tuple[Tensor, Parameter | None]:
    """The result before its bias is added, and the bias; `angles`: (s, b, 1, d), where micro-batches have their own."""
    how = around.how
    with x.tape.module(part.module):
        inputs = opened(around.offloads, "qkv_linear")
        x = inputs.start(x)
        with inputs:
            query, key, value, *gate = _heads(x, part, before, weights, around)
        inputs.commit()
        packed = not part.grouped and part.query_norm is None and part.rotary == "none"
        if part.rotary != "none":
            turned = part.heads.rotated
            query, key = (rotated(each, turned, how, angles) for each in (query, key))
        out = core(query, key, value, part, around, packed=packed)
        del query, key, value
        out = pointwise(out, gate.pop()) if gate else out  # `_apply_output_gate`, compiled
        return projected(out, part.output, weights, around), weights.get(f"{part.output.name}.bias")


def projected(x: Tensor, part: Linear, weights: Weights, around: LayerContext) -> Tensor:
    """Return the product with a layer's last matrix; its bias is added later."""
    group = opened(around.offloads, "attn_proj")
    x = group.start(x)
    with group:
        out = (local_row_linear if around.local else linear)(x, part, weights, around.how, biased=False)
    group.commit(x)
    return out


def _heads(x: Tensor, part: Attention, before: Norm, weights: Weights, around: LayerContext) -> list[Tensor]:
    """`get_query_key_value_tensors`: behind their norms, not yet turned; and the gates, where there are some."""
    if around.local:
        mixed = local_linear(norm(x, before, weights), part.inputs[0], weights, around.how)
    else:
        mixed = norm_linear(x, before, part.inputs[0], weights, around.how)
    query, key, value, *gate = heads_split(mixed, part)
    del mixed
    if part.query_norm is not None and part.key_norm is not None:
        query, key = norm(query, part.query_norm, weights), norm(key, part.key_norm, weights)
    value = value if part.value_norm is None else _value_norm(value)
    return [query, key, value, *map(clone, gate)]


def _value_norm(value: Tensor) -> Tensor:
    """Megatron-Bridge, models/gemma/modeling_gemma4.py (`Gemma4SelfAttention.get_query_key_value_tensors`)."""
    v_float = to(value, "fp32")
    rms = sqrt(add_scalar(mean(power(v_float))))
    return to(divide(v_float, rms), value.dtype)


def cross_attention(
    x: Tensor, seen: Tensor, part: Attention, before: Norm, weights: Weights, around: LayerContext
) -> tuple[Tensor, Parameter | None]:
    """Keys and values of the encoder's result; the norm before it is a module of its own."""
    how, run = around.how, local_linear if around.local else linear
    with x.tape.module(part.module):
        x = norm(x, before, weights)
        key, value = _halves(run(seen, part.inputs[1], weights, how), part)
        query = run(x, part.inputs[0], weights, how)
        out = core(query, key, value, part, around, packed=False)
        del query, key, value
        finish = local_row_linear if around.local else linear
        return finish(out, part.output, weights, how, biased=False), weights.get(f"{part.output.name}.bias")


def _halves(mixed: Tensor, part: Attention) -> list[Tensor]:
    """Keys and values side by side in each head."""
    shape = (*mixed.shape[:2], part.heads.key, part.heads.width)
    outs = [view(mixed, shape, cut=3) for _ in range(2)]
    if tracked(mixed):
        tape, full, dtype = mixed.tape, mixed.shape, mixed.dtype
        attach(outs, [mixed], [], lambda g, s: [new(tape, full, dtype, "cat")])
    return outs


def core(
    query: Tensor, key: Tensor, value: Tensor, part: Attention | LatentAttention, around: LayerContext, *, packed: bool
) -> Tensor:
    """Attention's core; TransformerEngine takes parts of one tensor as they lie, and copies anything else in order."""
    heads = heads_of(part)
    given = Core(around.how, heads, part.dropout, around.mask, packed)
    with query.tape.module("core_attention"):
        if not around.local and not packed:
            query, key, value = (contiguous(each) for each in (query, key, value))
        kernel = local if around.local else KERNELS["math" if heads.wide else _kernel(part, around)]

        def run(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            found = kernel(query, key, value, given)
            return exchanged(found) if around.how.context == "a2a" and around.how.keeps_exchanged else found

        if recomputes(around.how, "core_attn"):
            return run_again(run, query, key, value)
        group = opened(around.offloads, "core_attn")
        query = group.start(query)
        with group:
            out = run(query, key, value)
        group.commit(query, key, value)
        return out


def _kernel(part: Attention | LatentAttention, around: LayerContext) -> str:
    """cuDNN's in place of flash-attn next to sinks (TransformerEngine, `get_attention_backend`: softmax_type)."""
    sinks = isinstance(part, Attention) and part.sinks is not None
    return "cudnn" if sinks and around.kernel == "flash" else around.kernel


def heads_of(part: Attention | LatentAttention) -> Heads:
    """Return the symbols of an attention layer as its kernels see them."""
    own = part.heads
    key, groups = (own.key, own.groups) if part.grouped else (own.query, 1)
    padded: Axis = Rounded(own.width, 8) if own.unaligned else own.width
    wide = isinstance(part, Attention) and own.wide
    return Heads(own.query, key, groups, own.width, padded, wide)


def heads_split(mixed: Tensor, part: Attention) -> list[Tensor]:
    """Views of queries, keys, values and gates of each group; grouped queries are copied, so that heads follow."""
    heads, rows = part.heads, mixed.shape[:2]
    shapes = [(*rows, heads.query, heads.width), *[(*rows, heads.key, heads.width)] * 2]
    shapes += [shapes[0]] if part.gated else []
    outs = [view(mixed, shape, cut=3) for shape in shapes]
    if tracked(mixed):
        tape, full, dtype = mixed.tape, mixed.shape, mixed.dtype

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            first, *others = gradients
            one = first is not None and all(each is not None and each.storage is first.storage for each in others)
            if one and first is not None and first.storage is not None:
                return [view(first, full)]  # SplitAlongDim: gradients that lie as their parts lay need no copy
            return [new(tape, full, dtype, "cat")]

        attach(outs, [mixed], [], apply)
    return [clone(outs[0]), *outs[1:]] if part.grouped else outs


def rotated(x: Tensor, width: Axis, how: MegatronPlan, angles: Tensor | None = None) -> Tensor:
    """`apply_rotary_pos_emb`: one kernel, or spelled out with cosines and sines in the heads' dtype.

    Angles of a micro-batch's own are never given to the kernel (Megatron-Bridge, gpt_provider.py,
    `validate_rope_fusion_compatibility`; ms-swift, megatron/model/utils.py).
    """
    if how.rope_fusion and angles is None:
        out = new(x.tape, x.shape, x.dtype, "rotary")
        if tracked(x):
            shape = x.shape
            attach([out], [x], [], lambda g, s: [new(only(g).tape, shape, only(g).dtype, "rotary_backward")])
        return out
    turned, passed = _parts(x, width)
    if angles is None:
        cosines, sines = (new(x.tape, (x.shape[0], 1, 1, width), x.dtype, "rotary") for _ in range(2))
    else:
        cosines, sines = (_of_angles(angles, x.dtype) for _ in range(2))
    out = add(mul(turned, cosines), mul(rotated_half(turned), sines))
    return cat([out, passed], x.shape)


def _of_angles(angles: Tensor, dtype: str) -> Tensor:
    """`(torch.cos(freqs) * mscale).to(t.dtype)`."""
    return to(like(like(angles, "rotary"), "rotary"), dtype)


def _parts(x: Tensor, width: Axis) -> tuple[Tensor, Tensor]:
    """Return what is turned and what is not, two slices."""
    rest: Shape = (*x.shape[:-1], 0) if width == x.shape[-1] else x.shape
    return _slice(x, (*x.shape[:-1], width)), _slice(x, rest)


def _slice(x: Tensor, shape: Shape) -> Tensor:
    """Some elements of each head; the gradient is written into zeros of the full size."""
    part = view(x, shape, x.order, cut=len(shape) - 1)
    if tracked(x):
        tape, full = x.tape, x.shape
        attach([part], [x], [], lambda g, s: [new(tape, full, only(g).dtype, "slice_backward")])
    return part


def rotated_half(x: Tensor) -> Tensor:
    """`torch.cat((-x2, x1), -1)` of `torch.chunk(x, 2, -1)`."""
    shape = (*x.shape[:-1], half(x.shape[-1]))
    first, second = (view(x, shape, x.order, cut=len(shape) - 1) for _ in range(2))
    if tracked(x):
        tape, full, dtype = x.tape, x.shape, x.dtype
        attach([first, second], [x], [], lambda g, s: [new(tape, full, dtype, "cat")])
    negated = like(second, "neg")
    if tracked(second):
        attach([negated], [second], [], lambda g, s: [like(only(g), "neg_backward")])
    return cat([negated, first], x.shape)
