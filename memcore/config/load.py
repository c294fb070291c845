"""Values of settings from and to plain dictionaries, as files have them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from memcore.config.kinds import Choices
from memcore.config.schema import Section, Setting, within
from memcore.errors import LISTED, ConfigError, Problem, nearest
from memcore.messages import Message

Sections = tuple[type[Section], ...]
REQUIRED = "is required"
"""What is said of a config without a model."""
_NAME = 80
"""Characters of a string that may be a model's name."""
_FILE = re.compile(r"\.[A-Za-z]{2,8}$")
"""How the name of a file ends, and no model's does."""


def from_plain(sections: Sections, model: Setting[Any], data: object) -> dict[str, Any]:
    """Return the values of what a JSON file holds, by path.

    Raises ConfigError with every problem found: unknown keys, wrong types, values that are not allowed.
    """
    if not isinstance(data, Mapping):
        if isinstance(data, str) and _FILE.search(data):
            raise ConfigError.at("", "found {!r:.80}, the name of a file; read it with memcore.load", data)
        named = isinstance(data, str) and len(data) <= _NAME
        example = json.dumps({"model": data if named else "gpt2"}, ensure_ascii=False)
        raise ConfigError.at("", "expected an object such as {}, found {}", example, _kind(data))
    problems: list[Problem] = []
    values: dict[str, Any] = {}
    _read(_keys(sections, "") | {model.name: model}, sections, data, "", values, problems)
    if model not in values and data.get(model.name) is None:
        problems.append(Problem(model, REQUIRED))
    if problems:
        raise ConfigError(problems)
    return values


@lru_cache(maxsize=64)
def _keys(sections: Sections, path: str) -> dict[str, Setting[Any] | str]:
    """Return what each key of an object stands for: a setting, or the path of a section."""
    found: dict[str, Setting[Any] | str] = {}
    for section in sections:
        if section.path.rpartition(".")[0] == path and section.path != path:
            found[section.path.rpartition(".")[2]] = section.path
        if section.path == path:
            found |= {key: each for each in _own(section) for key in (each.name, *each.aliases)}
            found |= {each.path.rpartition(".")[2]: each.path for each in within(section)}
    return found


def _own(section: type[Section]) -> Iterator[Setting[Any]]:
    return (each for each in vars(section).values() if isinstance(each, Setting))


@lru_cache(maxsize=64)
def _inner(sections: Sections) -> Sections:
    """Return the sections with those within them."""
    return tuple(each for section in sections for each in (section, *_inner(tuple(within(section)))))


def _read(
    known: Mapping[str, Setting[Any] | str],
    sections: Sections,
    data: Mapping[str, object],
    path: str,
    values: dict[str, Any],
    problems: list[Problem],
) -> None:
    """Read one object of a file."""
    for key, value in data.items():
        here = f"{path}.{key}" if path else str(key)
        meant = known.get(key)
        if meant is None:
            close = _close(str(key), known, sections) if len(problems) < LISTED else None
            problems.append(Problem(here, "unknown key", close))
        elif not isinstance(meant, Setting):
            _section(meant, sections, value, values, problems)
        elif meant in values:
            problems.append(Problem(here, Message("given twice: also as {!r}", meant.name)))
        elif value is not None:
            try:
                values[meant] = meant.kind.check(value)
            except ValueError as error:
                problems.append(problem_of(here, error))


def _close(key: str, known: Mapping[str, Setting[Any] | str], sections: Sections) -> str | None:
    """Return what an unknown key may be: the nearest here, or the setting that has its name elsewhere or in flags."""
    return nearest(key, known) or _paths(sections).get(key.replace("-", "_").lower())


@lru_cache(maxsize=1)
def _paths(sections: Sections) -> Mapping[str, str]:
    """Return the path of the setting that each name, alias and flag stands for, the first of several."""
    found: dict[str, str] = {}
    for section in _inner(sections):
        for each in _own(section):
            for name in (each.name, *each.aliases, each.flag.replace("-", "_")):
                found.setdefault(name, str(each))
    return found


def _section(path: str, sections: Sections, value: object, values: dict[str, Any], problems: list[Problem]) -> None:
    """Read what a file has for a section: an object, or the short form of its one setting."""
    short = next((each.shorthand for each in _inner(sections) if each.path == path and each.shorthand), None)
    if short and isinstance(value, str):
        value = {short: value}
    if isinstance(value, Mapping):
        _read(_keys(_inner(sections), path), sections, value, path, values, problems)
    elif value is not None:
        expected = Message("a string or an object with {!r}", short) if short else "an object"
        problems.append(Problem(path, Message("expected {}, found {}", expected, _kind(value))))


def problem_of(path: str, error: ValueError) -> Problem:
    """Return what a kind of setting says about a value, as a problem with its path."""
    return Problem(path, str(error), error.suggestion if isinstance(error, Choices) else None)


def _kind(value: object) -> str:
    names = {type(None): "nothing", bool: "true or false", int: "a number", float: "a number", str: "a string"}
    return names.get(type(value), "a list" if isinstance(value, (list, tuple)) else "an object")


def to_plain(values: Mapping[str, Any], sections: Sections) -> dict[str, Any]:
    """Values as the nested objects of a file; a section within another with nothing but its short form is that."""
    found: dict[str, Any] = {}
    for path, value in _in_order(values, sections):
        place = found
        *above, name = path.split(".")
        for each in above:
            place = place.setdefault(each, {})
        place[name] = value
    for section in _inner(sections):
        *above, name = section.path.split(".")
        place = found
        for each in above:
            place = place.get(each, {})
        if above and section.shorthand and list(place.get(name, ())) == [section.shorthand]:
            place[name] = place[name][section.shorthand]
    return found


def _in_order(values: Mapping[str, Any], sections: Iterable[type[Section]]) -> Iterator[tuple[str, Any]]:
    """Yield values in the order in which their settings are declared, what belongs to no section first."""
    order = {each: None for section in _inner(tuple(sections)) for each in _own(section)}
    yield from ((path, value) for path, value in values.items() if path not in order)
    yield from ((path, values[path]) for path in order if path in values)
