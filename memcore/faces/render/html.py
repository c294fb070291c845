"""An estimate as HTML: the verdict, the readings, the ledger that unfolds to tensors, and what was assumed.

Every text is escaped here; nothing that a user or a link has given becomes markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

from memcore.config.defaults import Assumption
from memcore.errors import Problem
from memcore.faces.render import svg
from memcore.faces.render.form import field_link
from memcore.faces.render.markup import between, exact, exact_table, html_table, scrolled
from memcore.faces.render.model import model_html
from memcore.faces.render.step import step
from memcore.faces.render.used import used
from memcore.i18n.page import named, say, translated
from memcore.memory.answer import Answer
from memcore.memory.estimate import Estimate
from memcore.memory.ledger import CATEGORIES, Entry, Ledger
from memcore.memory.rank import Rank, outside_allocator
from memcore.questions.describe import readable, reason, symbols, verdict, when, why
from memcore.serving.published import as_published
from memcore.units import format_bytes, format_count

ICONS = {"fits": "✓", "tight": "!", "over": "≈", "no": "✕", "unknown": "?"}


HEADINGS = {
    "peak-heading": "At the peak",
    "step-heading": "One step",
    "step-note": (
        "Allocated memory on one GPU: the highest point of every part of the step, in order. Identical "
        "layers lie on a straight line."
    ),
    "ledger-heading": "Every tensor at the peak",
}
"""Headings of the page's parts for a step of training, by element id."""


def stages(estimate: Estimate, rank: Rank | None = None) -> Iterator[dict[str, str]]:
    """Yield the content of each part of the page by element id: first allocated memory, then what asks the allocator.

    The picture of the step is that of a rank, of the one that needs most if none is given.
    """
    yield {**{name: translated(text) for name, text in HEADINGS.items()}, "verdict-reason": escape(reason(estimate))}
    yield {
        "verdict": verdict_text(estimate),
        "bar": svg.bar(estimate),
        "used": used(estimate),
        "legend": legend(estimate),
        "readings": readings(estimate),
    }
    yield {"timeline": step(estimate, rank), "moments": moments(estimate)}
    yield {"ledger": ledger(estimate)}
    published = as_published(estimate.job.config.model)
    yield {"assumptions": assumptions(estimate.assumptions), "model-view": model_html(estimate.job.model, published)}


def sections(estimate: Estimate) -> dict[str, str]:
    """Return the content of each part of the page that shows an answer, by element id."""
    return {name: markup for stage in stages(estimate) for name, markup in stage.items()}


def attributes(estimate: Estimate) -> dict[str, str]:
    """Return the `data-` attributes of the verdict, for tests and embedders; a number is exact bytes."""
    fits = {None: "unknown", True: "true", False: "false"}[estimate.fits]
    return {
        "data-fits": fits,
        "data-level": verdict(estimate).level,
        "data-allocated-bytes": str(estimate.allocated.expected),
        "data-reserved-bytes": str(estimate.reserved.expected),
        "data-device-bytes": str(estimate.device.expected),
        "data-capacity-bytes": "" if estimate.capacity is None else str(estimate.capacity),
        "data-phase": estimate.peak.phase,
    }


def early_attributes(estimate: Estimate) -> dict[str, str]:
    """The attributes until the allocator is asked: what it decides is empty, and the verdict is said to be busy."""
    capacity, allocated = estimate.capacity, estimate.allocated.expected
    return {
        "aria-busy": "true",
        "data-fits": "unknown" if capacity is None else "false" if allocated > capacity else "",
        "data-allocated-bytes": str(allocated),
        "data-reserved-bytes": "",
        "data-device-bytes": "",
        "data-capacity-bytes": "" if capacity is None else str(capacity),
        "data-phase": estimate.peak.phase,
    }


def verdict_text(estimate: Estimate) -> str:
    """Return the verdict's sentences."""
    found = verdict(estimate)
    icon = f'<span class="icon" aria-hidden="true">{ICONS[found.level]}</span>'
    warnings = "".join(f'<p class="warning">{escape(translated(each))}</p>' for each in estimate.job.model.warnings)
    return (
        f'<p class="headline">{icon} {escape(found.headline)}</p><p id="verdict-reason">{escape(found.reason)}</p>'
        f"{warnings}"
    )


def legend(estimate: Estimate) -> str:
    """Return the segments of the bar with their names and sizes."""
    items = (legend_item(part.name, svg.slug(part.name), part.size) for part in svg.parts(estimate))
    return f"<ul>{''.join(items)}</ul>"


def legend_item(name: str, colour: str, size: int) -> str:
    """Return a part of the bar as a button that explains it."""
    title = escape(translated(svg.TITLES.get(name, name)))
    return (
        f'<li><button type="button" class="part" data-part="{svg.slug(name)}" aria-pressed="false">'
        f'<span class="swatch {colour}"></span>{title} <b>{format_bytes(size)}</b></button></li>'
    )


def reading_rows(found: Answer) -> list[tuple[str, ...]]:
    """Return each reading with its range, where it is shown, and why it has a range."""
    return [
        (
            escape(each.name),
            exact(each.expected),
            between(each.low, each.high),
            f"<code>{escape(each.instrument)}</code>",
            escape(translated(each.range_because)),
        )
        for each in found.readings
    ]


def readings(estimate: Estimate) -> str:
    """Return the three readings with their ranges, and what lies outside the allocator."""
    rows = reading_rows(estimate)
    rows += [
        (
            escape(translated(each.name)),
            exact(each.overhead.expected),
            between(each.overhead.low, each.overhead.high),
            translated("part of device"),
            escape(named(each.overhead.source)),
        )
        for each in outside_allocator(estimate.rank)
    ]
    head = ("Reading", "Expected", "Range", "Shown by", "Why this range")
    return html_table("Three readings of one peak", head, rows)


def moments(estimate: Estimate) -> str:
    """Return the step as a table, for those who do not see the chart."""
    rows = [(escape(when(each, estimate)), exact(each.peak), exact(each.end)) for each in estimate.moments]
    initial = (translated("after init"), exact(estimate.rank.after_init), exact(estimate.rank.after_init))
    head = ("Moment", "Highest", "At its end")
    return exact_table("Allocated memory at every moment of a step", head, [initial, *rows])


def ledger(estimate: Estimate) -> str:
    """Return everything in memory at the peak: categories that unfold to tensors, with formulas and sources."""
    found, sizes = estimate.ledger, estimate.rank.job.sizes
    parts = [_largest(found), _symbols(estimate)]
    for category, size in sorted(found.by_category.items(), key=lambda each: -each[1]):
        share = f"{100 * size / found.total:.1f}%"
        head = ("Tensor", "Bytes", "Formula", "In numbers", "Why and how long", "Source")
        rows = (_row(entry, sizes) for entry in found.of(category))
        table = exact_table(say("category-at-peak", category=translated(category)), head, rows)
        parts.append(
            f'<details id="ledger-{svg.slug(category)}"><summary><span class="swatch {svg.slug(category)}"></span>'
            f"<span>{escape(translated(category))}</span><b>{format_bytes(size)}</b><span>{share}</span>"
            f'<span class="note">{escape(translated(CATEGORIES[category]))}</span></summary>'
            f"{scrolled(translated(category), table)}</details>"
        )
    return "".join(parts)


LARGEST = 8
"""Tensors in the list of the largest."""


def _largest(found: Ledger) -> str:
    """Return the largest tensors of all categories as a table."""
    rows = (
        (
            f'<span class="swatch {svg.slug(each.category)}"></span>{escape(translated(each.title))}'
            + (f" <code>{escape(each.module)}</code>" if each.module else ""),
            escape(translated(each.category)),
            exact(each.bytes),
        )
        for each in sorted(found.entries, key=lambda entry: -entry.bytes)[:LARGEST]
    )
    table = exact_table("Largest tensors", ("Tensor", "Category", "Bytes"), rows)
    return f'<div class="largest">{scrolled(translated("Largest tensors"), table)}</div>'


def _row(entry: Entry, sizes: Mapping[str, int]) -> Sequence[str]:
    module = f"<br><code>{escape(entry.module)}</code>" if entry.module else ""
    return (
        f"{escape(translated(entry.title))}{module}",
        exact(entry.bytes),
        f"<code>{escape(entry.formula)}</code>",
        f"<code>{escape(entry.numbers(sizes))}</code>",
        escape(why(entry)),
        escape(named(entry.source)),
    )


def _symbols(estimate: Estimate) -> str:
    rows = (
        (f"<code>{escape(each.name)}</code>", format_count(each.value), escape(each.meaning))
        for each in symbols(estimate)
    )
    inner = html_table("Symbols of the formulas", ("Symbol", "Value", "Meaning"), rows)
    return f'<details id="ledger-symbols"><summary>{translated("Symbols of the formulas")}</summary>{inner}</details>'


def assumptions(found: Iterable[Assumption]) -> str:
    """Return what a config leaves open, and what was taken; what engines do anyway is folded."""
    every = [*found]
    notable = [each for each in every if each.notable]
    usual = [each for each in every if not each.notable]
    shown = _assumed(notable) if notable else f"<p>{translated('Nothing significant.')}</p>"
    if not usual:
        return shown
    summary = f"<summary>{say('usual-defaults', count=len(usual))}</summary>"
    return f'{shown}<details id="assumptions-usual">{summary}{_assumed(usual)}</details>'


def _assumed(found: Iterable[Assumption]) -> str:
    items = (
        f"<li>{field_link(each.path)} = <b>{escape(_taken(each))}</b>, {escape(translated(each.reason))}</li>"
        for each in found
    )
    return f"<ul>{''.join(items)}</ul>"


def _taken(found: Assumption) -> str:
    """Return what was taken; a value of several words stands for something that no option names."""
    value = readable(found.path, found.value)
    return translated(value) if " " in value else value


def problems(found: Iterable[Problem]) -> str:
    """Return what is wrong with an input, as a list."""
    return f"<ul>{''.join(f'<li>{_problem(each)}</li>' for each in found)}</ul>"


def _problem(found: Problem) -> str:
    where = f"{field_link(found.path)}: " if found.path else ""
    hint = " " + say("did-you-mean", value=f"<b>{escape(found.suggestion)}</b>") if found.suggestion else ""
    return f"{where}{escape(say('stop', text=translated(found.message)))}{hint}"
