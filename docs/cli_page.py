"""The page of the command line, from the parsers themselves."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from memcore.faces.cli import COMMANDS, _command
from memcore.faces.cli.command import Parser


def page() -> str:
    """Every command: what it does, its arguments and its usual flags."""
    blocks = [
        "# Command line",
        "Generated from the parsers. Every command takes `--help`, and `--json` for output that programs read "
        "([JSON](json.md)). Exit status: 0, 1 if a job does not fit, 2 if the input is wrong.",
        "Answers, help and errors are in English, or in Chinese with `--language zh`, with `MEMCORE_LANGUAGE=zh` in the "
        "environment, or in a Chinese locale. JSON, CSV and annotations of GitHub are always in English.",
        "Commands that take a config accept files of the tools that run the job, a link of the page, a catalog model, "
        "and a flag for every [setting](reference.md#settings); the tables list the usual ones.",
    ]
    for name, listed in COMMANDS.items():
        parser = Parser(prog=f"memcore {name}")
        parser.add_argument("--json", action="store_true", help="print JSON")
        _command(name).options(parser, [])
        summary = f"{listed.summary[0].upper()}{listed.summary[1:]}."
        usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
        blocks += [f"## memcore {name}", summary, f"```text\n{usage}\n```", *_tables(parser)]
    return "\n\n".join(blocks) + "\n"


def _tables(parser: argparse.ArgumentParser) -> Iterator[str]:
    for group in parser._action_groups:  # noqa: SLF001 - argparse has no other list of its groups
        rows = [row for action in group._group_actions if (row := _row(action))]  # noqa: SLF001
        if rows:
            plain = group.title in {"positional arguments", "options"}
            head = f"| {'Argument' if plain else group.title} | Meaning |\n| --- | --- |\n"
            yield head + "\n".join(rows)


def _row(action: argparse.Action) -> str:
    if action.help == argparse.SUPPRESS or "--help" in action.option_strings:
        return ""
    value = action.metavar if isinstance(action.metavar, str) else "" if action.nargs == 0 else action.dest.upper()
    if action.choices is not None and action.metavar is None:
        value = "{" + ",".join(map(str, action.choices)) + "}"
    names = ", ".join(action.option_strings)
    said = (action.help or "").replace("%%", "%")
    shown = f"`{' '.join(filter(None, (names, value)))}`"
    return "| {} | {} |".format(*(each.replace("|", "\\|") for each in (shown, said)))
