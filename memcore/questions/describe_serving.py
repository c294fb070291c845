"""A server's estimate in words: whether it fits, how many users and how long a context. All faces share these."""

from __future__ import annotations

from collections.abc import Iterator

from memcore.i18n.page import say, translated
from memcore.messages import Message
from memcore.questions.costs import Range
from memcore.questions.describe import Verdict
from memcore.questions.serving_speed import ServingSpeed, pace_unknown, serving_speed
from memcore.records import dataclass
from memcore.serving.answers import (
    MOST_USERS,
    fewest_gpus,
    largest_format,
    longest_context,
    most_users,
    multiplies,
    utilization,
)
from memcore.serving.estimate import ServingEstimate
from memcore.units import format_bytes, format_count


def serving_verdict(found: ServingEstimate) -> Verdict:
    """Return whether the server starts and takes what is asked, by how much, and what it holds."""
    _device, capacity = found.device, found.capacity
    count = found.job.num_gpus
    gpus = say("one-gpu") if count == 1 else say("many-gpus", count=count)
    if capacity is None:
        headline = say("serves-unknown", size=format_bytes(_least(found)), gpus=gpus, asked=_asked(found))
        return Verdict("unknown", headline, _reason(found))
    level = serving_level(found)
    if found.refused is not None:
        longest = format_count(found.job.basics.max_model_len)
        return Verdict(level, say("serves-refused", length=longest), _reason(found))
    left = found.headroom or 0
    margin = say("serves-left" if left >= 0 else "missing", size=format_bytes(abs(left)))
    where = say("serves-in-cache") if found.spare == left else say("serves-on", gpus=gpus)
    headline = say(f"serves-{level}", asked=_asked(found), margin=margin, where=where)
    return Verdict(level, headline, _reason(found))


def serving_level(found: ServingEstimate) -> str:
    """Return whether a server takes what is asked: the `level` of a verdict."""
    if found.fits:
        return "fits" if found.certain else "tight"
    return "no" if found.certain or _hopeless(found) else "over"


def _hopeless(found: ServingEstimate) -> bool:
    """Return whether not even the low end of every range fits."""
    pool, capacity = found.pool, found.capacity or 0
    if found.device.low > capacity:
        return True
    return pool is not None and pool.capacity is not None and pool.capacity_high < found.needed


def _asked(found: ServingEstimate) -> str:
    """Return what must fit: `8 sequences of 4,096 tokens`."""
    return _sequences(found.users, found.asked_length)


def _sequences(count: int, length: int) -> str:
    tokens = format_count(length)
    if count != 1:
        return say("serves-many", count=format_count(count), length=tokens)
    return say("serves-one", length=tokens) if length != 1 else say("serves-a-token")


def _least(found: ServingEstimate) -> int:
    """Return bytes without an accelerator: everything but a pool, and what is asked of the pool."""
    return found.ledger.total + asked_of_pool(found)


def asked_of_pool(found: ServingEstimate) -> int:
    """Return the bytes that what is asked takes of a pool whose size nobody knows; 0 where the ledger has the cache."""
    pool = found.pool
    return found.needed * pool.bytes_each if pool is not None and pool.capacity is None else 0


def _reason(found: ServingEstimate) -> str:
    pool, length = found.pool, found.job.basics.max_model_len
    weights = format_bytes(found.ledger.sum("weights", "draft model", "adapters"))
    if pool is None or pool.capacity is None:
        cache = found.ledger.sum("KV cache", "recurrent states") + asked_of_pool(found)
        return say("serves-caches", weights=weights, cache=format_bytes(cache))
    if not pool.capacity:
        return say("serves-pool-none", weights=weights)
    room, sure = pool.users(length) or 0, pool.certain_users(length) or 0
    return say(
        "serves-pool" if room else "serves-pool-short",
        weights=weights,
        cache=format_bytes(pool.capacity * pool.bytes_each),
        tokens="" if pool.tokens is None else say("serves-pool-tokens", count=format_count(pool.tokens)),
        sequences=_sequences(room or 1, length),
        certain=say("serves-certain", count=format_count(sure)) if 0 < sure < room else "",
    )


@dataclass(frozen=True, slots=True)
class Answered:
    """A question with its answer."""

    key: str
    question: str
    answer: str
    value: object


def answers(found: ServingEstimate) -> list[Answered]:
    """Return what people ask about a server."""
    return list(_answers(found))


def _answers(found: ServingEstimate) -> Iterator[Answered]:
    if found.capacity is None:
        return
    users, basics = found.users, found.job.basics
    longest = longest_context(found, users)
    if longest is not None:
        question = say("serves-longest-one") if users == 1 else say("serves-longest", count=users)
        text = say("serves-tokens", count=format_count(longest)) if longest else say("serves-none")
        yield Answered("longest_context", question, text, longest)
    for key, title, length in (
        ("users_at_longest", "longest", basics.max_model_len),
        ("users_at_mean", "mean", basics.mean_length),
    ):
        count = most_users(found, length)
        if count is not None and count < MOST_USERS:  # without a cache, memory does not limit them
            question = say(f"serves-users-{title}", count=format_count(length))
            sure = found.pool.certain_users(length) if found.pool else None
            text = say("serves-certain", count=format_count(sure)) if sure and sure < count else ""
            yield Answered(key, question, format_count(count) + text, count)
    gpus = fewest_gpus(found)
    yield Answered("fewest_gpus", say("serves-fewest"), say("serves-no-count") if gpus is None else str(gpus), gpus)
    name = largest_format(found)
    text = say("serves-none-alone") if name is None else name
    if name is not None and not multiplies(found, name):
        text = say("serves-unpacked", format=name)
    yield Answered("largest_format", say("serves-format"), text, name)
    share = utilization(found)
    if share is not None:
        works = share.least <= share.most
        text = say("serves-no-value")
        if works:
            text = say("serves-from-to", least=f"{share.least:.3f}", most=f"{share.most:.3f}")
        value = {"least": share.least, "most": share.most} if works else None
        yield Answered("gpu_memory_utilization", say("serves-utilization"), text, value)
    speed = serving_speed(found)
    why = pace_unknown(found)
    if speed is not None:
        yield from _speeds(speed)
    elif why is not None:
        text = say("pace-unknown-said", why=why)
        yield Answered("tokens_per_second_unknown", say("pace-unknown"), text, why)


def _speeds(speed: ServingSpeed) -> Iterator[Answered]:
    length = format_count(speed.length)
    yield Answered(
        "tokens_per_second", say("serves-pace", length=length), tokens_in_words(speed), span_data(speed.tokens)
    )
    if speed.mixed_tokens is not None:
        text = _in_words(speed.mixed_tokens, speed.users)
        yield Answered("tokens_per_second_mixed", say("serves-mixed"), text, span_data(speed.mixed_tokens))
    if speed.first is not None:
        text = say("serves-range", **_rounded(speed.first))
        yield Answered("first_token_seconds", say("serves-first", length=length), text, span_data(speed.first))


def tokens_in_words(speed: ServingSpeed) -> str:
    """Return a user's tokens per second, and those of all: `41 (30 to 55); 330 in all`."""
    return _in_words(speed.tokens, speed.users)


def pace_in_words(speed: ServingSpeed) -> str:
    """Return one user's tokens per second alone: `41 (30 to 55)`."""
    return _in_words(speed.tokens, 1)


def _in_words(tokens: Range, users: int) -> str:
    numbers = _rounded(tokens)
    if users == 1:
        return say("serves-range", **numbers)
    total = _figure(tokens[1] * users)
    return say("serves-range-all", **numbers, total=total)


def span_data(found: Range) -> dict[str, float]:
    """Return a range for JSON."""
    return dict(zip(("low", "expected", "high"), found, strict=True))


def _rounded(found: Range) -> dict[str, str]:
    return {name: _figure(value) for name, value in span_data(found).items()}


def _figure(value: float) -> str:
    """Return two digits of a number: a range says how little more would mean."""
    return f"{float(f'{value:.2g}'):,.0f}" if value >= 10 else f"{value:.2g}"


def serving_title(found: ServingEstimate) -> str:
    """Return the job in one line."""
    job = found.job
    gpu = job.accelerator.name if job.accelerator else "GPU"
    key = "cli-on-many" if job.num_gpus > 1 else "cli-engine-on-one"
    parts = [
        say("cli-model", name=job.model.name, count=format_count(job.model.parameters)),
        say(key, engine=job.title, count=job.num_gpus, gpu=gpu),
        translated(Message("up to {} tokens", format_count(job.basics.max_model_len))),
    ]
    return " · ".join(parts)
