"""Every change that helps a job, or a ladder of them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from memcore.faces.cli.command import DOES_NOT_FIT, FITS, Command, print_csv, print_json, width
from memcore.faces.cli.describing import add_config, config_of
from memcore.faces.render.advice import ADVICE_COLUMNS, advice_data, advice_rows, advice_text
from memcore.questions.advising.advise import advise


def _options(parser: argparse.ArgumentParser, given: Sequence[str]) -> None:
    add_config(parser, given)
    parser.add_argument(
        "--ladder", action="store_true", help="also show the usual changes, each on top of the previous"
    )
    parser.add_argument("--csv", action="store_true", help="print rows for a spreadsheet")


def _advise(options: argparse.Namespace) -> int:
    found = advise(config_of(options), ladder=options.ladder)
    if options.json:
        print_json(advice_data(found))
    elif options.csv:
        print_csv(ADVICE_COLUMNS, advice_rows(found))
    else:
        print(advice_text(found, width()), end="")
    return DOES_NOT_FIT if found.estimate.fits is False else FITS


COMMANDS: Mapping[str, Command] = {"advise": Command(_options, _advise)}
