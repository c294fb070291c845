"""Ways on from an answer: plans that fit where the job does not, and what the free room is good for where it does."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from memcore.config.settings import Config
from memcore.config.url import decode_fragment
from memcore.faces.page.answering import form_of, load
from memcore.faces.page.examples import after_edit, record_example
from memcore.faces.page.session import RECENT, Found, Message, Patch, Session
from memcore.faces.render import page
from memcore.faces.render.cards import LEVELS, heading, headroom_buttons, plan_cards, waiting
from memcore.faces.render.concurrency import concurrency_map
from memcore.faces.render.page import Form
from memcore.i18n.page import say
from memcore.questions.concurrency import Concurrency, concurrencies
from memcore.questions.headroom import Headroom, headroom
from memcore.questions.planning.plan import plan_by_piece
from memcore.serving.estimate import ServingEstimate
from memcore.serving.inference import Inference

KEEP = 4
"""Plans that are shown."""
LONGEST = 400
"""Characters of a plan's words."""


def ways(session: Session, message: Message) -> Iterator[Patch]:
    """Yield what to do next about the job that was answered last; an edit ends what is of another job."""
    config, found, fragment = session.config, session.found, session.fragment
    level = "" if found is None else page.attributes(found)["data-level"]
    if config is None or found is None or level not in LEVELS:
        yield {"hidden": {"ways-part": True, "crowd-part": True}}
        return
    again, session.shows_plans = session.shows_plans is LEVELS[level], LEVELS[level]
    parts = session.ways.get((session.language, fragment), {})
    if parts:
        yield _shown(session, parts)
        return
    edits = session.message_counts.get("answer")
    for piece in _pieces(config, found, level):
        if again and not parts:
            piece.pop("ways", None)  # what the job before had keeps its place until there is something in it
        parts = {**parts, **piece}
        yield _shown(session, parts) if piece else {}
        if session.message_counts.get("answer") != edits:
            return
    session.ways[session.language, fragment] = parts
    for oldest in list(session.ways)[:-RECENT]:
        del session.ways[oldest]


def ways_of(config: Config, found: Found) -> dict[str, str]:
    """Return the parts of the page by element id, all at once."""
    parts: dict[str, str] = {}
    for piece in _pieces(config, found, page.attributes(found)["data-level"]):
        parts = {**parts, **piece}
    return parts


def _pieces(config: Config, found: Found, level: str) -> Iterator[dict[str, str]]:
    yield waiting(level)
    if isinstance(found, ServingEstimate):
        yield from _concurrencies(config, found)
    yield from _plans(config, certain=level == "tight") if LEVELS[level] else _headroom(config, found)


def _concurrencies(config: Config, found: ServingEstimate) -> Iterator[dict[str, str]]:
    """Users against their length, if one fits at any; nothing after every estimate before it."""
    every: list[Concurrency] = []
    for each in concurrencies(config, found):
        every.append(each)
        yield {}
    yield {"crowd": concurrency_map(every, found) if any(each.usual for each in every) else ""}


def _shown(session: Session, parts: dict[str, str]) -> Patch:
    """Return the parts, and whether the job is a plan that was adopted, with the way back."""
    words = session.adopted.get(session.fragment)
    undo = f'<button type="button" class="link" data-undo>{escape(say("ways-undo"))}</button>'
    used = f"{escape(say('ways-used', moves=words))} {undo}" if words else ""
    is_known = "crowd" in parts or not isinstance(session.found, ServingEstimate)
    hidden = {"crowd-part": not parts.get("crowd")} if is_known else {}
    return {"html": {**parts, "ways-used": used}, "hidden": {"ways-part": False, **hidden}}


def _plans(config: Config, *, certain: bool) -> Iterator[dict[str, str]]:
    """Complete plans, the first of them while more are looked for; nothing after every estimate in between."""
    last = None
    for found in plan_by_piece(config, keep=KEEP):
        if found is None:
            yield {}
        elif found.plans:
            yield {"ways": plan_cards(found, certain=certain, done=False)}
        last = found or last
    if last is not None:
        yield {
            "ways-heading": escape(heading(last, certain=certain)),
            "ways": plan_cards(last, certain=certain, done=True),
        }


def _headroom(config: Config, found: Found) -> Iterator[dict[str, str]]:
    """Yield settings of which more fits, as they are found; nothing after every estimate in between."""
    every: list[Headroom] = []
    for each in headroom(config, found):
        if each is None:
            yield {}
        else:
            every.append(each)
            yield {"ways": headroom_buttons(every, done=False)}
    yield {"ways-heading": escape(say("room")), "ways": headroom_buttons(every, done=True)}


def crowd(session: Session, message: Message) -> Iterator[Patch]:
    """A cell of users against their length sets both."""
    form = form_of(message["texts"])
    for path, key in ((Inference.batch_size, "users"), (Inference.max_model_len, "length")):
        form = after_edit(session, Form({**form.texts, path: str(message.get(key) or "")}, form.pasted), path)
    yield from load(session, form, message)


def adopt(session: Session, message: Message) -> Iterator[Patch]:
    """A plan becomes the job; undo takes it back."""
    config = decode_fragment(str(message.get("job") or ""))
    record_example(session, Form({}), "")
    for patch in load(session, page.fill(config), message, say("applied")):
        session.adopted = {session.fragment: str(message.get("said") or "")[:LONGEST]}
        yield patch
