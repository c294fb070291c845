"""Rows of text as aligned lines."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence

WIDTH = 80
"""Characters of a line where no terminal says how many it has."""


def table(rows: Iterable[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Rows as aligned lines; the columns in `right` are flush right."""
    cells = [list(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        padded = [
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(padded).rstrip())
    return lines


_GAP = re.compile(r"(?<=\S) {2,}(?=\S)")
"""What separates columns."""
_SIZE = re.compile(r"(\d) (?=(?:[KMGT]i?B|B|s)\b|%)")
"""The space between a number and its unit, where no line ends."""


def fitted(line: str, width: int) -> list[str]:
    """Return a line in pieces of at most a width, those after the first below the line's last column.

    A line with colours is a picture, which has its own width.

    >>> fitted("  Saving   15.0 GiB  the tensors of one file", 34)
    ['  Saving   15.0 GiB  the tensors', '                     of one file']
    """
    if len(line) <= width or "\033" in line:
        return [line]
    gaps, leading = list(_GAP.finditer(line)), len(line) - len(line.lstrip())
    near = [each.end() for each in gaps if each.end() <= width * 2 // 3]
    if near or not gaps:
        return _wrapped(line, width, near[-1] if near else leading + 2 * bool(leading))
    indent = leading + 4
    return [line[: gaps[0].start()], *_wrapped(" " * indent + line[gaps[0].end() :], width, indent)]


def _wrapped(line: str, width: int, indent: int) -> list[str]:
    pieces = textwrap.wrap(
        _SIZE.sub(r"\1\0", line.lstrip()),
        width,
        initial_indent=line[: len(line) - len(line.lstrip())],
        subsequent_indent=" " * indent,
        replace_whitespace=False,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [each.replace("\0", " ") for each in pieces]


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
