"""Read a release's keys into its tool's table.

    python -m harvest TOOL VERSION SOURCE

SOURCE is a wheel, an sdist or a folder, or PATH@REVISION of a git repository. Sources are read, never imported.
Each row of `harvest/tables/TOOL.json` is a key: `[type, default, first, last]` for every span of harvested versions
with the same default; the type is that of the last. `memcore/data/keys/TOOL.txt` is what memcore knows: each key and
its class (memcore/tools/vocabulary.py). A new key is `?` there, and a test fails until somebody has classified it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harvest.reading import Field
from harvest.schemas import SCHEMAS

ROOT = Path(__file__).resolve().parent.parent
TABLES = ROOT / "harvest" / "tables"
NAMES = ROOT / "memcore" / "data" / "keys"


def main(arguments: list[str]) -> None:
    """Harvest one release."""
    if len(arguments) != 3 or arguments[0] not in SCHEMAS:
        sys.exit(f"{__doc__}\nTOOL: {', '.join(SCHEMAS)}")
    tool, version, source = arguments
    keys = SCHEMAS[tool].keys(source)
    table = with_release(load(tool), version, keys)
    write(tool, table)
    print(
        f"{tool} {version}: {len(keys)} keys; the table has {len(table['keys'])} of {len(table['versions'])} versions"
    )


def load(tool: str) -> dict[str, Any]:
    """A tool's table; an empty one if there is none."""
    path = TABLES / f"{tool}.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"versions": [], "keys": {}}
    return found


def with_release(table: Mapping[str, Any], version: str, keys: Mapping[str, Field]) -> dict[str, Any]:
    """The table with a release's keys added, or put in place of what it had of that release."""
    by_version = {each: keys_of(table, each) for each in table["versions"]} | {version: dict(keys)}
    versions = sorted(by_version, key=_order)
    rows: dict[str, list[list[Any]]] = {}
    for at, each in enumerate(versions):
        for name, field in by_version[each].items():
            spans = rows.setdefault(name, [])
            before = versions[at - 1] if at else None
            if spans and spans[-1][1] == field.default and spans[-1][3] == before:
                spans[-1][0], spans[-1][3] = field.type, each
            else:
                spans.append([field.type, field.default, each, each])
    return {"versions": versions, "keys": dict(sorted(rows.items()))}


def keys_of(table: Mapping[str, Any], version: str) -> dict[str, Field]:
    """The keys of one version."""
    at = table["versions"].index(version)
    found = {}
    for name, spans in table["keys"].items():
        for typed, default, first, last in spans:
            if table["versions"].index(first) <= at <= table["versions"].index(last):
                found[name] = Field(typed, default)
    return found


def write(tool: str, table: Mapping[str, Any]) -> None:
    """Write the table, one key a line, and its names."""
    TABLES.mkdir(exist_ok=True)
    NAMES.mkdir(parents=True, exist_ok=True)
    rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(spans)}" for name, spans in table["keys"].items())
    (TABLES / f"{tool}.json").write_text(f'{{"versions": {json.dumps(table["versions"])},\n"keys": {{\n{rows}\n}}}}\n')
    names = sorted({name.partition(".")[2] if SCHEMAS[tool].apart else name for name in table["keys"]})
    path = NAMES / f"{tool}.txt"
    known = dict(line.rsplit(" ", 1) for line in path.read_text().splitlines()) if path.exists() else {}
    path.write_text("".join(f"{name} {known.get(name, '?')}\n" for name in names))


def _order(version: str) -> tuple[Any, ...]:
    return tuple(
        (0, int(each), "") if each.isdigit() else (-1, 0, each) for each in version.replace("-", ".").split(".")
    )


if __name__ == "__main__":
    main(sys.argv[1:])
