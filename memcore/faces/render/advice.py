"""Advice for a terminal, as JSON, as CSV and as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

from memcore.columns import WIDTH, fitted, flowed, table
from memcore.faces.render.text import section
from memcore.i18n.page import say, translated
from memcore.questions.advising.advise import Advice, Advised
from memcore.questions.advising.server import ServerAdvice
from memcore.questions.describe import verdict
from memcore.questions.describe_serving import serving_verdict
from memcore.serving.estimate import ServingEstimate
from memcore.trace.changes import KINDS
from memcore.units import format_bytes

_FITS = {True: "yes", False: "no"}


def advice_text(found: Advised, width: int = WIDTH) -> str:
    """Return what `memcore advise` prints: what saves, what does not and why, and the ladder."""
    server = isinstance(found.estimate, ServingEstimate)
    said = serving_verdict(found.estimate) if isinstance(found.estimate, ServingEstimate) else verdict(found.estimate)
    lines = [said.headline, said.reason, ""]
    if found.saving:
        heading = tuple(map(say, ("cli-saves", "cli-then-fits", "cli-time", "cli-change")))
        rows = [(*_numbers(each), translated(each.title)) for each in found.saving]
        lines += section("What saves memory, best trade-off first", table([heading, *rows], right=(0, 2)))
        lines += section("Cost and flags", [*_how(found, width - 2)])
    if found.useless:
        lines += section(
            "Saves nothing here",
            table([(translated(each.title), translated(each.because or "")) for each in found.useless]),
        )
    if found.ladder:
        lines += section("One on top of another", table(_rungs(found), right=(0, 2, 4)))
    lines.append(say("cli-served" if server else "cli-trained"))
    if found.estimate.fits is False and not found.ladder and not any(each.fits for each in found.saving):
        lines.append(say("cli-combine"))
    return "\n".join(lines) + "\n"


def _how(found: Advised, width: int) -> Iterator[str]:
    for each in found.saving:
        yield translated(each.title)
        cost = say("advice-costs", kind=translated(KINDS[each.kind]), reason=translated(each.reason))
        yield from fitted(f"    {cost}", width)
        yield from flowed(map(translated, each.flags), width, 4)


def _numbers(each: Advice | ServerAdvice) -> tuple[str, str, str]:
    return format_bytes(each.saves), "-" if each.fits is None else say(_FITS[each.fits]), _percent(each.slowdown)


def _percent(part: float) -> str:
    percent = round(100 * part)
    return f"{percent:+d}%".replace("-", "−") if percent else "0%"


def _rungs(found: Advised) -> Iterator[tuple[str, ...]]:
    yield tuple(map(say, ("cli-saves", "cli-then-fits", "cli-time", "cli-change", "cli-then-needs")))
    for each in found.ladder:
        yield *_numbers(each), translated(each.title), format_bytes(each.after.allocated.expected)


def advice_data(found: Advised) -> dict[str, Any]:
    """Return advice as JSON."""
    return {
        "allocated": found.estimate.allocated.expected,
        "fits": found.estimate.fits,
        "advice": [_row(each) for each in found.advice],
        "ladder": [_row(each) for each in found.ladder],
    }


def _row(each: Advice | ServerAdvice) -> dict[str, Any]:
    return {
        "title": each.title,
        "class": each.kind,
        "saves": each.saves,
        "allocated": each.after.allocated.expected,
        "fits": each.fits,
        "slowdown": round(each.slowdown, 4),
        "reason": each.reason,
        "because": each.because,
        "changes": dict(each.changes),
        "flags": list(each.flags),
        "config": each.config.to_dict(),
    }


ADVICE_COLUMNS = ("title", "class", "saves", "allocated", "fits", "slowdown", "reason", "because", "flags")


def advice_rows(found: Advised) -> Iterator[tuple[object, ...]]:
    """Return advice as rows of `ADVICE_COLUMNS`, for CSV."""
    for each in (*found.advice, *found.ladder):
        row = {**_row(each), "flags": "  ".join(each.flags)}
        yield tuple(row[name] for name in ADVICE_COLUMNS)


def advice_html(found: Advised, links: Iterable[str] | None = None) -> str:
    """The suggestions as a table; with `links`, addresses of the changed configs in the order of `found.advice`."""
    rows = [
        _html_row(each, link)
        for each, link in zip(found.advice, [*links] if links is not None else [""] * len(found.advice), strict=True)
    ]
    if not rows:
        return f"<p>{escape(say('advice-none'))}</p>"
    heads = "".join(f'<th scope="col">{escape(translated(each))}</th>' for each in _COLUMNS)
    return (
        f'<table class="advice"><caption>{escape(say("advice-note"))}</caption><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


_COLUMNS = ("Change", "Saves", "Then fits", "Time", "How")
"""On a phone each cell says its own heading."""


def _html_row(each: Advice | ServerAdvice, link: str) -> str:
    title = escape(translated(each.title))
    name = f'<a href="{escape(link)}">{title}</a>' if link else title
    costs = say("advice-costs", kind=translated(KINDS[each.kind]), reason=translated(each.reason))
    why = say("advice-useless", reason=translated(each.because)) if each.because else costs
    flags = " ".join(f"<code>{escape(translated(flag))}</code>" for flag in each.flags)
    saves = format_bytes(each.saves) if each.saves > 0 else say("saves-nothing")
    fits = {True: say("yes"), False: say("no"), None: "-"}[each.fits] if each.saves > 0 else "-"
    time = _percent(each.slowdown) if each.saves > 0 else "-"
    heading = f'<th scope="row">{name}<small>{escape(why)}</small></th>'
    cells = "".join(
        f'<td data-head="{escape(translated(head))}">{cell}</td>'
        for head, cell in zip(_COLUMNS[1:], (saves, fits, time, flags), strict=True)
    )
    return f'<tr data-class="{each.kind}" data-saves="{each.saves}">{heading}{cells}</tr>'
