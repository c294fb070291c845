"""Published formulas next to memcore's answer, as text and as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memcore.columns import WIDTH, table, wrapped
from memcore.i18n.page import say, translated
from memcore.memory.published import FormulaResult
from memcore.messages import joined
from memcore.questions.formulas import Comparison
from memcore.units import format_bytes


def comparison_data(found: Comparison) -> dict[str, Any]:
    """Return what `memcore formulas --json` prints; sizes are bytes."""
    own = found.estimate
    return {
        "memcore": None
        if own is None
        else {
            "between_steps_bytes": found.held,
            "peak_bytes": own.allocated.expected,
            "rank": own.rank.name,
        },
        "refused": found.refused or None,
        **{name: value for tool in found.published for name, value in tool.data.items()},
    }


def comparison_text(found: Comparison) -> str:
    """Return what `memcore formulas` prints."""
    head = (say("cli-formula-states"), say("cli-formula-activations"), say("cli-total"), "")
    lines = [*table([head, *_rows(found)], right=(0, 1, 2)), "", say("cli-states-are"), ""]
    if found.refused:
        lines += [*_wrapped(say("cli-refused", reason=found.refused), ""), ""]
    for each in found.answers:
        if each.terms:
            lines += [say("cli-line-by-line", tool=translated(each.title)), *_line_by_line(each), ""]
    if any(each.terms for each in found.answers):
        lines += [*_wrapped(say("cli-letters"), "  "), ""]
    explained = [each for each in found.answers if each.assumptions]
    for each in explained:
        if each.printed:
            lines += [say("cli-prints", tool=translated(each.title)), *_wrapped(each.printed, "  "), ""]
    for each in explained:
        assumed = (row for text in each.assumptions for row in _wrapped(translated(text), "  "))
        lines += [say("cli-assumes", tool=translated(each.title)), *assumed, ""]
    lines.append(say("cli-why"))
    for text in dict.fromkeys(text for each in explained for text in each.differences):
        names = [each.title for each in explained if text in each.differences]
        said = translated(text)
        if len(names) < len(explained):
            said = say("cli-of-tools", text=said, tools=translated(joined(", ", names)))
        lines += _wrapped(said, "  ")
    lines += [row for tool in found.published if tool.note for row in _wrapped(translated(tool.note), "  ")]
    return "\n".join(lines) + "\n"


def _line_by_line(said: FormulaResult) -> Iterator[str]:
    cells = [
        (f"  {translated(each.name)}", translated(each.formula), format_bytes(round(each.size))) for each in said.terms
    ]
    rows = table(cells, right=(2,))
    for row, each in zip(rows, said.terms, strict=True):
        yield row
        yield from _wrapped(translated(each.reason), "      ")


def _wrapped(text: str, indent: str) -> list[str]:
    return wrapped(indent + text, WIDTH, len(indent) + 2)


def _rows(found: Comparison) -> Iterator[tuple[str, str, str, str]]:
    if found.estimate is not None and found.held is not None:
        peak = found.estimate.allocated.expected
        yield format_bytes(found.held), format_bytes(peak - found.held), format_bytes(peak), "memcore"
    for each in found.answers:
        activation = say("cli-not-reported") if each.activation is None else format_bytes(round(each.activation))
        weights, total = round(each.weight_and_optimizer), round(each.total)
        yield format_bytes(weights), activation, format_bytes(total), translated(each.title)
