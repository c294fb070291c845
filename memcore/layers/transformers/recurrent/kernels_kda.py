"""flash-linear-attention 0.5 (fla-org): `ChunkKDAFunction` in fla/ops/kda/chunk.py, with chunk_fwd.py and chunk_bwd.py.

It keeps normalized queries and keys, running sums of the decay, and two matrices for each chunk and head; states and
new values are computed again. Local variables live as long here as they do there.
"""

from __future__ import annotations

from memcore.layers.transformers.recurrent.kernels_delta import normalized
from memcore.networks.recurrences import DELTA_CHUNK, DELTA_CHUNKS
from memcore.symbols import Quotient
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import contiguous, like, new, only
from memcore.tensors.tensor import Tensor

_PART = 16
"""Tokens of a part of a chunk (chunk_intra.py, BC)."""
_TILE = 32
"""Elements of a key that one program of the backward pass takes (chunk_intra.py, BK)."""


def chunk_kda(query: Tensor, key: Tensor, value: Tensor, g: Tensor, beta: Tensor) -> Tensor:
    """Kimi delta attention over (b, s, heads, width) in a few kernels."""
    tape, inputs = query.tape, [query, key, value, g, beta]
    rows = contiguous(query.detach()), contiguous(key.detach())
    value = contiguous(value.detach())
    q, q_rstd = normalized(rows[0])
    k, k_rstd = normalized(rows[1])
    summed = like(g, "delta_decay")
    by_chunk = (*beta.shape, DELTA_CHUNK)
    queries_keys, keys_keys = (new(tape, by_chunk, key.dtype, "delta_chunk") for _ in range(2))
    parts = new(tape, (*beta.shape, _PART), "fp32", "delta_chunk")
    held = _values(value, 3)
    del parts
    held += _states(value)
    out = like(value, "delta_rule")
    del held, rows
    if tracked(*inputs):
        saved = save(tape, q, q_rstd, k, k_rstd, value, summed, g, beta, queries_keys, keys_keys)
        attach([out], inputs, saved, _backward)
    return out


def _values(value: Tensor, count: int) -> list[Tensor]:
    """Return the WY representation of a chunk, with decayed queries and keys."""
    return [new(value.tape, value.shape, value.dtype, "delta_values") for _ in range(count)]


def _states(value: Tensor) -> list[Tensor]:
    """`chunk_gated_delta_rule_fwd_h`: a state for each chunk, and new values."""
    batch, _, heads, width = value.shape
    states = new(value.tape, (batch, DELTA_CHUNKS, heads, width, width), value.dtype, "delta_states")
    return [states, new(value.tape, value.shape, value.dtype, "delta_values")]


def _backward(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
    """`chunk_kda_bwd`, then `l2norm_bwd` for queries and keys."""
    query, _, key, _, value, g, _, beta, by_chunk, _ = saved
    tape = value.tape
    upstream = contiguous(only(gradients))
    held = _values(value, 4) + _states(value)
    held.append(like(by_chunk, "delta_backward", "fp32"))
    for_value = like(value, "delta_backward")
    held.append(_states_backward(value))
    for_value = like(value, "delta_backward")
    for_query, for_key = (like(g, "delta_backward") for _ in range(2))
    last = like(value, "delta_backward")
    for_g = like(g, "delta_backward")
    for_beta = like(beta, "delta_backward", "fp32")
    held.append(like(by_chunk, "delta_backward", "fp32"))
    for_value = last
    del last
    second_query, second_key = (like(g, "delta_backward") for _ in range(2))
    tiles = new(tape, (Quotient((g.shape[3],), _TILE), *beta.shape), "fp32", "delta_backward")
    second_g = like(g, "delta_backward")
    summed = like(beta, "sum", "fp32")
    del tiles
    for_query, for_key, for_beta, for_g = second_query, second_key, summed, second_g
    del second_query, second_key, summed, second_g
    for_g = like(g, "delta_backward")
    del held, upstream
    for_query = like(query, "delta_backward")
    for_key = like(key, "delta_backward")
    if for_beta.dtype != beta.dtype:
        for_beta = like(beta, "to")
    gradients.clear()
    return [for_query, for_key, for_value, for_g, for_beta]


def _states_backward(value: Tensor) -> Tensor:
    batch, _, heads, width = value.shape
    return new(value.tape, (batch, DELTA_CHUNKS, heads, width, width), value.dtype, "delta_backward")
