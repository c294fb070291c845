"""Sliders below the numbers of the sentence, and what is said of their painted tracks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
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
    fitting = [step for step, mark in zip(steps, marks, strict=True) if mark in ("fits", "tight")]
    sure = [step for step, mark in zip(steps, marks, strict=True) if mark == "fits"]
    if not fitting:
        return say("track-none")
    if len(fitting) == len(steps):
        said = say("track-all")
    elif path.startswith(SMALLEST):
        low, high = format_count(edge or fitting[0]), fitting[-1]
        ends = high < steps[-1]
        said = say("track-between", low=low, high=format_count(high)) if ends else say("track-from", value=low)
    else:
        said = say("track-up-to", value=format_count(edge or fitting[-1]))
    if len(sure) == len(fitting):
        return said
    if not sure:
        return say("track-tight", said=said)
    key, value = ("track-tight-below", sure[0]) if path.startswith(SMALLEST) else ("track-tight-above", sure[-1])
    return say(key, said=said, value=format_count(value))
