"""Regular expressions that somebody else has written, matched in time proportional to a name's length.

Python's own go back and try again, and a few letters of a pattern can make that take for ever. Here all ways are
followed at once, and where they lead from each letter is kept. What is read is what such patterns of modules are made
of: letters, classes, groups, alternatives, repetitions, both ends, and conditions at the beginning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field

from memcore.messages import Message
from memcore.records import dataclass

_STATES = 2000
"""Of a pattern: repetitions that are counted are written out."""
_NESTING = 16
"""Brackets inside each other."""
_TOKEN = re.compile(
    r"(?P<open>\((?:\?:|\?P<\w{1,40}>)?)|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<times>\{(\d{1,3})(,?)(\d{0,3})\}|[*+?])"
    r"|(?P<end>\$|\\Z)|(?P<start>\^|\\A)|(?P<class>\\[dDwWsS])|(?P<escaped>\\[^\w])|(?P<sign>[)|])|(?P<letter>[^\\\[])"
)
_CONDITION = re.compile(r"\^?\(\?([=!])")

_Build = Callable[[int], int]
"""Makes the states of a part, which lead to a given one, and gives the first of them."""


@dataclass(slots=True)
class _State:
    """A letter that takes a way on; or without one, ways on, perhaps only from one end of the name."""

    letter: re.Pattern[str] | None = None
    to: list[int] = field(default_factory=list)
    only_at: str = ""


class Pattern:
    r"""A regular expression, matched from the beginning of a name.

    >>> Pattern(r"model\.layers\.(0|1)\..*gate$").match("model.layers.1.mlp.gate")
    True

    Raises ValueError for one that is not read.
    """

    def __init__(self, text: str) -> None:
        self._conditions: list[tuple[bool, Pattern]] = []
        while (condition := _CONDITION.match(text)) is not None:
            inside = _inside(text[condition.end() :])
            self._conditions.append((condition[1] == "=", Pattern(inside)))
            text = text[condition.end() + len(inside) + 1 :]
        self._states = [_State()]
        self._tokens = list(_tokens(text))
        self._at = 0
        build = self._alternatives()
        if self._at < len(self._tokens):
            raise ValueError("has an unmatched closing bracket")
        self._begin = build(0)
        self._known: dict[tuple[frozenset[int], str], frozenset[int]] = {}
        self._first = self._closed([self._begin], "start")
        self._ended: dict[frozenset[int], bool] = {}

    def match(self, name: str) -> bool:
        """Return whether a name begins with what the pattern says."""
        if any(pattern.match(name) is not wanted for wanted, pattern in self._conditions):
            return False
        if not name:
            return 0 in self._closed([self._begin], "start", "end")
        ways = self._first
        for letter in name:
            if 0 in ways or not ways:
                break
            ways = self._next(ways, letter)
        else:
            return self._ends(ways)
        return 0 in ways

    def _next(self, ways: frozenset[int], letter: str) -> frozenset[int]:
        found = self._known.get((ways, letter))
        if found is None:
            states = (self._states[each] for each in ways)
            on = [to for each in states if each.letter and each.letter.match(letter) for to in each.to]
            found = self._known[ways, letter] = self._closed(on)
        return found

    def _ends(self, ways: frozenset[int]) -> bool:
        if ways not in self._ended:
            self._ended[ways] = 0 in self._closed(ways, "end")
        return self._ended[ways]

    def _closed(self, states: Iterable[int], *here: str) -> frozenset[int]:
        """States with those that they lead to without a letter."""
        found: set[int] = set()
        ahead = list(states)
        while ahead:
            number = ahead.pop()
            if number not in found:
                found.add(number)
                state = self._states[number]
                if state.letter is None and state.only_at in ("", *here):
                    ahead += state.to
        return frozenset(found)

    def _state(self, state: _State) -> int:
        if len(self._states) >= _STATES:
            raise ValueError(Message("is longer than {} letters with its repetitions", _STATES))
        self._states.append(state)
        return len(self._states) - 1

    def _alternatives(self, deep: int = 0) -> _Build:
        if deep > _NESTING:
            raise ValueError(Message("has brackets nested more than {} levels deep", _NESTING))
        ways = [self._sequence(deep)]
        while self._sign("|"):
            ways.append(self._sequence(deep))
        return lambda to: ways[0](to) if len(ways) == 1 else self._state(_State(to=[way(to) for way in ways]))

    def _sequence(self, deep: int) -> _Build:
        parts: list[_Build] = []
        while self._at < len(self._tokens) and self._tokens[self._at].lastgroup != "sign":
            token = self._tokens[self._at]
            self._at += 1
            parts.append(self._part(token, deep))
        return lambda to: _through(parts, to)

    def _part(self, token: re.Match[str], deep: int) -> _Build:
        kind, text = token.lastgroup, token[0]
        if kind == "open":
            part = self._alternatives(deep + 1)
            if not self._sign(")"):
                raise ValueError("has an unclosed bracket")
        elif kind == "times":
            raise ValueError("repeats nothing")
        elif kind in ("start", "end"):
            part = self._joining([], kind)
        else:
            letter = re.compile(re.escape(text) if kind == "letter" and text != "." else text)
            part = self._joining([letter], "")
        while self._at < len(self._tokens) and self._tokens[self._at].lastgroup == "times":
            part = self._repeated(part, self._tokens[self._at])
            self._at += 1
            self._at += self._at < len(self._tokens) and self._tokens[self._at][0] == "?"
        return part

    def _joining(self, letters: Sequence[re.Pattern[str]], only_at: str) -> _Build:
        return lambda to: self._state(_State(letters[0] if letters else None, [to], only_at))

    def _repeated(self, part: _Build, token: re.Match[str]) -> _Build:
        counted = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        least, most = counted.get(token[0]) or (
            int(token[4]),
            int(token[6]) if token[6] else None if token[5] else int(token[4]),
        )

        def build(to: int) -> int:
            if most is None:
                again = self._state(_State())
                self._states[again].to = [part(again), to]
                to = again
            for _ in range((most or least) - least):
                to = self._state(_State(to=[part(to), to]))
            return _through([part] * least, to)

        return build

    def _sign(self, wanted: str) -> bool:
        found = self._at < len(self._tokens) and self._tokens[self._at][0] == wanted
        self._at += found
        return found


def _through(parts: Sequence[_Build], to: int) -> int:
    for part in reversed(parts):
        to = part(to)
    return to


def _tokens(text: str) -> Iterable[re.Match[str]]:
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None or (text.startswith("(?", at) and len(token[0]) < 3):
            raise ValueError(Message("has {!r}, which is not supported", text[at : at + 10]))
        yield token
        at = token.end()


def _inside(text: str) -> str:
    """Return what stands before the bracket that closes."""
    depth = 1
    for token in _tokens(text):
        depth += {"open": 1}.get(str(token.lastgroup), 0) - (token[0] == ")")
        if not depth:
            return text[: token.start()]
    raise ValueError("has an unclosed bracket")


def starts_like(pieces: list[str], name: str) -> bool:
    """Return whether a name begins with pieces, whatever is between them.

    >>> starts_like("model.*.gate".split("*"), "model.layers.0.gate.weight")
    True
    """
    at = len(pieces[0])
    if not name.startswith(pieces[0]):
        return False
    for piece in pieces[1:]:
        found = name.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return True
