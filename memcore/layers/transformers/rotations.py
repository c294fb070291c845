"""How families apply their rotations to queries and keys: what differs from Llama's.

Interleaved rotations pair neighbours instead of halves: slices with a step and a stack allocate what slices and a
concatenation do. Local variables live as long here as they do in `models/*/modeling_*.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memcore.symbols import Axis, Shifted, half
from memcore.tensors.basics import cat, narrow, new, split, to
from memcore.tensors.operations import add, mul, scale, sub
from memcore.tensors.tensor import Tensor

Rotation = Callable[..., tuple[Tensor, ...]]
"""Queries, keys, cosines and sines to queries and keys, and to what the attention module holds until it ends."""


def parted(x: Tensor, width: Axis) -> tuple[Tensor, Tensor]:
    """Return the elements of a head that are rotated and the rest; a slice of everything is no slice."""
    full = x.shape[3]
    return x if width == full else narrow(x, 3, width), narrow(x, 3, Shifted(full, -1, width))


def rotate_half(x: Tensor) -> Tensor:
    """Return the halves of a head, or its neighbours, exchanged and one of them negated."""
    last = len(x.shape) - 1
    width = half(x.shape[last])
    x1 = narrow(x, last, width)
    x2 = narrow(x, last, width)
    return cat([scale(x2, "neg"), x1], x.shape)


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x * cos + rotate_half(x) * sin."""
    return add(mul(x, cos), mul(rotate_half(x), sin))


def _repeat_interleave(x: Tensor) -> Tensor:
    """Each element of the first half of a table twice."""
    return new(x.tape, x.shape, x.dtype, "rotary")


def _in_fp32(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
    """OLMo: fp32 tables make the rotation fp32."""
    q_embed = rotated(q, cos, sin)
    k_embed = rotated(k, cos, sin)
    return to(q_embed, q.dtype), to(k_embed, k.dtype)


def _interleaved_in_fp32(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
    """ERNIE 4.5: each product is upcast on its own."""
    cos = _repeat_interleave(cos)
    sin = _repeat_interleave(sin)
    q_embed = add(mul(to(q, "fp32"), cos), mul(to(rotate_half(q), "fp32"), sin))
    k_embed = add(mul(to(k, "fp32"), cos), mul(to(rotate_half(k), "fp32"), sin))
    return to(q_embed, q.dtype), to(k_embed, k.dtype)


def _interleaved_upcast(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
    """Cohere: queries and keys are upcast first."""
    dtype = q.dtype
    q = to(q, "fp32")
    k = to(k, "fp32")
    q_embed = rotated(q, cos, sin)
    k_embed = rotated(k, cos, sin)
    return to(q_embed, dtype), to(k_embed, dtype)


def _interleaved_partial(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
    """GLM."""
    cos = _repeat_interleave(cos)
    sin = _repeat_interleave(sin)
    (q_rot, q_pass), (k_rot, k_pass) = parted(q, cos.shape[-1]), parted(k, cos.shape[-1])
    q_embed = rotated(q_rot, cos, sin)
    k_embed = rotated(k_rot, cos, sin)
    q_embed = cat([q_embed, q_pass], q.shape)
    k_embed = cat([k_embed, k_pass], k.shape)
    return q_embed, k_embed


def _partial_each(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
    """Phi-3: queries are done before keys begin."""
    (q_rot, q_pass), (k_rot, k_pass) = parted(q, cos.shape[-1]), parted(k, cos.shape[-1])
    q_embed = cat([rotated(q_rot, cos, sin), q_pass], q.shape)
    k_embed = cat([rotated(k_rot, cos, sin), k_pass], k.shape)
    return q_embed, k_embed


def _partial_both(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
    """Nemotron: both rotated parts live until the end."""
    (q_rot, q_pass), (k_rot, k_pass) = parted(q, cos.shape[-1]), parted(k, cos.shape[-1])
    q_embed = rotated(q_rot, cos, sin)
    k_embed = rotated(k_rot, cos, sin)
    return cat([q_embed, q_pass], q.shape), cat([k_embed, k_pass], k.shape)


def _chunked(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
    """gpt-oss: halves are split at once."""
    return _chunked_each(q, cos, sin), _chunked_each(k, cos, sin)


def _chunked_each(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first_half, second_half = split(x, (*x.shape[:3], half(x.shape[3])), 2, order=x.order, cut=3)
    first_ = sub(mul(first_half, cos), mul(second_half, sin))
    second_ = add(mul(second_half, cos), mul(first_half, sin))
    return cat([first_, second_], x.shape)


DENSE: Mapping[str, Rotation] = {
    "chunked": _chunked,
    "full-fp32": _in_fp32,
    "interleaved-fp32": _interleaved_in_fp32,
    "interleaved-upcast": _interleaved_upcast,
    "interleaved-partial": _interleaved_partial,
    "partial-each": _partial_each,
    "partial-both": _partial_both,
}
"""By `Attention.rotary`."""

IN_FP32 = frozenset({"full-fp32", "interleaved-fp32"})
"""Rotations whose tables stay in fp32."""

WHOLE = frozenset({"full", "full-fp32", "interleaved-fp32", "interleaved-upcast"})
"""Rotations of whole heads."""
