"""The picture of a step that can be explored: the areas, what they show at each moment, and what is alive then.

The page's crosshair reads the levels from the picture's data; the tensors of a moment are asked for one by one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape

from memcore.faces.render.markup import exact
from memcore.faces.render.svg import LEFT, RIGHT, ceiling, phases_of, slug, timeline
from memcore.i18n.page import named, say, translated
from memcore.memory.estimate import Estimate
from memcore.memory.ledger import CATEGORIES, Entry, Ledger
from memcore.memory.rank import Rank
from memcore.memory.stretches import Stretch, places_of, stretches
from memcore.questions.describe import when, why
from memcore.units import format_bytes

BRIEFLY, PINNED = 5, 12
"""How many tensors of a moment are listed under the crosshair, and when it is pinned."""


def step(estimate: Estimate, rank: Rank | None = None) -> str:
    """Return the picture with its crosshair, and the list next to it, which begins with the peak."""
    rank = rank or estimate.rank
    every = stretches(rank)
    at, done = _peak(every)
    here = every[at]
    data = escape(json.dumps(_data(estimate, rank, every), ensure_ascii=False, separators=(",", ":")))
    stops = sum(each.repeats for each in every)
    now = sum(each.repeats for each in every[:at]) + done
    name = _name(when(here.moment, estimate, rank), done, here.repeats)
    said = escape(say("moment-said", name=name, size=format_bytes(max(sum(here.first), sum(here.last)))))
    return (
        f'<div class="step"><div class="chart" data-step="{data}">{timeline(estimate, rank)}'
        f'<div id="scan" role="slider" tabindex="0" aria-label="{escape(say("moment-slider"))}" aria-valuemin="0" '
        f'aria-valuemax="{stops - 1}" aria-valuenow="{now}" aria-valuetext="{said}" aria-describedby="moment-hint">'
        '<i class="pinned" hidden=""></i><i class="cross" hidden=""></i><i class="spot" hidden=""></i>'
        '<i class="brush" hidden=""></i></div></div>'
        f"{_panel(name, here, done, rank, every)}</div>"
    )


def _data(estimate: Estimate, rank: Rank, every: Sequence[Stretch]) -> Mapping[str, object]:
    """Return what the crosshair reads: kinds, phases, and each stretch with its place, name, length and levels."""
    used = _used(every)
    rows = []
    for each in every:
        first, last = [each.first[kind] for kind in used], [each.last[kind] for kind in used]
        name = when(each.moment, estimate, rank)
        rows.append(
            [round(each.start, 6), round(each.end, 6), name, each.repeats, first, *([last] if last != first else [])]
        )
    samples = rank.profile
    return {
        "rank": rank.name,
        "top": ceiling(estimate),
        "plot": [LEFT, RIGHT],
        "peak": _peak(every),
        "phases": [
            [name, round(start, 6), round(end, 6)] for name, start, end in phases_of(samples, places_of(samples))
        ],
        "stretches": rows,
    }


def _used(every: Sequence[Stretch]) -> list[int]:
    """Return the categories that occur in the step, by number."""
    return [kind for kind in range(len(CATEGORIES)) if any(each.first[kind] or each.last[kind] for each in every)]


def _peak(every: Sequence[Stretch]) -> tuple[int, int]:
    """Return the stretch that holds most, and the repetition."""
    at = max(range(len(every)), key=lambda number: max(sum(every[number].first), sum(every[number].last)))
    return at, every[at].repeats - 1 if sum(every[at].last) > sum(every[at].first) else 0


def _name(name: str, done: int, repeats: int) -> str:
    return say("moment-run", name=name, number=done + 1, count=repeats) if repeats > 1 else name


def _panel(name: str, here: Stretch, done: int, rank: Rank, every: Sequence[Stretch]) -> str:
    """Return what is in memory at a moment: bytes by kind, and the largest tensors."""
    found = here.ledger(rank, done)
    names = list(CATEGORIES)
    rows = "".join(
        f'<li><span class="swatch {slug(names[kind])}"></span><span>{escape(translated(names[kind]))}</span>'
        f"<b>{format_bytes(found.by_category.get(names[kind], 0))}</b></li>"
        for kind in _used(every)
    )
    return (
        f'<div id="moment" tabindex="0" role="group" aria-label="{escape(say("moment-panel"))}">'
        f'<p><span id="moment-state" class="note">{escape(say("moment-peak"))}</span> '
        f'<button type="button" id="moment-unpin" class="link" hidden="">{escape(say("moment-unpin"))}</button></p>'
        f'<p><b id="moment-name">{escape(name)}</b> <b id="moment-total">{format_bytes(found.total)}</b></p>'
        f'<ul id="moment-kinds">{rows}</ul><h3>{escape(say("moment-largest"))}</h3>'
        f'<div id="moment-tensors">{tensors(found, rank, pinned=False)}</div>'
        f'<p class="note" id="moment-hint">{escape(say("moment-hint"))}</p></div>'
    )


def tensors(found: Ledger, rank: Rank, *, pinned: bool) -> str:
    """The largest tensors of a moment; of a pinned one more, each with its formula, its reason and its source."""
    shown = found.entries[: PINNED if pinned else BRIEFLY]
    rest = found.entries[len(shown) :]
    rows = "".join(f"<li>{_explained(each, rank) if pinned else _line(each)}</li>" for each in shown)
    more = say("moment-more", count=len(rest), size=format_bytes(sum(each.bytes for each in rest))) if rest else ""
    return f'<ol>{rows}</ol><p class="note">{escape(more)}</p>'


def _line(entry: Entry) -> str:
    module = f" <code>{escape(_within(entry.module))}</code>" if entry.module else ""
    return (
        f'<span class="swatch {slug(entry.category)}"></span><span>{escape(translated(entry.title))}{module}</span>'
        f"<b>{exact(entry.bytes)}</b>"
    )


def _within(module: str) -> str:
    """Return a module's path from its layer on, as there is little room."""
    return module.rpartition("*.")[2] or module


def _explained(entry: Entry, rank: Rank) -> str:
    return (
        f"<details><summary>{_line(entry)}</summary>"
        f'<p><code>{escape(entry.module)}</code></p><p class="formula"><code>{escape(entry.formula)}</code></p>'
        f'<p class="formula"><code>{escape(entry.numbers(rank.job.sizes))}</code></p><p>{escape(why(entry))}</p>'
        f'<p class="note">{escape(say("explain-source"))}: {escape(named(entry.source))}</p></details>'
    )
