"""Configs from and to plain dictionaries, and changes of single settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, fields, is_dataclass, replace
from typing import Any

from memcore.config.kinds import Choices
from memcore.config.settings import SETTINGS, Config, Setting
from memcore.errors import ConfigError, Problem, nearest


def config_from_dict(data: object) -> Config:
    """A config from what a JSON file holds.

    Raises ConfigError with every problem found: unknown keys, wrong types, values that are not allowed.
    """
    if not isinstance(data, Mapping):
        raise ConfigError([Problem("", f"expected a JSON object, found {_kind(data)}")])
    problems: list[Problem] = []
    sections = {name: value for name, value in data.items() if name != "model"}
    model = _model(data.get("model"), problems)
    if data.get("inference") is not None:
        problems.append(Problem("inference", "serving is not modelled yet; describe the job under 'training'"))
        sections.pop("inference")
    values = _section(Config, sections, "", problems)
    if problems:
        raise ConfigError(problems)
    return Config(model=model, **values)


def _model(found: object, problems: list[Problem]) -> str | Mapping[str, object]:
    if isinstance(found, (str, Mapping)) and found:
        return found
    expected = "a catalog id, a hub id or the content of a config.json"
    problems.append(Problem("model", f"expected {expected}, found {_kind(found)}"))
    return ""


def _section(cls: type, data: Mapping[str, object], path: str, problems: list[Problem]) -> dict[str, Any]:
    """The arguments of a section's class, from its part of the file."""
    known = {each.name: each for each in fields(cls) if each.name != "model"}
    aliases = {alias: name for name, each in known.items() for alias in _aliases(each)}
    values: dict[str, Any] = {}
    for key, value in data.items():
        here = f"{path}.{key}" if path else str(key)
        name = aliases.get(key, key)
        if name not in known:
            problems.append(Problem(here, "unknown key", nearest(str(key), [*known, *aliases])))
        elif value is not None:
            if name in values:
                problems.append(Problem(here, f"given twice: also as {name!r}"))
            _value(known[name], value, here, values, problems)
    return values


def _aliases(each: Field[Any]) -> tuple[str, ...]:
    found: Setting | None = each.metadata.get("setting")
    return found.aliases if found else ()


def _value(each: Field[Any], value: object, path: str, values: dict[str, Any], problems: list[Problem]) -> None:
    found: Setting | None = each.metadata.get("setting")
    if found is not None:
        try:
            values[each.name] = found.kind.check(value)
        except ValueError as error:
            problems.append(Problem(path, str(error), error.suggestion if isinstance(error, Choices) else None))
        return
    section, shorthand = each.metadata["of"], each.metadata.get("shorthand")
    if shorthand and isinstance(value, str):
        value = {shorthand: value}
    if isinstance(value, Mapping):
        values[each.name] = section(**_section(section, value, path, problems))
    else:
        expected = f"a text or an object with {shorthand!r}" if shorthand else "an object"
        problems.append(Problem(path, f"expected {expected}, found {_kind(value)}"))


def _kind(value: object) -> str:
    names = {type(None): "nothing", bool: "true or false", int: "a number", float: "a number", str: "a text"}
    return names.get(type(value), "a list" if isinstance(value, list) else "an object")


def config_to_dict(config: Config) -> dict[str, Any]:
    """A config as a plain dictionary; what is absent is left out, and sections with only a short form are short."""
    found = {"model": config.model if isinstance(config.model, str) else dict(config.model)}
    for each in fields(config):
        if each.name != "model" and (inner := _to_plain(getattr(config, each.name), each)):
            found[each.name] = inner
    return found


def _to_plain(value: Any, each: Field[Any]) -> Any:
    if not is_dataclass(value):
        return value
    inner = {f.name: _to_plain(getattr(value, f.name), f) for f in fields(value) if getattr(value, f.name) is not None}
    inner = {name: found for name, found in inner.items() if found != {}}
    shorthand = each.metadata.get("shorthand")
    return inner[shorthand] if shorthand and list(inner) == [shorthand] else inner


def get_setting(config: Config, path: str) -> Any:
    """The value of a setting, or None where it is absent."""
    value: Any = config
    for name in path.split("."):
        value = getattr(value, name) if value is not None else None
    return value


def with_setting(config: Config, path: str, value: Any) -> Config:
    """A copy of the config with one setting changed; None makes it absent.

    Raises ConfigError if the value is not allowed.
    """
    try:
        checked = value if value is None else SETTINGS[path].kind.check(value)
    except ValueError as error:
        suggestion = error.suggestion if isinstance(error, Choices) else None
        raise ConfigError([Problem(path, str(error), suggestion)]) from None
    changed: Config = _replace(config, path.split("."), checked)
    return changed


def _replace(section: Any, names: list[str], value: Any) -> Any:
    if len(names) == 1:
        return replace(section, **{names[0]: value})
    inner = getattr(section, names[0])
    if inner is None:
        inner = next(each.metadata["of"] for each in fields(section) if each.name == names[0])()
    return replace(section, **{names[0]: _replace(inner, names[1:], value)})
