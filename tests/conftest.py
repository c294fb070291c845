"""What tests share: configs by strategy, truth files, the built site and its server."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

os.environ["MEMCORE_LANGUAGE"] = "en"
gc.set_threshold(50_000)  # as on the command line: nearly all that is made stays, and is seldom looked through
# Every run asks the same questions, however fast the machine is; `--hypothesis-profile=default` asks new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repeatable")
IN_PYODIDE = (
    "allocator",
    "any_job",
    "budgets",
    "by_hand",
    "calibrating",
    "config",
    "environment",
    "form",
    "formats",
    "freeze",
    "imported",
    "limits",
    "links",
    "logs",
    "mistakes",
    "named",
    "notebook",
    "quantized",
    "render",
    "scripts",
    "server_words",
    "tapes",
    "terminal",
    "unseen_files",
    "unseen_jobs",
    "units",
)
"""Test files that run inside Pyodide too: what reads texts and files, where regular expressions, recursion and memory differ;
and what is close to numbers, dictionaries and hashes; of long tables a part (`thinned`). What the page asks for, its own
tests ask there; and for everything else test_freeze.py shows that answers there are those of here, to the last digit."""
collect_ignore = (
    [path.name for path in Path(__file__).parent.glob("test_*.py") if path.stem.removeprefix("test_") not in IN_PYODIDE]
    if sys.platform == "emscripten"
    else []
)
TRUTH = Path(__file__).parent / "truth"
LONGEST = tuple(
    f"test_{name}.py"
    for name in [
        "in_pyodide",
        "page",
        "page_seen",
        "page_kept",
        "page_trouble",
        "release",
        "planned_recipes",
        "project",
        "page_ways",
        "page_timeline",
        "validation",
        "page_tasks",
        "page_embed",
        "page_firefox",
        "site",
        "searching",
        "session",
        "exports",
        "ways",
        "blind",
        "planning",
        "readers",
        "fuzzing",
        "published",
        "limits",
        "cli",
        "chinese",
        "invariants",
        "additions",
        "truth",
    ]
)


SAID = {"error", "warning", "info"}
"""Kinds of messages in the console that mean that something went wrong; information is said when Python cannot wake up."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The longest files come first: files are dealt whole to the cores, and none should wait for another at the end."""
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))
    if sys.platform == "emscripten":
        left_out = thinned(items)
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def thinned(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return what is left out inside Pyodide: of a table of more than a dozen cases all but every eighth.

    Each case takes several times as long there; all of them run here, and what differs there differs for a way of reading
    or reckoning, which the cases of a table share, not for one case.
    """
    tables: dict[str, list[pytest.Item]] = {}
    for item in items:
        tables.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return [item for table in tables.values() if len(table) > 12 for at, item in enumerate(table) if at % 8]


def truth(name: str) -> Any:
    """The content of a truth file."""
    return json.loads((TRUTH / f"{name}.json").read_text(encoding="utf-8"))


def predicted(name: str, chosen: Callable[[dict[str, Any]], bool] = lambda case: True) -> list[Any]:
    """Results of memory of a truth file's cases, of those that are chosen: predicted once for all, as for the accuracy page."""
    from docs.reports import results
    from memcore.questions.accuracy import SPEEDS

    cases = [case for case in truth(name) if case["measured"]["quantity"] not in SPEEDS]
    return [result for case, result in zip(cases, results(name), strict=True) if chosen(case)]


def timed(card: str) -> list[dict[str, Any]]:
    """Steps that were timed on a GPU, of the validation suite and of the loops in `h100.json`, as cases."""
    measured = TRUTH.parent.parent / "validation" / "measured"
    seconds = json.loads((measured / f"{card}-speed.json").read_text(encoding="utf-8"))["seconds_per_step"]
    runs = (*json.loads((measured / f"{card}.json").read_text(encoding="utf-8")), *truth("h100"))
    cases = {each["id"]: each for each in runs}
    quantity = "step_seconds"
    return [{**cases[name], "measured": {"quantity": quantity, "value": value}} for name, value in seconds.items()]


@pytest.fixture(scope="session")
def dist() -> Path:
    """The built site; built now if it is missing."""
    import build

    if not (build.DIST / "sw.js").exists():
        build.prepare()
        build.build()
    return build.DIST


@pytest.fixture(scope="session")
def site(dist: Path) -> Iterator[str]:
    """The address of the built site, served below a path as project pages are."""
    with served(dist, "memcore/") as address:
        yield address


@contextmanager
def served(folder: Path, path: str = "") -> Iterator[str]:
    """The address of a folder, served below a path."""
    import threading

    import build

    running = build.server(0, path, folder)
    threading.Thread(target=running.serve_forever, args=(0.05,), daemon=True).start()
    yield f"http://127.0.0.1:{running.server_address[1]}/{path}"
    running.shutdown()
    running.server_close()


@pytest.fixture(scope="session")
def browser_type_launch_args() -> dict[str, Any]:
    """The machine's own Chromium; its network features that nobody asked for are off."""
    from chromium import CHROMIUM

    return {
        "executable_path": CHROMIUM,
        "args": ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
    }


@pytest.fixture
def context(context: Any, request: pytest.FixtureRequest) -> Any:
    """A window of its own, whose pages do nothing for later visits unless the test has the mark `unhurried`."""
    from browser import HURRIED

    if request.node.get_closest_marker("unhurried") is None:
        context.add_init_script(HURRIED)
    return context


def watch(context: Any, page: Any, site: str) -> list[str]:
    """The list that a page's console errors, failures and foreign requests are added to."""
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text) if message.type in SAID else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    context.on(
        "request",
        lambda request: None if request.url.startswith((site, "data:", "blob:")) else wrong.append(request.url),
    )
    return wrong


@pytest.fixture
def watched(context: Any, page: Any, site: str) -> Iterator[Any]:
    """A page whose console errors, failures and foreign requests end the test."""
    wrong = watch(context, page, site)
    yield page
    assert wrong == []


@pytest.fixture(scope="module")
def windows(browser: Any) -> Iterator[list[Any]]:
    """The page that tests of a file share, and what went wrong on it; empty until one of them asks for it."""
    found: list[Any] = []
    yield found
    for page, _ in found:
        page.context.close()


@pytest.fixture
def shared(windows: list[Any], browser: Any, site: str, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A live page, watched, that tests of a file share; each brings it to its link with `at`. A test that fails ends it."""
    from browser import UNFOLDED, live, visitor

    if not windows:
        context = visitor(browser)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        opened = context.new_page()
        windows.append((opened, watch(context, opened, site)))
        live(opened, site).evaluate(UNFOLDED)
    page, wrong = windows[0]
    failed = request.session.testsfailed
    yield page
    if wrong or request.session.testsfailed > failed:
        windows.clear()
        page.context.close()
    assert wrong == []
