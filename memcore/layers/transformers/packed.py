"""Attention of Qwen-VL's towers (modeling_qwen2_vl.py, VisionAttention): images lie one after the other in one row.

Flash attention sees them at once; other implementations run for each image, or each window of it, on its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from memcore.layers.transformers.attention import interface
from memcore.layers.transformers.context import Context, Weights, project
from memcore.layers.transformers.rotations import rotate_half
from memcore.networks.parts import Attention
from memcore.symbols import Axis
from memcore.tensors.basics import permute, to
from memcore.tensors.images import joined, unbound
from memcore.tensors.loops import iterations, returns
from memcore.tensors.operations import add, mul
from memcore.tensors.slices import reshape, split_sizes, unsqueeze
from memcore.tensors.tensor import Tensor

Piece = tuple[Axis, Axis, int]
"""The length of what is attended to on its own, how many there are, and how many of them are recorded."""


def packed_attention(
    hidden_states: Tensor, weights: Weights, part: Attention, context: Context, drop: float = 0.0
) -> tuple[Tensor, Tensor | None]:
    """`VisionAttention.forward`."""
    with hidden_states.tape.module(part.module):
        query_states, key_states, value_states = unbound(project(hidden_states, weights, part.inputs[0]), 1)
        if context.rotary is not None:
            query_states, key_states = _rotate(query_states, key_states, *context.rotary)
        query_states, key_states, value_states = (
            unsqueeze(permute(each, 1, 0, 2), 0) for each in (query_states, key_states, value_states)
        )
        if context.kernel == "flash":
            attn_outputs = [interface(query_states, key_states, value_states, part, context)[0]]
            attn_output = attn_outputs[0]
        else:
            attn_outputs = _each(query_states, key_states, value_states, part, context)
            attn_output = joined(attn_outputs, (1, query_states.shape[2], *attn_outputs[0].shape[2:]), 1)
        attn_output = reshape(attn_output, hidden_states.shape[:1] + attn_output.shape[2:])
        return project(attn_output, weights, part.output), None


def _rotate(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """`apply_rotary_pos_emb_vision`, computed in fp32."""
    dtype = q.dtype
    q, k = to(q, "fp32"), to(k, "fp32")
    cos, sin = to(unsqueeze(cos, 1), "fp32"), to(unsqueeze(sin, 1), "fp32")
    q_embed = add(mul(q, cos), mul(rotate_half(q), sin))
    k_embed = add(mul(k, cos), mul(rotate_half(k), sin))
    q_embed = to(q_embed, dtype)
    k_embed = to(k_embed, dtype)
    return q_embed, k_embed


def _each(query: Tensor, key: Tensor, value: Tensor, part: Attention, context: Context) -> list[Tensor]:
    """Return what comes of each piece; the module holds it until it ends."""
    pieces = list(_recorded(context, part.mask))
    lengths = [length for length, _, recorded in pieces for _ in range(recorded)]
    splits = [split_sizes(each, 2, lengths) for each in (query, key, value)]
    attn_outputs: list[Tensor] = []
    for _, trips, recorded in pieces:
        for index in iterations(query.tape, trips, recorded):
            own = [each[len(attn_outputs)] for each in splits]
            attn_outputs.append(interface(own[0], own[1], own[2], part, context)[0])
            del own
            returns(attn_outputs[-1], index, trips, recorded)
    return attn_outputs


def _recorded(context: Context, mask: str) -> Iterator[Piece]:
    pictures = context.pictures
    if pictures is None:
        raise TypeError(context)
    if mask == "full":
        yield "np", "bt", pictures.count
        return
    if pictures.windows:
        yield "pw", "tw", pictures.windows
    if pictures.cut:
        yield "pe", "te", pictures.cut
    if pictures.cut or not pictures.windows:  # an image smaller than a window is one cut at both edges
        yield "pc", "bt", pictures.count
