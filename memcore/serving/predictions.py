"""What is predicted for the quantities of measured serving cases, within which bounds.

Servers log the first rank: with a pipeline its own weights and what it leaves for the cache; the number of tokens is
that of the rank with the least room.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memcore.memory.ledger import Ledger, Range
from memcore.memory.readings import Reading
from memcore.serving.estimate import ServingEstimate
from memcore.units import MiB

_LOADED = ("weights", "draft model", "adapters")
_SMALL = 100 * MiB
"""What logs of small models differ by, whatever their size: 42 to 100 MiB more in five starts of Qwen2.5 since 0.22."""
_ALIVE = 0.1
"""Share by which printed peaks differ at equal settings, as which tensors live at once is inductor's or ggml's choice;
small ones by as much as weights do. Of 40 readings with at most two assumed settings, 32 are within both."""
_CACHES = ("KV cache", "recurrent states")


def _exact(size: int) -> Range:
    return Range(size, size, size)


def _together(ledger: Ledger, *categories: str) -> Range:
    found = [entry for entry in ledger.entries if entry.category in categories]
    return Range(
        sum(entry.low for entry in found), sum(entry.bytes for entry in found), sum(entry.high for entry in found)
    )


def _of_first(*categories: str) -> Callable[[ServingEstimate], Range]:
    return lambda found: _together(found.ranks[0].ledger, *categories)


def _weights(found: ServingEstimate) -> Range:
    categories = [each for each in _LOADED if each not in found.job.server.logs_apart]
    own = _together(found.ranks[0].ledger, *categories)
    server = found.job.server
    seen = Range(0, 0, 0) if server.seems is None else server.seems(found.job)
    less, more = (
        max(int(own.expected * share), _SMALL, each)
        for share, each in zip(server.described, (-seen.low, seen.high), strict=True)
    )
    return Range(own.low - less, own.expected + seen.expected, own.high + more)


def _activations(found: ServingEstimate) -> Range:
    """Return what is printed as such: the middle moves by what a server counts differently, and the range with it."""
    first = found.ranks[0]
    own = _together(first.ledger, "activations", "workspaces")
    said = first.printed or own
    doubt = int(_ALIVE * said.expected) + (0 if first.printed is None else _SMALL)
    return Range(max(said.low - doubt, 0), said.expected, said.high + doubt)


def _cache(found: ServingEstimate) -> Range:
    first = found.ranks[0]
    if first.available is None:
        return _together(first.ledger, *_CACHES)
    less, more = first.uncertain
    return Range(max(first.available - less, 0), first.available, first.available + more)


def _all_caches(found: ServingEstimate) -> Range:
    host = found.budget.host.sum(*_CACHES) if found.budget.host else 0
    return _exact(host + sum(rank.count * rank.ledger.sum(*_CACHES) for rank in found.ranks))


def _tokens(found: ServingEstimate) -> Range | None:
    pool = found.pool
    if pool is None or pool.tokens is None:
        return None
    other = pool.tokens if pool.tokens_otherwise is None else pool.tokens_otherwise
    low, high = min(pool.tokens, other), max(pool.tokens, other)
    capacity = pool.capacity or 1
    return Range(low * pool.capacity_low // capacity, pool.tokens, high * pool.capacity_high // capacity)


def _blocks(found: ServingEstimate) -> Range | None:
    pool = found.pool
    if pool is None or pool.unit != "blocks" or pool.capacity is None:
        return None
    return Range(pool.capacity_low, pool.capacity, pool.capacity_high)


def _verdict(*, fits: bool, certain: bool) -> Range:
    """1 if the server starts, 0 if it does not; from 0 to 1 where the answer is that it is close."""
    return Range(int(fits and certain), int(fits), int(fits or not certain))


def _read(reading: Reading) -> Range:
    return Range(reading.low, reading.expected, reading.high)


_PREDICTIONS: Mapping[tuple[str, bool], Callable[[ServingEstimate], Range | None]] = {
    ("weights", False): _weights,
    ("kv_cache", False): _cache,
    ("kv_cache", True): _all_caches,
    ("kv_cache_tokens", False): _tokens,
    ("kv_cache_blocks", False): _blocks,
    ("activations", False): _activations,
    ("cuda_graphs", False): _of_first("CUDA graphs"),
    ("cuda_graphs_estimated", False): lambda found: found.ranks[0].graphs_estimated,
    ("non_torch", False): _of_first("outside the allocator"),
    ("max_allocated", False): lambda found: _read(found.allocated),
    ("max_reserved", False): lambda found: _read(found.allocated),
    ("device_used", False): lambda found: _read(found.device),
    ("fits", False): lambda found: None if found.fits is None else _verdict(fits=found.fits, certain=found.certain),
}


def predicted(found: ServingEstimate, quantity: str, *, total: bool) -> Range | None:
    """Return a quantity of one GPU, or of all together; None if it is not predicted."""
    predict = _PREDICTIONS.get((quantity, total))
    own = predict(found) if predict else None
    if predict is None or own is None or quantity == "fits":
        return own
    others = [each for each in map(predict, found.recipes) if each is not None]
    return Range(
        min([own.low, *(each.low for each in others)]), own.expected, max([own.high, *(each.high for each in others)])
    )
