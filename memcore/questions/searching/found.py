"""What a search finds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from memcore.config.hardware import Hardware
from memcore.config.settings import Config
from memcore.questions.costs import Cost
from memcore.questions.searching.layouts import Layout, Settings, config_of

Key = tuple[str | None, str, Layout]
"""What a search calls a layout: the accelerator, the engine's title and the division."""
Measured = tuple[int, int | None, bool | None]
"""Bytes allocated, bytes on the device where these were asked for, and whether that fits, if it is known."""


@dataclass(frozen=True, slots=True)
class Found:
    """A layout that was looked at."""

    layout: Layout
    policy: Settings
    """Its settings besides sizes."""
    engine: str
    """What runs it, where the config leaves that open or names it; else empty."""
    accelerator: str | None
    allocated: int
    """Bytes in tensors at the peak of the worst rank: what `estimate` says."""
    device: int | None
    """Bytes that the driver shows, if they were asked for: only of layouts that can be recommended."""
    fits: bool | None
    """What `estimate` says; None where it was not asked, or knows no capacity."""
    capacity: int | None
    cost: Cost

    @property
    def key(self) -> Key:
        """What it is called."""
        return self.accelerator, self.engine, self.layout

    @property
    def gpus(self) -> int:
        """Of the whole job."""
        return self.layout.gpus

    @property
    def headroom(self) -> int | None:
        """Bytes that are left of a GPU; None where that was not asked for."""
        return None if self.capacity is None or self.device is None else self.capacity - self.device

    def config(self, base: Config) -> Config:
        """The config in this layout."""
        named = base if self.accelerator is None else base.replaced(Hardware.accelerator, self.accelerator)
        return config_of(named, self.layout._replace(policy=0), (self.policy,))


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a search is, and what it has found until now."""

    total: int
    """Layouts of the space."""
    seen: int
    """Of these, how many are decided."""
    pruned: int
    """Of these, those that cannot fit, or cannot be better than what was found, by a bound alone."""
    measured: int
    """Those whose total was computed."""
    refused: int
    """Those that engine or model cannot do."""
    reasons: Mapping[str, int]
    """Why, with how many."""
    left_out: Mapping[str, str]
    """Engines that cannot do the job in any layout, and why."""
    new: tuple[Found, ...]
    """What was measured since the last time."""
    best: tuple[Found, ...]
    """Layouts that fit, cheapest first."""
    done: bool

    @property
    def front(self) -> tuple[Found, ...]:
        """Those of them that no other beats in headroom, cost and GPUs."""
        return tuple(pareto(self.best))


def pareto(found: Sequence[Found]) -> Iterable[Found]:
    """Layouts that no other equals or exceeds in headroom, cost and GPUs."""
    for each in found:
        if not any(_beats(other, each) for other in found):
            yield each


def _beats(first: Found, second: Found) -> bool:
    ours = first.headroom or 0, -first.cost.per_token, -first.gpus
    theirs = second.headroom or 0, -second.cost.per_token, -second.gpus
    return ours != theirs and all(one >= other for one, other in zip(ours, theirs, strict=True))


@dataclass(slots=True)
class Tally:
    """What `Progress` counts while a search runs."""

    total: int
    left_out: Mapping[str, str] = field(default_factory=dict)
    pruned: int = 0
    measured: int = 0
    refused: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    new: list[Found] = field(default_factory=list)
    best: list[Found] = field(default_factory=list)
    idle: int = 0
    """Layouts that were measured since the last one that fits."""

    def refuse(self, reason: str) -> None:
        """Count a layout that cannot be."""
        self.refused += 1
        self.reasons[reason] = self.reasons.get(reason, 0) + 1

    def progress(self, *, done: bool) -> Progress:
        """What is known now."""
        seen = self.pruned + self.measured + self.refused
        new, self.new = tuple(self.new), []
        self.best.sort(key=lambda each: (each.cost.per_token, each.gpus, each.layout.dimensions))
        counts = self.total, seen, self.pruned, self.measured, self.refused
        return Progress(*counts, dict(self.reasons), self.left_out, new, tuple(self.best), done)
