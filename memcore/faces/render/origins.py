"""What became of every key of a file, as HTML: what may change the answer first, what does not folded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from memcore.config.settings import SETTINGS
from memcore.faces.render.form import field_link
from memcore.faces.render.markup import html_table
from memcore.i18n.page import say, translated
from memcore.questions.describe import spelled
from memcore.tools.origins import Origins, Read, Unread


def origins_html(found: Origins) -> str:
    """Return keys that are left out, settings with the keys that set them, what was assumed, and what has no effect."""
    assumed = [
        f"{field_link(each.path)} = <b>{escape(spelled(each.path, each.value))}</b>, {escape(translated(each.because))}"
        for each in sorted(found.assumed, key=lambda each: _place(each.path))
    ]
    return "".join((
        _listed("origins-left-out", map(_unread, found.left_out), is_open=True),
        _settings(found.read),
        _listed("origins-assumed", assumed, is_open=True),
        _listed("origins-silent", map(_unread, found.of_no_account)),
    ))  # fmt: skip


def _settings(read: Iterable[Read]) -> str:
    """Return each setting once, in the order of the form, with every key that had a share in it."""
    rows: dict[str, tuple[object, list[str]]] = {}
    for each in sorted(read, key=lambda each: _place(each.path)):
        rows.setdefault(each.path, (each.value, []))[1].append(_where(each))
    cells = (
        (field_link(path), f"<b>{escape(_short(path, value))}</b>", "<br>".join(keys))
        for path, (value, keys) in rows.items()
    )
    return html_table(say("origins-read"), ("Setting", "Value", "Key"), cells) if rows else ""


def _where(each: Read) -> str:
    line = "" if each.line is None else f":{each.line}"
    return f"<code>{escape(each.key)}</code> <small>{escape(each.file)}{line}</small>"


LONGEST = 60
"""Characters of a value."""


def _short(path: str, value: object) -> str:
    text = spelled(path, value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _place(path: str) -> tuple[int, str]:
    """Where the form has a setting: the model first, then what decides most, as it is declared."""
    known = [*SETTINGS]
    return (known.index(path) if path in SETTINGS else 0 if path.startswith("model") else len(known)), path


def _unread(each: Unread) -> str:
    return f"<code>{escape(each.key)}</code>: {escape(translated(each.why))}"


def _listed(key: str, items: Iterable[str], *, is_open: bool = False) -> str:
    every: Sequence[str] = [f"<li>{item}</li>" for item in items]
    if not every:
        return ""
    summary = escape(say(key, count=len(every)))
    return f"<details{' open' if is_open else ''}><summary>{summary}</summary><ul>{''.join(every)}</ul></details>"
