"""Every stage of a pipeline as a small picture of its step, all on one scale; pressing one shows it large."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from memcore.faces.render.svg import ceiling, outline
from memcore.i18n.page import say, translated
from memcore.memory.estimate import Estimate
from memcore.memory.rank import Rank
from memcore.memory.stretches import places_of
from memcore.units import format_bytes


def stages(estimate: Estimate, shown: Rank) -> Iterator[str]:
    """Yield the pictures, one after the other; what comes last is all of them. Empty where all ranks are alike."""
    if len(estimate.ranks) < 2:
        yield ""
        return
    items: list[str] = []
    for number, rank in enumerate(estimate.ranks):
        items.append(_stage(estimate, rank, number, shown))
        yield ""
    yield f'<ul aria-label="{escape(say("stages"))}">{"".join(items)}</ul>'


def _stage(estimate: Estimate, rank: Rank, number: int, shown: Rank) -> str:
    top = ceiling(estimate)
    levels = [sum(sample.levels) for sample in rank.profile]
    points = " ".join(f"{x:.0f},{y:.0f}" for x, y in outline(levels, places_of(rank.profile), top))
    line = ""
    if estimate.capacity is not None and estimate.capacity < top:
        y = 1000 - 1000 * estimate.capacity / top
        line = f'<line class="capacity" x1="0" x2="1000" y1="{y:.0f}" y2="{y:.0f}"/>'
    worst = f" <small>{escape(say('rank-binds'))}</small>" if rank is estimate.rank else ""
    return (
        f'<li><button type="button" data-stage="{number}" aria-pressed="{str(rank is shown).lower()}">'
        '<svg class="picture" aria-hidden="true" width="100%" height="48" viewBox="0 0 1000 1000" '
        f'preserveAspectRatio="none"><polygon class="activations" points="0,1000 {points} 1000,1000"/>{line}</svg>'
        f"<span>{escape(translated(rank.name))} <b>{format_bytes(rank.peak.peak)}</b>{worst}</span></button></li>"
    )
