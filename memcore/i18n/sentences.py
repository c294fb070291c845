"""Sentences in Chinese: a table of English ones with places for values, which are found again in what was said.

Whoever refuses, warns or assumes says it in English, values filled in; nobody there knows of languages. A row of a
table is such a sentence with names in braces, or a piece of one between semicolons. Of several rows that fit, the one
that says most by itself counts. What stands in the places may be words of the tables, too: alone, or several with
commas between them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

from memcore.i18n.answers import ANSWERS_IN_CHINESE

_OUTSIDE = re.compile(r"""[^'";]+|.""", re.DOTALL)
"""What stands outside of quotes: a run without a sign that matters, or such a sign."""
_ENGLISH = re.compile(r"(?<![^ ])[a-z][a-z'-]+(?![^ ,:)])")
"""A word that is no name."""
_QUOTED = re.compile(r"""(['"])(?:(?!\1)[^\\]|\\.)*(\1)?""", re.DOTALL)
"""A user's words, which may have been cut off."""
_PROSE = re.compile(r"(?<![.\w])(?!and |or )[a-z]+ (?!and |or )[a-z]{2,}")
"""Two words of English in a row, unlike names."""
_JOINTS: Mapping[str, str] = {", ": "，", " and ": "和", " or ": "或", " + ": " + ", " × ": " × "}
_JOINT = re.compile("({})".format("|".join(map(re.escape, _JOINTS))))


_LONGEST, _WORDS, _DEEPEST = 2000, 12, 3
"""Characters of a sentence, words of a row with joints between them, rows within rows: more is from somebody's file."""
_PLACE = re.compile(r"\{(\w+)(?::([dws]))?\}")
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
    kinds: Mapping[str, str]
    """By the name of each place what may stand there: `d` a number, `w` one word, `s` names that no table has."""
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
        values = dict(zip(self.kinds, (*found, text[at:end]), strict=True))
        return values if all(_FITS[self.kinds[name]].fullmatch(value) for name, value in values.items()) else None

    def filled(self, values: Mapping[str, str], deep: int) -> str:
        """The Chinese sentence with values in its places, so deep within others."""
        said = {
            name: _named(value) if self.kinds[name] == "s" else _value(value, deep) for name, value in values.items()
        }
        return self.chinese.format_map(said)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows by the English sentence, and those with places for values apart."""

    whole: Mapping[str, str]
    templates: Sequence[Template]
    """Those that say most by themselves first."""

    def chinese(self, text: str, deep: int = 0) -> str | None:
        """A sentence or piece of one in Chinese, so deep within others; None where no row fits."""
        if text in self.whole:
            return self.whole[text]
        for each in self.templates:
            values = each.values(text)
            if values is not None:
                return each.filled(values, deep + 1)
        return None


def table(rows: Mapping[str, str]) -> Table:
    """A table of sentences by English templates.

    >>> table({"needs {path}": "需要 {path}"}).chinese("needs training.adapter.type")
    '需要 training.adapter.type'
    """
    templates = []
    for english, chinese in rows.items():
        pieces = _PLACE.split(english)
        if len(pieces) > 1:
            kinds = {name: kind or "" for name, kind in zip(pieces[1::3], pieces[2::3], strict=True)}
            templates.append(Template(tuple(pieces[::3]), kinds, chinese))
    return Table(rows, sorted(templates, key=lambda each: -sum(map(len, each.texts))))


@lru_cache(maxsize=1)
def _answers() -> Table:
    return table(ANSWERS_IN_CHINESE)


@lru_cache(maxsize=1)
def _messages() -> Table:
    """What is said when something is wrong or was taken from elsewhere: most visits never need it."""
    from memcore.i18n.messages.table import MESSAGES_IN_CHINESE  # noqa: PLC0415

    return table(MESSAGES_IN_CHINESE)


def in_chinese(english: str) -> str:
    """A sentence in Chinese, piece by piece between semicolons; a piece that no row fits stays as it is.

    >>> in_chinese("found 8; allowed: 1")
    '值为 8；允许：1'
    """
    if len(english) > _LONGEST:
        return english
    whole = _answers().whole.get(english)
    return whole or "；".join(_piece(each.strip()) for each in _pieces(english))


def _pieces(text: str) -> Iterator[str]:
    """What stands between semicolons; those inside of quotes are a user's."""
    start = at = 0
    never: set[str] = set()
    """Quotes that do not end: nor do those that begin behind them."""
    while at < len(text):
        quoted = _QUOTED.match(text, at) if text[at] not in never and not _in_word(text, at - 1) else None
        if quoted is not None and quoted[2] and not _in_word(text, quoted.end()):
            at = quoted.end()
        elif text.startswith("; ", at):
            yield text[start:at]
            start = at = at + 2
        else:
            never |= {text[at]} if quoted is not None and not quoted[2] else set()
            outside = _OUTSIDE.match(text, at)
            at = outside.end() if outside else at + 1
    yield text[start:]


def _in_word(text: str, at: int) -> bool:
    return 0 <= at < len(text) and (text[at].isalnum() or text[at] == "_")


def _piece(text: str, deep: int = 0) -> str:
    """A piece of a sentence, or several words with commas between them."""
    answers, any_row = partial(_answers().chinese, deep=deep), partial(_row, deep=deep)
    return answers(text) or _listed(text, answers, whole=True) or any_row(text) or _listed(text, any_row) or text


@lru_cache(maxsize=256)
def _row(text: str, deep: int) -> str | None:
    """A row for a text; a name, in one word or without a small letter, is looked up among answers' words alone."""
    return _answers().chinese(text, deep) or (_messages().chinese(text, deep) if _ENGLISH.search(text) else None)


def _listed(text: str, row_of: Callable[[str], str | None], *, whole: bool = False) -> str | None:
    """Words with what stands between them: those that no row fits stay as they are, but for a list as a whole."""
    parts = _JOINT.split(text)
    said, at, found, missed = [], 0, False, False
    while at < len(parts):
        ends = range(at + 1, min(at + _WORDS, len(parts)) + 1, 2)
        row, end = next(((row, end) for end in ends if (row := row_of("".join(parts[at:end])))), (None, at + 1))
        found, missed = found or row is not None, missed or row is None
        said += [row or parts[at], *(_JOINTS[each] for each in parts[end : end + 1])]
        at = end + 1
    return "".join(said) if found and not (missed and whole) else None


def _value(text: str, deep: int) -> str:
    """What stands in a place: quoted words are a user's."""
    if deep > _DEEPEST or _QUOTED.fullmatch(text):
        return text
    row = partial(_row, deep=deep)
    pieces = (_listed(each, row, whole=True) or _piece(each, deep) for each in text.strip().split("; "))
    said = "；".join(pieces)
    return said if _PROSE.search(said) else _named(said)


def _named(text: str) -> str:
    """Names with what stands between them."""
    return text.replace(" and ", " 和 ").replace(" or ", " 或 ")
