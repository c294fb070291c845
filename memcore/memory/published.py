"""What the formulas that a tool publishes say about a job, to stand next to what is recorded of it.

A trainer whose tool has such formulas says what they answer in its module `formulas`.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.records import dataclass


@dataclass(frozen=True, slots=True)
class Term:
    """One line of a tool's sum."""

    name: str
    formula: str
    size: float
    """In bytes."""
    reason: str
    """Why memcore says something else."""
    held: bool = True
    """It counts as weights, gradients and optimizer; otherwise as activations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormulaResult:
    """What one formula says, in bytes, and why memcore says something else."""

    title: str
    weight_and_optimizer: float
    activation: float | None = None
    """None where the tool reports none."""
    assumptions: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()
    terms: tuple[Term, ...] = ()
    """The sum line by line, where the tool shows it."""
    printed: str = ""
    """What the tool itself prints; empty if that is not known."""

    @classmethod
    def of_terms(cls, title: str, *terms: Term) -> FormulaResult:
        """Sum lines."""
        held, rest = (sum(each.size for each in terms if each.held is kind) for kind in (True, False))
        return cls(title=title, weight_and_optimizer=held, activation=rest, terms=terms)

    @property
    def total(self) -> float:
        """Their sum."""
        return self.weight_and_optimizer + (self.activation or 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The formulas of one tool."""

    data: Mapping[str, object]
    """Everything as plain data."""
    answers: tuple[FormulaResult, ...]
    note: str = ""
    """What all of them leave out."""
