"""Published formulas next to memcore's answer, as text and as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from typing import Any

from memcore.columns import table
from memcore.memory.published import FormulaResult
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
    rows = [("states", "activations", "total", ""), *_rows(found)]
    lines = [*table(rows, right=(0, 1, 2)), "", "States: weights, gradients and optimizer states.", ""]
    if found.refused:
        lines += [f"memcore has no answer of its own: {found.refused}", ""]
    for each in found.answers:
        if each.terms:
            lines += [f"{each.title}, line by line, and what memcore does instead", *_line_by_line(each), ""]
    if any(each.terms for each in found.answers):
        lines += [*_wrapped(_LETTERS, "  "), ""]
    explained = [each for each in found.answers if each.assumptions]
    for each in explained:
        lines += [f"{each.title} assumes", *(row for text in each.assumptions for row in _wrapped(text, "  ")), ""]
    lines.append("Why memcore says something else")
    for text in dict.fromkeys(text for each in explained for text in each.differences):
        names = [each.title for each in explained if text in each.differences]
        lines += _wrapped(text + ("" if len(names) == len(explained) else f" ({', '.join(names)})"), "  ")
    lines += [row for tool in found.published if tool.note for row in _wrapped(tool.note, "  ")]
    return "\n".join(lines) + "\n"


_LETTERS = (
    "P parameters, w bytes each, N GPUs, t tensor-parallel ranks, p pipeline stages, b sequences of s tokens, "
    "L layers, h hidden size, f feed-forward width, V vocabulary, E experts of width e, k of them per token"
)
_WIDTH = 80


def _line_by_line(said: FormulaResult) -> Iterator[str]:
    rows = table([(f"  {each.name}", each.formula, format_bytes(round(each.size))) for each in said.terms], right=(2,))
    for row, each in zip(rows, said.terms, strict=True):
        yield row
        yield from _wrapped(each.reason, "      ")


def _wrapped(text: str, indent: str) -> list[str]:
    return wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False)


def _rows(found: Comparison) -> Iterator[tuple[str, str, str, str]]:
    if found.estimate is not None and found.held is not None:
        peak = found.estimate.allocated.expected
        yield format_bytes(found.held), format_bytes(peak - found.held), format_bytes(peak), "memcore"
    for each in found.answers:
        activation = "not reported" if each.activation is None else format_bytes(round(each.activation))
        weights, total = round(each.weight_and_optimizer), round(each.total)
        yield format_bytes(weights), activation, format_bytes(total), each.title
