"""Names of the layers that an adapter is at, from lists, texts with commas, paths and regular expressions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from memcore.errors import UnsupportedError
from memcore.formats.shell import OUTSIDE

_LINEAR = ("all-linear", "all")


def targets(found: object) -> object:
    r"""Names of the layers that an adapter is at: from a list, a text with commas, paths, or a regular expression.

    A pattern such as `model.layers.[\d]+.(mlp|self_attn).(up|down)_proj` names layers by the ends of their paths.

    >>> targets("model.layers.[\\d]+.(mlp|self_attn).(up|q)_proj")
    ['up_proj', 'q_proj']
    >>> targets(["self_attn.q_proj", "v_proj"])
    ['q_proj', 'v_proj']
    """
    if isinstance(found, str) and OUTSIDE.fullmatch(found):
        return found
    if isinstance(found, str):
        if found in _LINEAR:
            return "all-linear"
        pattern = re.search(r"[(|\[*\\^$]", found) is not None
        listed: Sequence[object] = (
            _ends(found) if pattern else [each.strip().rpartition(".")[2] for each in found.split(",")]
        )
    elif isinstance(found, list):
        parts = [part.strip() if isinstance(part, str) else part for each in found for part in _names_in(each)]
        listed = [
            end for each in parts for end in ([each] if each in _LINEAR or not isinstance(each, str) else _ends(each))
        ]
    else:
        return found
    if any(each in _LINEAR for each in listed):
        return "all-linear"
    return list(dict.fromkeys(each for each in listed if each != ""))


def _names_in(found: object) -> Sequence[object]:
    """Return an item of a list, which on a command line may end with a comma or hold several names."""
    plain = isinstance(found, str) and re.fullmatch(r"[\w.\s,-]+", found)
    return [each for each in found.split(",") if each.strip()] if isinstance(found, str) and plain else [found]


_CHOICE = re.compile(r"\(\??:?([^()]*)\)")


_BEFORE = r"(?:(?:layers|blocks|\bh)\\?\.|\.\*\\\.)"
_SOME_LAYERS = re.compile(rf"{_BEFORE}(?:\(\??:?)?\[?\d(?!-9\])")
"""A number, or a choice of numbers, where the number of a layer stands; `[0-9]+` is all of them."""
_NUMBERED = re.compile(rf"{_BEFORE}(\(\??:?\d+(?:\|\d+)*\)|\[\d-\d\]|\[\d+\]|\d+)(?=\\?\.(?![*+?{{]))")
"""The same where nothing but these numbers fits."""


def placed(found: object) -> tuple[object, list[int] | None]:
    r"""Return the names of the layers that an adapter is at, and the numbers of the layers of the decoder, if not all.

    >>> placed(r".*\.layers\.(3|7)\.self_attn\.(q|v)_proj")
    (['q_proj', 'v_proj'], [3, 7])
    >>> placed(["model.layers.1.mlp.up_proj", "model.layers.0.mlp.up_proj"])
    (['up_proj'], [0, 1])
    """
    every = found if isinstance(found, list) else [found]
    listed = [each for each in every if isinstance(each, str) and len(_NUMBERED.findall(each)) == 1]
    if not listed or len(listed) < len(every):
        return targets(found), None
    layers: dict[str, set[int]] = {}
    for each in listed:
        numbers = _numbers(_NUMBERED.findall(each)[0])
        for name in _ends(_NUMBERED.sub("layers", each)):
            layers.setdefault(name, set()).update(numbers)
    several = list(layers.values())
    if not all(each == several[0] for each in several):
        raise UnsupportedError.of_value(
            "target_modules", ", ".join(listed), "adapters on different layers by module are not supported yet"
        )
    return list(layers), sorted(several[0])


def _numbers(found: str) -> Sequence[int]:
    """Return the numbers that a choice in a pattern stands for.

    >>> _numbers("(?:3|11)"), _numbers("[1-3]"), _numbers("[02]")
    ([3, 11], range(1, 4), [0, 2])
    """
    if found.startswith("[") and "-" in found:
        return range(int(found[1]), int(found[3]) + 1)
    return [int(each) for each in re.findall(r"\d" if found.startswith("[") else r"\d+", found)]


def ranks(found: Mapping[str, Any]) -> str:
    r"""Return ranks by the ends of the names of modules, as text, from PEFT's patterns.

    >>> ranks({r"^model\.layers\.\d+\.self_attn.(q|v)_proj$": 4, "layers.0.mlp.up_proj": 8})
    'self_attn.q_proj=4,self_attn.v_proj=4,layers.0.mlp.up_proj=8'
    """
    return ",".join(f"{end}={rank}" for pattern, rank in found.items() for end in _written_out(pattern))


_ANY_LAYER = re.compile(r"^.*(?:\[0-9\]|\[\\d\]|\\d|\*)[+*]?\\?\.")


def _written_out(pattern: str) -> list[str]:
    """Return the names that a pattern stands for, with every choice in brackets written out."""
    plain = _ANY_LAYER.sub("", pattern.strip("^$")).replace("\\.", ".")
    found = [""]
    for piece in re.findall(r"\([^()]*\)|[^()]+", plain):
        choices = _CHOICE.sub(r"\1", piece).split("|") if piece.startswith("(") else [piece]
        found = [before + choice for before in found for choice in choices]
    if not all(re.fullmatch(r"[\w.-]+", each) for each in found):
        raise UnsupportedError.of_value("rank_pattern", pattern, "this pattern is not supported; name the modules")
    return found


def _ends(pattern: str) -> list[str]:
    """Return the last names of the paths that a pattern matches.

    Raises UnsupportedError for a pattern whose end is not a choice of names, or that is of some layers alone.
    """
    found: list[str] = []
    if _SOME_LAYERS.search(pattern):
        raise UnsupportedError.of_value(
            "target_modules", pattern, "adapters on only some layers are not supported yet; name modules"
        )
    for each in _split(pattern.strip()):
        inner = each[1:-1] if each.startswith("(") and each.endswith(")") and _split(each[1:-1])[1:] else None
        if inner is not None and "." in inner:
            found += _ends(inner)
            continue
        names = [""]
        for piece in re.findall(r"\([^()]*\)|\w+", _last(each)):
            choices = _CHOICE.sub(r"\1", piece).split("|") if piece.startswith("(") else [piece]
            names = [before + choice for before in names for choice in choices]
        if not all(re.fullmatch(r"\w+", name) for name in names):
            raise UnsupportedError.of_value(
                "target_modules", pattern, "this pattern is not supported; name the layers in a list"
            )
        found += names
    return found


def _last(pattern: str) -> str:
    """Return the end of a pattern that is letters and choices in brackets."""
    end = len(pattern.rstrip("$"))
    at = end
    while at > 0:
        if pattern[at - 1] == ")" and "(" in pattern[:at]:
            at = pattern.rindex("(", 0, at)
        elif pattern[at - 1].isalnum() or pattern[at - 1] == "_":
            at -= 1
        else:
            break
    return pattern[at:end]


def _split(pattern: str) -> list[str]:
    """Alternatives of a pattern that are not in brackets."""
    parts, depth, start = [], 0, 0
    for at, sign in enumerate(pattern):
        depth += (sign in "([") - (sign in ")]")
        if sign == "|" and depth == 0:
            parts.append(pattern[start:at])
            start = at + 1
    return [*parts, pattern[start:]]
