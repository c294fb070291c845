"""Which GPUs a training job may run on: the fewest of each kind, and what its tokens take there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import dropwhile
from math import inf
from types import MappingProxyType

from memcore.config.devices import node_of, whole
from memcore.config.hardware import Hardware
from memcore.config.settings import Config
from memcore.errors import MemcoreError
from memcore.estimation import estimate
from memcore.hardware import Accelerator, alike
from memcore.memory.estimate import Estimate
from memcore.questions.costs import Range, cost_of, seconds_of
from memcore.questions.planning.budget import budget_of
from memcore.questions.roofline import roofline_for
from memcore.records import dataclass

MOST = 4096
"""GPUs that are tried at most."""
BILLION = 10**9
"""Tokens by default."""


@dataclass(frozen=True, slots=True)
class TrainedOn:
    """The fewest GPUs of a kind on which a training job fits."""

    id: str
    name: str
    gpus: int | None
    """None: no number up to `MOST` fits."""
    nodes: int | None
    seconds: Range | None
    """The time of a step (roofline estimate)."""
    gpu_hours: Range | None
    """GPU-hours for a number of tokens."""
    money: Range | None = None
    """What they cost, in the currency of the prices; None without a price for this kind."""


def gpus_to_train(
    found: Estimate, tokens: int = BILLION, prices: Mapping[str, float] = MappingProxyType({})
) -> list[TrainedOn]:
    """Return how many of each accelerator that can stand for the job's it takes, the micro-batch kept as it is.

    Up to a node GPUs double; beyond, the fewest whole nodes count. Fewer than a larger accelerator needs are not tried.
    With prices of a GPU-hour by accelerator only these are weighed, and the cheapest comes first.
    """
    config, least, rows = found.job.config, 1, {}
    kinds = [each for each in alike(found.job.accelerator) if not prices or each.id in prices]
    for each in sorted(kinds, key=lambda each: each.usable, reverse=True):
        fewest = _fewest(config, each, least)
        least = least if fewest is None else fewest.job.num_gpus
        rows[each.id] = _row(each, fewest, tokens, prices.get(each.id))
    return sorted((rows[each.id] for each in kinds), key=lambda row: row.money[1] if row.money else inf)


def _fewest(config: Config, kind: Accelerator, least: int) -> Estimate | None:
    fails, node = least - 1, node_of(config)
    for count in dropwhile(lambda count: count < least, _counts(node)):
        found = _fitting(config, kind, count)
        if found is not None:
            break
        fails = count
    else:
        return None
    low, high = fails // node, found.job.num_gpus // node
    while high - low > 1:
        middle = (low + high) // 2
        fewer = _fitting(config, kind, middle * node)
        low, high, found = (middle, high, found) if fewer is None else (low, middle, fewer)
    return found


def _fitting(config: Config, kind: Accelerator, gpus: int) -> Estimate | None:
    """Return the job on a number of GPUs of a kind, if it fits there."""
    try:
        found = estimate(config.changed({**whole(kind.id), Hardware.num_gpus: gpus}))
    except MemcoreError:
        return None
    return found if isinstance(found, Estimate) and found.fits else None


def _counts(node: int) -> Iterator[int]:
    """Yield powers of two within a node, then powers of two of whole nodes."""
    count = 1
    while count < node:
        yield count
        count *= 2
    while node <= MOST:
        yield node
        node *= 2


def _row(kind: Accelerator, found: Estimate | None, tokens: int, price: float | None) -> TrainedOn:
    if found is None:
        return TrainedOn(kind.id, kind.name, None, None, None, None)
    cost, gpus = cost_of(found.job, roofline_for(found.job.config)), found.job.num_gpus
    seconds, nodes = seconds_of(cost), -(-gpus // node_of(found.job.config))
    budget = budget_of(seconds, cost.tokens, gpus, tokens, price)
    return TrainedOn(kind.id, kind.name, gpus, nodes, seconds, budget.gpu_hours, budget.money)
