"""The command line. Exit status: 0, 1 if the job does not fit, 2 if the input is wrong.

A command's module is imported when the command is given: `memcore --version` costs hardly more than Python itself.
"""

from __future__ import annotations

import gc
import os
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from importlib import import_module
from io import TextIOWrapper
from typing import NamedTuple, TextIO

from memcore.columns import fitted
from memcore.errors import ConfigError, MemcoreError, Problem, problems_of
from memcore.faces.cli.command import (
    BAD_INPUT,
    FITS,
    LANGUAGE,
    Command,
    Parser,
    Wide,
    alone,
    lacking,
    print_json,
    spell,
    spoken,
    usage_of,
    width,
)
from memcore.messages import Message
from memcore.version import __version__


class Listed(NamedTuple):
    """A command as the overview shows it."""

    module: str
    """Of this package; its `COMMANDS` has the command."""
    summary: str


COMMANDS: Mapping[str, Listed] = {
    "estimate": Listed("answers", "show what each GPU holds, and whether the job fits"),
    "quick": Listed("answers", "estimate from a model's size alone, and say what is assumed"),
    "explain": Listed("answers", "list every tensor at a moment, with its formula, numbers and source"),
    "plan": Listed("planning", "find complete configs that fit your GPUs, best first"),
    "advise": Listed("advising", "list every change that saves memory, what it costs and how to make it"),
    "solve": Listed("solving", "find the largest or smallest value of a setting that fits"),
    "search": Listed("searching", "find the layouts of a cluster that fit, cheapest first"),
    "calibrate": Listed("calibrating", "derive the rates of your machine from the step times in a run's log"),
    "reconcile": Listed("reconciling", "compare a run's log with the prediction"),
    "check": Listed("checking", "check whether configs fit, one line each: a gate for pull requests"),
    "validate": Listed("answers", "check a config without estimating it"),
    "url": Listed("files", "print the part of the page's URL that holds a config"),
    "convert": Listed("files", "write a config as your tool's file or command; --json prints the config itself too"),
    "accuracy": Listed("comparing", "compare predictions with measured cases"),
    "formulas": Listed(
        "comparing", "compare published formulas for a training job with memcore, and say why they differ"
    ),
    "model": Listed("models", "show what a model is made of: layers, parameters by kind, cache per token"),
    "models": Listed("models", "list the models of the catalog, or those that match a query"),
    "gpus": Listed("answers", "find how many GPUs of each kind a job needs"),
    "hardware": Listed("hardware", "list the accelerators of the catalog"),
    "completion": Listed("completing", "print a completion script for bash, zsh or fish"),
}
"""Every command, in the order of the overview."""

_IN_A_SENTENCE = "How much GPU memory a training or serving job takes, when, and because of which tensors."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    if arguments is None:
        # Nearly all that a command makes stays until it ends: looking for circles in it took a tenth of the time.
        gc.set_threshold(50_000)
    if isinstance(sys.stdout, TextIOWrapper):
        # An encoding without `×` or `·` prints `?` for them, and the answer all the same.
        sys.stdout.reconfigure(errors="replace")
    if isinstance(sys.stderr, TextIOWrapper):
        sys.stderr.reconfigure(errors="backslashreplace")
    try:
        language, rest = spoken(given, os.environ)
    except MemcoreError as error:
        return _refuse(error, given)
    if language == "en" or not _shows(sys.stdout, sys.stderr):
        return _answered(rest)
    from memcore.i18n.page import speaking  # noqa: PLC0415 - English does without

    with speaking(language):
        return _answered(rest)


_CUT_OFF = 141
"""What shells report of a command whose reader has closed the pipe (128 + SIGPIPE); nobody has seen a verdict."""


def _shows(*streams: TextIO) -> bool:
    """Return whether streams have Chinese characters."""
    try:
        return all("\u4e2d".encode(each.encoding or "utf-8") for each in streams)
    except (UnicodeEncodeError, LookupError):
        return False


def _answered(given: Sequence[str]) -> int:
    """Run a command; what goes wrong is said in a line."""
    try:
        return _run(given)
    except MemcoreError as error:
        return _refuse(error, given)
    except BrokenPipeError:
        return _CUT_OFF
    except OSError as error:
        said = error.strerror or "cannot be read or written"
        if error.filename is None:  # what cannot be written to takes no JSON either
            return _refuse(ConfigError.at("standard output", said), given, as_json=False)
        return _refuse(ConfigError.at(str(error.filename), said), given)
    except Exception as error:  # noqa: BLE001 - a traceback would exit with 1, which says that the job does not fit
        return _refuse(MemcoreError(_mistake(error)), given)


def _mistake(error: Exception) -> Message:
    """Return the text for an unexpected error."""
    from pathlib import Path  # noqa: PLC0415 - only here
    from traceback import extract_tb  # noqa: PLC0415

    last = extract_tb(error.__traceback__)[-1]
    where = f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"
    said = "this is a mistake in memcore, not in the input; please report it with the config. {:s}"
    return Message(said, where)


def _run(given: Sequence[str]) -> int:
    """Give the arguments to their command."""
    if any("\0" in each for each in given):
        raise ConfigError.at("arguments", "found a null character, which no name of a file and no value has")
    if not given:
        from memcore.i18n.page import say  # noqa: PLC0415 - `--version` has no words

        print(say("cli-first"), end="")
        return FITS
    name = given[0]
    if name in COMMANDS:
        command, listed = _command(name), COMMANDS[name]
        said = spell(listed.summary)
        summary = said if said != listed.summary else f"{said[0].upper()}{said[1:]}."
        parser = Parser(prog=f"memcore {name}", description=summary, formatter_class=Wide)
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.add_argument(LANGUAGE, metavar="NAME", help="en or zh (default: the locale's)")
        command.options(parser, given[1:])
        if parser.usage is None:
            # `parse_intermixed_args` would take it as long as it is behind an English "usage: ".
            parser.usage = usage_of(parser)
        # The options of a command may stand anywhere among its files.
        options = parser.parse_intermixed_args(list(alone(given[1:], parser)))
        with _fitting(name, options):
            try:
                if not sys.stderr.isatty():
                    return command.run(options)
                from memcore.faces.cli.waiting import waiting  # noqa: PLC0415 - a pipe sees nothing of it

                with waiting(name):
                    return command.run(options)
            except MemcoreError as error:
                from memcore.faces.cli.describing import with_origins  # noqa: PLC0415 - only of a mistake

                raise with_origins(error, options) from None
    if name in _SAID_OTHERWISE:
        return _run([*given[1:2], _SAID_OTHERWISE[name]])
    if _is_job(name):
        said = "found {!r:.80}, which is a job; put a command before it, as in `{}`"
        raise ConfigError.at("COMMAND", said, name, _line("estimate", *given))
    later = next((each for each in given if each in COMMANDS), None)
    if later is not None:
        first = [later, *(each for each in given if each != later)]
        raise ConfigError.at(name, "stands before the command; write `{}`", _line(*first))
    _overview().parse_args(given)
    raise ConfigError.at("COMMAND", lacking("memcore --help"))


_SAID_OTHERWISE: Mapping[str, str] = {"help": "--help", "version": "--version"}
"""Flags that people write as commands."""


def _is_job(name: str) -> bool:
    """Return whether the first argument is a file, a model, a question or a tool's command: memcore's is left out."""
    from memcore.networks.catalog import known  # noqa: PLC0415 - only of a mistake

    several = len(name.split()) > 1
    return not name.startswith("-") and (several or os.path.exists(name) or known(name))  # noqa: PTH110


def _line(*given: str) -> str:
    """Return a command line of memcore's."""
    import shlex  # noqa: PLC0415 - only of a mistake

    return shlex.join(("memcore", *given))


_COPIED = ("plan", "url", "convert", "completion", "calibrate")
"""Commands whose answers have lines to copy, which stay whole; `plan` breaks its other lines."""


@contextmanager
def _fitting(name: str, options: Namespace) -> Iterator[None]:
    """Break long lines of an answer where a terminal ends, in a pipe after 80 characters."""
    given = vars(options)
    if options.json or name in _COPIED or given.get("csv") or given.get("format") == "github":
        yield
        return
    from memcore.faces.cli.terminal import Fitted  # noqa: PLC0415 - of what is read

    terminal = Fitted(sys.stdout, width())
    with redirect_stdout(terminal):
        yield
    terminal.flush()


def _command(name: str) -> Command:
    """A command, its module imported."""
    found: Command = import_module(f"{__name__}.{COMMANDS[name].module}").COMMANDS[name]
    return found


def _overview() -> Parser:
    """Return what is asked without a command: help, the version; and what refuses everything else."""
    parser = Parser(prog="memcore", description=spell(_IN_A_SENTENCE), formatter_class=Wide)
    parser.add_argument("--version", action="version", version=f"memcore {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, listed in COMMANDS.items():
        commands.add_parser(name, help=spell(listed.summary))
    return parser


def _complaint(problem: Problem) -> str:
    """A problem as a line."""
    words = sys.modules.get("memcore.i18n.page")
    if words is None:  # nobody speaks Chinese
        return f"error: {problem}"
    said: str = words.say("cli-error", said=words.complaint(ConfigError([problem])))
    return said


def _as_typed(problem: Problem, given: Sequence[str]) -> Problem:
    """Return a problem by the flag of its setting, where the user has typed one."""
    if problem.path == "-":
        return replace(problem, path="standard input")
    from memcore.faces.cli.describing import flags_of  # noqa: PLC0415 - only of a mistake

    typed = [each.partition("=")[0] for each in given]
    return replace(problem, path=next((each for each in flags_of(problem.path) if each in typed), problem.path))


def _with_hub(problem: Problem) -> Problem:
    """Return a problem with the flag that asks the hub for a model that is unknown here."""
    if not problem.hub_id:
        return problem
    return replace(problem, message=Message("{}; --fetch asks the model hub for it", problem.message))


def _refuse(error: MemcoreError, given: Sequence[str], *, as_json: bool | None = None) -> int:
    """Print what is wrong, by default as JSON where that is asked for."""
    problems = problems_of(error)
    if "--json" in given if as_json is None else as_json:
        found = [{"path": each.path, "message": each.message, "suggestion": each.suggestion} for each in problems]
        print_json({"problems": found})
    else:
        for each in problems:
            said = _complaint(_with_hub(_as_typed(each, given)))
            lines = fitted(said, width()) if sys.stderr.isatty() else [said]
            print(*lines, sep="\n", file=sys.stderr)
    return BAD_INPUT
