"""Attention of transformers over heads."""

from __future__ import annotations

from memcore.eager.attention import Heads, choose_kernel, repeat_kv, sdpa
from memcore.eager.basics import cat, contiguous, permute, split, to, unmerged
from memcore.eager.operations import add, dropout, matmul, scale, softmax, tanh
from memcore.eager.tensor import Tensor
from memcore.layers.transformers.context import Context, Weights, project
from memcore.layers.transformers.norms import norm
from memcore.layers.transformers.rotary import ROTATIONS
from memcore.model.parts import Attention, Linear, Norm
from memcore.symbols import Rounded


def attend(
    hidden_states: Tensor, weights: Weights, part: Attention, context: Context, drop: float = 0.0
) -> tuple[Tensor, Tensor | None]:
    """An attention module. Eager attention also returns its scores, which the layer holds until it ends."""
    with hidden_states.tape.module(part.module):
        query_states, key_states, value_states = _project_heads(hidden_states, weights, part)
        if context.rotary is not None:
            query_states, key_states, *_kept = ROTATIONS[part.rotary](query_states, key_states, *context.rotary)
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
    own = part.heads
    key, groups = (own.key, own.groups) if part.grouped else (own.query, 1)
    return Heads(own.query, key, groups, own.width, Rounded(own.width, 8) if own.unaligned else own.width)


def _project_heads(x: Tensor, weights: Weights, part: Attention) -> list[Tensor]:
    """Queries, keys and values as (b, heads, s, d)."""
    if len(part.inputs) == 3:
        norms = (part.query_norm, part.key_norm, None)
        return [_project_head(x, weights, *each) for each in zip(part.inputs, norms, strict=True)]
    fused = project(x, weights, part.inputs[0])
    batch, length = fused.shape[:2]
    if part.fused == "per-head":
        return split(permute(fused, 0, 2, 1, 3, 4), (batch, "a", length, "d"), order=(0, 2, 1, 3))
    return [permute(unmerged(each, 2), 0, 2, 1, 3) for each in split(fused, (batch, length, "a", "d"))]


def _project_head(x: Tensor, weights: Weights, part: Linear, head_norm: Norm | None) -> Tensor:
    if head_norm is None:
        return permute(project(x, weights, part), 0, 2, 1, 3)
    return permute(norm(project(x, weights, part), weights, head_norm), 0, 2, 1, 3)


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
