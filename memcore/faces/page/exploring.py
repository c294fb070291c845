"""How far a setting goes: the limit shown next to a number, and the curve of memory against it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape

from memcore.config.defaults import value_of
from memcore.config.settings import SETTINGS, Config
from memcore.errors import MemcoreError
from memcore.estimation import estimate
from memcore.faces.page.answering import config_of, form_of
from memcore.faces.page.session import Message, Patch, Session
from memcore.faces.render.curve import CURVES, Point, curve_html, point_of
from memcore.faces.render.solution import remedy_text
from memcore.i18n.page import complaint, label, say
from memcore.questions.describe import spelled
from memcore.questions.solving import SOLVABLE, Solution, remedied_by_piece
from memcore.units import format_bytes

WORKING = "working"
"""The text below a field whose answer is on its way, and the name of that state."""
REACH = 6
"""Doublings on either side of the value."""


def most(session: Session, message: Message) -> Iterator[Patch]:
    """Answer the button next to a number: how far it goes while the job still fits. An edit ends the search."""
    path = str(message.get("path"))
    if path not in SOLVABLE:
        return
    before = [each for each, shown in session.fields.items() if shown.get("note") == WORKING and each != path]
    yield noted(session, {**dict.fromkeys(before, ""), path: escape(say(WORKING))}, WORKING)
    edits = session.message_counts.get("answer")
    try:
        for found in remedied_by_piece(config_of(form_of(message["texts"])), path):
            if found is not None:
                yield noted(session, {path: solved(path, found)})
                return
            yield {}
            if session.message_counts.get("answer") != edits:
                yield noted(session, {path: ""})
                return
    except MemcoreError as error:
        yield noted(session, {path: escape(complaint(error))})


def noted(session: Session, notes: Mapping[str, str], state: str = "said") -> Patch:
    """Return a patch with notes below fields; an edit removes them."""
    for path, note in notes.items():
        session.fields.setdefault(path, {})["note"] = state if note else ""
    return {"fields": {path: {"note": note} for path, note in notes.items()}}


def solved(path: str, found: Solution) -> str:
    """Return what is said below the field, with a button that takes the value over."""
    if found.value is None:
        button = f'<button type="button" class="fix" data-do="advise">{escape(say("change-button"))}</button>'
        helps = "" if found.remedy is None else f" {remedy_text(found.remedy)}"
        return f'<span class="none">{escape(_why_none(path, found) + helps)}</span> {button}'
    text = spelled(path, found.value)
    if found.beyond is None and not found.smallest:
        return escape(say("solved-any"))
    key = "solved-smallest" if found.smallest else "solved-largest"
    use = say("use", value=text)
    return (
        f'{escape(say(key, value=text))} <button type="button" class="fix" data-do="set" data-path="{path}" '
        f'data-value="{escape(text)}">{escape(use)}</button>'
    )


def _why_none(path: str, found: Solution) -> str:
    if isinstance(found.limit, MemcoreError):
        return f"{say('solved-nothing')} {complaint(found.limit)}"
    if found.limit is None or found.beyond is None:
        return say("solved-nothing")
    needed, capacity = format_bytes(found.limit.device.expected), format_bytes(found.limit.capacity or 0)
    return say("solved-none", value=spelled(path, found.beyond), needed=needed, capacity=capacity)


def curve(session: Session, message: Message) -> Iterator[Patch]:
    """The curve of memory against a setting, drawn as its points come; an edit ends what is of another job."""
    path = str(message.get("value"))
    if path not in CURVES:
        return
    config = config_of(form_of(message["texts"]))
    session.drawn["curve"] = config
    yield {"hidden": session.earlier}  # an edit may have been answered between the click and now
    edits = session.message_counts.get("answer")
    points: list[Point] = []
    title = label(path, SETTINGS[path].label)
    for value in values_around(session, config, path):
        try:
            found = estimate(config.replaced(path, value))
        except MemcoreError:
            continue
        points.append(point_of(value, found))
        points.sort(key=lambda point: point.value)
        yield {"html": {"curve": curve_html(title, points, found.capacity, now(session, config, path))}}
        if session.message_counts.get("answer") != edits:
            session.drawn["curve"] = None
            yield {"hidden": session.earlier}
            return
    if not points:
        yield {"html": {"curve": f"<p>{escape(say('curve-none'))}</p>"}}


def now(session: Session, config: Config, path: str) -> int:
    """Return the value that the job has: given, or assumed."""
    found = value_of(config, session.found.assumptions if session.found else (), path)
    return found if isinstance(found, int) else 1


def values_around(session: Session, config: Config, path: str) -> list[int]:
    """Powers of two around the value, the nearest first."""
    here = now(session, config, path)
    found = {here}
    for power in range(1, REACH + 1):
        found |= {max(1, here >> power), here << power}
    smallest = 1 if here < 64 else 64
    return sorted(
        (each for each in found if each >= smallest), key=lambda each: (max(each, here) / min(each, here), each)
    )
