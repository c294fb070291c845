"""What a config says in words that stand for other settings, and words that its engine has no counterpart of.

The config format has one place for what several engines have settings of their own for, such as where the optimizer's
states are. Everything after this reads one word for one thing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memcore import registry
from memcore.config.defaults import Assumption, Defaults
from memcore.config.engine import EngineSettings
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.errors import ConfigError, Problem
from memcore.messages import Message
from memcore.networks.catalog import identified, listed_name
from memcore.networks.named import DYNAMIC
from memcore.networks.quantized import trained_next_to
from memcore.optimizers.table import OPTIMIZERS
from memcore.trace.engine import engine_of
from memcore.trainers.pytorch.extension import Extension

_COMPUTE, _PRECISION, _RECIPE = Training.compute_dtype, Training.precision, EngineSettings.fp8_recipe
_MASTER = Training.master_dtype
_IMPLEMENTATION = Training.optimizer.implementation
_COPYING = {name for row in OPTIMIZERS.values() for name, how in row.implementations.items() if how.masters}
"""Implementations with a copy of the parameters of their own."""
_FP8: Mapping[str, str | None] = {"fp8": None, "mxfp8": "mxfp8"}
"""Dtypes of products that `fp8-mixed` computes, and the recipe that they name."""


def understood(config: Config) -> tuple[Config, Defaults]:
    """Return the config in the words that jobs are read from, and a reader of it, which knows what was taken for what.

    Raises ConfigError for words that contradict others, and for what the engine has no counterpart of.
    """
    module = registry.engine_module(config[EngineSettings.type] or "none", "resolve")
    own: Extension = getattr(module, "EXTENSION", Extension())
    problems = [*(() if own.disk else _without_disk(config)), *_masters(config), *own.problems(config)]
    said = {**own.restated(config, problems), **_in_fp8(config, problems)}
    config, noted = _repository(config, problems)
    config, stored = _checkpoint(config)
    noted += stored
    if problems:
        raise ConfigError(problems)
    for path, value in said.items():
        if value is not None and config.get(path) != value:
            noted.append(Assumption(path, value, "the config contradicts this", notable=True))
        config = config.replaced(path, value)
    read = Defaults(config)
    read.assumptions += noted
    return config, read


def _repository(config: Config, problems: list[Problem]) -> tuple[Config, list[Assumption]]:
    """The config with the catalog's model for one that is named after it, and with the format that its name says."""
    name = config.model
    if not isinstance(name, str) or (found := identified(name)).base == listed_name(name):
        return config, []
    noted = [Assumption("model", found.base, found.reason, notable=True)]
    path = Training.quantization
    if found.frozen is None:
        message = Message("found {!r:.80}, which is stored as {}; training is supported from {}", name, found.format,
                          found.base)  # fmt: skip
        problems.append(Problem("model", message))
    elif found.frozen and config.get(path) is None:
        some = DYNAMIC.search(name) is not None
        reason = "by the repository's name; it leaves some layers in 16 bits" if some else "by the repository's name"
        noted.append(Assumption(path, found.frozen, reason, notable=True))
        config = config.replaced(path, found.frozen)
    return config.replaced("model", found.base), noted


def _checkpoint(config: Config) -> tuple[Config, list[Assumption]]:
    """Return the config with the frozen weights that the model's own `quantization_config` says, under an adapter.

    Without one, all weights are trained, which a quantized checkpoint cannot be: they are counted unquantized.
    """
    path, model = Training.quantization, config.model
    stored = trained_next_to(model) if isinstance(model, Mapping) else None
    if stored is None or config.get(path) is not None:
        return config, []
    if config.get(Training.adapter.type) is None:
        said = Message(
            "its quantization_config is left out: {} weights cannot be trained; for adapters on them set {}, to serve "
            "them {}", stored, Training.adapter.type, EngineSettings.type,
        )  # fmt: skip
        return config, [Assumption("model", "unquantized", said, notable=True)]
    return config.replaced(path, stored), [Assumption(path, stored, "by its quantization_config", notable=True)]


def _without_disk(config: Config) -> Iterator[Problem]:
    for path in (Training.offload.optimizer, Training.offload.parameters):
        if config.get(path) == "nvme":
            only = "only DeepSpeed's ZeRO-3 keeps states on a disk (engine.type 'deepspeed', engine.zero_stage 3)"
            yield Problem(
                path,
                Message(
                    "found {!r} with {} {!r}; {}; allowed here: {}",
                    "nvme",
                    EngineSettings.type,
                    config[EngineSettings.type],
                    only,
                    "cpu",
                ),
            )


def _in_fp8(config: Config, problems: list[Problem]) -> Mapping[str, object]:
    """Products in FP8 are a preset: the rest is computed in bf16."""
    dtype = config.get(_COMPUTE)
    if dtype not in _FP8:
        return {}
    recipe, preset = _FP8[dtype], config.get(_PRECISION)
    if preset not in (None, "bf16-mixed", "fp8-mixed"):
        message = Message("found {!r} with {} {!r}; for FP8 matrix products use 'fp8-mixed'", dtype, _PRECISION, preset)
        problems.append(Problem(_COMPUTE, message))
    if recipe is not None and config.get(_RECIPE) not in (None, recipe):
        problems.append(
            Problem(
                _COMPUTE,
                Message("found {!r}, but {} is {!r}", dtype, _RECIPE, config.get(_RECIPE)),
            )
        )
    return {_COMPUTE: None, _PRECISION: "fp8-mixed", **({_RECIPE: recipe} if recipe else {})}


def _masters(config: Config) -> Iterator[Problem]:
    """Ask the engine whether there is a separate copy of the parameters.

    PyTorch's optimizers read the parameters themselves.
    """
    wanted, engine = config.get(_MASTER), config[EngineSettings.type]
    if wanted is None:
        return
    if wanted != "none" and engine_of(engine or "none").native and config.get(_IMPLEMENTATION) not in _COPYING:
        own = "PyTorch's optimizers update the parameters directly, and 'bf16-mixed' keeps those in fp32"
        yield Problem(
            _MASTER,
            Message(
                "found {!r}; {}; allowed: {}; engines with a master copy: deepspeed, megatron", wanted, own, "none"
            ),
        )
