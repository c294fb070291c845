"""The arguments that describe a job, and the config that they are: a file, a link or a model, with flags on top."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memcore.config.hardware import Hardware
from memcore.config.kinds import Choice, Flag, Integer, Names, Number
from memcore.config.schema import Setting
from memcore.config.settings import MODEL, SETTINGS, Config
from memcore.config.texts import from_texts
from memcore.config.url import LINK, WITH, decode_fragment, read_fragment
from memcore.errors import ConfigError, MemcoreError, Problem, UnsupportedError, problems_of
from memcore.estimation import is_serving
from memcore.faces.cli.command import EXAMPLE, count, lacking, positive
from memcore.faces.cli.fetching import add_fetch, looks_like_a_file, needs_fetch, with_fetched
from memcore.formats.content import content, described
from memcore.i18n.page import explanation, label, say, translated
from memcore.messages import Message, joined
from memcore.networks.catalog import catalog, known, nearest_model
from memcore.serving.inference import Inference, usual_length
from memcore.serving.presets import PRESETS

if TYPE_CHECKING:
    from memcore.faces.goals.sentences import Question
    from memcore.tools.sources import Source

ALL = "--help-all"
ASSUMED, HOST_ROOM = "assume", "host_room"
"""The option with inputs of the cost model, and the input that a sentence may state."""
OTHERS = "others"
"""The option with further jobs, of commands that take several."""
APART = "files_are_jobs"
"""The option that is true where each file is a job: notes then begin with the file's name."""


def add_config(parser: argparse.ArgumentParser, given: Sequence[str], usage: str = "[CONFIG ...]") -> None:
    """The config and a flag for each setting; the help shows those that people use, or all of them on demand.

    `usage` has the arguments before the flags.
    """
    parser.add_argument(
        "config",
        nargs="*",
        metavar="CONFIG",
        help=Message(
            "your tool's files, - for stdin, a link, a model, a question ({!r}) or example: {}; flags override",
            "QLoRA phi-4 on a 3090",
            ", ".join(PRESETS),
        ),
    )
    parser.add_argument(ALL, action="help", help=Message("show all {} flags, not only the usual ones", len(SETTINGS)))
    parser.add_argument(
        "--set", action="append", default=[], type=_variable, metavar="NAME=VALUE",
        help="a variable that the script reads; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--ignore", action="append", default=[], metavar="KEY", help="a key of the files to ignore; repeatable"
    )
    whole = ALL in given
    add_fetch(parser, whole=whole)
    groups = {"model": parser}
    for path, setting in SETTINGS.items():
        section = path.partition(".")[0]
        if section not in groups:
            groups[section] = parser.add_argument_group(say(f"cli-group-{section}"))  # type: ignore[assignment]
        optional = {"nargs": "?", "const": "true"} if isinstance(setting.kind, Flag) else {}
        shown = _help(path, setting, whole=whole) if whole or setting.common else argparse.SUPPRESS
        action = _One if path == "model" else "store"
        for name in flags_of(path):
            said, metavar = shown if name == f"--{setting.flag}" else argparse.SUPPRESS, _metavar(setting)
            groups[section].add_argument(name, action=action, dest=path, metavar=metavar, help=said, **optional)  # type: ignore[arg-type]
    parser.usage = f"{parser.prog} {usage} [--FLAG VALUE ...]"
    example = f"{parser.prog} {_EXAMPLES.get(parser.prog.rpartition(' ')[2], _USUAL)}"
    parser.set_defaults(**{EXAMPLE: example})
    if not whole:
        parser.epilog = say("cli-example", command=example)


def add_others(parser: argparse.ArgumentParser) -> None:
    """Add the flag that names further jobs on the same GPUs."""
    parser.add_argument(
        "--with", action="append", default=[], dest=OTHERS, metavar="CONFIG",
        help="another job on the same GPUs; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--taken", type=positive, default=0.0, metavar="GIB", help="GiB of each GPU that other processes hold"
    )


def flags_of(path: str) -> list[str]:
    """Return the flags of a setting, none for another path; the first one is in the help."""
    setting = SETTINGS.get(path)
    if setting is None:
        return []
    return [f"--{each.replace('_', '-')}" for each in (setting.flag, *setting.aliases) if len(each) > 1]


class _One(argparse.Action):
    """A flag that a command takes once."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: Any = None
    ) -> None:
        """Store the value. Raises ConfigError if there is another one."""
        before = getattr(namespace, self.dest)
        if before not in (None, values):
            said = "found {!r:.80} and {!r:.80}; a command takes one model"
            raise ConfigError.at(str(option_string), said, before, values)
        setattr(namespace, self.dest, values)


_USUAL = "--model qwen3-8b --adapter lora --accelerator l4"


_EXAMPLES: Mapping[str, str] = {
    "calibrate": "train.yaml train.log",
    "check": "configs/*.yaml --accelerator h100-sxm-80gb",
    "convert": "train.yaml --to torchtitan",
    "gpus": "--model qwen3-32b --engine vllm",
    "plan": "'fine-tune Llama 3.1 70B on 8 H100'",
    "reconcile": "train.yaml train.log",
    "search": "--model llama-3.1-70b --gpus 64 --accelerator h100-sxm-80gb",
    "solve": "--for seq --model llama-3.1-8b --adapter lora --accelerator rtx-4090",
}
"""What follows a command in the example of its help, where the usual flags are none."""


_VARIABLE = re.compile(r"[A-Za-z_]\w{0,79}|[1-9]\d?")
"""A variable of a script, or the place of one of its arguments."""


def _variable(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not _VARIABLE.fullmatch(name):
        raise argparse.ArgumentTypeError(Message("expected NAME=VALUE, such as TP=4, found {!r:.80}", text))
    return name, value


def _help(path: str, setting: Setting[object], *, whole: bool) -> str:
    """Return what a flag says of itself.

    Its name in the form and the gist of its default, or with `whole` everything.
    """
    said = explanation(path, setting.help) if whole else label(path, setting.label)
    options = getattr(setting.kind, "options", ())
    default = setting.default if setting.default in options else translated(setting.default)
    default = default if whole else re.split("[;:,；：，]", default)[0]
    return (say("cli-default-is", said=said, value=default) if default else said).replace("%", "%%")


def _metavar(setting: Setting[object]) -> str:
    """Return what a flag's value is, in a word."""
    kind = setting.kind
    if isinstance(kind, (Integer, Number)):
        return kind.unit.upper() if kind.unit else "N"
    if isinstance(kind, Choice):
        return "|".join(kind.options) if len(kind.options) < _FEW else "NAME"
    return "NAME,NAME" if isinstance(kind, Names) else "BOOL" if isinstance(kind, Flag) else "NAME"


_FEW = 5
"""Words of a choice that are listed for a value."""


def config_of(options: argparse.Namespace) -> Config:
    """The config of a file, standard input or a link, with the flags on top."""
    given = vars(options)
    if given.get("log") and not options.config and given["model"] is None:
        raise ConfigError.at("CONFIG", "two files are expected: a config, and the log of its run; found one")
    # argparse takes `--` out of `--flag=--`, and leaves a list.
    flags = {path: given[path] or "" for path in SETTINGS if given[path] is not None}
    if not options.config and "model" not in flags:
        raise ConfigError.at("model", lacking(given.get(EXAMPLE, "--model")))
    if options.config and options.ignore is not None:
        from memcore.tools.accounts import ignore  # noqa: PLC0415 - tools' files are a package of their own

        ignore(options.ignore)
    needs_fetch(options)
    told: tuple[Message, ...] = ()
    if options.fetch:
        options.sources, told = _fetched(options, flags)
    else:
        options.sources = _sources(options.config)
    base, notes = _read(options.sources, flags, dict(options.set)) if options.sources else _named(options)
    options.notes = (*map(translated, told), *notes)
    for note in options.notes:
        said = Message("{}: {}", " ".join(options.config), note) if given.get(APART) else note
        print(say("cli-note", said=said), file=sys.stderr)
    if described(flags.get("model", "")).endswith(".json"):
        return from_texts({**flags, "model": ""}, {**base, "model": parsed(flags["model"])})
    return from_texts(flags, base)


def _fetched(options: argparse.Namespace, flags: dict[str, str]) -> tuple[list[Source], tuple[Message, ...]]:
    """Return the files of a job with those that the hub has of its model, and notes; the model's flag is used up."""
    model = flags.pop("model", None)

    def named_in(sources: Sequence[Source]) -> object:
        return _read(sources, flags, dict(options.set))[0].get("model")

    return with_fetched(options.config, model, options.revision, _sources, named_in)


def config_at(name: str) -> Config:
    """The config of one file, a link or a model's name alone, without flags."""
    plain = dict.fromkeys((*SETTINGS, "revision"))
    return config_of(argparse.Namespace(**{**plain, "config": [name], "set": [], "ignore": None, "fetch": False}))


def jobs_with(options: argparse.Namespace, config: Config) -> dict[str, Config]:
    """Jobs on the same GPUs by name: those of the link or the sentence of a job, and those of `--with`.

    A model's name alone is served as the first job serves its own.
    """
    link = options.config[0] if options.config else ""
    linked = read_fragment(link).others if LINK.search(link) else ()
    named = {f"{WITH} {number}": each for number, each in enumerate(linked, 1)}
    said = _question(link) if not options.sources else None
    told = {} if said is None else {name: _of_model(said, name) for name in said.others}
    serves = is_serving(config)
    others = {
        name: config.changed({MODEL: name}) if serves and known(name) else config_at(name) for name in options.others
    }
    return {**named, **told, **others}


def _of_model(question: Question, name: str) -> Config:
    """Return the job of a sentence with another model that it names."""
    from memcore.faces.goals.sentences import job_of  # noqa: PLC0415 - few sentences name several

    return from_texts(job_of(replace(question, texts={**question.texts, MODEL: name})))


def _named(options: argparse.Namespace) -> tuple[Mapping[str, object], tuple[str, ...]]:
    """Return what a link, a sentence, or the name of an example or of a model, says, and notes on it."""
    source = options.config[0] if options.config else ""
    if LINK.search(source):
        return decode_fragment(source).to_dict(), ()
    if question := _question(source):
        return _answered(question, options)
    return PRESETS.get(source, {"model": source} if source else {}), ()


def _answered(question: Question, options: argparse.Namespace) -> tuple[Mapping[str, object], tuple[str, ...]]:
    """Return the job that a sentence describes, and notes on it; set the command's own options that it names."""
    from memcore.faces.goals.sentences import begun_with, job_of, leaves_length, other_boards, other_models  # noqa: PLC0415 - most jobs are files, names and flags

    wanted, given = job_of(question), vars(options)
    taken = {name: text for name, text in question.options.items() if given.get(name, text) is None}
    for name, text in taken.items():
        setattr(options, name, count(text) if name in _COUNTED else text)
    named = [(name.replace("_", "-"), text) for name, text in taken.items()]
    if question.ram_gb is not None and ASSUMED in given:
        room = f"{question.ram_gb}e9"
        setattr(options, ASSUMED, [*given[ASSUMED], (HOST_ROOM, float(room))])
        named = [*named, ("assume", f"{HOST_ROOM}={room}")]
    begun = begun_with(question).intersection(wanted)
    said = [*((SETTINGS[path].flag, text) for path, text in wanted.items() if path not in begun), *named]
    notes = [Message("read as {}", _as_flags(said))]
    if begun:
        usual = ((SETTINGS[path].flag, wanted[path]) for path in wanted if path in begun)
        notes.append(Message("assumed, as recipes of this kind have it: {}", _as_flags(usual)))
    if leaves_length(question):
        notes.append(Message("assumed: {}", usual_length(int(wanted[Inference.max_model_len]))))
    notes += question.of_kinds()
    for path, others in ((MODEL, other_models(question)), (Hardware.accelerator, other_boards(question))):
        if others:
            notes.append(Message("{} may also mean {}", question.texts[path], joined(", ", others[:_FEW])))
    left = [
        *(question.others if OTHERS not in given else ()),
        *([f"{question.ram_gb} GB RAM"] if question.ram_gb is not None and ASSUMED not in given else ()),
        *question.unread,
        *(text for name, text in question.options.items() if name in _COUNTED and name not in given),
    ]
    if left:
        notes.append(Message("not read: {}; say it with a flag, if it matters", joined(", ", left)))
    return from_texts(wanted).to_dict(), tuple(translated(note) for note in notes)


def _as_flags(given: Iterable[tuple[str, str]]) -> str:
    return " ".join(f"--{flag} {shlex.quote(text)}" for flag, text in given)


_COUNTED = frozenset(("tokens", "batch_tokens"))
"""The options of commands that are numbers."""
_FEW = 3
"""Meanings of a name that a note lists."""


def _sources(given: Sequence[str]) -> list[Source]:
    """The files that describe a job; none where a name, a link or flags alone do."""
    source = given[0] if given else ""
    named = not source or source in PRESETS or LINK.search(source) is not None
    written = not named and source != "-" and not Path(source.partition("#")[0]).exists()
    if not named and (source.startswith("#") or "://" in source) and not Path(source).exists():
        message = "found {!r:.80}, whose fragment is none of memcore's: it begins with #v1&"
        raise ConfigError.at("CONFIG", message, source)
    if written and _starts_a_job(source):
        return [_command(source), *_files(given[1:])]
    if len(given) <= 1 and (named or (written and _is_model(source))):
        return []
    if given.count("-") > 1:
        raise ConfigError.at("CONFIG", "standard input is given twice")
    return _files(given)


def _files(given: Sequence[str]) -> list[Source]:
    from memcore.tools.sources import source_of  # noqa: PLC0415 - tools' files are a package of their own

    model = next((each for each in given if each != "-" and not Path(each).exists() and known(each)), None)
    if model is not None:
        said = "found {!r:.80}, a model, among files; name it with --model, one model per command"
        raise ConfigError.at("CONFIG", said, model)
    return [source_of(each) for each in given]


def _starts_a_job(source: str) -> bool:
    from memcore.tools.convert import is_command  # noqa: PLC0415 - tools' files are a package of their own

    return is_command(source)


def _command(source: str) -> Source:
    """A command that was typed as an argument, as a text to read."""
    from memcore.tools.sources import Source  # noqa: PLC0415 - tools' files are a package of their own

    return Source(source.split(maxsplit=1)[0], source)


@cache
def _question(source: str) -> Question | None:
    """Return what a sentence asks for; None of anything else."""
    if not source or source in PRESETS or known(source):
        return None
    from memcore.faces.goals.sentences import asked  # noqa: PLC0415 - most jobs are files, names and flags

    found = asked(source)
    if found is not None and "model" not in found.texts:
        said = "found {!r:.80}, which names no model; add one, as in {}"
        raise ConfigError.at("CONFIG", said, source, _EXAMPLES["plan"])
    return found


def _is_model(source: str) -> bool:
    """Whether what is no file is a model's name, or a sentence that has one.

    Raises ConfigError with the nearest name for one that is unknown.
    """
    if known(source) or _question(source):
        return True
    if looks_like_a_file(source) or source.count("/") > 1:
        return False
    message = Message(
        "found {!r:.80}, which is neither a file nor one of the {} models in the catalog", source, len(catalog())
    )
    raise ConfigError([Problem("CONFIG", message, nearest_model(source), source if "/" in source else "")])


def _read(
    sources: Sequence[Source], flags: Mapping[str, str], variables: Mapping[str, str]
) -> tuple[Mapping[str, object], tuple[str, ...]]:
    """Return what files say, and notes on it."""
    from memcore.tools.sources import read_sources  # noqa: PLC0415 - tools' files are a package of their own

    try:
        config, notes = read_sources(sources, _gpus(flags), flags, variables)
    except ConfigError as error:
        raise _of_file(error, sources) from None
    return config, tuple(translated(note) for note in notes)


def _of_file(error: ConfigError, sources: Sequence[Source]) -> ConfigError:
    """Return what is wrong with files by the name of the one file that there is; of a log, what reads logs."""
    from memcore.questions.reconciling.logs import is_log  # noqa: PLC0415 - only of a mistake

    for source in sources:
        if source.name.endswith(".log") or is_log(source.text, error):
            said = "is a run's log, not a config; `memcore reconcile CONFIG {}` compares it with the prediction"
            return ConfigError.at(source.name, said, source.name)
    return error if len(sources) != 1 or sources[0].name == "-" else error.within(sources[0].name)


def origins_of(options: argparse.Namespace) -> Mapping[str, list[dict[str, Any]]]:
    """Return what became of every key of the files of a job that `config_of` has read; empty without files."""
    if not options.sources:
        return {}
    from memcore.tools.origins import origins  # noqa: PLC0415 - tools' files are a package of their own

    flags = {path: text for path in SETTINGS if (text := vars(options)[path]) is not None}
    return origins(options.sources, _gpus(flags), flags, dict(options.set)).to_dict()


def with_origins(error: MemcoreError, options: argparse.Namespace) -> MemcoreError:
    """Return what is wrong with a job, with the keys of its files that say it.

    Of a setting that a flag has as well, the flag is what is wrong.
    """
    wrong = {each.path for each in problems_of(error)} & SETTINGS.keys()
    flags = {path for path in wrong if vars(options).get(path) is not None}
    if not getattr(options, "sources", ()) or wrong <= flags:
        return error
    try:
        found = origins_of(options)
    except MemcoreError:
        return error
    whose = {row["path"]: row["because"] for row in found["assumed"]}
    for row in (row for row in found["read"] if row["key"] != row["path"]):
        place = row["file"] if row["line"] is None else Message("{}, line {}", row["file"], row["line"])
        whose[row["path"]] = Message("said by {} in {}", row["key"], place)
    told = [
        replace(each, message=joined("; ", (each.message, whose[each.path])))
        if each.path in whose and each.path not in flags
        else each
        for each in problems_of(error)
    ]
    return UnsupportedError(told[0].path, told[0].message) if isinstance(error, UnsupportedError) else ConfigError(told)


def _gpus(flags: Mapping[str, str]) -> int | None:
    """The GPUs that a flag says."""
    said = {path: text for path, text in flags.items() if path == Hardware.num_gpus}
    return from_texts(said, {"model": "any"})[Hardware.num_gpus]


def parsed(source: str) -> dict[str, object]:
    """The object in a JSON file."""
    from memcore.formats.readers import parsed as read  # noqa: PLC0415 - only files need readers

    return read(content(source), described(source))
