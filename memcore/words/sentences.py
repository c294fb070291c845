"""Sentences in Chinese: a table of English ones with places for values, which are found again in what was said.

Whoever refuses, warns or assumes says it in English, values filled in; nobody there knows of languages. A row of a
table is such a sentence with names in braces, or a piece of one between semicolons. Of several rows that fit, the one
that says most by itself counts. What stands in the places may be words of the tables, too: alone, or several with
commas between them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
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


@dataclass(frozen=True, slots=True)
class Template:
    """A sentence with places for values."""

    texts: tuple[str, ...]
    """What stands before, between and behind the values."""
    names: tuple[str, ...]
    kinds: Mapping[str, str]
    """What may stand in a place: `d` a number alone, `s` names that are no words of a table."""
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
        numbers = (value for name, value in values.items() if self.kinds[name] == "d")
        return values if all(each[:1].isdigit() and " " not in each for each in numbers) else None

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
    parts = _JOINT.split(text)
    found = _in_table(_answers(), text, parts)
    if found is None and _ENGLISH.search(text):
        found = _in_table(_messages(), text, parts)
        words = [_answers().chinese(each) or _messages().chinese(each) for each in parts[::2]]
        found = found or _joined(parts, words)
    return found or text


def _in_table(table: Table, text: str, parts: Sequence[str]) -> str | None:
    """A row for the whole text, or rows for all its parts."""
    whole = table.chinese(text)
    if whole is not None or len(parts) == 1:
        return whole
    words = [table.chinese(each) for each in parts[::2]]
    return _joined(parts, words) if all(words) else None


def _joined(parts: Sequence[str], words: Sequence[str | None]) -> str | None:
    """Words with what stands between them; those that no row fits stay as they are, unless it is none of them."""
    if not any(words):
        return None
    joints = [_JOINTS[each] for each in parts[1::2]]
    return "".join((word or part) + joint for word, part, joint in zip(words, parts[::2], [*joints, ""], strict=True))


def _value(text: str) -> str:
    """What stands in a place: quoted words are a user's."""
    if _QUOTED.fullmatch(text):
        return text
    said = "；".join(map(_piece, text.strip().split("; ")))
    return said if _PROSE.search(said) else _named(said)


def _named(text: str) -> str:
    """Names with what stands between them."""
    return text.replace(" and ", " 和 ").replace(" or ", " 或 ")
