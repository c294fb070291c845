"""A server's estimate as plain data for JSON; sizes are bytes."""

from __future__ import annotations

from typing import Any

from memcore.faces.render.data import answered, entry_data
from memcore.questions.describe_serving import answers, serving_verdict
from memcore.serving.answers import curve, sleep_phases
from memcore.serving.estimate import ServingEstimate
from memcore.serving.presets import question_parts
from memcore.version import __version__


def serving_summary_data(found: ServingEstimate) -> dict[str, Any]:
    """Return what `memcore estimate --json` prints for a server."""
    pool = found.pool
    return {
        **answered(found, serving_verdict(found)),
        "task": "inference",
        "breakdown": dict(found.ledger.by_category),
        "parts": {part.name: part.bytes for part in question_parts(found)},
        "budget": {"title": found.budget.line_title, "bytes": found.budget.line, "notes": list(found.notes)},
        "pool": None
        if pool is None
        else {
            "unit": pool.unit,
            "capacity": pool.capacity,
            "capacity_low": pool.capacity_low,
            "capacity_high": pool.capacity_high,
            "bytes_of_a_unit": pool.bytes_each,
            "tokens": pool.tokens,
            "replicas": pool.replicas,
            "needed": found.needed,
            "maximum_concurrency": pool.concurrency(found.job.basics.max_model_len),
        },
        "ranks": [
            {
                "name": rank.name,
                "count": rank.count,
                "bytes": rank.ledger.total,
                "kv_cache_bytes": rank.available,
                "cuda_graphs_estimated_bytes": rank.graphs_estimated.expected if rank.graphs_estimated else None,
                "breakdown": dict(rank.ledger.by_category),
            }
            for rank in found.ranks
        ],
        "answers": {each.key: each.value for each in answers(found)},
        "users_by_length": [{"length": point.length, "users": point.users} for point in curve(found)],
        "phases": [
            {"name": each.name, "bytes": each.held, "free_bytes": each.free, "why": each.why}
            for each in sleep_phases(found)
        ],
    }


def serving_explanation_data(found: ServingEstimate) -> dict[str, Any]:
    """Return what `memcore explain --json` prints for a server."""
    return {
        "memcore": __version__,
        "config": found.job.config.to_dict(),
        "task": "inference",
        "bytes": found.ledger.total,
        "breakdown": dict(found.ledger.by_category),
        "entries": [
            {**entry_data(entry), "low_bytes": entry.low, "high_bytes": entry.high} for entry in found.ledger.entries
        ],
    }
