"""Writes the generated pages: `reference.md` from the schema and the tables, `cli.md`, `costs.md`, the accuracy page.

.venv/bin/python docs/generate.py            write them
.venv/bin/python docs/generate.py --check    fail if they are out of date
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

from typing import Any

import accuracy_page
import cli_page
import comparison_page
import costs_page
import json_page

from memcore.config.kinds import Choice, Counted, Flag, FlagOrCount, Integer, Kind, Listed, Number
from memcore.config.settings import SETTINGS
from memcore.estimation import estimate_training
from memcore.faces.render import svg
from memcore.faces.render.page import EXAMPLE
from memcore.hardware import ACCELERATORS
from memcore.memory.ledger import CATEGORIES
from memcore.memory.places import PHASES
from memcore.networks.catalog import catalog, nickname
from memcore.networks.glossary import SYMBOLS
from memcore.rules.table import RULES
from memcore.serving.entries import CATEGORIES as SERVED
from memcore.tools import TOOLS
from memcore.tools.vocabulary import LEFT_OUT, MAPPED, OF_NO_ACCOUNT, REFUSED
from memcore.tools.vocabulary import table as keys_of
from memcore.units import GiB, format_count


def main() -> int:
    """Write or check every page."""
    schemas = json_page.schemas()
    pages = {
        **schemas,
        "docs/json.md": json_page.page(schemas),
        **accuracy_page.files(),
        "docs/cli.md": cli_page.page(),
        "docs/comparison.md": comparison_page.page(),
        "docs/costs.md": costs_page.page(),
        "docs/reference.md": reference(),
        "docs/example-bar.svg": svg.standalone(svg.bar(estimate_training(EXAMPLE))),
        "docs/example-timeline.svg": svg.standalone(svg.timeline(estimate_training(EXAMPLE))),
    }
    stale = [
        name for name, text in pages.items() if not (ROOT / name).exists() or (ROOT / name).read_text("utf-8") != text
    ]
    if "--check" in sys.argv:
        print("\n".join(f"{name} is out of date: run docs/generate.py" for name in stale), end="")
        return 1 if stale else 0
    for name, text in pages.items():
        (ROOT / name).write_text(text, encoding="utf-8")
    return 0


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def reference() -> str:
    """Settings, categories, phases, symbols, rules, models and accelerators."""
    settings = [
        (
            f"`{path}`",
            f"`--{each.flag}`",
            values(each.kind),
            f"{each.help} Default: {each.default}." if each.default else each.help,
        )
        for path, each in SETTINGS.items()
    ]
    rules = [(f"`{name}`", rule.title, rule.category or "by its lifetime", rule.source) for name, rule in RULES.items()]
    models = [
        (f"`{nickname(hub)}`", hub, entry["config"]["model_type"], format_count(entry["parameters"]))
        for hub, entry in catalog().items()
    ]
    gpus = [(f"`{each.id}`", each.name, f"{each.usable / GiB:.2f}", each.source) for each in ACCELERATORS]
    return "\n".join(
        [
            "# Reference",
            "",
            "Generated from the schema and the tables by `docs/generate.py`.",
            "",
            "## Settings",
            "",
            "A config is a JSON object with `model` and these settings by path; the flag is also the name in links. A missing "
            "key, or `null`, means what the engine does by default.",
            "",
            table(("Setting", "Flag", "Values", "Meaning"), settings),
            "## Categories of memory",
            "",
            table(("Category", "Meaning"), CATEGORIES.items()),
            "A server's memory has categories of its own.",
            "",
            table(("Category", "Meaning"), SERVED.items()),
            "## Phases of a step",
            "",
            table(("Phase", "In words"), ((f"`{name}`", words) for name, words in PHASES.items())),
            "## Symbols",
            "",
            table(("Symbol", "Meaning"), ((f"`{name}`", meaning) for name, meaning in SYMBOLS.items())),
            "## Rules",
            "",
            "What puts something in memory, and where that can be checked (PyTorch 2.13, transformers 5.23).",
            "",
            table(("Rule", "What it holds", "Category", "Source"), rules),
            "## Files of other tools",
            "",
            "What is read of each tool's files and command lines: the releases whose keys were all harvested from its own "
            "source (`harvest/`), and what became of the keys. A key that no release has is an error or is said.",
            "",
            table(
                ("Tool", "Releases", "Keys", "Read", "No effect", "Ignored with a note", "Refused", "Written"), tools()
            ),
            "## Models",
            "",
            table(("Id", "Hub id", "Family", "Parameters"), models),
            "## Accelerators",
            "",
            "What a job can use is the lowest observed `total_memory`, which is less than the nominal size.",
            "",
            table(("Id", "Name", "Usable GiB", "Source"), gpus),
        ]
    )


def tools() -> Iterator[Sequence[str]]:
    """A row for each table of keys of a tool."""
    for tool in TOOLS.values():
        for name in tool.vocabulary:
            harvested = ROOT / "harvest" / "tables" / f"{name}.json"
            versions = json.loads(harvested.read_text("utf-8"))["versions"] if harvested.exists() else []
            classes = Counter("none" if kind in OF_NO_ACCOUNT else kind for kind in keys_of(name).values())
            counts = (classes.total(), *(classes[kind] for kind in (MAPPED, "none", LEFT_OUT, REFUSED)))
            title = tool.title if name == tool.vocabulary[0] else f"{tool.title}: `{name}`"
            yield (title, ", ".join(versions), *map(str, counts), "" if tool.read_only else "yes")


def values(kind: Kind[Any]) -> str:
    """Return what a setting can be."""
    match kind:
        case Flag():
            return "`true`, `false`"
        case Choice():
            return ", ".join(f"`{option}`" for option in kind.options)
        case Counted():
            return ", ".join(f"`{option}`" for option in (*kind.options, f"{kind.prefix}:N"))
        case FlagOrCount():
            return "`true`, `false`, a number of ranks"
        case Integer():
            return f"a whole number{f' of {kind.unit}' if kind.unit else ''}"
        case Number():
            return f"a number from {kind.minimum:g} to {kind.maximum:g}"
        case Listed():
            return f"an id of the {kind.catalog} below"
        case _:
            return "a string"


if __name__ == "__main__":
    sys.exit(main())
