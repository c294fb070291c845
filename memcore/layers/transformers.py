"""The layers of Hugging Face transformers 5.23, line by line as in `models/*/modeling_*.py`.

Local variables live as long here as they do there: that decides what is in memory at a peak.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from memcore.eager.attention import Heads, choose_kernel, repeat_kv, sdpa
from memcore.eager.basics import cat, contiguous, narrow, permute, split, to, unmerged
from memcore.eager.operations import (
    ACTIVATIONS,
    add,
    add_scalar,
    dropout,
    layer_norm,
    linear,
    matmul,
    mean,
    mul,
    power,
    rsqrt,
    scale,
    softmax,
    tanh,
)
from memcore.eager.tape import Held
from memcore.eager.tensor import Parameter, Tensor
from memcore.model.network import Attention, FeedForward, Layer, Linear, Norm
from memcore.symbols import Axis, Rounded, Shifted, half

Weights = Mapping[str, Parameter]
"""Parameters by name."""


@dataclass(frozen=True, slots=True)
class Context:
    """What every layer is given besides its input."""

    positions: Tensor
    """Position ids, of which every layer only keeps the reference."""
    kernel: str
    """The attention kernel that was asked for: sdpa (PyTorch chooses), flash, efficient, cudnn or math."""
    rotary: tuple[Tensor, Tensor] | None
    """Cosines and sines."""
    mask: Tensor | None
    """The attention mask of this kind of layer."""
    cache: Held[list[Tensor]] | None
    """The KV cache that is filled although nobody reads it, if `use_cache` was left on."""


def norm(x: Tensor, weights: Weights, part: Norm) -> Tensor:
    """LayerNorm, or an RMSNorm spelled out in Python."""
    weight = weights[f"{part.name}.weight"]
    with x.tape.module(leaf(part.name)):
        if part.kind == "layer":
            return layer_norm(x, weight, weights.get(f"{part.name}.bias"))
        return _gemma_rms_norm(x, weight) if part.kind == "rms-offset" else _llama_rms_norm(x, weight)


def _llama_rms_norm(hidden_states: Tensor, weight: Parameter) -> Tensor:
    dtype = hidden_states.dtype
    hidden_states = to(hidden_states, "fp32")
    variance = mean(power(hidden_states))
    hidden_states = mul(hidden_states, rsqrt(add_scalar(variance)))
    return mul(weight, to(hidden_states, dtype))


def _gemma_rms_norm(x: Tensor, weight: Parameter) -> Tensor:
    output = _normalized(to(x, "fp32"))
    output = mul(output, add_scalar(to(weight, "fp32")))
    return to(output, x.dtype)


def _normalized(x: Tensor) -> Tensor:
    return mul(x, rsqrt(add_scalar(mean(power(x)))))


def project(x: Tensor, weights: Weights, part: Linear) -> Tensor:
    """A linear layer."""
    with x.tape.module(leaf(part.name)):
        bias = weights.get(f"{part.name}.bias")
        return linear(x, weights[f"{part.name}.weight"], bias, addmm=part.transposed)


def leaf(name: str) -> str:
    """The last part of a dotted name."""
    return name.rpartition(".")[2]


def attend(
    hidden_states: Tensor, weights: Weights, part: Attention, context: Context, drop: float = 0.0
) -> tuple[Tensor, Tensor | None]:
    """An attention module. Eager attention also returns its scores, which the layer holds until it ends."""
    with hidden_states.tape.module(part.module):
        query_states, key_states, value_states = _project_heads(hidden_states, weights, part)
        if context.rotary is not None:
            query_states, key_states, *_kept = _ROTATIONS[part.rotary](query_states, key_states, *context.rotary)
        if context.cache is not None:
            # DynamicCache.update: appended to empty tensors, both of the dtype of the keys.
            keys = cat([key_states], key_states.shape)
            values = cat([value_states], value_states.shape, empty=key_states.dtype)
            key_states, value_states = keys, values
            del keys, values
            context.cache.setdefault(hidden_states.tape.repeats, []).extend((key_states, value_states))
        interface = _eager_attention if context.kernel == "math" else _sdpa_attention
        attn_output, attn_weights = interface(query_states, key_states, value_states, part, context)
        attn_output = contiguous(attn_output)
        attn_output = project(attn_output, weights, part.output)
        attn_output = dropout(attn_output, drop)
        return attn_output, attn_weights


def heads_of(part: Attention) -> Heads:
    """The symbols of an attention layer."""
    grouped: tuple[Axis, Axis] = ("k", "g") if part.grouped else ("a", 1)
    return Heads("a", *grouped, "d", Rounded("d", 8) if part.unaligned_heads else "d")


def _project_heads(x: Tensor, weights: Weights, part: Attention) -> list[Tensor]:
    """Queries, keys and values as (b, heads, s, d)."""
    if len(part.inputs) == 3:
        norms = (part.query_norm, part.key_norm, None)
        return [_project_head(x, weights, *each) for each in zip(part.inputs, norms, strict=True)]
    fused = project(x, weights, part.inputs[0])
    batch, length = fused.shape[:2]
    if part.fused_per_head:
        return split(permute(fused, 0, 2, 1, 3, 4), (batch, "a", length, "d"), order=(0, 2, 1, 3))
    return [permute(unmerged(each, 2), 0, 2, 1, 3) for each in split(fused, (batch, length, "a", "d"))]


def _project_head(x: Tensor, weights: Weights, part: Linear, head_norm: Norm | None) -> Tensor:
    if head_norm is None:
        return permute(project(x, weights, part), 0, 2, 1, 3)
    return permute(norm(project(x, weights, part), weights, head_norm), 0, 2, 1, 3)


def _rotate(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
    q_embed = add(mul(q, cos), mul(_rotate_half(q), sin))
    k_embed = add(mul(k, cos), mul(_rotate_half(k), sin))
    return q_embed, k_embed


def _rotate_half(x: Tensor) -> Tensor:
    width = half(x.shape[3])
    x1 = narrow(x, 3, width)
    x2 = narrow(x, 3, width)
    return cat([scale(x2, "neg"), x1], x.shape)


_PASSED = Shifted("d", -1, "r")
"""Elements of a head that are not rotated."""


def _rotate_partly(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
    q_rot, q_pass = narrow(q, 3, "r"), narrow(q, 3, _PASSED)
    k_rot, k_pass = narrow(k, 3, "r"), narrow(k, 3, _PASSED)
    q_embed, k_embed = _rotate(q_rot, k_rot, cos, sin)
    q_embed = cat([q_embed, q_pass], q.shape)
    k_embed = cat([k_embed, k_pass], k.shape)
    return q_embed, k_embed


def _rotate_partly_kept(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
    """Phi does it inside its attention module, whose slices live until the module ends."""
    q_rot, q_pass = narrow(q, 3, "r"), narrow(q, 3, _PASSED)
    k_rot, k_pass = narrow(k, 3, "r"), narrow(k, 3, _PASSED)
    q_rot, k_rot = _rotate(q_rot, k_rot, cos, sin)
    return cat([q_rot, q_pass], q.shape), cat([k_rot, k_pass], k.shape), q_rot, k_rot, q_pass, k_pass


_ROTATIONS: Mapping[str, Callable[..., tuple[Tensor, ...]]] = {
    "full": _rotate,
    "partial": _rotate_partly,
    "partial-kept": _rotate_partly_kept,
}


def _sdpa_attention(
    query: Tensor, key: Tensor, value: Tensor, part: Attention, context: Context
) -> tuple[Tensor, Tensor | None]:
    """`sdpa_attention_forward`: grouped keys stay grouped only without a mask (integrations/sdpa_attention.py)."""
    heads, mask = heads_of(part), context.mask
    if mask is not None:
        key, value = repeat_kv(key, heads), repeat_kv(value, heads)
        heads = heads.repeated()
    kernel = context.kernel
    if kernel == "sdpa":
        kernel = choose_kernel(query, heads, masked=mask is not None)
    attn_output = sdpa(query, key, value, heads, kernel, mask)
    return permute(attn_output, 0, 2, 1, 3), None


def _eager_attention(
    query: Tensor, key: Tensor, value: Tensor, part: Attention, context: Context
) -> tuple[Tensor, Tensor | None]:
    """`eager_attention_forward`: all scores in memory."""
    heads, mask = heads_of(part), context.mask
    key_states, value_states = repeat_kv(key, heads), repeat_kv(value, heads)
    attn_weights = scale(matmul(query, permute(key_states, 0, 1, 3, 2)))
    if part.softcap:
        attn_weights = scale(attn_weights, "div")
        attn_weights = tanh(attn_weights)
        attn_weights = scale(attn_weights)
    if mask is not None:
        attn_weights = add(attn_weights, mask)
    if part.softmax_fp32:
        attn_weights = to(softmax(attn_weights, "fp32"), query.dtype)
    else:
        attn_weights = to(softmax(attn_weights), value.dtype)
    attn_weights = dropout(attn_weights, part.dropout)
    attn_output = matmul(attn_weights, value_states)
    attn_output = contiguous(permute(attn_output, 0, 2, 1, 3))
    return attn_output, attn_weights


def feed_forward(x: Tensor, weights: Weights, part: FeedForward) -> Tensor:
    """A dense feed-forward module."""
    with x.tape.module(part.module):
        if part.gate is not None:
            gate = ACTIVATIONS[part.activation]
            return project(mul(gate(project(x, weights, part.gate)), project(x, weights, part.up)), weights, part.down)
        hidden_states = project(x, weights, part.up)
        hidden_states = ACTIVATIONS[part.activation](hidden_states)
        return project(hidden_states, weights, part.down)


def decoder_layer(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    """A decoder layer, wired as its family does."""
    return _WIRING[layer.residual](hidden_states, weights, layer, context)


def _sequential(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[0])
    hidden_states, _scores = attend(hidden_states, weights, layer.attention, context)
    hidden_states = add(residual, hidden_states)
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[1])
    hidden_states = feed_forward(hidden_states, weights, layer.feed_forward)
    return add(residual, hidden_states)


def _sequential_kept(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[0])
    attn_output, _scores = attend(hidden_states, weights, layer.attention, context, layer.dropout)
    hidden_states = add(attn_output, residual)
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[1])
    feed_forward_hidden_states = dropout(feed_forward(hidden_states, weights, layer.feed_forward), layer.dropout)
    return add(residual, feed_forward_hidden_states)


def _sandwich(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[0])
    hidden_states, _scores = attend(hidden_states, weights, layer.attention, context)
    hidden_states = norm(hidden_states, weights, layer.norms[1])
    hidden_states = add(residual, hidden_states)
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[2])
    hidden_states = feed_forward(hidden_states, weights, layer.feed_forward)
    hidden_states = norm(hidden_states, weights, layer.norms[3])
    return add(residual, hidden_states)


def _parallel(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    attn_output, _scores = attend(norm(hidden_states, weights, layer.norms[0]), weights, layer.attention, context)
    attn_output = dropout(attn_output, layer.dropout)
    mlp_output = feed_forward(norm(hidden_states, weights, layer.norms[1]), weights, layer.feed_forward)
    mlp_output = dropout(mlp_output, layer.dropout)
    return add(add(mlp_output, attn_output), hidden_states)


def _parallel_shared(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[0])
    attn_outputs, _scores = attend(hidden_states, weights, layer.attention, context)
    attn_outputs = dropout(attn_outputs, layer.dropout)
    mlp_outputs = dropout(feed_forward(hidden_states, weights, layer.feed_forward), layer.dropout)
    return add(add(attn_outputs, mlp_outputs), residual)


_WIRING = {
    "sequential": _sequential,
    "sequential-kept": _sequential_kept,
    "sandwich": _sandwich,
    "parallel": _parallel,
    "parallel-shared": _parallel_shared,
}
