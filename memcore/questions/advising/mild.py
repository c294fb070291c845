"""Changes that keep what a job computes: they cost nothing, or time."""

from __future__ import annotations

from collections.abc import Iterator

from memcore.memory.estimate import Estimate
from memcore.questions.advising.changes import CHANGES, applicable
from memcore.questions.advising.server_changes import made
from memcore.serving.estimate import ServingEstimate
from memcore.trace.changes import Changes

_KINDS = ("free", "latency")
"""Kinds of a server's changes that leave its answers as they are and need no other hardware."""


def mild(found: Estimate | ServingEstimate) -> Iterator[tuple[str, Changes]]:
    """Yield titles and settings of the changes that apply: what costs nothing, then what saves most for its time."""
    if isinstance(found, ServingEstimate):
        for row in sorted(found.job.server.changes, key=lambda each: each.kind != "free"):
            if row.kind in _KINDS:
                yield from ((row.title, each) for each in made(row, found))
    else:
        free, slower = ([each for each in CHANGES if each.kind == kind] for kind in ("free", "compute"))
        for change in (*free, *reversed(slower)):
            yield from ((change.title, each) for each in applicable(change, found.job))
