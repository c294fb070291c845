"""Keys of the config format that this version understands but does not model: they are refused, never ignored."""

from __future__ import annotations

from collections.abc import Mapping

_KEYS: Mapping[str, str] = {
    "engine": "contiguous_memory_optimization ",
}

ENGINES: tuple[str, ...] = ()
"""Engines of the config format that are not modelled yet."""
PLANNED = frozenset(f"{path}.{key}".lstrip(".") for path, keys in _KEYS.items() for key in keys.split())
"""Their paths."""
