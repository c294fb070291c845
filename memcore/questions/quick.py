"""A job from a model's size alone, and what had to be assumed for it."""

from __future__ import annotations

from collections.abc import Mapping

from memcore import registry
from memcore.config.imported import DTYPES, ENGINES
from memcore.config.knobs import Settings
from memcore.config.settings import Config
from memcore.errors import ConfigError
from memcore.messages import Message

SEQUENCE, MEMORY = 2048, 80
"""Tokens of a sequence and GiB of a GPU, where nothing is said."""
COUNTED = 1_000_000
"""From here on a number is taken for parameters, not for billions of them."""
SHORT_ENGINES = {**ENGINES, "megatron": "megatron"}


def quick(
    size: str,
    gpus: int = 1,
    engine: str | None = None,
    dtype: str = "bf16",
    memory: float | None = None,
    accelerator: str | None = None,
) -> tuple[Config, tuple[str, ...]]:
    """Return a config for a model of `size` parameters (numbers below a million are billions), and what it assumes.

    >>> config, assumed = quick("7", gpus=8, engine="pytorch")
    >>> config.get("engine.type"), config.model
    ('ddp', {'num_parameters': '7B'})

    Raises ConfigError for what cannot be understood.
    """
    if dtype not in DTYPES:
        raise ConfigError.at("--dtype", Message("found {!r}; allowed: {}", dtype, ", ".join(DTYPES)))
    name = SHORT_ENGINES.get(engine or "", engine) or (registry.USUAL_TRAINER if gpus > 1 else "none")
    if name in registry.SERVERS:
        raise ConfigError.at(
            "--engine", Message("found {!r}, a server; a size alone is estimated for training only", name)
        )
    usual: Mapping[str, tuple[Settings, str]] = registry.merged("knobs", "TAKEN")
    described: dict[str, object] = {"type": name}
    training: dict[str, object] = {"sequence_length": SEQUENCE, "precision": DTYPES[dtype]}
    assumed: list[str] = [
        Message("a sequence of {} tokens, one sequence in a micro-batch", SEQUENCE),
        "AdamW, no activation checkpointing",
    ]
    assumed.append(Message("{} compute, fp32 weights and optimizer states ({})", dtype, DTYPES[dtype]))
    if engine is None and gpus > 1:
        assumed.append(Message("engine {}", name))
    if name in usual:
        settings, said = usual[name]
        described |= {path.rpartition(".")[2]: value for path, value in settings.items()}
        assumed.append(said)
    if accelerator is None:
        memory = MEMORY if memory is None else memory
        assumed.append(Message("GPUs of {:g} GiB", memory))
    card = {"accelerator": accelerator, "gpu_memory_gb": memory}
    config = {
        "model": {"num_parameters": f"{size}B" if _is_billions(size) else size},
        "training": training,
        "engine": described,
        "hardware": {"num_gpus": gpus, **{name: value for name, value in card.items() if value is not None}},
    }
    return Config.from_dict(config), tuple(assumed)


def _is_billions(text: str) -> bool:
    """Return whether a number is too small for a count of parameters, so that it means billions."""
    try:
        return 0 < float(text) < COUNTED
    except ValueError:
        return False
