"""`memcore completion`: a script for a shell, made from the parsers of the commands."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module

from memcore.config.kinds import Choice, Flag, Listed
from memcore.config.settings import SETTINGS
from memcore.faces.cli.command import EXAMPLE, FITS, Command, Parser
from memcore.networks.catalog import catalog, nickname
from memcore.questions.solving import USUAL

_WORD = re.compile(r"[\w.+:/@%,=-]+")
"""What a shell takes as one word without quotes."""


def words(name: str) -> Mapping[str, Sequence[str]]:
    """Return the flags of a command, each with the values that it allows; none where any value will do."""
    from memcore.faces.cli import COMMANDS as LISTED  # noqa: PLC0415 - the overview loads this module by its name

    command: Command = import_module(f"memcore.faces.cli.{LISTED[name].module}").COMMANDS[name]
    parser = Parser(prog=name)
    parser.add_argument("--json", action="store_true")
    command.options(parser, [])
    return {
        flag: [each for each in _values(action) if _WORD.fullmatch(each)]
        for action in parser._actions  # noqa: SLF001 - argparse has no other list of its arguments
        for flag in action.option_strings
    }


def _values(action: argparse.Action) -> Sequence[str]:
    """The values that an option allows."""
    if action.choices is not None:
        return [str(each) for each in action.choices]
    if action.dest == "model":
        return sorted({*catalog(), *map(nickname, catalog())})
    if "--for" in action.option_strings:
        return USUAL.split(", ")
    kind = SETTINGS[action.dest].kind if action.dest in SETTINGS else None
    if isinstance(kind, Choice):
        return list(kind.options)
    if isinstance(kind, Listed):
        return list(kind.titles)
    return ["true", "false"] if isinstance(kind, Flag) else []


def _bash() -> Iterator[str]:
    """For bash 3.2 and later: without associative arrays, which macOS's bash lacks."""
    from memcore.faces.cli import COMMANDS as LISTED  # noqa: PLC0415 - see above

    yield '_memcore() {\n  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" words=""'
    yield f'  if [ "$COMP_CWORD" -eq 1 ]; then\n    words="{" ".join([*LISTED, "--help", "--version"])}"\n  else'
    yield '    case "${COMP_WORDS[1]} $prev" in'
    described = {name: words(name) for name in LISTED}
    shared: dict[tuple[str, ...], list[str]] = {}
    for name, flags in described.items():
        for flag, values in flags.items():
            if values:
                shared.setdefault(tuple(values), []).append(f'"{name} {flag}"')
    for values, places in shared.items():
        yield f'      {"|".join(places)}) words="{" ".join(values)}" ;;'
    yield '      *) case "${COMP_WORDS[1]}" in'
    for name, flags in described.items():
        yield f'        {name}) words="{" ".join(flags)}" ;;'
    yield "      esac ;;\n    esac\n  fi"
    yield '  COMPREPLY=($(compgen -W "$words" -- "$cur"))\n}\ncomplete -o default -F _memcore memcore'


def _zsh() -> Iterator[str]:
    """For zsh, through its own reader of bash's completions (bashcompinit)."""
    yield "#compdef memcore\nautoload -Uz bashcompinit && bashcompinit"
    yield from _bash()


def _fish() -> Iterator[str]:
    """For fish: one line for each command and each flag."""
    from memcore.faces.cli import COMMANDS as LISTED  # noqa: PLC0415 - see above

    for name, listed in LISTED.items():
        summary = listed.summary.replace("\\", "\\\\").replace("'", "\\'")
        yield f"complete -c memcore -n __fish_use_subcommand -a {name} -d '{summary}'"
    for name in LISTED:
        for flag, values in words(name).items():
            spelled = f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
            allowed = f" -x -a '{' '.join(values)}'" if values else ""
            yield f"complete -c memcore -n '__fish_seen_subcommand_from {name}' {spelled}{allowed}"


SHELLS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
"""The scripts, by shell."""


def _options(parser: argparse.ArgumentParser, given: Sequence[str]) -> None:
    parser.add_argument("shell", choices=list(SHELLS), metavar="SHELL", help=", ".join(SHELLS))
    parser.set_defaults(**{EXAMPLE: f"{parser.prog} bash"})
    parser.epilog = 'Example: eval "$(memcore completion bash)" in ~/.bashrc'


def _run(options: argparse.Namespace) -> int:
    print("\n".join(SHELLS[options.shell]()))
    return FITS


COMMANDS: Mapping[str, Command] = {"completion": Command(_options, _run)}
