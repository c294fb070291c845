"""What is varied: configs of published checkpoints, jobs that were measured, and every text that tests read."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from memcore.config.settings import Config
from memcore.networks.catalog import catalog
from memcore.tools import TOOLS, exported

TESTS = Path(__file__).parents[1] / "tests"
JOBS = ("hardware", "inference", "megatron", "nanotron", "simulated")
"""Truth files whose cases have a config."""
TEXTS = ("test_formats*.py", "test_import*.py", "test_serving_formats.py", "test_yaml*.py", "test_shell*.py")
"""Tests that hold other tools' files and command lines."""
LOGS = ("test_logs*.py",)
"""Tests that hold what engines print."""
LEAST = 24
"""Characters of a text that is worth varying."""
EXPORTS = 12
"""Jobs that are exported for each tool."""

Tree = dict[str, Any]


@lru_cache(maxsize=1)
def published() -> Sequence[Tree]:
    """The content of config.json files: those of the tests with their tensors, and the catalog's."""
    checkpoints = [each["config"] for each in _truth("checkpoints").values()]
    return [*checkpoints, *(dict(each["config"]) for each in catalog().values())]


@lru_cache(maxsize=1)
def names() -> Sequence[str]:
    """Hub ids of the catalog."""
    return list(catalog())


@lru_cache(maxsize=1)
def networks() -> Sequence[Tree]:
    """Small networks of every kind: those whose allocations were recorded."""
    return _different(case["config"]["model"] for case in _truth("tapes").values())


@lru_cache(maxsize=1)
def jobs() -> Sequence[Tree]:
    """Configs of measured and simulated runs."""
    return _different(case["config"] for name in JOBS for case in _truth(name) if "config" in case)


@lru_cache(maxsize=1)
def cases() -> Sequence[Tree]:
    """Measured cases, as `memcore accuracy` reads them."""
    return [case for name in ("hardware", "inference", "nanotron") for case in _truth(name)]


@lru_cache(maxsize=1)
def files() -> Sequence[str]:
    """Files and command lines of other tools: those that tests hold, and what memcore writes for measured jobs."""
    return [*_strings(TEXTS), *_exports()]


@lru_cache(maxsize=1)
def logs() -> Sequence[str]:
    """Lines that engines print."""
    return _strings(LOGS)


def _truth(name: str) -> Any:
    return json.loads((TESTS / "truth" / f"{name}.json").read_text(encoding="utf-8"))


def _different(found: Iterator[Mapping[str, Any]]) -> list[Tree]:
    """Each of them once, in their order."""
    return [json.loads(text) for text in dict.fromkeys(json.dumps(each) for each in found)]


def _strings(patterns: Sequence[str]) -> list[str]:
    """The texts in the tests of these names, without documentation."""
    paths = sorted({path for pattern in patterns for path in TESTS.glob(pattern)})
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in paths]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    said = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    texts = (node.value for node in nodes if isinstance(node, ast.Constant) and id(node) not in said)
    return list(dict.fromkeys(text for text in texts if isinstance(text, str) and len(text) >= LEAST))


def _exports() -> Iterator[str]:
    """Jobs in the words of each tool that runs them."""
    for name, tool in TOOLS.items():
        if tool.read_only:
            continue
        running = [each for each in jobs() if _engine(each) in tool.engines]
        for job in running[:: max(1, len(running) // EXPORTS)]:
            with suppress(Exception):  # what cannot be written is found where exports are checked
                yield exported(Config.from_dict(job), name).text


def _engine(job: Mapping[str, Any]) -> object:
    return job.get("engine", {}).get("type", "none")
