"""The part of YAML that configs of training tools are written in.

Block mappings and lists, flow collections, quoted and plain scalars, comments, literal blocks. Anchors, tags and
several documents are refused, with the line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from memcore.errors import ConfigError, Problem

_KEY = re.compile(r"""((?:"[^"]*"|'[^']*'|[^\s#"'\[\]{},&*!|>%@`][^#]*?))\s*:(?:\s+|$)""")
_NUMBER = re.compile(r"[-+]?(\d[\d_]*)(\.\d*)?([eE][-+]?\d+)?$|[-+]?\.\d+([eE][-+]?\d+)?$")
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False, "yes": True, "no": False, "on": True,
          "off": False}  # fmt: skip
_BLOCK = re.compile(r"[|>][-+0-9]*$")


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    indent: int
    text: str


def read_yaml(text: str) -> Any:
    r"""The content of a document.

    >>> read_yaml("a: 1\nb:\n  - x\n  - y: [2, 3e8]\n")
    {'a': 1, 'b': ['x', {'y': [2, 300000000.0]}]}

    Raises ConfigError with the line of what is not understood.
    """
    lines = list(_lines(text))
    if not lines:
        return None
    value, rest = _block(lines, 0, lines[0].indent)
    if rest < len(lines):
        raise _unread(lines[rest], "is indented unlike its neighbours")
    return value


def _lines(text: str) -> list[_Line]:
    found: list[_Line] = []
    block: int | None = None
    for number, raw in enumerate(text.splitlines(), 1):
        stripped = raw.strip()
        indent = len(raw) - len(raw.lstrip(" "))
        if block is not None and (not stripped or indent > block):
            continue
        block = None
        plain = _uncommented(raw).rstrip()
        if not plain.strip() or plain.strip() == "---":
            continue
        if "\t" in raw[: indent + 1]:
            raise _unread(_Line(number, indent, stripped), "is indented with a tab")
        line = _Line(number, indent, plain.strip())
        if _BLOCK.search(line.text.rpartition(":")[2].strip() or "x"):
            block = indent
            line = _Line(number, indent, line.text.rpartition(":")[0] + ": ''")
        found.append(line)
    return found


def _uncommented(raw: str) -> str:
    """A line without its comment: a hash at the start or behind a space, outside quotes."""
    quote = ""
    for at, letter in enumerate(raw):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'" and (at == 0 or raw[at - 1] in " :[{,-"):
            quote = letter
        elif letter == "#" and (at == 0 or raw[at - 1] in " \t"):
            return raw[:at]
    return raw


def _unread(line: _Line, why: str) -> ConfigError:
    return ConfigError([Problem(f"line {line.number}", f"found {line.text[:60]!r}, which {why}")])


def _block(lines: list[_Line], at: int, indent: int) -> tuple[Any, int]:
    """A mapping, a list or a scalar whose lines begin at `indent`, and where it ends."""
    if lines[at].text.startswith("- ") or lines[at].text == "-":
        return _list(lines, at, indent)
    if _KEY.match(lines[at].text):
        return _mapping(lines, at, indent)
    return _scalar(lines[at], lines[at].text), at + 1


def _list(lines: list[_Line], at: int, indent: int) -> tuple[list[Any], int]:
    found = []
    while at < len(lines) and lines[at].indent == indent and (lines[at].text + " ").startswith("- "):
        inner = lines[at].text[1:].strip()
        if not inner:
            value, at = _below(lines, at, indent + 1)
        elif _KEY.match(inner) and inner[0] not in "[{\"'":
            deeper = indent + len(lines[at].text) - len(inner)
            changed = [*lines[:at], _Line(lines[at].number, deeper, inner), *lines[at + 1 :]]
            value, at = _mapping(changed, at, deeper)
        else:
            value, at = _scalar(lines[at], inner), at + 1
        found.append(value)
    return found, at


def _mapping(lines: list[_Line], at: int, indent: int) -> tuple[dict[str, Any], int]:
    found: dict[str, Any] = {}
    while at < len(lines) and lines[at].indent == indent:
        line = lines[at]
        match = _KEY.match(line.text)
        if match is None:
            raise _unread(line, "is not `key: value`")
        key, rest = match[1].strip("\"'"), line.text[match.end() :].strip()
        value, at = (_scalar(line, rest), at + 1) if rest else _below(lines, at, indent)
        if key in found and found[key] != value:
            raise _unread(line, "is there twice, with other values")
        found[key] = value
    return found, at


def _below(lines: list[_Line], at: int, indent: int) -> tuple[Any, int]:
    """What stands below a key or a dash; lists may stand as far left as their key."""
    if at + 1 < len(lines):
        following = lines[at + 1]
        if following.indent > indent or (following.indent == indent and (following.text + " ").startswith("- ")):
            return _block(lines, at + 1, following.indent)
    return None, at + 1


def _scalar(line: _Line, text: str) -> Any:
    if text[0] in "&*!" or text.startswith("? "):
        raise _unread(line, "uses anchors, tags or complex keys, which are not read")
    if text[0] in "[{":
        value, rest = _flow(line, text)
        if rest.strip():
            raise _unread(line, f"goes on after its end: {rest.strip()[:20]!r}")
        return value
    return _plain(text)


def _plain(text: str) -> Any:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _NUMBER.match(text):
        bare = text.replace("_", "")
        return int(bare) if bare.lstrip("+-").isdigit() else float(bare)
    return text


def _flow(line: _Line, text: str) -> tuple[Any, str]:
    """A flow collection at the start of a text, and what follows it."""
    closing = {"[": "]", "{": "}"}[text[0]]
    items: list[Any] = []
    pairs: dict[str, Any] = {}
    rest = text[1:].lstrip()
    while rest and rest[0] != closing:
        key = None
        if closing == "}":
            key, colon, rest = rest.partition(":")
            if not colon:
                raise _unread(line, "is not `{key: value}`")
            rest = rest.lstrip()
        if rest[:1] in ("[", "{"):
            value, rest = _flow(line, rest)
        else:
            match = re.match(r"""\s*("[^"]*"|'[^']*'|[^,\[\]{}]*)""", rest)
            value, rest = _plain((match[1] if match else "").strip()), rest[match.end() if match else 0 :]
        if key is None:
            items.append(value)
        else:
            pairs[key.strip().strip("\"'")] = value
        rest = rest.lstrip()
        if rest[:1] == ",":
            rest = rest[1:].lstrip()
        elif rest[:1] != closing:
            break
    if not rest:
        raise _unread(line, f"lacks its {closing}")
    if rest[0] != closing:
        raise _unread(line, f"has {rest[0]!r} where a comma or {closing} belongs")
    return (items if closing == "]" else pairs), rest[1:]
