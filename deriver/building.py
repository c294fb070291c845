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
from functools import lru_cache, reduce
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn
from transformers import AutoConfig, PreTrainedConfig, PreTrainedModel
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from deriver import tracing

CACHES = Path(__file__).parent.parent / "build" / "deriver"
"""Where rows and counts that were found are kept."""

TABLES = ("IMAGE_TEXT_TO_TEXT", "SEQ_TO_SEQ_CAUSAL_LM", "SPEECH_SEQ_2_SEQ", "MASKED_LM", "CAUSAL_LM", "MULTIMODAL_LM")
"""Auto classes of language models; the first that lists a type says which class its checkpoints mostly have."""
CHECKPOINTS = {
    "colpali": "ColPaliForRetrieval",
    "colqwen2": "ColQwen2ForRetrieval",
    "glm_image": "GlmImageForConditionalGeneration",
    "musicgen": "MusicgenForConditionalGeneration",
    "musicgen_melody": "MusicgenMelodyForConditionalGeneration",
}
"""Types whose checkpoints have another class than the tables say: theirs is the decoder's, or has no head."""
OF_BACKBONES = re.compile(r"_?out_(indices|features)|stage_names")
"""Keys of towers that say which layers' results are wanted; they follow from the number of layers."""
Config = dict[str, Any]
Flat = dict[str, Any]
"""Keys with dots, as in `text_config.hidden_size`."""


def _table(name: str) -> Mapping[str, Any]:
    return getattr(modeling_auto, f"MODEL_FOR_{name}_MAPPING_NAMES")


def types() -> list[str]:
    """Every `model_type` of a language model."""
    return sorted({name for table in TABLES for name in _table(table)})


USES = {
    "VIDEO": "videos",
    "DETECTION|SEGMENTATION|DEPTH|IMAGE|MASK_GENERATION|KEYPOINT|BACKBONE|VISUAL": "images",
    "AUDIO|SPEECH|CTC|WAVEFORM|SPECTROGRAM|RNNT|TDT": "sounds",
    "TIME_SERIES": "time series",
}
"""What a type works on, by the names of the auto classes that list it; the first match counts."""


def use(model_type: str) -> str | None:
    """Return what a type works on, empty if no auto class says so; None for parts of other types, which none lists."""
    tables = {
        name: table for name, table in vars(modeling_auto).items() if re.fullmatch(r"MODEL_.*MAPPING_NAMES", name)
    }
    listed = [name for name, table in tables.items() if model_type in table]
    if not listed:
        return None
    return next((word for mark, word in USES.items() if any(re.search(mark, name) for name in listed)), "")


def class_name(model_type: str) -> str:
    """The class that its checkpoints mostly have."""
    if model_type in CHECKPOINTS:
        return CHECKPOINTS[model_type]
    tables = [*map(_table, TABLES), modeling_auto.MODEL_MAPPING_NAMES]
    found = next((table[model_type] for table in tables if model_type in table), "")
    name = found if isinstance(found, str) else found[0]
    return name if type_of(name) in (None, model_type) else f"{name}@{model_type}"


def base_name(model_type: str) -> str | None:
    """The class of its AutoModel."""
    found = modeling_auto.MODEL_MAPPING_NAMES.get(model_type)
    return found if found is None or isinstance(found, str) else found[0]


def classes(model_type: str) -> list[str]:
    """Every class that an auto class has for a type, and those that only its own module names."""
    tables = [table for name, table in vars(modeling_auto).items() if re.fullmatch(r"MODEL_.*MAPPING_NAMES", name)]
    found = [table[model_type] for table in tables if model_type in table]
    names = {name for each in found for name in ((each,) if isinstance(each, str) else each)}
    own = inspect.getmodule(find(class_name(model_type)))
    names |= {name for name in getattr(own, "__all__", ()) if re.search(r"For[A-Z]", name)}
    return sorted(name for name in names if type_of(name) == model_type)


def causal_name(model_type: str) -> str | None:
    """The class of its AutoModelForCausalLM."""
    found: str | None = _table("CAUSAL_LM").get(model_type)
    return found


def find(name: str) -> Any:
    """A class of transformers, also one that only its own module knows; None if there is none.

    What follows an @ is the type whose networks are of a class that another type has named.
    """
    name = name.partition("@")[0]
    found = getattr(transformers, name, None)
    if found is not None:
        return found
    own = [module for path, module in sorted(sys.modules.items()) if path.startswith("transformers.models.")]
    return next((vars(module)[name] for module in own if name in vars(module)), None)


def type_of(name: str) -> str | None:
    """The `model_type` of a class's configuration."""
    return getattr(getattr(find(name), "config_class", None), "model_type", None)


def type_within(config: Any, path: str, name: str) -> str | None:
    """The `model_type` of a model within another: its configuration's, where its class says another's."""
    inner = reduce(getattr, path.split("."), config)
    kind = getattr(find(name), "config_class", None)
    if kind is not None and isinstance(inner, kind):
        return type_of(name)
    return inner.model_type if inner.model_type in CONFIG_MAPPING else type_of(name)


def own(config: Any) -> set[str]:
    """The keys that its class declares, those of sub-configurations with dots."""
    # Every class takes this key: as a field, as an attribute without an annotation, or from the base class.
    found = {each.name for each in dataclasses.fields(config)} | {"tie_word_embeddings"}
    for name, value in vars(config).items():
        if isinstance(value, PreTrainedConfig):
            found |= {f"{name}.{each}" for each in own(value)}
        elif isinstance(value, dict):
            found |= {f"{name}.{key}" for key in value}
    return found


def follows(config: Any) -> set[str]:
    """Keys that its class declares without a value, which then follow from others."""
    return {each.name for each in dataclasses.fields(config) if each.default is None}


@lru_cache(maxsize=8)
def asked(name: str) -> Flat:
    """Keys that a class's module asks for though its configuration class does not declare them, with their defaults."""
    source = inspect.getsource(sys.modules[find(name).__module__])
    pattern = r"getattr\(\s*(?:self\.)?config,\s*[\"'](\w+)[\"'](?:,\s*([^(),]+))?\)"
    found: Flat = {}
    for key, default in re.findall(pattern, source):
        try:
            found[key] = ast.literal_eval(default.strip())
        except (ValueError, SyntaxError):
            found[key] = None
    if re.search("Classification|QuestionAnswering|MultipleChoice|PreTraining", name):
        found["num_labels"] = 2
    for other in ("_attn_implementation", *find(name).config_class.attribute_map):
        found.pop(other, None)
    return {**found, **_older(inspect.getsource(find(name).config_class))}


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
    for key in sorted(keys - {*plain, "model_type", "dtype", "torch_dtype", "rope_theta", "rope_scaling"}):
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
    """Raise this after so many seconds of CPU time, however busy the machine is."""

    def stop(*_: object) -> None:
        raise raised

    before = signal.signal(signal.SIGPROF, stop)
    left, _ = signal.setitimer(signal.ITIMER_PROF, seconds)
    started = time.process_time()
    try:
        yield
    finally:
        signal.signal(signal.SIGPROF, before)
        # A limit around this one goes on.
        signal.setitimer(signal.ITIMER_PROF, max(0.01, left - (time.process_time() - started)) if left else 0)


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
    cls = find(name)
    with limit(seconds), torch.device("meta"), contextlib.redirect_stdout(io.StringIO()):
        return cls._from_config(config)


def traced(name: str, config: Any, seconds: int = 60) -> nn.Module:
    """The network on the meta device, its parameters with the formulas of their axes; its configuration is changed."""
    cls = find(name)
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
    names = {each for each in names if not OF_BACKBONES.fullmatch(each)} | {"tie_word_embeddings"}
    extra = {key for key in vars(config) if not (key.startswith("_") or key in common or OF_BACKBONES.fullmatch(key))}
    found: Flat = {}
    for name in sorted(names | extra):
        value = vars(config).get(name, getattr(type(config), name, None))
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


def other_names(config: Any, path: str = "") -> dict[str, str]:
    """Other names of keys."""
    found = {f"{path}{one}": f"{path}{other}" for one, other in config.attribute_map.items()}
    for name, value in vars(config).items():
        if isinstance(value, PreTrainedConfig):
            found.update(other_names(value, f"{path}{name}."))
    return found


def kinds(model_type: str, defaults: Flat) -> Flat:
    """The types of sub-configurations that may be any type's, which a file has to name."""
    found = CONFIG_MAPPING[model_type].sub_configs
    names = [f"{name}.model_type" for name, kind in found.items() if kind is AutoConfig]
    return {name: defaults[name] for name in names if name in defaults}


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


def tensors(model: nn.Module) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[str, str]], set[str]]:
    """Its own parameters, tied ones once; and the models within it that have a sub-configuration, with their class.

    Last, parameters of those models that are other names of tensors seen before.
    """
    paths = sub_configs(model.config)
    inner: dict[str, tuple[str, str]] = {}
    for name, module in model.named_modules():
        is_part = name and isinstance(module, PreTrainedModel) and id(module.config) in paths
        if is_part and not any(name.startswith(f"{each}.") for each in inner):
            inner[name] = (type(module).__name__, paths[id(module.config)])
    named = list(model.named_parameters(remove_duplicate=False))
    of_inner = [(name, id(each)) for name, each in named if any(name.startswith(f"{path}.") for path in inner)]
    within = {each for _, each in of_inner}
    first = {each: name for name, each in reversed(of_inner)}
    tied = {name for name, each in of_inner if first[each] != name and not re.search(r"\.\d+\.", name)}
    found: dict[str, tuple[int, ...]] = {}
    for name, each in named:
        if id(each) not in within:
            within.add(id(each))
            found[name] = tuple(each.shape)
    return found, inner, tied
