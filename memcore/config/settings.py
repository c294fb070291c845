"""A config: one description of one job, as values of settings.

Settings are declared in sections (`training.py`, `parallelism.py`, `hardware.py`, and the `settings` modules of
trainers and servers). Command-line flags, the page's form, links, validation, the JSON Schema and the reference page
are derived from the declarations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from typing import Any

from memcore import registry
from memcore.config.bounded import check
from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.imported import imported
from memcore.config.kinds import ModelName, Taken
from memcore.config.load import from_plain, problem_of, to_plain
from memcore.config.parallelism import Parallelism
from memcore.config.schema import Section, Setting, ValueT, setting, settings_of
from memcore.config.training import Training
from memcore.errors import ConfigError
from memcore.messages import Message
from memcore.records import dataclass

MODEL = setting(
    ModelName(),
    "Model",
    "Catalog id or hub id of a model, or the content of a Hugging Face config.json.",
    flag="model",
    common=True,
    required=True,
).at("model")


def _sections() -> Iterator[type[Section]]:
    """Yield every section, in the order of forms and references."""
    own: list[type[Section]] = [each for module in registry.engine_modules("settings") for each in module.SECTIONS]
    yield Training
    yield from (each for each in own if each.path != EngineSettings.path)
    yield Parallelism
    yield EngineSettings
    yield from (each for each in own if each.path == EngineSettings.path)
    yield Hardware


SECTIONS: tuple[type[Section], ...] = tuple(_sections())
SETTINGS: Mapping[str, Setting[Any]] = {
    each: each for each in (MODEL, *(found for section in SECTIONS for found in settings_of(section)))
}
"""Every setting by its path, such as `training.sequence_length`."""


def _claim() -> None:
    """Have each setting that not all engines take know those that do."""
    taking: dict[Setting[Any], list[str]] = {}
    for module in registry.engine_modules("settings"):
        for engine, taken in getattr(module, "TAKES", {}).items():
            for each in taken:
                taking.setdefault(each, []).append(engine)
    for each, engines in taking.items():
        each.engines = tuple(engine for engine in registry.ENGINES if engine in engines)


_claim()


def _with_engine(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values with the engine that a training loop runs, where none is named and nothing is served."""
    given, by = values.get(EngineSettings.type), values[EngineSettings.framework]
    is_open = given is None or (isinstance(given, Taken) and given.is_implied)
    if is_open and not any(path.startswith("inference.") for path in values):
        values.pop(EngineSettings.type, None)
        loop = registry.LOOPS.get(by, registry.Loop())
        found = loop.engine or (loop.several if values.get(Hardware.num_gpus, 1) > 1 else "")
        if found:
            values[EngineSettings.type] = Taken(found, Message("{} runs it", by), is_implied=True)
    return values


@dataclass(frozen=True, slots=True)
class Config:
    """A checked description of one job; absent settings mean the engine's defaults.

    Every function that takes a config also takes a dictionary; build a `Config` to check it once and to vary it.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    """The given values by the path of their setting."""
    notes: tuple[str, ...] = field(default=(), compare=False)
    """What another calculator's file says otherwise, and what was made of it."""

    @classmethod
    def from_dict(cls, data: object) -> Config:
        """Build a config from the content of a JSON file: `model`, and the settings by section.

        Raises:
            ConfigError: With every problem found: unknown keys, wrong types, values that are not allowed.

        Examples:
            >>> Config.from_dict({"model": "gpt2", "training": {"batch_size": 8}})[Training.micro_batch_size]
            8
        """
        check(data)
        if not isinstance(data, Mapping):
            return cls.of(from_plain(SECTIONS, MODEL, data))
        read = imported(data)
        return replace(cls.of(from_plain(SECTIONS, MODEL, read.config)), notes=tuple(read.notes))

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Config:
        """Build a config from checked values, and from what words among them bring; None counts as absent."""
        found = {path: value for path, value in values.items() if value is not None}
        for word in [value for value in found.values() if isinstance(value, Taken)]:
            found = {**word.brings, **found}
        return cls(found if found.get(EngineSettings.framework) is None else _with_engine(found))

    def to_dict(self) -> dict[str, Any]:
        """Return a plain dictionary without the absent settings."""
        return to_plain(self.values, SECTIONS)

    @property
    def model(self) -> str | Mapping[str, object]:
        """Return the model's name, or the content of its config.json."""
        found: str | Mapping[str, object] = self.values[MODEL]
        return found

    def __getitem__(self, of: Setting[ValueT]) -> ValueT | None:
        """Return the value of a setting, or None if it is absent."""
        return self.values.get(of)

    def get(self, path: str) -> Any:
        """Return the value of a setting by its path, or None if it is absent."""
        return self.values.get(path)

    def below(self, section: str) -> list[str]:
        """Return the paths of a section's given settings, in the order of `SETTINGS`."""
        return [path for path in SETTINGS if path.startswith(f"{section}.") and path in self.values]

    def replaced(self, path: str, value: Any) -> Config:
        """Return a copy with one setting changed; None removes it.

        Raises:
            ConfigError: If the value is not allowed.
        """
        try:
            checked = value if value is None else SETTINGS[path].kind.check(value)
        except ValueError as error:
            raise ConfigError([problem_of(path, error)]) from None
        return replace(Config.of({**self.values, path: checked}), notes=self.notes)

    def changed(self, changes: Mapping[str, Any]) -> Config:
        """Return a copy with several settings changed, by path; None removes one."""
        found = self
        for path, value in changes.items():
            found = found.replaced(path, value)
        return found
