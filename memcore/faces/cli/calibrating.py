"""Rates of the cost model: found from a run's logs, or given."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from memcore.faces.cli.command import FITS, Command, print_json
from memcore.faces.cli.describing import add_config, config_of
from memcore.formats.content import content
from memcore.i18n.page import say
from memcore.messages import Message
from memcore.questions.calibrating import Calibration, calibrate
from memcore.questions.roofline import Roofline

_INPUTS = tuple(each.name for each in fields(Roofline))


def add_assumptions(parser: argparse.ArgumentParser) -> None:
    """Add the flag that sets inputs of the cost model; `dict(options.assume)` has them by name."""
    parser.add_argument(
        "--assume", action="append", default=[], type=_assumption, metavar="NAME=VALUE",
        help=Message("an input of the cost model; repeatable: {:s}", ", ".join(_INPUTS)),
    )  # fmt: skip


def _assumption(text: str) -> tuple[str, float]:
    name, equals, value = text.partition("=")
    try:
        return name, float(value)
    except ValueError:
        example = "expected NAME=VALUE with a number, such as flops_efficiency=0.5, found {!r}"
        wanted = "expected NAME=VALUE with a number, found {!r}" if equals else example
        raise argparse.ArgumentTypeError(Message(wanted, text)) from None


def _options(parser: argparse.ArgumentParser, given: Sequence[str]) -> None:
    add_config(parser, given, "[CONFIG ...] LOG")
    parser.add_argument("log", metavar="LOG", help="what the run printed: a file, or - for standard input")
    parser.add_argument(
        "--also", action="append", default=[], metavar="LOG", help="another log of the same job; repeatable"
    )


def _calibrate(options: argparse.Namespace) -> int:
    config = config_of(options)
    logs = [options.log, *options.also]
    found = calibrate(config, [content(each, strict=False) for each in logs])
    names = [Path(each).name for each in logs]
    if options.json:
        print_json(_data(found, names))
    else:
        print(*_lines(found, names), sep="\n")
    return FITS


def _data(found: Calibration, names: Sequence[str]) -> dict[str, Any]:
    return {
        "logs": [{"log": name, **asdict(each)} for name, each in zip(names, found.timed, strict=True)],
        "measured_seconds": found.measured,
        "predicted_seconds": dict(zip(("low", "expected", "high"), found.before, strict=True)),
        "calibrated_seconds": found.after,
        "rates": dict(found.rates),
        "bounded": found.bounded,
    }


def _lines(found: Calibration, names: Sequence[str]) -> list[str]:
    low, expected, high = found.before
    lines = [
        say("cli-timed", name=name, seconds=f"{each.seconds:.4g}", steps=each.steps, tool=each.tool)
        for name, each in zip(names, found.timed, strict=True)
    ]
    lines.append(say("cli-predicted", expected=f"{expected:.4g}", low=f"{low:.4g}", high=f"{high:.4g}"))
    if found.bounded:
        lines.append(say("cli-faster" if found.measured < found.after else "cli-slower"))
    lines.append(say("cli-calibrated", seconds=f"{found.after:.4g}"))
    flags = " ".join(f"--assume {name}={value:g}" for name, value in found.rates.items())
    return [*lines, "", say("cli-rates"), f"  {flags}"]


COMMANDS: Mapping[str, Command] = {"calibrate": Command(_options, _calibrate)}
