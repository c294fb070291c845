"""The catalog of accelerators."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from memcore.columns import table
from memcore.faces.cli.command import FITS, Command, no_options, print_json
from memcore.hardware import ACCELERATORS
from memcore.units import GiB


def _hardware(options: argparse.Namespace) -> int:
    rows = [
        {
            "id": each.id,
            "name": each.name,
            "nominal_gb": each.nominal_gb,
            "usable_bytes": each.usable,
            "source": each.source,
        }
        for each in ACCELERATORS
    ]
    if options.json:
        print_json(rows)
    else:
        sources = list(dict.fromkeys(each.source for each in ACCELERATORS))
        cells = [
            (each.id, each.name, f"{each.usable / GiB:.2f}", str(sources.index(each.source) + 1))
            for each in ACCELERATORS
        ]
        print("\n".join(table([("id", "name", "usable GiB", "source"), *cells], right=(2, 3))))
        print("\nSources of the capacity", *(f"  {n}  {each}" for n, each in enumerate(sources, 1)), sep="\n")
    return FITS


COMMANDS: Mapping[str, Command] = {"hardware": Command(no_options, _hardware)}
