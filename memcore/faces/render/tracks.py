"""Sliders below the numbers of the sentence, and what is said of their painted tracks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import groupby
from math import log2

from memcore.i18n.page import say
from memcore.questions.painting import TRACKS
from memcore.questions.solving import SMALLEST
from memcore.units import format_count, parse_count


def slider(path: str, name: str, title: str, text: str, hint: str) -> str:
    """A slider of a number with its track, and a hint; a step is twice the one before. `text` is the number given."""
    powers = TRACKS[path]
    return (
        f'<span class="pull"><span class="paint" aria-hidden="true"></span><input type="range" class="track" '
        f'id="{name}-track" data-track="{path}" min="{powers[0]}" max="{powers[-1]}" step="1" '
        f'value="{_position(powers, text)}" aria-label="{escape(say("track", name=title))}" '
        f'aria-describedby="{name}-painted"><span class="ends" aria-hidden="true"><span>{_short(powers[0])}</span>'
        f'<span>{_short(powers[-1])}</span></span><span class="painted" id="{name}-painted"></span>{hint}</span>'
    )


def _position(powers: range, text: str) -> int:
    try:
        return min(max(round(log2(parse_count(text))), powers[0]), powers[-1])
    except ValueError:
        return powers[0]


def _short(power: int) -> str:
    return f"{2 ** (power - 10)}k" if power >= 10 else str(2**power)


def track_title(path: str, marks: Sequence[str], edge: int = 0) -> str:
    """Return what a painted track says; `edge`: the exact value up to which the job fits, or from which on."""
    steps = [2**power for power in TRACKS[path]]
    fitting = _runs(steps, [mark in ("fits", "tight") for mark in marks])
    if not fitting:
        return say("track-none")
    said = _fits(steps, _extended(fitting, edge, smallest=path.startswith(SMALLEST)))
    sure = [step for step, mark in zip(steps, marks, strict=True) if mark == "fits"]
    tight = [step for step, mark in zip(steps, marks, strict=True) if mark == "tight"]
    if not tight:
        return said
    if not sure:
        return say("track-tight", said=said)
    if tight[-1] < sure[0]:
        return say("track-tight-below", said=said, value=format_count(sure[0]))
    if tight[0] > sure[-1]:
        return say("track-tight-above", said=said, value=format_count(sure[-1]))
    return say("track-tight-at", said=said, values=_listed(_runs(steps, [mark == "tight" for mark in marks])))


def _runs(steps: Sequence[int], chosen: Sequence[bool]) -> list[tuple[int, int]]:
    """Return the first and last step of every stretch of chosen ones."""
    grouped = groupby(zip(steps, chosen, strict=True), key=lambda each: each[1])
    runs = [[step for step, _ in group] for among, group in grouped if among]
    return [(run[0], run[-1]) for run in runs]


def _extended(runs: list[tuple[int, int]], edge: int, *, smallest: bool) -> list[tuple[int, int]]:
    """Return stretches whose outer end is the exact value, if that lies between the end and the next step."""
    (first, end), (start, last) = runs[0], runs[-1]
    if smallest and first < 2 * edge <= 2 * first:
        return [(edge, end), *runs[1:]]
    return [*runs[:-1], (start, edge)] if not smallest and last <= edge < 2 * last else runs


def _fits(steps: Sequence[int], runs: list[tuple[int, int]]) -> str:
    """Return which of a slider's values fit: one stretch by its ends, several one by one."""
    if len(runs) > 1:
        return say("track-some", values=_listed(runs))
    low, high = runs[0]
    if low <= steps[0] and high >= steps[-1]:
        return say("track-all")
    if high >= steps[-1]:
        return say("track-from", value=format_count(low))
    if low <= steps[0]:
        return say("track-up-to", value=format_count(high))
    return say("track-between", low=format_count(low), high=format_count(high))


def _listed(runs: list[tuple[int, int]]) -> str:
    ends = [(format_count(low), format_count(high)) for low, high in runs]
    return say("and-comma").join(low if low == high else say("between", low=low, high=high) for low, high in ends)
