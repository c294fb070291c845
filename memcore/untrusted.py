"""Reading JSON that somebody else has written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate

from memcore.errors import ConfigError
from memcore.limits import NESTING, whole
from memcore.messages import Message

MARK = "\ufeff"
"""The byte order mark that some editors put before a text."""
_BRACKET = re.compile(r"[\[\]{}]")
_ESCAPE = re.compile(r"\\.", re.DOTALL)
_STRING = re.compile(r'"[^"]*"')
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
_FOREIGN = ("\ufffd\ufffd", "\xff\xfe", "\xfe\xff")
"""What the marks of UTF-16 are when they are read as something else."""


def parse_json(text: str, notes: list[str] | None = None) -> object:
    """The value of a JSON text; `notes` takes what there is to say about it.

    >>> parse_json('{"a": [1, 2]}')
    {'a': [1, 2]}

    Raises ValueError for what is not JSON or is nested too deeply, and ConfigError with the path of a key that is there
    twice with different values.
    """
    plain = unmarked(text)
    deepest(_BRACKET.findall(_STRING.sub("", _ESCAPE.sub("", plain))))
    repeated: list[_Repeated] = []
    endless: list[str] = []
    """What Python reads and JSON has not."""

    def constant(name: str) -> float:
        endless.append(name)
        return float(name)

    def gathered(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if endless and LIMITS in found and (spelled := with_limits(found)) is not found:
            endless.pop()
            found = dict(spelled)
        if len(found) == len(pairs):
            return found
        repeated.append(_Repeated(found, pairs))
        return repeated[-1]

    found = json.loads(plain, object_pairs_hook=gathered, parse_int=whole, parse_constant=constant)
    if endless:
        raise ValueError(Message("found {}, which is not a JSON number", endless[0]))
    if repeated:
        said = [message for path, each in _repeated(found) for message in each.said(path)]
        if notes is not None:
            notes += said
    if _HALF.search(plain):
        _whole_letters(found)
    return found


def fault(error: ValueError) -> str:
    """Return what is wrong with a text that `parse_json` refuses.

    >>> try: json.loads('{"a": {"b": 1}')
    ... except ValueError as error: fault(error)
    'line 1, column 15: the text ends before its last bracket is closed'
    """
    if not isinstance(error, json.JSONDecodeError):
        return str(error)
    if error.doc.lstrip().startswith("<"):
        return Message("the text is HTML or XML; download the file itself")
    said = error.msg.split()
    what = next((mend for word, mend in _FAULTS.items() if word in said), error.msg)
    if error.pos >= len(error.doc.rstrip()):
        what = "the text ends before its last bracket is closed"
    return Message("line {}, column {}: {}", error.lineno, error.colno, what)


_FAULTS: Mapping[str, str] = {
    "value": "expected a value",
    "','": "expected a comma or a closing bracket",
    "':'": "expected a colon after the key",
    "property": "expected a key in double quotes; JSON has no comments, single quotes or trailing commas",
    "trailing": "JSON has no trailing commas",
    "Extra": "text follows the end of the JSON value",
    "Unterminated": "a quotation mark is never closed",
}
"""What to mend, by a word of what Python's json says (json/decoder.py, json/scanner.py)."""


LIMITS = "time_step_limit"
"""The key whose upper bound transformers saved as Infinity (`Mamba2Config.time_step_limit`)."""


def with_limits(found: Mapping[str, object]) -> Mapping[str, object]:
    """The same, with an infinite upper bound of `time_step_limit` as newer releases of transformers spell it.

    transformers, configuration_utils.py, _FLOAT_TAG_KEY: JSON has no infinity.

    >>> with_limits({"time_step_limit": [0.0, float("inf")]})
    {'time_step_limit': [0.0, {'__float__': 'Infinity'}]}
    """
    limits = found.get(LIMITS)
    if isinstance(limits, (list, tuple)) and len(limits) == 2 and limits[1] == float("inf"):
        return {**found, LIMITS: [limits[0], {"__float__": "Infinity"}]}
    return found


def unmarked(text: str) -> str:
    """A text without its byte order mark, with lines that end as Unix has them.

    Raises ValueError for one in UTF-16, whose letters are not read.
    """
    if text.startswith(_FOREIGN) or "\0" in text[:4]:
        raise ValueError("the text is in UTF-16, not in UTF-8: save it again as UTF-8")
    return text.removeprefix(MARK).replace("\r\n", "\n")


def deepest(brackets: Iterable[str]) -> None:
    """Raise ValueError where brackets are too deep in each other: parsers recurse.

    Inside a browser a deep enough text would end Python itself.
    """
    if max(accumulate(1 if each in "[{" else -1 for each in brackets), default=0) > NESTING:
        raise ValueError(Message("nested more than {} levels deep", NESTING))


class _Repeated(dict[str, object]):
    """An object that has a key more than once."""

    def __init__(self, found: dict[str, object], pairs: list[tuple[str, object]]) -> None:
        super().__init__(found)
        self.pairs = pairs

    def said(self, path: str) -> Iterator[str]:
        """Keys that are there again with the same value. Raises ConfigError for one with another value."""
        first: dict[str, object] = {}
        for key, value in self.pairs:
            here = f"{path}.{key}" if path else key
            if key in first and first[key] != value:
                raise ConfigError.at(
                    here, "appears twice with different values: {!r:.40} and {!r:.40}", first[key], value
                )
            if key in first:
                yield Message("{} appears twice with the same value", here)
            first[key] = value


def _repeated(value: object, path: str = "") -> Iterator[tuple[str, _Repeated]]:
    """Objects with a key more than once, by their path."""
    if isinstance(value, _Repeated):
        yield path, value
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        if isinstance(each, (dict, list)):
            yield from _repeated(each, f"{path}.{key}" if path else str(key))


def _whole_letters(found: object) -> None:
    """Raise ValueError for half a letter, which can be neither shown nor written."""
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("a \\u escape is half of a surrogate pair") from None
