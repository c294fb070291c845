"""Three readings of one peak: allocated memory, bytes that the allocator holds, bytes that the driver shows.

Each has an expected value and a range; whether a job fits is decided on the last one.
"""

from __future__ import annotations

from dataclasses import replace

from memcore.config.hardware import Hardware
from memcore.hardware import matmul_workspaces, monitor
from memcore.memory import pipeline_replay
from memcore.memory.doubts import Part, parts, together
from memcore.memory.loading import kept_of_loading, reads_ahead
from memcore.memory.rank import Rank, beside_allocator, outside_allocator
from memcore.messages import joined
from memcore.records import dataclass
from memcore.units import MiB

OTHERS = 1280 * MiB
"""What nvidia-smi shows in some environments beyond the context's usual size: libraries that load all kernels at once,
monitors, other processes. FMS Acceleration's benchmark had 1.1 to 1.5 GiB on one machine, 0 to 0.2 on another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The peak in bytes as one of three instruments shows it: allocated, reserved or device."""

    name: str
    """`allocated`, `reserved` or `device`."""
    instrument: str
    """The function or program that shows the same number in a run."""
    low: int
    """The low end of the range, bytes."""
    expected: int
    """The expected value, bytes."""
    high: int
    """The high end of the range, bytes."""
    range_because: str
    """What the range covers."""
    parts: tuple[Part, ...] = ()
    """The same, each with its bytes; together they are the range."""


def allocated(rank: Rank) -> Reading:
    """`torch.cuda.max_memory_allocated`."""
    peak = rank.peak.peak
    found = (*_libraries(rank), *parts(rank, peak, held=False))
    return _reading("allocated", "torch.cuda.max_memory_allocated", peak, found)


def _libraries(rank: Rank) -> tuple[Part, ...]:
    """The workspaces may not be allocated yet, and each further stream that multiplies adds one of each."""
    more = 0 if rank.job.recipe.fake else sum(size for _, size in matmul_workspaces(rank.job.accelerator))
    own = Part(title="library workspaces", low=rank.persistent.workspaces, high=more)
    return (own,) if own.low or own.high else ()


def reserved(rank: Rank) -> Reading:
    """`torch.cuda.max_memory_reserved`."""
    expected = rank.reserved
    stepping = rank.reserved_by_steps
    waiting = Part(title="how far the host runs ahead of the GPU", low=0, high=max(rank.most_reserved - stepping, 0))
    reading = Part(
        title="how far loading ran ahead of quantizing",
        low=expected - stepping if reads_ahead(rank.job) else 0,
        high=max(kept_of_loading(rank.job, rank.after_init, most=True) - expected, 0),
    )
    order = Part(title="what the allocator gives back on a full GPU", low=rank.spared_by_order, high=0)
    own = [*_libraries(rank), *(part for part in (waiting, reading, order) if part.low or part.high)]
    found = _reading("reserved", "torch.cuda.max_memory_reserved", expected, (*own, *parts(rank, stepping, held=True)))
    because = joined("; ", filter(None, (found.range_because, pipeline_replay.assumed(rank.job))))
    return replace(found, range_because=because)


def device(rank: Rank, held: Reading) -> Reading:
    """Return what nvidia-smi, or its like, shows for the GPU."""
    outside = [each.overhead for each in outside_allocator(rank)]
    beyond = sum(each.expected for each in outside)
    told = rank.job.recipe.fake or rank.job.config[Hardware.outside_gb] is not None
    more = sum(each.high for each in outside) - beyond + (0 if told else OTHERS)
    own = Part(title="memory outside the allocator", low=beyond - sum(each.low for each in outside), high=more)
    found = _reading("device", monitor(rank.job.accelerator), held.expected + beyond, (*held.parts, own))
    if not rank.persistent.paged or rank.job.capacity is None:
        return found
    # What takes the GPU's last bytes sends pages to the host: only what cannot move may need more than there is.
    lasting = found.high - (beyond - sum(each.overhead.expected for each in beside_allocator(rank)))
    return replace(found, high=min(found.high, max(rank.job.capacity, lasting)))


def doubted(own: Reading, part: Part) -> Reading:
    """Return the reading with one more part of its range."""
    low, high = together((*own.parts, part))
    return replace(
        own,
        low=max(own.expected - low, 0),
        high=own.expected + high,
        range_because=joined("; ", (own.range_because, part.title)),
        parts=(*own.parts, part),
    )


def _reading(name: str, instrument: str, expected: int, found: tuple[Part, ...]) -> Reading:
    low, high = together(found)
    return Reading(
        name=name,
        instrument=instrument,
        low=max(expected - low, 0),
        expected=expected,
        high=expected + high,
        range_because=joined("; ", (each.title for each in found)),
        parts=found,
    )
