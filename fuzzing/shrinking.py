"""The smallest input that fails in the same way: keys, items, lines and letters are left out as long as it does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Fails = Callable[[Any], bool]
SIMPLE = (0, 1, "", "a")
"""What stands for a value that does not matter."""


def smallest(given: Any, fails: Fails, goes_on: Callable[[], bool]) -> Any:
    """Reduce an input; the search ends with what it has as soon as it makes no progress."""
    found, again = given, True
    while again:
        again = False
        for smaller in _smaller(found):
            if not goes_on():
                return found
            if fails(smaller):
                found, again = smaller, True
                break
    return found


def _smaller(given: Any) -> Iterator[Any]:
    """Inputs with less in them, those with least first."""
    if isinstance(given, dict):
        names = list(given)
        for start, stop in _pieces(len(names)):
            yield {name: given[name] for name in (*names[:start], *names[stop:])}
        for key, value in list(given.items())[:MOST]:
            yield from ({**given, key: less} for less in _smaller(value))
    elif isinstance(given, list):
        for start, stop in _pieces(len(given)):
            yield given[:start] + given[stop:]
        for at, value in enumerate(given[:MOST]):
            yield from ([*given[:at], less, *given[at + 1 :]] for less in _smaller(value))
    elif isinstance(given, str):
        yield from _shorter(given)
    elif isinstance(given, (int, float)) and not isinstance(given, bool) and given not in (0, 1):
        yield from SIMPLE[:2]


def _shorter(text: str) -> Iterator[str]:
    lines = text.split("\n")
    if len(lines) > 1:
        yield from ("\n".join(lines[:start] + lines[stop:]) for start, stop in _pieces(len(lines)))
    if "&" in text:
        parts = text.split("&")
        yield from ("&".join(parts[:start] + parts[stop:]) for start, stop in _pieces(len(parts)))
    yield from (text[:start] + text[stop:] for start, stop in _pieces(len(text)))


def _pieces(count: int) -> Iterator[tuple[int, int]]:
    """Halves, quarters and so on, down to single ones where there are few."""
    size = count
    while size >= 1 and count / size <= FINEST:
        yield from ((start, min(start + size, count)) for start in range(0, count, size))
        size = -(-size // 2) if size > 1 else 0


FINEST = 256
"""Pieces that something is cut into at most."""
MOST = 50
"""Keys or items that are looked into."""
