"""What to change: suggestions for the job, each with a link that applies it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import escape

from memcore.config.settings import SETTINGS
from memcore.config.url import encode_fragment
from memcore.errors import MemcoreError
from memcore.faces.page.answering import config_of, form_of
from memcore.faces.page.exploring import noted
from memcore.faces.page.session import Message, Patch, Session
from memcore.faces.render.advice import advice_html
from memcore.faces.render.form import QUICK
from memcore.faces.render.markup import scrolled
from memcore.i18n.page import complaint, say
from memcore.questions.advising.advise import Advice, Advised, advice_by_piece
from memcore.questions.advising.server import ServerAdvice
from memcore.questions.describe import spelled
from memcore.units import format_bytes


def suggest(session: Session, message: Message) -> Iterator[Patch]:
    """Every change of one knob: those that make it fit, best first, then the rest; an edit ends the search."""
    yield {"html": {"advice": f"<p>{escape(say('working'))}</p>"}}
    edits = session.message_counts.get("answer")
    found: Advised | None = None
    try:
        config = session.drawn["advice"] = config_of(form_of(message["texts"]))
        yield {"hidden": session.earlier}  # an edit may have been answered between the click and now
        for found in advice_by_piece(config):
            for each in found.advice:
                _ = each.fits  # asks the allocator once for each, and the table would ask for all in one go
            yield {}
            if session.message_counts.get("answer") != edits:
                session.drawn.pop("advice", None)
                yield {"html": {"advice": ""}}
                return
    except MemcoreError as error:
        yield {"html": {"advice": f"<p>{escape(complaint(error))}</p>"}}
        return
    if found is not None:
        found = replace(found, advice=tuple(sorted(found.advice, key=_rank)))
        links = [f"#{encode_fragment(each.after.job.config)}" for each in found.advice]
        yield {"html": {"advice": scrolled(say("change"), advice_html(found, links))}}
        yield noted(session, savings(found, links))


def _rank(each: Advice | ServerAdvice) -> tuple[bool, bool]:
    """Changes that save something come first, and of these those with which the job fits."""
    return each.saves <= 0, each.fits is False


def savings(found: Advised, links: Sequence[str]) -> dict[str, str]:
    """Return what a change of one field saves, next to the field, with a link that applies it; the best of each.

    Fields of the sentence have no place for it.
    """
    best: dict[str, str] = {}
    for each, link in sorted(zip(found.advice, links, strict=True), key=lambda pair: -pair[0].saves):
        path, value = next(iter(each.changes.items()))
        if path in best or path in QUICK or path not in SETTINGS:
            continue
        if each.saves > 0 and len(each.changes) == 1 and value is not None:
            text = f"{spelled(path, value)}: −{format_bytes(each.saves)}"
            best[path] = f'<a href="{escape(link)}">{escape(text)}</a>'
    return best
