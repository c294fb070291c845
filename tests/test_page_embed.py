"""One live picture in a frame of another page, and what carries it there: the snippet, the badge and the card."""

import re
import struct
from xml.etree import ElementTree

import pytest
from browser import ON_EIGHT, accessible, expect, live, native, visitor

from memcore import estimate
from memcore.config.url import decode_fragment

pytestmark = pytest.mark.machine

SERVER = "v1&model=llama-3.1-8b&batch=8&max-len=8192&engine=vllm&accelerator=h100-sxm-80gb"

GROUNDS = ((320, "dark"), (720, "light"))
"""Widths of the frame and colour schemes of the page around it."""


def test_what_is_copied_shows_the_picture(context, watched, site):
    """The snippet, in a page of somebody else's, shows the verdict and the step alone, live, and leads to the page."""
    page = live(watched, f"{site}{ON_EIGHT}")
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("#exports, header").get_by_role("button", name="Export", exact=True).click()
    dialog = page.get_by_role("dialog", name="Export", exact=True)
    dialog.get_by_role("button", name="Copy embed").click()
    expect(page.locator("#notice")).to_have_text("Copied.")
    snippet = page.evaluate("navigator.clipboard.readText()")
    assert snippet.startswith("<iframe ")
    with page.expect_download() as saved:
        dialog.get_by_role("button", name="Save badge").click()
    assert "GPU memory" in "".join(ElementTree.fromstring(saved.value.path().read_text("utf-8")).itertext())
    with page.expect_download() as saved:
        dialog.get_by_role("button", name="Save card").click()
    png = saved.value.path().read_bytes()
    assert struct.unpack(">II", png[16:24]) == (1200, 630)
    assert b"tEXtmemcore\0" in png[:60]

    context.route(
        "**/elsewhere.html", lambda route: route.fulfill(body=f"<!doctype html>{snippet}", content_type="text/html")
    )
    other = context.new_page()
    other.goto(f"{site}elsewhere.html")
    frame = other.frame_locator("iframe")
    expect(frame.locator("html")).to_have_attribute("data-state", "live")
    expect(frame.locator("#verdict")).to_have_attribute("data-level", "fits")
    assert (
        frame.locator("#verdict").get_attribute("data-device-bytes")
        == native(decode_fragment(ON_EIGHT))["device-bytes"]
    )
    expect(frame.get_by_text("Llama 3.1 8B · 8,192 tokens · 8 × H100 SXM · 80 GB")).to_be_visible()
    for part in ("#verdict", "#bar", "#timeline", "#legend"):
        expect(frame.locator(part)).to_be_visible()
    for part in ("#config", "nav", "footer", "#ways-part", "#step-note"):
        expect(frame.locator(part).first).to_be_hidden()
    with other.expect_popup() as opened:
        frame.get_by_role("link", name="Open in memcore").click()
    expect(opened.value).to_have_url(f"{site}{ON_EIGHT}")
    expect(opened.value.get_by_label("Model", exact=True)).to_be_visible()


def test_pictures_for_everybody(browser, site):
    """The example, training and a server, in Chinese: axe finds nothing, nothing scrolls sideways; a low frame has the gauge alone."""
    context = visitor(browser, bypass_csp=True, locale="zh-CN")
    page = live(context.new_page(), f"{site}#embed")
    for link in ("", ON_EIGHT[1:], SERVER):
        page.evaluate("(link) => { location.hash = link; }", f"{link}&embed" if link else "embed")
        if link:
            expect(page.locator("#unembed")).to_have_attribute("href", f"#{link}")
            device = estimate(decode_fragment(f"#{link}")).device
            expect(page.locator("#verdict")).to_have_attribute("data-device-bytes", str(device.expected))
        expect(page.locator("html")).to_have_attribute("data-answer", "whole")
        expect(page.locator("html:not([data-job])")).to_be_attached()
        expect(page.locator("#verdict")).to_have_attribute("data-fits", re.compile("true|false"))
        for width, scheme in GROUNDS:
            page.set_viewport_size({"width": width, "height": 560})
            page.emulate_media(color_scheme=scheme)
            expect(page.locator("#timeline svg").first).to_be_visible()
            assert not re.search(r"[a-z]{3,} [a-z]{3,}", page.locator("main").inner_text())
            accessible(page, f"{link}, {width}, {scheme}")
    for width, _ in GROUNDS:
        page.set_viewport_size({"width": width, "height": 300})
        expect(page.locator("#timeline")).to_be_hidden()
        expect(page.locator("#bar")).to_be_visible()
    context.close()
