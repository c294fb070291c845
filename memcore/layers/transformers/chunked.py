"""Llama 4: chunked attention with complex rotations, and layers without positions. Source: `models/llama4`."""

from __future__ import annotations

from memcore.layers.transformers.attention import heads_of, interface, update_cache
from memcore.layers.transformers.context import Context, Weights, project
from memcore.layers.transformers.norms import norm
from memcore.networks.parts import Attention
from memcore.tensors.attention import repeat_kv
from memcore.tensors.basics import contiguous, like, new, permute, to
from memcore.tensors.complex import complex_product
from memcore.tensors.operations import add, dropout, matmul, mul, scale, softmax
from memcore.tensors.tensor import Tensor


def attend_llama4(
    hidden_states: Tensor, weights: Weights, part: Attention, context: Context, drop: float = 0.0
) -> tuple[Tensor, Tensor | None]:
    """Return an attention module. Heads come first only after rotation and norms."""
    with hidden_states.tape.module(part.module):
        query_states = project(hidden_states, weights, part.inputs[0])
        key_states = project(hidden_states, weights, part.inputs[1])
        value_states = permute(project(hidden_states, weights, part.inputs[2]), 0, 2, 1, 3)
        if part.rotary != "none" and context.rotary is not None:
            query_states, key_states = rotate_pairs(query_states, key_states, context.rotary[0])
        if part.query_norm is not None and part.key_norm is not None:
            query_states = norm(query_states, weights, part.query_norm)
            key_states = norm(key_states, weights, part.key_norm)
        if part.tuned:
            positions = like(new(hidden_states.tape, ("s",), "int64", "position_ids"), "position_ids")
            attn_scales = _temperatures(positions)
            query_states = to(mul(query_states, attn_scales), query_states.dtype)
        query_states = permute(query_states, 0, 2, 1, 3)
        key_states = permute(key_states, 0, 2, 1, 3)
        key_states, value_states = update_cache(key_states, value_states, context)
        attention = eager_uncast if context.kernel == "math" else interface
        attn_output, attn_weights = attention(query_states, key_states, value_states, part, context)
        attn_output = contiguous(attn_output)
        attn_output = project(attn_output, weights, part.output)
        return attn_output, attn_weights


def rotate_pairs(xq: Tensor, xk: Tensor, freqs_cis: Tensor) -> tuple[Tensor, Tensor]:
    """Pairs of neighbours as complex numbers, in fp32."""
    xq_, xk_ = to(xq, "fp32"), to(xk, "fp32")
    xq_out = complex_product(xq_, freqs_cis)
    xk_out = complex_product(xk_, freqs_cis)
    return to(xq_out, xq.dtype), to(xk_out, xk.dtype)


def _temperatures(positions: Tensor) -> Tensor:
    """log1p(floor((position + 1) / scale)) · scale + 1 for each token, in fp32."""
    scales = new(positions.tape, ("s", 1, 1), "fp32", "to")
    for rule in ("add", "div", "floor", "log", "mul", "add"):
        scales = like(scales, rule)
    return scales


def eager_uncast(
    query: Tensor, key: Tensor, value: Tensor, part: Attention, context: Context
) -> tuple[Tensor, Tensor | None]:
    """Attention weights are computed in the scores' dtype and not cast."""
    heads = heads_of(part)
    key_states, value_states = repeat_kv(key, heads), repeat_kv(value, heads)
    attn_weights = scale(matmul(query, permute(key_states, 0, 1, 3, 2)))
    if context.mask is not None:
        attn_weights = add(attn_weights, context.mask)
    attn_weights = softmax(attn_weights)
    attn_weights = dropout(attn_weights, part.dropout)
    attn_output = matmul(attn_weights, value_states)
    attn_output = contiguous(permute(attn_output, 0, 2, 1, 3))
    return attn_output, attn_weights
