"""The answer for a job, of training or of a server, and what it can do for whoever holds it in Python or in a notebook.

The words and pictures are those of a face, which the registry knows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from memcore import registry
from memcore.config.defaults import Assumption
from memcore.memory.readings import Reading


class Answer(ABC):
    """The answer for one job; bytes are of the class of ranks that needs most."""

    job: Any

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the job alone, for pools of processes: the answer follows from it, its rules are code."""
        recipe = getattr(self.job, "recipe", None)
        return registry.answered, (self.job.config, bool(recipe and recipe.fake))

    @property
    @abstractmethod
    def device(self) -> Reading:
        """Return the bytes that the driver shows for the GPU."""

    @property
    @abstractmethod
    def readings(self) -> tuple[Reading, ...]:
        """Return everything that a tool would show."""

    @property
    @abstractmethod
    def fits(self) -> bool | None:
        """Return whether the job fits as expected; None without an accelerator."""

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """Return the settings that the config leaves open, with the value that was assumed and the reason."""
        found: tuple[Assumption, ...] = self.job.assumptions
        return found

    @property
    def capacity(self) -> int | None:
        """Return the bytes of a GPU that a job can use, or None if the config names no accelerator."""
        found: int | None = self.job.capacity
        return found

    @property
    def headroom(self) -> int | None:
        """Return the free bytes of the GPU, negative if the job does not fit, None without an accelerator."""
        return None if self.capacity is None else self.capacity - self.device.expected

    @property
    def certain(self) -> bool:
        """Return whether the whole range of `device` lies on one side of the capacity."""
        return self.capacity is not None and not self.device.low <= self.capacity < self.device.high

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, the same as `memcore estimate --json` prints ([schema](json.md)); sizes are bytes."""
        found: dict[str, Any] = registry.face().data_of(self)
        return found

    def rows(self) -> list[dict[str, Any]]:
        """Return the tensors at the peak, largest first, as flat dictionaries: `pandas.DataFrame(found.rows())`.

        `bytes` counts all copies; `formula` has symbols, `numbers` their values; `source` is where the rule comes from.
        """
        found: list[dict[str, Any]] = registry.face().rows_of(self)
        return found

    def __repr__(self) -> str:
        """Return the verdict in a line."""
        return f"<{type(self).__name__}: {registry.face().line_of(self)}>"

    def _repr_html_(self) -> str:
        """Return verdict, memory bar and timeline as pictures for a notebook, without scripts."""
        return str(registry.face().html_of(self))
