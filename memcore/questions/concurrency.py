"""How many users a server takes at which length: the boundary of what fits, one length at a time."""

from __future__ import annotations

from collections.abc import Iterator

from memcore.config.settings import Config
from memcore.errors import MemcoreError
from memcore.records import dataclass
from memcore.serving.estimate import ServingEstimate, estimate
from memcore.serving.inference import Inference

SHORTEST, COLUMNS = 512, 9
"""Tokens of the shortest length that is looked at, and the most lengths."""


@dataclass(frozen=True, slots=True)
class Concurrency:
    """Users of one length at the same time."""

    length: int
    full: int
    """Of whom all may use the whole length; 0: the server does not start with it."""
    usual: int
    """Of the mean length: if more of them are long at once, some wait until others are done."""


def lengths(found: ServingEstimate) -> tuple[int, ...]:
    """Powers of two up to what the model was made for, and what is asked; the longest ones if there are many."""
    asked = found.job.basics.max_model_len
    most = max(found.job.model.sizes["P"], asked)
    powers = {2**power for power in range(SHORTEST.bit_length() - 1, most.bit_length()) if 2**power <= most}
    every = sorted(powers | {asked})
    chosen = every[-COLUMNS:]
    return tuple(chosen if asked in chosen else (asked, *chosen[1:]))


def concurrencies(config: Config, found: ServingEstimate) -> Iterator[Concurrency]:
    """Yield the boundary, one length after the other; nothing where a server has no pool, or no capacity is known."""
    if found.pool is None or found.pool.capacity is None:
        return
    for length in lengths(found):
        try:
            then = estimate(config.changed({Inference.max_model_len: length, Inference.batch_size: 1}))
        except MemcoreError:  # a prompt that is longer
            continue
        pool = then.pool
        if pool is None or not then.fits:
            yield Concurrency(length, 0, 0)
            continue
        full = pool.users(length) or 0
        yield Concurrency(length, full, max(full, pool.users(min(then.job.basics.mean_length, length)) or 0))


def users(every: list[Concurrency], asked: int) -> tuple[int, ...]:
    """Powers of two as long as one length takes them, and what is asked; the most first."""
    most = max(1, *(each.usual for each in every))
    powers = {2**power for power in range(most.bit_length())}
    return tuple(sorted(powers | {asked}, reverse=True))
