"""What can be wrong with an input.

MemcoreError                 every error that a user can cause
├── ConfigError              a config that cannot be understood; carries all problems at once
└── UnsupportedError         a config that is understood but not modelled
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: where, what was found, what is allowed."""

    path: str
    """The key's path in the config, like `training.sequence_length`."""
    message: str
    suggestion: str | None = None
    """The nearest valid name or value."""

    def __str__(self) -> str:
        hint = f" (did you mean {self.suggestion!r}?)" if self.suggestion else ""
        return f"{self.path}: {self.message}{hint}" if self.path else f"{self.message}{hint}"


class MemcoreError(ValueError):
    """An error in what a user asked for."""


class ConfigError(MemcoreError):
    """A config that cannot be understood."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in problems))


class UnsupportedError(MemcoreError):
    """A config that is understood but not modelled; never silently approximated."""

    def __init__(self, path: str, message: str) -> None:
        self.problem = Problem(path, message)
        super().__init__(str(self.problem))


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that looks most like `name`, or else the first that contains it, if any does."""
    names, wanted = list(known), name.strip().lower()
    found = difflib.get_close_matches(wanted, names, n=1, cutoff=0.6)
    if found:
        return found[0]
    return next((each for each in names if wanted and wanted in each), None)
