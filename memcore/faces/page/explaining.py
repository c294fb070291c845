"""The drawer: a component of the peak, tensor by tensor: symbols, numbers, bytes, why and the source."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from memcore.faces.page.session import Found, Message, Patch, Session
from memcore.faces.render.markup import exact
from memcore.faces.render.svg import TITLES, slug
from memcore.i18n.page import language, named, say, translated
from memcore.memory.estimate import Estimate
from memcore.memory.rank import outside_allocator
from memcore.questions.describe import symbols, why
from memcore.serving.estimate import ServingEstimate
from memcore.units import format_bytes, format_count

MOST = 60
"""Tensors that are shown; the ledger has all."""
CHAPTERS = {
    "parameters": "weights", "gradients": "weights", "optimizer states": "weights", "communication": "sharding",
    "activations": "activations", "recomputation": "activations", "logits and loss": "loss", "temporaries": "allocator",
    "buffers": "allocator", "unused": "allocator", "outside": "allocator",
}  # fmt: skip
"""The chapter of the guide that explains a component of a training step (docs/guide/)."""


def explain(session: Session, message: Message) -> Iterator[Patch]:
    """A component was chosen; none closes the drawer."""
    session.part = str(message.get("part") or "")
    if session.part and session.found is not None:
        yield {"html": explained(session.found, session.part), "open": "drawer", "focus": "drawer-heading"}


def explained(found: Found, part: str) -> dict[str, str]:
    """Return the drawer's content for a component, by its class name."""
    if part in {"unused", "outside"} and not isinstance(found, ServingEstimate):
        heading = escape(translated(TITLES[part]))
        return {"drawer-heading": heading, "drawer-body": _beyond(found, part) + _guide(CHAPTERS[part])}
    category = next((name for name in found.ledger.by_category if slug(name) == part), "")
    if not category:
        return {"drawer-heading": escape(part), "drawer-body": f"<p>{escape(say('explain-none'))}</p>"}
    size, entries = found.ledger.by_category[category], found.ledger.of(category)
    share = 100 * size / found.ledger.total
    head = f"<p><b>{format_bytes(size)}</b> · {format_count(size)} B · {share:.1f}%</p>"
    sizes = () if isinstance(found, ServingEstimate) else (found.rank.job.sizes,)
    cards = []
    for entry in entries[:MOST]:
        numbers, title = entry.numbers(*sizes), escape(translated(entry.title))
        reason = why(entry)
        cards.append(
            f"<li><h3>{title}</h3><p>{exact(entry.bytes)} <code>{escape(entry.module)}</code></p>"
            f'<p class="formula"><code>{escape(entry.formula)}</code></p>'
            f'<p class="formula"><code>{escape(numbers)}</code></p>'
            f"<p>{escape(reason)}</p>"
            f'<p class="note">{escape(say("explain-source"))}: {escape(named(entry.source))}</p></li>'
        )
    chapter = "serving" if isinstance(found, ServingEstimate) else CHAPTERS[category]
    rest = f"<p>+ {len(entries) - MOST}</p>" if len(entries) > MOST else ""
    return {
        "drawer-heading": escape(translated(category)),
        "drawer-body": f'{head}{_symbols(found)}{_guide(chapter)}<ol class="cards">{"".join(cards)}</ol>{rest}',
    }


def _guide(chapter: str) -> str:
    """Link a chapter of the guide in the language that is spoken; it opens in a tab of its own."""
    folder = "guide/zh" if language() == "zh" else "guide"
    address = f"./docs/{folder}/{chapter}.html"
    return f'<p><a href="{address}" target="_blank" rel="noopener">{escape(say("explain-guide"))}</a></p>'


def _symbols(found: Found) -> str:
    if isinstance(found, ServingEstimate):
        return ""
    items = "".join(
        f"<dt><code>{escape(each.name)}</code> = {format_count(each.value)}</dt><dd>{escape(each.meaning)}</dd>"
        for each in symbols(found)
    )
    return f'<dl class="symbols">{items}</dl>'


def _beyond(found: Estimate, part: str) -> str:
    if part == "unused":
        reading = found.reserved
        size = reading.expected - found.allocated.expected
        between = f"{format_bytes(reading.low)} – {format_bytes(reading.high)}"
        return f"<p>{exact(size)}</p><p>{escape(translated(reading.range_because))}: {between}</p>"
    rows = (
        f"<li><h3>{escape(translated(each.name))}</h3><p>{exact(each.overhead.expected)} "
        f"({format_bytes(each.overhead.low)} – {format_bytes(each.overhead.high)})</p>"
        f'<p class="note">{escape(say("explain-source"))}: {escape(named(each.overhead.source))}</p></li>'
        for each in outside_allocator(found.rank)
    )
    return f'<ol class="cards">{"".join(rows)}</ol>'
