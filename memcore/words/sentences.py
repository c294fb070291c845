"""Sentences in Chinese: a table of English ones with places for values, which are found again in what was said.

Whoever refuses, warns or assumes says it in English, values filled in; nobody there knows of languages. A row of a
table is such a sentence with names in braces, or a piece of one between semicolons. Of several rows that fit, the one
that says most by itself counts. What stands in the places may be words of the tables, too: alone, or several with
commas between them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from string import Formatter

from memcore.words.answers import ANSWERS_IN_CHINESE

_PIECE = re.compile(r"""(?:(?<!\w)(['"])(?:(?!\1)[^\\]|\\.)*\1(?!\w)|(?!; ).)+""", re.DOTALL)
"""What stands between semicolons; those inside of quotes are a user's."""
_ENGLISH = re.compile(r"(?<![^ ])[a-z][a-z'-]+(?![^ ,:)])")
"""A word that is no name."""
_QUOTED = re.compile(r"""(['"])(?:(?!\1)[^\\]|\\.)*\1?""", re.DOTALL)
"""A user's words, which may have been cut off."""
_PROSE = re.compile(r"(?<![.\w])(?!and |or )[a-z]+ (?!and |or )[a-z]{2,}")
"""Two words of English in a row, unlike names."""
_JOINTS: Mapping[str, str] = {", ": "，", " and ": "和", " or ": "或", " + ": " + ", " × ": " × "}
_JOINT = re.compile("({})".format("|".join(map(re.escape, _JOINTS))))


_FITS: Mapping[str, re.Pattern[str]] = {
    "d": re.compile(r"\d\S*"),
    "w": re.compile(r"\S+"),
    "s": re.compile(".*", re.DOTALL),
    "": re.compile(".*", re.DOTALL),
}
"""What may stand in a place, by its kind."""


@dataclass(frozen=True, slots=True)
class Template:
    """A sentence with places for values."""

    texts: tuple[str, ...]
    """What stands before, between and behind the values."""
    names: tuple[str, ...]
    kinds: Mapping[str, str]
    """What may stand in a place: `d` a number, `w` one word, `s` names that are no words of a table."""
    chinese: str

    def values(self, text: str) -> dict[str, str] | None:
        """What stands in the places; None where the text is another sentence."""
        first, last = self.texts[0], self.texts[-1]
        if not (text.startswith(first) and text.endswith(last) and len(text) >= len(first) + len(last)):
            return None
        at, end, found = len(first), len(text) - len(last), []
        for between in self.texts[1:-1]:
            place = text.find(between, at, end)
            if place < 0:
                return None
            found.append(text[at:place])
            at = place + len(between)
        values = dict(zip(self.names, (*found, text[at:end]), strict=True))
        return values if all(_FITS[self.kinds[name]].fullmatch(value) for name, value in values.items()) else None

    def filled(self, values: Mapping[str, str]) -> str:
        """The Chinese sentence with values in its places."""
        said = {name: _named(value) if self.kinds[name] == "s" else _value(value) for name, value in values.items()}
        return self.chinese.format_map(said)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of a table, those with places for values apart."""

    whole: Mapping[str, str]
    templates: Sequence[Template]
    """Those that say most by themselves first."""

    def chinese(self, text: str) -> str | None:
        """A sentence or piece of one in Chinese; None where no row fits."""
        if text in self.whole:
            return self.whole[text]
        for each in self.templates:
            values = each.values(text)
            if values is not None:
                return each.filled(values)
        return None


def table(rows: Mapping[str, str]) -> Table:
    """A table of sentences by English templates.

    >>> table({"needs {path}": "需要 {path}"}).chinese("needs training.adapter.type")
    '需要 training.adapter.type'
    """
    whole, templates = {}, []
    for english, chinese in rows.items():
        parts = list(Formatter().parse(english))
        names = tuple(name for _, name, _, _ in parts if name is not None)
        if not names:
            whole["".join(text for text, *_ in parts)] = chinese.replace("{{", "{").replace("}}", "}")
            continue
        kinds = {name: kind or "" for _, name, kind, _ in parts if name is not None}
        templates.append(Template(_texts(parts), names, kinds, chinese))
    return Table(whole, sorted(templates, key=lambda each: -sum(map(len, each.texts))))


def _texts(parts: Iterable[tuple[str, str | None, str | None, str | None]]) -> tuple[str, ...]:
    """What stands before, between and behind the places."""
    texts = [""]
    for text, name, _, _ in parts:
        texts[-1] += text
        texts += [""] if name is not None else []
    return tuple(texts)


@lru_cache(maxsize=1)
def _answers() -> Table:
    return table(ANSWERS_IN_CHINESE)


@lru_cache(maxsize=1)
def _messages() -> Table:
    """What is said when something is wrong or was taken from elsewhere: most visits never need it."""
    from memcore.words.messages.table import MESSAGES_IN_CHINESE  # noqa: PLC0415

    return table(MESSAGES_IN_CHINESE)


def in_chinese(english: str) -> str:
    """A sentence in Chinese, piece by piece between semicolons; a piece that no row fits stays as it is.

    >>> in_chinese("found 8; allowed: 1")
    '值为 8；允许：1'
    """
    whole = _answers().whole.get(english)
    return whole or "；".join(_piece(each[0].strip()) for each in _PIECE.finditer(english))


def _piece(text: str) -> str:
    """A piece of a sentence, or several words with commas between them."""
    answers = _answers().chinese
    return answers(text) or _listed(text, answers, whole=True) or _row(text) or _listed(text, _row) or text


def _row(text: str) -> str | None:
    """A row for a text; a name, in one word or without a small letter, is looked up among answers' words alone."""
    return _answers().chinese(text) or (_messages().chinese(text) if _ENGLISH.search(text) else None)


def _listed(text: str, row_of: Callable[[str], str | None], *, whole: bool = False) -> str | None:
    """Words with what stands between them: those that no row fits stay as they are, but for a list as a whole."""
    parts = _JOINT.split(text)
    said, at, found, missed = [], 0, False, False
    while at < len(parts):
        ends = range(at + 1, len(parts) + 1, 2)
        row, end = next(((row, end) for end in ends if (row := row_of("".join(parts[at:end])))), (None, at + 1))
        found, missed = found or row is not None, missed or row is None
        said += [row or parts[at], *(_JOINTS[each] for each in parts[end : end + 1])]
        at = end + 1
    return "".join(said) if found and not (missed and whole) else None


def _value(text: str) -> str:
    """What stands in a place: quoted words are a user's."""
    if _QUOTED.fullmatch(text):
        return text
    pieces = (_listed(each, _row, whole=True) or _piece(each) for each in text.strip().split("; "))
    said = "；".join(pieces)
    return said if _PROSE.search(said) else _named(said)


def _named(text: str) -> str:
    """Names with what stands between them."""
    return text.replace(" and ", " 和 ").replace(" or ", " 或 ")
