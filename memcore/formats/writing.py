"""Keys and values as text that the tools' own parsers read: TOML, YAML, JSON and command lines."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
"""Keys that YAML takes for something else."""
_PRINTED = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
"""Letters that a text cannot hold as they are: control characters, and halves of a pair."""


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted keys as nested ones.

    >>> nested({"a.b": 1, "c": 2})
    {'a': {'b': 1}, 'c': 2}
    """
    content: dict[str, Any] = {}
    for path, value in flat.items():
        *sections, last = path.split(".")
        here = content
        for section in sections:
            here = here.setdefault(section, {})
        here[last] = value
    return content


def as_json(content: Mapping[str, Any]) -> str:
    """Return a JSON object."""
    return json.dumps(content, indent=2) + "\n"


def as_yaml(content: Mapping[str, Any], indent: str = "") -> str:
    """Block mappings of scalars and flow lists, which read the same in YAML 1.1 and 1.2.

    >>> print(as_yaml({"a": {"b": 1e-5, "c": ["x"]}, "on": None}), end="")
    a:
      b: 1.0e-05
      c: ["x"]
    "on": null
    """
    lines = [] if content else ["{}\n"]
    for key, value in content.items():
        name = key if _PLAIN.fullmatch(key) and key.lower() not in _WORDS else _string(key)
        if isinstance(value, Mapping) and value:
            lines.append(f"{indent}{name}:\n{as_yaml(value, indent + '  ')}")
        else:
            lines.append(f"{indent}{name}: {_flow(value)}\n")
    return "".join(lines)


def as_toml(content: Mapping[str, Any]) -> str:
    """Tables with their keys; tables in lists stand inline. What is null is left out, as TOML has no word for it.

    >>> print(as_toml({"a": 1, "b": {"c": [True], "d": {"e": 2.0}}}), end="")
    a = 1
    <BLANKLINE>
    [b]
    c = [true]
    <BLANKLINE>
    [b.d]
    e = 2.0
    """
    return "\n\n".join(_tables(content, ())) + "\n"


def as_command(program: str, arguments: Mapping[str, Any]) -> str:
    """A command line with an argument on each line; a list is several words, and a bare flag is one that is true."""
    return " \\\n  ".join([program, *(argument(name, value) for name, value in arguments.items())]) + "\n"


def as_overrides(program: str, keys: Mapping[str, Any]) -> str:
    r"""Return a command line with its flags and then a key and its value on each line, as Python writes it.

    >>> print(as_overrides("nemo llm pretrain", {"a.b": None, "c": ["x", 1], "-y": True}), end="")
    nemo llm pretrain \
      -y \
      a.b=None \
      c='["x", 1]'
    """
    flags = [argument(name, value) for name, value in keys.items() if name.startswith("-")]
    words = [*flags, *(f"{n}={shlex.quote(_literal(v))}" for n, v in keys.items() if not n.startswith("-"))]
    return " \\\n  ".join([program, *words]) + "\n"


def _literal(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(json.dumps(each) if isinstance(each, str) else _literal(each) for each in value)}]"
    return str(value)


def argument(name: str, value: Any) -> str:
    """Return one argument of a command line, or one key of a file, whose name begins with no dash."""
    if not name.startswith("-"):
        return f"{name}: {_flow(value)}"
    if value is True:
        return name
    values = value if isinstance(value, (list, tuple)) else [value]
    return " ".join([name, *(shlex.quote(str(each)) for each in values)])


def _tables(content: Mapping[str, Any], above: Sequence[str]) -> Iterator[str]:
    inner = {key: value for key, value in content.items() if isinstance(value, Mapping)}
    plain = {key: value for key, value in content.items() if key not in inner and value is not None}
    own = [f"{_key(key)} = {_inline(value)}" for key, value in plain.items()]
    if above and (own or not inner):
        own.insert(0, f"[{'.'.join(map(_key, above))}]")
    if own:
        yield "\n".join(own)
    for key, value in inner.items():
        yield from _tables(value, (*above, key))


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _string(key)


def _inline(value: Any) -> str:
    """Return a value of TOML."""
    if isinstance(value, Mapping):
        pairs = (f"{_key(key)} = {_inline(each)}" for key, each in value.items() if each is not None)
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_inline(each) for each in value)}]"
    return _scalar(value, infinite="inf", unknown="nan")


def _flow(value: Any) -> str:
    """Return a value of YAML, on one line."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_string(key)}: {_flow(each)}' for key, each in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_flow, value))}]"
    return _scalar(value, infinite=".inf", unknown=".nan")


def _scalar(value: Any, infinite: str, unknown: str) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float(value, infinite, unknown)
    return str(value) if isinstance(value, int) else _string(str(value))


def _float(value: float, infinite: str, unknown: str) -> str:
    """Return a number that is read as one everywhere: YAML 1.1 takes `1e-05` for a word, and `1.0e-05` for a number."""
    if math.isnan(value):
        return unknown
    if math.isinf(value):
        return infinite if value > 0 else f"-{infinite}"
    digits, exponent, power = repr(value).partition("e")
    return f"{digits if '.' in digits else f'{digits}.0'}{exponent}{power}"


def _string(text: str) -> str:
    """Return a text in double quotes, as JSON, TOML and YAML read it alike; half a pair becomes a question mark."""
    return _PRINTED.sub(_escaped, json.dumps(text, ensure_ascii=False))


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return "?" if 0xD800 <= code < 0xE000 else f"\\u{code:04x}"
