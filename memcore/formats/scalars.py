"""What YAML's scalars stand for: words and numbers without quotes, texts within them, and blocks of text.

As PyYAML has it, by which most tools read their files: YAML 1.1's words (yes, on) and octal numbers, dates as texts.
Beyond it 1e-5 is a number, as in YAML 1.2 and as tools take it in the end, and 1:30 is none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

from memcore.limits import INTEGER_DIGITS, whole
from memcore.messages import Message

_WORDS: Mapping[str, Any] = {
    word: value
    for words, value in (
        (("", "~", "null", "Null", "NULL"), None),
        (("yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
        (("no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
        ((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
        (("-.inf", "-.Inf", "-.INF"), float("-inf")),
        ((".nan", ".NaN", ".NAN"), float("nan")),
    )
    for word in words
}
_NUMBERS: Sequence[tuple[int, re.Pattern[str]]] = (
    (10, re.compile(r"[-+]?(?:0|[1-9][0-9_]*)")),
    (8, re.compile(r"[-+]?0(?:o?[0-7]|_)[0-7_]*")),
    (16, re.compile(r"[-+]?0x[0-9a-fA-F][0-9a-fA-F_]*")),
    (2, re.compile(r"[-+]?0b[01][01_]*")),
)
_FLOAT = re.compile(
    r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?|[0-9][0-9_]*[eE][-+]?[0-9]+)"
)
_SPACES = re.compile(r"[ \t\n]+")
_ESCAPED = re.compile(
    r"\\(?:(?P<joined>\n[ \t\n]*)|x(?P<x>[0-9a-fA-F]{2})|u(?P<u>[0-9a-fA-F]{4})|U(?P<U>[0-9a-fA-F]{8})|(?P<one>.))"
    r"|(?P<spaces>[ \t\n]+)",
    re.DOTALL,
)
_ESCAPES: Mapping[str, str] = {
    "0": "\0", "a": "\a", "b": "\b", "t": "\t", "\t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "e": "\x1b",
    " ": " ", '"': '"', "/": "/", "\\": "\\", "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029",
}  # fmt: skip
_SURROGATES = range(0xD800, 0xE000)


def resolved(text: str) -> Any:
    """Return the value of a scalar without quotes.

    >>> [resolved(each) for each in ("3e-4", "1_000", "0x10", "off", "~", "8 GPUs")]
    [0.0003, 1000, 16, False, None, '8 GPUs']

    Raises ValueError for a number of too many digits.
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    for base, pattern in _NUMBERS:
        if pattern.fullmatch(text):
            digits = text.replace("_", "")
            return whole(digits) if base == 10 or len(digits) > INTEGER_DIGITS else int(digits, base)
    return float(text.replace("_", "")) if _FLOAT.fullmatch(text) else text


def single_quoted(inside: str) -> str:
    """Return what stands between single quotes: two of them are one, and lines are folded."""
    return _SPACES.sub(_folded, inside.replace("''", "'"))


def double_quoted(inside: str) -> str:
    r"""Return what stands between double quotes, with escapes and folded lines.

    >>> double_quoted(r"caf\u00e9\tbar")
    'café\tbar'

    Raises ValueError for an escape that YAML has not.
    """
    return _ESCAPED.sub(_unescaped, inside)


def _folded(match: re.Match[str]) -> str:
    return folding(match[0]) if "\n" in match[0] else match[0]


def folding(gap: str) -> str:
    """Return what the gap between two lines of a text stands for: a space, or the empty lines in it."""
    return "\n" * (gap.count("\n") - 1) or " "


def _unescaped(match: re.Match[str]) -> str:
    kind = match.lastgroup
    if kind == "spaces":
        return _folded(match)
    if kind == "joined":
        return "\n" * (match[0].count("\n") - 1)
    if kind == "one":
        if match["one"] not in _ESCAPES:
            raise ValueError(Message("has the escape {}, which YAML does not know", match[0]))
        return _ESCAPES[match["one"]]
    code = int(match[str(kind)], 16)
    if code > 0x10FFFF or code in _SURROGATES:
        raise ValueError(Message("has the escape {}, which is not a character", match[0]))
    return chr(code)


def block(rows: Sequence[str], *, folded: bool, chomping: str, ended: bool) -> str:
    r"""Return a block of text by its lines without their indentation; `ended` says whether the last one has an end.

    >>> block(["a", "b", "", "  c", ""], folded=True, chomping="", ended=True)
    'a b\n\n  c\n'
    """
    filled = [number for number, row in enumerate(rows) if row]
    if not filled:
        return "\n" * len(rows) if chomping == "+" else ""
    first, last = filled[0], filled[-1]
    gaps = (_between(rows, one, other, folded=folded) for one, other in pairwise(filled))
    text = "\n" * first + "".join(
        chain.from_iterable(zip((rows[number] for number in filled), [*gaps, ""], strict=True))
    )
    if chomping == "-":
        return text
    ends = len(rows) - last if chomping == "+" else 1
    return text + "\n" * (ends if ended or last < len(rows) - 1 else 0)


def _between(rows: Sequence[str], one: int, other: int, *, folded: bool) -> str:
    """Return what stands between two lines that say something: lines that begin with a space are not folded."""
    if folded and not rows[one].startswith((" ", "\t")) and not rows[other].startswith((" ", "\t")):
        return folding("\n" * (other - one))
    return "\n" * (other - one)
