"""A config in the keys of a tool, and the command that starts it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from memcore import registry
from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.config.settings import SETTINGS, Config
from memcore.config.training import Training
from memcore.errors import MemcoreError
from memcore.formats.tool import Key, Tool
from memcore.networks.catalog import find_model, full_name
from memcore.records import dataclass
from memcore.tools.allocator import PATHS, written
from memcore.tools.derived import data_ranks, gpus_of, whole_batch

_NODE = 8
"""The most GPUs of a node where nothing is said."""
_OURS: Mapping[str, Any] = {
    Training.micro_batch_size: 1,
    Training.gradient_accumulation_steps: 1,
    Parallelism.tensor_parallel_size: 1,
    Parallelism.pipeline_parallel_size: 1,
    Parallelism.pipeline_schedule: "1f1b",
    Training.adapter.target_modules: "all-linear",
    EngineSettings.version: 2,
}
"""What a missing setting means here, where nothing is noted of it."""
_GPUS, _DATA = Hardware.num_gpus, Parallelism.data_parallel_size
_ADAPTER = "training.adapter."
_HIDDEN, _SCORES = Training.dropout.hidden, Training.dropout.attention


@dataclass(frozen=True, slots=True)
class ToolConfig:
    """What a tool is told of a job."""

    config: Config
    """The job, with what was assumed and has to be said."""
    keys: Mapping[str, Any]
    """The keys of the file, dotted, or of the command line; a model that follows the program is `*`."""
    command: str
    """What starts the tool; for a command line, what it begins with. Empty if nobody says on how many GPUs."""


def tool_config(tool: Tool, config: Config, taken: Mapping[str, Any]) -> ToolConfig:
    """Return what a tool is told of a job; `taken` is what an estimate takes for what the config leaves open."""
    known = {**_OURS, **_dropout(tool, config), **taken}
    config = _with_assumed(tool, config, known)
    keys: dict[str, Any] = {**model_keys(tool, config), **tool.always}
    adapts = _adapts(tool, config, known)
    for path in SETTINGS:
        if path != "model" and config.get(path) is not None and (adapts or not path.startswith(_ADAPTER)):
            keys |= dict(keys_of(tool, config, path, known))
    for path, absent in tool.without.items():
        keys |= absent if config.get(path) is None or (path.startswith(_ADAPTER) and not adapts) else {}
    for needed, value in (needed for name, needed in tool.alongside.items() if name in keys):
        keys[needed] = [*keys.get(needed, ()), *value] if isinstance(value, list) else value
    keys |= _in_all(tool, config, keys)
    keys = dict(tool.placed(keys)) if tool.placed is not None else keys
    keys = {**tool.otherwise(config), **keys} if tool.otherwise is not None else keys
    own = tool.written(config) if tool.written is not None else {}
    keys = {name: value for name, value in {**keys, **own}.items() if value is not None or name not in own}
    command, counts = _command(tool, config, keys)
    keys = {name: value for name, value in keys.items() if not (counts and name in tool.world)}
    around = _environment(tool, config) if command else ""
    return ToolConfig(config, keys, f"{around} {command}".strip())


def _environment(tool: Tool, config: Config) -> str:
    """Return the variables of the tool's processes, where it does not set them as the job has them."""
    names = registry.merged("spelling", "TOOL_NAMES").get(config[EngineSettings.type] or "none", {})
    told = [each for each in PATHS if each in names and (tool.defaults.get(each) or False) != config.get(each)]
    return written(config, told)


def _dropout(tool: Tool, config: Config) -> dict[str, float]:
    """Return what the model's own config says of dropout, for tools that do not read it."""
    if _HIDDEN not in tool.defaults:
        return {}
    try:
        layers = find_model(config.model).network.kinds
    except MemcoreError:
        return {}
    mixers = (getattr(mixer, "dropout", 0.0) for layer in layers for mixer in layer.mixers)
    return {_HIDDEN: max(layer.dropout for layer in layers), _SCORES: max(mixers, default=0.0)}


def _with_assumed(tool: Tool, config: Config, known: Mapping[str, Any]) -> Config:
    """Return the config with what was assumed, where the tool would take something else."""
    sizes = {_DATA: data_ranks(config), _GPUS: gpus_of(config)}
    known = {**known, **{path: size for path, size in sizes.items() if size}}
    adapts = _adapts(tool, config, known)
    for path, theirs in {**tool.defaults, **tool.unsaid}.items():
        engines = SETTINGS[path].engines
        applies = engines is None or (config[EngineSettings.type] or "none") in engines
        applies &= not path.startswith(_ADAPTER) or adapts
        if applies and config.get(path) is None and known.get(path, theirs) != theirs:
            config = config.replaced(path, known[path])
    return config


def _adapts(tool: Tool, config: Config, known: Mapping[str, Any]) -> bool:
    """Whether there is an adapter that the tool has a word for; settings of another one would be those of its own."""
    kind = Training.adapter.type
    chosen = config.get(kind)
    return chosen is not None and (chosen in tool.adapters or any(keys_of(tool, config, kind, known)))


def keys_of(tool: Tool, config: Config, path: str, known: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the keys that say one setting; none if the tool has no words for its value."""
    value = config.get(path)
    if any(config.get(other) != wanted for other, wanted in tool.only_with.get(path, {}).items()):
        return
    for key in tool.keys:
        if key.path == path and not key.name.startswith("*") and _has_word(key, value):
            if key.off is not None:
                yield from [(key.name, True)] if value else [(key.off, True)] if key.off else []
            else:
                times = (config.get(key.times) or 1) if key.times else 1
                theirs = value * times if times != 1 else _key_value(key, value)
                yield from [] if theirs is None else [(key.name, theirs)]
            return
    meant = [each for each in tool.meanings if each.sets.get(path) == value and path in each.sets]
    meant = [each for each in meant if not any(name.startswith("*") for name in each.keys)]
    for taken, open_ in (({}, False), (known, False), (known, True)):
        for meaning in meant:
            if all(_means(config, other, wanted, taken, open_=open_) for other, wanted in meaning.sets.items()):
                yield from meaning.keys.items()
                return


def _has_word(key: Key, value: Any) -> bool:
    return value in key.values if key.values is not None else not key.but or value != key.but


def _key_value(key: Key, value: Any) -> Any:
    if key.spelled is not None:
        return key.spelled(value)
    if key.joined and isinstance(value, list):
        return ",".join(value)
    return value if key.values is None else key.values[value]


def _means(config: Config, path: str, wanted: object, taken: Mapping[str, Any], *, open_: bool) -> bool:
    """Whether a setting has a value, or is taken for it; what is neither given nor taken may be anything if `open_`."""
    given = config.get(path)
    value = taken.get(path) if given is None else given
    return open_ if value is None else bool(value == wanted)


def model_keys(tool: Tool, config: Config) -> dict[str, Any]:
    """Return the keys that name the model, or describe it."""
    model = config.model
    if tool.described is not None:
        model = tool.described(config) or model
    if isinstance(model, str):
        name = full_name(model, serves=tool.engines[0] in registry.SERVERS)
        if tool.models is not None:
            return dict(tool.models.get(name, {}))
        tag = config.get(tool.tag) if tool.tag else None
        if tool.model_as is not None and tool.model:
            return dict(tool.model_as(name, tag))
        return {tool.model: name + (f":{tag.upper()}" if tag else "")} if tool.model else {}
    if not tool.dimensions or model.get("model_type") != (tool.family or tool.name):
        return {}
    absent = (None, False) if tool.syntax == "argv" else (None,)
    return {
        theirs: model[ours]
        for theirs, ours in tool.dimensions.items()
        if model.get(ours) not in absent and ours != "model_type"
    }


def _in_all(tool: Tool, config: Config, keys: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the sequences of a whole step, and how many groups hold all shards: what follows from several settings."""
    whole = whole_batch(config, tool.named)
    if tool.batch and whole is not None:
        yield tool.batch, whole
    ranks, shards = data_ranks(config), config.get(Parallelism.data_parallel_shard_size)
    if tool.copies and ranks and shards:
        whole_copies = shards * ((config.get(Parallelism.expert_parallel_size) or 1) if tool.experts_apart else 1)
        if ranks > whole_copies and ranks % whole_copies == 0:
            yield tool.copies, ranks // whole_copies


def _command(tool: Tool, config: Config, keys: Mapping[str, Any]) -> tuple[str, bool]:
    """Return what starts the tool, and whether that says on how many GPUs."""
    script = tool.scripts.get(str(keys.get("*architecture")), "")
    gpus = gpus_of(config)
    launch = tool.launch_of(config) if tool.launch_of is not None else tool.launch
    if launch and gpus:
        most = config.get(Hardware.gpus_per_node) or _NODE
        each = max(size for size in range(1, min(most, gpus) + 1) if gpus % size == 0)
        nodes = gpus // each
        words = launch.format(all=gpus, nodes=nodes, each=each, file=tool.file)
        return _renamed(tool, words, script), True
    words = _renamed(tool, tool.program, script)
    return f"{words} {shlex.quote(str(keys['*']))}" if "*" in keys else words, False


def _renamed(tool: Tool, words: str, script: str) -> str:
    return words.replace(tool.prefixes[0], script) if script else words
