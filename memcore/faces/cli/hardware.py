"""The catalog of accelerators."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from memcore.columns import table
from memcore.faces.cli.command import FITS, Command, nothing_matches, print_json, spell
from memcore.hardware import ACCELERATORS, SPELLINGS
from memcore.hardware.accelerators import Place
from memcore.units import GiB

_PLACES: Mapping[Place, str] = {
    "datacentre": "Servers",
    "workstation": "Workstations",
    "home": "Desktop cards",
    "laptop": "Laptops",
    "computer": "Computers with unified memory",
}
"""Headings of the list, in its order."""


def _options(parser: argparse.ArgumentParser, given: Sequence[str]) -> None:
    parser.add_argument("query", nargs="*", metavar="QUERY", help="words of an id or a name, which must all match")


def _hardware(options: argparse.Namespace) -> int:
    words = [word.lower() for word in options.query]
    names = {each.id: " ".join(SPELLINGS[each.id]).lower() for each in ACCELERATORS}
    shown = [each for each in ACCELERATORS if all(word in names[each.id] for word in words)]
    rows = [
        {
            "id": each.id,
            "name": each.name,
            "nominal_gb": each.nominal_gb,
            "usable_bytes": each.usable,
            "source": each.source,
            "place": each.place,
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
        heads, *lines = table([("id", spell("name"), spell("usable GiB"), spell("source")), *cells], right=(2, 3))
        print(heads)
        places = {each.place for each in shown}
        for place, title in _PLACES.items():
            found = [line for line, each in zip(lines, shown, strict=True) if each.place == place]
            if found:
                print(*([f"\n{spell(title)}"] if len(places) > 1 else []), *found, sep="\n")
        print(
            f"\n{spell('Sources of the capacity')}", *(f"  {n}  {each}" for n, each in enumerate(sources, 1)), sep="\n"
        )
    return FITS


COMMANDS: Mapping[str, Command] = {"hardware": Command(_options, _hardware)}
