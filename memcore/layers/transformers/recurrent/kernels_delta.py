"""flash-linear-attention 0.5 (fla-org): `ChunkGatedDeltaRuleFunction` in fla/ops/gated_delta_rule/chunk.py.

It keeps normalized queries and keys, and one matrix for each chunk and head; states and new values are computed again.
Local variables live as long here as they do there. Tiles are those of a GPU with an H100's shared memory.
"""

from __future__ import annotations

from memcore.networks.recurrences import DELTA_CHUNK, DELTA_CHUNKS
from memcore.symbols import Axis, Quotient, Shape
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import contiguous, like, new, only
from memcore.tensors.tensor import Tape, Tensor

_TILE = 128
"""Elements of a key that one program takes, at most (fla/ops/common/chunk_o.py, CONST_TILING)."""


def chunk_gated_delta_rule(
    query: Tensor, key: Tensor, value: Tensor, g: Tensor, beta: Tensor, *, grouped: bool, normalizes: bool = True
) -> Tensor:
    """The gated delta rule over (b, s, heads, width) in a few kernels; `grouped`: with fewer key than value heads.

    `normalizes`: queries and keys are made unit vectors first (`use_qk_l2norm_in_kernel`).
    """
    tape, inputs = query.tape, [query, key, value, g, beta]
    rows = _contiguous(query), _contiguous(key)
    value = _contiguous(value)
    (q, q_rstd), (k, k_rstd) = (normalized(each) if normalizes else (each, None) for each in rows)
    batch, length, heads, deep = value.shape
    wide = key.shape[3]
    g = new(tape, g.shape, "fp32", "delta_decay")
    chunk = new(tape, (batch, length, heads, DELTA_CHUNK), k.dtype, "delta_chunk")
    held = _values(k, (batch, length, heads, wide), value)
    states = new(tape, (batch, DELTA_CHUNKS, heads, wide, deep), k.dtype, "delta_states")
    held += [states, like(value, "delta_values")]
    out = like(value, "delta_rule")
    del held, states, rows
    if tracked(*inputs):
        saved = save(tape, q, q_rstd, k, k_rstd, value, g, beta, chunk)
        attach([out], inputs, saved, _Backward(tape, wide, grouped, normalizes))
    return out


def _contiguous(x: Tensor) -> Tensor:
    return contiguous(x.detach())


def normalized(x: Tensor) -> tuple[Tensor, Tensor]:
    """`l2norm_fwd`: the rows, and the reciprocal length of each."""
    return like(x, "delta_norm"), new(x.tape, x.shape[:-1], "fp32", "norm_statistics")


def _values(key: Tensor, wide: Shape, value: Tensor) -> list[Tensor]:
    """Return the WY representation of a chunk: w and u."""
    return [new(key.tape, wide, key.dtype, "delta_values"), like(value, "delta_values")]


class _Backward:
    """`chunk_gated_delta_rule_bwd`, then `l2norm_bwd` for queries and keys."""

    __slots__ = ("_autocast", "_grouped", "_normalizes", "_tape", "_wide")

    def __init__(self, tape: Tape, wide: Axis, grouped: bool, normalizes: bool) -> None:
        self._normalizes = normalizes
        self._tape = tape
        self._wide = wide
        self._grouped = grouped
        self._autocast = tape.autocast is not None

    def __call__(self, gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        query, key, value, g, beta = (saved[place] for place in ((0, 2, 4, 5, 6) if self._normalizes else range(5)))
        upstream = contiguous(only(gradients))
        batch, length, heads, deep = value.shape
        whole: Shape = (batch, length, heads, self._wide)
        states: Shape = (batch, DELTA_CHUNKS, heads, self._wide, deep)
        held = _values(key, whole, value)
        held += [self._make(states, key.dtype), like(value, "delta_backward")]
        for_values = like(value, "delta_backward")
        held.append(self._make(states, key.dtype))
        for_values = like(value, "delta_backward")
        for_query, for_key = (self._make(whole, key.dtype) for _ in range(2))
        tiles = self._make((Quotient((self._wide,), _TILE), *g.shape), "fp32")
        held.append(self._make(whole, key.dtype))
        if self._grouped:
            for_query = self._summed(query)
            for_key = self._summed(key)
        for_g = self._make(g.shape, "fp32", "sum")
        del tiles
        more = self._make(whole, key.dtype)
        last = like(value, "delta_backward")
        held.append(self._make(g.shape, "fp32"))
        for_beta = like(beta, "delta_backward")
        if self._grouped:
            more = self._summed(key)
        for_values = last
        del last
        for_g = self._make(g.shape, "fp32")
        del held, more, upstream
        if self._normalizes:
            for_query = like(query, "delta_backward")
            for_key = like(key, "delta_backward")
        gradients.clear()
        return [for_query, for_key, for_values, for_g, for_beta]

    def _make(self, shape: Shape, dtype: str, rule: str = "delta_backward") -> Tensor:
        return new(self._tape, shape, dtype, rule)

    def _summed(self, x: Tensor) -> Tensor:
        """Return a gradient summed over the value heads of a key head; autocast sums in fp32."""
        return like(x, "sum", "fp32" if self._autocast else None)
