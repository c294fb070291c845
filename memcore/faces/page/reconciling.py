"""The user's log compared with the answer, and the measured case it yields."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from memcore.errors import MemcoreError
from memcore.faces.page.session import Log, Message, Patch, Session
from memcore.faces.render.reconciled import case_text, reconciled_html
from memcore.i18n.page import complaint, say
from memcore.questions.reconciling.reconcile import READINGS, reconciled

WHERE = "pasted into the page"


def reconcile(session: Session, message: Message) -> Iterator[Patch]:
    """Compare a log with the answer; it stays while the job is edited."""
    reading = str(message.get("also") or "")
    session.log = Log(str(message.get("value") or ""), reading if reading in READINGS else None)
    yield {"html": {"reconciled": against(session)}}


def against(session: Session) -> str:
    """Return the log compared with the current answer."""
    if session.log is None or session.found is None:
        return ""
    try:
        found = reconciled(session.found, session.log.text, reading=session.log.reading)
        return reconciled_html(found, case=case_text(found, WHERE))
    except MemcoreError as error:
        return f"<p>{escape(complaint(error))}</p>"


def case(session: Session, message: Message) -> Iterator[Patch]:
    """Copy or save the measured case."""
    if session.log is None or session.found is None:
        return
    text = case_text(reconciled(session.found, session.log.text, reading=session.log.reading), WHERE)
    if message.get("way") == "copy":
        yield {"copy": text, "done": say("export-copied")}
    else:
        yield {"download": {"name": "memcore-case.json", "type": "application/json", "text": text}}


def reading_options() -> str:
    """Return the choices of what a number without a name is."""
    rest = "".join(f'<option value="{name}">{escape(say(f"quantity {name}"))}</option>' for name in READINGS)
    return f'<option value="">{escape(say("log-any"))}</option>{rest}'
