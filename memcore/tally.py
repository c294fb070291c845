"""Entries of memory by category: what the ledgers of training and of serving have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Generic, Protocol, TypeVar


class Counted(Protocol):
    """Anything with bytes and a category."""

    @property
    def category(self) -> str:
        """The name of its category."""

    @property
    def bytes(self) -> int:
        """Bytes of all copies."""


EntryT = TypeVar("EntryT", bound=Counted)


@dataclass(frozen=True)
class Tally(Generic[EntryT]):
    """Entries in the order in which they are shown."""

    entries: tuple[EntryT, ...]
    categories: ClassVar[Mapping[str, str]] = {}
    """All of them in the order in which they are stacked, with their meanings."""

    @cached_property
    def total(self) -> int:
        """Bytes of all entries."""
        return sum(entry.bytes for entry in self.entries)

    @cached_property
    def by_category(self) -> Mapping[str, int]:
        """Bytes of each category that occurs, in stacking order."""
        sums = dict.fromkeys(self.categories, 0)
        for entry in self.entries:
            sums[entry.category] += entry.bytes
        return {category: value for category, value in sums.items() if value}

    def of(self, category: str) -> tuple[EntryT, ...]:
        """The entries of a category."""
        return tuple(entry for entry in self.entries if entry.category == category)
