"""What tests of the page in Chromium share: jobs, places on the page, and what it says, to be compared with Python here."""

import shutil

import pytest

from memcore import estimate
from memcore.config.settings import Config
from memcore.config.url import encode_fragment
from memcore.faces.page.presets import presets
from memcore.units import format_bytes

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect
PATIENCE = 60_000
"""Milliseconds that a busy machine may take for what is expected."""
expect.set_options(timeout=PATIENCE)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
if CHROMIUM is None:
    pytest.skip("no Chromium on this machine: the tests of the page in a browser are skipped", allow_module_level=True)

EIGHT = presets()["8b-8xh100"].config
"""A job on several GPUs that fits with room."""
ON_EIGHT = f"#{encode_fragment(Config.from_dict(EIGHT))}"
AT_4096 = {**EIGHT, "training": {**EIGHT["training"], "sequence_length": 4096}}
"""The same with shorter sequences."""
SEQUENCE = '[name="training.sequence_length"]'
AXE = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    "resultTypes": ["violations"],  # of what passes nothing is described: that takes far longer than the checks
}


def live(page, address):
    """Open an address and wait until Python answers, and the form shows the link's job: until then it takes no input."""
    page.goto(address)
    expect(page.locator("html")).to_have_attribute("data-state", "live")
    expect(page.locator("#config:not([inert])")).to_be_attached()
    return page


def settings(page):
    """Open the panel with all settings."""
    page.evaluate("document.getElementById('settings').open = true")


def view(page, name):
    """Turn to a part of the answer."""
    page.locator(f'[data-show="{name}"]').click()


def controlled(page):
    """Wait until the service worker has everything and answers the page's requests."""
    page.evaluate(
        """navigator.serviceWorker.controller ? true : new Promise((done) =>
           navigator.serviceWorker.addEventListener("controllerchange", () => done(true), { once: true }))"""
    )


def numbers(page):
    """What the verdict says to tests and embedders."""
    verdict = page.locator("#verdict")
    return {
        name: verdict.get_attribute(f"data-{name}")
        for name in ("fits", "allocated-bytes", "reserved-bytes", "device-bytes", "phase")
    }


def answered(page, config):
    """Wait until the verdict is what Python on this machine says of a config, to the byte."""
    verdict = page.locator("#verdict")
    for name, value in native(config).items():
        expect(verdict).to_have_attribute(f"data-{name}", value)


def size(config):
    """What a config needs of each GPU, as the page says it."""
    return format_bytes(estimate(config).device.expected)


def cancel(page):
    """Stop the search and wait until it has; a search that was quicker has hidden its button by now."""
    page.evaluate("document.getElementById('cancel').click()")
    expect(page.locator("#search-progress")).to_be_hidden()


def native(config):
    """The same from Python on this machine."""
    found = estimate(config)
    return {
        "fits": {True: "true", False: "false", None: "unknown"}[found.fits],
        "allocated-bytes": str(found.allocated.expected),
        "reserved-bytes": str(found.reserved.expected),
        "device-bytes": str(found.device.expected),
        "phase": found.peak.phase,
    }
