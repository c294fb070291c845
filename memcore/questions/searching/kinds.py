"""Which engines are looked at where a config leaves its engine or its layers open: those that divide a cluster well.

What a config names is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memcore import registry
from memcore.config.engine import EngineSettings
from memcore.config.knobs import Settings
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.trace.searching import Kind, Row

_ENGINE, _LAYERS, _FRAMEWORK = EngineSettings.type, Training.implementation, EngineSettings.framework
ROWS: Mapping[str, Row] = registry.merged("search", "ROWS")
"""By the value of `engine.type`: what each engine can be searched for."""


def _kinds() -> Iterator[Kind]:
    yield from (each for module in registry.engine_modules("search") for each in module.KINDS)


def _ways(kind: Kind) -> int:
    """Return how many ways there are to divide a job of a kind."""
    return len(ROWS[kind.row or str(kind.settings[_ENGINE])].divides)


KINDS: tuple[Kind, ...] = tuple(sorted(_kinds(), key=_ways, reverse=True))
"""Those that divide a job in most ways first."""


def kinds_of(config: Config, gpus: int) -> Iterator[Kind]:
    """Yield the kinds that a config leaves open for a number of GPUs; its own alone, if that is named."""
    named = {path: config.get(path) for path in (_ENGINE, _LAYERS) if config.get(path) is not None}
    whole = next((each for each in KINDS if each.whole and each.settings[_ENGINE] == named.get(_ENGINE)), None)
    own = Kind(title=str(named.get(_ENGINE) or ""), settings={}, usual={} if whole is None else whole.usual)
    if config.get(_FRAMEWORK) is not None or whole is not None:
        yield own
        return
    able = [each for each in KINDS if each.alone == (gpus == 1)]
    fitting = [each for each in able if all(each.settings[path] == value for path, value in named.items())]
    yield from fitting if fitting and len(named) < 2 else [own]


def config_as(config: Config, kind: Kind) -> tuple[Config, Settings]:
    """Return the config as a kind, and the settings that this changes."""
    changed = {path: value for path, value in kind.settings.items() if config.get(path) != value}
    changed |= {path: value for path, value in kind.usual.items() if config.get(path) is None}
    return config.changed(changed), changed
