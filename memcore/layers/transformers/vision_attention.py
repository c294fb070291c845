"""Attention that only models with images have: Llama 4's tower (modeling_llama4.py), Mllama's layers for images."""

from __future__ import annotations

from dataclasses import replace

from memcore.layers.transformers.attention import interface
from memcore.layers.transformers.chunked import eager_uncast, rotate_pairs
from memcore.layers.transformers.context import Context, Weights, project
from memcore.layers.transformers.norms import norm
from memcore.networks.parts import Attention
from memcore.tensors.basics import contiguous, permute, unmerged
from memcore.tensors.tensor import Tensor


def attend_llama4_vision(
    hidden_states: Tensor, weights: Weights, part: Attention, context: Context, drop: float = 0.0
) -> tuple[Tensor, Tensor | None]:
    """`Llama4VisionAttention.forward`."""
    with hidden_states.tape.module(part.module):
        query_states, key_states, value_states = (project(hidden_states, weights, each) for each in part.inputs)
        if context.rotary is not None:
            query_states, key_states = rotate_pairs(query_states, key_states, context.rotary[0])
        query_states = permute(query_states, 0, 2, 1, 3)
        key_states = permute(key_states, 0, 2, 1, 3)
        value_states = permute(value_states, 0, 2, 1, 3)
        attention = eager_uncast if context.kernel == "math" else interface
        attn_output, attn_weights = attention(query_states, key_states, value_states, part, context)
        attn_output = contiguous(attn_output)
        return project(attn_output, weights, part.output), attn_weights


def attend_across(
    hidden_states: Tensor, weights: Weights, part: Attention, context: Context, drop: float = 0.0
) -> tuple[Tensor, Tensor | None]:
    """`MllamaTextCrossAttention.forward`: keys and values are of images."""
    if context.seen is None or part.query_norm is None or part.key_norm is None:
        raise TypeError(part)
    with hidden_states.tape.module(part.module):
        query_states = permute(project(hidden_states, weights, part.inputs[0]), 0, 2, 1, 3)
        query_states = norm(query_states, weights, part.query_norm)
        key_states = project(context.seen, weights, part.inputs[1])
        value_states = project(context.seen, weights, part.inputs[2])
        key_states, value_states = (permute(unmerged(each, 2), 0, 2, 1, 3) for each in (key_states, value_states))
        key_states = norm(key_states, weights, part.key_norm)
        given = replace(context, mask=context.seen_mask)
        attn_output, attn_weights = interface(query_states, key_states, value_states, part, given)
        attn_output = contiguous(attn_output)
        return project(attn_output, weights, part.output), attn_weights
