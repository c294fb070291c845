"""Attention of transformers over heads."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from memcore.layers.compiled import rotated
from memcore.layers.transformers.context import Context, Weights, adapted, fusable, project
from memcore.layers.transformers.heads import LAYOUTS
from memcore.layers.transformers.norms import norm
from memcore.layers.transformers.rotary import ROTATIONS, liger_rotation
from memcore.layers.ulysses import exchanged
from memcore.networks.adapters import has_prefix, prefix_name
from memcore.networks.parts import Attention, LatentAttention
from memcore.networks.weights import Linear, Norm
from memcore.symbols import Rounded, Shifted
from memcore.tensors.attention import Heads, choose_kernel, repeat_kv, sdpa
from memcore.tensors.autograd import Gradient, attach, tracked
from memcore.tensors.basics import cat, contiguous, new, permute, to, unmerged
from memcore.tensors.fused_lora import products
from memcore.tensors.operations import add, dropout, matmul, scale, softmax, tanh
from memcore.tensors.pointwise import clamp_
from memcore.tensors.ring import ring_attention
from memcore.tensors.running import clamp
from memcore.tensors.tensor import Tensor
from memcore.trace.recipe import AS_THEY_ARE


def attend(
    hidden_states: Tensor, weights: Weights, part: Attention, context: Context, drop: float = 0.0
) -> tuple[Tensor, Tensor | None]:
    """Return an attention module. Eager attention also returns its scores, which the layer holds until it ends."""
    with hidden_states.tape.module(part.module):
        query_states, key_states, value_states, *_fused = _project_heads(hidden_states, weights, part)
        if context.rotary is not None and hidden_states.tape.compiled:
            query_states, key_states = rotated(query_states), rotated(key_states)
        elif context.rotary is not None:
            patched = part.rotary == "full" and "rope" in query_states.tape.liger
            rotate = liger_rotation if patched else ROTATIONS[part.rotary]
            query_states, key_states, *_kept = rotate(query_states, key_states, *context.rotary)
        if part.norm_place == "after" and part.query_norm is not None and part.key_norm is not None:
            query_states = norm(query_states, weights, part.query_norm)
            key_states = norm(key_states, weights, part.key_norm)
        if has_prefix(part):
            key_states, value_states = _after_prefix(key_states, value_states, weights, part)
        key_states, value_states = update_cache(key_states, value_states, context, fresh=not has_prefix(part))
        attn_output, attn_weights = interface(query_states, key_states, value_states, part, context)
        attn_output = contiguous(attn_output)
        attn_output = project(attn_output, weights, part.output)
        attn_output = dropout(attn_output, drop or part.output_dropout)
        return attn_output, attn_weights


def _after_prefix(keys: Tensor, values: Tensor, weights: Weights, part: Attention) -> tuple[Tensor, Tensor]:
    """Keys and values after learned ones (peft/peft_model.py, `get_prompt`), a copy for each sequence.

    PEFT makes those of all layers before the first one, and their gradients wait until its backward pass is done; here
    both belong to their layer, which moves nothing at the peak.
    """
    tape, dtype, prefix = keys.tape, keys.dtype, weights[prefix_name(part)]
    batch, heads, length, width = keys.shape
    tokens = prefix.shape[0]
    learned = [new(tape, (batch, heads, tokens, width), dtype, "cat") for _ in range(2)]

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        stacked = new(tape, (2, batch, heads, tokens, width), dtype, "stack")
        found = new(tape, prefix.shape, prefix.dtype, "embedding_backward")
        del stacked
        return [found]

    if tracked(prefix):
        attach(learned, [prefix], [], apply)
    shape = (batch, heads, Shifted("va", 1, length), width)
    keys = cat([learned[0], keys], shape)
    learned[0] = keys
    return keys, cat([learned[1], values], shape)


def update_cache(keys: Tensor, values: Tensor, context: Context, *, fresh: bool = True) -> tuple[Tensor, Tensor]:
    """`DynamicCache.update`, if there is a cache: appended to empty tensors, both of the dtype of the keys.

    What is not `fresh` has been appended already. Before transformers 4.36 the cache was a tuple of the keys and values
    that layers returned, without a copy (4.31, models/llama/modeling_llama.py: `past_key_value`).
    """
    if context.cache is None or (context.caches_results and keys.tape.recomputing):
        return keys, values
    if fresh and not context.caches_results:
        keys, values = cat([keys], keys.shape), cat([values], values.shape, empty=keys.dtype)
    context.cache.setdefault(keys.tape.repeats, []).extend((keys, values))
    return keys, values


def interface(
    query: Tensor, key: Tensor, value: Tensor, part: Attention | LatentAttention, context: Context
) -> tuple[Tensor, Tensor | None]:
    """Return the attention function of the implementation that was asked for."""
    if context.ulysses is not None:
        return exchanged(query, key, value, heads_of(part), context.ulysses, partial(_on_whole, part, context)), None
    attention = _eager_attention if context.kernel == "math" else _sdpa_attention
    return attention(query, key, value, part, context)


def _on_whole(
    part: Attention | LatentAttention, context: Context, query: Tensor, key: Tensor, value: Tensor, heads: Heads
) -> Tensor:
    """Attention over the whole sequence with a rank's heads."""
    return _sdpa_attention(query, key, value, part, context, heads)[0]


def heads_of(part: Attention | LatentAttention) -> Heads:
    """Return the symbols of an attention layer."""
    own = part.heads
    key, groups = (own.key, own.groups) if part.grouped else (own.query, 1)
    padded = Rounded(own.width, 8) if own.unaligned else own.width
    return Heads(own.query, key, groups, own.width, padded, own.wide)


def _project_heads(x: Tensor, weights: Weights, part: Attention) -> list[Tensor]:
    """Queries, keys and values as (b, heads, s, d)."""
    if part.norm_place == "projected":
        return _norm_projected(x, weights, part)
    if part.norm_place == "rows":
        return _norm_rows(x, weights, part)
    if len(part.inputs) == 1:
        fused = project(x, weights, part.inputs[0])
        return LAYOUTS[part.fused](clamp(fused) if part.clamped else fused, part.heads)
    at_once = part.norm_place in ("head", "row")
    norms = (part.query_norm, part.key_norm, None) if at_once else (None, None, None)
    scaled = (part.scales_queries, part.scales_keys, False)
    if x.tape.fuses_lora and not any(scaled) and all(fusable(weights, each) for each in part.inputs):
        states = products(x, [adapted(weights, each) for each in part.inputs])
        for index, head_norm in enumerate(norms):
            states[index] = states[index] if head_norm is None else norm(states[index], weights, head_norm)
    else:
        states = [_project_head(x, weights, *each) for each in zip(part.inputs, norms, scaled, strict=True)]
    if part.clamped:
        states = [clamp_(each) for each in states]
    return _as_heads(states, part)


def _as_heads(states: list[Tensor], part: Attention) -> list[Tensor]:
    """From (b, s, heads, d) to (b, heads, s, d); queries that were scaled have been split at once."""
    if part.splits_late:
        done = int(part.scales_queries)
        states = [*states[:done], *(unmerged(each, 2) for each in states[done:])]
    return [permute(each, 0, 2, 1, 3) for each in states]


def _norm_projected(x: Tensor, weights: Weights, part: Attention) -> list[Tensor]:
    """Gemma 3 projects all three before it normalizes queries and keys."""
    states = _as_heads([project(x, weights, each) for each in part.inputs], part)
    for index, head_norm in enumerate((part.query_norm, part.key_norm)):
        if head_norm is not None:
            states[index] = _norm_heads(states[index], weights, head_norm)
    return states


def _norm_rows(x: Tensor, weights: Weights, part: Attention) -> list[Tensor]:
    """InternViT projects all three before it normalizes queries and keys, and then splits heads."""
    states = [project(x, weights, each) for each in part.inputs]
    for index, row_norm in enumerate((part.query_norm, part.key_norm)):
        if row_norm is not None:
            states[index] = norm(states[index], weights, row_norm)
    return _as_heads(states, part)


def _norm_heads(x: Tensor, weights: Weights, part: Norm) -> Tensor:
    """A norm over each head of (b, heads, s, d); weights for each head need heads next to their elements (Cohere)."""
    if part.leading:
        return permute(norm(permute(x, 0, 2, 1, 3), weights, part), 0, 2, 1, 3)
    return norm(x, weights, part)


def _project_head(x: Tensor, weights: Weights, part: Linear, head_norm: Norm | None, scaled: bool) -> Tensor:
    projected = project(x, weights, part)
    if scaled:
        return unmerged(scale(projected), 2)
    return projected if head_norm is None else norm(projected, weights, head_norm)


def _sdpa_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    part: Attention | LatentAttention,
    context: Context,
    own: Heads | None = None,
) -> tuple[Tensor, Tensor | None]:
    """`sdpa_attention_forward` (integrations/sdpa_attention.py): grouped keys stay so without a mask, up to a width.

    Earlier releases repeat them, or copy all three into the order of their axes; code that replaces it may never
    repeat them.
    """
    heads, mask = own or heads_of(part), context.mask
    over_images = part.variant == "crossing" or (mask is not None and mask.shape[-1] == "nq")
    if over_images and context.pictures is not None:
        heads = replace(heads, ragged=context.pictures.ragged)
    if has_prefix(part):
        heads = replace(heads, ragged=context.ragged)
    early = context.heads_as if context.kernel == "sdpa" else AS_THEY_ARE
    if not early.grouped and (mask is not None or heads.wide or early.repeated):
        key, value = repeat_kv(key, heads), repeat_kv(value, heads)
        heads = heads.repeated()
    if early.contiguous:
        query, key, value = contiguous(query), contiguous(key), contiguous(value)
    kernel = context.kernel
    if kernel == "sdpa":
        kernel = choose_kernel(query, value, heads, masked=mask is not None)
    if context.ring_turns:
        attn_output = ring_attention(query, key, value, heads.shared, context.ring_turns, kernel)
    else:
        attn_output = sdpa(query, key, value, heads, kernel, mask)
    return permute(attn_output, 0, 2, 1, 3), None


def _eager_attention(
    query: Tensor, key: Tensor, value: Tensor, part: Attention | LatentAttention, context: Context
) -> tuple[Tensor, Tensor | None]:
    """`eager_attention_forward`: all scores in memory."""
    heads, mask = heads_of(part), context.mask
    key_states, value_states = repeat_kv(key, heads), repeat_kv(value, heads)
    attn_weights = scale(matmul(query, permute(key_states, 0, 1, 3, 2)))
    if part.softcap:
        attn_weights = scale(attn_weights, "div")
        attn_weights = tanh(attn_weights)
        attn_weights = scale(attn_weights)
    if mask is not None:
        attn_weights = add(attn_weights, mask)
    if part.softmax_fp32:
        attn_weights = to(softmax(attn_weights, "fp32"), query.dtype)
    else:
        attn_weights = to(softmax(attn_weights), value.dtype)
    attn_weights = dropout(attn_weights, part.dropout)
    attn_output = matmul(attn_weights, value_states)
    attn_output = contiguous(permute(attn_output, 0, 2, 1, 3))
    return attn_output, attn_weights
