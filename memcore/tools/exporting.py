"""A config written in a tool's own words, and what of it the tool has no word for."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.config.settings import MODEL, SETTINGS, Config
from memcore.config.training import Training
from memcore.errors import ConfigError
from memcore.formats.modelfile import as_modelfile, of_modelfile
from memcore.formats.readers import flat as flattened
from memcore.formats.readers import of_command, read_command
from memcore.formats.tool import Syntax, Tool
from memcore.formats.writing import as_command, as_json, as_overrides, as_toml, as_yaml, nested
from memcore.messages import Message, joined
from memcore.networks.catalog import full_name
from memcore.records import dataclass
from memcore.tools.allocator import PATHS, written
from memcore.tools.convert import Imported, imported, of_keys
from memcore.tools.derived import data_ranks, gpus_of
from memcore.tools.launchers import RUN, started
from memcore.tools.table import TOOLS, runs, tool_of
from memcore.tools.tool_config import ToolConfig, tool_config


def syntax_of(tool: Tool, text: str) -> Syntax:
    """What a text of a tool is written in, where that hangs on the job's release."""
    return "python" if tool.code is not None and "\nfrom " in text else tool.syntax


@dataclass(frozen=True, slots=True)
class Exported:
    """A config as a tool's text."""

    tool: Tool
    text: str
    left_out: tuple[str, ...]
    """Settings that are not in the text, are something else to who reads it, or need more than the text."""
    reasons: tuple[str, ...] = ()
    """Why, for each of them."""
    command: str = ""
    """What starts the tool with its file on all GPUs, where the text is not a command itself."""
    silent: tuple[str, ...] = ()
    """Those of these settings that the text does not set at all, not even to a similar value."""
    wanted: tuple[str, ...] = ()
    """Those of these settings that are in the text and need more than it, as a checkpoint in another format."""

    @property
    def syntax(self) -> Syntax:
        """What the text is written in: Python, where the job's release of the tool reads that."""
        return syntax_of(self.tool, self.text)

    @property
    def file(self) -> str:
        """What its file is called."""
        return self.tool.file_in(self.syntax)

    def to_dict(self) -> dict[str, Any]:
        """A plain dictionary."""
        lost = {"left_out": list(self.left_out), "reasons": list(self.reasons)}
        return {"tool": self.tool.name, "file": self.file, "text": self.text, "command": self.command, **lost}


def exported(config: Config, to: str | None = None, taken: Mapping[str, Any] | None = None) -> Exported:
    r"""A config in the words of the tool that runs it, or of another one.

    Where a missing key means something else to the tool than to the config, it is said: `taken` is what an estimate of
    the config took for settings that it leaves open. What is left out is what the text, read again, does not say.

    >>> exported(Config.from_dict({"model": "gpt2", "engine": {"type": "vllm"}})).text
    'vllm serve openai-community/gpt2\n'

    Raises ConfigError for a tool that is not known, or that does not run the config's engine.
    """
    taken = taken or {}
    if config[EngineSettings.type] is None and taken.get(EngineSettings.type):
        config = config.replaced(EngineSettings.type, taken[EngineSettings.type])
    tool = tool_of(config) if to is None else _named(to)
    if not runs(tool, config):
        raise _not_run(tool, config)
    config = tool.loads(config) if tool.loads is not None else config
    told = tool_config(tool, config, taken)
    text, read = _written(tool, told)
    back = _config_of(read)
    unread = _not_read_back(tool, told.config, back, read.config.get(MODEL))
    lost = {**unread, **(tool.wants(told.config) if tool.wants else {})}
    given = [path for path in SETTINGS if path in lost and config.get(path) is not None]
    assumed = [path for path in SETTINGS if path in lost and path not in given]
    reasons = tuple(Message("{}: {}", path, lost[path]) for path in (*given, *assumed))
    command = "" if tool.syntax in ("argv", "overrides") else told.command
    silent = tuple(path for path in given if path != MODEL and back.get(path) is None)
    wanted = tuple(path for path in lost if path not in unread)
    return Exported(tool, text, (*given, *assumed), reasons, command, silent, wanted)


def _named(to: str) -> Tool:
    written = [name for name, tool in TOOLS.items() if not tool.read_only]
    if to not in written:
        raise ConfigError.at("--to", "found {!r}; allowed: {}", to, joined(", ", written))
    return TOOLS[to]


def _not_run(tool: Tool, config: Config) -> ConfigError:
    engine = config[EngineSettings.type] or "none"
    if tool.knows is not None and engine in tool.engines and not tool.knows(config):
        return ConfigError.at("model", "found {!r:.80}; {} has no recipe for it", config.model, tool.title)
    lacking = next((path for path, value in tool.needs.items() if config.get(path) != value), None)
    absent = next((path for path in tool.requires if config.get(path) is None), None)
    if absent is not None and engine in tool.engines:
        return ConfigError.at(absent, "is required; a file of {} needs it", tool.title)
    if lacking is not None and engine in tool.engines:
        return ConfigError.at(
            lacking, "found {!r}; a file of {} needs {!r}", config.get(lacking), tool.title, tool.needs[lacking]
        )
    return ConfigError.at(
        EngineSettings.type, "found {!r}; {} needs engine.type {}", engine, tool.title, joined(", ", tool.engines)
    )


def _written(tool: Tool, told: ToolConfig) -> tuple[str, Imported]:
    """The text, and what is read of it."""
    plain = {name: value for name, value in told.keys.items() if not name.startswith("*")}
    if tool.syntax == "argv":
        text = as_command(told.command, plain)
        return text, of_keys(tool, read_command(text))
    if tool.syntax == "overrides":
        text = as_overrides(told.command, plain)
        return text, of_keys(tool, of_command(read_command(text))[1])
    if tool.syntax == "modelfile":
        text = as_modelfile({name: value for name, value in told.keys.items() if name == "*" or name in plain})
        return text, of_keys(tool, of_modelfile(text) or {})
    code = tool.code(told.config, plain) if tool.code is not None else ""
    if code:
        text = (f"{RUN}{told.command}\n" if told.command else "") + code
        return text, imported(text)
    content = nested(plain)
    if tool.syntax == "json":
        return as_json(content), of_keys(tool, flattened(content))
    run = f"{RUN}{told.command}\n" if told.command else ""
    text = run + (as_toml(content) if tool.syntax == "toml" else as_yaml(content))
    return text, of_keys(tool, {**started(tool, text), **flattened(content)})


def _not_read_back(tool: Tool, config: Config, back: Config, model: object) -> dict[str, str]:
    """Settings that are not read back as they were, and why; `model` is the model that is read."""
    lost: dict[str, str] = {
        path: Message("{} always sets {!r}", tool.title, back.get(path))
        for path in tool.fixed
        if config.get(path) is None and back.get(path) is not None
    }
    for path in SETTINGS:
        value = config.get(path)
        if value is None or (path == "model" and _is_same_model(tool, config, model)):
            continue
        if path == "model":
            lost[path] = Message("{} has no key for this model; set it in your launch script", tool.title)
        elif not _carried(tool, config, back, path):
            lost[path] = _why(tool, path, config)
    return lost


def _carried(tool: Tool, config: Config, back: Config, path: str) -> bool:
    """Whether a setting is read again, in whichever form, or follows from others."""
    value = config.get(path)
    if path == Training.gradient_accumulation_steps and (config.get(Parallelism.pipeline_parallel_size) or 1) > 1:
        return bool(back.get(path) == value)  # a pipeline has more where nothing is said
    if back.get(path) is None and _of_another_loop(config, back):
        return _follows(tool, config, back, path)  # what the job's own loop does by default may be something else
    return _read_back(tool, back, path) in (value, _spelled(tool, path, value)) or _follows(tool, config, back, path)


def _of_another_loop(config: Config, back: Config) -> bool:
    """Whether a file does not say which training loop the job has, whose defaults hold for what is not said."""
    loop = config[EngineSettings.framework]
    return loop is not None and back[EngineSettings.framework] != loop


def _spelled(tool: Tool, path: str, value: object) -> object:
    """A value in the form that the tool has for it, which is read as it is."""
    spelled = next((key.spelled for key in tool.keys if key.path == path and key.spelled is not None), None)
    found = None if spelled is None else spelled(value)
    return value if found is None else found


def _why(tool: Tool, path: str, config: Config) -> str:
    if path in PATHS and written(config, [path]):
        return Message("set {} in the environment", written(config, [path]))
    if path == Hardware.accelerator:
        return Message("run it on {}", config.get(path))
    if path == EngineSettings.framework:
        return Message("in this file, {}'s own defaults hold", tool.title)
    cannot = Message("{} cannot set it to {!r:.80} next to the other settings", tool.title, config.get(path))
    return cannot if path in tool.named else Message("no key in {}", tool.title)


def _config_of(read: Imported) -> Config:
    """What was read, without what no config holds."""
    config = Config({MODEL: "?"})
    for path, value in flattened(read.config).items():
        if path in SETTINGS and path != "model":
            with suppress(ConfigError):
                config = config.replaced(path, value)
    return config


def _read_back(tool: Tool, back: Config, path: str) -> object:
    """The value of a setting after reading; where it is not said, what the tool does without it."""
    value = back.get(path)
    if value is not None or path in tool.unsaid:
        return tool.unsaid.get(path) if value is None else value
    return _without(path)


@lru_cache(maxsize=512)
def _without(path: str) -> object:
    """What a missing setting means, where the schema says it in one word."""
    each = SETTINGS[path]
    try:
        return each.kind.parse(each.default) if each.default in _IN_ONE_WORD else None
    except ValueError:
        return None


_IN_ONE_WORD = ("true", "false", "none", "1")


def _follows(tool: Tool, config: Config, back: Config, path: str) -> bool:
    """Whether a setting follows from what else was read, as numbers of GPUs and ranks do."""
    if path in tool.implied:
        others = tool.implied[path].get(config.get(path))
        return others is not None and all(back.get(other) == value for other, value in others.items())
    if path in tool.called:
        return bool(config.get(path) == tool.called[path])
    if path == Hardware.num_gpus:
        return bool(gpus_of(back) == config.get(path))
    if path == EngineSettings.type:  # where nothing is said, several GPUs run another engine
        return config.get(path) == "none" and back.get(path) is None and (gpus_of(config) or 1) == 1
    if path in (Parallelism.data_parallel_size, Parallelism.data_parallel_shard_size):
        return data_ranks(back) == config.get(path) and back.get(path) is None
    return False


def _is_same_model(tool: Tool, config: Config, back: object) -> bool:
    described = tool.described(config) if tool.described is not None else None
    return _same_model(config.model, back) or (described is not None and _same_model(described, back))


def _same_model(model: object, back: object) -> bool:
    if isinstance(model, str):
        return isinstance(back, str) and full_name(back) in (full_name(model), full_name(model, serves=True))
    if not isinstance(model, Mapping) or not isinstance(back, Mapping):
        return False
    return all((back.get(name) or None) == (value or None) for name, value in model.items())
