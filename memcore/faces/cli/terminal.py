"""The memory bar and the sparkline of a step, for a terminal: blocks and colours where it can show them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from io import TextIOBase
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TextIO

from memcore.columns import fitted
from memcore.i18n.page import say, translated
from memcore.serving.presets import question_parts
from memcore.units import format_bytes

if TYPE_CHECKING:  # a training job needs nothing of servers, nor a server of training
    from memcore.memory.estimate import Estimate
    from memcore.serving.estimate import ServingEstimate

WIDTH = 48
"""Characters of the bar and of the sparkline; with the indent and the size they stay within 80 columns."""

_BLOCKS, _ASCII = "▁▂▃▄▅▆▇█", "_.-=+*#@"
"""Levels of a sparkline, from low to high."""
_LETTERS = "#=+*%o~x"
"""Fills of the bar's parts where there are neither colours nor blocks."""
_SHADES = "█▓▒░"
_COLOURS = (34, 33, 32, 35, 31, 36, 94, 93)
"""SGR codes of the parts, in order (ECMA-48, 8.3.117)."""


class Style(NamedTuple):
    """What the terminal can show."""

    colours: bool
    blocks: bool


class Slice(NamedTuple):
    """A part of the bar."""

    name: str
    size: int


def style_of(stream: TextIO, environment: Mapping[str, str]) -> Style | None:
    """Return what a stream can show, or None if it is no terminal: what scripts read has no pictures.

    NO_COLOR (no-color.org) and FORCE_COLOR (force-color.org) count if they are not empty; FORCE_COLOR makes any stream
    a terminal, NO_COLOR wins over it.
    """
    forced = bool(environment.get("FORCE_COLOR"))
    if not (forced or stream.isatty()):
        return None
    plain = bool(environment.get("NO_COLOR")) or (not forced and environment.get("TERM") == "dumb")
    return Style(not plain, _carries(stream, _BLOCKS + _SHADES))


def _carries(stream: TextIO, text: str) -> bool:
    """Return whether a stream's encoding has these characters."""
    try:
        text.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


class Fitted(TextIOBase):
    """A text stream for a terminal: longer lines go on below their last column."""

    def __init__(self, stream: TextIO, width: int) -> None:
        """Write to a stream whose lines have `width` characters."""
        self.stream, self.width, self.open = stream, width, ""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Return the terminal's encoding."""
        return self.stream.encoding

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        return self.stream.isatty()

    def write(self, text: str, /) -> int:
        """Write the lines that are complete, and keep the rest."""
        *lines, self.open = (self.open + text).split("\n")
        for line in lines:
            self.stream.write("".join(f"{each}\n" for each in fitted(line, self.width)))
        return len(text)

    def flush(self) -> None:
        """Write what is left of the last line."""
        self.stream.write(self.open)
        self.open = ""
        self.stream.flush()


def training_picture(found: Estimate, style: Style) -> list[str]:
    """The peak against the GPU's capacity, and one step as a sparkline."""
    from memcore.faces.render.svg import TITLES, parts  # noqa: PLC0415 - a pipe has no pictures

    sizes = [sum(each.levels) for each in found.rank.profile for _ in range(max(1, each.layers))]
    return [
        *bar(
            [Slice(TITLES.get(each.name, each.name), each.size) for each in parts(found)],
            found.capacity,
            style,
        ),
        *sparkline(sizes, style),
        "",
    ]


def serving_picture(found: ServingEstimate, style: Style) -> list[str]:
    """A server's memory against the GPU's capacity."""
    return [
        *bar([Slice(each.name, each.bytes) for each in question_parts(found)], found.capacity, style),
        "",
    ]


def bar(slices: Sequence[Slice], capacity: int | None, style: Style) -> Iterator[str]:
    """One line of parts, `|` where the GPU ends, and what each fill stands for."""
    shown = [each for each in slices if each.size > 0]
    used = sum(each.size for each in shown)
    whole = max(used, capacity or 0)
    if not whole:
        return
    cells, begun = "", 0
    for number, each in enumerate(shown):
        # Ends are rounded, not widths: the parts together are as long as their sum.
        start, end = (round(WIDTH * place / whole) for place in (begun, begun + each.size))
        cells += _painted((end - start) * _fill(number, style), number, style)
        begun += each.size
    rest = WIDTH - round(WIDTH * used / whole)
    of = format_bytes(used)
    if capacity:
        of = say("cli-bar", used=of, capacity=format_bytes(capacity))
    yield f"  [{cells}{' ' * rest}] {of}" if used <= whole and rest >= 0 else f"  [{cells}] {of}"
    if capacity and used > capacity:
        yield f"   {' ' * round(WIDTH * capacity / whole)}^ {say('cli-bar-end')}"
    for number, each in enumerate(shown):
        named = say("cli-part", category=translated(each.name), size=format_bytes(each.size))
        yield f"  {_painted(_fill(number, style), number, style)} {named}"


def _fill(number: int, style: Style) -> str:
    """The character of a part: parts differ by colour, or else by character."""
    if not style.blocks:
        return _LETTERS[number % len(_LETTERS)]
    if style.colours:
        return _SHADES[0]
    return (_SHADES + _LETTERS)[number % len(_SHADES + _LETTERS)]


def _painted(text: str, number: int, style: Style) -> str:
    """A text in the colour of a part."""
    return f"\033[{_COLOURS[number % len(_COLOURS)]}m{text}\033[0m" if style.colours and text else text


def sparkline(sizes: Sequence[int], style: Style) -> Iterator[str]:
    """One step from left to right; a column is as high as the most of its samples, from zero to the peak."""
    if not sizes or not max(sizes):
        return
    levels, top = _BLOCKS if style.blocks else _ASCII, max(sizes)
    columns = min(WIDTH, len(sizes))
    edges = [len(sizes) * each // columns for each in range(columns + 1)]
    highest = [max(sizes[start:end]) for start, end in pairwise(edges)]
    drawn = "".join(levels[min(len(levels) - 1, len(levels) * each // top)] for each in highest)
    yield f"  {drawn} {say('cli-step', size=format_bytes(top))}"
