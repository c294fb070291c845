"""Where the values of a job that a file brought are from: file, line and key, the tool's default, or left out."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from memcore.config.hardware import Hardware
from memcore.faces.page.examples import of_file
from memcore.faces.page.session import Message, Patch, Session
from memcore.faces.render.origins import origins_html
from memcore.i18n.page import say
from memcore.limits import INTEGER_DIGITS
from memcore.tools.origins import origins


def origins_note(session: Session) -> str:
    """Return a button that says where values are from, as long as one of them is a file's."""
    if not session.sources or not of_file(session):
        return ""
    names = say("and-comma").join(each.name for each in session.sources)
    said = escape(say("origins-from", files=names[:80]))
    return f' {said} <button type="button" class="link" data-do="origins">{escape(say("origins"))}</button>'


def show_origins(session: Session, message: Message) -> Iterator[Patch]:
    """The drawer with every key of the files, and with what they leave open."""
    gpus = session.form.texts.get(Hardware.num_gpus, "")
    known = int(gpus) if gpus.isdecimal() and len(gpus) <= INTEGER_DIGITS else None
    session.part = ""  # the drawer explains no component now
    body = origins_html(origins(session.sources, known))
    yield {
        "html": {"drawer-heading": escape(say("origins")), "drawer-body": body},
        "open": "drawer",
        "focus": "drawer-heading",
    }
