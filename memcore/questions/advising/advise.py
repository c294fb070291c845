"""What to change: every change of one knob that applies to a config, with what it saves and what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.settings import Config
from memcore.errors import MemcoreError
from memcore.estimation import estimate
from memcore.memory.estimate import Estimate
from memcore.memory.places import PHASES
from memcore.messages import Message, joined
from memcore.questions.advising.changes import CHANGES, RISKS, Change, Changes, applicable
from memcore.questions.advising.native import dialect_of, native
from memcore.questions.advising.server import ServerAdvice, advised
from memcore.questions.advising.server import ladder as server_ladder
from memcore.questions.costs import Cost, Roofline, cost_of, roofline_of
from memcore.questions.describe import when
from memcore.serving.estimate import ServingEstimate
from memcore.units import GB, format_bytes

_NOTICEABLE = 0.01
"""Slowdowns below this count alike when savings are compared with what they cost."""


@dataclass(frozen=True)
class Advice:
    """A change, and the estimate of the config with it."""

    title: str
    kind: str
    """A key of `memcore.questions.advising.changes.KINDS`."""
    note: str
    changes: Changes
    """Settings that change, by path; None leaves one out."""
    before: Estimate
    after: Estimate
    roofline: Roofline

    @property
    def config(self) -> Config:
        """The config with the change."""
        return self.after.job.config

    @cached_property
    def saving(self) -> int:
        """Bytes in tensors that the binding rank needs less at its peak; negative if it needs more."""
        return self.before.allocated.expected - self.after.allocated.expected

    @cached_property
    def device_saving(self) -> int:
        """The same as the driver shows it, the allocator's gaps included."""
        return self.before.device.expected - self.after.device.expected

    @property
    def allocates_alike(self) -> bool:
        """Only the allocator behaves in another way: what it saves shows in `device_saving` alone."""
        return all(path == EngineSettings.expandable_segments for path in self.changes)

    @property
    def saves(self) -> int:
        """Bytes that it saves, in tensors or, where tensors are the same, on the device."""
        return self.device_saving if self.allocates_alike else self.saving

    @cached_property
    def fits(self) -> bool | None:
        """Whether the job fits with it; None where no accelerator is named."""
        capacity = self.after.capacity
        if capacity is not None and self.after.allocated.expected > capacity:
            return False
        return self.after.fits

    @cached_property
    def _costs(self) -> tuple[Cost, Cost]:
        return cost_of(self.before.job, self.roofline), cost_of(self.after.job, self.roofline)

    @cached_property
    def slowdown(self) -> float:
        """How much longer the GPUs work for a token, as a share; by the roofline, which ranks and promises nothing."""
        before, after = self._costs
        return after.per_token / before.per_token - 1

    @property
    def flags(self) -> tuple[str, ...]:
        """The change in the words of the tool that runs the job."""
        job = self.after.job
        return tuple(native(dialect_of(job.engine.name, job.recipe.implementation), self.changes))

    @property
    def is_offered(self) -> bool:
        """Whether the tool has a word for what changes."""
        job, main = self.after.job, next(iter(self.changes.items()))
        return any(native(dialect_of(job.engine.name, job.recipe.implementation), dict([main])))

    @property
    def reason(self) -> str:
        """Why it is of its class of cost, with numbers."""
        before, after = self._costs
        said = [_arithmetic(before.flops * before.gpus / before.tokens, after.flops * after.gpus / after.tokens)]
        said += [_traffic(name, getattr(before, name), getattr(after, name), words) for name, words in _TRAFFIC.items()]
        if after.bubble > before.bubble:
            said.append(Message("the pipeline idles {:.0f}% of the time it works", 100 * after.bubble))
        found = [each for each in (self.note, *said) if each]
        return joined("; ", found) if found else "no more arithmetic and no more communication"

    @property
    def because(self) -> str | None:
        """Why it saves nothing, if so."""
        if self.saves > 0:
            return None
        return _nothing(self.before, self.after)


_TRAFFIC: Mapping[str, str] = {
    "data": "of parameters and gradients between data-parallel ranks",
    "context": "of keys and values between context-parallel ranks",
    "tensor": "of activations between tensor-parallel ranks",
    "expert": "of hidden states between expert-parallel ranks",
    "pipeline": "of hidden states between stages",
    "host": "between GPU and host",
}


def _arithmetic(before: float, after: float) -> str:
    change = after / before - 1
    return Message("{:+.0f}% arithmetic", 100 * change) if abs(change) >= 0.005 else ""


def _traffic(name: str, before: float, after: float, words: str) -> str:
    if abs(after - before) < 0.005 * max(before, after, GB):
        return ""
    return Message("{:,.1f} GB {} per step, was {:,.1f}", after / GB, words, before / GB)


def _nothing(before: Estimate, after: Estimate) -> str:
    """The moment that binds, and where the change helps instead."""
    sums = before.ledger.by_category
    largest = max(sums, key=lambda name: sums[name])
    lower = [
        Message("it lowers the {} from {} to {}", PHASES[phase], format_bytes(now), format_bytes(then))
        for phase in PHASES
        if (then := after.rank.peak_of(phase)) < (now := before.rank.peak_of(phase)) - now // 1000
    ]
    share = 100 * sums[largest] / before.ledger.total
    peak = (
        Message(
            "the peak is in the {}, where {:.0f}% are {} and this changes nothing",
            when(before.peak, before),
            share,
            largest,
        )
        if after.allocated.expected >= before.allocated.expected
        else Message("the allocator holds no less: the peak is in the {}", when(before.peak, before))
    )
    return joined("; ", (peak, *lower))


@dataclass(frozen=True, slots=True)
class Advised:
    """All advice for a config, best first."""

    estimate: Estimate | ServingEstimate
    advice: tuple[Advice | ServerAdvice, ...]
    ladder: tuple[Advice | ServerAdvice, ...] = ()
    """Changes one on top of another; each is compared with the one before."""

    @property
    def saving(self) -> tuple[Advice | ServerAdvice, ...]:
        """What saves something."""
        return tuple(each for each in self.advice if each.saves > 0)

    @property
    def useless(self) -> tuple[Advice | ServerAdvice, ...]:
        """What saves nothing here; `because` says why."""
        return tuple(each for each in self.advice if each.saves <= 0)


def advise(config: Config | Mapping[str, object], *, ladder: bool = False, roofline: Roofline | None = None) -> Advised:
    """Every change of one knob that applies to a job or a server, with real estimates on both sides.

    Best first: by bytes saved over the slowdown, and after these what costs precision, GPUs or the job itself. With
    `ladder`, also the standard changes one on top of another until the job fits.

    >>> job = {"model": "llama-3.2-1b", "training": {"sequence_length": 8192}}
    >>> found = advise(job)
    >>> best = found.advice[0]
    >>> best.title, best.flags, round(best.saving / 2**30, 1)
    ('Fused linear loss', ('--use_liger_kernel true',), 9.7)

    Raises whatever `estimate` raises.
    """
    *_, last = advice_by_piece(config, roofline=roofline)
    if not ladder:
        return last
    found = last.estimate
    climbed = _ladder(found, _assumed(found, roofline)) if isinstance(found, Estimate) else server_ladder(found)
    return replace(last, ladder=tuple(climbed))


def advice_by_piece(config: Config | Mapping[str, object], *, roofline: Roofline | None = None) -> Iterator[Advised]:
    """What `advise` finds, after every change that was tried: so that somebody else may have a turn in between."""
    found = estimate(config)
    advice: list[Advice | ServerAdvice] = []
    yield Advised(found, ())
    for each in _tried(found, roofline):
        advice.append(each)
        yield Advised(found, tuple(sorted(advice, key=_worth, reverse=True)))


def _tried(found: Estimate | ServingEstimate, roofline: Roofline | None) -> Iterator[Advice | ServerAdvice]:
    if isinstance(found, Estimate):
        yield from _changed(found, CHANGES, _assumed(found, roofline))
    else:
        yield from advised(found)


def _assumed(found: Estimate, roofline: Roofline | None) -> Roofline:
    accelerator = found.job.accelerator.id if found.job.accelerator else None
    return roofline or roofline_of(accelerator, found.job.config[Hardware.gpus_per_node])


def _worth(advice: Advice | ServerAdvice) -> tuple[bool, bool, float]:
    return (
        advice.saves > 0,
        advice.kind not in RISKS,
        advice.saves / max(advice.slowdown, _NOTICEABLE),
    )


def _changed(before: Estimate, rows: Sequence[Change], roofline: Roofline) -> Iterator[Advice]:
    for row in rows:
        for changes in applicable(row, before.job):
            after = _with(before.job.config, changes)
            if after is not None:
                advice = Advice(row.title, row.kind, row.note, changes, before, after, roofline)
                if advice.is_offered:
                    yield advice


def _with(config: Config, changes: Changes) -> Estimate | None:
    """The estimate with some changes; None where engine or model cannot do that."""
    try:
        for path, value in changes.items():
            config = config.replaced(path, value)
        found = estimate(config)
        return found if isinstance(found, Estimate) else None
    except MemcoreError:
        return None


def _ladder(first: Estimate, roofline: Roofline) -> Iterator[Advice]:
    """The rungs: each row in order of harm, on top of those before, unless it saves nothing there."""
    found = first
    for row in CHANGES:
        if not row.ladder or (found.capacity is not None and found.allocated.expected <= found.capacity and found.fits):
            continue
        for rung in _changed(found, (row,), roofline):
            if rung.saves > 0:
                yield rung
                found = rung.after
