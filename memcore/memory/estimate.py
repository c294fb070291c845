"""The answer for a job of training: its ranks, its peak, and three readings of it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cached_property

from memcore import registry
from memcore.config.engine import EngineSettings
from memcore.errors import MemcoreError
from memcore.memory import readings
from memcore.memory.answer import Answer
from memcore.memory.doubts import Part
from memcore.memory.ledger import Ledger
from memcore.memory.rank import Rank
from memcore.memory.readings import Reading
from memcore.messages import Message
from memcore.records import dataclass
from memcore.trace.job import Job
from memcore.trace.program import Moment

SKEW = 1.5
"""How many times its even share the most loaded rank's experts get in measured runs of torchtitan's DeepSeek-V3 (78 GiB
of 77 with 1.5; tests/truth/hardware.json, torchtitan-ds16-ep8) and of Megatron's nightly tests."""

_FORMER = "defaults of the framework's former releases"


@dataclass(frozen=True, repr=False)
class Estimate(Answer):
    """The memory of a training job; sizes are bytes per GPU, those of the rank that needs most.

    `estimate` returns it. Costly parts are computed when they are first read. `print` shows a line, a notebook shows
    the memory bar and the timeline.
    """

    job: Job
    """The job with all defaults filled in: `job.config`, `job.model`, `job.accelerator`, `job.sizes`."""
    ranks: tuple[Rank, ...]
    """One element for each class of ranks with the same memory, such as the ranks of a pipeline stage."""
    alternatives: tuple[Estimate, ...] = ()
    """Estimates with the other networks that an ambiguous model name may stand for; they widen the ranges."""

    @cached_property
    def rank(self) -> Rank:
        """Return the class of ranks that needs most."""
        return self.ranks[0] if len(self.ranks) == 1 else max(self.ranks, key=lambda rank: rank.most)

    @property
    def peak(self) -> Moment:
        """Return the moment of the step that needs most: `peak.phase`, and `peak.peak` in bytes."""
        return self.rank.peak

    @property
    def moments(self) -> tuple[Moment, ...]:
        """Return the moments of a step in order; each has its phase and its highest point in bytes."""
        return self.rank.moments

    @cached_property
    def ledger(self) -> Ledger:
        """Return every tensor at the peak with formula, bytes and source; the bytes add up to the peak."""
        return self.rank.ledger(self.peak)

    @cached_property
    def allocated(self) -> Reading:
        """Return the allocated memory at the peak, as `torch.cuda.max_memory_allocated` counts them."""
        return self._widened(readings.allocated(self.rank), "allocated")

    @cached_property
    def reserved(self) -> Reading:
        """Return the bytes that the caching allocator holds, as `torch.cuda.max_memory_reserved` counts them."""
        return self._widened(readings.reserved(self.rank), "reserved")

    @cached_property
    def device(self) -> Reading:
        """Return the bytes in use on the GPU as nvidia-smi shows them; out-of-memory errors depend on it."""
        # Of what is reserved as it is counted: how it is widened applies to the device's own reading.
        return self._widened(readings.device(self.rank, readings.reserved(self.rank)), "device")

    @cached_property
    def skewed_routing(self) -> Estimate | None:
        """Return the estimate with experts chosen as unevenly as in measured runs, or None if the config says how."""
        worst = self.job.worst_imbalance
        if worst is None or worst <= 1:
            return None
        return self._with(EngineSettings.moe_load_imbalance, min(worst, SKEW))

    @cached_property
    def former_releases(self) -> tuple[Estimate, ...]:
        """Return the estimates with former releases of the training loop, where the config does not name one."""
        releases = () if self.job.recipe.fake else self.job.recipe.former_releases
        found = []
        for each in releases:
            with suppress(MemcoreError):  # what a former release cannot run
                found.append(self._with(EngineSettings.framework_version, each))
        return tuple(found)

    def _with(self, path: str, value: object) -> Estimate:
        """Return the estimate of the same ranks with another value of a setting."""
        own = registry.engine_module(self.job.engine.name, "estimate")
        found: Estimate = own.estimate(self.job.config.replaced(path, value))
        return self._of_same_ranks(found)

    def _of_same_ranks(self, other: Estimate) -> Estimate:
        """Another estimate of the same ranks, where this one is of some stages alone."""
        names = [each.name for each in self.ranks]
        return replace(other, ranks=tuple(each for each in other.ranks if each.name in names) or other.ranks)

    def _widened(self, own: Reading, name: str) -> Reading:
        """Widen a reading's range to every network that the model may stand for, and to an uneven load of experts."""
        if self.skewed_routing is not None:
            skewed: Reading = getattr(self.skewed_routing, name)
            more = max(skewed.expected - own.expected, 0)
            settled_by = EngineSettings.moe_load_imbalance
            own = readings.doubted(
                own, Part(title="how unevenly tokens are routed to experts", low=0, high=more, settled_by=settled_by)
            )
        own = self._of_any_release(own, name)
        others: list[Reading] = [getattr(self._of_same_ranks(other), name) for other in self.alternatives]
        if not others:
            return own
        return replace(
            own,
            low=min(own.low, *(other.low for other in others)),
            high=max(own.high, *(other.high for other in others)),
            range_because=Message("{}; the config allows several networks", own.range_because),
        )

    def _of_any_release(self, own: Reading, name: str) -> Reading:
        """Widen a reading's range to what former releases of the training loop need.

        What the allocator holds then is replayed only where tensors alone are beyond the range.
        """
        if not self.former_releases:
            return own
        peaks = [each.peak.peak - self.peak.peak for each in self.former_releases]
        low, high = max(0, -min(peaks)), max(0, *peaks)
        highest = max(self.former_releases, key=lambda each: each.peak.peak)
        if name != "allocated" and own.expected + high > own.high:
            held = readings.reserved(highest.rank)
            reading = held if name == "reserved" else readings.device(highest.rank, held)
            high = max(high, reading.expected - own.expected)
        part = Part(title=_FORMER, low=low, high=high, settled_by=EngineSettings.framework_version)
        return readings.doubted(own, part) if low or high else own

    @property
    def readings(self) -> tuple[Reading, Reading, Reading]:
        """Return the three readings: allocated, reserved, device."""
        return self.allocated, self.reserved, self.device

    @property
    def fits(self) -> bool | None:
        """Return whether the expected device memory fits, or None if the config names no accelerator."""
        if self.capacity is None:
            return None
        # More in tensors than the GPU has needs no look at the allocator, which takes longest.
        return self.allocated.expected <= self.capacity and self.capacity >= self.device.expected
