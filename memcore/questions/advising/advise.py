"""What to change: every change of one knob that applies to a config, with what it saves and what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from memcore import registry
from memcore.config.engine import EngineSettings
from memcore.config.settings import Config
from memcore.estimation import changed, estimate
from memcore.memory.estimate import Estimate
from memcore.memory.places import PHASES
from memcore.messages import Message, joined
from memcore.questions.advising.changes import CHANGES, applicable
from memcore.questions.advising.native import dialect_of, native
from memcore.questions.advising.server import ServerAdvice, advised
from memcore.questions.advising.server import ladder as server_ladder
from memcore.questions.costs import Cost, cost_of
from memcore.questions.describe import when
from memcore.questions.roofline import Roofline, roofline_for
from memcore.records import dataclass
from memcore.serving.estimate import ServingEstimate
from memcore.trace.changes import RISKS, Change, Changes
from memcore.units import GB, format_bytes

_NOTICEABLE = 0.01
"""Slowdowns below this count alike when savings are compared with what they cost."""


@dataclass(frozen=True)
class Advice:
    """One change of a training job, with the estimates before and after it."""

    title: str
    """The change in a few words, such as "Fused linear loss"."""
    kind: str
    """A key of `memcore.trace.changes.KINDS`."""
    note: str
    """What the change costs besides time; empty if nothing."""
    changes: Changes
    """The new values by the path of their setting; None removes a setting."""
    before: Estimate
    """The estimate without the change."""
    after: Estimate
    """The estimate with the change."""
    roofline: Roofline
    """The rates that `slowdown` assumes."""

    @property
    def config(self) -> Config:
        """Return the config with the change."""
        return self.after.job.config

    @cached_property
    def saving(self) -> int:
        """Return the allocated memory saved at the peak; negative if the job needs more."""
        return self.before.allocated.expected - self.after.allocated.expected

    @cached_property
    def device_saving(self) -> int:
        """Return the bytes saved on the device, as nvidia-smi shows them."""
        return self.before.device.expected - self.after.device.expected

    @property
    def allocates_alike(self) -> bool:
        """Return whether only the allocator changes, so that the saving shows in `device_saving` alone."""
        return all(path == EngineSettings.expandable_segments for path in self.changes)

    @property
    def saves(self) -> int:
        """Return the bytes saved in tensors or, if tensors are unchanged, on the device."""
        return self.device_saving if self.allocates_alike else self.saving

    @cached_property
    def fits(self) -> bool | None:
        """Return whether the job fits with the change, or None if the config names no accelerator."""
        capacity = self.after.capacity
        if capacity is not None and self.after.allocated.expected > capacity:
            return False
        return self.after.fits

    @cached_property
    def _costs(self) -> tuple[Cost, Cost]:
        return cost_of(self.before.job, self.roofline), cost_of(self.after.job, self.roofline)

    @cached_property
    def slowdown(self) -> float:
        """Return the relative change of GPU time per token (0.3: 30 % slower), a roofline estimate for ranking only."""
        before, after = self._costs
        return after.per_token / before.per_token - 1

    @property
    def flags(self) -> tuple[str, ...]:
        """Return the change as flags of the tool that runs the job."""
        job = self.after.job
        return tuple(native(dialect_of(job.engine.name, job.recipe.implementation), self.changes))

    @property
    def is_offered(self) -> bool:
        """Return whether the tool has a flag for the change."""
        job, main = self.after.job, next(iter(self.changes.items()))
        return any(native(dialect_of(job.engine.name, job.recipe.implementation), dict([main])))

    @property
    def reason(self) -> str:
        """Return what the change costs, with numbers: arithmetic, communication, pipeline bubble."""
        before, after = self._costs
        said = [_arithmetic(before.flops * before.gpus / before.tokens, after.flops * after.gpus / after.tokens)]
        said += [_traffic(name, getattr(before, name), getattr(after, name), words) for name, words in _TRAFFIC.items()]
        if after.bubble > before.bubble:
            said.append(Message("pipeline bubble: idle time is {:.0f}% of compute time", 100 * after.bubble))
        found = [each for each in (self.note, *said) if each]
        return joined("; ", found) if found else "no extra arithmetic and no extra communication"

    @property
    def because(self) -> str | None:
        """Return why the change saves nothing, or None if it saves something."""
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
    return Message("{:+.0f}% FLOPs", 100 * change) if abs(change) >= 0.005 else ""


def _traffic(name: str, before: float, after: float, words: str) -> str:
    if abs(after - before) < 0.005 * max(before, after, GB):
        return ""
    return Message("{:,.1f} GB {} per step instead of {:,.1f} GB", after / GB, words, before / GB)


def _nothing(before: Estimate, after: Estimate) -> str:
    """The peak, which the change does not lower, and where it helps instead."""
    sums = before.ledger.by_category
    largest = max(sums, key=lambda name: sums[name])
    lower = [
        Message("{} falls from {} to {}", PHASES[phase], format_bytes(now), format_bytes(then))
        for phase in PHASES
        if (then := after.rank.peak_of(phase)) < (now := before.rank.peak_of(phase)) - now // 1000
    ]
    share = 100 * sums[largest] / before.ledger.total
    peak = (
        Message(
            "no effect at the peak ({}), where {:.0f}% is {}",
            when(before.peak, before),
            share,
            largest,
        )
        if after.allocated.expected >= before.allocated.expected
        else Message("reserved memory stays the same: the peak is in the {}", when(before.peak, before))
    )
    return joined("; ", (peak, *lower))


@dataclass(frozen=True, slots=True)
class Advised:
    """Every change that applies to a config, best first; `advise` returns it."""

    estimate: Estimate | ServingEstimate
    """The estimate of the config as given."""
    advice: tuple[Advice | ServerAdvice, ...]
    """One change each, compared with `estimate`."""
    ladder: tuple[Advice | ServerAdvice, ...] = ()
    """Changes on top of each other, each compared with the one before; empty unless asked for."""

    @property
    def saving(self) -> tuple[Advice | ServerAdvice, ...]:
        """Return the changes that save memory."""
        return tuple(each for each in self.advice if each.saves > 0)

    @property
    def useless(self) -> tuple[Advice | ServerAdvice, ...]:
        """Return the changes that save nothing here; `because` says why."""
        return tuple(each for each in self.advice if each.saves <= 0)

    def __repr__(self) -> str:
        """Return what saves memory; `print` shows what it costs."""
        return f"<{type(self).__name__}: {'; '.join(each.title for each in self.saving)}>"

    def __str__(self) -> str:
        """Return what `memcore advise` prints."""
        return str(registry.face().text_of(self))


def advise(config: Config | Mapping[str, object], *, ladder: bool = False, roofline: Roofline | None = None) -> Advised:
    """Try every change of one setting that applies, and estimate the job with each of them.

    The order is bytes saved over slowdown; changes that cost precision, GPUs or part of the job come last.

    Args:
        config: A training job or a server, as in `estimate`.
        ladder: Also stack the standard changes on top of each other until the job fits.
        roofline: Rates for the slowdown; by default those of the config's accelerator.

    Returns:
        An `Advised` with the estimate and the changes.

    Raises:
        ConfigError: As in `estimate`.
        UnsupportedError: As in `estimate`.

    Sources: savings are differences of two estimates; slowdowns follow [the cost model](costs.md).

    Examples:
        >>> job = {"model": "llama-3.2-1b", "training": {"sequence_length": 8192}}
        >>> best = advise(job).advice[0]
        >>> best.title, best.flags, round(best.saving / 2**30, 1)
        ('Fused linear loss', ('--use_liger_kernel true',), 11.0)
    """
    *_, last = advice_by_piece(config, roofline=roofline)
    if not ladder:
        return last
    found = last.estimate
    climbed = _ladder(found, _assumed(found, roofline)) if isinstance(found, Estimate) else server_ladder(found)
    return replace(last, ladder=tuple(climbed))


def advice_by_piece(config: Config | Mapping[str, object], *, roofline: Roofline | None = None) -> Iterator[Advised]:
    """Yield the result of `advise` after every change that was tried, so that other work can run in between."""
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
    return roofline or roofline_for(found.job.config)


def _worth(advice: Advice | ServerAdvice) -> tuple[bool, bool, float]:
    return (
        advice.saves > 0,
        advice.kind not in RISKS,
        advice.saves / max(advice.slowdown, _NOTICEABLE),
    )


def _changed(before: Estimate, rows: Sequence[Change], roofline: Roofline) -> Iterator[Advice]:
    for row in rows:
        for changes in applicable(row, before.job):
            after = changed(before.job.config, changes)
            if isinstance(after, Estimate):
                advice = Advice(row.title, row.kind, row.note, changes, before, after, roofline)
                if advice.is_offered:
                    yield advice


def _ladder(first: Estimate, roofline: Roofline) -> Iterator[Advice]:
    """Yield the rungs: each row in order of harm, on top of those before, unless it saves nothing there."""
    found = first
    for row in CHANGES:
        if not row.ladder or (found.capacity is not None and found.allocated.expected <= found.capacity and found.fits):
            continue
        for rung in _changed(found, (row,), roofline):
            if rung.saves > 0:
                yield rung
                found = rung.after
