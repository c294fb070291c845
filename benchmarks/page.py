"""How fast the built page is: first paint, live cold and warm, and the answer to an edit.

    python build.py && .venv/bin/python benchmarks/page.py

Cold is a fresh browser profile, warm the third and later visits of one profile, both from a local server without
compression. An edit is timed from the keystroke to the changed verdict. Prints milliseconds: minimum, median, maximum.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import threading
from pathlib import Path
from statistics import median

from playwright.sync_api import BrowserContext, Page, Playwright, sync_playwright

sys.path.insert(0, str(Path(__file__).parent.parent))
from build import server

WATCH = """
new MutationObserver((_, watcher) => {
  if (document.documentElement.dataset.state !== "live") return;
  window.liveAt = performance.now();
  watcher.disconnect();
}).observe(document, { attributes: true, subtree: true, attributeFilter: ["data-state"] });
"""
EDIT = """
([name, value]) => new Promise((done) => {
  const control = document.querySelector(`[name="${name}"]`);
  const verdict = document.getElementById("verdict");
  const began = performance.now();
  new MutationObserver((_, watcher) => { watcher.disconnect(); done(performance.now() - began); })
    .observe(verdict, { attributes: true });
  control.value = value;
  control.dispatchEvent(new Event("input", { bubbles: true }));
})
"""
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


def report(playwright: Playwright, url: str, runs: int) -> None:
    """Every figure, one line each."""
    paints, cold, warm, edits = [], [], [], []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as profile:
            paint, live = visit(playwright, profile, url)[:2]
            paints.append(paint)
            cold.append(live)
    with tempfile.TemporaryDirectory() as profile:
        for number in range(runs + 2):
            paint, live, answers = visit(playwright, profile, url)
            if number >= 2:  # the service worker and the compiled code are there from the third visit on
                paints.append(paint)
                warm.append(live)
                edits += answers
    for name, times in (
        ("first contentful paint", paints),
        ("live, cold", cold),
        ("live, warm", warm),
        ("edit", edits),
    ):
        print(f"{name:24s} {min(times):7.0f} {median(times):7.0f} {max(times):7.0f} ms")


def visit(playwright: Playwright, profile: str, url: str) -> tuple[float, float, list[float]]:
    """One visit in a browser of its own: first paint, when the page was live, and some edits."""
    context: BrowserContext = playwright.chromium.launch_persistent_context(
        profile, executable_path=shutil.which("chromium"), args=["--no-sandbox"], bypass_csp=True
    )
    page: Page = context.pages[0]
    page.add_init_script(WATCH)
    page.goto(url)
    page.locator("html[data-state=live]").wait_for(state="attached", timeout=60_000)
    live = float(page.evaluate("window.liveAt"))
    paint = float(page.evaluate(PAINT))
    answers = [
        float(page.evaluate(EDIT, ["training.sequence_length", str(4096 + 512 * number)])) for number in range(10)
    ]
    page.wait_for_timeout(300)
    context.close()
    return paint, live, answers


if __name__ == "__main__":
    main()
