"""Whatever describes a job: a config, a model's config.json, another calculator's file, another tool's; or several."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any, NamedTuple

from memcore import registry
from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.imported import imported as of_calculator
from memcore.config.settings import MODEL, SETTINGS, Config
from memcore.config.training import Training
from memcore.errors import ConfigError, MemcoreError, Problem
from memcore.formats.content import content
from memcore.formats.content import described as described_by
from memcore.formats.declared import declared, parses
from memcore.formats.functions import repeated
from memcore.formats.normalized import ENGINE, GPUS, VERSION
from memcore.formats.notebooks import code_of
from memcore.formats.objects import STARTED, options_given
from memcore.formats.readers import (
    SeveralJobs,
    as_file,
    flat,
    parsed,
    read_command,
    read_file,
    script_of,
    started,
    written,
)
from memcore.formats.shell import OUTSIDE, variables_given
from memcore.formats.tool import Tool
from memcore.formats.writing import nested
from memcore.messages import Message, joined
from memcore.networks.quantized import refuse_mlx
from memcore.tools.accounts import declared_elsewhere
from memcore.tools.checkpoints import Checkpoint, checkpoint_of, described, nearest_of_catalog, pruned
from memcore.tools.companions import apart
from memcore.tools.composing import composed
from memcore.tools.convert import Imported, commanded, imported, of_composed, of_keys
from memcore.tools.launchers import ElsewhereError, launched_with, over_file, own
from memcore.tools.methods import METHOD
from memcore.tools.peft import of_lora_file
from memcore.tools.pooled import pools, without_head
from memcore.tools.quantization_files import quantization_in, quantization_of, with_quantization
from memcore.tools.scripts import decides
from memcore.tools.sharding import SEVERAL
from memcore.tools.vocabulary import similar_key
from memcore.trace.engine import engine_of
from memcore.untrusted import MARK

_SECTIONS = {path.partition(".")[0] for path in SETTINGS}


class Source(NamedTuple):
    """A text that describes a job, or a part of it."""

    name: str
    """Of its file."""
    text: str
    job: int | None = None
    """Which of its commands is meant, from 1, where it has those of several jobs."""
    parts: tuple[Source, ...] = ()
    """The texts that are one file together, the last of which names the others."""
    keys: Mapping[str, Any] | None = None
    """What those say together."""
    options: Mapping[str, Any] = MappingProxyType({})
    """What a command gives the script that this is."""
    launches: str = ""
    """The name of the script that this only starts."""
    starts: str = ""
    """The name of a script that this starts, and whose options the tool has for the most part."""
    declared: frozenset[str] = frozenset()
    """The options that the script adds to those."""


def source_of(given: str) -> Source:
    """A file, or with `#2` behind its name the second of the jobs in it."""
    name, mark, number = given.rpartition("#")
    if mark and number.isdecimal() and int(number) and not Path(given).exists():
        return Source(name, content(name), int(number))
    return Source(described_by(given), content(given))


class _Part(NamedTuple):
    """What one of several texts says of a job."""

    name: str
    model: object
    """None where the text names none."""
    said: Mapping[str, object]
    """Values by their settings' paths."""
    assumed: Mapping[str, object]
    """What the tool's own defaults give."""
    notes: tuple[str, ...]


def read_source(
    text: str, name: str = "the file", gpus: int | None = None, given: Collection[str] = ()
) -> tuple[Mapping[str, object], tuple[str, ...]]:
    """Return what a text says, as `Config.from_dict` takes it, and notes on what was assumed or left out.

    `gpus` is their number, where the text does not say it, and `given` are the settings that something else says.

    Raises ConfigError for a text that cannot be read, that no known tool wrote, or that leaves values to variables
    which it does not set.
    """
    config, _, notes = read_part(Source(name, text), gpus, given, alone=True)
    return config, notes


def read_sources(
    sources: Sequence[Source],
    gpus: int | None = None,
    given: Collection[str] = (),
    variables: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Mapping[str, object], tuple[str, ...]]:
    """Read several texts as one job: a trainer's file with its DeepSpeed config, a config.json with an adapter's.

    Scripts find `variables` in their environment, and those of a file such as `.env`. What a file says comes before
    what another tool's defaults are; where two files say different things the later one holds, and a note says so. A
    model's config.json holds whatever name the others have for the model.

    Raises ConfigError as `read_source` does.
    """
    sources, silent = apart([str(each.name) for each in sources], sources)
    pooling = [each for each in sources if each.keys is None and pools(each.text.removeprefix(MARK))]
    others = [each for each in sources if each not in pooling]
    if pooling and not others and "model" not in given:
        raise ConfigError.at(
            pooling[0].name, "is a file of sentence-transformers; add the config.json of the same folder"
        )
    others, environment = _with_environment(others)
    with variables_given({**environment, **variables}):
        config, notes = _together(whole_files(others), gpus, given) if others else ({}, ())
    if silent:
        notes = (*notes, Message("no effect on memory: {}", joined(", ", silent)))
    model = config.get("model")
    if not pooling:
        return config, notes
    said = "is a file of sentence-transformers: the config.json of its folder is read without a language-model head"
    notes = (Message("{}: {}", _file(pooling[0].name), Message(said)), *notes)
    return ({**config, "model": without_head(model)} if isinstance(model, Mapping) else config), notes


_OF_ENVIRONMENT = re.compile(r"(?:^|[./])env(?:\.[\w-]+)?$")
"""Names of files with environment variables: `.env`, `.env.example`, `server.env`."""
_VARIABLE = re.compile(r"^[ \t]*(?:export[ \t]+)?(\w{1,200})=([^\n]*)$", re.MULTILINE)


def _with_environment(sources: Sequence[Source]) -> tuple[list[Source], Mapping[str, str]]:
    """Return the texts without environment files that none of them sources, and the variables of these files.

    They are read as compose reads `.env`.
    """
    sourced = {found[1] for each in sources for found in _SOURCED.finditer(each.text)}
    files = [each for each in sources if _OF_ENVIRONMENT.search(each.name) and _file(each.name) not in sourced]
    if not 0 < len(files) < len(sources):
        return list(sources), {}
    text = "\n".join(each.text for each in files).replace("\r\n", "\n")
    kept = [each for each in sources if each not in files]
    return kept, {name: _unquoted(value.strip()) for name, value in _VARIABLE.findall(text)}


def _unquoted(value: str) -> str:
    """Return a value of an environment file without its quotes, or without the comment after it."""
    inside = value[1:].partition(value[0]) if value[:1] in ("'", '"') else ("", "", "")
    return inside[0] if inside[1] else value.partition(" #")[0].rstrip()


def _with_written(sources: Sequence[Source]) -> list[Source]:
    """The texts with the files of settings that scripts among them write for their trainers, in front of each."""
    found: list[Source] = []
    for source in sources:
        files = written(source.text) if source.keys is None and source.job is None else {}
        found += [Source(name, text) for name, text in files.items() if _of_a_trainer(text)]
        found.append(source)
    return found


def _of_a_trainer(text: str) -> bool:
    """Whether a text is a file of a trainer's; servers find theirs themselves."""
    try:
        return imported(text).tool.engines[0] not in registry.SERVERS
    except MemcoreError:
        return False


def tool_brought(sources: Sequence[Source]) -> Tool | None:
    """Return the tool that wrote the first text that names a model in its keys, if it can be written again."""
    for each in sources:
        with suppress(MemcoreError):
            tool = imported(each.text, None, each.job).tool
            if tool.model and not tool.read_only:
                return tool
    return None


_SOURCED = re.compile(
    r"^[ \t]*(?:source|\.)[ \t][^\n#;]{0,200}?(?:([\w.-]{1,80}\.(?:sh|bash|env|conf))|\$\{?(\w{1,80})\}?)[\"']?"
    r"((?:[ \t]+\w{1,40}){0,8})[ \t]*$",
    re.MULTILINE,
)
"""A script that another one reads in its own place, by its name or by a variable, and what it is called with."""


def _sourced(sources: Sequence[Source]) -> list[Source]:
    """The texts, of which those that a script among them sources stand in the place where it does."""
    texts = {_file(each.name): each.text.removeprefix(MARK) for each in sources}
    taken: set[str] = set()
    whole: list[Source] = []
    for each in sources:
        text, end = "", 0
        for found in _SOURCED.finditer(each.text):
            name = found[1] or _assigned(found[2], each.text)
            if name in texts and name != _file(each.name):
                taken.add(name)
                inner = texts[name]
                for number, word in enumerate(found[3].split(), 1):
                    inner = re.sub(rf"\$(?:{number}\b|\{{{number}\}})", word, inner)
                text += each.text[end : found.start()] + inner
                end = found.end()
        whole.append(each._replace(text=text + each.text[end:]) if end else each)
    return [each for each in whole if _file(each.name) not in taken]


def _assigned(variable: str, text: str) -> str:
    """The file whose name a script gives a variable; empty without one."""
    found = re.search(rf"\b{variable}=[\"']?([\w./-]{{1,200}})", text)
    return _file(found[1]) if found else ""


_SHARDING = re.compile(r"(--fsdp_config(?:=|[ \t]+))[\"']?([\w./-]{1,200}\.json)[\"']?")
"""How a command names the file that says how FSDP shards (transformers, training_args.py: a file or JSON)."""


def _with_sharding(sources: Sequence[Source]) -> list[Source]:
    """The texts, of which commands have the content of the file that says how FSDP shards in its place."""
    texts = {_file(each.name): each.text.removeprefix(MARK) for each in sources}
    named = {_file(name) for each in sources for _, name in _SHARDING.findall(each.text)} & texts.keys()
    said = {name: texts[name] for name in named if "'" not in texts[name] and texts[name].lstrip().startswith("{")}
    if not said:
        return [*sources]

    def inside(found: re.Match[str]) -> str:
        text = said.get(_file(found[2]))
        return found[0] if text is None else f"{found[1]}'{' '.join(text.split())}'"

    kept = [each for each in sources if _file(each.name) not in said]
    return [each._replace(text=_SHARDING.sub(inside, each.text)) for each in kept]


_SWITCHES: Mapping[str, bool] = {"True": True, "true": True, "False": False, "false": False}
"""Values of switches on a command line (transformers, hf_argparser.py: `string_to_bool`)."""


def _with_options(sources: Sequence[Source]) -> list[Source]:
    """The texts, of which scripts in Python have the options that a command among them starts them with."""
    found = list(sources)
    codes = {number: code_of(each.text.removeprefix(MARK)) for number, each in enumerate(found) if len(found) > 1}
    scripts = {_file(found[number].name): number for number, code in codes.items() if code and decides(code)}
    parsing = {_file(found[number].name): number for number, code in codes.items()
               if code and parses(code) and _file(found[number].name) not in scripts}  # fmt: skip
    for number, code in codes.items() if scripts or parsing else ():
        if code is not None:
            continue
        try:
            said = read_command(script_of(found[number].text.removeprefix(MARK)))
        except MemcoreError:
            continue
        run = [
            _file(each) for word in str(said.get("", "")).split() for each in (word, f"{word.rpartition('.')[2]}.py")
        ]
        name = next((each for each in run if each in scripts or each in parsing), "")
        plain = {each: _SWITCHES.get(value, value) if isinstance(value, str) else value for each, value in said.items()}
        given = {each.lstrip("-").replace("-", "_") if each[:1] == "-" else each: plain[each] for each in plain}
        if name in scripts and found[number].job is None:
            at = scripts.pop(name)
            found[at] = found[at]._replace(options=given)
            found[number] = found[number]._replace(launches=name)
        elif name in parsing:
            at = parsing.pop(name)
            found[at] = found[at]._replace(options={**given, STARTED: True})
            found[number] = found[number]._replace(starts=name, declared=declared(codes[at] or ""))
    return found


_OF_ACCELERATE = re.compile(r"^[ \t{]*\"?distributed_type\"?[ \t]*:", re.MULTILINE)


def _with_launchers(sources: Sequence[Source]) -> list[Source]:
    """The texts, of which files of accelerate's have the flags of the command that launches a script with them."""
    found = list(sources)
    files = {_file(each.name): at for at, each in enumerate(sources) if _OF_ACCELERATE.search(each.text)}
    for each in sources if files else ():
        with suppress(MemcoreError):
            flags = as_file(_command_of(each))
            at = files.get(_file(str(flags.get("config_file", ""))))
            keys = {} if at is None else over_file(flags, read_file(sources[at].text.removeprefix(MARK))[1])
            if keys and at is not None:
                found[at] = sources[at]._replace(parts=(sources[at], each), keys=keys)
    return found


def _command_of(source: Source) -> Mapping[str, Any]:
    """The flags of the command of a script, or of that of its commands which is meant.

    Raises ConfigError as `read_command` does.
    """
    try:
        return read_command(script_of(source.text.removeprefix(MARK)))
    except SeveralJobs as several:
        if source.job is None or source.job > len(several.jobs):
            raise
        return several.jobs[source.job - 1]


def _with_quantization(sources: Sequence[Source]) -> list[Source]:
    """Return the texts, where a config.json also has the quantization that a file next to it describes."""
    files = {number: said for number, each in enumerate(sources) if (said := quantization_in(each.text)) is not None}
    said = next(iter(files.values()), None)
    whole = {number: with_quantization(each.text, said) for number, each in enumerate(sources)} if said else {}
    if not any(whole.values()):
        return [*sources]
    return [
        each._replace(text=whole[number] or each.text) for number, each in enumerate(sources) if number not in files
    ]


def whole_files(sources: Sequence[Source]) -> list[Source]:
    """The texts with those that are one file together, as Hydra composes them, in one."""
    sources = [each._replace(text=commanded(each.text.replace("\r\n", "\n"))) for each in _with_quantization(sources)]
    sources = _with_launchers(_with_written(_with_options(_with_sharding(_sourced(sources)))))
    groups = composed([(each.name, each.text.removeprefix(MARK)) for each in sources])
    first = {each.members[-1]: each for each in groups}
    inner = {number for each in groups for number in each.members} - first.keys()
    found: list[Source] = []
    for number, source in enumerate(sources):
        group = first.get(number)
        if group is not None:
            parts = tuple(sources[each] for each in group.members)
            found.append(source._replace(parts=parts, keys=group.keys))
        elif number not in inner:
            found.append(source)
    return found


def _together(
    sources: Sequence[Source], gpus: int | None, given: Collection[str]
) -> tuple[Mapping[str, object], tuple[str, ...]]:
    if len(sources) == 1:
        config, _, found = read_part(sources[0], gpus, given, alone=True)
        return config, found
    names = {_file(each.name) for each in sources}
    parts = [_part(each, gpus, given, names) for each in sources]
    counted = next((each.said[Hardware.num_gpus] for each in parts if Hardware.num_gpus in each.said), None)
    if gpus is None and isinstance(counted, int):
        parts = [_part(each, counted, given, names) for each in sources]
    parts = _launched(sources, parts, counted if gpus is None and isinstance(counted, int) else gpus, given)
    said: dict[str, object] = {}
    assumed: dict[str, object] = {}
    told: list[tuple[str, str]] = []
    notes: list[str] = []
    model: object = None
    spoken: dict[str, str] = {}
    for each in parts:
        others = {_file(source.name) for source in sources if source.name != each.name}
        part = _without_guesses(each, others)
        told += ((part.name, note) for note in part.notes if not _answered(note, others))
        assumed = {**part.assumed, **assumed}
        if part.model is not None and not (isinstance(model, Mapping) and not isinstance(part.model, Mapping)):
            if isinstance(model, str) and isinstance(part.model, str) and model != part.model:
                notes.append(_differ(MODEL, spoken[MODEL], model, part.name, part.model))
            model, spoken[MODEL] = part.model, part.name
        for path, value in part.said.items():
            if path in said and said[path] != value:
                notes.append(_differ(path, spoken[path], said[path], part.name, value))
                if path == EngineSettings.type:  # what was said of the other engine is of no account
                    said = {name: each for name, each in said.items() if not name.startswith(_OF_ENGINE)}
            said[path], spoken[path] = value, part.name
    config = nested({**assumed, **said})
    kept = [each for each in told if not _overruled(each[1], said)]
    notes = [*(Message("{}: {}", _file(name), note) for name, note in kept), *notes]
    return ({"model": model, **config} if model is not None else config), tuple(notes)


def _launched(sources: Sequence[Source], parts: list[_Part], gpus: int | None, given: Collection[str]) -> list[_Part]:
    """The parts, of which those that name no engine are read as what one of the others launches."""
    sure = [EngineSettings.type in each.said and SEVERAL not in each.notes for each in parts]
    if sum(sure) != 1 or len(parts) < _PAIR:
        return parts
    said = parts[sure.index(True)].said
    engine = {ENGINE: said[EngineSettings.type], VERSION: said.get(EngineSettings.version)}
    names = {_file(each.name) for each in sources}
    with launched_with({name: value for name, value in engine.items() if value is not None}):
        read = [
            part if known else _part(source, gpus, given, names)
            for source, part, known in zip(sources, parts, sure, strict=True)
        ]
    loops = [part.said for part, known in zip(read, sure, strict=True) if not known]
    adapted = any(Training.adapter.type in each for each in loops)
    keeps = _keeps_dtypes(str(said[EngineSettings.type]), adapted=adapted)
    leaves = keeps and any(Training.precision in each for each in loops)
    return [_assuming(part, Training.precision) if known and leaves else part
            for part, known in zip(read, sure, strict=True)]  # fmt: skip


def _keeps_dtypes(engine: str, *, adapted: bool) -> bool:
    """Return whether weights that a launcher's engine computes with keep the dtype in which they are loaded."""
    found = engine_of(engine) if engine in registry.TRAINERS else None
    return found is not None and (found.copies or (found.shards and adapted))


def _assuming(part: _Part, path: str) -> _Part:
    """Return a part that leaves a setting to the others.

    A launcher's precision is that of loops without one of their own. Weights keep the dtype that they are loaded in
    where each rank has whole copies, and where they are frozen (transformers, training_args.py:
    `ACCELERATE_MIXED_PRECISION`; accelerate, accelerator.py, `prepare_model`, which casts what FSDP shards and trains).
    """
    left = {name: value for name, value in part.said.items() if name == path}
    said = {name: value for name, value in part.said.items() if name != path}
    return part._replace(said=said, assumed={**part.assumed, **left})


_PAIR = 2
_ASSUMED = "{} is {!r}: the default of {}"
_NAMES_A_FILE = ("deepspeed:", "config_file:", "--config:", "--extra_llm_api_options:")
"""Keys whose value is another file, as notes on them begin."""


def _file(name: str) -> str:
    plain = "".join(name)  # a message may stand for it
    return PurePath(plain).name or plain


def _answered(note: str, others: Collection[str]) -> bool:
    """Return whether a note is on a key that names a file which is among the others."""
    values = note.values if isinstance(note, Message) and note.startswith(_NAMES_A_FILE) else ()
    return any(_answered(str(value), others) or _file(str(value)) in others for value in values)


def _overruled(note: str, said: Mapping[str, object]) -> bool:
    """Return whether a note is on a default that another file has overridden."""
    if not isinstance(note, Message) or note.template != _ASSUMED:
        return False
    return said.get(str(note.values[0]), note.values[1]) != note.values[1]


def _without_guesses(part: _Part, others: Collection[str]) -> _Part:
    """A part in which what only follows from the name of a file that is there comes after what the files say."""
    if not any(note == SEVERAL or _answered(note, others) for note in part.notes):
        return part
    said = {path: value for path, value in part.said.items() if not path.startswith(_OF_ENGINE)}
    guessed = {path: value for path, value in part.said.items() if path not in said}
    return part._replace(
        said=said,
        assumed={**part.assumed, **guessed},
        notes=tuple(note for note in part.notes if note != SEVERAL or not others),
    )


_OF_ENGINE = "engine."


def _differ(path: str, first: str, one: object, second: str, other: object) -> Message:
    return Message("{} is {!r} in {} and {!r} in {}: the latter is used", path, one, _file(first), other, _file(second))


def _part(source: Source, gpus: int | None, given: Collection[str], names: Collection[str] = ()) -> _Part:
    """Return what one of several texts says.

    A tool that never runs without its engine names the engine by being used. `names` are those of all texts.
    """
    if source.launches:
        said = read_command(script_of(source.text.removeprefix(MARK)))
        listed = joined(", ", (name for name in said if name[:1] == "-"))
        return _launching(source, said, Message("gives {} its options: {}", source.launches, listed))
    try:
        config, other, notes = read_part(source, gpus, given)
    except ElsewhereError as error:
        if not {_file(each) for each in error.files} <= {*names}:
            raise
        unread = (Message("{} may affect memory but is not supported yet: ignored", each) for each in own(error.found))
        return _launching(source, error.found, Message("only launches {}", joined(", ", error.files)), *unread)
    except SeveralJobs:
        raise
    except ConfigError as error:
        raise error.within(source.name) from None
    model = config.get("model")
    rest = {path: value for path, value in config.items() if path != "model"}
    plain = {path: value for path, value in Config.from_dict({"model": "any", **rest}).values.items() if path != MODEL}
    if other is None:
        return _Part(source.name, model, plain, {}, notes)
    stated = {path for name, path in other.read if other.found.get(name) != _LEFT_TO_OTHERS}
    if STARTED in source.options:
        bare = flat(of_keys(other.tool, {name: each for name, each in other.found.items() if name == METHOD}).config)
        stated = {path for name, path in other.read
                  if name in other.found or (name.startswith("*") and plain.get(path) != bare.get(path))}  # fmt: skip
        if not _ROUNDS & other.found.keys():
            stated.discard(Training.precision)
    if "none" not in other.tool.engines:
        stated.add(EngineSettings.type)
    said = {path: value for path, value in plain.items() if path in stated}
    return _Part(source.name, model, said, {path: plain[path] for path in plain.keys() - said.keys()}, notes)


_LEFT_TO_OTHERS = "auto"
"""What DeepSpeed's files have for whatever the Trainer decides."""
_ROUNDS = frozenset({"bf16", "fp16", "dtype", "torch_dtype", "load_in_4bit", "load_in_8bit"})
"""Keys of a Trainer's that say in which dtypes it computes."""


def _launching(source: Source, found: Mapping[str, Any], *notes: Message) -> _Part:
    """What a command says that only launches others: the GPUs."""
    count = found.get(GPUS, started(found).get(GPUS))
    counted: dict[str, object] = {Hardware.num_gpus: count} if isinstance(count, int) else {}
    return _Part(source.name, None, counted, {}, notes)


def _stored(
    listed: Checkpoint, name: str, *, alone: bool
) -> tuple[Mapping[str, object], Imported | None, tuple[str, ...]]:
    """The model whose tensors a checkpoint lists, if nothing else names one.

    Raises ConfigError for tensors of no model of the catalog.
    """
    if not alone:
        return {}, None, (described(listed),)
    model = nearest_of_catalog(listed)
    fewer = pruned(listed) if model is None else None
    if fewer is not None:
        return {"model": fewer[0]}, None, (Message("{}; {}", described(listed), fewer[1]),)
    if model is None:
        raise ConfigError.at(
            name, "{}; no catalog model has that many: add its config.json after this file", described(listed)
        )
    base, off = model
    same = Message("{}; within {} bytes of {}, which is assumed", described(listed), f"{off:,}", base)
    return {"model": base}, None, (same,)


def _stored_in_gguf(
    found: Mapping[str, Any], name: str, *, alone: bool
) -> tuple[Mapping[str, object], Imported | None, tuple[str, ...]] | None:
    """Return the job of the server that loads a GGUF file, and notes; None for another file.

    Raises ConfigError for tensors of no model of the catalog.
    """
    header = registry.engine_module(registry.GGUF_SERVER, "header")
    read = header.gguf_of(found) if header is not None else None
    if header is None or read is None:
        return None
    listed, settings, base = read
    if base is None:
        config, other, said = _stored(listed, name, alone=alone)
    else:
        config, other, said = {"model": base}, None, (Message("{}; {} by its name", described(listed), base),)
    own = header.differing(found, settings, config.get("model"))
    return nested({**config, **settings, **own}), other, said


def read_part(
    source: Source, gpus: int | None, given: Collection[str], *, alone: bool = False
) -> tuple[Mapping[str, object], Imported | None, tuple[str, ...]]:
    """A text's config, what a tool's file is in detail, and notes."""
    name, text = source.name, source.text.removeprefix(MARK)
    if source.keys is None and (text.lstrip().startswith("{") or name.endswith(".json")):
        notes: list[str] = []
        found = parsed(text, name, notes)
        if "model" not in found and "model_type" in found:
            refuse_mlx(found)
            return {"model": found}, None, tuple(notes)
        if quantization_of(found) is not None:
            raise ConfigError.at(name, "says how a checkpoint is quantized; add the config.json of the same folder")
        listed = checkpoint_of(found)
        if listed is not None:
            return _stored(listed, name, alone="model" not in given and alone)
        in_gguf = _stored_in_gguf(found, name, alone="model" not in given and alone) if "gguf" in found else None
        if in_gguf is not None:
            return in_gguf
        spelled = of_lora_file(found)
        text = json.dumps(spelled) if spelled else text
        if "model" in found or not found.keys() - _SECTIONS:
            read = of_calculator(found)
            return found, None, (*notes, *read.notes)
    with options_given(source.options), declared_elsewhere(source.declared):
        other = imported(text, gpus, source.job) if source.keys is None else of_composed(source.keys, gpus)
    config = _without(other, given, alone=alone)
    assumed = (Message("{} is {!r}: the default of {}", path, value, other.tool.title) for path, value in other.assumed)
    left_out = (
        Message("{} may affect memory but is not supported yet: ignored", key) for key in other.accounts.left_out
    )
    unknown = (_unknown(other.tool, key) for key in other.accounts.unknown)
    silent = (
        [Message("no effect on memory: {}", joined(", ", other.accounts.of_no_account))]
        if other.accounts.of_no_account
        else []
    )
    further = [Message("gives {} its options: {}", source.starts, joined(", ", sorted(said)))
               for said in (source.declared & _named(other.found),) if said]  # fmt: skip
    times = repeated(text) if "" in other.found and code_of(text) is None else 1
    looped = [Message("a loop starts this {} times: one of them is read", times)] if times > 1 else []
    return config, other, (
        _read_as(other, text), *looped, *_in_one(source), *assumed, *other.notes, *left_out,
        *unknown, *further, *silent,
    )  # fmt: skip


def _named(found: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(each.lstrip("-").replace("-", "_") for each in found)


def _unknown(tool: Tool, key: str) -> str:
    """Return a note on a key that a tool does not have, with the one that may be meant."""
    near = similar_key(tool.vocabulary, key)
    said = Message("{} is not recognized and was ignored", key)
    return said if near is None else Message("{}; did you mean {}?", said, near)


def _read_as(other: Imported, text: str) -> str:
    """Return a note on whose file a text was taken for, or whose command, typed or in a script."""
    command = "" in other.found and code_of(text) is None
    return Message("read as a command of {}" if command else "read as a file of {}", other.tool.title)


def _in_one(source: Source) -> tuple[str, ...]:
    """A note on the texts that are one file."""
    if not source.parts:
        return ()
    names = joined(", ", [_file(each.name) for each in source.parts])
    return (Message("read together as one config, in which later files override earlier ones: {}", names),)


def _without(read: Imported, given: Collection[str], *, alone: bool) -> Mapping[str, object]:
    """The config without what is given elsewhere, as another of several texts may describe the model.

    Raises ConfigError for other values that a script does not set.
    """
    config = flat(read.config)
    keys = {path: key for key, path in read.read if not key.startswith("*")}
    keys |= {f"{MODEL}.{ours}": theirs for theirs, ours in read.tool.dimensions.items()}
    open_ones = {path: value for path, value in config.items() if isinstance(value, str) and OUTSIDE.search(value)}
    elsewhere = {path for path in open_ones if path.startswith(f"{MODEL}.") and (not alone or MODEL in given)}
    elsewhere |= {Hardware.gpus_per_node} if Hardware.num_gpus in given else set()
    wanted = {path: value for path, value in open_ones.items() if path not in given and path not in elsewhere}
    if wanted:
        raise ConfigError(
            [
                Problem(
                    keys.get(path, path),
                    Message(
                        "found {}, which the script does not set; give it with --{}, or its variables with --set",
                        value,
                        _flag(path),
                    ),
                )
                for path, value in wanted.items()
            ]
        )
    return (
        nested({path: value for path, value in config.items() if path not in open_ones}) if open_ones else read.config
    )


def _flag(path: str) -> str:
    return SETTINGS[path].flag if path in SETTINGS else MODEL if path.startswith(f"{MODEL}.") else path
