r"""Functions of shell scripts, in the place of whose calls their bodies are read, and loops.

>>> print(called('run() {\n  vllm serve "$1" "$@"\n}\nrun m --x'))
<BLANKLINE>
1=m; 2=--x; set -- m --x;
  vllm serve "$1" "$@"
; 1=$1; 2=$2; set --
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

_DEFINED = re.compile(
    r"^[ \t]*(?:function[ \t]+([\w:.-]{1,80})[ \t]*(?:\(\))?|([\w:.-]{1,80})[ \t]*\(\))[ \t\n]*\{", re.MULTILINE
)
_PLACES = re.compile(r"\$(?:[1-9@*#]|\{[1-9@*#])")
"""What a function is called with, in its body."""
_SHIFTS = re.compile(r"(?:^|(?<=[;\n]))([ \t]*)shift(?:[ \t]+(\d))?(?=[ \t]*(?:[;\n#]|$))")
_LOOPS = re.compile(r"^[ \t]*(?:while|until|for|case)\b", re.MULTILINE)
_ARGUMENT = re.compile(
    r"""(?:[^\s"'\\;&|<>()#]|\\[^\n]|"(?:[^"\\]|\\.){0,2000}"|'[^']{0,2000}'|(?<=\S)#)+""", re.DOTALL
)
_BLANK = re.compile(r"(?:[ \t]|\\\n)+")
_MOST, _LONGEST, _TIMES = 24, 2**17, 8
"""Calls of a function, the characters that they make of a script, and functions that are looked at."""
_DEFINITIONS, _BODY, _READ = 64, 2**14, 2**16
"""Functions of a script, the characters of one, and those of a script whose loops are looked for."""
_NUMBERS = 10
"""Places that a call has at most."""


class _Function(NamedTuple):
    name: str
    body: str
    start: int
    end: int


def called(text: str) -> str:
    """Return the script with the bodies of its functions in the places where it calls them with words.

    A function that is not called, or that looks at its words in a loop, stays as it is.
    """
    for _ in range(_TIMES if len(text) <= _LONGEST else 0):
        after = _once(text)
        if after == text or len(after) > _LONGEST:
            break
        text = after
    return text


def _once(text: str) -> str:
    """Return the same for functions that call no other one that is still there."""
    found = {each.name: each for each in _functions(text) if _PLACES.search(each.body)}
    for function in found.values():
        if _LOOPS.search(function.body) or any(_call(name).search(function.body) for name in found):
            continue
        rest = text[: function.start] + text[function.end :]
        calls = [each for each in _call(function.name).finditer(rest) if not _in_comment(rest, each.start())]
        if not calls or len(calls) > _MOST:
            continue
        for each in reversed(calls):
            words, end = _words(rest, each.end())
            rest = rest[: each.start(2)] + _expanded(function.body, each[2] or "", words) + rest[end:]
        return rest
    return text


def _functions(text: str) -> Iterator[_Function]:
    """Yield the functions that a script defines, by the brackets around their bodies."""
    for begins in islice(_DEFINED.finditer(text), _DEFINITIONS):
        deep = 0
        for bracket in re.finditer(r"[{}]", text[begins.end() - 1 : begins.end() + _BODY]):
            deep += 1 if bracket[0] == "{" else -1
            if not deep:
                end = begins.end() - 1 + bracket.end()
                yield _Function(begins[1] or begins[2], text[begins.end() : end - 1], begins.start(), end)
                break


def _call(name: str) -> re.Pattern[str]:
    """How a call of a function begins, perhaps with variables for it alone."""
    return re.compile(
        rf"(^|[;&|]|\b(?:then|do|else)\b)[ \t]*((?:[A-Z_]{{1,80}}=[^\s;&|]{{0,200}}[ \t]+){{0,8}}){re.escape(name)}"
        rf"(?=[ \t\n;&|]|$)(?![ \t]*\()",
        re.MULTILINE,
    )


def _in_comment(text: str, at: int) -> bool:
    return text[text.rfind("\n", 0, at) + 1 : at].lstrip().startswith("#")


def _words(text: str, at: int) -> tuple[list[str], int]:
    """Return what a call gives its function, as it is written, and where that ends."""
    found: list[str] = []
    while True:
        blank = _BLANK.match(text, at)
        word = _ARGUMENT.match(text, blank.end()) if blank else None
        if word is None:
            return found, at
        found.append(word[0])
        at = word.end()


def _expanded(body: str, around: str, words: list[str]) -> str:
    """Return a function's body with its words, and afterwards the script's own."""
    left = list(words)

    def shifted(found: re.Match[str]) -> str:
        del left[: int(found[2] or 1)]
        return f"{found[1]}{_given(left, len(words))}"

    inside = _SHIFTS.sub(shifted, body)
    own = "; ".join(f"{number}=${number}" for number in range(1, min(len(words), _NUMBERS - 1) + 1))
    environment = "; ".join(around.split())
    before = "; ".join(each for each in (environment, _given(words, len(words))) if each)
    return f"{before};{inside}; {own}{'; ' if own else ''}set --"


def _given(words: list[str], most: int) -> str:
    """Statements that give a function its words."""
    filled = [*words, *[""] * (most - len(words))]
    places = [f"{number}={word}" for number, word in enumerate(filled[: _NUMBERS - 1], 1)]
    return "; ".join([*places, f"set -- {' '.join(words)}".rstrip()])


_FOR = re.compile(r"\bfor[ \t]+\w{1,80}[ \t]+in[ \t]+([^\n;]{1,400})[;\n][ \t\n]{0,80}do\b")
_BEHIND = re.compile(r"(?<![&>0-9])&[ \t]*(?:$|\n|;)")
_SERVES = re.compile(r"\bserve\b|server\b|launch")
_COUNT = re.compile(r"\{(\d{1,4})\.\.(\d{1,4})\}|\$\(seq[ \t]+(\d{1,4})[ \t]+(\d{1,4})\)")


def repeated(text: str) -> int:
    r"""Return how many times a loop of a script starts a server in the background; 1 for no such loop.

    >>> repeated("for i in 0 1 2; do\n  vllm serve m --port 800$i &\ndone")
    3
    """
    for found in islice(_FOR.finditer(text[:_READ]), _DEFINITIONS):
        inside = text[found.end() : text.find("done", found.end(), found.end() + _BODY)]
        if not (_BEHIND.search(inside) and _SERVES.search(inside)):
            continue
        counted = _COUNT.search(found[1])
        if counted:
            first, last = (int(each) for each in counted.groups() if each is not None)
            return max(last - first + 1, 1)
        if "$" not in found[1]:
            return len(found[1].split())
    return 1
