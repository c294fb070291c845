"""Finding a setting by its label, or by what any tool calls it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from memcore.config.settings import SETTINGS
from memcore.faces.page.session import Message, Patch, Session
from memcore.faces.render.form import QUICK
from memcore.i18n.page import label, say
from memcore.tools.names import known_as

MOST = 8
"""Settings of other jobs that are named."""


def find(session: Session, message: Message) -> Iterator[Patch]:
    """Yield which settings a text finds: fields that the form shows, and the names of those of other jobs."""
    text = str(message.get("value") or "").strip()
    if not text:
        yield {"found": None, "html": {"found": ""}}
        return
    found = matches(text)
    hidden = [path for path in found if session.fields.get(path, {}).get("hidden")]
    above = [path for path in found if path in QUICK and path not in hidden]
    said = [say("found-above", settings=_named(above))] if above else []
    said += [say("found-elsewhere", settings=_named(hidden[:MOST]))] if hidden else []
    yield {"found": found, "text": {"found": " ".join(said) if found else say("found-none")}}


def _named(paths: Sequence[str]) -> str:
    return say("and-comma").join(label(path, SETTINGS[path].label) for path in paths)


def matches(text: str) -> list[str]:
    """Return the settings whose label or whose name in any tool has every word of a text.

    >>> matches("recompute-granularity")
    ['training.activation_checkpointing.policy']
    """
    wanted = _plain(text).split()
    return [
        path
        for path, names in known_as().items()
        if all(word in _plain(f"{label(path, SETTINGS[path].label)} {SETTINGS[path].label} {names}") for word in wanted)
    ]


def _plain(text: str) -> str:
    """Without what tells flags of different tools apart: `--recompute_granularity` is `recompute granularity`."""
    return re.sub(r"[-_.\s]+", " ", text.lower())
