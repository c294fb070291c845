"""Reading JSON that somebody else has written."""

from __future__ import annotations

import json
import re
from itertools import accumulate

DEEPEST = 64
"""Brackets inside brackets. The parser recurses, and inside a browser a deep enough text would end Python itself."""
_BRACKET = re.compile(r"[\[\]{}]")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def parse_json(text: str) -> object:
    """The value of a JSON text.

    >>> parse_json('{"a": [1, 2]}')
    {'a': [1, 2]}

    Raises ValueError for what is not JSON or is nested too deeply.
    """
    brackets = _BRACKET.findall(_STRING.sub("", text))
    if max(accumulate(1 if each in "[{" else -1 for each in brackets), default=0) > DEEPEST:
        raise ValueError(f"nested more than {DEEPEST} levels deep")
    return json.loads(text)
