"""Commands that hold predictions against something else: measured cases, and published formulas."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from memcore.errors import ConfigError
from memcore.faces.cli.command import EXAMPLE, FITS, Command, print_json
from memcore.faces.cli.describing import add_config, config_of
from memcore.faces.render.formulas import comparison_data, comparison_text
from memcore.formats.content import content
from memcore.messages import Message
from memcore.questions.accuracy import accuracy
from memcore.questions.formulas import compare
from memcore.untrusted import parse_json


def _accuracy_options(parser: argparse.ArgumentParser, given: Sequence[str]) -> None:
    parser.set_defaults(**{EXAMPLE: parser.prog + " cases.json"})
    parser.add_argument("files", nargs="+", metavar="FILE", help="JSON files with measured cases")


def _accuracy(options: argparse.Namespace) -> int:
    cases: list[Any] = []
    for name in options.files:
        try:
            found = parse_json(content(name))
        except ConfigError:
            raise
        except ValueError as error:
            raise ConfigError.at(name, Message("is not JSON: {:s}", str(error))) from None
        cases += found if isinstance(found, list) else [found]
    report = accuracy(cases)
    if options.json:
        print_json(report.to_dict())
    else:
        print(report.to_text().rstrip())
    return FITS


def _formulas(options: argparse.Namespace) -> int:
    found = compare(config_of(options))
    if options.json:
        print_json(comparison_data(found))
    else:
        print(comparison_text(found), end="")
    return FITS


COMMANDS: Mapping[str, Command] = {
    "accuracy": Command(_accuracy_options, _accuracy),
    "formulas": Command(add_config, _formulas),
}
