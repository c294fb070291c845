"""A tool's text to a config; nothing is dropped in silence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from fnmatch import fnmatchcase
from typing import Any

from memcore import registry
from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.settings import SETTINGS, Config
from memcore.config.training import Training
from memcore.errors import ConfigError, MemcoreError, UnsupportedError
from memcore.formats.containers import CARD, RELEASE
from memcore.formats.normalized import GPUS
from memcore.formats.notebooks import code_of, docstring_of
from memcore.formats.objects import STARTED, options
from memcore.formats.readers import SeveralJobs, of_command, read_command, read_file, starts
from memcore.formats.shell import ENVIRONMENT, OUTSIDE
from memcore.formats.tool import Key, Tool
from memcore.formats.writing import argument, nested
from memcore.messages import Message, joined
from memcore.networks.catalog import catalog, find_model, full_name
from memcore.records import dataclass
from memcore.tools.accounts import Accounts, accounted, matters, silenced, without_ignored
from memcore.tools.allocator import allocator
from memcore.tools.commands_within import commands_within, starts_commands
from memcore.tools.derived import derived, unread
from memcore.tools.fine_tuning import TRAINER
from memcore.tools.launchers import ElsewhereError, started, surroundings
from memcore.tools.scripts import SERVED, of_instantiated, of_script
from memcore.tools.switches import switched
from memcore.tools.table import TOOLS, tool_of
from memcore.tools.tool_config import keys_of
from memcore.tools.vocabulary import is_flag, unabbreviated

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
    accounts: Accounts
    """What became of the other keys."""
    notes: tuple[str, ...] = ()
    """What else was taken or left out, and why."""
    found: Mapping[str, Any] = field(default_factory=dict)
    """The keys of the text."""

    @property
    def unknown(self) -> tuple[str, ...]:
        """Keys that were left out though memory may depend on them."""
        return (*self.accounts.left_out, *self.accounts.unknown)


def imported(text: str, gpus: int | None = None, job: int | None = None) -> Imported:
    """Return a config from another tool's file or command line; `gpus` is their number, where the text does not say it.

    Of a text with the commands of several jobs, `job` is the one that is meant, from 1.

    >>> imported("vllm serve org/model --tensor-parallel-size 2").config["parallelism"]
    {'tensor_parallel_size': 2}

    Raises ConfigError for a text that cannot be read, or that no known tool wrote, and UnsupportedError for what makes
    another network of it.
    """
    said: list[str] = []
    try:
        script = _script(text)
        if script is not None:
            syntax, found, notes = script
            tool = TRAINER if STARTED in options() and syntax == "yaml" else _recognized(syntax, found)
            return of_keys(tool, {**(started(tool, text) if tool.code else {}), **found}, gpus, notes)
        syntax, found = ("argv", read_command(text)) if _is_bare(text) else read_file(text, said)
    except SeveralJobs as several:
        return _one_of(several, gpus, job, text)
    made = of_instantiated(found) if syntax in _NESTED else None
    if made is not None:
        return of_keys(_recognized("yaml", made[0]), made[0], gpus, (*said, *made[1]))
    syntax, found = _launched(*_with_dashes(syntax, found))
    tool = _recognized(syntax, found)
    _raise_elsewhere(tool, found)
    return of_keys(tool, {**started(tool, text), **found}, gpus, said)


def is_command(text: str) -> bool:
    """Return whether a text is the command that starts a job, as it is typed, even one that cannot be read.

    >>> is_command("vllm serve org/model"), is_command("Qwen3 8B on a 3090")
    (True, False)
    """
    if not _SEVERAL.search(text):
        return False
    try:
        imported(text)
    except UnsupportedError:
        return True
    except ConfigError:
        return _FLAG.search(text) is not None
    return True


_SEVERAL = re.compile(r"\S\s+\S")
"""Two words: the name of a file or of a model may have them too."""
_FLAG = re.compile(r"\s--?[A-Za-z]")
"""What no model's name has, and what makes even a command that cannot be read one."""


def of_composed(keys: Mapping[str, Any], gpus: int | None = None) -> Imported:
    """Return the same for the keys of a file that is in several texts."""
    made = of_instantiated(keys)
    if made is not None:
        return of_keys(_recognized("yaml", made[0]), made[0], gpus, made[1])
    return of_keys(_recognized("yaml", keys), keys, gpus)


def _script(text: str) -> tuple[str, Mapping[str, Any], tuple[str, ...]] | None:
    """Return what a Python script or a notebook says to a tool; None for another text."""
    code = code_of(text)
    if code is not None:
        _raise_registered(code)
    if code is not None and STARTED not in options() and _PARSED.search(code) and not _TOLD.search(code):
        return _documented(code)
    try:
        found = of_script(code) if code is not None and _CALLS.search(code) else None
    except SeveralJobs as each:
        raise _with_commands(each, text, str(code)) from None
    if found is None and code is not None and text.lstrip().startswith("{"):
        raise ConfigError.at("the file", "is a notebook that neither trains nor serves with a supported library")
    if found is None or code is None:
        return found
    syntax, keys, notes = found
    several = _with_commands(SeveralJobs([keys], [_title(keys)], [syntax], [notes]), text, code)
    if len(several.jobs) > 1:
        raise several
    return found


def commanded(text: str) -> str:
    """Return a notebook or a script that only starts what trains or serves as a shell's script; others as they are."""
    code = code_of(text)
    if not starts_commands(text, code):
        return text
    try:
        drives = code is not None and _CALLS.search(code) is not None and of_script(code) is not None
    except MemcoreError:
        drives = True
    script = "" if drives else commands_within(text, code)
    return script if starts(script) else text


def _with_commands(several: SeveralJobs, text: str, code: str) -> SeveralJobs:
    """Return a script's jobs and those of the commands that it starts, as far as they all serve or all train."""
    script = commands_within(text, code) if starts_commands(text, code) else ""
    commands: Sequence[Mapping[str, Any]] = ()
    try:
        commands = [read_command(script)] if starts(script) else ()
    except SeveralJobs as each:
        commands = each.jobs
    except MemcoreError:
        return several
    serves = several.syntaxes[0] == "argv"
    further = [each for each in (_launched(*of_command(keys)) for keys in commands) if _serves(*each) is serves]
    titles = [_title(keys) for _, keys in further]
    return SeveralJobs(
        [*several.jobs, *(keys for _, keys in further)],
        [*several.texts, *titles],
        [*several.syntaxes, *(syntax for syntax, _ in further)],
        [*several.said, *(() for _ in further)],
    )


def _title(keys: Mapping[str, Any]) -> str:
    """Return the beginning of a command by its keys."""
    return " ".join(f"{name} {value}".strip(" *") for name, value in [*keys.items()][:3])


def _serves(syntax: str, found: Mapping[str, Any]) -> bool | None:
    """Return whether a command serves a model; None for one of no tool that is known."""
    try:
        return _recognized(syntax, found).engines[0] in registry.SERVERS
    except MemcoreError:
        return None


def _raise_registered(code: str) -> None:
    """Raise SeveralJobs for a module whose functions make configs; each of them is one."""
    for tells, configs in registry.modules().items():
        found = list(configs(code)) if tells in code else []
        if found:
            raise SeveralJobs([keys for _, keys in found], [name for name, _ in found])


_PARSED = re.compile(r"\b(?:HfArgumentParser|TrlParser)\(")
"""Calls that take the configs of a script from its command line."""
_TOLD = re.compile(r"(?:TrainingArguments|Config)\(\s{0,80}\w{1,80}\s?=")
"""Calls of such configs in the script itself."""
_COMMAND = re.compile(
    r"^[ \t]*(?:python3?|accelerate launch|torchrun|deepspeed|trl) (?:[^\n]*\\\n)*[^\n]*$", re.MULTILINE
)


def _documented(code: str) -> tuple[str, Mapping[str, Any], tuple[str, ...]]:
    """Return the command that a script's own text begins with, where its arguments come from a command line.

    Raises SeveralJobs for several, and ConfigError for none.
    """
    said = [each for each in _COMMAND.findall(docstring_of(code)) if "--" in each]
    if not said:
        raise ConfigError.at(
            "the file", "takes its arguments from a command line; pass the command in a file, or as - on standard input"
        )
    note = "the script's arguments come from its command line: memcore read the command quoted in the script"
    return (*of_command(read_command("\n".join(said))), (note,))


_CALLS = re.compile(
    r"\b(?:from_pretrained|TrainingArguments|\w+(?:Config|Trainer|Args)|"
    rf"{'|'.join(name for each in SERVED for name in each.names)}|pipeline)\("
)
"""Calls without which a text is no script of a library that is known."""


def _one_of(several: SeveralJobs, gpus: int | None, job: int | None, text: str) -> Imported:
    """Return the job that is meant; the only one, where all commands describe the same."""
    if job is not None and job > len(several.jobs):
        raise ConfigError.at("the command", "found #{}; it has {} commands", job, len(several.jobs))
    if job is not None or len(several.jobs) == 1:
        index = (job or 1) - 1
        tool, found = _tool_and_keys(several, index)
        keys = {**(started(tool, text) if tool.code else {}), **found}
        return of_keys(tool, keys, gpus, several.said[index] if several.said else ())
    try:
        read = [of_keys(*_tool_and_keys(several, index), gpus) for index in range(len(several.jobs))]
    except MemcoreError:
        raise several from None
    first = read[0]
    if any((each.tool, each.config) != (first.tool, first.config) for each in read):
        raise several
    return replace(first, notes=(*first.notes, Message("{} commands describe the same job", len(read))))


def _tool_and_keys(several: SeveralJobs, index: int) -> tuple[Tool, Mapping[str, Any]]:
    """Return the tool that one of several jobs is of, and its keys."""
    keys = several.jobs[index]
    syntax, found = (several.syntaxes[index], keys) if several.syntaxes else _launched(*of_command(keys))
    tool = _recognized(syntax, found)
    _raise_elsewhere(tool, found)
    return tool, found


def of_keys(tool: Tool, found: Mapping[str, Any], gpus: int | None = None, said: Sequence[str] = ()) -> Imported:
    """Return what a tool's keys say of a job, behind what was `said` of the text."""
    found, ignored = without_ignored(found)
    notes, keys = (*said, *ignored), found
    if gpus and any(key.name == GPUS for key in tool.keys):
        found = {**found, GPUS: gpus} if isinstance(found.get(GPUS), str) else {GPUS: gpus, **found}
    named = {key.name for key in tool.keys}
    found = {**{name: value for name, value in surroundings().items() if name in named}, **found}
    if tool.abbreviates:
        found = {_whole(tool, name): value for name, value in found.items()}
    found = _switched(tool, found)
    before = found
    if tool.normalized is not None:
        found, normalized = tool.normalized(found)
        notes += tuple(normalized)
    flat: dict[str, Any] = {}
    read: dict[str, str] = {}
    for name, path, value in _understood(tool, found):
        flat[path] = value
        read[name] = path
    for name, path, value in derived(tool, found, flat, gpus):
        flat[path] = value
        read[name] = path
    notes += tuple(unread(tool, found, flat, gpus)) + tuple(_without_adapter(read, flat))
    for variable, path in (*_OF_NODES, *(_OF_IMAGES if tool.engines[0] in registry.SERVERS else ())):
        value = keys.get(f"{ENVIRONMENT}{variable}")
        if value is not None and path not in flat:
            flat[path] = str(value)
            read[f"{ENVIRONMENT}{variable}"] = path
    memory = allocator(keys, str(flat.get(EngineSettings.type, tool.engines[0])))
    flat |= memory.settings
    assumed = {path: value for path, value in tool.defaults.items() if path not in flat and path in SETTINGS}
    engine: Mapping[str, Any] = {} if tool.engines[0] == "none" else {EngineSettings.type: tool.engines[0]}
    config = nested({**engine, **assumed, **_unscaled(tool, flat)})
    model, folder = _at_home(_model(tool, found))
    notes += folder
    if model is not None:
        config = {"model": model, **config}
    known = {*read, *tool.dimensions, *tool.world, tool.batch, "", "*", tool.model, memory.key, *_unset(tool, found)}
    rest = {name: value for name, value in found.items() if name not in known and not name.startswith("*")}
    rest = {name: value for name, value in rest.items() if not matters(tool, before, name, found)}
    silent = [name for name in rest if silenced(tool, name)]
    sorted_out = accounted(tool, {name: value for name, value in rest.items() if name not in silent})
    _refuse_foreign_file(tool, len(read), sorted_out)
    unread_keys = Accounts(
        (*silent, *sorted_out.of_no_account), (*sorted_out.left_out, *memory.left_out), sorted_out.unknown
    )
    return Imported(tool, config, tuple(read.items()), tuple(assumed.items()), unread_keys, notes, keys)


_OF_NODES, _OF_IMAGES = ((CARD, Hardware.accelerator),), ((RELEASE, EngineSettings.version),)
"""Variables that stand for a container's node and image, and the settings that they are."""


def _switched(tool: Tool, found: Mapping[str, Any]) -> Mapping[str, Any]:
    """Flags that only switch something on, without the variables behind them, which add others or are empty.

    Other words for true and false become these.
    """
    found = {name: switched(tool.switches, name, value) for name, value in found.items()}
    switches = {name for each in tool.meanings for name, value in each.keys.items() if value is True}
    return (
        {
            name: True if name in switches and isinstance(value, str) and OUTSIDE.fullmatch(value) else value
            for name, value in found.items()
        }
        if tool.syntax == "argv"
        else found
    )


_STRANGE = 8
"""Keys that nobody knows, from which on they have to be fewer than those that somebody does."""


def _refuse_foreign_file(tool: Tool, read: int, accounts: Accounts) -> None:
    """Raise ConfigError for a file of which most keys are none of the tool's."""
    strange, known = accounts.unknown, read + len(accounts.of_no_account) + len(accounts.left_out)
    if len(strange) >= _STRANGE and len(strange) > known:
        raise ConfigError.at(
            "the file",
            "looks like a {} file, but {} of its keys are not that tool's: {}; describe the job with flags",
            tool.title,
            len(strange),
            joined(", ", strange[:_STRANGE]),
        )


_ADAPTER, _TYPE = "training.adapter.", Training.adapter.type


def _without_adapter(read: dict[str, str], flat: dict[str, Any]) -> Iterator[str]:
    """Leave out what is said of an adapter that nobody asks for, and say so."""
    if flat.get(_TYPE) is not None:
        return
    lone = [name for name, path in read.items() if path.startswith(_ADAPTER)]
    for name in lone:
        flat.pop(read[name], None)
    if lone:
        yield Message("no adapter is set, so {} has no effect", joined(", ", lone))


def _whole(tool: Tool, name: str) -> str:
    """Return a flag in full; keys below it stay."""
    flag, dot, rest = name.partition(".")
    return f"{unabbreviated(tool.vocabulary, flag)}{dot}{rest}" if name.startswith("--") else name


def _is_bare(text: str) -> bool:
    """Return whether a text begins with a program, which may have no flags."""
    return any(tool.program and f"{text.strip()} ".startswith(f"{tool.program} ") for tool in TOOLS.values())


def _unset(tool: Tool, found: Mapping[str, Any]) -> Iterator[str]:
    """Keys that say what a missing setting means: values left to the tool, and switches that are off."""
    for key in tool.keys:
        yield from (name for name in key.names if found.get(name) in _UNSET)
    for meaning in tool.meanings:
        yield from (name for name, value in meaning.keys.items() if found.get(name) in (value, False, "none", *_UNSET))


def _ignored(tool: Tool, name: str) -> bool:
    return any(fnmatchcase(name, each) for each in tool.ignored)


def _with_dashes(syntax: str, found: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return a file whose keys are a command's flags without dashes, as the command.

    Source: vllm, utils/argparse_utils.py, `load_config_file` of `vllm serve --config`.
    """
    if syntax not in ("yaml", "json") or len(found) < _FLAGS_AT_LEAST or _tool_by_key(syntax, found) is not None:
        return syntax, found
    flags = {f"--{name.replace('_', '-')}": value for name, value in found.items()}
    for tool in TOOLS.values():
        known = sum(is_flag(tool.vocabulary, each) for each in flags)
        if tool.takes_file and known >= _FLAGS_AT_LEAST and _OTHERS * (len(flags) - known) <= known:
            return "argv", {"": tool.program, **flags}
    return syntax, found


def _launched(syntax: str, found: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return a command that names a config of its tool's own, as that config's keys with those that it overrides."""
    if "" not in found:
        return syntax, found
    named = next((keys for keys in (read(found) for read in registry.launches()) if keys is not None), None)
    return (syntax, found) if named is None else ("yaml", named)


_FLAGS_AT_LEAST, _OTHERS = 2, 8
"""Flags by which such a file is known, and how many there have to be for each key that is none."""
_NESTED = {"json", "yaml", "toml", "overrides"}
"""Syntaxes in which the same keys may stand."""


def _tool_by_key(syntax: str, found: Mapping[str, Any]) -> Tool | None:
    """Return the tool of which a file of this syntax has a key that tells."""
    for tool in TOOLS.values():
        same = tool.syntax == syntax or {tool.syntax, syntax} <= _NESTED
        if same and any(_tells(found, *each.partition("=")[::2]) for each in tool.tells):
            return tool
    return None


def _tells(found: Mapping[str, Any], key: str, values: str) -> bool:
    """Whether a key is there, or keys below it; with one of these values, if any are named, or without other keys."""
    key, *others = key.split("!")
    if values or any(each in found for each in others):
        return bool(values) and str(found.get(key)) in values.split("|")
    return key in found or any(name.startswith(f"{key}.") for name in found)


_COMPOSED: Mapping[str, str] = {
    "recipe_args.target_model_name_or_path": "NeMo Automodel trains a draft model for speculative decoding with it, "
    "which is not supported yet; to serve the model with one, set --speculative-method and --draft",
    "defaults": "Hydra composes these files into one; "
    "pass them as well, or the composed config (`python SCRIPT --cfg job`)",
    "model.class_path": "a Lightning class does not describe its network; describe the job with --model and --seq",
    "trainer.devices": "Lightning's Trainer does not describe the network; describe the job with --model and --seq",
    "trainer.strategy": "Lightning's Trainer does not describe the network; describe the job with --model and --seq",
}
"""Keys of Hydra's and Lightning's files, which leave the job to Python, and what to do instead."""


def _listed(value: Any) -> Any:
    """Entries of a list as Hydra's command line has them."""
    entries = value if isinstance(value, list) else ()
    said = [
        " ".join(f"{name}={choice}" for name, choice in each.items()) if isinstance(each, Mapping) else each
        for each in entries
    ]
    return said or value


_FILES = re.compile(r"(?<!\S)[\w./$-]{1,200}\.(?:ya?ml|toml)(?!\S)")
_SHELLS = ("bash", "sh")
_FILE_FLAGS = ("--job.config_file", "--config_file", "--config", "--config-file", "--recipe", "config")
_ELSE = re.compile(r"\bpython|\.py\b|\b(?:torchrun|deepspeed|accelerate)\b")
"""Programs whose flags are a script's own."""
_ENOUGH = 4
"""Flags by which a program's command is known, though the program is a script's own."""


def _by_flags(found: Mapping[str, Any]) -> Tool | None:
    """Return the only tool that has all flags of a command, whose program may be a function of the script."""
    flags = [name for name in found if name.startswith("--")]
    if len(flags) < _ENOUGH or _ELSE.search(str(found.get("", ""))):
        return None
    programs = [tool for tool in TOOLS.values() if tool.syntax == "argv"]
    fits = [tool for tool in programs if all(is_flag(tool.vocabulary, name) or _ignored(tool, name) for name in flags)]
    return fits[0] if len(fits) == 1 else None


def _recognized(syntax: str, found: Mapping[str, Any]) -> Tool:
    program = str(found.get("", ""))
    for tool in TOOLS.values():
        if any(prefix in program for prefix in tool.prefixes):
            return tool
    known = _tool_by_key(syntax, found) or _by_flags(found)
    if known is not None:
        return known
    for name, why in _COMPOSED.items():
        if name in found:
            raise UnsupportedError.of_value(name, _listed(found[name]), why)
    files = list(dict.fromkeys(_FILES.findall(f"{program} {found.get('*', '')}")))
    if program.rpartition(" ")[2] in _SHELLS:
        files += [each for each in str(found.get("*", "")).split()[:1] if each.endswith(".sh")]
    files += [value for name, value in found.items() if name in _FILE_FLAGS and isinstance(value, str)]
    if files:
        raise ElsewhereError(files, found)
    names = ", ".join(tool.title for tool in TOOLS.values())
    raise ConfigError.at("the file", "does not match any supported tool; supported: {}, and config.json", names)


def _raise_elsewhere(tool: Tool, found: Mapping[str, Any]) -> None:
    """Raise ConfigError for a command that overrides keys of a file which it only names."""
    if tool.syntax != "yaml" and not _OF_FILES.search(str(found.get("", ""))):
        return
    named = [found.get(""), found.get("*"), None if _ignored(tool, "config") else found.get("config")]
    files = [each for text in named if isinstance(text, str) for each in _FILES.findall(text)]
    if files:
        raise ElsewhereError(files, found)


_OF_FILES = re.compile(r"\baxolotl (?:train|preprocess)\b")
"""Programs whose flags are the keys of a file, whichever tool has flags of the same names."""


def _understood(tool: Tool, found: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Keys with their settings and values; what several keys say together comes last, and is what holds."""
    for key in tool.keys:
        for name in key.names:
            if name in found and found[name] not in _UNSET:
                yield name, key.path, _setting_value(key, name, found[name])
        if key.off and key.off in found:
            yield key.off, key.path, False
    for meaning in tool.meanings:
        if all(name in found and found[name] == value for name, value in meaning.keys.items()):
            for path, value in meaning.sets.items():
                yield from ((name, path, value) for name in meaning.keys)


def _setting_value(key: Key, name: str, value: Any) -> Any:
    if key.off is not None and isinstance(value, str) and OUTSIDE.fullmatch(value):
        return True  # a bare flag, before a variable that adds others
    if key.joined and isinstance(value, str) and "," in value:
        return [each.strip() for each in value.split(",")]
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
    raise ConfigError.at(name, "found {!r}; supported: {}", value, allowed)


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


_FOLDER = re.compile(r"[~./$]|(?:[^/]*/){2}")
"""How a model's folder begins, which no hub id does."""
_DOT = "___"
"""How ModelScope's folders write a dot (modelscope, hub/utils/utils.py); the hub's have the owner before `--`."""


def _at_home(model: Any) -> tuple[Any, tuple[str, ...]]:
    """Return the model of the catalog that a folder on a disk is called after, and a note on it."""
    if not isinstance(model, str) or not _FOLDER.match(model):
        return model, ()
    last = model.rstrip("/").rpartition("/")[2].replace(_DOT, ".").rpartition("--")[2]
    known = full_name(last)
    if known not in catalog():
        try:
            known = find_model(last).name
        except MemcoreError:
            return model, ()
        return last, (Message("{} is assumed to be {}, from the folder's name", model, known),)
    return known, (Message("{} is assumed to be {}, from the folder's name", model, known),)


def flag(config: Config, path: str, value: Any = None) -> str | None:
    """Return a setting as the tool of a config writes it: its key's name, or with a value the key that is set.

    None if the tool has no key for it.

    >>> flag(Config.from_dict({"model": "gpt2", "engine": {"type": "vllm"}}), "inference.max_model_len", 4096)
    '--max-model-len 4096'
    """
    tool = tool_of(config)
    if value is None:
        return tool.named.get(path)
    keys = keys_of(tool, config.replaced(path, value), path, {})
    return " ".join(argument(name, said_as) for name, said_as in keys) or None
