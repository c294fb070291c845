"""How fused matrices are laid out, and what is done to queries, keys and values before they are attended to."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memcore.networks.parts import Heads
from memcore.tensors.basics import narrow, permute, split, unmerged
from memcore.tensors.slices import split_sizes
from memcore.tensors.tensor import Tensor


def _per_head(fused: Tensor, heads: Heads) -> list[Tensor]:
    """GPT-NeoX: queries, keys and values of head after head, split once heads come first."""
    batch, length = fused.shape[:2]
    shape = (batch, heads.query, length, heads.width)
    return split(permute(fused, 0, 2, 1, 3, 4), shape, order=(0, 2, 1, 3))


def _thirds(fused: Tensor, heads: Heads) -> list[Tensor]:
    """GPT-2: all queries, all keys, all values."""
    parts = split(fused, (*fused.shape[:2], heads.query, heads.width))
    return [permute(unmerged(each, 2), 0, 2, 1, 3) for each in parts]


def _grouped(fused: Tensor, heads: Heads) -> list[Tensor]:
    """Phi-3: slices, whose gradients are tensors of the full size; the module holds on to what they are slices of."""
    parts = [narrow(fused, 2, count) for count in (heads.query, heads.key, heads.key)]
    return [*(permute(unmerged(each, 2), 0, 2, 1, 3) for each in parts), fused]


def _shared(fused: Tensor, heads: Heads) -> list[Tensor]:
    """GPT-BigCode: all queries, and one head of keys and of values."""
    query, key, value = split_sizes(fused, 2, (heads.query, heads.key, heads.key))
    return [permute(unmerged(query, 2), 0, 2, 1, 3), permute(key, 0, 2, 1, 3), permute(value, 0, 2, 1, 3)]


def _grouped_split(fused: Tensor, heads: Heads) -> list[Tensor]:
    """DBRX: the same, split at once, so that their gradients are concatenated."""
    parts = split_sizes(fused, 2, (heads.query, heads.key, heads.key))
    return [*(permute(unmerged(each, 2), 0, 2, 1, 3) for each in parts), fused]


LAYOUTS: Mapping[str, Callable[[Tensor, Heads], list[Tensor]]] = {
    "per-head": _per_head,
    "thirds": _thirds,
    "grouped": _grouped,
    "grouped-split": _grouped_split,
    "shared": _shared,
}
"""By `Attention.fused`: a fused matrix's result to queries, keys and values as (b, heads, s, d), and to what the module
holds until it ends."""
