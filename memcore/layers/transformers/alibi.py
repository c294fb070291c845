"""Scores biased by distance (ALiBi): how the biases are built, and the attention modules that take them.

Sources: `models/bloom`, `models/falcon` and `models/mpt`. Local variables live as long here as they do there.
"""

from __future__ import annotations

from memcore.layers.transformers.attention import update_cache
from memcore.layers.transformers.context import Context, Weights, project
from memcore.layers.transformers.heads import LAYOUTS
from memcore.networks.parts import Attention
from memcore.tensors.basics import contiguous, like, narrow, new, permute, to
from memcore.tensors.contractions import baddbmm
from memcore.tensors.operations import add, dropout, matmul, scale, softmax
from memcore.tensors.reshaping import select
from memcore.tensors.running import clamp, masked_fill
from memcore.tensors.tensor import Tensor
from memcore.trace.step import Batch, Step

_RULE = "alibi"


def _slopes(step: Step) -> Tensor:
    """Return a power for each head; head counts that are no powers of two take more steps of this small size."""
    base = new(step.tape, (), "fp32", _RULE)
    powers = new(step.tape, ("a",), "int64", _RULE)
    slopes = new(step.tape, ("a",), "fp32", _RULE)
    del base, powers
    return slopes


def _counted(mask: Tensor) -> Tensor:
    """`(mask.cumsum(-1) - 1) * mask`."""
    return like(like(like(mask, _RULE), _RULE), _RULE)


def bloom_alibi(step: Step, batch: Batch, dtype: str) -> tuple[Tensor, ...]:
    """Return a bias for each sequence, head and key, and the slopes, which the model holds where there is no mask."""
    tape, slopes = step.tape, _slopes(step)
    if batch.mask is not None:
        arange_tensor = _counted(batch.mask)
        alibi = new(tape, ("b", "a", 1, "s"), "fp32", _RULE)
        alibi = to(alibi, dtype)
        del arange_tensor
        return (alibi,)
    alibi = _product(slopes)
    repeated = new(tape, ("b", "a", 1, "s"), "fp32", _RULE)
    repeated = to(repeated, dtype)
    del alibi
    return repeated, slopes


def _product(slopes: Tensor) -> Tensor:
    distances = new(slopes.tape, ("s",), "int64", _RULE)
    alibi = new(slopes.tape, ("a", 1, "s"), "fp32", _RULE)
    del distances
    return alibi


def falcon_alibi(step: Step, batch: Batch, dtype: str) -> tuple[Tensor, Tensor]:
    """Return a bias for each sequence, head and key, in bf16 first, and the mask along which distances are counted."""
    tape = step.tape
    mask = new(tape, ("b", "s"), "int64", _RULE) if batch.mask is None else batch.mask
    slopes = _slopes(step)
    arange_tensor = _counted(mask)
    halved = to(slopes, "bf16")
    alibi = new(tape, ("b", "a", 1, "s"), "bf16", _RULE)
    del halved
    alibi = to(alibi, dtype)
    del slopes, arange_tensor
    return alibi, mask


def falcon_mask(masks: dict[str, Tensor | None], alibi: Tensor) -> Tensor | None:
    """Return the mask with the bias in it; the one that it was made of goes."""
    mask = masks.pop("full")
    if mask is None:
        return None
    tape = mask.tape
    if mask.dtype == "bool":
        zero = new(tape, (), alibi.dtype, "zeros")
        mask = new(tape, mask.shape, alibi.dtype, "where")
        del zero
    scaled = scale(alibi, "div")
    disallowed = like(mask, "attention_mask", "bool")
    result = new(tape, ("b", "a", "s", "s"), alibi.dtype, "masked_fill")
    del scaled, disallowed
    return result


def mpt_alibi(step: Step) -> Tensor:
    """Return a bias for each head and distance up to the longest sequence."""
    tape = step.tape
    alibi = new(tape, ("P",), "fp32", _RULE)
    base = new(tape, ("a",), "fp32", _RULE)
    slopes = like(base, _RULE)
    alibi = new(tape, ("a", 1, "P"), "fp32", _RULE)
    del base, slopes
    return alibi


def attend_bloom(
    hidden_states: Tensor,
    weights: Weights,
    part: Attention,
    context: Context,
    drop: float = 0.0,
    residual: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Bloom's attention; it adds the residual itself."""
    with hidden_states.tape.module(part.module):
        fused_qkv = project(hidden_states, weights, part.inputs[0])
        query_layer, key_layer, value_layer = (permute(select(fused_qkv, 3), 0, 2, 1, 3) for _ in range(3))
        key_layer, value_layer = update_cache(key_layer, value_layer, context)
        query_layer = contiguous(query_layer)
        key_layer = permute(contiguous(key_layer), 0, 1, 3, 2)
        value_layer = contiguous(value_layer)
        sizes = (query_layer.shape[:2], query_layer.shape[2:3], query_layer.shape[3:], key_layer.shape[3:])
        attention_scores = baddbmm(_bias(context), query_layer, key_layer, sizes, scaled=True)
        attn_weights = attention_scores
        if context.mask is not None:
            attn_weights = add(attn_weights, context.mask)
        attention_probs = to(softmax(attn_weights, "fp32"), query_layer.dtype)
        attention_probs_reshaped = attention_probs = dropout(attention_probs, part.dropout)
        context_layer = matmul(attention_probs_reshaped, value_layer)
        context_layer = contiguous(permute(context_layer, 0, 2, 1, 3))
        output_tensor = project(context_layer, weights, part.output)
        if residual is not None:
            output_tensor = dropout_add(output_tensor, residual, drop)
        return output_tensor, attention_probs


def dropout_add(x: Tensor, residual: Tensor, probability: float) -> Tensor:
    """Add what was dropped to the residual."""
    out = dropout(x, probability)
    return add(residual, out)


def _bias(context: Context) -> Tensor:
    if context.bias is None:
        raise TypeError(context)
    return context.bias


def attend_mpt(
    hidden_states: Tensor, weights: Weights, part: Attention, context: Context, drop: float = 0.0
) -> tuple[Tensor, Tensor | None]:
    """MPT's attention."""
    with hidden_states.tape.module(part.module):
        mixed_qkv = project(hidden_states, weights, part.inputs[0])
        if part.clamped:
            mixed_qkv = clamp(mixed_qkv)
        query_states, key_states, value_states = LAYOUTS[part.fused](mixed_qkv, part.heads)
        key_states, value_states = update_cache(key_states, value_states, context)
        attention_scores = scale(matmul(query_states, permute(key_states, 0, 1, 3, 2)))
        attention_scores = add(attention_scores, narrow(_bias(context), 2, attention_scores.shape[3]))
        if context.mask is not None:
            attention_scores = masked_fill(attention_scores, context.mask)
        attn_weights = to(softmax(to(attention_scores, "fp32")), value_states.dtype)
        attn_weights = dropout(attn_weights, part.dropout)
        context_states = matmul(attn_weights, value_states)
        context_states = contiguous(permute(context_states, 0, 2, 1, 3))
        attn_output = project(context_states, weights, part.output)
        return attn_output, attn_weights
