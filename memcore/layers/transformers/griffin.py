"""RecurrentGemma's attention: every module makes its own table of rotations. Source: `models/recurrent_gemma`."""

from __future__ import annotations

from memcore.layers.transformers.angles import cosines_and_sines
from memcore.layers.transformers.attention import interface, update_cache
from memcore.layers.transformers.context import Context, Weights, project
from memcore.layers.transformers.rotary import ROTATIONS
from memcore.networks.parts import Attention
from memcore.tensors.basics import contiguous, permute
from memcore.tensors.tensor import Tensor


def attend_griffin(
    hidden_states: Tensor, weights: Weights, part: Attention, context: Context, drop: float = 0.0
) -> tuple[Tensor, Tensor | None]:
    """Return an attention module."""
    with hidden_states.tape.module(part.module):
        query_states, key_states, value_states = (
            permute(project(hidden_states, weights, each), 0, 2, 1, 3) for each in part.inputs
        )
        cos, sin = cosines_and_sines(value_states.tape, value_states.dtype, part.heads.rotated)
        query_states, key_states, *_kept = ROTATIONS[part.rotary](query_states, key_states, cos, sin)
        key_states, value_states = update_cache(key_states, value_states, context)
        attn_output, attn_weights = interface(query_states, key_states, value_states, part, context)
        attn_output = contiguous(attn_output)
        attn_output = project(attn_output, weights, part.output)
        return attn_output, attn_weights
