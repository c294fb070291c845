"""Keys of ours for what several keys of a file mean together, where a table of the tool's words alone cannot say it.

They begin with `*`, and the tables name them; what is not understood keeps its name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from memcore.formats.shell import variable_given
from memcore.formats.values import number

GPUS = "*gpus"
"""The key of the processes that a launcher starts."""
IN_BACKWARD = "*in_backward"
"""The key of an optimizer that steps as gradients arrive."""
PREPARED = "*prepared"
"""The key of a script in which PEFT casts to fp32 what is not quantized."""
FROZEN = "*frozen"
"""The key of the storage of frozen weights, where a script's class says it."""
AUTOCAST = "*autocast"
"""The key of a loop that also runs its 16-bit weights under autocast."""
FRAMEWORK = "*framework"
"""The key of the training loop that a file is of."""
ADAPTED = "*adapted"
"""The key of an adapter that a script makes by another method than LoRA; its settings are below it."""
PER_NODE = "*per_node"
"""The key of those on each of several nodes."""
Normalized = tuple[Mapping[str, Any], tuple[str, ...]]
"""What a file says with such keys in the place of its own, and notes on that."""
ENGINE, VERSION, RESHARD, OFFLOAD, CHECKPOINTS = "*engine", "*version", "*reshard", "*offload", "*checkpoints"
STAGE, OPTIMIZER, PARAMETERS, RANKS, MODEL = "*stage", "*optimizer", "*parameters", "*ranks", "*"
_INNER = re.compile(r"\$\{([^${}]{1,200})\}")
"""An interpolation of OmegaConf's, the innermost of several."""
_KEY = re.compile(r"\.*[\w-]+(?:\.[\w-]+)*")
_TIMES = 8
"""Interpolations inside each other, and keys that name keys that name others."""
_LONGEST = 2**12


def interpolated(found: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a file with those values that other keys give, or variables of the environment, as OmegaConf does.

    What names no key of the file stays as it is.

    >>> interpolated({"a.b": 2, "a.c": "${.b}", "d": "x/${a.c}", "e": "${oc.env:NOWHERE,7}", "f": "${g}"})
    {'a.b': 2, 'a.c': 2, 'd': 'x/2', 'e': 7, 'f': '${g}'}
    """
    return {name: _filled(found, name, value) for name, value in found.items()}


def filled(found: Mapping[str, Any], value: object) -> object:
    """A value that another key of the file gives.

    >>> filled({"a.b": 2}, "${a.b}")
    2
    """
    return _filled(found, "", value)


def _filled(found: Mapping[str, Any], name: str, value: Any, around: tuple[str, ...] = ()) -> Any:
    if isinstance(value, list):
        return [_filled(found, name, each, around) for each in value]
    for _ in range(_TIMES if len(around) < _TIMES else 0):
        inner = _INNER.search(value) if isinstance(value, str) and len(value) < _LONGEST else None
        given = None if inner is None else _given(found, name, inner[1].strip(), around)
        if inner is None or given is None:
            break
        value = given if inner[0] == value else value[: inner.start()] + str(given) + value[inner.end() :]
    return value


def _given(found: Mapping[str, Any], name: str, said: str, around: tuple[str, ...]) -> Any:
    """What an interpolation stands for; None for a key that is not there or gives itself, and for other functions."""
    resolver, colon, rest = said.partition(":")
    if colon and resolver in ("oc.env", "env"):
        variable, comma, default = (each.strip() for each in rest.partition(","))
        given = variable_given(variable)
        return number(given) if given is not None else number(default.strip("'\"")) if comma else f"${variable}"
    if colon or not _KEY.fullmatch(said):
        return None
    up = len(said) - len(said.lstrip("."))
    key = ".".join([*name.split(".")[:-up], said[up:]]) if up else said
    return _filled(found, key, found[key], (*around, key)) if key in found and key not in around else None
