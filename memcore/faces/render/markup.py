"""Pieces of HTML that many views have: tables and sizes. Text that a caller gives as markup it has escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

from memcore.i18n.page import say, translated
from memcore.units import format_bytes, format_count


def html_table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; cells are markup already, the first of a row is its heading."""
    every = [tuple(row) for row in rows]
    right = numeric(every)
    heads = "".join(
        f'<th scope="col"{_NUMBER * (number in right)}>{escape(translated(each))}</th>'
        for number, each in enumerate(head)
    )
    body = "".join(
        f'<tr><th scope="row">{row[0]}</th>'
        + "".join(f"<td{_NUMBER * (number in right)}>{cell}</td>" for number, cell in enumerate(row[1:], 1))
        + "</tr>"
        for row in every
    )
    title = escape(translated(caption))
    return f"<table><caption>{title}</caption><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


_NUMBER = ' class="num"'
_SIZE = r"[-+−]?[\d.,]+(?: / [\d,]+)?(?: ?(?:[GMK]iB|B|%|s|GPUs?))?"
_NUMERIC = re.compile(rf"(?:{_SIZE}(?: {_SIZE})?|-|)")
_TAG = re.compile("<[^<>]*>")


def numeric(rows: Sequence[Sequence[str]]) -> set[int]:
    """Return the columns, after the first, that have only numbers, with or without a difference: they are flush right.

    >>> numeric([("a", "1,024", "3 of 4"), ("b", "<span>5 GiB</span>", "6")])
    {1}
    """
    columns = list(zip(*rows, strict=True))
    return {
        number
        for number, column in enumerate(columns)
        if number and any(column) and all(_NUMERIC.fullmatch(_TAG.sub("", cell)) for cell in column)
    }


def scrolled(title: str, table: str) -> str:
    """A table that is wider than the page scrolls by itself, by keyboard too."""
    return f'<div class="scroll" tabindex="0" role="group" aria-label="{escape(title)}">{table}</div>'


def exact_table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of results: its rows are sorted by any column at a click, and it can be copied."""
    every = [tuple(row) for row in rows]
    right = numeric(every)
    heads = "".join(
        f'<th scope="col"{_NUMBER * (number in right)}>'
        f'<button type="button" data-sort="{number}">{escape(translated(each))}</button></th>'
        for number, each in enumerate(head)
    )
    plain = html_table(caption, head, every)
    start, end = plain.index("<thead>"), plain.index("</thead>")
    copied = f'<button type="button" class="link" data-copy="table">{escape(say("copy-table"))}</button>'
    return f"{plain[:start]}<thead><tr>{heads}</tr>{plain[end:]}<p>{copied}</p>"


def exact(size: int) -> str:
    """Return a size for reading, with its exact bytes in the tooltip."""
    return f'<span title="{say("exact-bytes", count=format_count(size))}">{format_bytes(size)}</span>'


def between(low: int, high: int) -> str:
    """Return a range of bytes."""
    return say("between", low=format_bytes(low), high=format_bytes(high))
