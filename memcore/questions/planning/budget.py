"""What a run takes that trains on a number of tokens: days, GPU-hours, and money at a given price."""

from __future__ import annotations

from memcore.questions.costs import Range
from memcore.records import dataclass

HOUR, DAY = 3600, 86400
"""Seconds."""
KILO = 1000


@dataclass(frozen=True, slots=True)
class Budget:
    """A run of a plan over all its tokens; ranges are those of the step time, without failures and restarts."""

    tokens: int
    """Tokens that the run trains on."""
    days: Range
    """Days of the whole run."""
    gpu_hours: Range
    """Hours of all GPUs together."""
    money: Range | None
    """GPU-hours times the price, in the price's currency; None without a price."""
    energy: Range | None = None
    """Kilowatt-hours if every GPU draws what its board may draw at most; None where that is unknown.

    The model cards of Llama 3 state energy so; hosts, networks and cooling are not counted.
    """


def budget_of(
    seconds: Range, step: int, gpus: int, tokens: int, price: float | None, watts: int | None = None
) -> Budget:
    """Return the budget of a run: `step` tokens in each step of `seconds`, on `gpus` of `watts` each.

    A GPU-hour costs `price`.
    """
    low, expected, high = (each * tokens / step for each in seconds)
    hours = (low * gpus / HOUR, expected * gpus / HOUR, high * gpus / HOUR)
    money = None if price is None else (hours[0] * price, hours[1] * price, hours[2] * price)
    energy = None if watts is None else (hours[0] * watts / KILO, hours[1] * watts / KILO, hours[2] * watts / KILO)
    return Budget(tokens, (low / DAY, expected / DAY, high / DAY), hours, money, energy)
