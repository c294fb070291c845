"""The sliders of the sentence: their tracks are painted by what fits, in the time that an answer leaves."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from memcore.config.settings import Config
from memcore.config.url import encode_fragment
from memcore.errors import MemcoreError
from memcore.faces.page.session import Message, Patch, Session, Track
from memcore.faces.render.applying import applies
from memcore.faces.render.form import is_shown
from memcore.faces.render.tracks import track_title
from memcore.questions.painting import TRACKS, painted
from memcore.questions.solving import Pieces, Solution, solve_by_piece

T = TypeVar("T")


def paint(session: Session, message: Message) -> Iterator[Patch]:
    """Each slider's steps as what they are painted, or, asked for `exact`, the value up to which the job fits.

    An edit ends it. What does not depend on the edit, as the track of the number that was edited, is not found again.
    """
    config, edits = session.config, session.message_counts.get("answer")
    if config is None or session.found is None or session.found.capacity is None:
        yield {"tracks": {}}
        return
    engine, texts = session.found.job.engine.name, session.form.texts
    paths = [path for path in TRACKS if is_shown(path, engine, "") and applies(path, engine, texts, {})]
    for find in (_painted, _exact) if message.get("exact") else (_painted,):
        for path in paths:
            for patch in find(session, config, path):
                yield patch
                if session.message_counts.get("answer") != edits:
                    return


def _key(config: Config, path: str) -> str:
    """Return the job without the setting."""
    return encode_fragment(config.replaced(path, 2 ** TRACKS[path][0]))


def _painted(session: Session, config: Config, path: str) -> Iterator[Patch]:
    key, known = _key(config, path), session.painted.get(path)
    if known is None or known.key != key:
        marks: list[str] = []
        with suppress(MemcoreError):  # whatever the value, something else is wrong with the job
            marks = yield from _quietly(painted(config, path))
        known = session.painted[path] = Track(key, tuple(marks))
    yield _patch(path, known)


def _quietly(pieces: Pieces[T]) -> Generator[Patch, None, T]:
    """Yield what comes of work that says nothing while it goes on."""
    while True:
        try:
            next(pieces)
        except StopIteration as done:
            result: T = done.value
            return result
        yield {}


def _exact(session: Session, config: Config, path: str) -> Iterator[Patch]:
    known = session.painted.get(path)
    if known is None or known.key != _key(config, path) or known.edge or len({*known.marks} - {"tight"}) < 2:
        return
    if not {"fits", "tight"} & {*known.marks}:
        return
    found: Solution | None = None
    with suppress(MemcoreError):
        for piece in solve_by_piece(config, path):
            found = piece
            yield {}
    if found is not None and isinstance(found.value, int):
        known = session.painted[path] = replace(known, edge=found.value)
        yield _patch(path, known)


def _patch(path: str, track: Track) -> Patch:
    title = track_title(path, track.marks, track.edge) if track.marks else ""
    return {"tracks": {path: {"marks": list(track.marks), "title": title, "edge": track.edge}}}
