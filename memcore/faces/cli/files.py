"""Commands that write a config down: as a link, and as a file of the tool that runs it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence

from memcore.config.engine import EngineSettings
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.config.url import encode_fragment
from memcore.errors import MemcoreError
from memcore.estimation import estimate
from memcore.faces.cli.command import FITS, Command, print_json
from memcore.faces.cli.describing import add_config, config_of
from memcore.formats.tool import Tool
from memcore.i18n.page import say, translated
from memcore.messages import Message
from memcore.tools import TOOLS, exported


def _url(options: argparse.Namespace) -> int:
    fragment = "#" + encode_fragment(config_of(options))
    if options.json:
        print_json({"fragment": fragment})
    else:
        print(fragment)
    return FITS


def _convert_options(parser: argparse.ArgumentParser, given: Sequence[str]) -> None:
    add_config(parser, given)
    written = [name for name, tool in TOOLS.items() if not tool.read_only]
    parser.add_argument(
        "--to",
        choices=written,
        metavar="TOOL",
        help=Message("one of: {:s}; default: the tool that runs the engine", ", ".join(written)),
    )


def _convert(options: argparse.Namespace) -> int:
    config = config_of(options)
    config = _run_by(TOOLS.get(options.to), config)
    found = exported(config, options.to, _taken(config))
    if options.json:
        print_json({"config": config.to_dict(), **found.to_dict()})
        return FITS
    print(found.text, end="")
    reasons = map(translated, found.reasons)
    started = [f"run: {found.command}"] if found.command and found.tool.syntax == "json" else []  # it has no comments
    for line in (*reasons, *started):
        print(say("cli-note", said=line), file=sys.stderr)
    return FITS


def _run_by(tool: Tool | None, config: Config) -> Config:
    """Return a config as a tool runs it, where it leaves open what runs it: engine, layers and training loop."""
    if tool is None or config[EngineSettings.type] is not None:
        return config
    taken = _taken(config)
    usual = taken.get(EngineSettings.type, "none")
    layers: Mapping[str, object] = {Training.implementation: tool.implementations[0]} if tool.implementations else {}
    told = config
    for path, value in {**layers, **tool.needs}.items():
        told = told.replaced(path, value) if told.get(path) is None and taken.get(path) != value else told
    told = told if usual in tool.engines else told.replaced(EngineSettings.type, tool.engines[0])
    return told if _taken(told) else config


def _taken(config: Config) -> Mapping[str, object]:
    """Return what an estimate takes for what a config leaves open; nothing where there is none."""
    try:
        return {each.path: each.value for each in estimate(config).assumptions}
    except MemcoreError:
        return {}


COMMANDS: Mapping[str, Command] = {
    "url": Command(add_config, _url),
    "convert": Command(_convert_options, _convert),
}
