"""Memory of the worst GPU against one setting: a line with its range, the capacity, and where they cross."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from itertools import pairwise
from math import log2

from memcore.config.kinds import Integer
from memcore.config.settings import SETTINGS
from memcore.config.training import Training
from memcore.faces.render.form import is_shown
from memcore.faces.render.markup import exact, exact_table, scrolled
from memcore.faces.render.svg import caption, gridline, picture, ticks
from memcore.i18n.page import label, say
from memcore.memory.estimate import Estimate
from memcore.questions.solving import SOLVABLE
from memcore.records import dataclass
from memcore.serving.estimate import ServingEstimate
from memcore.serving.inference import Inference
from memcore.units import GiB, format_bytes, format_count

CURVES = tuple(
    path
    for path in SOLVABLE
    if path.startswith(("training.", "inference.", "parallelism.", "hardware.num"))
    and isinstance(SETTINGS[path].kind, Integer)
)
"""Settings that a curve can be drawn for."""
_LEFT, _RIGHT, _TOP, _BOTTOM, _HEIGHT = 9.0, 97.0, 20, 196, 232


@dataclass(frozen=True, slots=True)
class Point:
    """What a job needs at one value of the setting; of a server whose cache takes what there is, for its users."""

    value: int
    low: int
    expected: int
    high: int
    fits: bool | None


def point_of(value: int, found: Estimate | ServingEstimate) -> Point:
    """Return what a job needs at one value of the setting, in bytes of its fullest GPU."""
    device, capacity, left = found.device, found.capacity, found.headroom
    need = device.expected if capacity is None or left is None else capacity - left
    return Point(value, need - device.expected + device.low, need, need - device.expected + device.high, found.fits)


def curve_options(engine: str) -> str:
    """Return the settings that a curve can be drawn for, as options."""
    usual = (Training.sequence_length, Inference.max_model_len)
    every = [path for path in CURVES if is_shown(path, engine, "")]
    return "".join(
        f'<option value="{path}"{" selected" if path in usual else ""}>'
        f"{escape(label(path, SETTINGS[path].label))}</option>"
        for path in every
    )


def curve_html(title: str, points: Sequence[Point], capacity: int | None, here: int) -> str:
    """Return the picture and the same in numbers."""
    drawn = curve_svg(title, points, capacity, here) if len(points) > 1 else ""
    names = {True: say("verdict-fits"), False: say("verdict-no"), None: "?"}
    rows = [
        (
            format_count(each.value),
            exact(each.expected),
            f"{format_bytes(each.low)} – {format_bytes(each.high)}",
            escape(names[each.fits]),
        )
        for each in points
    ]
    head = (title, say("readings"), "↕", say("verdict"))
    table = exact_table(say("curve-title", name=title), head, rows)
    return (
        f'{drawn}<details id="curve-details"><summary>{escape(say("numbers"))}</summary>'
        f"{scrolled(title, table)}</details>"
    )


def curve_svg(title: str, points: Sequence[Point], capacity: int | None, here: int) -> str:
    """Return the picture alone; across, the setting on a logarithmic scale."""
    first, last = points[0].value, points[-1].value
    top = 1.08 * max(points[-1].high, points[0].high, capacity or 0)
    if capacity:
        asked = next((each.expected for each in points if each.value == here), 0)
        top = min(top, max(3 * capacity, 1.08 * asked))

    def across(value: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * log2(value / first) / log2(last / first)

    def down(size: float) -> float:
        return _BOTTOM - (_BOTTOM - _TOP) * size / top

    body = [part for size in ticks(int(top)) for part in gridline(f"{size:g}", down(size * GiB), _LEFT, _RIGHT)]
    body.append('<text x="0%" y="12">GiB</text>')
    upper = [(across(each.value), down(each.high)) for each in points]
    lower = [(across(each.value), down(each.low)) for each in reversed(points)]
    body.append(_plot("polygon", "range", upper + lower))
    body.append(_plot("polyline", "line", [(across(each.value), down(each.expected)) for each in points]))
    for each in (point for point in points if point.expected <= top):
        kind = "peak" if each.value != here else "peak here"
        label = f"{format_count(each.value)}: {format_bytes(each.expected)}"
        x, y = across(each.value), down(each.expected)
        radius = 3 if each.value != here else 6
        body.append(f'<circle class="{kind}" cx="{x:.3f}%" cy="{y:.1f}" r="{radius}"><title>{label}</title></circle>')
    body += [caption(_short(each.value), across(each.value), _BOTTOM + 18) for each in points[:: 1 + len(points) // 8]]
    if capacity:
        y = down(capacity)
        body.append(f'<line class="capacity" x1="{_LEFT}%" x2="{_RIGHT}%" y1="{y:.1f}" y2="{y:.1f}"/>')
        body += _crossing(points, across, y - 6)
    described = "; ".join(f"{format_count(each.value)}: {format_bytes(each.expected)}" for each in points)
    return picture("curve", _HEIGHT, say("curve-title", name=title), described, body)


def _crossing(points: Sequence[Point], across: Callable[[float], float], y: float) -> Iterator[str]:
    """Yield the last value that fits and its neighbour that does not, where the curve is below the capacity."""
    for one, other in pairwise(points):
        if one.fits == other.fits:
            continue
        fits, over = (one.value, other.value) if one.fits else (other.value, one.value)
        at = across(fits)
        before = (fits < over or at > 80) and at > 20
        anchor, place = ("end", at - 1) if before else ("start", at + 1)
        said = escape(say("curve-crosses", value=_short(fits), other=_short(over)))
        yield f'<text class="label" x="{place:.3f}%" y="{y:g}" text-anchor="{anchor}">{said}</text>'
        return


def _plot(shape: str, kind: str, places: Sequence[tuple[float, float]]) -> str:
    """Return a line or an area, with places across in percent: a nested picture fills the width and cuts the rest."""
    points = " ".join(f"{10 * x:.1f},{y:.1f}" for x, y in places)
    return (
        f'<svg class="plot" y="{_TOP}" width="100%" height="{_BOTTOM - _TOP}" viewBox="0 {_TOP} 1000 {_BOTTOM - _TOP}" '
        'preserveAspectRatio="none">'
        f'<{shape} class="{kind}" points="{points}"/></svg>'
    )


def _short(value: int) -> str:
    if value >= 2**20 and value % 2**20 == 0:
        return f"{value // 2**20}M"
    return f"{value // 1024}k" if value >= 1024 and value % 1024 == 0 else format_count(value)
