"""Rows of text as aligned lines, as a terminal shows them: Chinese characters take two columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache

WIDTH = 80
"""Columns of a line where no terminal says how many it has."""
_WIDE = "[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6]"
"""Characters of two columns: Chinese, Japanese and Korean ones and their punctuation (Unicode's UAX #11)."""


def columns(text: str) -> int:
    """Columns that a text takes in a terminal.

    >>> columns("9.13 GiB"), columns("峰值")
    (8, 4)
    """
    return len(text) if text.isascii() else len(text) + len(re.findall(_WIDE, text))


def table(rows: Iterable[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Rows as aligned lines; the columns in `right` are flush right."""
    cells = [list(row) for row in rows]
    widths = [max(map(columns, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        padded = [
            _padded(cell, width, right=number in right)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(padded).rstrip())
    return lines


def _padded(cell: str, width: int, *, right: bool) -> str:
    space = " " * (width - columns(cell))
    return space + cell if right else cell + space


_GAP = r"(?<=\S) {2,}(?=\S)"
"""What separates columns."""
_SIZE = r"(\d) (?=(?:[KMGT]i?B|B|s)\b|%)"
"""The space between a number and its unit, where no line ends."""


def fitted(line: str, width: int) -> list[str]:
    """Return a line in pieces of at most a width, those after the first below the line's last column.

    A last column that begins in the last third follows the one before it directly. A line with colours is a picture,
    which has its own width.

    >>> fitted("  Saving   15.0 GiB  the tensors of one file", 34)
    ['  Saving   15.0 GiB  the tensors', '                     of one file']
    >>> fitted("  engine  none                one GPU", 30)
    ['  engine  none  one GPU']
    """
    if columns(line) <= width or "\033" in line:
        return [line]
    gaps, leading = list(re.finditer(_GAP, line)), len(line) - len(line.lstrip())
    ends = [(columns(line[: each.end()]), each) for each in gaps]
    near = [(end, gap.end()) for end, gap in ends if end <= width * 2 // 3]
    if near:
        indent, begins = near[-1]
        return wrapped(line[:begins] + re.sub(_GAP, "  ", line[begins:]), width, indent)
    if not gaps:
        return wrapped(line, width, leading + 2 * bool(leading))
    indent = leading + 4
    return [line[: gaps[0].start()], *wrapped(" " * indent + line[gaps[0].end() :], width, indent)]


@cache
def _unbroken() -> re.Pattern[str]:
    """Spaces, a word, or a Chinese character, with the punctuation that may not end or begin a line."""
    opening, closing = "[“‘（《「【]*", "[”’。，、；：？！）》」】…]*"
    return re.compile(rf"\s+|{opening}[^\s{_WIDE[1:]}+{closing}|{opening}{_WIDE}{closing}")


def wrapped(text: str, width: int, indent: int = 0) -> list[str]:
    """Return a text in lines of at most a width; those after the first are indented. A longer word is left whole.

    >>> wrapped("显存峰值出现在损失的梯度。", 12, 2)
    ['显存峰值出现', '  在损失的梯', '  度。']
    """
    lines, line = [], text[: len(text) - len(text.lstrip())]
    room, empty = width - columns(line), True
    for piece in _unbroken().findall(re.sub(_SIZE, r"\1\0", text.strip())):
        taken = columns(piece)
        if taken > room and not empty:
            lines.append(line.rstrip())
            line, room, empty = " " * indent, width - indent, True
        if not empty or not piece.isspace():
            line, room, empty = line + piece, room - taken, False
    return [each.replace("\0", " ") for each in (*lines, line.rstrip())]


def flowed(pieces: Iterable[str], width: int, indent: int) -> list[str]:
    """Return flags as indented lines of at most a width; no piece is broken, and one in words has its own line.

    >>> flowed(["--seq-length 4096", "--bf16", "GPUs in the launcher: 8"], 22, 2)
    ['  --seq-length 4096', '  --bf16', '  GPUs in the launcher: 8']
    """
    lines: list[str] = []
    closed = True
    for each in pieces:
        is_words = " " in each and not each.startswith("-")
        if not closed and not is_words and len(lines[-1]) + 1 + len(each) <= width:
            lines[-1] += f" {each}"
        else:
            lines.append(" " * indent + each)
        closed = is_words
    return lines
