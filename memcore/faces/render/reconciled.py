"""A log compared with a prediction: as text, as data and as HTML. What comes from the log is escaped."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from memcore.columns import table
from memcore.faces.render.markup import html_table, scrolled
from memcore.i18n.page import say, translated
from memcore.questions.reconciling.logs import LARGEST
from memcore.questions.reconciling.reconcile import Match, Reconciled, Row
from memcore.units import format_bytes, format_count

_COUNTS = frozenset({"kv_cache_tokens", "kv_cache_blocks"})
_COLUMNS = ("log-quantity", "log-says", "log-predicted", "log-difference", "log-range")
_ICONS = {"inside": "✓", "below": "!", "above": "!"}


def reconciled_text(found: Reconciled) -> str:
    """Return what `memcore reconcile` prints: whether the log agrees, the readings, and what explains differences."""
    cells = [_cells(row) for row in found.rows]
    head, *rows = table([[say(each) for each in _COLUMNS[1:]], *(each[1:] for each in cells)], right=(0, 1, 2))
    lines = [f"  {head}", *(line for each, row in zip(cells, rows, strict=True) for line in (each[0], f"  {row}"))]
    notes = list(_notes(found))
    answer = list(_answer(found))
    return "\n".join([*answer, *([""] if answer else []), *lines, *(["", *notes] if notes else [])]) + "\n"


def _answer(found: Reconciled) -> Iterator[str]:
    """Yield whether the log agrees with the prediction, where one of its readings says so."""
    if any(row.quantity == "fits" and row.predicted not in (None, 0) for row in found.rows):
        yield say("log-ran-out-though")
    unlabelled = [(row.seen.line, row.seen.stated) for row in found.rows if not row.seen.tool]
    if len(unlabelled) > len(set(unlabelled)):
        yield say("log-unlabelled")
        return
    judged = [row.verdict for row in found.rows if row.verdict is not None]
    outside = sum(each != "inside" for each in judged)
    if outside:
        yield say("log-outside", outside=outside, count=len(judged))
    elif judged:
        yield say("log-all-inside")


def reconciled_html(found: Reconciled, *, case: str) -> str:
    """Return the table, the notes, and the case with its buttons; a case of no quantity has none."""
    head = tuple(say(each) for each in _COLUMNS)
    rows = [tuple(escape(cell) for cell in _cells(row)) for row in found.rows]
    listed = "".join(f"<li>{escape(each)}</li>" for each in _notes(found))
    return (
        f"{scrolled(say('reconcile'), html_table(say('reconcile'), head, rows))}"
        f"{f'<ul>{listed}</ul>' if listed else ''}<h3>{escape(say('case'))}</h3>{_case(case)}"
    )


def _case(text: str) -> str:
    if not text:
        return f"<p>{escape(say('case-none'))}</p>"
    buttons = "".join(
        f'<button type="button" data-do="case" data-way="{way}">{escape(say(f"export-{way}"))}</button>'
        for way in ("copy", "save")
    )
    return (
        f'<p class="note">{escape(say("case-note"))}</p>'
        f'<pre tabindex="0" id="case">{escape(text[:4000])}</pre><p class="row">{buttons}</p>'
    )


def case_text(found: Reconciled, where: str) -> str:
    """Return the truth cases as a file; empty if there are none."""
    cases = found.cases(where)
    return json.dumps(cases, indent=1, ensure_ascii=False) + "\n" if cases else ""


def reconciled_data(found: Reconciled, where: str) -> dict[str, Any]:
    """Return what `memcore reconcile --json` prints."""
    return {
        "rows": [_plain(row) for row in found.rows],
        "cut": found.cut,
        "cases": found.cases(where),
    }


def _plain(row: Row) -> dict[str, Any]:
    seen = row.seen
    return {
        "tool": seen.tool,
        "quantity": row.quantity,
        "moment": seen.moment,
        "stated": seen.stated,
        "line": seen.line,
        "lines": seen.times,
        "value": seen.value,
        "rounding": seen.rounding,
        "predicted": row.predicted,
        "low": row.range[0] if row.range else None,
        "high": row.range[1] if row.range else None,
        "difference": row.difference,
        "share": row.share,
        "verdict": row.verdict,
        "reason": row.reason,
        "matches": [
            {"title": each.title, "module": each.module, "bytes": each.bytes, "copies": each.copies}
            for each in row.matches
        ],
        "source": seen.source,
    }


def _cells(row: Row) -> Sequence[str]:
    """Return a row as texts: the quantity, what the log says and where, the prediction, the difference, the range."""
    seen = row.seen
    place = say("log-lines", line=seen.line, times=seen.times) if seen.times > 1 else say("log-line", line=seen.line)
    name = say("log-of-tool" if seen.tool else "log-at", tool=seen.tool, quantity=quantity_text(row), place=place)
    if row.quantity == "fits":
        predicted = {None: say("log-unknown"), 0: say("log-no")}.get(row.predicted, say("log-fits"))
        return name, say("log-ran-out"), predicted, "", ""
    stated = _size(row, seen.value)
    said = say("log-least", size=stated) if row.least else stated
    if row.predicted is None:
        return name, said, translated(row.reason or "") or say("log-unknown"), "", ""
    return name, said, _size(row, row.predicted), _difference(row), _range(row)


def quantity_text(row: Row) -> str:
    """Return a quantity and its moment in words."""
    quantity, moment = say(f"quantity {row.quantity}"), row.seen.moment
    if moment is None or moment == "peak" or (moment == "steady" and row.quantity != "allocated"):
        return quantity
    return say("log-moment", quantity=quantity, moment=say(f"moment {moment}"))


def _size(row: Row, value: int) -> str:
    return format_count(value) if row.quantity in _COUNTS else format_bytes(value)


def _difference(row: Row) -> str:
    difference = row.difference or 0
    sign = "+" if difference > 0 else "−" if difference < 0 else "±"
    share = "" if row.share is None else f" ({100 * row.share:+.1f}%)".replace("-", "−")
    return f"{sign}{_size(row, abs(difference))}{share}"


def _range(row: Row) -> str:
    if row.range is None or row.verdict is None:
        return ""
    low, high = (_size(row, int(bound)) for bound in row.range)
    return say("log-bounds", low=low, high=high, icon=_ICONS[row.verdict], verdict=say(f"log-{row.verdict}"))


def _notes(found: Reconciled) -> Iterator[str]:
    """Yield what the ledger has of just the size of a difference, and what the log itself explains."""
    for row in found.rows:
        for match in row.matches:
            name, size = _name(match), format_bytes(match.bytes)
            if row.quantity == "request":
                yield say("log-request", name=name, size=size)
            else:
                yield say("log-match", quantity=quantity_text(row), name=name, size=size)
        if row.quantity == "unallocated":
            yield say("log-unallocated", size=format_bytes(row.seen.value))
    if found.cut:
        yield say("log-cut", count=format_count(LARGEST))


def _name(match: Match) -> str:
    title = say("log-copies", title=match.title, copies=match.copies) if match.copies > 1 else match.title
    return f"{title} ({match.module})" if match.module else title
