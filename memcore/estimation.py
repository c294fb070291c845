"""From a config to what each GPU holds: the trainer or server of its engine is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from memcore import registry
from memcore.config.engine import EngineSettings
from memcore.config.settings import Config
from memcore.errors import ConfigError, MemcoreError, Problem

if TYPE_CHECKING:  # a training job needs nothing of servers, nor a server of training
    from memcore.memory.estimate import Estimate
    from memcore.serving.estimate import ServingEstimate


def estimate(config: Config | Mapping[str, object], *, fake: bool = False) -> Estimate | ServingEstimate:
    """Predict the memory of a training step or of a server; sizes are bytes, those of the GPU that needs most.

    Args:
        config: A `Config`, or a dictionary in the form of a config file: `model` and the settings by section.
        fake: Describe the step as simulations on fake tensors run it, without the workspaces of GPU libraries.

    Returns:
        An `Estimate` of a training job, a `ServingEstimate` if the engine is a server or the config has a section
        `inference`.

    Raises:
        ConfigError: If the config cannot be understood or contradicts itself; it carries every problem at once.
        UnsupportedError: If the config is valid but not supported yet; it names the setting.

    Sources: each tensor follows a rule that names the file of the library it comes from
    ([rules](reference.md#rules)); [architecture](architecture.md) explains the method.

    Examples:
        >>> estimate({"model": "gpt2", "training": {"sequence_length": 1024}}).peak.phase
        'loss'
        >>> estimate({"model": "gpt2", "engine": {"type": "vllm"}}).pool.unit
        'blocks'
    """
    described = config if isinstance(config, Config) else Config.from_dict(config)
    return estimate_serving(described) if is_serving(described) else estimate_training(described, fake=fake)


def estimate_training(config: Config | Mapping[str, object], *, fake: bool = False) -> Estimate:
    """Predict the memory of each GPU of a training job; arguments and errors as in `estimate`.

    >>> job = {"model": "llama-3.1-8b", "hardware": {"num_gpus": 8, "accelerator": "h100-sxm-80gb"},
    ...        "training": {"sequence_length": 8192, "activation_checkpointing": "full"}}
    >>> found = estimate_training(job)
    >>> found.fits, found.peak.phase, found.allocated.expected
    (True, 'loss', 29680748032)
    """
    described = config if isinstance(config, Config) else Config.from_dict(config)
    foreign = described.below("inference")
    if foreign:
        message = "a config describes training or inference, not both; leave one out, or name a server as engine.type"
        raise ConfigError([Problem(path, message) for path in foreign])
    found: Estimate = registry.engine_module(described[EngineSettings.type] or "none", "estimate").estimate(
        described, fake=fake
    )
    return found


def estimate_serving(config: Config | Mapping[str, object]) -> ServingEstimate:
    """Predict the memory of each GPU of a server; errors as in `estimate`.

    >>> found = estimate_serving({"model": "llama-3.1-8b", "engine": {"type": "vllm", "version": "0.19.0"},
    ...     "hardware": {"accelerator": "h100-sxm-80gb"}, "inference": {"max_model_len": 8192}})
    >>> found.fits, found.pool.users(8192)
    (True, 54)
    """
    described = config if isinstance(config, Config) else Config.from_dict(config)
    engine = described[EngineSettings.type] or registry.USUAL_SERVER
    found: ServingEstimate = registry.engine_module(engine, "estimate").estimate(described)
    return found


def changed(config: Config, changes: Mapping[str, Any]) -> Estimate | ServingEstimate | None:
    """Return the estimate with other values of some settings; None where its engine or its model cannot do that."""
    try:
        return estimate(config.changed(changes))
    except MemcoreError:
        return None


def is_serving(config: Config) -> bool:
    """Return whether a config describes a server: its engine is one, or it has a section `inference`."""
    engine = config[EngineSettings.type]
    return engine in registry.SERVERS or (engine is None and bool(config.below("inference")))
