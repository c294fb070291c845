"""Settings as text: how a command line, a form and a URL give them."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.load import problem_of
from memcore.config.settings import SETTINGS, Config
from memcore.errors import ConfigError, Problem

FLAGS: Mapping[str, str] = {setting.flag: path for path, setting in SETTINGS.items()}
"""Paths of settings by their short names."""


def to_texts(config: Config) -> dict[str, str]:
    """Return the settings that are given, by path, as text."""
    found = ((path, config.get(path)) for path in SETTINGS)
    return {path: SETTINGS[path].kind.spell(value) for path, value in found if value is not None}


def as_flags(changes: Mapping[str, object]) -> str:
    """Return new values by path as flags of a command line; a setting that is removed has none."""
    given = ((SETTINGS[path], value) for path, value in changes.items() if value is not None)
    return " ".join(f"--{setting.flag} {setting.kind.spell(value)}" for setting, value in given)


def from_texts(texts: Mapping[str, str], base: Mapping[str, object] | None = None) -> Config:
    """Return a config from texts by path, over what a file has given; an empty text means absent.

    Raises ConfigError naming every text that cannot be understood.
    """
    values: dict[str, object] = {}
    problems: list[Problem] = []
    for path, text in texts.items():
        if text.strip():
            try:
                values[path] = SETTINGS[path].kind.parse(text)
            except ValueError as error:
                problems.append(problem_of(path, error))
    if problems:
        raise ConfigError(problems)
    known = base or {}
    config = Config.from_dict({**known, "model": values.get("model", known.get("model"))})
    for path, value in values.items():
        config = config.replaced(path, value)
    return config
