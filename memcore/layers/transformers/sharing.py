"""Attention that may use the keys and values of an earlier layer (Gemma 3n and 4)."""

from __future__ import annotations

from memcore.layers.transformers.attention import interface, update_cache
from memcore.layers.transformers.context import Context, Weights, project
from memcore.layers.transformers.norms import norm
from memcore.layers.transformers.rotations import rotated
from memcore.networks.parts import Attention
from memcore.networks.weights import Norm
from memcore.tensors.basics import contiguous, permute, view
from memcore.tensors.tensor import Tensor


def attend_gemma(
    hidden_states: Tensor, weights: Weights, part: Attention, context: Context, drop: float = 0.0
) -> tuple[Tensor, Tensor | None]:
    """Queries, keys and values are normalized, and heads rotated before they are transposed."""
    with hidden_states.tape.module(part.module):
        query_states = project(hidden_states, weights, part.inputs[0])
        query_states = _normed(query_states, weights, part.query_norm)
        query_states = _rotated(query_states, context)
        if part.shares_cache:
            key_states, value_states = context.shared[part.mask]
        else:
            key_states, value_states = _keys_and_values(hidden_states, weights, part, context)
            key_states, value_states = update_cache(key_states, value_states, context)
        if part.stores_cache:
            context.shared[part.mask] = key_states, value_states
        attn_output, attn_weights = interface(query_states, key_states, value_states, part, context)
        attn_output = contiguous(attn_output)
        attn_output = project(attn_output, weights, part.output)
        return attn_output, attn_weights


def _keys_and_values(
    hidden_states: Tensor, weights: Weights, part: Attention, context: Context
) -> tuple[Tensor, Tensor]:
    """Gemma 4 projects both before it goes on, and values may be keys; Gemma 3n takes one after the other."""
    key_states, value_states = project(hidden_states, weights, part.inputs[1]), None
    if part.norm_place == "projected":
        value_states = project(hidden_states, weights, part.inputs[2]) if len(part.inputs) == 3 else key_states
    key_states = _normed(key_states, weights, part.key_norm)
    key_states = _rotated(key_states, context)
    if value_states is None:
        value_states = project(hidden_states, weights, part.inputs[2])
    value_states = _normed(value_states, weights, part.value_norm)
    return key_states, permute(value_states, 0, 2, 1, 3)


def _normed(x: Tensor, weights: Weights, part: Norm | None) -> Tensor:
    return x if part is None else norm(x, weights, part)


def _rotated(x: Tensor, context: Context) -> Tensor:
    """Heads as (b, s, heads, d), rotated and transposed."""
    if context.rotary is not None:
        cos, sin = (view(table, (table.shape[0], 1, table.shape[1])) for table in context.rotary)
        x = rotated(x, cos, sin)
    return permute(x, 0, 2, 1, 3)
