"""What of a model a script trains where it freezes parts of it: towers, projectors, or all but a few modules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from memcore.errors import MemcoreError
from memcore.formats.python import FREEZES, Change
from memcore.formats.tracked import CALLS, EACH, MODEL
from memcore.networks.catalog import find_model
from memcore.networks.network import LANGUAGE_MODEL, SEEING
from memcore.tools.towers import PROJECTOR, TOWER, TRAINABLE, sees, stands_within

_PARTS: Mapping[str, re.Pattern[str]] = {
    TOWER[0]: re.compile(r"^(?:vision|visual|image|video|audio)(?:_\w+)?$|^vit$"),
    PROJECTOR[0]: re.compile(r"projector|connector|merger|aligner"),
}
"""What towers and projectors are called in transformers' models (modeling_*.py)."""
_LISTED = ("parameters", "named_parameters")
_ATTRIBUTE = FREEZES.rstrip("_")


def trained_of(changes: Iterable[Change], base: object) -> dict[str, Any] | None:
    """Return the key for the parts of a model that train; empty where all do, None where that is not known.

    Args:
        changes: What the script does, in its order.
        base: The name of the model.
    """
    whole, opened, frozen = True, list[str](), set[str]()
    for part, trains in _switches(changes):
        if part is None or trains is None:
            return None
        if not part:
            whole, opened, frozen = trains, [], set()
        elif not whole and trains:
            opened.append(part[-1])
        elif whole:
            kind = next((kind for kind, names in _PARTS.items() if names.search(part[-1])), None)
            if kind is None:
                return None
            kinds = {kind, *(PROJECTOR if kind in TOWER and stands_within(base, part[-1]) else ())}
            frozen = frozen - kinds if trains else frozen | kinds
    if not whole:
        return {TRAINABLE: opened} if opened and _has(base, opened) else None
    if not frozen:
        return {}
    kept = [part for part in reversed(SEEING) if part not in frozen]
    return {TRAINABLE: [LANGUAGE_MODEL, *kept]} if sees(base) else None


def _switches(changes: Iterable[Change]) -> Iterator[tuple[tuple[str, ...] | None, bool | None]]:
    """Yield each part whose gradients are switched, None for some of its layers, and whether they are on afterwards."""
    for change in changes:
        name = change.path[-1] if change.path else ""
        if change.role != MODEL or name.rstrip("_") != _ATTRIBUTE:
            continue
        value = change.arguments.get(_ATTRIBUTE, True if change.first is None else change.first)
        path = change.path[:-1]
        if change.how != CALLS or path[-1:] == (EACH,):
            path = path[:-2] if path[-2:-1] and path[-2] in _LISTED else (EACH,)
        yield None if EACH in path else path, value if isinstance(value, bool) else None


def _has(base: object, parts: Iterable[str]) -> bool:
    """Whether a model of the catalog has parameters below modules of these names."""
    try:
        tensors = find_model(base).tensors if isinstance(base, str) else ()
    except MemcoreError:
        return False
    return {*parts} <= {part for weight, _, _ in tensors for part in weight.name.split(".")}
