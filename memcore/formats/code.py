"""Python that is written: calls with their arguments on a line each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_INDENT = "    "


class Code(str):
    """Words that stand as they are, and not as a text."""

    __slots__ = ()


def as_call(name: str, arguments: Mapping[str, Any], deep: int = 0) -> Code:
    """Return a call that begins a line; `deep` is how far that line is indented, in steps.

    >>> print(as_call("f", {"a": 1, "b": Code("c"), "d": {"e": [None]}}))
    f(
        a=1,
        b=c,
        d={'e': [None]},
    )
    """
    if not arguments:
        return Code(f"{name}()")
    inner = _INDENT * (deep + 1)
    lines = [f"{inner}{key}={value if isinstance(value, Code) else repr(value)}," for key, value in arguments.items()]
    return Code("\n".join([f"{name}(", *lines, f"{_INDENT * deep})"]))
