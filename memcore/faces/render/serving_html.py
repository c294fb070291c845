"""A server's estimate as HTML, in the places of the page where a training step's would be.

Every text is escaped here; nothing that a user or a link has given becomes markup.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from memcore.faces.render.html import ICONS, assumptions, legend_item, reading_rows
from memcore.faces.render.markup import between, exact, exact_table, html_table, scrolled
from memcore.faces.render.model import model_html
from memcore.faces.render.serving_svg import CLASSES, serving_bar, serving_parts, users_chart
from memcore.faces.render.serving_text import where
from memcore.faces.render.svg import slug
from memcore.faces.render.used import used_of_all
from memcore.i18n.page import named, say, sentence, translated
from memcore.memory.ledger import Entry
from memcore.questions.describe_serving import answers, serving_verdict
from memcore.serving.answers import curve, sleep_phases
from memcore.serving.entries import CATEGORIES
from memcore.serving.estimate import ServingEstimate
from memcore.serving.inference import Inference
from memcore.serving.published import as_published
from memcore.units import format_bytes, format_count


def serving_stages(found: ServingEstimate) -> Iterator[dict[str, str]]:
    """Yield the content of each part of the page by element id, what matters most first."""
    yield {
        "peak-heading": where(found),
        "step-heading": say("serves-step-heading"),
        "step-note": say("serves-step-note"),
        "ledger-heading": say("serves-ledger-heading"),
        "verdict": _verdict(found),
        "bar": serving_bar(found),
        "used": used_of_all(found),
        "stages": "",
        "legend": "",
    }
    yield {"readings": _readings(found), "ledger": _ledger(found)}
    view = model_html(found.job.model, as_published(found.job.config.model))
    yield {"assumptions": _assumptions(found), "model-view": view, "moments": _points(found)}
    yield {"timeline": _legend(found) + _answers(found) + users_chart(found)}


def serving_attributes(found: ServingEstimate) -> dict[str, str]:
    """Return the `data-` attributes of the verdict, for tests and embedders; a number is exact bytes."""
    return {
        "data-fits": {None: "unknown", True: "true", False: "false"}[found.fits],
        "data-level": serving_verdict(found).level,
        "data-allocated-bytes": str(found.allocated.expected),
        "data-reserved-bytes": "",
        "data-device-bytes": str(found.device.expected),
        "data-capacity-bytes": "" if found.capacity is None else str(found.capacity),
        "data-phase": "serving",
    }


def _verdict(found: ServingEstimate) -> str:
    said = serving_verdict(found)
    icon = f'<span class="icon" aria-hidden="true">{ICONS[said.level]}</span>'
    warnings = "".join(f'<p class="warning">{escape(translated(each))}</p>' for each in found.job.model.warnings)
    return f'<p class="headline">{icon} {escape(said.headline)}</p><p>{escape(said.reason)}</p>{warnings}'


def _legend(found: ServingEstimate) -> str:
    items = (legend_item(part.name, CLASSES[part.name], part.size) for part in serving_parts(found))
    return f'<div class="legend"><ul>{"".join(items)}</ul></div>'


def _readings(found: ServingEstimate) -> str:
    head = ("Reading", "Expected", "Range", "Shown by", "Why this range")
    return html_table("Readings of one GPU", head, reading_rows(found))


def _answers(found: ServingEstimate) -> str:
    rows: list[Sequence[str]] = [(escape(each.question), escape(each.answer)) for each in answers(found)]
    if not rows:
        return f"<p>{say('serves-nameless')}</p>"
    return html_table("Answers", ("Question", "Answer"), rows)


def _points(found: ServingEstimate) -> str:
    rows = [(format_count(each.length), format_count(each.users)) for each in curve(found)]
    tables = exact_table("Users that fit at each length", ("Tokens of each user", "Users"), rows) if rows else ""
    if found.job.config[Inference.sleep_level] is not None:
        phases = [
            (
                escape(translated(each.name)),
                exact(each.held),
                "" if each.free is None else exact(each.free),
                escape(translated(each.why)),
            )
            for each in sleep_phases(found)
        ]
        tables += html_table("Sharing the GPU with training", ("Phase", "Held", "Free", "Why"), phases)
    return tables or f"<p>{say('serves-poolless')}</p>"


def _ledger(found: ServingEstimate) -> str:
    parts = []
    for category, size in sorted(found.ledger.by_category.items(), key=lambda each: -each[1]):
        share = f"{100 * size / found.ledger.total:.1f}%"
        head = ("What", "Bytes", "Formula", "In numbers", "Why", "Source")
        rows = [_row(entry) for entry in found.ledger.of(category)]
        parts.append(
            f'<details id="ledger-{slug(category)}"><summary><span class="swatch {CLASSES[category]}"></span>'
            f"<span>{escape(translated(category))}</span><b>{format_bytes(size)}</b><span>{share}</span>"
            f'<span class="note">{escape(translated(CATEGORIES[category]))}</span></summary>'
            f"{scrolled(translated(category), exact_table(category, head, rows))}</details>"
        )
    return "".join(parts)


def _row(entry: Entry) -> Sequence[str]:
    module = f"<br><code>{escape(entry.module)}</code>" if entry.module else ""
    uncertain = f"<br>{between(entry.low, entry.high)}" if entry.range else ""
    return (
        f"{escape(translated(entry.title))}{module}",
        f"{exact(entry.bytes)}{uncertain}",
        f"<code>{escape(entry.formula)}</code>",
        f"<code>{escape(entry.numbers())}</code>",
        escape(translated(entry.why)),
        escape(named(entry.source)),
    )


def _assumptions(found: ServingEstimate) -> str:
    notes = "".join(f"<p>{escape(sentence(translated(each)))}</p>" for each in found.notes)
    return notes + assumptions(found.assumptions)
