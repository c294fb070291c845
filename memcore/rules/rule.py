"""What a rule is: a row that says why something is in memory, and where that can be checked."""

from __future__ import annotations

from memcore.records import dataclass


@dataclass(frozen=True, slots=True)
class Rule:
    """One row."""

    title: str
    """What the memory holds, in a few words."""
    source: str
    category: str | None = None
    """Its category; None where its lifetime decides."""
