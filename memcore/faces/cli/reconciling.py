"""What a run printed, next to what is predicted."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from memcore.errors import ConfigError
from memcore.faces.cli.command import FITS, Command, print_json, save
from memcore.faces.cli.describing import add_config, config_of
from memcore.faces.render.reconciled import case_text, reconciled_data, reconciled_text
from memcore.formats.content import content
from memcore.i18n.page import say
from memcore.questions.reconciling.reconcile import READINGS, reconcile


def _reconcile(options: argparse.Namespace) -> int:
    if "-" in options.config and options.log == "-":
        raise ConfigError.at("LOG", "standard input is the config already")
    where = say("cli-stdin") if options.log == "-" else Path(options.log).name
    config, log = config_of(options), content(options.log, strict=False)
    try:
        found = reconcile(config, log, reading=options.reading)
    except ConfigError as error:
        raise ConfigError(
            [replace(each, path=where if each.path == "log" else each.path) for each in error.problems]
        ) from None
    if options.case:
        save(options.case, case_text(found, where) or "[]\n")
    if options.json:
        print_json(reconciled_data(found, where))
    else:
        print(reconciled_text(found), end="")
    return FITS


def _reconcile_options(parser: argparse.ArgumentParser, given: Sequence[str]) -> None:
    add_config(parser, given, "[CONFIG ...] LOG")
    parser.add_argument("log", metavar="LOG", help="what the run printed: a file, or - for standard input")
    parser.add_argument("--as", dest="reading", choices=list(READINGS), help="what a number without a label measures")
    parser.add_argument("--case", metavar="FILE", help="save the measurements to FILE, for `memcore accuracy`")


COMMANDS: Mapping[str, Command] = {"reconcile": Command(_reconcile_options, _reconcile)}
