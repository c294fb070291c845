"""Mistakes in structures of JSON: keys that are missing, null, of a wrong type, huge, renamed or in a wrong place."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from fuzzing.values import wrong

Place = tuple[Any, Any]
"""A dictionary or a list, and a key of it."""


def damaged(tree: Any, rng: Random, most: int = 3) -> Any:
    """Return a copy with one to `most` mistakes."""
    found = copy.deepcopy(tree)
    for _ in range(rng.randrange(1, most + 1)):
        places = list(_places(found))
        if not places:
            break
        holder, key = rng.choice(places)
        rng.choice(MISTAKES)(holder, key, rng)
    return found


def _places(tree: Any) -> Iterator[Place]:
    """Everywhere where something can be changed; of a long list the first few."""
    keys: Sequence[Any] = list(tree) if isinstance(tree, dict) else range(min(len(tree), 8)) if _listed(tree) else ()
    for key in keys:
        yield tree, key
        yield from _places(tree[key])


def _listed(tree: Any) -> bool:
    return isinstance(tree, list)


def _leave_out(holder: Any, key: Any, rng: Random) -> None:
    del holder[key]


def _null(holder: Any, key: Any, rng: Random) -> None:
    holder[key] = None


def _replace(holder: Any, key: Any, rng: Random) -> None:
    holder[key] = copy.deepcopy(wrong(rng))


def _scale(holder: Any, key: Any, rng: Random) -> None:
    """Another number: a little or a lot."""
    value = holder[key]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > sys.float_info.max:
        _replace(holder, key, rng)
    else:
        holder[key] = rng.choice([value + 1, value - 1, value * 2, -value, value * 1000, 0, value + 0.5, str(value)])


def _huge(holder: Any, key: Any, rng: Random) -> None:
    holder[key] = rng.choice(
        [10 ** rng.randrange(5, 30), 2**53, [1] * 10_000, "x" * 10_000, {str(n): n for n in range(500)}]
    )


def _rename(holder: Any, key: Any, rng: Random) -> None:
    if isinstance(holder, dict):
        name = str(key)
        holder[rng.choice([name.upper(), name.replace("_", "-"), name[:-1], f"{name}s", "", "model"])] = holder.pop(key)


def _wrap(holder: Any, key: Any, rng: Random) -> None:
    """In a list or an object, once or very often."""
    value = holder[key]
    for _ in range(rng.choice([1, 1, 70, 300])):
        value = [value] if rng.random() < 0.5 else {"a": value}
    holder[key] = value


def _swap(holder: Any, key: Any, rng: Random) -> None:
    other = rng.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    holder[key], holder[other] = holder[other], holder[key]


MISTAKES: Sequence[Callable[[Any, Any, Random], None]] = (
    _leave_out, _leave_out, _null, _null, _replace, _replace, _scale, _scale, _scale, _huge, _rename, _wrap, _swap,
)  # fmt: skip
"""What can be wrong with one key; frequent mistakes several times."""
