"""There and back: a job in a tool's own file, read again, is the same job and needs the same bytes."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from functools import lru_cache
from random import Random
from typing import Any

import tomllib
import yaml  # type: ignore[import-untyped]

from fuzzing import corpus
from fuzzing.answers import BrokenError, Found, answered, expect, never_refused, normalized
from fuzzing.corpus import Tree
from fuzzing.jobs import ACCELERATOR_IDS, SIZES, applies, put, value_at
from fuzzing.values import right
from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.config.settings import SETTINGS, Config
from memcore.errors import MemcoreError, UnsupportedError
from memcore.estimation import estimate
from memcore.faces.render.applying import NEEDS
from memcore.formats.tool import Tool
from memcore.memory.estimate import Estimate
from memcore.registry import SERVERS
from memcore.tools import TOOLS, exported, imported, runs
from memcore.tools.convert import Imported
from memcore.tools.derived import data_ranks, gpus_of
from memcore.tools.exporting import Exported

WRITTEN = tuple(name for name, tool in TOOLS.items() if not tool.read_only)
"""Every tool that a job is written for."""
NAMED = ("gpt2", "qwen3-0.6b", "qwen3-30b-a3b", "deepseek-ai/DeepSeek-V2-Lite", "llama-2-7b", "gemma-2-2b")
"""Models that some tools take by name; all take Llama 3.1."""
MOST = 10
"""Settings of a job."""
OWN = 0.8
"""How often a value is one that the tool has a word for."""


def trip(rng: Random) -> Tree:
    """A job for one tool, each as often as any other, with settings that it can say, and what these wait for."""
    name = rng.choice(WRITTEN)
    tool = TOOLS[name]
    engine = rng.choice(tool.engines)
    found: Tree = {"engine": {"type": engine}}
    for path in rng.sample(_settings(name, engine), rng.randrange(MOST)):
        _put_with_needs(found, tool, path, rng)
    for path in tool.requires:
        _put_with_needs(found, tool, path, rng)
    for path, value in tool.needs.items():
        put(found, path, value)
    gpus = 1 if engine == "none" else rng.choice([1, 2, 4, 8])
    for path in SIZES:
        size = value_at(found, path)
        gpus *= size if isinstance(size, int) and "data" not in path else 1
    put(found, Hardware.num_gpus, gpus)
    if rng.random() < 0.5:
        put(found, Hardware.accelerator, rng.choice(ACCELERATOR_IDS))
    put(found, "model", rng.choice(rng.choice([("llama-3.1-8b",), ("llama-3.1-8b",), NAMED, corpus.networks()])))
    return {"tool": name, "config": found}


@lru_cache(maxsize=256)
def _settings(name: str, engine: str) -> Sequence[str]:
    """Settings of an engine's jobs, those that a tool has words for twice."""
    task = "training." if engine in SERVERS else "inference."
    apart = ("model", EngineSettings.type, Hardware.num_gpus)
    mine = [path for path in SETTINGS if path not in apart and not path.startswith(task) and applies(path, engine)]
    return [*mine, *(path for path in mine if path in TOOLS[name].named)]


def _put_with_needs(found: Tree, tool: Tool, path: str, rng: Random) -> None:
    if path in SIZES:
        put(found, path, rng.choice([1, 2, 2, 4]))
        return
    own = [each for key in tool.keys if key.path == path and key.values for each in key.values]
    own += [meaning.sets[path] for meaning in tool.meanings if path in meaning.sets]
    own = [each for each in own if each is not None]
    kind = SETTINGS[path].kind
    put(found, path, rng.choice(own) if own and rng.random() < OWN else right(kind, rng))
    need = NEEDS.get(path)
    if need is not None and need.path in SETTINGS and value_at(found, need.path) is None:
        values = [each for each in need.values if each in getattr(SETTINGS[need.path].kind, "options", ())]
        if values:
            put(found, need.path, rng.choice(values))
        else:
            _put_with_needs(found, tool, need.path, rng)


def of_trip(given: Any) -> None:
    """What a tool's file says is the job, apart from what it is said to leave out."""
    found = answered(normalized(given["config"]))
    tool = TOOLS[given["tool"]]
    if not may_be_written(found, tool):
        raise UnsupportedError("engine.type", "what was refused is what the tool needs")
    round_trip(found, tool)


def may_be_written(found: Found, tool: Tool) -> bool:
    """Whether a tool runs a job by the engine that it names, or that was taken for it."""
    config = found.job.config
    taken = {each.path: each.value for each in found.assumptions}
    return runs(tool, config.replaced(EngineSettings.type, taken.get(EngineSettings.type, config[EngineSettings.type])))


def round_trip(found: Found, tool: Tool) -> None:
    """Write an estimated job for a tool, read it, and estimate it again."""
    config = found.job.config
    taken = {each.path: each.value for each in found.assumptions}
    with never_refused(f"convert --to {tool.name}"):
        written = exported(config, tool.name, taken)
    _parsed(written.syntax, written.text)
    gpus = gpus_of(config) if Hardware.num_gpus in written.left_out else None
    with never_refused(f"import of its own export to {tool.name}"):
        back = imported(written.text, gpus)
    expect(back.tool is tool, f"a file of {tool.name} is read as one of {back.tool.name}")
    expect(not back.unknown, f"{tool.name} leaves keys of its own file: {back.unknown}")
    _comes_back(config, back, {**taken, EngineSettings.type: found.job.engine.name}, written.left_out)
    again = _completed(config, written, back)
    try:
        size = _bytes(estimate(again))
    except MemcoreError as error:  # what is left out may be needed by what is not
        expect(written.left_out, f"{tool.name} brings a refused job back: {error}")
        raise
    meant = _bytes(_in_its_loop(found, again))
    expect(size == meant, f"{tool.name} brings another job back: {size} bytes of {meant}")


_DATA = (Parallelism.data_parallel_size, Parallelism.data_parallel_shard_size)
"""Sizes that follow from the GPUs and the others."""


def _without(path: str) -> object:
    """Return what a setting is by default, where its text says it."""
    try:
        return SETTINGS[path].kind.parse(SETTINGS[path].default)
    except ValueError:
        return None


def _parsed(syntax: str, written: str) -> None:
    """Read a file as its tool does."""
    try:
        if syntax == "toml":
            tomllib.loads(written)
        elif syntax == "yaml":
            expect(isinstance(yaml.safe_load(written), dict), "no YAML mapping is written")
        elif syntax == "json":
            json.loads(written)
        elif syntax == "python":
            compile(written, "job.py", "exec")
        elif syntax in ("argv", "overrides"):
            shlex.split(written)
    except (ValueError, SyntaxError, yaml.YAMLError) as error:
        raise BrokenError(f"its own parser does not read the {syntax} that is written: {error}\n{written}") from error


def _bytes(found: Found) -> int:
    return (found.allocated if isinstance(found, Estimate) else found.device).expected


def _in_its_loop(found: Found, again: Config) -> Found:
    """A job that names no loop is one of the file's loop, with what the file says and the job did not."""
    config = found.job.config
    if again.get(EngineSettings.framework) == config.get(EngineSettings.framework):
        return found
    said = {path: value for path, value in again.values.items() if config.get(path) is None}
    return estimate(Config({**config.values, **said}))


def _completed(config: Config, written: Exported, back: Imported) -> Config:
    """What is read of an export, with what it says to leave out and on which GPUs it runs."""
    again = Config.from_dict({**back.config, "model": config.model})
    for path in {*written.left_out} - {"model"}:
        again = again.replaced(path, config.get(path))
    return again.replaced(Hardware.num_gpus, gpus_of(config))


def _comes_back(config: Config, back: Imported, taken: Mapping[str, object], left_out: Sequence[str]) -> None:
    """What a file does not leave out is the same when it is read."""
    again = Config.from_dict({"model": config.model, **back.config})
    for path in SETTINGS:
        value = config.get(path)
        if value is None or path in ("model", "engine.framework", "engine.framework_version", *back.tool.implied):
            continue
        # A tool without a key for it has always one rank.
        same = path in left_out or again.get(path) == value
        same = same or (path.startswith("parallelism.") and (again.get(path) or 1) == value)
        same = same or (path == Hardware.num_gpus and gpus_of(again) == value)
        same = same or (path in _DATA and again.get(path) is None and data_ranks(again) == value)
        # What is not said is what is taken without it.
        usual = (_without(path), taken.get(path), back.tool.unsaid.get(path))
        same = same or (again.get(path) is None and value in usual)
        expect(same, f"{back.tool.name} brings {path} back: {again.get(path)!r} of {value!r}")
