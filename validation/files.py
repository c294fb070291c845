"""Configs from files, and cases into files."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from validation.cases import Case, Run, cases_of
from validation.plan import Refused


def read_configs(names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """The configs of files: one, or a list of configs or of cases, whose ids are kept.

    Raises Refused, naming the file, for one that cannot be read or holds something else.
    """
    for name in names:
        try:
            found = json.loads(sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8"))
        except OSError as error:
            raise Refused(f"{name}: {error.strerror or 'cannot be read'}") from None
        except ValueError as error:
            raise Refused(f"{name}: is not JSON: {error}") from None
        for each in found if isinstance(found, list) else [found]:
            if not isinstance(each, dict) or not isinstance(each.get("config", {}), dict):
                raise Refused(f"{name}: holds something that is neither a config nor a case")
            if "config" in each:
                named = {"_id": str(each["id"]).partition("@")[0]} if "id" in each else {}
                yield {**each["config"], **named, "_rank": (each.get("measured") or {}).get("rank")}
            else:
                yield each


def write(cases: Sequence[Case], target: str | None) -> None:
    """Cases into a file, one in a line so that changes can be read; or onto standard output."""
    text = "[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n"
    if target is None:
        print(text, end="")
    else:
        Path(target).write_text(text, encoding="utf-8")


def run_all(names: Sequence[str], target: str | None, run: Callable[[Mapping[str, Any]], Iterable[Run]]) -> int:
    """Run every config once; 2 if one is refused."""
    cases: list[Case] = []
    status = 0
    try:
        configs = list(read_configs(names))
    except Refused as error:
        print(f"refused: {error}", file=sys.stderr)
        return 2
    for config in configs:
        try:
            for each in run(config):
                cases += cases_of(each)
        except Refused as error:
            print(f"refused: {error}", file=sys.stderr)
            status = 2
    if os.environ.get("RANK", "0") == "0":  # of torchrun's processes, one writes
        write(cases, target)
    return status
