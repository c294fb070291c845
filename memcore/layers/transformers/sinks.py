"""Attention with sinks: a learned logit for each head takes part in softmax (gpt-oss, MiMo-V2-Flash).

SDPA has no sinks, so transformers runs these families with their own eager attention. Local variables live as long here
as they do in `models/gpt_oss` and `models/mimo_v2_flash`.
"""

from __future__ import annotations

from collections.abc import Callable

from memcore.layers.compiled import pointwise
from memcore.layers.transformers.attention import heads_of, interface, update_cache
from memcore.layers.transformers.context import Context, Weights, project
from memcore.layers.transformers.rotary import ROTATIONS
from memcore.networks.parts import Attention
from memcore.symbols import Shape, Shifted
from memcore.tensors.arithmetic import sigmoid
from memcore.tensors.attention import Heads, repeat_kv, with_statistics
from memcore.tensors.autograd import attach, save, tracked
from memcore.tensors.basics import cat, contiguous, like, narrow, new, only, permute, to, view
from memcore.tensors.indexing import largest
from memcore.tensors.operations import add, dropout, matmul, mul, scale, softmax, sub
from memcore.tensors.slices import unsqueeze
from memcore.tensors.tensor import Tensor

Eager = Callable[[Tensor, Tensor, Tensor, Tensor | None, Attention, Context], tuple[Tensor, Tensor]]
"""Queries, keys, values, sinks, the part and the context to outputs and attention weights."""


def attend_gpt_oss(
    hidden_states: Tensor, weights: Weights, part: Attention, context: Context, drop: float = 0.0
) -> tuple[Tensor, Tensor | None]:
    """Return an attention module of gpt-oss."""
    with hidden_states.tape.module(part.module):
        states = [permute(project(hidden_states, weights, each), 0, 2, 1, 3) for each in part.inputs]
        return _attend(states, weights, part, context, _gpt_oss)


def attend_mimo(
    hidden_states: Tensor, weights: Weights, part: Attention, context: Context, drop: float = 0.0
) -> tuple[Tensor, Tensor | None]:
    """Return an attention module of MiMo-V2-Flash: values have a width of their own, and are scaled."""
    with hidden_states.tape.module(part.module):
        states = [permute(project(hidden_states, weights, each), 0, 2, 1, 3) for each in part.inputs]
        states[2] = scale(states[2])
        return _attend(states, weights, part, context, _mimo)


def _attend(
    states: list[Tensor], weights: Weights, part: Attention, context: Context, eager: Eager
) -> tuple[Tensor, Tensor | None]:
    query_states, key_states, value_states = states
    states.clear()
    if context.rotary is not None:
        query_states, key_states, *_kept = ROTATIONS[part.rotary](query_states, key_states, *context.rotary)
    key_states, value_states = update_cache(key_states, value_states, context)
    attn_weights: Tensor | None
    if context.kernel == "math":
        sinks = None if part.sinks is None else weights[part.sinks.name]
        attn_output, attn_weights = eager(query_states, key_states, value_states, sinks, part, context)
    elif context.kernel == "flex" and part.sinks is not None:
        sinks, compiled = weights[part.sinks.name], query_states.tape.compiled
        heads = heads_of(part)
        attended = with_sinks(query_states, key_states, value_states, heads, "flex", sinks, compiled=compiled)
        attn_output, attn_weights = permute(attended, 0, 2, 1, 3), None
    else:
        attn_output, attn_weights = interface(query_states, key_states, value_states, part, context)
    attn_output = contiguous(attn_output)
    attn_output = project(attn_output, weights, part.output)
    return attn_output, attn_weights


def _gpt_oss(
    query: Tensor, key: Tensor, value: Tensor, sinks: Tensor | None, part: Attention, context: Context
) -> tuple[Tensor, Tensor]:
    key_states, value_states = repeat_kv(key, heads_of(part)), repeat_kv(value, heads_of(part))
    if sinks is None:
        raise TypeError(part)
    return attend_with_sinks(query, key_states, value_states, sinks, context.mask, part.dropout)


def attend_with_sinks(
    query: Tensor, key_states: Tensor, value_states: Tensor, sinks: Tensor, mask: Tensor | None, probability: float
) -> tuple[Tensor, Tensor]:
    """Eager attention of gpt-oss, given keys and values for every query head."""
    attn_weights = _masked_scores(query, key_states, mask)
    expanded = _expanded(sinks, attn_weights)
    combined_logits = _with_sinks(attn_weights, expanded)
    combined_logits = _stable(combined_logits)
    probs = softmax(combined_logits, combined_logits.dtype)
    scores = narrow(probs, 3, key_states.shape[2])
    attn_weights = to(dropout(scores, probability), value_states.dtype)
    attn_output = matmul(attn_weights, value_states)
    attn_output = contiguous(permute(attn_output, 0, 2, 1, 3))
    return attn_output, attn_weights


def _mimo(
    query: Tensor, key: Tensor, value: Tensor, sinks: Tensor | None, part: Attention, context: Context
) -> tuple[Tensor, Tensor]:
    key_states, value_states = repeat_kv(key, heads_of(part)), repeat_kv(value, heads_of(part))
    attn_weights = _masked_scores(query, key_states, context.mask)
    if sinks is not None:
        sinks = _expanded(sinks, attn_weights)
        attn_weights = _with_sinks(attn_weights, sinks)
    attn_weights = _stable(attn_weights)
    probs = softmax(attn_weights, attn_weights.dtype)
    if sinks is not None:
        probs = narrow(probs, 3, "s")
    attn_weights = to(dropout(probs, part.dropout), value_states.dtype)
    attn_output = matmul(attn_weights, value_states)
    attn_output = contiguous(permute(attn_output, 0, 2, 1, 3))
    return attn_output, attn_weights


def _masked_scores(query: Tensor, key_states: Tensor, mask: Tensor | None) -> Tensor:
    attn_weights = scale(matmul(query, permute(key_states, 0, 1, 3, 2)))
    return attn_weights if mask is None else add(attn_weights, mask)


def _with_sinks(attn_weights: Tensor, sinks: Tensor) -> Tensor:
    return cat([attn_weights, sinks], (*attn_weights.shape[:3], Shifted(attn_weights.shape[3], 1, 1)))


def _expanded(sinks: Tensor, scores: Tensor) -> Tensor:
    """Return a head's logit for each of its queries, without a copy."""
    out = view(sinks, (*scores.shape[:3], 1))
    if tracked(sinks):
        tape, shape = sinks.tape, sinks.shape
        attach([out], [sinks], [], lambda g, s: [new(tape, shape, only(g).dtype, "expand_backward")])
    return out


def _stable(logits: Tensor) -> Tensor:
    """The largest of each row becomes zero."""
    return sub(logits, _maximum(logits))


def _maximum(x: Tensor) -> Tensor:
    values, _indices = largest(x)
    return values


def with_sinks(
    query: Tensor, key: Tensor, value: Tensor, heads: Heads, kernel: str, sinks: Tensor, *, compiled: bool
) -> Tensor:
    """FlexAttention or `varlen_attn`, whose result is scaled for each row and head.

    The kernel's result and the scale are both kept for the gradients of the sinks; compiled, the result alone is.
    Sources: torchtitan/models/gpt_oss/model.py (`apply_attention_sink_rescale`), unsloth_zoo/flex_attention/
    attention_sink.py (`flex_attention_with_sink`).
    """
    out, statistics = with_statistics(query, key, value, heads, kernel)
    if compiled:
        return pointwise(out, statistics, sinks)  # the backward pass makes the scale again
    rows = view(sinks, (1, *sinks.shape, 1))
    if tracked(sinks):
        tape, shape = sinks.tape, sinks.shape
        attach([rows], [sinks], [], lambda g, s: [new(tape, shape, only(g).dtype, "expand_backward")])
    sink_scale = unsqueeze(sigmoid(sub(statistics, rows)), 3)
    return mul(out, to(sink_scale, out.dtype))


def compiled_gate(h: Tensor, inner: Shape, factor: Tensor | None = None) -> Tensor:
    """gpt-oss's activation of gate and up, every other column, in one kernel, which keeps its inputs."""
    tape, full = h.tape, h.shape
    inputs = [h] if factor is None else [h, factor]
    saved = save(tape, *inputs) if tracked(*inputs) else []
    out = new(tape, (*full[: len(full) - 1 - len(inner)], *inner), h.dtype, "fused_product")
    if saved:
        attach([out], inputs, saved, lambda g, s: [like(each, "fused_product_backward") for each in s])
    return out
