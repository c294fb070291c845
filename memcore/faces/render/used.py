"""How full a GPU is, and what all of them hold together."""

from __future__ import annotations

from html import escape

from memcore.i18n.page import say
from memcore.memory import readings
from memcore.memory.estimate import Estimate
from memcore.serving.estimate import ServingEstimate
from memcore.units import format_bytes

_TIMES = 10
"""From how many times the capacity on percent say nothing."""


def used(found: Estimate | ServingEstimate) -> str:
    """The share of the fullest GPU, and the total where all GPUs hold the same: it needs no look at another rank."""
    alike = len(found.ranks) == 1
    count = found.ranks[0].count if alike else 0
    return _said(found, count, found.device.expected * count)


def used_of_all(found: Estimate | ServingEstimate) -> str:
    """Return how full the fullest GPU is, with the total over every class of ranks."""
    sizes = [(found.ranks[number].count, _held(found, number)) for number in range(len(found.ranks))]
    return _said(found, sum(count for count, _ in sizes), sum(count * size for count, size in sizes))


def _held(found: Estimate | ServingEstimate, number: int) -> int:
    """Return what the driver shows for a GPU of a class."""
    if isinstance(found, ServingEstimate):
        return found.ranks[number].ledger.total
    rank = found.ranks[number]
    if rank is found.rank:
        return found.device.expected
    return readings.device(rank, readings.reserved(rank)).expected


def _said(found: Estimate | ServingEstimate, count: int, total: int) -> str:
    parts = []
    if found.capacity:
        share = found.device.expected / found.capacity
        if share >= _TIMES:
            parts.append(say("used-times", times=f"{share:.0f}"))
        else:
            parts.append(say("used-share" if len(found.ranks) == 1 else "used-fullest", share=f"{100 * share:.0f}"))
    if count > 1:
        parts.append(say("used-total", count=count, size=format_bytes(total)))
    return escape(say("and-also").join(parts))
