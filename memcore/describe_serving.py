"""A server's estimate in words: whether it fits, how many users and how long a context. All faces share these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from memcore.describe import Verdict
from memcore.serving.answers import (
    fewest_gpus,
    largest_format,
    longest_context,
    most_users,
    utilization,
)
from memcore.serving.estimate import ServingEstimate
from memcore.units import format_bytes, format_count


def serving_verdict(found: ServingEstimate) -> Verdict:
    """Whether the server starts and takes what is asked, by how much, and what it holds."""
    _device, capacity = found.device, found.capacity
    gpus = "the GPU" if found.job.num_gpus == 1 else f"each of {found.job.num_gpus} GPUs"
    if capacity is None:
        needs = f"Needs {format_bytes(_least(found))} on {gpus} for {_asked(found)}."
        headline = f"{needs} Name an accelerator to see whether that fits."
        return Verdict("unknown", headline, _reason(found))
    level = _level(found)
    left = found.headroom or 0
    margin = f"{format_bytes(left)} are left" if left >= 0 else f"{format_bytes(-left)} are missing"
    where = "in the cache" if found.spare == left else f"on {gpus}"
    headline = f"{_LEVELS[level]} {_asked(found)}: {margin} {where}."
    return Verdict(level, headline, _reason(found))


_LEVELS = {
    "fits": "Fits",
    "tight": "Fits, but it may be tight, for",
    "over": "Does not fit as expected, though it may, for",
    "no": "Does not fit",
}


def _level(found: ServingEstimate) -> str:
    if found.fits:
        return "fits" if found.certain else "tight"
    return "no" if found.certain or _hopeless(found) else "over"


def _hopeless(found: ServingEstimate) -> bool:
    """Whether not even the low end of every range fits."""
    pool, capacity = found.pool, found.capacity or 0
    if found.device.low > capacity:
        return True
    return pool is not None and pool.capacity is not None and pool.capacity_high < found.needed


def _asked(found: ServingEstimate) -> str:
    """What must fit: `8 sequences of 4,096 tokens`."""
    count, length = found.users, format_count(found.asked_length)
    return f"a sequence of {length} tokens" if count == 1 else f"{count} sequences of {length} tokens"


def _least(found: ServingEstimate) -> int:
    """Bytes without an accelerator: everything but a pool, and what is asked of the pool."""
    asked = found.needed * found.pool.bytes_each if found.pool else 0
    return found.ledger.total + asked


def _reason(found: ServingEstimate) -> str:
    pool, parts = found.pool, []
    weights = found.ledger.sum("weights", "draft model", "adapters")
    parts.append(f"Weights take {format_bytes(weights)}")
    if pool is not None and pool.capacity is not None:
        room = pool.capacity * pool.bytes_each
        tokens = f", {format_count(pool.tokens)} tokens" if pool.tokens is not None else ""
        parts.append(f"the cache gets {format_bytes(room)}{tokens}")
        users = pool.users(found.job.basics.max_model_len) or 0
        parts.append(
            f"room for {format_count(users)} sequences of {format_count(found.job.basics.max_model_len)} tokens"
        )
    else:
        cache = found.ledger.sum("KV cache", "recurrent states")
        parts.append(f"the cache {format_bytes(cache)}")
    return ", ".join(parts) + "."


@dataclass(frozen=True, slots=True)
class Answer:
    """A question with its answer."""

    key: str
    question: str
    answer: str
    value: object


def answers(found: ServingEstimate) -> list[Answer]:
    """What people ask about a server."""
    return list(_answers(found))


def _answers(found: ServingEstimate) -> Iterator[Answer]:
    if found.capacity is None:
        return
    users, basics = found.users, found.job.basics
    longest = longest_context(found, users)
    if longest is not None:
        who = "one user" if users == 1 else f"{users} users"
        text = f"{format_count(longest)} tokens" if longest else "none"
        yield Answer("longest_context", f"Longest context for {who}", text, longest)
    for key, title, length in (
        ("users_at_longest", "longest", basics.max_model_len),
        ("users_at_mean", "mean", basics.mean_length),
    ):
        count = most_users(found, length)
        if count is not None:
            question = f"Users at the {title} length of {format_count(length)} tokens"
            yield Answer(key, question, format_count(count), count)
    gpus = fewest_gpus(found)
    yield Answer(
        "fewest_gpus", "Fewest GPUs of this kind", "more than 64, or none" if gpus is None else str(gpus), gpus
    )
    name = largest_format(found)
    yield Answer("largest_format", "Weight format with most bits that fits", name or "none", name)
    share = utilization(found)
    if share is not None:
        works = share.least <= share.most
        text = f"from {share.least:.3f} to {share.most:.3f}" if works else "no value works on this GPU"
        value = {"least": share.least, "most": share.most} if works else None
        yield Answer("gpu_memory_utilization", "gpu_memory_utilization that works", text, value)


def serving_title(found: ServingEstimate) -> str:
    """The job in one line."""
    job = found.job
    where = job.accelerator.name if job.accelerator else "GPU"
    parts = [
        f"{job.model.name} ({format_count(job.model.parameters)} parameters)",
        f"{job.server.title} on {job.num_gpus} × {where}" if job.num_gpus > 1 else f"{job.server.title} on one {where}",
        f"up to {format_count(job.basics.max_model_len)} tokens",
    ]
    return " · ".join(parts)
