"""Attention as torchtitan writes it: over heads (Llama, Qwen3), and latent (DeepSeek-V3).

Source: torchtitan/models/llama3/model, torchtitan/models/qwen3/model.py and torchtitan/models/deepseek_v3/model.py.
"""

from __future__ import annotations

from memcore.layers.compiled import rotated
from memcore.layers.tensor_parallel import prepared, shared
from memcore.layers.torchtitan.network import FUSED
from memcore.layers.torchtitan.parts import norm, rotate, rotate_halves
from memcore.layers.transformers.attention import heads_of
from memcore.layers.transformers.context import Weights, project
from memcore.layers.transformers.sinks import with_sinks
from memcore.networks.parts import Attention, LatentAttention
from memcore.tensors.attention import Heads, choose_kernel, repeat_kv, sdpa
from memcore.tensors.basics import cat, clone, contiguous, permute
from memcore.tensors.ring import gathered_keys, ring_attention
from memcore.tensors.slices import expand, split_sizes, unsqueeze
from memcore.tensors.tensor import Tensor
from memcore.trace.step import Step


def attention(x: Tensor, weights: Weights, part: Attention, step: Step) -> Tensor:
    """Attention over heads; Qwen3 normalizes queries and keys before it rotates halves of them."""
    heads = heads_of(part)
    with x.tape.module(part.module):
        given = prepared(x)
        xq, xk, xv = _projected(given, weights, part, heads)
        if part.query_norm is not None and part.key_norm is not None:
            compiled = step.recipe.compiled
            xq = norm(xq, weights, part.query_norm, compiled=compiled)
            xk = norm(xk, weights, part.key_norm, compiled=compiled)
            xq, xk = (rotated(each) if compiled else rotate_halves(each) for each in (xq, xk))
        elif part.sinks is not None:
            xq, xk = (rotated(each) if step.recipe.compiled else rotate_halves(each) for each in (xq, xk))
        else:
            xq, xk = rotate(xq), rotate(xk)
        if part.repeats_heads:
            xk, xv = repeat_kv(xk, heads, axis=2), repeat_kv(xv, heads, axis=2)
            heads = heads.repeated()
        xq, xk, xv = (permute(each, 0, 2, 1, 3) for each in (xq, xk, xv))
        kernel = step.recipe.attention
        kernel = choose_kernel(xq, xv, heads, masked=False) if kernel == "sdpa" else kernel
        turns = step.recipe.ring_turns
        if part.sinks is not None and kernel != "cudnn":  # which takes sinks itself (TransformerEngine 2.8)
            sinks, compiled = weights[part.sinks.name], step.recipe.compiled
            kernel = "flex" if kernel == "math" else kernel  # torchtitan has FlexAttention or `varlen_attn` for sinks
            attended = with_sinks(xq, xk, xv, heads, kernel, sinks, compiled=compiled)
        else:
            attended = _attended(xq, xk, xv, heads, kernel, turns)
        output = contiguous(permute(attended, 0, 2, 1, 3))
        return project(output, weights, part.output)


def _projected(x: Tensor, weights: Weights, part: Attention, heads: Heads) -> list[Tensor]:
    """Queries, keys and values: of a matrix each, or copies of the parts of what one returns."""
    if part.fused != FUSED:
        return [project(x, weights, each) for each in part.inputs]
    qkv = project(x, weights, part.inputs[0])
    return [clone(each) for each in split_sizes(qkv, 2, (heads.query, heads.key, heads.key))]


def latent_attention(x: Tensor, weights: Weights, part: LatentAttention, step: Step) -> Tensor:
    """Multi-head latent attention: the rotated part of a key is the same for all heads.

    Values are narrower than keys, so that PyTorch's SDPA takes its memory-efficient kernel where flash is asked for.
    """
    heads = heads_of(part)
    with x.tape.module(part.module):
        given = prepared(x)
        q = _queries(given, weights, part)
        q_nope, q_pe = split_sizes(q, 3, ("p", "r"))
        kv, k_pe = split_sizes(project(given, weights, part.compress), 2, ("lk", "r"))
        q_pe, k_pe = rotate(q_pe, "r"), rotate(unsqueeze(shared(k_pe), 2), "r")
        q = cat([q_nope, q_pe], q.shape)
        kv = project(shared(norm(kv, weights, part.latent_norm)), weights, part.expand)
        k_nope, v = split_sizes(kv, 3, ("p", part.heads.value))
        k = cat([k_nope, expand(k_pe, 2, part.heads.query)], q.shape)
        query, key, value = (permute(each, 0, 2, 1, 3) for each in (q, k, v))
        kernel = step.recipe.attention
        if kernel in ("sdpa", "flash"):
            kernel = choose_kernel(query, value, heads, masked=False)
        attended = _attended(query, key, value, heads, kernel, step.recipe.ring_turns)
        output = contiguous(permute(attended, 0, 2, 1, 3))
        return project(output, weights, part.output)


def _attended(query: Tensor, key: Tensor, value: Tensor, heads: Heads, kernel: str, turns: int) -> Tensor:
    """Over a rank's tokens, or over those of all ranks of a ring."""
    if turns and kernel == "flex":
        return sdpa(query, *gathered_keys(key, value), heads, kernel, None)
    if turns:
        return ring_attention(query, key, value, heads.shared, turns, kernel)
    return sdpa(query, key, value, heads, kernel, None)


def _queries(x: Tensor, weights: Weights, part: LatentAttention) -> Tensor:
    if part.query_norm is None:
        return project(x, weights, part.queries[0])
    q = project(x, weights, part.queries[0])
    return project(shared(norm(q, weights, part.query_norm)), weights, part.queries[1])
