"""Falcon's attention: its own products, layouts of the fused matrix, and calls of SDPA (`models/falcon`).

Local variables live as long here as they do there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memcore.layers.transformers.attention import heads_of, update_cache
from memcore.layers.transformers.context import Context, Weights, leaf
from memcore.layers.transformers.rotary import ROTATIONS
from memcore.networks.parts import Attention, FeedForward
from memcore.networks.weights import Linear
from memcore.tensors.attention import choose_kernel, sdpa
from memcore.tensors.basics import contiguous, narrow, permute, to
from memcore.tensors.operations import ACTIVATIONS, add, dropout, linear, matmul, softmax
from memcore.tensors.pointwise import scale_
from memcore.tensors.reshaping import select
from memcore.tensors.slices import expand, index, merge
from memcore.tensors.tensor import Tensor

Interface = Callable[[Tensor, Tensor, Tensor, Attention, Context, str], tuple[Tensor, ...]]
"""Queries, keys, values and the dtype of scores to results, scores, and what the module holds until it ends."""


def attend_falcon(
    hidden_states: Tensor, weights: Weights, part: Attention, context: Context, drop: float = 0.0
) -> tuple[Tensor, Tensor | None]:
    """Falcon's attention, of any of its generations."""
    with hidden_states.tape.module(part.module):
        fused_qkv = falcon_linear(hidden_states, weights, part.inputs[0])
        query_layer, key_layer, value_layer = (
            permute(each, 0, 2, 1, 3) for each in _SPLITS[part.fused](fused_qkv, part)
        )
        if not part.biased and context.rotary is not None:
            query_layer, key_layer = ROTATIONS[part.rotary](query_layer, key_layer, *context.rotary)
        key_layer, value_layer = update_cache(key_layer, value_layer, context)
        if context.kernel != "math":
            attn_output = _sdpa(query_layer, key_layer, value_layer, part, context)
            attn_output = contiguous(permute(attn_output, 0, 2, 1, 3))
            return falcon_linear(attn_output, weights, part.output), None
        interface: Interface = _biased if part.biased else _eager
        dtype = hidden_states.dtype
        attn_output, scores, *_kept = interface(query_layer, key_layer, value_layer, part, context, dtype)
        attn_output = contiguous(permute(attn_output, 0, 2, 1, 3))
        attn_output = falcon_linear(attn_output, weights, part.output)
        return attn_output, scores


def falcon_linear(x: Tensor, weights: Weights, part: Linear) -> Tensor:
    """`input @ weight.T`, and the bias in a tensor of its own; autocast keeps no copy of a transposed weight."""
    with x.tape.module(leaf(part.name)):
        hidden_states = linear(x, weights[f"{part.name}.weight"], fresh=True)
        return add(hidden_states, weights[f"{part.name}.bias"]) if part.bias else hidden_states


def ffn_falcon(x: Tensor, weights: Weights, part: FeedForward) -> Tensor:
    """Falcon's feed-forward module."""
    with x.tape.module(part.module):
        x = ACTIVATIONS[part.activation](falcon_linear(x, weights, part.up))
        return falcon_linear(x, weights, part.down)


def _per_group(fused: Tensor, part: Attention) -> list[Tensor]:
    """Groups of query heads with a key and a value head, which are copied for each of them."""
    heads = part.heads
    query = narrow(fused, 3, heads.groups)
    key = index(fused, 3)
    value = index(fused, 3)
    key = expand(key, 3, heads.groups)
    value = expand(value, 3, heads.groups)
    return [merge(each, 2, heads.query) for each in (query, key, value)]


def _per_head(fused: Tensor, part: Attention) -> list[Tensor]:
    return [select(fused, 3) for _ in range(3)]


def _shared(fused: Tensor, part: Attention) -> list[Tensor]:
    """Return all queries, and one head of keys and of values."""
    return [narrow(fused, 2, part.heads.query), index(fused, 2), index(fused, 2)]


_SPLITS: Mapping[str, Callable[[Tensor, Attention], list[Tensor]]] = {
    "per-group": _per_group,
    "per-head": _per_head,
    "shared": _shared,
}


def _sdpa(query: Tensor, key: Tensor, value: Tensor, part: Attention, context: Context) -> Tensor:
    """Not called by the name of grouped attention: the math kernel broadcasts a shared head."""
    heads = heads_of(part)
    heads = heads.repeated() if part.fused == "per-group" else heads
    kernel = context.kernel
    if kernel == "sdpa":
        kernel = choose_kernel(query, value, heads, masked=context.mask is not None)
    return sdpa(query, key, value, heads.repeated() if kernel == "math" else heads, kernel, context.mask)


def _eager(
    query: Tensor, key: Tensor, value: Tensor, part: Attention, context: Context, dtype: str
) -> tuple[Tensor, ...]:
    attention_scores = matmul(query, permute(key, 0, 1, 3, 2))
    attention_scores = scale_(attention_scores, "div")
    attention_scores = softmax(_masked(attention_scores, context), dtype)
    return matmul(attention_scores, value), attention_scores


def _biased(
    query: Tensor, key: Tensor, value: Tensor, part: Attention, context: Context, dtype: str
) -> tuple[Tensor, ...]:
    matmul_result = matmul(query, permute(key, 0, 1, 3, 2))
    attention_scores = to(matmul_result, "fp32")
    attention_logits = attention_scores if context.bias is None else add(attention_scores, context.bias)
    attention_logits = scale_(attention_logits)
    attention_probs = softmax(_masked(attention_logits, context), dtype)
    attention_probs = dropout(attention_probs, part.dropout)
    attn_output = matmul(attention_probs, value)
    return attn_output, attention_probs, matmul_result, attention_scores, attention_logits


def _masked(scores: Tensor, context: Context) -> Tensor:
    return scores if context.mask is None else add(scores, context.mask)
