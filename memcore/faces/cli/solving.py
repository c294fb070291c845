"""The largest or smallest value of a setting that fits."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from memcore.faces.cli.command import DOES_NOT_FIT, FITS, Command, print_json
from memcore.faces.cli.describing import ALL, add_config, config_of
from memcore.faces.cli.planning import print_brief
from memcore.faces.render.solution import solution_data, solution_text
from memcore.messages import Message
from memcore.questions.solving import SOLVABLE, USUAL, flag_of, solve

_GOALS = {"largest": "find the largest value that fits", "smallest": "find the smallest value that fits"}


def _options(parser: argparse.ArgumentParser, given: Sequence[str]) -> None:
    add_config(parser, given, "--for SETTING [CONFIG ...]")
    settings = ", ".join(flag_of(path) for path in SOLVABLE)
    said = (
        Message("one of: {:s}", settings)
        if ALL in given
        else Message("one of: {:s}, or any other flag that takes a number", USUAL)
    )
    parser.add_argument("--for", dest="setting", required=True, metavar="SETTING", help=said)
    goal = parser.add_mutually_exclusive_group()
    for word, smallest in {"largest": False, "smallest": True}.items():
        goal.add_argument(f"--{word}", dest="smallest", action="store_const", const=smallest, help=_GOALS[word])


def _solve(options: argparse.Namespace) -> int:
    config = config_of(options)
    found = solve(config, options.setting, smallest=options.smallest)
    if options.json:
        print_json(solution_data(found))
    else:
        print(solution_text(found), end="")
        if found.value is None:
            print_brief(config)
    return DOES_NOT_FIT if found.value is None else FITS


COMMANDS: Mapping[str, Command] = {"solve": Command(_options, _solve)}
