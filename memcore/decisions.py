"""The commands that decide: advise, solve and search."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from memcore.advising import advise
from memcore.config.settings import SETTINGS, Config
from memcore.render.advice import ADVICE_COLUMNS, advice_data, advice_rows, advice_text
from memcore.render.solution import solution_data, solution_text
from memcore.solving import SOLVABLE, solve


@dataclass(frozen=True, slots=True)
class Decision:
    """A command: what it does with a config, its options, and what it says of itself."""

    run: Callable[[Config, argparse.Namespace], bool | None]
    """Prints, and returns whether something fits."""
    options: Callable[[argparse.ArgumentParser], None]
    summary: str


def _advise(config: Config, options: argparse.Namespace) -> bool | None:
    found = advise(config, ladder=options.ladder)
    if options.json:
        print_json(advice_data(found))
    elif options.csv:
        print_csv(ADVICE_COLUMNS, advice_rows(found))
    else:
        print(advice_text(found), end="")
    return found.estimate.fits


def _advise_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ladder", action="store_true", help="also standard changes one on top of another")
    parser.add_argument("--csv", action="store_true", help="print rows for a spreadsheet")


def _solve(config: Config, options: argparse.Namespace) -> bool | None:
    found = solve(config, options.setting, smallest=options.smallest)
    if options.json:
        print_json(solution_data(found))
    else:
        print(solution_text(found), end="")
    return found.value is not None


def _solve_options(parser: argparse.ArgumentParser) -> None:
    settings = ", ".join(SETTINGS[path].flag for path in SOLVABLE)
    parser.add_argument("--for", dest="setting", required=True, metavar="SETTING", help=f"one of: {settings}")
    goal = parser.add_mutually_exclusive_group()
    for word, smallest in {"largest": False, "smallest": True}.items():
        goal.add_argument(f"--{word}", dest="smallest", action="store_const", const=smallest, help="that fits")


def print_json(found: object) -> None:
    """An object as JSON on standard output."""
    print(json.dumps(found, indent=2, ensure_ascii=False))


def print_csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Rows under their columns on standard output."""
    csv.writer(sys.stdout, lineterminator="\n").writerows([columns, *rows])


DECISIONS: Mapping[str, Decision] = {
    "advise": Decision(
        _advise, _advise_options, "every change that applies: what it saves, what it costs, and how to make it"
    ),
    "solve": Decision(_solve, _solve_options, "the largest or smallest value of a setting that fits, and what binds"),
}
"""By name."""
