"""All classes of ranks compared: a bar for each against the capacity, and a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from memcore.faces.render.markup import exact, exact_table, scrolled
from memcore.faces.render.serving_svg import CLASSES
from memcore.faces.render.svg import TITLES, capacity_line, picture, segment, slug
from memcore.i18n.page import say, translated
from memcore.memory.estimate import Estimate
from memcore.records import dataclass
from memcore.serving.estimate import ServingEstimate
from memcore.units import format_bytes, format_count

_FULL = 80
"""Percent of a row from which on no number fits behind its bar in a narrow window, so that it stands inside."""
_MANY = 8
"""Rows up to which the page shows all of them at once."""
ROW, TOP, LEFT = 30, 22, 18.0
"""Height of a row and of what stands above them, in pixels; where bars begin, in percent."""


@dataclass(frozen=True, slots=True)
class Row:
    """A class of ranks."""

    name: str
    count: int
    parts: Mapping[str, int]
    moment: str
    capacity: int | None = None
    """Of its own GPU, where rows stand for different ones."""

    @property
    def total(self) -> int:
        """Return bytes of all parts."""
        return sum(self.parts.values())


def rows(found: Estimate | ServingEstimate) -> list[Row]:
    """Return every class with what it holds in tensors when it needs most."""
    if isinstance(found, ServingEstimate):
        return [Row(translated(rank.name), rank.count, rank.ledger.by_category, "") for rank in found.ranks]
    return [
        Row(translated(rank.name), rank.count, rank.ledger(rank.peak).by_category, rank.peak.phase.replace("_", " "))
        for rank in found.ranks
    ]


def ranks(found: Estimate | ServingEstimate) -> str:
    """Return the grid and the table; one class is said in a sentence, for which the page has no card."""
    every = rows(found)
    if len(every) == 1:
        if every[0].count == 1:
            return f'<p class="alone">{escape(say("ranks-one"))}</p>'
        return f'<p class="alone">{escape(say("ranks-same"))}</p>'
    classes = CLASSES if isinstance(found, ServingEstimate) else {}
    table = f'<details id="ranks-details"><summary>{escape(say("numbers"))}</summary>{_table(every)}</details>'
    drawn = grid(every, found.capacity, classes)
    return f'<div class="many">{drawn}</div>{table}' if len(every) > _MANY else drawn + table


def grid(every: Sequence[Row], capacity: int | None, classes: Mapping[str, str], name: str = "ranks") -> str:
    """Return a bar for each row on one axis, against the capacity."""
    most = max(every, key=lambda row: row.total)
    scale = (100 - LEFT) / (1.04 * max(most.total, capacity or 0, *(row.capacity or 0 for row in every)))
    body, labels = [], []  # a label is drawn over the line of the capacity
    for number, row in enumerate(every):
        y = TOP + ROW * number
        mark = " ◂" if row is most else ""
        body.append(f'<text x="0%" y="{y + 16}">{escape(row.name)}{mark}</text>')
        start = LEFT
        for part, size in row.parts.items():
            width = size * scale
            fill = classes.get(part, slug(part))
            shape = f'<rect class="{fill}" x="{start:.3f}%" y="{y}" width="{width:.3f}%" height="{ROW - 8}"/>'
            title = say("moment", phase=row.name, where=translated(TITLES.get(part, part)))
            body.append(segment(part, size, row.total, shape, first=start == LEFT and not number, title=title))
            start += width
        if row.capacity is not None:
            edge = f"{LEFT + row.capacity * scale:.3f}%"
            body.append(f'<line class="capacity" x1="{edge}" x2="{edge}" y1="{y - 3}" y2="{y + ROW - 5}"/>')
        inside = start >= _FULL
        place = start - 1 if inside else start + 0.6
        kind = 'class="inside" text-anchor="end"' if inside else 'class="label"'
        labels.append(f'<text {kind} x="{place:.3f}%" y="{y + 16}">{format_bytes(row.total)}</text>')
    height = TOP + ROW * len(every) + 4
    if capacity is not None:
        body.append(capacity_line(capacity, LEFT + capacity * scale, TOP - 6, height))
    body += labels
    described = say("and-also").join(f"{row.name} {format_bytes(row.total)}" for row in every)
    return picture(name, height, say("ranks-title"), described, body)


def _table(every: Sequence[Row]) -> str:
    names = list(dict.fromkeys(name for row in every for name in row.parts))
    most = max(row.total for row in every)
    cells = [
        (
            escape(row.name) + (f" ({escape(say('rank-binds'))})" if row.total == most else ""),
            format_count(row.count),
            exact(row.total),
            *(exact(row.parts.get(name, 0)) for name in names),
        )
        for row in every
    ]
    head = (say("rank"), say("gpus-of-rank"), "Σ", *map(translated, names))
    return scrolled(say("ranks-title"), exact_table(say("ranks-title"), head, cells))
