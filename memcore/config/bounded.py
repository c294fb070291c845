"""What a config may hold at all, whatever its keys: looked at before anybody reads it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import isfinite

from memcore.config.kinds import encodable
from memcore.errors import ConfigError, Problem
from memcore.limits import CONFIG_LENGTH, INTEGER_DIGITS, NESTING, VALUES
from memcore.messages import Message
from memcore.units import approximate


def check(data: object) -> None:
    """Raise ConfigError, naming where, for what is nested too deeply, too much, too long, or has too many digits."""
    problems = list(_beyond(data))
    if problems:
        raise ConfigError(problems)


_ENDLESS = tuple(f"model.{above}time_step_limit.1" for above in ("", "text_config.", "llm_config."))
"""Upper bounds that transformers saves as Infinity (`Mamba2Config.time_step_limit`); they decide no size."""


def _beyond(data: object) -> Iterator[Problem]:
    """Without recursion, so that depth itself ends nothing."""
    left: list[tuple[str, object, int]] = [("", data, 0)]
    for _ in range(VALUES):
        if not left:
            return
        path, value, depth = left.pop()
        if isinstance(value, (Mapping, list, tuple)):
            yield from _halved(path, "".join(map(str, value)) if isinstance(value, Mapping) else "")
            if depth >= NESTING:
                yield Problem(path, Message("nested more than {} levels deep", NESTING))
            else:
                left += ((f"{path}.{key}" if path else key, each, depth + 1) for key, each in _items(value))
        elif isinstance(value, int) and abs(value) >= 10**INTEGER_DIGITS:
            yield Problem(
                path,
                Message("expected a number of at most {} digits, found {}", INTEGER_DIGITS, approximate(value)),
            )
        elif isinstance(value, float) and not isfinite(value) and path not in _ENDLESS:
            yield Problem(path, Message("expected a finite number, found {}", value))
        elif isinstance(value, str):
            yield from _text(path, value)
    if left:
        yield Problem("", Message("more than {:,} values", VALUES))


def _text(path: str, text: str) -> Iterator[Problem]:
    """Yield what is wrong with a text."""
    if len(text) > CONFIG_LENGTH:
        yield Problem(path, Message("longer than {:,} characters", CONFIG_LENGTH))
    else:
        yield from _halved(path, text)


def _halved(path: str, text: str) -> Iterator[Problem]:
    """Yield what is wrong with a text that no file can carry."""
    try:
        encodable(text)
    except ValueError as error:
        yield Problem(path, error.args[0])


def _items(value: Mapping[object, object] | list[object] | tuple[object, ...]) -> Iterable[tuple[str, object]]:
    """Return what is in a section or a list, each by its key or its number."""
    if isinstance(value, Mapping):
        return ((str(key)[:80], each) for key, each in value.items())
    return ((str(number), each) for number, each in enumerate(value))
