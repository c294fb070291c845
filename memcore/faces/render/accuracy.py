"""Pictures of the accuracy report: predicted against measured, and the error against the size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from math import log2

from memcore.faces.render.svg import caption, picture
from memcore.questions.accuracy import NOT_BYTES, Result
from memcore.records import dataclass
from memcore.units import GiB, format_bytes

_LEFT, _RIGHT, _TOP = 9.0, 99.0, 20
_HEIGHT = 420
"""Of the square part of the scatter."""
_BANDS = (0.05, 0.15)
"""Errors that lines show."""


@dataclass(frozen=True, slots=True)
class Point:
    """A case with a size and a prediction."""

    id: str
    kind: str
    measured: int
    predicted: int

    @property
    def error(self) -> float:
        """(predicted - measured) / measured."""
        return (self.predicted - self.measured) / self.measured


def points(results: Iterable[Result]) -> list[Point]:
    """Cases of bytes that have a prediction; less than a MiB, as of a toy, is left out of pictures."""
    found = (each for each in results if each.predicted and each.quantity not in NOT_BYTES)
    sizes = ((each, int(each.measured or 0), int(each.predicted or 0)) for each in found)
    return [Point(each.id, each.kind, *both) for each, *both in sizes if min(both) >= _LEAST]


_LEAST = 2**20


def scatter(shown: Sequence[Point]) -> str:
    """Predicted against measured bytes, both on logarithmic scales; on the diagonal they are equal."""
    low, high = _limits(shown)

    def share(size: float) -> float:
        return log2(size / low) / log2(high / low)

    def across(size: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * share(size)

    def down(size: float) -> float:
        return _TOP + _HEIGHT * (1 - share(size))

    body = list(_frame(low, high, across, down))
    for band in (0.0, *_BANDS):
        for sign in (-1, 1) if band else (1,):
            factor = 1 + sign * band
            name = "phase" if band else "grid"
            ends = low * max(1, 1 / factor), high * min(1, 1 / factor)
            body.append(
                f'<line class="{name}" x1="{across(ends[0]):.3f}%" y1="{down(ends[0] * factor):.1f}" '
                f'x2="{across(ends[1]):.3f}%" y2="{down(ends[1] * factor):.1f}"/>'
            )
    body += [_dot(each, across(each.measured), down(each.predicted)) for each in shown]
    body.append(f'<text x="0%" y="12">predicted</text>{caption("measured", 54, _TOP + _HEIGHT + 34)}')
    return picture("scatter", _TOP + _HEIGHT + 40, "Predicted against measured memory", _described(shown), body)


def errors(shown: Sequence[Point]) -> str:
    """Return the signed error against the measured bytes; errors beyond the frame stand on its edge."""
    low, high = _limits(shown)
    height, most = 240, 0.5

    def across(size: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * log2(size / low) / log2(high / low)

    def down(error: float) -> float:
        return _TOP + height * (0.5 - max(-most, min(error, most)) / (2 * most))

    body = []
    for error in (-most, -0.15, -0.05, 0.0, 0.05, 0.15, most):
        y = down(error)
        body.append(f'<line class="grid" x1="{_LEFT}%" x2="{_RIGHT}%" y1="{y:.1f}" y2="{y:.1f}"/>')
        if error not in (-0.05, 0.05):
            label = f"{100 * error:+.0f}%" if error else "0%"
            body.append(f'<text x="{_LEFT - 0.8:.1f}%" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    body += [caption(_short(size), across(size), _TOP + height + 18) for size in _ticks(low, high)]
    body += [_dot(each, across(each.measured), down(each.error)) for each in shown]
    body.append(f'<text x="0%" y="12">error</text>{caption("measured", 54, _TOP + height + 34)}')
    return picture("errors", _TOP + height + 40, "Errors of predictions", _described(shown), body)


def _limits(shown: Sequence[Point]) -> tuple[float, float]:
    """Powers of two around everything."""
    sizes = [size for each in shown for size in (each.measured, each.predicted)] or [GiB]
    low, high = 1.0, 2.0
    while low * 2 <= min(sizes):
        low *= 2
    while high < max(sizes):
        high *= 2
    return low, high


def _ticks(low: float, high: float) -> Iterator[float]:
    step = 2 if high / low < 2**9 else 8
    while low <= high:
        yield low
        low *= step


def _frame(low: float, high: float, across: Callable[[float], float], down: Callable[[float], float]) -> Iterator[str]:
    for size in _ticks(low, high):
        x, y = across(size), down(size)
        yield f'<line class="grid" x1="{_LEFT}%" x2="{_RIGHT}%" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<line class="grid" x1="{x:.3f}%" x2="{x:.3f}%" y1="{_TOP}" y2="{_TOP + _HEIGHT}"/>'
        yield f'<text x="{_LEFT - 0.8:.1f}%" y="{y + 4:.1f}" text-anchor="end">{_short(size)}</text>'
        yield caption(_short(size), x, _TOP + _HEIGHT + 18)


def _short(size: float) -> str:
    """Return a power of two bytes, in the largest unit that leaves no fraction."""
    for unit, name in ((GiB, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size >= unit:
            return f"{size / unit:g} {name}"
    return f"{size:g} B"


def _dot(point: Point, x: float, y: float) -> str:
    title = f"{point.id}: measured {format_bytes(point.measured)}, predicted {format_bytes(point.predicted)}"
    name = "activations" if point.kind == "hardware" else "parameters"
    said = f"{title} ({100 * point.error:+.1f}%)"
    return f'<circle class="{name}" cx="{x:.3f}%" cy="{y:.1f}" r="3"><title>{escape(said)}</title></circle>'


def _described(shown: Sequence[Point]) -> str:
    near = sum(abs(each.error) <= _BANDS[0] for each in shown)
    return f"{len(shown)} cases, {near} of them within five percent; orange is measured, blue simulated"
