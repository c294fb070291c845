"""The catalog of accelerators."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from memcore.columns import table
from memcore.faces.cli.command import FITS, Command, nothing_matches, print_json, spell
from memcore.hardware import ACCELERATORS
from memcore.units import GiB


def _options(parser: argparse.ArgumentParser, given: Sequence[str]) -> None:
    parser.add_argument("query", nargs="*", metavar="QUERY", help="words of an id or a name, which must all match")


def _hardware(options: argparse.Namespace) -> int:
    words = [word.lower() for word in options.query]
    shown = [each for each in ACCELERATORS if all(word in f"{each.id} {each.name}".lower() for word in words)]
    rows = [
        {
            "id": each.id,
            "name": each.name,
            "nominal_gb": each.nominal_gb,
            "usable_bytes": each.usable,
            "source": each.source,
        }
        for each in shown
    ]
    if not rows:
        raise nothing_matches(options.query, [each.id for each in ACCELERATORS], "hardware")
    if options.json:
        print_json(rows)
    else:
        sources = list(dict.fromkeys(each.source for each in shown))
        cells = [
            (each.id, each.name, f"{each.usable / GiB:.2f}", str(sources.index(each.source) + 1)) for each in shown
        ]
        print("\n".join(table([("id", spell("name"), spell("usable GiB"), spell("source")), *cells], right=(2, 3))))
        print(
            f"\n{spell('Sources of the capacity')}", *(f"  {n}  {each}" for n, each in enumerate(sources, 1)), sep="\n"
        )
    return FITS


COMMANDS: Mapping[str, Command] = {"hardware": Command(_options, _hardware)}
