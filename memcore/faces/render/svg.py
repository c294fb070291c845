"""Pictures of an estimate: the peak as a stacked bar against the capacity, and one step as an area chart.

Colours come from classes, so that a page can theme them; `standalone` adds a style for a file of its own. Positions
across are in percent, so that a picture fits any width without scaling its text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape

from memcore.faces.render.markup import between
from memcore.i18n.page import say, translated
from memcore.memory.estimate import Estimate
from memcore.memory.ledger import CATEGORIES
from memcore.memory.places import PHASES
from memcore.memory.rank import Rank
from memcore.memory.stretches import places_of
from memcore.questions.describe import reason, verdict, when
from memcore.records import dataclass
from memcore.trace.program import Sample
from memcore.units import GiB, format_bytes

COLOURS = {
    "parameters": ("#0072b2", "#56b4e9"),
    "gradients": ("#8a4f00", "#e69f00"),
    "optimizer-states": ("#005f48", "#009e73"),
    "communication": ("#7a3b63", "#cc79a7"),
    "activations": ("#b34700", "#f0803c"),
    "recomputation": ("#7d6608", "#e8d44d"),
    "logits-and-loss": ("#a11d33", "#ef6f7f"),
    "temporaries": ("#4d4d4d", "#9a9a9a"),
    "buffers": ("#3d3d8f", "#8f8fe0"),
    "unused": ("#c9c9c9", "#5a5a5a"),
    "outside": ("#8c8c8c", "#7d7d7d"),
}
"""Fill of each class on a light and on a dark ground."""

STRIP_COLOURS = {
    "strip-attention": ("#0072b2", "#56b4e9"),
    "strip-window": ("#3d8fc0", "#3f86b3"),
    "strip-recurrent": ("#7a3b63", "#cc79a7"),
    "strip-dense": ("#8a4f00", "#e69f00"),
    "strip-experts": ("#005f48", "#009e73"),
    "strip-none": ("#d9d9d9", "#4a4a4a"),
}
"""The same for the parts of layers."""


def slug(category: str) -> str:
    """Return a category as a class name."""
    return category.replace(" ", "-")


@dataclass(frozen=True, slots=True)
class Part:
    """A segment of the bar."""

    name: str
    size: int


def parts(estimate: Estimate) -> list[Part]:
    """Return what fills the GPU at the peak, in stacking order."""
    found = [Part(name, size) for name, size in estimate.ledger.by_category.items()]
    unused = estimate.reserved.expected - estimate.allocated.expected
    found.append(Part("unused", unused))
    found.append(Part("outside", estimate.device.expected - estimate.reserved.expected))
    return [part for part in found if part.size > 0]


TITLES = {
    "unused": "reserved, not in use",
    "outside": "outside the allocator",
}


def bar(estimate: Estimate) -> str:
    """Return the peak as a stacked bar, with the capacity as a line and the range of the total as a whisker."""
    device, capacity = estimate.device, estimate.capacity
    scale = 100 / (1.04 * max(device.high, capacity or 0))
    body: list[str] = []
    start = 0.0
    for part in parts(estimate):
        width = part.size * scale
        name = "" if part.name in TITLES else translated(part.name)
        shape = block(slug(part.name), name, start, width, (capacity or 0) * scale)
        body.append(segment(part.name, part.size, device.expected, shape, first=not start))
        start += width
    low, high = device.low * scale, device.high * scale
    body.append(whisker(low, high))
    body.append(caption(between(device.low, device.high), (low + high) / 2, 98))
    if capacity is not None:
        body.append(capacity_line(capacity, capacity * scale))
    return picture("bar", 104, verdict(estimate).headline, _bar_description(estimate), body)


def block(colour: str, text: str, start: float, width: float, line: float = 0) -> str:
    """Return a rectangle of a bar with a text inside, if there is room for it in a narrow window.

    The text stands on one side of a line across the bar; all places are in percent.
    """
    shape = f'<rect class="{colour}" x="{start:.3f}%" y="26" width="{width:.3f}%" height="44"/>'
    wide = 0.75 * _wide(text) + 1.5  # a bar is at least a third wider than the narrowest picture
    sides = [(start, line), (line, start + width)] if start < line < start + width else [(start, start + width)]
    left = next((left for left, right in sides if wide <= right - left), None)
    if not text or left is None:
        return shape
    return f'{shape}<text class="inside" x="{left + 1:.3f}%" y="52">{escape(text)}</text>'


def _wide(text: str) -> float:
    """Return how wide a text is where the picture is narrow, in percent."""
    return sum(_CHARACTER if each.isascii() else _WIDE for each in text)


def segment(name: str, size: int, total: int, shape: str, *, first: bool = False, title: str = "") -> str:
    """Return a part of a picture that can be pointed at and chosen: by the pointer, or by Tab and the arrow keys."""
    share = f"{100 * size / total:.0f}" if total else "0"
    described = escape(
        say("share-of", title=title or translated(TITLES.get(name, name)), size=format_bytes(size), share=share)
    )
    return (
        f'<g class="segment" data-part="{slug(name)}" role="button" aria-pressed="false" '
        f'tabindex="{0 if first else -1}" aria-label="{described}"><title>{described}</title>{shape}</g>'
    )


def _bar_description(estimate: Estimate) -> str:
    return "; ".join(
        f"{translated(TITLES.get(part.name, part.name))} {format_bytes(part.size)}" for part in parts(estimate)
    )


def caption(text: str, at: float, y: float) -> str:
    """Return a text at a place across, in percent; near an edge it ends or begins there."""
    anchor = "start" if at < 20 else "end" if at > 80 else "middle"
    return f'<text x="{at:.3f}%" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'


def whisker(low: float, high: float) -> str:
    """Return the range of a bar's total; places across in percent."""
    return (
        f'<g class="whisker"><line x1="{low:.3f}%" x2="{high:.3f}%" y1="80" y2="80"/>'
        f'<line x1="{low:.3f}%" x2="{low:.3f}%" y1="75" y2="85"/>'
        f'<line x1="{high:.3f}%" x2="{high:.3f}%" y1="75" y2="85"/></g>'
    )


def capacity_line(capacity: int, edge: float, top: int = 18, bottom: int = 86) -> str:
    """Return the GPU's memory at a place across, in percent, with its size above."""
    line = f'<line class="capacity" x1="{edge:.3f}%" x2="{edge:.3f}%" y1="{top}" y2="{bottom}"/>'
    return line + caption(say("capacity-label", size=format_bytes(capacity)), edge, 12)


TABLES = {
    "bar": "ledger",
    "timeline": "moments-details",
    "users": "moments-details",
    "ranks": "ranks-details",
    "curve": "curve-details",
    "compared": "compare-sizes",
}
"""Where the page has the same as a picture in a table, by the picture's name."""


def picture(name: str, height: int, title: str, description: str, body: Sequence[str]) -> str:
    """A picture with its title and description, as wide as there is room; a group where its parts can be chosen."""
    role = "group" if any("data-part" in each for each in body) else "img"
    table = f' aria-details="{TABLES[name]}"' if name in TABLES else ""
    return (
        f'<svg class="picture {name}" role="{role}" aria-labelledby="{name}-title {name}-description"{table} '
        f'width="100%" height="{height}" xmlns="http://www.w3.org/2000/svg">'
        f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-description">{escape(description)}</desc>'
        f"{''.join(body)}</svg>"
    )


LEFT, RIGHT, _TOP, _BOTTOM, _HEIGHT = 9.0, 99.0, 20, 236, 262
"""The plot inside the area chart: across in percent, down in pixels."""
_CHARACTER, _WIDE = 2.4, 4.2
"""How wide a character is where the picture is narrow (300 pixels), in percent: of Latin script, of Chinese."""


def timeline(estimate: Estimate, rank: Rank | None = None) -> str:
    """One step as stacked areas: across its stretches in order, as wide as they have layers; up, allocated memory.

    Of the rank that needs most, if none is given.
    """
    rank = rank or estimate.rank
    samples = rank.profile
    top = ceiling(estimate)
    places = places_of(samples)
    body = list(_grid(top))
    body.append(
        f'<svg x="{LEFT}%" y="{_TOP}" width="{RIGHT - LEFT}%" height="{_BOTTOM - _TOP}" '
        'viewBox="0 0 1000 1000" preserveAspectRatio="none">'
    )
    body += _areas(samples, places, top)
    body.append("</svg>")
    body += _phases(samples, places)
    body += _peak(estimate, rank, places, top)
    title = say("step-picture", reason=reason(estimate) if rank is estimate.rank else translated(rank.name))
    return picture("timeline", _HEIGHT, title, _timeline_description(rank), body)


def _timeline_description(rank: Rank) -> str:
    highest = {phase: rank.peak_of(phase) for phase in PHASES}
    found = {translated(PHASES[phase]): size for phase, size in highest.items() if size}
    return "; ".join(say("phase-up-to", phase=phase, size=format_bytes(size)) for phase, size in found.items())


def ceiling(estimate: Estimate) -> int:
    """Return bytes at the upper edge of the area chart."""
    peak, capacity = estimate.peak.peak, estimate.capacity or 0
    return int(1.08 * (capacity if peak < capacity < 1.5 * peak else peak))


def _areas(samples: Sequence[Sample], places: Sequence[tuple[float, float]], top: int) -> Iterator[str]:
    names = list(CATEGORIES)
    lower = [0] * len(samples)
    for number, name in enumerate(names):
        upper = [base + sample.levels[number] for base, sample in zip(lower, samples, strict=True)]
        if upper != lower:
            forth = outline(upper, places, top)
            back = outline(lower, places, top)[::-1]
            points = " ".join(f"{x:.1f},{y:.1f}" for x, y in forth + back)
            shape = f'<polygon class="{slug(name)}" points="{points}"/>'
            highest = max(sample.levels[number] for sample in samples)
            yield segment(name, highest, top, shape, first=not number, title=say("at-most", name=translated(name)))
        lower = upper


def outline(levels: Sequence[int], places: Sequence[tuple[float, float]], top: int) -> list[tuple[float, float]]:
    """Return a curve through samples, in a plot of 1000 by 1000."""
    points = []
    for level, (start, end) in zip(levels, places, strict=True):
        y = 1000 - 1000 * level / top
        points += [(1000 * start, y), (1000 * end, y)]
    return points


def _across(place: float) -> float:
    return LEFT + (RIGHT - LEFT) * place


def _down(level: float, top: int) -> float:
    return _BOTTOM - (_BOTTOM - _TOP) * level / top


def _grid(top: int) -> Iterator[str]:
    for size in ticks(top):
        yield from gridline(f"{size:g}", _down(size * GiB, top), LEFT, RIGHT)
    yield '<text x="0%" y="12">GiB</text>'


_STEPS = (0.1, 0.25, 0.5, *(size * 10**power for power in range(40) for size in (1, 2, 5)))


def ticks(top: int) -> list[float]:
    """Return round numbers of GiB up to a size in bytes, at most six above 0."""
    step = next(size for size in _STEPS if top / GiB / size <= 6)
    return [number * step for number in range(int(top / GiB / step) + 1)]


def gridline(text: str, y: float, left: float, right: float) -> Iterator[str]:
    """Yield a line across a plot, and what it stands for on its left; places across in percent."""
    yield f'<line class="grid" x1="{left}%" x2="{right}%" y1="{y:.1f}" y2="{y:.1f}"/>'
    yield f'<text x="{left - 0.8:.1f}%" y="{y + 4:.1f}" text-anchor="end">{text}</text>'


def phases_of(samples: Sequence[Sample], places: Sequence[tuple[float, float]]) -> list[tuple[str, float, float]]:
    """Return each phase by its short name, and where it begins and ends, from 0 to 1."""
    found, start = [], 0
    for number in range(1, len(samples) + 1):
        if number == len(samples) or samples[number].phase != samples[start].phase:
            phase = samples[start].phase
            short = translated(phase if phase in ("forward", "backward") else PHASES[phase])
            found.append((short, places[start][0], places[number - 1][1]))
            start = number
    return found


def _phases(samples: Sequence[Sample], places: Sequence[tuple[float, float]]) -> Iterator[str]:
    """Draw where phases begin, and their names below the plot, the widest first, where there is room."""
    found = phases_of(samples, places)
    taken: list[tuple[float, float]] = []
    shown = set()
    for name, left, right in sorted(found, key=lambda phase: phase[1] - phase[2]):
        half = _wide(name) / 2
        middle = _across((left + right) / 2)
        if middle + half <= 100 and all(middle + half < start or end < middle - half for start, end in taken):
            taken.append((middle - half, middle + half))
            shown.add(left)
    for name, left, right in found:
        x, middle = _across(left), _across((left + right) / 2)
        hidden = "" if left in shown else ' visibility="hidden"'
        yield f'<line class="phase" x1="{x:.3f}%" x2="{x:.3f}%" y1="{_TOP}" y2="{_BOTTOM}"/>'
        yield (
            f'<text class="name" x="{middle:.3f}%" y="{_BOTTOM + 18}" text-anchor="middle"{hidden}>'
            f"{escape(name)}</text>"
        )


def _peak(estimate: Estimate, rank: Rank, places: Sequence[tuple[float, float]], top: int) -> Iterator[str]:
    samples, peak = rank.profile, rank.peak
    highest = max(range(len(samples)), key=lambda number: sum(samples[number].levels))
    x, y = _across(sum(places[highest]) / 2), _down(peak.peak, top)
    title = escape(when(peak, estimate, rank))
    yield f'<circle class="peak" cx="{x:.3f}%" cy="{y:.1f}" r="4"><title>{title}</title></circle>'
    if estimate.capacity is not None and estimate.capacity < top:
        line = _down(estimate.capacity, top)
        yield f'<line class="capacity" x1="{LEFT}%" x2="{RIGHT}%" y1="{line:.1f}" y2="{line:.1f}"/>'
    label = say("peak-label", size=format_bytes(peak.peak), phase=translated(PHASES[peak.phase]))
    anchor = "end" if x > 80 else "start" if x < LEFT + 20 else "middle"
    yield f'<text class="label" x="{x:.3f}%" y="{y - 8:.1f}" text-anchor="{anchor}">{label}</text>'


STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#1a1a1a}.label{paint-order:stroke;stroke:#fff;stroke-width:3}"
    "line{stroke:#1a1a1a}.grid{stroke:#d0d0d0}"
    ".inside{fill:#fff}"
    ".capacity{stroke:#c00000;stroke-width:2;stroke-dasharray:5 3}.phase{stroke:#8c8c8c}.peak{fill:#1a1a1a}"
)
"""Of pictures that are files of their own, on a light ground."""


def alone(picture: str) -> str:
    """Return a picture without what it says of the page around it."""
    return re.sub(r' aria-details="[^"]*"', "", picture)


def standalone(picture: str) -> str:
    """Return a picture as a file of its own, with its style inside."""
    colours = STRIP_COLOURS if 'class="picture strip"' in picture else COLOURS
    rules = [f".{name}{{fill:{light}}}" for name, (light, _) in colours.items()]
    dark = [f".{name}{{fill:{dark}}}" for name, (_, dark) in colours.items()]
    style = (
        f"{STYLE}{''.join(rules)}"
        "@media(prefers-color-scheme:dark){text,.peak{fill:#f0f0f0}.inside{fill:#111}.label{stroke:#111}line{stroke:#f0f0f0}.grid{stroke:#444}"
        f".capacity{{stroke:#ff7b7b}}{''.join(dark)}}}"
    )
    head, _, tail = alone(picture).partition(">")
    return f"{head}><style>{style}</style>{tail}\n"
