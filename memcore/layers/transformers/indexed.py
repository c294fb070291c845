"""DeepSeek sparse attention: latent attention to the tokens that an indexer, or that of an earlier layer, chooses.

Sources: transformers, `models/deepseek_v32` and `models/glm_moe_dsa`. The indexer runs without autograd, so its
parameters get no gradients.
"""

from __future__ import annotations

from dataclasses import replace

from memcore.layers.transformers.attention import interface, update_cache
from memcore.layers.transformers.compressors import project_to
from memcore.layers.transformers.context import Context, Weights, project
from memcore.layers.transformers.latent import ROTATE, expand_kv, query_residual
from memcore.layers.transformers.norms import norm
from memcore.networks.parts import LatentAttention
from memcore.networks.weights import Norm
from memcore.symbols import Shifted, Smaller
from memcore.tensors.basics import autocast, cat, contiguous, elementwise, like, new, permute, to, view
from memcore.tensors.indexing import scatter, topk
from memcore.tensors.operations import dropout, matmul, relu, scale
from memcore.tensors.running import masked_fill
from memcore.tensors.slices import expand, split_sizes, squeeze, unsqueeze
from memcore.tensors.tensor import Tensor

INDEXED = {"deepseek_v32": "halves", "glm_moe_dsa": "interleaved"}
"""The variants that this module covers, with how their indexers rotate."""


def attend_indexed(
    hidden_states: Tensor, weights: Weights, part: LatentAttention, context: Context, drop: float = 0.0
) -> tuple[Tensor, Tensor | None]:
    """Return a latent attention module with an indexer."""
    if context.rotary is None or context.mask is None:
        raise TypeError(part)
    with hidden_states.tape.module(part.module):
        q_resid = query_residual(hidden_states, weights, part)
        q_states = permute(project(q_resid, weights, part.queries[-1]), 0, 2, 1, 3)
        q_pass, q_rot = split_sizes(q_states, 3, ("p", "r"))
        compressed_kv = project(hidden_states, weights, part.compress)
        kv_pass, k_rot = split_sizes(compressed_kv, 2, ("lk", "r"))
        k_pass = norm(kv_pass, weights, part.latent_norm)
        q_rot, k_rot = ROTATE[part.rotary](q_rot, unsqueeze(k_rot, 1), *context.rotary)
        k_pass, k_rot = update_cache(k_pass, k_rot, context)
        query_states = cat([q_pass, q_rot], q_states.shape)
        key_states, value_states = expand_kv(k_pass, k_rot, weights, part)
        topk_indices = _indexer(hidden_states, q_resid, weights, part, context) if part.indexer else context.chosen
        if topk_indices is None:
            raise TypeError(part)
        index_mask = _index_mask(topk_indices)
        sparse = replace(context, mask=_sparse_mask(context.mask, index_mask))
        attn_output, attn_weights = interface(query_states, key_states, value_states, part, sparse)
        attn_output = contiguous(attn_output)
        attn_output = project(attn_output, weights, part.output)
        if part.variant == "glm_moe_dsa":
            context.leave(topk_indices)
        return dropout(attn_output, drop), attn_weights


def _indexer(
    hidden_states: Tensor, q_resid: Tensor, weights: Weights, part: LatentAttention, context: Context
) -> Tensor:
    """`Indexer.forward`: the tokens with the highest scores; every query is scored against every key, in fp32."""
    tape, name = hidden_states.tape, f"{part.module}.indexer"
    with tape.module("indexer"), tape.no_grad():
        q = project_to(q_resid, weights, f"{name}.wq_b")
        q_rot, q_pass = split_sizes(q, 3, ("r", _PASSED))
        k = norm(project_to(hidden_states, weights, f"{name}.wk"), weights, Norm(f"{name}.k_norm", "layer", bias=True))
        k_rot, k_pass = split_sizes(unsqueeze(k, 2), 3, ("r", _PASSED))
        q_rot, k_rot = ROTATE[INDEXED[part.variant]](q_rot, k_rot, *_between_heads(context))
        q = cat([q_rot, q_pass], q.shape)
        k = squeeze(cat([k_rot, k_pass], (*k.shape[:2], 1, k.shape[2])), 2)
        if context.cache is not None:
            k = cat([k], k.shape)
            context.cache.setdefault(tape.repeats, []).append(k)
        scores = scale(_scores(q, k))
        scores = relu(scores)
        token_weights = scale(to(project_to(hidden_states, weights, f"{name}.weights_proj"), "fp32"))
        index_scores = squeeze(matmul(unsqueeze(token_weights, 2), scores), 2)
        index_scores = _causal(index_scores, context.mask)
        return to(_chosen(index_scores), "int32")


_PASSED = Shifted("j", -1, "r")
"""Elements of an indexer's head that are not rotated."""


def _between_heads(context: Context) -> list[Tensor]:
    """Return the tables as they are broadcast to (b, s, heads, d)."""
    return [view(table, (table.shape[0], 1, table.shape[1])) for table in context.rotary or ()]


def _scores(q: Tensor, k: Tensor) -> Tensor:
    """Scores of all queries of a token at once, for which keys are copied for every token."""
    q, k = to(q, "fp32"), unsqueeze(to(permute(k, 0, 2, 1), "fp32"), 1)
    return matmul(q, expand(autocast(k), 1, "s"))


def _causal(index_scores: Tensor, mask: Tensor | None) -> Tensor:
    if mask is None:
        return index_scores
    shape = (mask.shape[0], *mask.shape[2:])
    if mask.dtype == "bool":
        return masked_fill(index_scores, new(mask.tape, shape, "bool", "logical_not"))
    return elementwise("add", index_scores, view(mask, shape))


def _chosen(index_scores: Tensor) -> Tensor:
    _values, indices = topk(index_scores, Smaller("ti", "s"))
    return indices


def _index_mask(topk_indices: Tensor) -> Tensor:
    """Return which tokens are not chosen."""
    ones = new(topk_indices.tape, (*topk_indices.shape[:2], "s"), "bool", "ones")
    return unsqueeze(scatter(ones, to(topk_indices, "int64")), 1)


def _sparse_mask(attention_mask: Tensor, index_mask: Tensor) -> Tensor:
    if attention_mask.dtype == "bool":
        return elementwise("attention_mask", attention_mask, like(index_mask, "logical_not"))
    return masked_fill(attention_mask, index_mask)
