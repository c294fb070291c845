"""A tool's text to a config, and a config to a tool's text; nothing is dropped in silence."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from memcore.config.settings import SETTINGS, Config
from memcore.errors import ConfigError, Problem
from memcore.formats.derived import derived, unread, whole_batch
from memcore.formats.readers import read_file
from memcore.formats.tool import Key, Tool
from memcore.formats.tools import TOOLS, tool_of
from memcore.model.catalog import full_name

_UNSET = ("auto", "default", -1)
"""How files say that the tool should decide."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What a text says of a job."""

    tool: Tool
    config: Mapping[str, Any]
    """As `Config.from_dict` takes it; `model` is absent where the text names none."""
    read: tuple[tuple[str, str], ...]
    """Keys that were understood, and the settings that they became."""
    assumed: tuple[tuple[str, Any], ...]
    """Settings that the tool's own defaults gave."""
    unknown: tuple[str, ...]
    """Keys that were not understood; what memory does not depend on is not among them."""
    notes: tuple[str, ...] = ()
    """What else was taken or left out, and why."""


@dataclass(frozen=True, slots=True)
class Exported:
    """A config as a tool's text."""

    tool: Tool
    text: str
    left_out: tuple[str, ...]
    """Settings that the tool has no key for."""


def imported(text: str, gpus: int | None = None) -> Imported:
    """A config from another tool's file or command line; `gpus` is their number, where the text does not say it.

    >>> imported("vllm serve org/model --tensor-parallel-size 2").config["parallelism"]
    {'tensor_parallel_size': 2}

    Raises ConfigError for a text that cannot be read, or that no known tool wrote, and UnsupportedError for what makes
    another network of it.
    """
    said: list[str] = []
    syntax, found = read_file(text, said)
    tool = _recognized(syntax, found)
    notes = tuple(said)
    if tool.settled is not None:
        found, settled = tool.settled(found)
        notes += tuple(settled)
    flat: dict[str, Any] = {}
    read: dict[str, str] = {}
    for name, path, value in _understood(tool, found):
        flat[path] = value
        read[name] = path
    for name, path, value in derived(tool, found, flat, gpus):
        flat[path] = value
        read[name] = path
    notes += tuple(unread(tool, found, flat, gpus))
    assumed = {path: value for path, value in tool.defaults.items() if path not in flat and path in SETTINGS}
    engine = {} if tool.engines[0] == "none" else {"engine.type": tool.engines[0]}
    config = _nested({**engine, **assumed, **_unscaled(tool, flat)})
    model = _model(tool, found)
    if model is not None:
        config = {"model": model, **config}
    known = {*read, *tool.dimensions, *tool.world, tool.batch, "", "*", tool.model, *_told(tool, found)}
    unknown = [name for name in found if name not in known and not _ignored(tool, name)]
    return Imported(tool, config, tuple(read.items()), tuple(assumed.items()), tuple(unknown), notes)


def _told(tool: Tool, found: Mapping[str, Any]) -> Iterator[str]:
    """Keys that say what a missing setting means: values left to the tool, and switches that are off."""
    for key in tool.keys:
        yield from (name for name in key.names if found.get(name) in _UNSET)
    for meaning in tool.meanings:
        yield from (name for name, value in meaning.keys.items() if value is True)


def _ignored(tool: Tool, name: str) -> bool:
    return any(fnmatchcase(name, each) for each in tool.ignored)


def _recognized(syntax: str, found: Mapping[str, Any]) -> Tool:
    program = str(found.get("", ""))
    for tool in TOOLS.values():
        if any(prefix in program for prefix in tool.prefixes):
            return tool
    for tool in TOOLS.values():
        same = tool.syntax == syntax or {tool.syntax, syntax} <= {"json", "yaml"}
        if same and any(name == each or name.startswith(f"{each}.") for name in found for each in tool.tells):
            return tool
    names = ", ".join(tool.title for tool in TOOLS.values())
    raise ConfigError([Problem("the file", f"is of no tool that is known; known are {names}, and config.json")])


def _understood(tool: Tool, found: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Keys with their settings and values; what several keys say together comes last, and is what holds."""
    for key in tool.keys:
        for name in key.names:
            if name in found and found[name] not in _UNSET:
                yield name, key.path, _ours(key, name, found[name])
        if key.off and key.off in found:
            yield key.off, key.path, False
    for meaning in tool.meanings:
        if all(name in found and found[name] == value for name, value in meaning.keys.items()):
            for path, value in meaning.sets.items():
                yield next(iter(meaning.keys)), path, value


def _ours(key: Key, name: str, value: Any) -> Any:
    if key.in_capitals and isinstance(value, str):
        return value.upper()
    if key.values is None:
        return int(value) if isinstance(value, float) and value.is_integer() and value > 1 else value
    for ours, theirs in key.values.items():
        if value == theirs:
            return ours
    if isinstance(value, bool) and value in key.values:
        return value  # a bare flag
    allowed = ", ".join(str(each) for each in key.values.values())
    raise ConfigError([Problem(name, f"found {value!r}; read are {allowed}")])


def _unscaled(tool: Tool, flat: Mapping[str, Any]) -> dict[str, Any]:
    scaled = {key.path: flat.get(key.times) or 1 for key in tool.keys if key.times}
    return {
        path: value // scaled[path] if isinstance(value, int) and isinstance(scaled.get(path), int) else value
        for path, value in flat.items()
    }


def _model(tool: Tool, found: Mapping[str, Any]) -> Any:
    dimensions = {ours: found[theirs] for theirs, ours in tool.dimensions.items() if theirs in found}
    if dimensions:
        return {"model_type": tool.family or tool.name, **dimensions}
    return found.get(tool.model) if tool.model else None


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    config: dict[str, Any] = {}
    for path, value in flat.items():
        *sections, last = path.split(".")
        here = config
        for section in sections:
            here = here.setdefault(section, {})
        here[last] = value
    return config


def flag(config: Config, path: str, value: Any = None) -> str | None:
    """A setting as the tool that runs a config calls it, with a value if one is given; None if it has no such key.

    >>> flag(Config.from_dict({"model": "gpt2", "engine": {"type": "vllm"}}), "inference.max_model_len", 4096)
    '--max-model-len 4096'
    """
    tool = tool_of(config)
    if value is None:
        return tool.named.get(path)
    said = list(_said(tool, config.replaced(path, value), path))
    return " ".join(_argument(name, said_as) for name, said_as in said) or None


_OURS: Mapping[str, Any] = {
    "training.dropout.hidden": 0.0,
    "training.dropout.attention": 0.0,
    "parallelism.pipeline_schedule": "1f1b",
}
"""What a missing setting means here, where nothing is noted of it."""


def exported(config: Config, to: str | None = None, taken: Mapping[str, Any] | None = None) -> Exported:
    """A config in the words of the tool that runs it, or of another one.

    Where a missing key means something else to the tool than to the config, it is said: `taken` is what an estimate of
    the config took for settings that it leaves open.

    Raises ConfigError for a tool that is not known, or that does not run the config's engine.
    """
    tool = tool_of(config) if to is None else _named(to)
    engine = config.engine.type or "none"
    if engine not in tool.engines:
        runs = ", ".join(tool.engines)
        raise ConfigError([Problem("engine.type", f"found {engine!r}; {tool.title} is for {runs}")])
    known = {**_OURS, **(taken or {})}
    for path, theirs in tool.defaults.items():
        if path in known and config.get(path) is None and known[path] != theirs:
            config = config.replaced(path, known[path])
    given = [path for path in SETTINGS if path != "model" and config.get(path) is not None]
    said: dict[str, Any] = {}
    left_out = []
    for path in given:
        found = dict(_said(tool, config, path))
        said |= found
        if not found and path not in ("engine.type", "engine.framework", "engine.framework_version"):
            left_out.append(path)
    model = _said_model(tool, config)
    left_out += [] if model else ["model"]
    said = {**model, **said}
    said |= dict(needed for name, needed in tool.alongside.items() if name in said)
    whole = whole_batch(config)
    if tool.batch and whole is not None and "training.gradient_accumulation_steps" in left_out:
        said[tool.batch] = whole
        left_out.remove("training.gradient_accumulation_steps")
    return Exported(tool, _written(tool, said), tuple(left_out))


def _named(to: str) -> Tool:
    if to not in TOOLS:
        raise ConfigError([Problem("--to", f"found {to!r}; allowed: {', '.join(TOOLS)}")])
    return TOOLS[to]


def _said(tool: Tool, config: Config, path: str) -> Iterator[tuple[str, Any]]:
    """The keys that say one setting."""
    value = config.get(path)
    for key in tool.keys:
        if key.path == path and not key.name.startswith("*") and (key.values is None or value in key.values):
            if key.off is not None:
                yield from [(key.name, True)] if value else [(key.off, True)] if key.off else []
            else:
                times = (config.get(key.times) or 1) if key.times else 1
                yield key.name, value * times if times != 1 else value if key.values is None else key.values[value]
            return
    for meaning in tool.meanings:
        if path in meaning.sets and all(config.get(each) == wanted for each, wanted in meaning.sets.items()):
            yield from meaning.keys.items()
            return


def _said_model(tool: Tool, config: Config) -> dict[str, Any]:
    model = config.model
    if isinstance(model, str):
        return {tool.model: full_name(model)} if tool.model else {}
    if tool.dimensions and model.get("model_type") == (tool.family or tool.name):
        return {theirs: model[ours] for theirs, ours in tool.dimensions.items() if model.get(ours) not in (None, False)}
    return {}


def _written(tool: Tool, said: Mapping[str, Any]) -> str:
    if tool.syntax == "argv":
        words = [tool.program, shlex.quote(str(said["*"]))] if "*" in said else [tool.program]
        arguments = [_argument(name, value) for name, value in said.items() if not name.startswith("*")]
        return " \\\n  ".join([" ".join(words), *arguments]) + "\n"
    nested = _nested({name: value for name, value in said.items() if not name.startswith("*")})
    if tool.syntax == "json":
        return json.dumps(nested, indent=2) + "\n"
    return _toml(nested) if tool.syntax == "toml" else _yaml(nested)


def _argument(name: str, value: Any) -> str:
    if not name.startswith("-"):
        return f"{name}: {_text(value)}"
    if value is True:
        return name
    values = value if isinstance(value, (list, tuple)) else [value]
    return " ".join([name, *(shlex.quote(str(each)) for each in values)])


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(list(value) if isinstance(value, tuple) else value)


def _toml(nested: Mapping[str, Any]) -> str:
    tables = [
        "\n".join([f"[{name}]", *(f"{key} = {_text(value)}" for key, value in table.items())])
        for name, table in nested.items()
    ]
    return "\n\n".join(tables) + "\n"


def _yaml(nested: Mapping[str, Any], indent: str = "") -> str:
    lines = []
    for key, value in nested.items():
        if isinstance(value, Mapping):
            lines.append(f"{indent}{key}:\n{_yaml(value, indent + '  ')}")
        else:
            lines.append(f"{indent}{key}: {_text(value)}\n")
    return "".join(lines)
