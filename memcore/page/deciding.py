"""What to change: suggestions for the job, each with a link that applies it."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from memcore.advising import advise
from memcore.config.url import encode_fragment
from memcore.errors import MemcoreError
from memcore.page.answering import config_of, form_of
from memcore.page.session import Message, Patch, Session
from memcore.render.advice import advice_html
from memcore.words import say


def suggest(session: Session, message: Message) -> Iterator[Patch]:
    """Every change of one knob, best first."""
    yield {"html": {"advice": f"<p>{escape(say('working'))}</p>"}}
    try:
        found = advise(config_of(form_of(message["texts"])))
    except MemcoreError as error:
        yield {"html": {"advice": f"<p>{escape(str(error))}</p>"}}
        return
    links = [f"#{encode_fragment(each.after.job.config)}" for each in found.advice]
    yield {"html": {"advice": _scroll(advice_html(found, links))}}


def _scroll(table: str) -> str:
    return f'<div class="scroll" tabindex="0" role="group" aria-label="{escape(say("change"))}">{table}</div>'
