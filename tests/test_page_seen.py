"""What one sees of the built page: everything in sight, in every theme and width, accessible, and nothing that jumps."""

from contextlib import contextmanager

import pytest
from browser import (
    AT_4096,
    EIGHT,
    ON_EIGHT,
    SEQUENCE,
    accessible,
    arrived,
    at,
    cancel,
    expect,
    live,
    readable,
    settings,
    size,
    view,
    visitor,
)

from memcore import estimate
from memcore.config.settings import Config
from memcore.config.url import decode_fragment, encode_fragment
from memcore.faces.render.page import EXAMPLE

pytestmark = pytest.mark.machine

VIEWS = ("overview", "tensors", "plans", "layouts", "compare", "log", "model")
STAGES = "v1&model=llama-3.1-8b&seq=512&engine=fsdp&pp=2&grad-accum=4&gpus=4&accelerator=h100-sxm-80gb"
SERVED = "v1&model=llama-3.1-8b&engine=vllm&accelerator=h100-sxm-80gb&max-len=8192"
FOUR_STAGES = "v1&model=llama-3.1-8b&seq=8192&engine=megatron&pp=4&accelerator=rtx-4090&gpus=8"
TOO_BIG = "v1&model=llama-3.1-8b&seq=4096&accelerator=rtx-4090&gpus=1"


def test_what_is_folded_stays_folded(browser, site):
    """A narrow window opens with the groups folded and a line of the verdict in sight; a choice outlives the visit."""
    context = visitor(browser, viewport={"width": 375, "height": 700})
    page = context.new_page()
    page.goto(site)
    training, engine = page.locator("#group-Training"), page.locator("#group-Engine")
    expect(training).not_to_have_attribute("open", "")
    arrived(page)
    settings(page)
    engine.locator("summary").first.click()
    page.locator("#settings-close").click()
    page.locator("#more").click()
    page.locator("#language").select_option("zh")
    expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
    settings(page)
    expect(engine).to_have_attribute("open", "")
    expect(training).not_to_have_attribute("open", "")
    page.set_viewport_size({"width": 1280, "height": 800})
    settings(page)
    engine.locator("summary").first.click()
    live(page, site)
    expect(training).to_have_attribute("open", "")
    expect(engine).not_to_have_attribute("open", "")
    page.set_viewport_size({"width": 375, "height": 700})
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    expect(page.locator("#mini")).to_be_visible()
    expect(page.locator("#mini-text")).to_contain_text(size(EXAMPLE))
    context.close()


GROUNDS = [(320, "light"), (1280, "dark")]
"""Widths and colour schemes in which nothing may be wrong; in the other two only colours may differ."""


def on_every_ground(page, name, part="html", grounds=GROUNDS, *, contrast=False):
    """Look at a part of a page on every ground, whether its texts can be read on all four, and that nothing scrolls sideways.

    What is the same in all views, the form and the frame, need not be looked at in each. Without the contrast axe looks at
    the elements, not at colours: a dialog, whose elements are the same everywhere, is looked at on the narrow one.
    """
    for width in (320, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (name, width)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            where = f"{name}, {width}, {scheme}"
            if (width, scheme) in grounds:
                accessible(page, where, part, contrast=contrast)
            else:
                readable(page, where, part)


LOOKED_AT = """
() => {
  for (const part of document.querySelectorAll("#answer > [data-in]"))
    if (part.checkVisibility()) part.setAttribute("data-looked-at", "");
}
"""
"""Marks the parts of the answer that the view shows."""


@contextmanager
def all_views(page):
    """Look at the colours and widths of each view on every ground; then what any of them shows is in sight at once.

    axe takes as long for the page around a view as for the view, so that it is asked once for all of them.
    """
    for name in VIEWS:
        page.evaluate(f"document.querySelector('[data-show={name}]').click()")
        on_every_ground(page, name, "#answer", ())
        page.evaluate(LOOKED_AT)
    style = page.add_style_tag(content="#answer > [data-looked-at] { display: block !important }")
    assert page.locator("#answer > [data-looked-at]").filter(visible=True).count() >= len(VIEWS)
    yield
    style.evaluate("(style) => style.remove()")


def test_accessibility(browser, site):
    """axe finds nothing in any view, with everything unfolded, all settings included, and with an error shown."""
    context = visitor(browser, color_scheme="light", bypass_csp=True)
    page = live(context.new_page(), site)
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    on_every_ground(page, "the page", contrast=True)
    with all_views(page):
        on_every_ground(page, "all views", "#answer", GROUNDS[:1])
    page.locator(SEQUENCE).fill("many")
    expect(page.locator("#problems")).to_be_visible()
    on_every_ground(page, "an error", "#sentence, #said, #top")
    context.close()


def test_three_views_and_the_drawer(shared):
    """A component is chosen in every view at once, by pointer or keyboard, and explained; Escape closes."""
    at(shared, "#v1&model=llama-3.1-8b&seq=512&engine=fsdp&pp=2&grad-accum=4&gpus=4&accelerator=h100-sxm-80gb")
    expect(shared.locator("#ranks svg text").nth(2)).to_be_attached()
    shared.locator('#legend [data-part="parameters"]').click()
    drawer = shared.locator("#drawer")
    expect(drawer).to_be_visible()
    expect(drawer).to_contain_text("Source")
    for picture in ("bar", "legend", "timeline", "ranks"):
        expect(shared.locator(f'#{picture} [data-part="parameters"]').first).to_have_attribute("aria-pressed", "true")
    shared.keyboard.press("Escape")
    expect(drawer).to_be_hidden()
    names = shared.locator("#bar [data-part][tabindex]").evaluate_all("(all) => all.map((each) => each.dataset.part)")
    parts = [shared.locator(f'#bar [data-part="{name}"]') for name in names[:2]]
    parts[0].focus()
    expect(parts[0]).to_be_focused()
    shared.keyboard.press("ArrowRight")
    expect(parts[1]).to_be_focused()
    shared.keyboard.press("Enter")
    expect(shared.locator("#drawer-heading")).to_have_text(names[1].replace("-", " "))


def test_paper_contrast_and_motion(shared):
    """Paper has the answer, the settings and the link on white; forced colours keep the parts apart; nothing moves."""
    at(shared, ON_EIGHT)
    shared.evaluate("dispatchEvent(new Event('beforeprint'))")
    shared.emulate_media(color_scheme="dark", media="print")
    for part in ("#config", "#change-part", "#search-part", "#undo"):
        expect(shared.locator(part)).to_be_hidden()
    for part in ("#verdict", "#bar svg", "#timeline svg", "#ledger", "#printed"):
        expect(shared.locator(part).first).to_be_visible()
    expect(shared.locator("#printed")).to_contain_text("#v1&model=llama-3.1-8b")
    style = "(name) => getComputedStyle(document.documentElement).getPropertyValue(name)"
    assert shared.evaluate(style, "color-scheme") == "light"
    shared.emulate_media(media="screen", forced_colors="active", reduced_motion="reduce")
    fills = (
        "[...new Set([...document.querySelectorAll('#bar rect')].map((each) => getComputedStyle(each).fill))].length"
    )
    assert shared.evaluate(fills) > 5
    moving = "[...document.querySelectorAll('*')].filter((each) => parseFloat(getComputedStyle(each).transitionDuration)).length"
    assert shared.evaluate(moving) == 0


def test_nothing_blocks_and_nothing_jumps(watched, site):
    """While layouts are searched edits are answered; from the first paint on the layout does not jump.

    How long anything takes is measured by benchmarks/page.py.
    """
    watched.add_init_script(
        """window.moved = 0;
           new PerformanceObserver((list) => { for (const each of list.getEntries()) if (!each.hadRecentInput) moved += each.value; })
             .observe({ type: "layout-shift", buffered: true });"""
    )
    live(watched, site)
    assert watched.evaluate("moved") < 0.1
    watched.evaluate(f"location.hash = {ON_EIGHT!r}")
    expect(watched.locator("#verdict")).to_contain_text(size(EIGHT))
    view(watched, "layouts")
    watched.locator("[data-do=search]").click()
    expect(watched.locator("#search-status")).to_contain_text("layouts tried")
    watched.locator(SEQUENCE).fill("4096")
    expect(watched.locator("#verdict")).to_contain_text(size(AT_4096))
    cancel(watched)


def test_accessibility_of_everything_that_opens(browser, site):
    """axe finds nothing in dialogs, the drawer, a comparison, suggestions, layouts, a server and the Chinese page."""
    context = visitor(browser, viewport={"width": 1280, "height": 800}, bypass_csp=True, locale="zh-CN")
    page = live(context.new_page(), f"{site}#{STAGES}")
    page.evaluate("document.querySelector('[data-do=pin]').click()")
    view(page, "plans")
    page.locator("[data-do=curve]").click()
    page.locator("[data-do=advise]").click()
    expect(page.locator("#advice table")).to_be_visible()
    view(page, "layouts")
    page.locator("[data-do=search]").click()
    expect(page.locator("#search table")).to_be_visible()
    cancel(page)
    view(page, "log")
    page.locator("#log-text").fill("max_memory_allocated: 31 GiB")
    page.locator("[data-do=reconcile]").click()
    expect(page.locator("#reconciled table")).to_be_visible()
    page.evaluate("for (const each of document.querySelectorAll('#answer details')) each.open = true")
    with all_views(page):
        on_every_ground(page, "the page with all views")
    view(page, "overview")
    page.locator('#legend [data-part="parameters"]').click()
    expect(page.locator("#drawer")).to_be_visible()
    on_every_ground(page, "drawer", "#drawer, #answer", GROUNDS[:1])
    page.keyboard.press("Escape")
    for dialog in ("presets", "import", "plans", "help"):
        page.evaluate(f"document.getElementById('{dialog}').showModal()")
        on_every_ground(page, dialog, f"#{dialog}", GROUNDS[:1])
        page.evaluate(f"document.getElementById('{dialog}').close()")
    page.keyboard.press("x")
    expect(page.locator("#exports pre").first).to_be_visible()
    on_every_ground(page, "exports", "#exports", GROUNDS[:1])
    page.keyboard.press("Escape")
    page.evaluate(f"location.hash = '{SERVED}'")
    expect(page.locator("#timeline svg.users")).to_be_visible()
    on_every_ground(page, "a server", "#sentence, #top, #bar-part, #answer", GROUNDS[:1])
    context.close()


def test_the_answer_is_in_sight(browser, site):
    """Sentence, verdict, gauge and step without scrolling; on a phone sentence and verdict, and two screens in all.

    So it is with a shared link, whose note is there, and plans; at 320 pixels no view is over three screens.
    """
    context = visitor(browser, viewport={"width": 1280, "height": 800})
    page = live(context.new_page(), f"{site}#{TOO_BIG}")
    bottom = "(id) => document.getElementById(id).getBoundingClientRect().bottom"
    expect(page.locator("#shared")).to_be_visible()
    for link in (TOO_BIG, FOUR_STAGES, SERVED, encode_fragment(Config.from_dict(EXAMPLE))):
        page.evaluate(f"location.hash = '{link}'")
        device = str(estimate(decode_fragment(link)).device.expected)
        expect(page.locator("#verdict")).to_have_attribute("data-device-bytes", device)
        expect(page.locator('html[data-answer="whole"]:not([data-job])')).to_be_attached()
        expect(page.locator("#ways:not(.before) li").first).to_be_visible()
        hero = "crowd" if link == SERVED else "timeline"
        for part in ("sentence", "verdict", "bar", hero):
            assert page.evaluate(bottom, part) <= 800, (link, part)
        view(page, "plans")
        expect(page.locator("#ways")).to_be_visible(visible=link != SERVED)
        view(page, "overview")
        page.set_viewport_size({"width": 390, "height": 844})
        for part in ("sentence", "verdict"):
            assert page.evaluate(bottom, part) <= 844, (link, part)
        assert page.evaluate("document.documentElement.scrollHeight") <= 2 * 844, link
        assert page.evaluate("document.querySelector('header .bar').offsetHeight") < 50
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.set_viewport_size({"width": 1280, "height": 800})
    page.set_viewport_size({"width": 320, "height": 640})
    for link in (SERVED, STAGES):
        page.evaluate(f"location.hash = '{link}'")
        device = str(estimate(decode_fragment(link)).device.expected)
        expect(page.locator("#verdict")).to_have_attribute("data-device-bytes", device)
        expect(page.locator('html[data-answer="whole"]')).to_be_attached()
        # Old plans keep their place while new ones are looked for.
        expect(page.locator("#ways:not(.before)")).to_be_attached()
        shown = [name for name in VIEWS if page.locator(f"[data-show={name}]").is_visible()]
        assert ("layouts" in shown) == (link == STAGES), "a server has none"
        for name in shown:
            view(page, name)
            # Pictures are drawn for their new width in a frame of their own.
            page.wait_for_function("document.documentElement.scrollWidth <= 320")
            assert page.evaluate("document.documentElement.scrollHeight") <= 3 * 640, (link, name)
    context.close()
