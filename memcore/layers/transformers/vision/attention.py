"""Attention modules of towers that differ from attention over heads: Llama 4's (modeling_llama4.py)."""

from __future__ import annotations

from memcore.eager.basics import contiguous, permute, to
from memcore.eager.complex import complex_product
from memcore.eager.tensor import Tensor
from memcore.layers.transformers.attention import interface
from memcore.layers.transformers.chunked import eager_uncast
from memcore.layers.transformers.context import Context, Weights, project
from memcore.model.parts import Attention


def attend_llama4_vision(
    hidden_states: Tensor, weights: Weights, part: Attention, context: Context, drop: float = 0.0
) -> tuple[Tensor, Tensor | None]:
    """`Llama4VisionAttention.forward`."""
    with hidden_states.tape.module(part.module):
        query_states, key_states, value_states = (project(hidden_states, weights, each) for each in part.inputs)
        if context.rotary is not None:
            query_states, key_states = _rotate(query_states, key_states, context.rotary[0])
        query_states = permute(query_states, 0, 2, 1, 3)
        key_states = permute(key_states, 0, 2, 1, 3)
        value_states = permute(value_states, 0, 2, 1, 3)
        attention = eager_uncast if context.kernel == "math" else interface
        attn_output, attn_weights = attention(query_states, key_states, value_states, part, context)
        attn_output = contiguous(attn_output)
        return project(attn_output, weights, part.output), attn_weights


def _rotate(query: Tensor, key: Tensor, freqs_ci: Tensor) -> tuple[Tensor, Tensor]:
    """`vision_apply_rotary_emb`."""
    query_, key_ = to(query, "fp32"), to(key, "fp32")
    query_out = complex_product(query_, freqs_ci)
    key_out = complex_product(key_, freqs_ci)
    return to(query_out, query.dtype), to(key_out, key.dtype)
