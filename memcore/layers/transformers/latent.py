"""Multi-head latent attention of transformers: keys and values are expanded from one compressed vector.

Sources: `models/deepseek_v2`, `deepseek_v3` (also `glm4_moe_lite`), `mistral4` and `kimi_linear`. Local variables live
as long here as they do there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memcore.layers.transformers.attention import interface, update_cache
from memcore.layers.transformers.context import Context, Weights, project
from memcore.layers.transformers.norms import norm
from memcore.layers.transformers.rotary import ROTATIONS
from memcore.networks.parts import LatentAttention
from memcore.symbols import half
from memcore.tensors.basics import cat, contiguous, like, narrow, new, permute, to
from memcore.tensors.complex import complex_product
from memcore.tensors.operations import add, dropout, mul, sub
from memcore.tensors.slices import expand, split_sizes, unsqueeze, written
from memcore.tensors.tensor import Tensor

LATENT = ("deepseek_v2", "deepseek_v3", "mistral4", "kimi_linear")
"""The variants that this module covers."""


def attend_latent(
    hidden_states: Tensor, weights: Weights, part: LatentAttention, context: Context, drop: float = 0.0
) -> tuple[Tensor, Tensor | None]:
    """Return a latent attention module."""
    with hidden_states.tape.module(part.module):
        q_states = permute(project(query_residual(hidden_states, weights, part), weights, part.queries[-1]), 0, 2, 1, 3)
        parts = split_sizes(q_states, 3, ("p", "r")) if context.rotary is not None else [q_states]
        compressed_kv = project(hidden_states, weights, part.compress)
        kv_nope, k_rot = split_sizes(compressed_kv, 2, ("lk", "r"))
        kv_nope = norm(kv_nope, weights, part.latent_norm)
        k_rot = unsqueeze(k_rot, 1)
        if context.rotary is not None:
            parts[1], k_rot = ROTATE[part.rotary](parts[1], k_rot, *context.rotary)
        kv_nope, k_rot = update_cache(kv_nope, k_rot, context)
        query_states = cat(parts, q_states.shape) if context.rotary is not None else q_states
        if part.variant == "mistral4" and context.positions is not None:
            query_states = mul(query_states, to(_position_scale(context.positions), query_states.dtype))
        key_states, value_states = expand_kv(kv_nope, k_rot, weights, part)
        attn_output, attn_weights = interface(query_states, key_states, value_states, part, context)
        attn_output = contiguous(attn_output)
        attn_output = project(attn_output, weights, part.output)
        return dropout(attn_output, drop), attn_weights


def query_residual(hidden_states: Tensor, weights: Weights, part: LatentAttention) -> Tensor:
    """Return what queries are projected from: their latent vector, if they have one."""
    if part.query_norm is None:
        return hidden_states
    return norm(project(hidden_states, weights, part.queries[0]), weights, part.query_norm)


def expand_kv(kv_nope: Tensor, k_rot: Tensor, weights: Weights, part: LatentAttention) -> tuple[Tensor, Tensor]:
    """Keys and values of every head; the rotated part of a key is the same for all of them."""
    kv_nope = permute(project(kv_nope, weights, part.expand), 0, 2, 1, 3)
    k_nope, value_states = split_sizes(kv_nope, 3, ("p", part.heads.value))
    k_rot = expand(k_rot, 1, part.heads.query)
    key_states = written([k_nope, k_rot], (*kv_nope.shape[:3], part.heads.width), kv_nope.dtype)
    return key_states, value_states


def _position_scale(positions: Tensor) -> Tensor:
    """`get_llama_4_attn_scale`: 1 + beta · log(1 + floor(position / length)), in fp32."""
    scaling = new(positions.tape, ("s", 1), "fp32", "div")
    for rule in ("floor", "add", "log", "mul", "add"):
        scaling = like(scaling, rule)
    return scaling


def _rotate_complex(xq: Tensor, xk: Tensor, freqs_cis: Tensor) -> tuple[Tensor, ...]:
    """Pairs of neighbours as complex numbers, in fp32."""
    xq_, xk_ = to(xq, "fp32"), to(xk, "fp32")
    xq_out = to(complex_product(xq_, freqs_cis), xq.dtype)
    xk_out = to(complex_product(xk_, freqs_cis), xk.dtype)
    return xq_out, xk_out


def _rotate_interleaved(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
    """Pairs of neighbours, spelled out."""
    last = len(cos.shape) - 1
    width = half(cos.shape[last])
    cos, sin = narrow(cos, last, width), narrow(sin, last, width)
    q1, q2 = narrow(q, 3, width), narrow(q, 3, width)
    k1, k2 = narrow(k, 3, width), narrow(k, 3, width)
    q_embed = cat([sub(mul(q1, cos), mul(q2, sin)), add(mul(q2, cos), mul(q1, sin))], q.shape)
    k_embed = cat([sub(mul(k1, cos), mul(k2, sin)), add(mul(k2, cos), mul(k1, sin))], k.shape)
    return q_embed, k_embed


ROTATE: Mapping[str, Callable[..., tuple[Tensor, ...]]] = {
    "complex": _rotate_complex,
    "interleaved": _rotate_interleaved,
    "halves": ROTATIONS["full"],
}
"""By `LatentAttention.rotary`."""
