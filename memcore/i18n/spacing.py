"""Spaces between Chinese and Latin letters or digits, where texts with values are put together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from string import Formatter

_FORMATTER = Formatter()


def is_chinese(letter: str) -> bool:
    """Return whether a letter is one of the common Chinese ones."""
    return "\u4e00" <= letter <= "\u9fff"


def _is_latin(letter: str) -> bool:
    return letter.isascii() and letter.isalnum()


def together(parts: Iterable[str]) -> str:
    """Join parts of a Chinese text, with a space where Chinese meets Latin letters or digits, and only there.

    What stands inside of a part stays as it is.

    >>> together(["可容纳", "8 个序列"]), together(["第 0 级 ", "的 GPU"]), together(["最大的部分是", "激活值"])
    ('可容纳 8 个序列', '第 0 级的 GPU', '最大的部分是激活值')
    """
    text = ""
    for part in filter(None, parts):
        left, right = text.rstrip(" "), part.lstrip(" ")
        before, after = left[-1:], right[:1]
        if is_chinese(before) and is_chinese(after):
            text = left + right
        elif left == text and right == part and _meet(before, after):
            text = f"{text} {part}"
        else:
            text += part
    return text


def _meet(before: str, after: str) -> bool:
    """Return whether Chinese meets Latin letters or digits."""
    return (is_chinese(before) and _is_latin(after)) or (_is_latin(before) and is_chinese(after))


@lru_cache(maxsize=512)
def _fields(template: str) -> tuple[tuple[str, str | None, str | None, str | None], ...]:
    return tuple(_FORMATTER.parse(template))


def filled(template: str, values: Mapping[str, object]) -> str:
    """Return a Chinese template with its values."""
    parts = []
    for text, name, spec, kind in _fields(template):
        parts.append(text)
        if name is not None:
            parts.append(format(_FORMATTER.convert_field(values[name], kind), spec or ""))
    return together(parts)
