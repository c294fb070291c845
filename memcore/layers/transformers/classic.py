"""Attention of GPT-J and GPT-Neo: scores in fp32, and only spelled out in Python (`models/gptj`, `models/gpt_neo`).

Local variables live as long here as they do there.
"""

from __future__ import annotations

from memcore.layers.transformers.attention import update_cache
from memcore.layers.transformers.context import Context, Weights, project
from memcore.layers.transformers.rotations import parted, rotate_half
from memcore.networks.parts import Attention
from memcore.symbols import Axis, half
from memcore.tensors.basics import cat, contiguous, narrow, new, permute, to, unmerged
from memcore.tensors.operations import add, dropout, matmul, mul, scale, softmax
from memcore.tensors.pointwise import where
from memcore.tensors.tensor import Tensor


def attend_gptj(
    hidden_states: Tensor, weights: Weights, part: Attention, context: Context, drop: float = 0.0
) -> tuple[Tensor, Tensor | None]:
    """GPT-J: every layer takes its own sines and cosines from a table of its own."""
    with hidden_states.tape.module(part.module):
        query, key, value = [project(hidden_states, weights, each) for each in part.inputs]
        query, key, value = unmerged(query, 2), unmerged(key, 2), permute(unmerged(value, 2), 0, 2, 1, 3)
        sin, cos, *_tables = _sines(key, part.heads.rotated)
        k_rot, k_pass = parted(key, part.heads.rotated)
        q_rot, q_pass = parted(query, part.heads.rotated)
        k_rot = _rotate_every_two(k_rot, sin, cos)
        q_rot = _rotate_every_two(q_rot, sin, cos)
        key = cat([k_rot, k_pass], key.shape)
        query = cat([q_rot, q_pass], query.shape)
        key = permute(key, 0, 2, 1, 3)
        query = permute(query, 0, 2, 1, 3)
        key, value = update_cache(key, value, context)
        attn_output, attn_weights = _gptj_scores(query, key, value, part, context)
        attn_output = contiguous(permute(attn_output, 0, 2, 1, 3))
        attn_output = project(attn_output, weights, part.output)
        attn_output = dropout(attn_output, drop)
        return attn_output, attn_weights


def _sines(x: Tensor, width: Axis) -> list[Tensor]:
    """Sines and cosines of the positions, and the copies of table and positions that they come from."""
    tape = x.tape
    embed_positions = new(tape, ("P", width), "fp32", "rotary")
    repeated_position_ids = new(tape, ("s", width), "int64", "rotary")
    sincos = to(new(tape, ("s", width), "fp32", "rotary"), x.dtype)
    parts = [narrow(sincos, 1, half(width)) for _ in range(2)]
    return [*parts, embed_positions, repeated_position_ids]


def _rotate_every_two(x: Tensor, sin: Tensor, cos: Tensor) -> Tensor:
    sin = _repeat_interleave(sin, x.shape[-1])
    cos = _repeat_interleave(cos, x.shape[-1])
    return add(mul(x, cos), mul(rotate_half(x), sin))


def _repeat_interleave(x: Tensor, width: Axis) -> Tensor:
    """Each element of a table twice, next to an axis for heads."""
    return new(x.tape, ("s", 1, width), x.dtype, "rotary")


def _gptj_scores(query: Tensor, key: Tensor, value: Tensor, part: Attention, context: Context) -> tuple[Tensor, Tensor]:
    query = to(query, "fp32")
    key = to(key, "fp32")
    attn_weights = matmul(query, permute(key, 0, 1, 3, 2))
    attn_weights = scale(attn_weights, "div")
    if context.mask is not None:
        attn_weights = add(attn_weights, context.mask)
    attn_weights = softmax(attn_weights)
    attn_weights = to(attn_weights, value.dtype)
    attn_weights = dropout(attn_weights, part.dropout)
    return matmul(attn_weights, value), attn_weights


def attend_gpt_neo(
    hidden_states: Tensor, weights: Weights, part: Attention, context: Context, drop: float = 0.0
) -> tuple[Tensor, Tensor | None]:
    """GPT-Neo: a causal mask of its own, and the model's on top of it."""
    with hidden_states.tape.module(part.module):
        query, key, value = [project(hidden_states, weights, each) for each in part.inputs]
        query, key, value = [permute(unmerged(each, 2), 0, 2, 1, 3) for each in (query, key, value)]
        key, value = update_cache(key, value, context)
        attn_output, attn_weights = _gpt_neo_scores(query, key, value, part, context)
        attn_output = contiguous(permute(attn_output, 0, 2, 1, 3))
        attn_output = project(attn_output, weights, part.output)
        attn_output = dropout(attn_output, drop)
        return attn_output, attn_weights


def _gpt_neo_scores(
    query: Tensor, key: Tensor, value: Tensor, part: Attention, context: Context
) -> tuple[Tensor, Tensor]:
    tape = query.tape
    query = to(query, "fp32")
    key = to(key, "fp32")
    attn_weights = matmul(query, permute(key, 0, 1, 3, 2))
    # The mask is a slice of a buffer, which the model accounts for.
    causal_mask = Tensor(tape, None, (1, 1, "s", "s"), "bool")
    mask_value = new(tape, (), attn_weights.dtype, "attention_mask")
    attn_weights = where(causal_mask, attn_weights, mask_value)
    if context.mask is not None:
        attn_weights = add(attn_weights, context.mask)
    attn_weights = softmax(attn_weights)
    attn_weights = to(attn_weights, value.dtype)
    attn_weights = dropout(attn_weights, part.dropout)
    return matmul(attn_weights, value), attn_weights
