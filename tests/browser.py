"""What tests of the page in Chromium share: jobs, places on the page, and what it says, to be compared with Python here."""

import pytest
from chromium import CHROMIUM

from memcore import estimate
from memcore.config.settings import Config
from memcore.config.url import decode_fragment, encode_fragment
from memcore.faces.page.answering import values_of
from memcore.faces.page.presets import presets
from memcore.faces.render.page import EXAMPLE, fill
from memcore.units import format_bytes

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect
PATIENCE = 60_000
"""Milliseconds that a busy machine may take for what is expected."""
expect.set_options(timeout=PATIENCE)
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
    "selectors": False,  # what is wrong is shown as it is written
    "preload": False,  # no rule of these tags reads style sheets or media
}

RULES = """
([part, options]) => axe.run(part, options).then(({ violations }) => violations.map(
  ({ id, nodes }) => [id, nodes.slice(0, 3).map(({ html }) => html.slice(0, 200))]))
"""
FAINT = """
(part) => {
  const parse = (text) => (text.match(/[\\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
  const over = ([r, g, b, a = 1], [x, y, z]) => [r * a + x * (1 - a), g * a + y * (1 - a), b * a + z * (1 - a)];
  const light = (colour) => colour.map((each) => each / 255)
    .map((each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4))
    .reduce((sum, each, at) => sum + each * [0.2126, 0.7152, 0.0722][at], 0);
  const known = new Map([[null, parse(getComputedStyle(document.documentElement).colorScheme === "dark" ? "0 0 0" : "255 255 255")]]);
  const ground = (element) => {
    if (!known.has(element)) known.set(element, over(parse(getComputedStyle(element).backgroundColor), ground(element.parentElement)));
    return known.get(element);
  };
  const found = { faint: [], seen: 0 };
  for (const each of document.querySelectorAll(`:is(${part}) *`)) {
    const says = [...each.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
    if (!says || each.closest("svg, :disabled, option, [inert]") || !each.checkVisibility({ visibilityProperty: true })) continue;
    const { color, fontSize, fontWeight } = getComputedStyle(each);
    const behind = ground(each);
    const [dark, bright] = [light(over(parse(color), behind)), light(behind)].sort((one, other) => one - other);
    const large = parseFloat(fontSize) >= (fontWeight >= 700 ? 18.66 : 24);
    found.seen += 1;
    if ((bright + 0.05) / (dark + 0.05) < (large ? 3 : 4.5)) found.faint.push(each.outerHTML.slice(0, 200));
  }
  return found;
}
"""
"""Texts that are too faint on their ground, and how many were looked at: axe takes twenty times as long for the same."""


def accessible(page, name="", part="html", *, contrast=False):
    """Look at a part of a page: axe finds nothing, all texts are readable, and the window does not scroll sideways.

    The contrast takes axe as long as all the rest, so that it is asked for it once: everywhere else `readable` looks at it.
    """
    from axe_playwright_python.sync_playwright import Axe

    if not page.evaluate("'axe' in window"):
        page.evaluate(Axe().axe_script)
    options = {**AXE, "rules": {"color-contrast": {"enabled": contrast}}}
    assert page.evaluate(RULES, [part, options]) == [], name
    readable(page, name, part)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name


def readable(page, name="", part="html"):
    """Look at the contrast of the texts of a part of a page."""
    found = page.evaluate(FAINT, part)
    assert found["seen"], name
    assert found["faint"] == [], name


HURRIED = """
if (self.ServiceWorkerContainer) ServiceWorkerContainer.prototype.register = () => Promise.resolve(null);
const post = Worker.prototype.postMessage;
Worker.prototype.postMessage = function (message, ...more) {
  const said = typeof message === "string" ? message.replace('"do":"practise"', '"do":"ping"') : message;
  return post.call(this, said, ...more);
};
"""
"""What a page does for later visits and edits, which costs more time than most tests: it keeps no files and does not practise.

Tests of that have the mark `unhurried`.
"""


def visitor(browser, **options):
    """A browser window that does nothing for later visits."""
    context = browser.new_context(**options)
    context.add_init_script(HURRIED)
    return context


def live(page, address):
    """Open an address and wait until Python answers, and the form shows the link's job: until then it takes no input."""
    page.goto(address)
    return arrived(page)


def arrived(page):
    """Wait until a page that was opened is live."""
    expect(page.locator("html")).to_have_attribute("data-state", "live")
    expect(page.locator("#config:not([inert])")).to_be_attached()
    return page


ARRIVE = """
(link) => {
  for (const each of document.querySelectorAll("dialog[open]")) each.close();
  for (const each of document.querySelectorAll("#drawer:not([hidden]) [data-close], #moment-unpin:not([hidden]), #zoom-reset:enabled")) each.click();
  for (const each of document.querySelectorAll("details")) each.open = JSON.parse(window.name).includes(each.id || each.querySelector("summary").textContent);
  document.querySelector("[data-show=overview]").click();
  document.activeElement.blur();
  scrollTo(0, 0);
  localStorage.clear();
  sessionStorage.clear();
  delete document.documentElement.dataset.answer;
  history.pushState(null, "", location.pathname + location.search + link);
  dispatchEvent(new PopStateEvent("popstate"));
  document.getElementById("shared").hidden = !link;
}
"""
"""Goes to another address without loading the page again, as if it had been typed, with nothing left open or stored."""
EMPTY = """
() => {
  for (const id of ["advice", "curve", "search", "reconciled"]) document.getElementById(id).replaceChildren();
  for (const id of ["advice", "curve"]) document.getElementById(`${id}-earlier`).hidden = true;
}
"""
"""Clears what was asked for in addition to an earlier job's answer: the page keeps it, and nothing more of it arrives."""
UNFOLDED = "window.name = JSON.stringify([...document.querySelectorAll('details[open]')].map((each) => each.id || each.querySelector('summary').textContent))"
FORM = "Object.fromEntries([...document.querySelectorAll('#config [name]')].map((each) => [each.name, each.value]).filter(([, text]) => text))"
STATE = """
() => ({
  open: [...document.querySelectorAll("dialog[open], #drawer:not([hidden]), #busy:not([hidden]), #trouble:not([hidden])")].map(({ id }) => id),
  marked: document.querySelectorAll(".before:not(#ways), .stale, .late, .chosen, [aria-invalid=true]").length,
  results: ["advice", "curve", "search", "reconciled", "compare"].filter((id) => document.querySelector(`#${id} :is(table, svg)`)),
  stored: [Object.keys(localStorage), JSON.parse(sessionStorage.memcore)],
  steps: ["undo", "redo"].filter((id) => !document.getElementById(id).disabled),
  shown: [document.getElementById("answer").dataset.view, document.documentElement.lang, document.documentElement.dataset.theme],
  pending: document.documentElement.dataset.job ?? "",
})
"""
"""What a visit may have left."""


def at(page, link=""):
    """Bring a page that tests share to a link, and make sure that nothing is left of the test before.

    It is for tests of what a live page does: how a page starts is tested with `live`.
    """
    page.evaluate(ARRIVE, link)
    config = decode_fragment(link) if link else Config.from_dict(EXAMPLE)
    device = str(estimate(config).device.expected)
    expect(page.locator("#verdict")).to_have_attribute("data-device-bytes", device)
    expect(page.locator("html")).to_have_attribute("data-answer", "whole")
    expect(page.locator("html:not([data-job]) #problems")).to_be_hidden()
    page.evaluate(EMPTY)
    assert page.evaluate(FORM) == {name: text for name, text in values_of(fill(config)).items() if text}
    wanted = {
        "open": [],
        "marked": 0,
        "results": [],
        "stored": [[], {"hash": link, "furthest": 0}],
        "steps": [],
        "shown": ["overview", "en", "auto"],
        "pending": "",
    }
    for _ in range(100):  # the browser takes its time with its history
        found = page.evaluate(STATE)
        if found == wanted:
            break
        page.wait_for_timeout(50)
    assert found == wanted
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
