"""Which GPUs a training job may run on: the fewest of each kind, and what its tokens take there."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import dropwhile

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
_BILLION = 10**9


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
    """GPU-hours for a billion tokens: times a price, what they cost."""


def gpus_to_train(found: Estimate) -> list[TrainedOn]:
    """Return how many of each accelerator that can stand for the job's it takes, the micro-batch kept as it is.

    Up to a node GPUs double, then whole nodes do. Fewer than a larger accelerator needs are not tried.
    """
    config, least, rows = found.job.config, 1, {}
    kinds = alike(found.job.accelerator)
    for each in sorted(kinds, key=lambda each: each.usable, reverse=True):
        fewest = _fewest(config, each, least)
        least = least if fewest is None else fewest.job.num_gpus
        rows[each.id] = _row(each, fewest)
    return [rows[each.id] for each in kinds]


def _fewest(config: Config, kind: Accelerator, least: int) -> Estimate | None:
    for count in dropwhile(lambda count: count < least, _counts(node_of(config))):
        try:
            then = estimate(config.changed({**whole(kind.id), Hardware.num_gpus: count}))
        except MemcoreError:
            continue
        if isinstance(then, Estimate) and then.fits:
            return then
    return None


def _counts(node: int) -> Iterator[int]:
    """Yield powers of two within a node, then powers of two of whole nodes."""
    count = 1
    while count < node:
        yield count
        count *= 2
    while node <= MOST:
        yield node
        node *= 2


def _row(kind: Accelerator, found: Estimate | None) -> TrainedOn:
    if found is None:
        return TrainedOn(kind.id, kind.name, None, None, None, None)
    cost, gpus = cost_of(found.job, roofline_for(found.job.config)), found.job.num_gpus
    seconds, nodes = seconds_of(cost), -(-gpus // node_of(found.job.config))
    hours = budget_of(seconds, cost.tokens, gpus, _BILLION, None).gpu_hours
    return TrainedOn(kind.id, kind.name, gpus, nodes, seconds, hours)
