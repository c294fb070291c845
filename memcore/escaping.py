"""Text that spreadsheets and Markdown take for nothing but text."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from html import escape

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?%?")
_FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\n]")
"""How a cell begins that a spreadsheet may take for a formula, also in letters as wide as Chinese ones."""
_INSIDE = re.compile(r"([;\t\n][^\S\t\n]*)([=+\-@])")
"""The same behind what separates cells where a comma stands in numbers."""
_SIGNS = re.compile(r"[\\`*_{}\[\]|~#!]")


def csv_line(cells: Iterable[object]) -> str:
    r"""A row of CSV with its end, without a formula in it: what looks like one begins with an apostrophe.

    Source: OWASP, CSV Injection.

    >>> csv_line(["=1+1", "-5", "a, b"])
    '\'=1+1,-5,"a, b"\n'
    """
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow([_cell(each) for each in cells])
    return out.getvalue()


def _cell(value: object) -> object:
    if not isinstance(value, str) or _NUMBER.fullmatch(value):
        return value
    plain = _INSIDE.sub(r"\1'\2", value.replace("\r\n", "\n").replace("\r", "\n"))
    return f"'{plain}" if _FORMULA.match(plain) else plain


def in_markdown(text: str) -> str:
    r"""A text as a piece of a paragraph or of a table's row.

    >>> in_markdown("a|b <i>\n`c`")
    'a\\|b &lt;i&gt; \\`c\\`'
    """
    escaped = escape(_SIGNS.sub(r"\\\g<0>", " ".join(text.split())), quote=False)
    return escaped.replace("@", "&#64;")


def fenced(text: str, language: str = "") -> str:
    """A block of code, with more backticks around it than it has in it."""
    longest = max((len(each) for each in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}\n"
