"""How fast the built page is: paints, layout shifts, live cold and warm, the answer to an edit, and the longest task.

    python build.py && .venv/bin/python benchmarks/page.py

Cold is a fresh browser profile, warm the third and later visits of one profile, both from a local server without
compression. Edits of ten fields are timed from the keystroke to the first answer, allocated memory, and to the verdict;
further edits, after which nobody does anything, until every track below a number is painted for the new job.
The longest task is what the main thread does without a break once the page is live, while edits are answered, a curve
is drawn and layouts are searched. Prints milliseconds: minimum, median, 95th percentile, maximum. All of it is time on
the clock: a busy machine shows how long Python waits for a core. What is being done is said on the way, on standard error; what
does not come within a minute ends the run with an error that names it.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from playwright.sync_api import BrowserContext, Page, Playwright, sync_playwright

sys.path[:0] = [str(Path(__file__).parent.parent), str(Path(__file__).parent)]
from edits import EDITS

from build import server

WATCH = """
window.largest = 0; window.shift = 0; window.longest = 0;
const watch = (type, take) => new PerformanceObserver((list) => list.getEntries().forEach(take)).observe({ type, buffered: true });
watch("largest-contentful-paint", (each) => { largest = each.startTime; });
watch("layout-shift", (each) => { if (!each.hadRecentInput) shift += each.value; });
watch("longtask", (each) => { if (window.liveAt && each.startTime > liveAt) longest = Math.max(longest, each.duration); });
new MutationObserver((_, watcher) => {
  if (document.documentElement.dataset.state !== "live") return;
  window.liveAt = performance.now();
  watcher.disconnect();
}).observe(document, { attributes: true, subtree: true, attributeFilter: ["data-state"] });
"""
EDIT = """
([name, value, patience]) => new Promise((done, fail) => {
  const control = document.querySelector(`[name="${name}"]`);
  const verdict = document.getElementById("verdict");
  const began = performance.now();
  let first = 0;
  setTimeout(() => fail(new Error(`no ${first ? "verdict" : "answer"} for ${name} = ${value} after ${patience / 1000} s`)), patience);
  new MutationObserver((_, watcher) => {
    first ||= performance.now() - began;
    if (verdict.getAttribute("aria-busy") === "true") return;
    watcher.disconnect();
    done([first, performance.now() - began]);
  }).observe(verdict, { attributes: true });
  const problems = document.getElementById("problems");
  new MutationObserver(() => { if (!problems.hidden) fail(new Error(`${name} = ${value}: ${problems.innerText}`)); })
    .observe(problems, { attributes: true, childList: true });
  control.value = value;
  control.dispatchEvent(new Event("input", { bubbles: true }));
})
"""
PAINTED = """
([name, value, patience]) => new Promise((done, fail) => {
  const root = document.documentElement;
  const control = document.querySelector(`[name="${name}"]`);
  const began = performance.now();
  let edited = false;
  setTimeout(() => fail(new Error(`no tracks for ${name} = ${value} after ${patience / 1000} s`)), patience);
  new MutationObserver((_, watcher) => {
    const waits = root.dataset.answer !== "whole" || document.querySelector(".slot:not([hidden]) .number.old");
    edited ||= waits;
    if (waits || !edited) return;
    watcher.disconnect();
    done(performance.now() - began);
  }).observe(root, { subtree: true, attributes: true, attributeFilter: ["class", "data-answer"] });
  control.value = value;
  control.dispatchEvent(new Event("input", { bubbles: true }));
})
"""
UNTRIED = (
    ("training.sequence_length", "12k"),
    ("hardware.num_gpus", "4"),
    ("training.micro_batch_size", "3"),
    ("hardware.accelerator", "rtx-5090"),
    ("model", "qwen2.5-14b"),
    ("training.activation_checkpointing.policy", "none"),
)
"""Edits, one on top of another, that no edit before has asked for."""
PATIENCE = 60_000
"""Milliseconds after which something has not come."""
PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    running = server(0, "/memcore/")
    threading.Thread(target=running.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{running.server_address[1]}/memcore/"
    with sync_playwright() as playwright:
        report(playwright, url, runs)


@dataclass
class Figures:
    """Milliseconds of every visit; shifts are shares of the window."""

    paints: list[float] = field(default_factory=list)
    largest: list[float] = field(default_factory=list)
    shifts: list[float] = field(default_factory=list)
    cold: list[float] = field(default_factory=list)
    warm: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    edits: list[float] = field(default_factory=list)
    tracks: list[float] = field(default_factory=list)
    tasks: list[float] = field(default_factory=list)


def report(playwright: Playwright, url: str, runs: int) -> None:
    """Every figure, one line each."""
    found = Figures()
    for number in range(runs):
        say(f"cold visit {number + 1} of {runs}")
        with tempfile.TemporaryDirectory() as profile:
            visit(playwright, profile, url, found, found.cold)
    with tempfile.TemporaryDirectory() as profile:
        for number in range(runs + 2):
            # the service worker and the compiled code are there from the third visit on
            early = number < 2
            say(f"warm visit {number - 1} of {runs}" if not early else f"visit {number + 1} of 2 before the warm ones")
            visit(playwright, profile, url, Figures() if early else found, [] if early else found.warm, stays=early)
    for name, times in (
        ("first contentful paint", found.paints),
        ("largest contentful paint", found.largest),
        ("live, cold", found.cold),
        ("live, warm", found.warm),
        ("edit, first answer", found.first),
        ("edit, verdict", found.edits),
        ("edit, tracks painted", found.tracks),
        ("longest task", found.tasks),
    ):
        ordered = sorted(times)
        high = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
        print(f"{name:26s} {ordered[0]:7.0f} {median(times):7.0f} {high:7.0f} {ordered[-1]:7.0f} ms")
    print(f"{'layout shift, worst':26s} {max(found.shifts):7.3f}")


def say(text: str) -> None:
    """Tell who waits what is being done."""
    print(text, file=sys.stderr, flush=True)


def explore(page: Page) -> None:
    """Move the crosshair over the step, pin a moment, and zoom in and out."""
    box = page.locator("#scan").bounding_box() or {"x": 0, "y": 0, "width": 0, "height": 0}
    for number in range(50):
        page.mouse.move(box["x"] + box["width"] * number / 50, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.up()
    page.locator("#moment-tensors details").first.wait_for()
    page.locator("#zoom-in").click()
    page.locator("#zoom-reset").click()


def visit(
    playwright: Playwright, profile: str, url: str, found: Figures, live: list[float], *, stays: bool = False
) -> None:
    """One visit in a browser of its own: paints, when the page was live, some edits, a curve and a search.

    Who `stays` leaves time to the service worker, and to the browser for keeping the code that it has compiled.
    """
    context: BrowserContext = playwright.chromium.launch_persistent_context(
        profile, executable_path=shutil.which("chromium"), args=["--no-sandbox"], bypass_csp=True
    )
    context.set_default_timeout(PATIENCE)
    page: Page = context.pages[0]
    page.add_init_script(WATCH)
    page.wait_for_timeout(500)  # the browser is still starting
    page.goto(url)
    page.locator("html[data-state=live]").wait_for(state="attached")
    live.append(float(page.evaluate("window.liveAt")))
    found.paints.append(float(page.evaluate(PAINT)))
    found.largest.append(float(page.evaluate("largest")))
    found.shifts.append(float(page.evaluate("shift")))
    say(f"  live after {live[-1]:.0f} ms; {sum(map(len, EDITS.values()))} edits")
    for name, values in EDITS.items():
        for value in values:
            first, verdict = page.evaluate(EDIT, [name, value, PATIENCE])
            found.first.append(float(first))
            found.edits.append(float(verdict))
            page.locator("html[data-answer=whole]").wait_for(state="attached")
    say(f"  {len(UNTRIED)} edits and their tracks")
    found.tracks += [float(page.evaluate(PAINTED, [*edit, PATIENCE])) for edit in UNTRIED]
    say("  the step, a curve, and a search")
    explore(page)
    page.locator("[data-show=plans]").click()
    page.locator("[data-do=curve]").click()
    page.locator("#curve svg.curve").wait_for()
    page.locator("[data-show=layouts]").click()
    page.locator("[data-do=search]").click()
    page.locator("#search table").wait_for()
    page.evaluate("document.getElementById('cancel').click()")  # hidden by now where the search was quick
    found.tasks.append(float(page.evaluate("longest")))
    if stays:
        say("  the service worker keeps the files")
        page.wait_for_function("Boolean(navigator.serviceWorker.controller)")
        page.wait_for_timeout(5000)
    context.close()


if __name__ == "__main__":
    main()
