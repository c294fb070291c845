"""vLLM's cache of DeepSeek-V4: layers that keep one vector for 4 or for 128 tokens, a window, and compressors' states.

Sources: vllm 0.23, v1/core/kv_cache_utils.py (group_and_unify_kv_cache_specs, _get_kv_cache_groups_uniform_groups,
_get_kv_cache_config_deepseek_v4), models/deepseek_v4/attention.py and compressor.py,
v1/attention/backends/mla/sparse_swa.py. All ranks of tensor parallelism hold the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction

from memcore.servers.vllm.experts import PLAIN_BLACKWELL
from memcore.servers.vllm.paging import Group, Pages, Paging, Spec
from memcore.symbols import round_up

_BLOCK, _WINDOW_BLOCK = 256, 64
"""Tokens of a block of compressed layers, and of the window that every layer has."""
_STATE_BLOCKS = {4: 4, 128: 8}
"""Tokens of a block of a compressor's states, by how many tokens become one."""
_PACKED, _ALIGNED = 584, 576
"""Bytes of a vector in fp8 (448 in fp8, 64 in 16 bits, 8 of scales), and what pages are multiples of."""


def kernel_heads(heads: int, major: int | None) -> int:
    """Return the heads that an attention kernel computes for a number of them (get_padded_num_q_heads)."""
    written = (16, 32, 64, 128) if major == PLAIN_BLACKWELL else (64, 128)  # FlashInfer's, and FlashMLA's
    return next((many for many in written if many >= heads), heads)


def compressed(ratios: Sequence[int], sizes: Mapping[str, int], pages: Pages, *, packed: bool) -> Paging:
    """Groups of some layers, by how many tokens become one in each; `packed`: the cache is in fp8."""
    head, index, window = sizes["head"], sizes["index"], sizes["window"]
    each = _PACKED if packed else 2 * head
    four, many = ratios.count(4), ratios.count(128)

    def page(size: int, *, aligned: bool = packed) -> int:
        return round_up(size, _ALIGNED) if aligned else size

    # Tokens in four layers out of eight are compressed with their indexer's keys: fp8, and a scale for each 128.
    full = Counter[int]()
    for size, count in (
        (page(_BLOCK // 4 * each), four),
        (page(_BLOCK // 4 * (index + 4 * -(-index // 128)), aligned=True), four),
        (page(_BLOCK // 128 * each), many),
    ):
        if count:
            full[size] += count
    if not full:
        return _windows(len(ratios), page(_WINDOW_BLOCK * each), window, pages)

    def padded(size: int) -> int:
        return min((other for other in full if other >= size), default=size)

    own = Spec(kind="sliding", block_size=_WINDOW_BLOCK, page=padded(page(_WINDOW_BLOCK * each)), window=window)
    sliding: list[tuple[Spec, ...]] = [(own,)]
    numbers = [len(ratios)]
    for ratio, count in ((4, four), (128, many)):
        overlap, block = 1 + (ratio == 4), _STATE_BLOCKS[ratio]
        widths = (head, index) if ratio == 4 else (head,)
        if count:
            states = tuple(padded(page(block * 2 * overlap * width * 4)) for width in widths)
            sliding.append(
                tuple(Spec(kind="sliding", block_size=block, page=size, window=overlap * ratio) for size in states)
            )
            numbers.append(count)
    return _packed(full, list(zip(sliding, numbers, strict=True)), pages)


def _packed(full: Counter[int], sliding: Sequence[tuple[tuple[Spec, ...], int]], pages: Pages) -> Paging:
    """Groups of as many layers as leave the least empty; layers of several groups share a place of one page."""
    first = sum(size * count for size, count in full.items())
    most = max(full.values())
    together = _least_padding([most, *(count for _, count in sliding)], most)
    places = dict(full)
    groups = [Group(Spec(kind="full", block_size=_BLOCK, page=first), most)]
    for specs, count in sliding:
        parts = -(-count // together)
        for number in range(parts):
            layers = -(-(count - number) // parts)
            held = Counter(spec.page for spec in specs)
            for size, times in held.items():
                places[size] = max(places.get(size, 0), times * layers)
            share = Fraction(sum(spec.page for spec in specs) * layers, first)
            groups.append(Group(specs[0], layers, share))
    block = sum(size * count for size, count in places.items())
    return Paging(tuple(groups), block, pages.in_flight, _BLOCK)


def _windows(layers: int, page: int, window: int, pages: Pages) -> Paging:
    """Layers of which none is compressed."""
    spec = Spec(kind="sliding", block_size=_WINDOW_BLOCK, page=page, window=window)
    return Paging((Group(spec, layers),), page * layers, pages.in_flight)


def _least_padding(counts: Sequence[int], least: int) -> int:
    """The size of groups that leaves the fewest places empty; the larger one where several do (_approximate_gcd)."""
    return min(range(least, max(counts) + 1), key=lambda size: (sum(-count % size for count in counts), -size))
