"""What a search finds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from math import inf, log

from memcore.config.hardware import Hardware
from memcore.config.settings import Config
from memcore.questions.costs import Cost
from memcore.questions.searching.layouts import Layout, Settings, config_of
from memcore.records import dataclass

Key = tuple[str | None, str, Layout]
"""What a search calls a layout: the accelerator, the engine's title and the division."""
Measured = tuple[int, int | None, bool | None]
"""Bytes allocated, bytes on the device where these were asked for, and whether that fits, if it is known."""


@dataclass(frozen=True, slots=True)
class Found:
    """A layout that a search has estimated."""

    layout: Layout
    """Its parallel sizes and micro-batches."""
    policy: Settings
    """Its other settings, such as checkpointing, by path."""
    engine: str
    """The engine's title; empty if the config leaves no choice."""
    accelerator: str | None
    """The accelerator's id, if the search tries several."""
    allocated: int
    """Allocated memory at the peak of the worst rank, as `estimate` predicts."""
    device: int | None
    """Bytes in use on the device; None for layouts that are not recommended."""
    fits: bool | None
    """Whether the layout fits; None if it was not estimated in full or no capacity is known."""
    capacity: int | None
    """Bytes of the GPU that a job can use."""
    cost: Cost
    """GPU-seconds per token and their parts, by the roofline."""

    @property
    def key(self) -> Key:
        """Return the accelerator, the engine and the layout, which identify a result."""
        return self.accelerator, self.engine, self.layout

    @property
    def gpus(self) -> int:
        """Return the GPUs of the whole job."""
        return self.layout.gpus

    @property
    def headroom(self) -> int | None:
        """Return the free bytes of each GPU, or None if `device` is unknown."""
        return None if self.capacity is None or self.device is None else self.capacity - self.device

    def leaves(self, share: float) -> bool:
        """Return whether at least this share of the GPU stays free; True where no capacity is known."""
        return self.capacity is None or (self.headroom is not None and self.headroom >= share * self.capacity)

    def config(self, base: Config) -> Config:
        """Return a config with this layout."""
        named = base if self.accelerator is None else base.replaced(Hardware.accelerator, self.accelerator)
        return config_of(named, self.layout._replace(policy=0), (self.policy,))


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a search, with its best layouts so far; `search` yields it."""

    total: int
    """Layouts in the search space; 0 before they are counted."""
    seen: int
    """Layouts decided so far: pruned, measured or refused."""
    pruned: int
    """Layouts ruled out by a bound: they cannot fit, or cannot beat what was found."""
    measured: int
    """Layouts estimated."""
    refused: int
    """Layouts that the engine or the model does not support."""
    reasons: Mapping[str, int]
    """Number of refused layouts by reason."""
    left_out: Mapping[str, str]
    """Engines that support the job in no layout, with the reason."""
    new: tuple[Found, ...]
    """Layouts estimated since the previous progress."""
    best: tuple[Found, ...]
    """Layouts that fit, cheapest first; before all are counted, one that was found ahead of the search."""
    done: bool
    """True on the last progress."""

    @property
    def front(self) -> tuple[Found, ...]:
        """Return the Pareto front of `best`: no other layout beats these in headroom, cost and GPUs."""
        return tuple(pareto(self.best))


TIE = 0.02
"""Costs that differ by no more than about this are ties: the cost model knows no better."""


def order(found: Found, headroom: float) -> tuple[bool, int, int, int, float]:
    """Return the key by which layouts are sorted: those with headroom first, then by cost; of ties, simple ones."""
    cost = found.cost.per_token
    return not found.leaves(headroom), round(log(cost) / TIE), found.gpus, found.layout.dimensions, cost


def pareto(found: Sequence[Found]) -> Iterable[Found]:
    """Layouts that no other equals or exceeds in headroom, cost and GPUs, in their order.

    What beats another stands before it when sorted, and whatever is beaten is beaten by one of the front.
    """
    front: list[Found] = []
    for each in sorted(found, key=lambda each: (-(each.headroom or 0), each.cost.per_token, each.gpus)):
        if not any(_beats(other, each) for other in front):
            front.append(each)
    kept = {id(each) for each in front}
    return [each for each in found if id(each) in kept]


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
    headroom: float = 0.0
    """The share of a GPU that layouts leave free, if any does."""
    idle: int = 0
    """Layouts that were measured since the last one that fits."""
    roomy: list[Found] = field(default_factory=list)
    """Layouts that fit and leave the headroom."""
    cheapest: float = inf
    """What the cheapest of these costs for each token."""
    most: dict[int, int] = field(default_factory=dict)
    """By the number of GPUs, the most headroom that a layout leaves."""

    def keep(self, found: Found) -> None:
        """Add a layout that fits, or of which nobody knows."""
        self.best.append(found)
        self.most[found.gpus] = max(self.most.get(found.gpus, 0), found.headroom or 0)
        if found.leaves(self.headroom):
            self.roomy.append(found)
            self.cheapest = min(self.cheapest, found.cost.per_token)

    def refuse(self, reason: str) -> None:
        """Count a layout that cannot be."""
        self.refused += 1
        self.reasons[reason] = self.reasons.get(reason, 0) + 1

    def progress(self, *, done: bool) -> Progress:
        """Return what is known now."""
        seen = self.pruned + self.measured + self.refused
        new, self.new = tuple(self.new), []
        self.best.sort(key=lambda each: order(each, self.headroom))
        counts = self.total, seen, self.pruned, self.measured, self.refused
        return Progress(*counts, dict(self.reasons), self.left_out, new, tuple(self.best), done)
