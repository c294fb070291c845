"""Gated attention: the query projection also yields a gate for the output (Qwen3-Next, Qwen3.5).

Source: `models/qwen3_next`; local variables live as long here as they do there.
"""

from __future__ import annotations

from memcore.layers.transformers.attention import interface, update_cache
from memcore.layers.transformers.context import Context, Weights, project
from memcore.layers.transformers.norms import norm
from memcore.layers.transformers.rotary import ROTATIONS
from memcore.networks.parts import Attention
from memcore.tensors.arithmetic import sigmoid
from memcore.tensors.basics import clone, contiguous, permute, split
from memcore.tensors.operations import mul
from memcore.tensors.tensor import Tensor


def attend_gated(
    hidden_states: Tensor, weights: Weights, part: Attention, context: Context, drop: float = 0.0
) -> tuple[Tensor, Tensor | None]:
    """Return an attention module."""
    if part.query_norm is None or part.key_norm is None or context.rotary is None:
        raise TypeError(part)
    with hidden_states.tape.module(part.module):
        query_states, gate = _chunk(project(hidden_states, weights, part.inputs[0]), part)
        gate = clone(gate)
        query_states = permute(norm(query_states, weights, part.query_norm), 0, 2, 1, 3)
        key_states = permute(norm(project(hidden_states, weights, part.inputs[1]), weights, part.key_norm), 0, 2, 1, 3)
        value_states = permute(project(hidden_states, weights, part.inputs[2]), 0, 2, 1, 3)
        query_states, key_states, *_kept = ROTATIONS[part.rotary](query_states, key_states, *context.rotary)
        key_states, value_states = update_cache(key_states, value_states, context)
        attn_output, attn_weights = interface(query_states, key_states, value_states, part, context)
        attn_output = contiguous(attn_output)
        attn_output = mul(attn_output, sigmoid(gate))
        attn_output = project(attn_output, weights, part.output)
        return attn_output, attn_weights


def _chunk(fused: Tensor, part: Attention) -> list[Tensor]:
    """Each head's query and gate lie one after the other."""
    return split(fused, (*fused.shape[:2], part.heads.query, part.heads.width), 2, cut=3)
