"""A moment of the step that is pointed at or pinned: the tensors that are alive then."""

from __future__ import annotations

from collections.abc import Iterator

from memcore.faces.page.session import Message, Patch, Session
from memcore.faces.render.stages import stages
from memcore.faces.render.step import step, tensors
from memcore.memory.estimate import Estimate
from memcore.memory.stretches import stretches


def moment(session: Session, message: Message) -> Iterator[Patch]:
    """The largest tensors of a moment, by the stretch of the step and the repetition; nothing where there is none."""
    found, markup = session.found, ""
    if isinstance(found, Estimate):
        rank = session.rank_of(found) or found.rank
        every, at = stretches(rank), _number(message.get("stretch"))
        if 0 <= at < len(every):
            ledger = every[at].ledger(rank, _number(message.get("done")))
            markup = tensors(ledger, rank, pinned=bool(message.get("pinned")))
    yield {"moment": {"key": str(message.get("key"))[:80], "html": markup}}


def stage(session: Session, message: Message) -> Iterator[Patch]:
    """A stage was chosen by its number: its step is shown large."""
    found, number = session.found, _number(message.get("stage"))
    if not isinstance(found, Estimate) or not 0 <= number < len(found.ranks):
        return
    rank = found.ranks[number]
    session.stage = "" if rank is found.rank else rank.name
    *_, pictures = stages(found, rank)
    yield {"html": {"timeline": step(found, rank), "stages": pictures}}


def _number(given: object) -> int:
    return given if isinstance(given, int) else -1
