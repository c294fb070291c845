"""Changes of a job that save memory: how a row is described, what it costs, and in which order rows are tried.

What changes every trainer's jobs is in `memcore.questions.advising.changes`; what only one trainer has, in its `knobs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from memcore.records import dataclass
from memcore.trace.job import Job

Changes = Mapping[str, object]

KINDS: Mapping[str, str] = {
    "free": "costs nothing",
    "communication": "more communication",
    "compute": "more compute",
    "latency": "slower steps",
    "transfer": "traffic between GPU and host",
    "precision": "lower precision",
    "method": "a different training method",
    "gpus": "more GPUs",
    "job": "a different job",
}
"""Classes of cost, from the harmless on."""

RISKS = ("precision", "method", "gpus", "job")
"""Classes whose price is not time alone."""

RUNGS = (
    "switches",  # what nobody reads is freed
    "kernels",  # kernels with fewer temporaries
    "batch",
    "sharding",  # copies that ranks share
    "selective",  # some results are computed again
    "recomputed",  # all of them
    "division",  # more ways to divide the job
    "elsewhere",  # states of other ranks, or on the host
    "states",  # in fewer bits
    "parameters",  # in fewer bits
    "method",
    "gpus",
    "job",
)
"""In order of harm, in which the ladder climbs them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A row."""

    title: str
    rung: str
    """One of `RUNGS`."""
    kind: str
    """A key of `KINDS`."""
    note: str = ""
    """Why it is of this kind, where numbers do not say so."""
    to: Changes | None = None
    """Settings as they become; None leaves one out."""
    when: Mapping[str, tuple[object, ...]] | None = None
    """It applies where settings have one of these values."""
    made: Callable[[Job], Iterator[Changes]] | None = None
    """The same where it depends on the job."""
    engines: tuple[str, ...] | None = None
    """None: all that take the settings."""
    ladder: bool = True
    """It is a rung of the standard ladder."""
