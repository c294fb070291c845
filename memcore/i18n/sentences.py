"""Messages in Chinese: their templates are looked up, piece by piece between semicolons, and their values filled in.

A row of a table is a template, or a piece of one, with names for its values, and the same in Chinese. A place of the
Chinese text that ends in `:s` takes names, which are not to be translated. A piece that has no row stays in English.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from string import Formatter
from typing import TypeAlias

from memcore.i18n.answers import ANSWERS_IN_CHINESE
from memcore.i18n.engine_texts import words
from memcore.i18n.spacing import is_chinese, together
from memcore.messages import Message
from memcore.records import dataclass

_WORDS: Mapping[str, str] = {", ": "，", " and ": "和", " or ": "或", ": ": "：", " (": "（", ")": "）"}
"""What stands between words."""
_NAMES: Mapping[str, str] = {" and ": " 和 ", " or ": " 或 "}
"""What stands between names."""
_FORMATTER = Formatter()
Field: TypeAlias = "tuple[str, str | None, str | None, str | None]"
"""A text, and behind it a place: its name, its format and its conversion."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a template between semicolons."""

    fields: Sequence[Field]

    @property
    def key(self) -> str:
        """Return its words alone: with braces for its places, whatever their names and formats are."""
        return "".join(_escaped(text) + ("" if name is None else "{}") for text, name, *_ in self.fields)

    @property
    def is_list(self) -> bool:
        """Return whether it has places alone, with commas, numbers' signs or words that join between them."""
        return all(text in _WORDS or not any(map(str.isalpha, text)) for text, *_ in self.fields)


@lru_cache(maxsize=512)
def pieces(template: str) -> tuple[Piece, ...]:
    """Return the parts of a template.

    >>> [each.key for each in pieces("found {!r:.80}; leave it out")]
    ['found {}', 'leave it out']
    """
    return tuple(Piece(tuple(_FORMATTER.parse(each))) for each in template.split("; "))


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


Table = Mapping[str, tuple[Sequence[str], Sequence[Field]]]
"""By the key of a piece, the names of its values and what it is in Chinese."""


def table(rows: Mapping[str, str]) -> Table:
    """Return the rows of templates."""
    found = {}
    for english, chinese in rows.items():
        if "{" in english:
            piece = Piece(tuple(_FORMATTER.parse(english)))
            names = [name for _, name, *_ in piece.fields if name is not None]
            found[piece.key] = names, tuple(_FORMATTER.parse(chinese))
    return found


@lru_cache(maxsize=1)
def _answers() -> Table:
    return table(ANSWERS_IN_CHINESE)


@lru_cache(maxsize=1)
def _messages() -> Table:
    return table(_rows())


def _rows() -> Mapping[str, str]:
    """Return what is said when something is wrong or was taken from elsewhere: most visits never need it."""
    from memcore.i18n.messages.table import MESSAGES_IN_CHINESE  # noqa: PLC0415

    return MESSAGES_IN_CHINESE


def _template(key: str) -> tuple[Sequence[str], Sequence[Field]] | None:
    return _answers().get(key) or _messages().get(key)


def _answer(text: str) -> str | None:
    """Return a whole text of an answer or of a setting."""
    return ANSWERS_IN_CHINESE.get(text) or words().get(text)


def _plain(text: str) -> str | None:
    """Return a text without values; a name, which has no word in small letters, is not among the messages."""
    row = _answer(text)
    if row is not None:
        return row
    has_words = any(each.isascii() and each.islower() and each.replace("-", "").isalpha() for each in text.split())
    return _rows().get(text) if has_words and not any(map(is_chinese, text)) else None


def in_chinese(said: str, *, names: bool = False) -> str:
    """A message in Chinese; a plain text where the tables have all of it, else as it is. Names are never looked up.

    >>> in_chinese(Message("found {!r}; allowed: {}", 8, "1"))
    '值为 8；允许：1'
    """
    if isinstance(said, Message):
        values = iter(said.values)
        return "；".join(_filled(each, values, names=names) for each in pieces(said.template))
    found = None if names else _answer(said)
    if names or found is not None:
        return found or said
    parts = said.split("; ")
    rows = [row for each in parts if (row := _plain(each) if each else "") is not None]
    return "；".join(rows) if len(rows) == len(parts) else said


def _filled(piece: Piece, values: Iterator[object], *, names: bool) -> str:
    """Return a piece with its values: by its row, else words or names with what stands between them."""
    own = [(next(values), spec, kind) for _, name, spec, kind in piece.fields if name is not None]
    if not own:
        text = "".join(text for text, *_ in piece.fields)
        return _plain(text) or text
    if piece.is_list:
        words, plain = [_value(*each, names=names) for each in own], [_value(*each, names=True) for each in own]
        named = words == plain and not any(isinstance(each, Message) for each, *_ in own)
        return _between(piece, words, _NAMES if named else _WORDS)
    row = _template(piece.key)
    if row is None:
        return _between(piece, [_value(*each, names=True) for each in own], {})
    given = dict(zip(row[0], own, strict=True))
    return together(
        part
        for text, name, spec, _ in row[1]
        for part in (text, "" if name is None else _value(*given[name], names=spec == "s"))
    )


def _between(piece: Piece, said: Sequence[str], joints: Mapping[str, str]) -> str:
    places = iter(said)
    return "".join(joints.get(text, text) + ("" if name is None else next(places)) for text, name, *_ in piece.fields)


def _value(value: object, spec: str | None, kind: str | None, *, names: bool) -> str:
    """Return what stands in a place: quoted or formatted it is a user's, or a number."""
    if isinstance(value, str) and not spec and not kind:
        return in_chinese(value, names=names)
    return format(_FORMATTER.convert_field(value, kind), spec or "")
