"""Which engines are looked at where a config leaves its engine or its layers open: those that divide a cluster well.

What a config names is kept. DDP, DeepSpeed and nanotron are looked at where they are named.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from memcore.config.engine import EngineSettings
from memcore.config.parallelism import Parallelism
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.questions.searching.layouts import Settings
from memcore.trainers.megatron.settings import MegatronSettings

_ENGINE, _LAYERS, _FRAMEWORK = EngineSettings.type, Training.implementation, EngineSettings.framework
_MEGATRON: Settings = {MegatronSettings.distributed_optimizer: True, Parallelism.sequence_parallel: True}
"""What Megatron's recipes switch on and its defaults do not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """An engine, and whose layers it runs."""

    title: str
    settings: Settings
    usual: Settings
    """Settings that come with it where the config leaves them open."""
    row: str | None = None
    """A key of `memcore.questions.searching.spaces.ROWS`, if not the engine's own."""
    alone: bool = False
    """On one GPU, and there only."""


KINDS: tuple[Kind, ...] = (
    Kind(title="torchtitan", settings={_ENGINE: "fsdp", _LAYERS: "torchtitan"}, usual={}),
    Kind(title="Megatron", settings={_ENGINE: "megatron", _LAYERS: "transformer-engine"}, usual=_MEGATRON),
    Kind(title="FSDP", settings={_ENGINE: "fsdp", _LAYERS: "transformers"}, usual={}, row="fsdp-transformers"),
    Kind(title="one GPU", settings={_ENGINE: "none", _LAYERS: "transformers"}, usual={}, alone=True),
)


def kinds_of(config: Config, gpus: int) -> Iterator[Kind]:
    """The kinds that a config leaves open for a number of GPUs; its own alone, if that is named."""
    named = {path: config.get(path) for path in (_ENGINE, _LAYERS) if config.get(path) is not None}
    usual = _MEGATRON if named.get(_ENGINE) == "megatron" else {}
    own = Kind(title=str(named.get(_ENGINE) or ""), settings={}, usual=usual)
    if config.get(_FRAMEWORK) is not None or named.get(_ENGINE) == "megatron":
        yield own
        return
    able = [each for each in KINDS if each.alone == (gpus == 1)]
    fitting = [each for each in able if all(each.settings[path] == value for path, value in named.items())]
    yield from fitting if fitting and len(named) < 2 else [own]


def config_as(config: Config, kind: Kind) -> tuple[Config, Settings]:
    """The config as a kind, and the settings that this changes."""
    changed = {path: value for path, value in kind.settings.items() if config.get(path) != value}
    changed |= {path: value for path, value in kind.usual.items() if config.get(path) is None}
    for path, value in changed.items():
        config = config.replaced(path, value)
    return config, changed
