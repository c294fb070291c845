"""What to change: suggestions for the job, each with a link that applies it."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from memcore.advising.advise import Advised, advice_by_piece
from memcore.config.url import encode_fragment
from memcore.errors import MemcoreError
from memcore.page.answering import config_of, form_of
from memcore.page.session import Message, Patch, Session
from memcore.render.advice import advice_html
from memcore.words.page import complaint, say


def suggest(session: Session, message: Message) -> Iterator[Patch]:
    """Every change of one knob, best first; an edit ends what would be said of another job."""
    yield {"html": {"advice": f"<p>{escape(say('working'))}</p>"}, "hidden": {"advice-earlier": True}}
    edits = session.turns.get("answer")
    found: Advised | None = None
    try:
        config = session.drawn["advice"] = config_of(form_of(message["texts"]))
        for found in advice_by_piece(config):
            for each in found.advice:
                _ = each.fits  # asks the allocator once for each, and the table would ask for all in one go
            yield {}
            if session.turns.get("answer") != edits:
                session.drawn.pop("advice", None)
                yield {"html": {"advice": ""}}
                return
    except MemcoreError as error:
        yield {"html": {"advice": f"<p>{escape(complaint(error))}</p>"}}
        return
    if found is not None:
        links = [f"#{encode_fragment(each.after.job.config)}" for each in found.advice]
        yield {"html": {"advice": _scroll(advice_html(found, links))}}


def _scroll(table: str) -> str:
    return f'<div class="scroll" tabindex="0" role="group" aria-label="{escape(say("change"))}">{table}</div>'
