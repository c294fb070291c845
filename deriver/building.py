"""Real networks of transformers on the meta device: which class a `model_type` has, its keys, its tensors."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import inspect
import io
import logging
import re
import signal
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from deriver import tracing

CACHES = Path(__file__).parent.parent / "build" / "deriver"
"""Where rows and counts that were found are kept."""

TABLES = ("IMAGE_TEXT_TO_TEXT", "SEQ_TO_SEQ_CAUSAL_LM", "SPEECH_SEQ_2_SEQ", "MASKED_LM", "CAUSAL_LM", "MULTIMODAL_LM")
"""Auto classes of language models; the first that lists a type says which class its checkpoints mostly have."""
CHECKPOINTS = {
    "musicgen": "MusicgenForConditionalGeneration",
    "musicgen_melody": "MusicgenMelodyForConditionalGeneration",
}
"""Types whose checkpoints have another class than the tables say: theirs is the decoder's."""
Config = dict[str, Any]
Flat = dict[str, Any]
"""Keys with dots, as in `text_config.hidden_size`."""


def _table(name: str) -> Mapping[str, Any]:
    return getattr(modeling_auto, f"MODEL_FOR_{name}_MAPPING_NAMES")


def types() -> list[str]:
    """Every `model_type` of a language model."""
    return sorted({name for table in TABLES for name in _table(table)})


def class_name(model_type: str) -> str:
    """The class that its checkpoints mostly have."""
    if model_type in CHECKPOINTS:
        return CHECKPOINTS[model_type]
    tables = [*map(_table, TABLES), modeling_auto.MODEL_MAPPING_NAMES]
    found = next((table[model_type] for table in tables if model_type in table), "")
    return found if isinstance(found, str) else found[0]


def base_name(model_type: str) -> str | None:
    """The class of its AutoModel."""
    found = modeling_auto.MODEL_MAPPING_NAMES.get(model_type)
    return found if found is None or isinstance(found, str) else found[0]


def is_decoder(model_type: str) -> bool:
    """Whether it has a decoder and no encoder, whose results are cached too."""
    return not any(model_type in _table(name) for name in ("MASKED_LM", "SEQ_TO_SEQ_CAUSAL_LM", "SPEECH_SEQ_2_SEQ"))


def type_of(name: str) -> str | None:
    """The `model_type` of a class's configuration."""
    cls = getattr(getattr(transformers, name, None), "config_class", None)
    return getattr(cls, "model_type", None)


def own(config: Any) -> set[str]:
    """The keys that its class declares, those of sub-configurations with dots."""
    found = {each.name for each in dataclasses.fields(config)}
    for name, value in vars(config).items():
        if isinstance(value, PreTrainedConfig):
            found |= {f"{name}.{each}" for each in own(value)}
        elif isinstance(value, dict):
            found |= {f"{name}.{key}" for key in value}
    return found


@lru_cache(maxsize=8)
def asked(name: str) -> Flat:
    """Keys that a class's module asks for though its configuration class does not declare them, with their defaults."""
    source = inspect.getsource(sys.modules[getattr(transformers, name).__module__])
    pattern = r"getattr\(\s*(?:self\.)?config,\s*[\"'](\w+)[\"'](?:,\s*([^(),]+))?\)"
    found: Flat = {}
    for key, default in re.findall(pattern, source):
        try:
            found[key] = ast.literal_eval(default.strip())
        except (ValueError, SyntaxError):
            found[key] = None
    found.pop("_attn_implementation", None)
    return {**found, **_older(inspect.getsource(getattr(transformers, name).config_class))}


def _older(source: str) -> Flat:
    """Integers that a configuration class still takes and does not declare, with their defaults."""
    found = re.findall(r"kwargs\.(?:pop|get)\(\s*[\"'](\w+)[\"'],\s*(\d+)\)", source)
    return {key: int(default) for key, default in found}


def older(model_type: str, start: Flat) -> tuple[dict[str, str], list[str]]:
    """Keys that a configuration class still takes without declaring them.

    Some are other names of keys; of the rest, those that change something.
    """
    source = inspect.getsource(CONFIG_MAPPING[model_type])
    keys = set(re.findall(r"kwargs\.(?:pop|get)\(\s*[\"'](\w+)[\"']", source)) - set(_older(source))
    plain = fields(make_config(model_type, start))
    names, others = {}, []
    for key in sorted(keys - {*plain, "dtype", "torch_dtype", "rope_theta", "rope_scaling"}):
        if (found := _effect(model_type, start, plain, key)) is not None:
            (names.__setitem__(key, found) if found else others.append(key))
    return names, others


def _effect(model_type: str, start: Flat, plain: Flat, key: str) -> str | None:
    """The key that takes this one's value; empty if it changes something else, None if nothing."""
    changed = None
    for value in (12344, True, False, 0.375, "acme", [1, 0], {"acme": 1}):
        try:
            found = fields(make_config(model_type, {**start, key: value}))
        except Exception:  # transformers raises everything
            continue
        differs = {each for each in {*found, *plain} - {key} if found.get(each) != plain.get(each)}
        same = [each for each in sorted(differs) if found.get(each) == value]
        if len(differs) == len(same) == 1:
            return same[0]
        changed = "" if differs else changed
    return changed


def quiet() -> None:
    """Silence what transformers says about unusual configurations."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    transformers.logging.set_verbosity_error()


class TooLong(BaseException):
    """A class took too long; no handler of errors takes it for one."""


@contextlib.contextmanager
def limit(seconds: int, raised: type[BaseException] = TimeoutError) -> Iterator[None]:
    """Raise this after so long."""

    def stop(*_: object) -> None:
        raise raised

    before = signal.signal(signal.SIGALRM, stop)
    left, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
    started = time.monotonic()
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, before)
        # A limit around this one goes on.
        signal.setitimer(signal.ITIMER_REAL, max(0.01, left - (time.monotonic() - started)) if left else 0)


def nest(flat: Flat) -> Config:
    """Keys with dots as nested objects."""
    found: Config = {}
    for key, value in flat.items():
        *above, last = key.split(".")
        place = found
        for part in above:
            place = place.setdefault(part, {})
        place[last] = value
    return found


def make_config(model_type: str, flat: Flat) -> Any:
    """The configuration of transformers with these keys."""
    with contextlib.redirect_stdout(io.StringIO()):
        return CONFIG_MAPPING[model_type](**nest(flat))


def build(name: str, config: Any, seconds: int = 60) -> nn.Module:
    """The network on the meta device."""
    cls = getattr(transformers, name)
    with limit(seconds), torch.device("meta"), contextlib.redirect_stdout(io.StringIO()):
        return cls._from_config(config)


def traced(name: str, config: Any, seconds: int = 60) -> nn.Module:
    """The network on the meta device, its parameters with the formulas of their axes; its configuration is changed."""
    cls = getattr(transformers, name)
    tracing.named(config)
    with (
        limit(seconds),
        torch.device("meta"),
        tracing.shadowed(cls.__module__),
        tracing.parameters(),
        tracing.Recording(),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        return cls._from_config(config)


def fields(config: Any) -> Flat:
    """The values of a configuration's own keys, sub-configurations flattened."""
    common = {each.name for each in dataclasses.fields(PreTrainedConfig)} - {
        "is_encoder_decoder",
        "tie_word_embeddings",
    }
    names = {each.name for each in dataclasses.fields(config)} - common
    names |= {"tie_word_embeddings"}
    extra = {key for key in vars(config) if not key.startswith("_") and key not in common}
    found: Flat = {}
    for name in sorted(names | extra):
        value = vars(config).get(name)
        if isinstance(value, PreTrainedConfig):
            found[f"{name}.model_type"] = value.model_type
            found.update({f"{name}.{key}": each for key, each in fields(value).items()})
        elif isinstance(value, dict):
            for key, each in value.items():
                if str(key).isidentifier() and isinstance(each, (bool, int, float, str)):
                    found[f"{name}.{key}"] = each
        elif value is None or isinstance(value, (bool, int, float, str, list, tuple)):
            found[name] = list(value) if isinstance(value, tuple) else value
    return found


def sub_configs(config: Any, path: str = "") -> dict[int, str]:
    """The path of every sub-configuration, by identity."""
    found = {}
    for name, value in vars(config).items():
        if isinstance(value, PreTrainedConfig):
            found[id(value)] = f"{path}{name}"
            found.update(sub_configs(value, f"{path}{name}."))
    return found


def formulas(model: nn.Module) -> dict[str, tuple[str, ...]]:
    """The formulas of the axes of its parameters, where they are known."""
    named = model.named_parameters(remove_duplicate=False)
    return {name: getattr(each, tracing.AXES) for name, each in named if hasattr(each, tracing.AXES)}


def tensors(model: nn.Module) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[str, str]]]:
    """Its own parameters, tied ones once; and the models within it that have a sub-configuration, with their class."""
    paths = sub_configs(model.config)
    inner: dict[str, tuple[str, str]] = {}
    for name, module in model.named_modules():
        is_part = name and isinstance(module, PreTrainedModel) and id(module.config) in paths
        if is_part and not any(name.startswith(f"{each}.") for each in inner):
            inner[name] = (type(module).__name__, paths[id(module.config)])
    named = list(model.named_parameters(remove_duplicate=False))
    within = {id(each) for name, each in named if any(name.startswith(f"{path}.") for path in inner)}
    found: dict[str, tuple[int, ...]] = {}
    for name, each in named:
        if id(each) not in within:
            within.add(id(each))
            found[name] = tuple(each.shape)
    return found, inner
