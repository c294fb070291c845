"""What is predicted for the quantities of measured serving cases.

Servers log the first rank: with a pipeline its own weights and what it leaves for the cache; the number of tokens is
that of the rank with the least room.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memcore.serving.estimate import ServingEstimate

_LOADED = ("weights", "draft model", "adapters")


def _cache(found: ServingEstimate) -> int | None:
    first = found.ranks[0]
    return first.available if first.available is not None else first.ledger.sum("KV cache", "recurrent states")


def _all_caches(found: ServingEstimate) -> int:
    kinds = ("KV cache", "recurrent states")
    host = found.budget.host.sum(*kinds) if found.budget.host else 0
    return host + sum(rank.count * rank.ledger.sum(*kinds) for rank in found.ranks)


_PREDICTIONS: Mapping[tuple[str, bool], Callable[[ServingEstimate], int | None]] = {
    ("weights", False): lambda found: found.ranks[0].ledger.sum(*_LOADED),
    ("kv_cache", False): _cache,
    ("kv_cache", True): _all_caches,
    ("kv_cache_tokens", False): lambda found: found.pool.tokens if found.pool else None,
    ("activations", False): lambda found: found.ranks[0].ledger.sum("activations", "workspaces"),
    ("max_allocated", False): lambda found: found.allocated.expected,
    ("max_reserved", False): lambda found: found.allocated.expected,
    ("device_used", False): lambda found: found.device.expected,
    ("fits", False): lambda found: None if found.fits is None else int(found.fits),
}


def predicted(found: ServingEstimate, quantity: str, *, total: bool) -> int | None:
    """A quantity of one GPU, or of all together; None if it is not predicted."""
    predict = _PREDICTIONS.get((quantity, total))
    return predict(found) if predict else None
