"""Estimates of many configs, each made once and counted, and what counts as safe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import TypeVar

from memcore.config.devices import whole
from memcore.config.hardware import Hardware
from memcore.config.knobs import Knob
from memcore.config.settings import Config
from memcore.errors import MemcoreError
from memcore.estimation import estimate
from memcore.hardware import BY_ID, EXPORTED, Accelerator, alike
from memcore.memory.estimate import Estimate
from memcore.memory.host_phases import host_phases
from memcore.questions.costs import Cost, cost_of, least_of
from memcore.questions.roofline import Roofline, roofline_for
from memcore.questions.solving import Pieces
from memcore.records import dataclass
from memcore.serving.estimate import ServingEstimate

Found = Estimate | ServingEstimate
T = TypeVar("T")
FEW = 3
"""Plans that somebody should have a choice of."""
HEADROOM = 0.1
"""Share of a GPU that a safe plan leaves free. Of 19 published runs that held more than 70 of 80 GB, none passed 17 %
of the GPU's peak rate: the allocator frees and asks again (CUDA's cudaMalloc waits for the device)."""
_HOST = 4 * 10**12
"""The most memory that a node is taken to have: a DGX B200's (NVIDIA's datasheet: up to 4 TB; a DGX H100 has 2)."""


class SpentError(Exception):
    """The budget of estimates is used up."""


def _key(config: Config) -> str:
    """Return a text that equal configs share."""
    return repr(sorted(config.values.items(), key=lambda item: item[0]))


@dataclass
class Bench:
    """Estimates by config."""

    most: int
    """Estimates that may be made; what is refused is none."""
    headroom: float = HEADROOM
    count: int = 0
    known: dict[str, Found | MemcoreError] = field(default_factory=dict)
    tight: dict[str, bool] = field(default_factory=dict)
    """By a job's resolved config: tensors leave less than the headroom."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """Inputs of the cost model that are known better, by name."""

    def at(self, config: Config) -> Pieces[Found | MemcoreError]:
        """Return the estimate of a config, or why there is none; stops after each that is made.

        Raises SpentError if the budget does not allow another estimate.
        """
        key = _key(config)
        if key not in self.known:
            if self.count >= self.most:
                raise SpentError
            try:
                self.known[key] = estimate(config)
                self.count += 1
            except MemcoreError as error:
                self.known[key] = error
            yield
        return self.known[key]

    def with_(self, config: Config, changes: Mapping[str, object]) -> Pieces[Found | None]:
        """Return the estimate of a config with changes; None where that is refused."""
        try:
            found = yield from self.at(config.changed(changes))
        except MemcoreError:
            return None
        return None if isinstance(found, MemcoreError) else found

    def cost(self, found: Estimate) -> Cost:
        """Return what a step of a training job costs."""
        return cost_of(found.job, self.roofline(found))

    def fastest(self, found: Estimate) -> float:
        """Return seconds that a step of a training job takes at least, without recording it."""
        return least_of(found.job, self.roofline(found))

    def roofline(self, found: Found) -> Roofline:
        """Return the rates of the GPU of a job, with those that are known better."""
        return roofline_for(found.job.config).adjusted(**self.rates)

    def spills(self, found: Found) -> bool:
        """Return whether a job keeps more on its host than this usually has."""
        return hosted(found) > self.roofline(found).host_room

    def need(self, found: Estimate) -> int:
        """Bytes of tensors at the peak; of what does not fit only as many as show that, which records fewer stages.

        What stays from step to step may show it without any recorded step.
        """
        capacity, most = found.capacity or 0, max(rank.least for rank in found.ranks)
        for rank in found.ranks:
            if most > capacity:
                break
            most = max(most, rank.most)
        return most

    def leanest(self, tried: Sequence[Estimate]) -> Estimate | None:
        """Return the estimate that needs least: those that surely need more than another are not recorded."""
        least: Estimate | None = None
        for bound, each in sorted(((self.need(each), each) for each in tried), key=lambda pair: pair[0]):
            if least is not None and least.allocated.expected <= bound:
                break
            if least is None or each.allocated.expected < least.allocated.expected:
                least = each
        return least

    def roomy(self, found: Estimate) -> bool:
        """Return whether tensors alone leave the headroom; what does not is not safe."""
        key = _key(found.job.config)
        if key not in self.tight:
            room = (1 - self.headroom) * (found.capacity or 0)
            self.tight[key] = any(rank.least > room or rank.exceeds(room) for rank in found.ranks)
        return not self.tight[key]

    def holds(self, found: Found) -> bool:
        """Whether a job fits as expected."""
        return bool(found.fits)

    def safe(self, found: Found) -> bool:
        """Return whether all of the range fits; of training also the expected value with headroom."""
        capacity = found.capacity or 0
        if isinstance(found, Estimate) and not self.roomy(found):
            return False  # without a look at the allocator, which takes longest
        if not self.holds(found) or found.device.high > capacity:
            return False
        if isinstance(found, Estimate):
            return found.device.expected <= (1 - self.headroom) * capacity
        pool = found.pool
        return pool is None or pool.capacity is None or found.needed <= (pool.capacity_low or 0)


def hosted(found: Found) -> int:
    """Return bytes of a node's own memory that hold what a training job offloads, or a server keeps there."""
    if isinstance(found, ServingEstimate):
        return found.budget.host.total if found.budget.host else 0
    return next(each.bytes for each in host_phases(found.rank) if each.name == "step")


def fits_a_node(found: Estimate) -> bool:
    """Return whether a node can hold what a step offloads; True for what the GPUs cannot hold anyway."""
    too_large = any(rank.least > (found.capacity or 0) for rank in found.ranks)
    return too_large or hosted(found) <= _HOST


def gathered(found: list[T], more: Iterator[T | None]) -> Iterator[None]:
    """Adds candidates to those that were found; stops after every estimate.

    Raises SpentError, with what was found by then added.
    """
    for each in more:
        if each is None:
            yield
        else:
            found.append(each)


def at_last(bench: Bench, found: list[T], more: Iterator[T | None], most: int) -> Iterator[None]:
    """Add candidates of a last resort, which has some estimates of its own, whatever was spent before."""
    bench.most = max(bench.most, bench.count + most)
    try:
        yield from gathered(found, more)
    except SpentError:
        return


def larger(capacity: int, now: Accelerator | None) -> Iterator[Knob]:
    """Accelerators with clearly more than these bytes, of the same vendor, each as a change, the smallest first.

    Those of the same line come first, then those that are found where the present one is, then only what has more than
    these; last come earlier generations than its own. Of about the same size the newest counts, and where two have the
    same memory the fastest. One that has bf16 is not replaced by one without, as attention there has no fused kernels.
    """
    left = [
        each
        for each in alike(now)
        if (now is None or (each.vendor == now.vendor and (each.has_bf16 or not now.has_bf16)))
        and (each.id not in EXPORTED or (now is not None and now.id in EXPORTED))
    ]
    while left := [each for each in left if each.usable > _CLEARLY * capacity]:
        first = min(left, key=lambda each: (*_farness(each, now), each.usable))
        rivals = [
            each
            for each in left
            if _farness(each, now) == _farness(first, now) and each.usable <= _CLEARLY * first.usable
        ]
        best = max(rivals, key=lambda each: (each.generation, -each.nominal_gb, each.speed.tflops))
        capacity = max(each.usable for each in rivals)
        yield Knob(
            title=best.name,
            to=whole(best.id),
            why="more memory for each GPU: the next size of the same line, else the newest of its size",
            source=best.source,
        )


_CLEARLY = 1.05
"""How much more memory makes another size."""


def _farness(each: Accelerator, now: Accelerator | None) -> tuple[bool, bool, bool]:
    """Return whether an accelerator is of another line, of an earlier generation, found elsewhere."""
    if now is None:
        return False, False, False
    return each.line != now.line, each.generation < now.generation, each.place != now.place


def usable_of(knob: Knob) -> int:
    """Return bytes of the accelerator that a change sets."""
    return BY_ID[str(knob.to[Hardware.accelerator])].usable
