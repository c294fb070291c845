"""Plans: complete configs that do what is asked on what there is, best first, and why when there is none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.knobs import Knob
from memcore.config.settings import Config
from memcore.errors import ConfigError, MemcoreError, Problem, nearest
from memcore.memory.estimate import Estimate
from memcore.messages import Message, joined
from memcore.questions.describe import when
from memcore.questions.planning.bench import HEADROOM, Bench, Found
from memcore.questions.planning.divisions import asked_of
from memcore.questions.planning.rows import GOALS, QUALITIES, TIERS
from memcore.questions.planning.serving import Servings
from memcore.questions.planning.training import Trainings
from memcore.serving.estimate import ServingEstimate
from memcore.tools import exported
from memcore.units import format_bytes

KEEP, MOST = 6, 90
"""Plans that are shown, and estimates that are made for them: about 10 ms each."""
_EVERY = tuple(dict.fromkeys(tier for tiers in GOALS.values() for tier in tiers))


@dataclass(frozen=True, slots=True)
class Step:
    """One setting that a plan changes, and why."""

    path: str
    before: object
    after: object
    why: str


@dataclass(frozen=True)
class Proposal:
    """A complete plan."""

    title: str
    tier: str
    """A key of `memcore.questions.planning.rows.TIERS`: what it gives up."""
    asked: Config
    found: Found
    knobs: tuple[Knob, ...]
    seconds: tuple[float, float, float] | None
    """Of a step: low, expected, high; None where it is not known."""
    safe: bool
    """All of the range fits, with headroom; else only what is expected does."""

    @property
    def config(self) -> Config:
        """The complete config."""
        return self.found.job.config

    @property
    def fits(self) -> bool:
        """Whether the expected value fits."""
        return bool(self.found.fits)

    @property
    def headroom(self) -> int:
        """Bytes of a GPU that stay free."""
        return (self.found.capacity or 0) - self.found.device.expected

    @property
    def quality(self) -> str:
        """What it may cost in quality."""
        notes = list(dict.fromkeys(each.quality for each in self.knobs if each.quality))
        return "; ".join(notes) if notes else "the same result as the job that is asked for"

    @cached_property
    def changes(self) -> tuple[Step, ...]:
        """Every setting that differs from what is asked, with the reason."""
        before, after = self.asked.values, self.config.values
        reasons = {path: knob for knob in self.knobs for path in knob.to}
        return tuple(
            Step(path, before.get(path), after.get(path), _why(path, reasons))
            for path in sorted({*before, *after})
            if before.get(path) != after.get(path)
        )

    @cached_property
    def exports(self) -> Mapping[str, str]:
        """The plan in the words of the tool that runs it; empty where no tool's file can say it."""
        try:
            taken = {each.path: each.value for each in self.found.assumptions}
            found = exported(self.config, None, taken)
        except MemcoreError:
            return {}
        return {found.tool.name: found.text}


_DIVIDED = "divides the job among the GPUs, with the same sequences in each step"


def _why(path: str, reasons: Mapping[str, Knob]) -> str:
    if path in reasons and reasons[path].why:
        return f"{reasons[path].title}: {reasons[path].why}"
    return "runs the job" if path in (EngineSettings.type, "training.implementation") else _DIVIDED


@dataclass(frozen=True, slots=True)
class Planned:
    """What a goal leads to."""

    asked: Config
    found: Found
    """The estimate of the job as it is asked for."""
    plans: tuple[Proposal, ...]
    """Best first."""
    none_because: str | None
    """What binds, if nothing that keeps work and hardware fits."""
    estimates: int
    """How many were made."""


def plan(
    config: Config | Mapping[str, object],
    *,
    goal: str = "fine-tune",
    quality: str = "any",
    headroom: float = HEADROOM,
    keep: int = KEEP,
) -> Planned:
    """Complete plans for a job on the hardware that its config names, best first.

    `goal` is a key of `GOALS` (servers have one goal), `quality` one of `QUALITIES`. Plans that give up work or need
    more hardware are found where nothing else fits. Raises ConfigError where no capacity is known, and whatever
    `estimate` raises.

    >>> job = {"model": "llama-2-7b-hf", "training": {"sequence_length": 2048},
    ...        "hardware": {"accelerator": "rtx-4090", "num_gpus": 1}}
    >>> found = plan(job)
    >>> [each.fits for each in found.plans[:2]]
    [True, True]
    """
    asked = config if isinstance(config, Config) else Config.from_dict(config)
    tiers = _tiers(goal, quality)
    if not 0 <= headroom < 1:
        raise ConfigError.at("headroom", "found {!r}; allowed: a share from 0 to below 1, such as 0.1", headroom)
    bench = Bench(MOST, headroom)
    found = bench.at(asked)
    if isinstance(found, MemcoreError):
        raise found
    if found.capacity is None:
        message = "a plan needs to know the GPU; name one, or hardware.gpu_memory_gb"
        raise ConfigError.at(Hardware.accelerator, message)
    proposals, leanest = (
        _served(asked, found, bench, tiers)
        if isinstance(found, ServingEstimate)
        else _trained(asked, found, bench, tiers)
    )
    chosen = tuple(_different(proposals, keep))
    kept = [each for each in chosen if each.tier not in ("work", "hardware")]
    because = None if kept else _because(leanest or found)
    return Planned(asked, found, chosen, because, bench.count)


def _tiers(goal: str, quality: str) -> tuple[str, ...]:
    for name, given, allowed in (("goal", goal, GOALS), ("quality", quality, QUALITIES)):
        if given not in allowed:
            message = Message("found {!r}; allowed: {}", given, joined(", ", allowed))
            raise ConfigError([Problem(name, message, nearest(given, allowed))])
    return tuple(each for each in TIERS if each in GOALS[goal] and each in QUALITIES[quality])


def _trained(
    asked: Config, found: Estimate, bench: Bench, tiers: tuple[str, ...]
) -> tuple[list[Proposal], Found | None]:
    search = Trainings(asked_of(asked, found.job), bench, tiers)
    proposals = []
    for each in search.candidates():
        titles = (each.way.title, each.division.title, *(knob.title for knob in each.knobs if _named(knob)))
        proposals.append(
            Proposal(
                ", ".join(title for title in titles if title), each.tier, asked, each.found, each.knobs,
                bench.range_of(each.found), each.safe,
            )
        )  # fmt: skip
    return proposals, search.leanest


def _served(
    asked: Config, found: ServingEstimate, bench: Bench, tiers: tuple[str, ...]
) -> tuple[list[Proposal], Found | None]:
    search = Servings(asked, found, bench, tiers)
    proposals = [
        Proposal(each.title, each.tier, asked, each.found, each.knobs, None, bench.safe(each.found))
        for each in search.candidates()
    ]
    return proposals, search.leanest


def _named(knob: Knob) -> bool:
    """Whether a title names a change: what costs nothing goes without saying."""
    return bool(knob.title and knob.source)


def _different(proposals: list[Proposal], keep: int) -> Iterator[Proposal]:
    """The best first; of those that differ in a division alone a few, of each method the best."""
    counts: dict[object, int] = {}
    for each in proposals:
        if counts and sum(counts.values()) >= keep:
            return
        names = tuple(knob.title for knob in each.knobs if knob.quality)
        key = each.tier, names if each.tier != "same" else ()
        if counts.get(key, 0) < (3 if each.tier == "same" else 1):
            counts[key] = counts.get(key, 0) + 1
            yield each


def _because(leanest: Found) -> str:
    """What binds, with the least that was needed."""
    capacity, parts = format_bytes(leanest.capacity or 0), leanest.ledger.by_category
    largest = max(parts, key=lambda name: parts[name])
    if isinstance(leanest, ServingEstimate):
        return Message(
            "each GPU has {}, and the leanest server that was tried needs {}, most of it {} ({})",
            capacity,
            format_bytes(leanest.device.expected),
            largest,
            format_bytes(parts[largest]),
        )
    return Message(
        "each GPU has {}, and the leanest job that was tried needs {}; its peak is in the {}, the largest part {} ({})",
        capacity,
        format_bytes(leanest.device.expected),
        when(leanest.peak, leanest),
        largest,
        format_bytes(parts[largest]),
    )
