"""Ways to run a training job that are worth a try, of all that engines offer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memcore import registry
from memcore.config.engine import EngineSettings
from memcore.config.knobs import Settings, Way
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.networks.catalog import full_name
from memcore.questions.planning.divisions import Asked


def ways_of(asked: Asked, *, spare: bool) -> list[Way]:
    """Ways to run a job: those of the engine that its config names, else all that experts choose from."""
    named = asked.config[EngineSettings.type]
    found: list[Way] = []
    for engine in registry.TRAINERS if named is None else _engines(named):
        found += registry.own(engine, "knobs", "WAYS")
    if named is None:
        stacked = 1 < asked.experts < asked.gpus
        found = [each for each in found if not each.named and (spare or not each.spare or (each.flat and stacked))]
    able = [each for each in found if each.alone in (None, asked.gpus == 1)]
    kept = [each for each in able if _keeps(asked.config, each.settings) and _runs(asked.config, each)]
    if asked.config.get(EngineSettings.framework) is None and kept:
        return kept
    engine = named or ("none" if asked.gpus == 1 else registry.USUAL_TRAINER)
    ways: Sequence[Way] = registry.own(engine, "knobs", "WAYS")
    first = ways[0]
    agreed = [each for each in ways if _agrees(asked.config, each.settings)]
    named_by = max(
        agreed, key=lambda each: sum(asked.config.get(path) is not None for path in each.settings), default=None
    )
    return [replace(first, title=named_by.title if named_by else engine, settings={}, only={})]


def _agrees(config: Config, settings: Settings) -> bool:
    """Return whether a config says nothing else than some settings."""
    return all(config.get(path) in (None, value) for path, value in settings.items())


def _engines(named: str) -> tuple[str, ...]:
    """Return the engine that is named, and those that its users move on to."""
    return (named, *registry.engine_module(named, "knobs").NEXT.get(named, ()))


def _keeps(config: Config, settings: Settings) -> bool:
    """Return whether a way runs the layers that a config names."""
    given = config.get(Training.implementation)
    return given is None or settings.get(Training.implementation, given) == given


def _runs(config: Config, way: Way) -> bool:
    """Return whether a way has code for a model, as who names its layers says that it has."""
    if way.models is None or config.get(Training.implementation) is not None:
        return True
    return isinstance(config.model, str) and full_name(config.model) in way.models


def has_code(way: Way, config: Config, rows: Settings) -> bool:
    """Return whether a way has code for a method; of the config itself, as who names its layers says that it has."""
    given = {} if config.get(Training.implementation) is not None else {path: config.get(path) for path in way.only}
    found = {**given, **rows}
    return all(found[path] in values for path, values in way.only.items() if path in found)
