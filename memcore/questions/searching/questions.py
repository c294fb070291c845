"""What a search looks through: one question for each accelerator, number of GPUs and engine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import field

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.settings import Config
from memcore.errors import ConfigError, MemcoreError
from memcore.estimation import estimate
from memcore.hardware import context, find_accelerator
from memcore.memory.estimate import Estimate
from memcore.questions.costs import Cost, cost, rates_of
from memcore.questions.dividing import Plan, traffic_of, usual_of
from memcore.questions.roofline import Roofline, roofline_for
from memcore.questions.searching.found import Found, Key, Measured
from memcore.questions.searching.kinds import config_as, kinds_of
from memcore.questions.searching.layouts import PATHS, SHARES, Layout, Settings
from memcore.questions.searching.spaces import (
    Floor,
    Part,
    Space,
    Tried,
    divides_experts,
    floor_of,
    plan,
    sent,
    sequences_of,
    shared_evenly,
    space_of,
)
from memcore.questions.searching.works import Works
from memcore.questions.work import Work, work_for
from memcore.records import dataclass
from memcore.trace.job import Job
from memcore.trace.searching import Kind
from memcore.trace.traffic import Traffic


@dataclass(frozen=True, slots=True)
class Question:
    """A config with one engine, on one kind of accelerator and number of GPUs."""

    title: str
    """The engine, where there are several."""
    settings: Settings
    """What the engine changes of the config that was asked about."""
    config: Config
    text: str
    space: Space
    floor: Floor
    works: Works
    roofline: Roofline
    usual: Plan
    """What the cost model takes of the job, for what no layout changes."""
    job: Job
    """The job that is searched."""
    traffic: Traffic
    """What it sends as it stands."""
    capacity: int | None
    outside: int
    failed: dict[tuple[int, ...], list[Layout]] = field(default_factory=dict)
    """Layouts that were measured and do not fit, by their tensor, pipeline, context and expert divisions."""

    def cost(self, layout: Layout) -> Cost:
        """Return what a layout costs."""
        return self._priced(layout, self.works.of(layout))

    def cheapest(self, layout: Layout) -> Cost:
        """Return what a layout costs at least, without recording a step; what it costs, where `exact` says so."""
        return self._priced(layout, self.works.least)

    def roughly(self, layout: Layout) -> Cost:
        """Return what a layout costs if it has the work of the job that is searched."""
        return self._priced(layout, self.works.usual)

    @property
    def exact(self) -> bool:
        """No layout's work has to be recorded."""
        return self.works.same

    def _priced(self, layout: Layout, work: Work) -> Cost:
        traffic = sent(self.space, layout, self.job, self.traffic)
        return cost(work, plan(self.space, layout, self.usual, traffic, self.works.layers(layout)), self.roofline)

    def least(self, layout: Layout, growth: int | None = None) -> int:
        """Return bytes that a layout surely has; `growth` as in `Floor.bytes`."""
        return self.floor.bytes(self.space, layout, growth)

    def staged(self, layout: Layout, growth: int, parts: Sequence[Part]) -> int:
        """Return bytes that some stage of a layout surely has, as in `Floor.staged`."""
        divided = layout.tensor if layout.experts == 1 else divides_experts(self.space, layout, self.usual)
        return self.floor.staged(self.space, layout, growth, parts, divided)

    def key(self, layout: Layout) -> Key:
        """Return what a layout is called."""
        return self.config[Hardware.accelerator], self.title, layout

    @property
    def ceiling(self) -> int | None:
        """Allocated memory above which nothing fits."""
        return None if self.capacity is None else self.capacity - self.outside

    def found(self, layout: Layout, price: Cost, answer: Measured) -> Found:
        """Return a layout with what was measured."""
        row = self.space.row
        policy = {**self.settings, **row.policies[layout.policy].settings, **self.space.divided(layout)}
        return Found(layout, policy, self.title, self.config[Hardware.accelerator], *answer, self.capacity, price)


def questions_of(
    base: Config,
    gpus: Sequence[int] | None,
    accelerators: Sequence[str] | None,
    sequences: int | None,
    roofline: Roofline | None,
    tried: Tried,
) -> tuple[list[Question], dict[str, str]]:
    """Return all questions of a search, and the engines that cannot do the job at all, with their reasons.

    Raises ConfigError for a server, an engine that is not searched yet, and whatever `estimate` raises.
    """
    step = sequences or _sequences(base)
    found: list[Question] = []
    refused: dict[str, MemcoreError] = {}
    names: Sequence[str | None] = accelerators or [base[Hardware.accelerator]]
    for accelerator in names:
        named = base.replaced(Hardware.accelerator, find_accelerator(accelerator).id if accelerator else None)
        for count in gpus or [_gpus(base)]:
            for kind in kinds_of(base, count):
                job = _job_as(named, kind)
                if isinstance(job, MemcoreError):
                    refused[kind.title] = job
                else:
                    found.append(_question(named, kind, job, count, step, roofline, tried))
    if not found:
        raise next(iter(refused.values()))
    return found, {title: str(error) for title, error in refused.items()}


def _gpus(base: Config) -> int:
    return base[Hardware.num_gpus] or _job(base).num_gpus


def _sequences(base: Config) -> int:
    """Sequences of a step: those of the config, as the first engine has them that can do it as it stands."""
    jobs = [_attempted(config_as(base, kind)[0]) for kind in kinds_of(base, _gpus(base))]
    able = [job for job in jobs if not isinstance(job, MemcoreError)]
    if able:
        return sequences_of(able[0])
    raise next(job for job in jobs if isinstance(job, MemcoreError))


def _job_as(config: Config, kind: Kind) -> Job | MemcoreError:
    """The job of a config as a kind: with its own division, or, where that engine does not have it, with none."""
    changed = config_as(config, kind)[0]
    found = _attempted(changed)
    return _attempted(_undivided(changed)) if isinstance(found, MemcoreError) else found


def _attempted(config: Config) -> Job | MemcoreError:
    try:
        return _job(config)
    except MemcoreError as error:
        return error


def _question(
    base: Config,
    kind: Kind,
    job: Job,
    count: int,
    sequences: int,
    roofline: Roofline | None,
    tried: Tried,
) -> Question:
    config, settings = config_as(base, kind)
    space = space_of(config, job, count, sequences, tried, kind.row)
    work, text = work_for(job, space.sequence), json.dumps(config.to_dict(), sort_keys=True)
    return Question(
        title=kind.title,
        settings=settings,
        config=config,
        text=text,
        space=space,
        floor=floor_of(job),
        works=Works(job, work, text, space, shared_evenly(space.layers, space.counted)),
        job=job,
        traffic=traffic_of(job),
        usual=usual_of(job),
        roofline=rates_of(job, roofline or roofline_for(config)),
        capacity=job.capacity,
        outside=context(job.accelerator).expected,
    )


def _undivided(config: Config) -> Config:
    """A config whose layers every rank has whole: its own division may be one that another engine does not have."""
    for path in (*PATHS.values(), *SHARES):
        config = config.replaced(path, None)
    return config


def _job(config: Config) -> Job:
    found = estimate(config)
    if not isinstance(found, Estimate):
        raise ConfigError.at(EngineSettings.type, "servers have no layouts to search; `memcore plan` finds what fits")
    return found.job
