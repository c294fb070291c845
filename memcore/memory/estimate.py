"""The answer for a job of training: its ranks, its peak, and three readings of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from memcore import registry
from memcore.config.defaults import Assumption
from memcore.config.engine import EngineSettings
from memcore.memory import readings
from memcore.memory.ledger import Ledger
from memcore.memory.rank import Rank
from memcore.memory.readings import Reading
from memcore.messages import Message
from memcore.shown import Shown
from memcore.trace.job import Job
from memcore.trace.program import Moment


@dataclass(frozen=True, repr=False)
class Estimate(Shown):
    """The answer for one job; bytes are of the worst rank. What is costly is computed when it is asked for."""

    job: Job
    ranks: tuple[Rank, ...]
    """Every class of ranks that hold the same."""
    alternatives: tuple[Estimate, ...] = ()
    """The same job with other networks that its model may stand for."""

    @cached_property
    def rank(self) -> Rank:
        """The class that needs most."""
        return self.ranks[0] if len(self.ranks) == 1 else max(self.ranks, key=lambda rank: rank.most)

    @property
    def peak(self) -> Moment:
        """The moment that needs most."""
        return self.rank.peak

    @property
    def moments(self) -> tuple[Moment, ...]:
        """The moments of a step."""
        return self.rank.moments

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What the config leaves open, and what was taken."""
        return self.job.assumptions

    @cached_property
    def ledger(self) -> Ledger:
        """Everything in memory at the peak."""
        return self.rank.ledger(self.peak)

    @cached_property
    def allocated(self) -> Reading:
        """Bytes in tensors at the peak."""
        return self._widened(readings.allocated(self.rank), "allocated")

    @cached_property
    def reserved(self) -> Reading:
        """Bytes that the caching allocator holds."""
        return self._widened(readings.reserved(self.rank), "reserved")

    @cached_property
    def device(self) -> Reading:
        """Bytes that the driver shows for the GPU."""
        return self._widened(readings.device(self.rank, self.reserved), "device")

    @cached_property
    def worst_routing(self) -> Estimate | None:
        """The same job when all tokens go to the experts of one rank, if the config leaves their load open."""
        worst = self.job.worst_imbalance
        if worst is None or worst <= 1:
            return None
        own = registry.room(self.job.engine.name, "estimate")
        found: Estimate = own.estimate(self.job.config.replaced(EngineSettings.moe_load_imbalance, worst))
        return found

    def _widened(self, own: Reading, name: str) -> Reading:
        """A reading whose range covers every network that the model may stand for, and the worst load of experts."""
        if self.worst_routing is not None:
            worst: Reading = getattr(self.worst_routing, name)
            why = Message("{}; up to all tokens routed to one rank's experts", own.range_because)
            own = replace(own, high=max(own.high, worst.high), range_because=why)
        others: list[Reading] = [getattr(other, name) for other in self.alternatives]
        if not others:
            return own
        return replace(
            own,
            low=min(own.low, *(other.low for other in others)),
            high=max(own.high, *(other.high for other in others)),
            range_because=Message("{}; and every network that the model's config may describe", own.range_because),
        )

    @property
    def readings(self) -> tuple[Reading, Reading, Reading]:
        """All three."""
        return self.allocated, self.reserved, self.device

    @property
    def capacity(self) -> int | None:
        """Bytes of a GPU that a job can use; None if no accelerator is named."""
        return self.job.capacity

    @property
    def headroom(self) -> int | None:
        """Bytes of a GPU that are left; negative if the job does not fit."""
        return None if self.capacity is None else self.capacity - self.device.expected

    @property
    def fits(self) -> bool | None:
        """Whether the job fits; None if no accelerator is named."""
        if self.capacity is None:
            return None
        # More in tensors than the GPU has needs no look at the allocator, which takes longest.
        return self.allocated.expected <= self.capacity and self.capacity >= self.device.expected

    @property
    def certain(self) -> bool:
        """Whether all of the range is on the same side of the capacity."""
        return self.capacity is not None and not self.device.low <= self.capacity < self.device.high
