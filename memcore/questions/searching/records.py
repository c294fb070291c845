"""What a search has measured, as rows that are written as they come, and read again to resume a broken sweep."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping

from memcore import escaping
from memcore.questions.searching.found import Found, Key, Measured
from memcore.questions.searching.layouts import Layout

COLUMNS = (
    "accelerator",
    "engine",
    *Layout._fields,
    "gpus",
    "allocated",
    "device",
    "capacity",
    "fits",
    "gpu_seconds_per_token",
    "settings",
)
"""Names of a row's values."""


def record(found: Found) -> dict[str, object]:
    """Return a layout as a row."""
    settings = {path: value for path, value in found.policy.items() if value is not None}
    return {
        "accelerator": found.accelerator,
        "engine": found.engine,
        **found.layout._asdict(),
        "gpus": found.gpus,
        "allocated": found.allocated,
        "device": found.device,
        "capacity": found.capacity,
        "fits": found.fits,
        "gpu_seconds_per_token": found.cost.per_token,
        "settings": settings,
    }


def json_line(found: Found) -> str:
    """Return a row of JSON Lines, with its end."""
    return json.dumps(record(found), separators=(",", ":")) + "\n"


def csv_line(found: Found | None = None) -> str:
    """Return a row of CSV, with its end; without a layout, the heading."""
    return escaping.csv_line(COLUMNS if found is None else [_cell(each) for each in record(found).values()])


def _cell(value: object) -> object:
    return json.dumps(value, separators=(",", ":")) if isinstance(value, Mapping) else value


def recorded(lines: Iterable[str]) -> dict[Key, Measured]:
    """Return what rows of either form say, that were written before; a last row that was cut off is left out.

    Raises ValueError, KeyError or TypeError for rows that no search wrote.

    >>> recorded(['{"accelerator":null,"tensor":2,"stages":1'])
    {}
    """
    kept = [line for line in lines if line.endswith("\n") and line.strip()]
    if kept and not kept[0].startswith("{"):
        rows: Iterable[Mapping[str, object]] = csv.DictReader(kept)
        if "accelerator" not in kept[0]:
            raise ValueError("no heading of a search's rows")
    else:
        rows = (json.loads(line) for line in kept)
    return dict(map(_measured, rows))


def _measured(row: Mapping[str, object]) -> tuple[Key, Measured]:
    accelerator, device = row["accelerator"], row["device"]
    sizes = Layout(*(int(str(row[name])) for name in Layout._fields))
    key = str(accelerator) if accelerator else None, str(row.get("engine") or ""), sizes
    fits = {"True": True, "False": False}.get(str(row["fits"]))
    return key, (int(str(row["allocated"])), None if device in (None, "") else int(str(device)), fits)
