"""Sections of settings from and to plain dictionaries, and changes of single settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import Field, fields, is_dataclass, replace
from functools import lru_cache
from operator import attrgetter
from typing import Any, TypeVar

from memcore.config.kinds import Choices
from memcore.config.schema import Setting
from memcore.errors import LISTED, ConfigError, Problem, nearest

Section = TypeVar("Section")


def from_plain(cls: type[Section], data: object) -> Section:
    """A section from what a JSON file holds.

    Raises ConfigError with every problem found: unknown keys, wrong types, values that are not allowed.
    """
    problems: list[Problem] = []
    found: Section | None = None
    if isinstance(data, Mapping):
        found = _section(cls, data, "", problems)
    else:
        problems.append(Problem("", f"expected a JSON object, found {_kind(data)}"))
    if found is None or problems:
        raise ConfigError(problems)
    return found


def _section(cls: type[Section], data: Mapping[str, object], path: str, problems: list[Problem]) -> Section | None:
    """A section from its part of the file, or None where that lacks what is required."""
    known, names, required = _keys(cls)  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for key, value in data.items():
        here = f"{path}.{key}" if path else str(key)
        if key not in names:
            problems.append(_unknown(here, str(key), names if len(problems) < LISTED else ()))
        elif names[key] in values:
            problems.append(Problem(here, f"given twice: also as {names[key]!r}"))
        elif value is not None:
            _value(known[names[key]], value, here, values, problems)
    missing = [name for name in required if name not in values]
    problems += [
        Problem(f"{path}.{name}" if path else name, "is required") for name in missing if data.get(name) is None
    ]
    return None if missing else cls(**values)


@lru_cache(maxsize=64)
def _keys(cls: Any) -> tuple[Mapping[str, Field[Any]], Mapping[str, str], Sequence[str]]:
    """The fields of a section by name, their names by every key that stands for one, and which must be there."""
    known: dict[str, Field[Any]] = {each.name: each for each in fields(cls)}
    names = {alias: name for name, each in known.items() for alias in (name, *_aliases(each))}
    return known, names, [name for name, each in known.items() if _is_required(each)]


def _unknown(path: str, key: str, names: Iterable[str]) -> Problem:
    return Problem(path, "unknown key", nearest(key, names))


def _aliases(each: Field[Any]) -> tuple[str, ...]:
    found: Setting | None = each.metadata.get("setting")
    return found.aliases if found else ()


def _is_required(each: Field[Any]) -> bool:
    found: Setting | None = each.metadata.get("setting")
    return found is not None and found.required


def _value(each: Field[Any], value: object, path: str, values: dict[str, Any], problems: list[Problem]) -> None:
    found: Setting | None = each.metadata.get("setting")
    if found is not None:
        try:
            values[each.name] = found.kind.check(value)
        except ValueError as error:
            problems.append(problem_of(path, error))
        return
    shorthand = each.metadata["shorthand"]
    if shorthand and isinstance(value, str):
        value = {shorthand: value}
    if isinstance(value, Mapping):
        values[each.name] = _section(each.metadata["of"], value, path, problems)
    else:
        expected = f"a text or an object with {shorthand!r}" if shorthand else "an object"
        problems.append(Problem(path, f"expected {expected}, found {_kind(value)}"))


def problem_of(path: str, error: ValueError) -> Problem:
    """What a kind of setting says about a value, as a problem with its path."""
    return Problem(path, str(error), error.suggestion if isinstance(error, Choices) else None)


def _kind(value: object) -> str:
    names = {type(None): "nothing", bool: "true or false", int: "a number", float: "a number", str: "a text"}
    return names.get(type(value), "a list" if isinstance(value, (list, tuple)) else "an object")


def to_plain(section: Any) -> dict[str, Any]:
    """A section as a plain dictionary; what is absent is left out, and sections with only a short form are short."""
    found = {}
    for each in fields(section):
        value = getattr(section, each.name)
        if is_dataclass(value):
            value = to_plain(value) or None
            shorthand = each.metadata["shorthand"]
            if value and shorthand and list(value) == [shorthand]:
                value = value[shorthand]
        if value is not None:
            found[each.name] = value
    return found


def get(section: Any, path: str) -> Any:
    """The value of a setting, or None where it is absent."""
    return _getter(path)(section)


_getter = lru_cache(maxsize=1024)(attrgetter)


def replaced(section: Section, path: str, value: Any) -> Section:
    """A copy with one setting changed; None makes it absent.

    Raises ConfigError if the value is not allowed.
    """
    changed: Section = _replaced(section, path, path.split("."), value)
    return changed


def _replaced(section: Any, path: str, names: list[str], value: Any) -> Any:
    name, *rest = names
    if rest:
        return replace(section, **{name: _replaced(getattr(section, name), path, rest, value)})
    found: Setting = next(each.metadata["setting"] for each in fields(section) if each.name == name)
    try:
        return replace(section, **{name: value if value is None else found.kind.check(value)})
    except ValueError as error:
        raise ConfigError([problem_of(path, error)]) from None
