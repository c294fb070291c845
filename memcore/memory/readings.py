"""Three readings of one peak: bytes in tensors, bytes that the allocator holds, bytes that the driver shows.

Each has an expected value and a range; whether a job fits is decided on the last one.
"""

from __future__ import annotations

from dataclasses import dataclass

from memcore.config.engine import EngineSettings
from memcore.hardware import matmul_workspaces
from memcore.memory import turns
from memcore.memory.rank import Rank, outside
from memcore.messages import joined
from memcore.networks.recognized import RESIDUAL

FRAGMENTATION = 1.29
"""How much the allocator reserved over what its streams need at least, in 79 of 80 simulated jobs of the accuracy page
(in one, with little memory on the GPU, 1.54); the least was 1.02. The order of allocations decides, so that small
changes of a job move it within this range."""
REPLAY = 1.03
"""The worst ratio between the replayed allocator and the one that recorded the simulated jobs."""

NEAREST = (0.9, 1.8)
"""Between which shares of the prediction the activations of layers lie that are not written line by line: the least and
the most of simulated steps of derived decoders and encoders (0.99 to 1.80; deriver/, half of them within 4 %)."""
PUBLISHED = {"allocated": (0.94, 1.08), "reserved": (0.82, 1.19)}
"""Between which shares of the prediction published measurements lie: from the 5th to the 95th percentile of the jobs on
the accuracy page whose configs leave little open. Releases of libraries, and what a config does not say, make them."""


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


def allocated(rank: Rank) -> Reading:
    """`torch.cuda.max_memory_allocated`."""
    workspaces = sum(size for _, size in matmul_workspaces(rank.job.accelerator))
    peak = rank.peak.peak
    low, high = _published(rank, "allocated", peak)
    less, more = _nearest(rank, peak)
    because = "spread of published runs (other library versions); workspace sizes"
    return Reading(
        name="allocated",
        instrument="torch.cuda.max_memory_allocated",
        low=min(low, peak - rank.persistent.workspaces) - less,
        expected=peak,
        high=max(high, peak + workspaces) + more,
        range_because=joined("; ", (because, _USUAL)) if more else because,
    )


_USUAL = "layers that are not described line by line"


def _nearest(rank: Rank, expected: int) -> tuple[int, int]:
    """By how much less and more is needed where layers are wired otherwise than the usual ones they are taken for."""
    if all(layer.residual != RESIDUAL for layer in rank.job.recipe.network.kinds):
        return 0, 0
    activations = max(expected - rank.persistent.before_step, 0)
    return int(activations * (1 - NEAREST[0])), int(activations * (NEAREST[1] - 1))


def _published(rank: Rank, name: str, expected: int) -> tuple[int, int]:
    """Return the range of published measurements around a prediction; simulated steps are exact."""
    low, high = (1.0, 1.0) if rank.job.recipe.fake else PUBLISHED[name]
    return int(expected * low), int(expected * high)


def reserved(rank: Rank) -> Reading:
    """`torch.cuda.max_memory_reserved`."""
    expandable = rank.job.config[EngineSettings.expandable_segments]
    expected, least = rank.reserved, rank.least_reserved
    low, high = _published(rank, "reserved", expected)
    less, more = _nearest(rank, expected)
    because = "spread of published jobs; from no fragmentation to the most seen in simulated jobs"
    return Reading(
        name="reserved",
        instrument="torch.cuda.max_memory_reserved",
        low=min(low, least, expected) - less,
        expected=expected,
        high=int(max(high, rank.most_reserved, expected * REPLAY, 0 if expandable else least * FRAGMENTATION)) + more,
        range_because=joined("; ", filter(None, (because, turns.assumed(rank.job), _USUAL if more else ""))),
    )


def device(rank: Rank, held: Reading) -> Reading:
    """Return what nvidia-smi shows for the GPU."""
    parts = [each.overhead for each in outside(rank)]
    return Reading(
        name="device",
        instrument="nvidia-smi",
        low=held.low + sum(part.low for part in parts),
        expected=held.expected + sum(part.expected for part in parts),
        high=held.high + sum(part.high for part in parts),
        range_because="the ranges of reserved memory and of memory outside the allocator",
    )
