"""The picture of a step in a browser: crosshair, pin, span and ghost, by pointer, touch and keyboard."""

import re

import pytest
from browser import SEQUENCE, accessible, at, expect, live, visitor

from memcore import estimate
from memcore.config.url import decode_fragment
from memcore.faces.render.page import EXAMPLE
from memcore.memory.stretches import stretches
from memcore.questions.solving import solve
from memcore.units import format_bytes

pytestmark = pytest.mark.machine

SERVER = "v1&model=llama-3.1-8b&engine=vllm&accelerator=h100-sxm-80gb&max-len=8192"
OTHERS = ("v1&model=qwen3-0.6b&seq=512", "v1&model=qwen3-0.6b&seq=1024")
VIEW = "document.querySelector('svg.timeline > svg').getAttribute('viewBox')"


def arrive(page, link=""):
    """Bring the shared page to a link, with nothing pointed at, pinned or left of another job's curve: a server has none."""
    page.mouse.move(5, 5)
    at(page, f"#{SERVER}")
    expect(page.locator("#timeline svg.users")).to_be_visible()
    at(page, link)
    expect(page.locator("#moment-state")).to_have_text("At the peak")
    expect(page.locator(".ghost")).to_have_count(0)
    return page


def pointed(page, across):
    """Move the pointer to a place across the step, from 0 to 1."""
    box = page.locator("#scan").bounding_box()
    page.mouse.move(box["x"] + across * box["width"], box["y"] + box["height"] / 2)


def test_the_crosshair_reads_every_moment(shared):
    """By pointer and by keys: name, bytes by kind, and the largest tensors; a click or Enter pins, and unpins."""
    found = estimate(EXAMPLE)
    arrive(shared)
    name, total, scan = (shared.locator(each) for each in ("#moment-name", "#moment-total", "#scan"))
    expect(shared.locator("#moment-state")).to_have_text("At the peak")
    expect(total).to_have_text(format_bytes(found.peak.peak))
    expect(shared.locator("#moment-tensors li")).to_have_count(5)
    for across in (0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8):
        pointed(shared, across)
    run = next(each for each in stretches(found.rank) if each.start < 0.8 < each.end)
    expect(name).to_have_text("backward pass, layers 2 to 29, 20 of 28")
    expect(shared.locator("#readout")).to_contain_text(f"20 of 28: {format_bytes(run.ledger(found.rank, 19).total)}")
    parts = shared.locator("#moment-kinds b").all_inner_texts()
    assert parts[0] == format_bytes(found.rank.persistent.parameters)
    assert len(parts) == shared.locator("#moment-kinds li").count() > 5
    shared.mouse.down()
    shared.mouse.up()
    expect(shared.locator("#moment-state")).to_have_text("Pinned")
    expect(shared.locator("#moment-tensors details")).to_have_count(12)
    shared.locator("#moment-tensors summary").first.click()
    expect(shared.locator("#moment-tensors details").first).to_contain_text("Source: ")
    pointed(shared, 0.1)
    expect(name).to_contain_text("20 of 28")  # the list stays with the pinned moment
    expect(shared.locator("#readout")).to_contain_text("forward pass, layers 2 to 29")
    shared.locator("#moment-unpin").click()
    expect(shared.locator("#moment-unpin")).to_be_hidden()
    shared.mouse.move(5, 5)
    scan.focus()
    shared.keyboard.press("Home")
    expect(scan).to_have_attribute("aria-valuetext", re.compile("^forward pass, inputs: "))
    for _ in range(4):
        shared.keyboard.press("ArrowRight")
    expect(scan).to_have_attribute("aria-valuetext", re.compile("^forward pass, layers 2 to 29, 2 of 28: "))
    shared.keyboard.press("PageDown")
    shared.keyboard.press("ArrowLeft")
    expect(scan).to_have_attribute("aria-valuetext", re.compile("layers 2 to 29, 28 of 28: "))
    shared.keyboard.press("End")
    expect(scan).to_have_attribute("aria-valuenow", scan.get_attribute("aria-valuemax"))
    shared.keyboard.press("Enter")
    expect(shared.locator("#moment.held")).to_contain_text("optimizer step")
    shared.keyboard.press("Escape")
    expect(shared.locator("#moment.held")).to_have_count(0)


def test_a_span_is_zoomed_into(shared):
    """Dragging draws a span, keys and buttons zoom too; a double click, Escape and a button show the whole step."""
    arrive(shared)
    phases = shared.locator("svg.timeline text.name:not([visibility=hidden])")
    assert phases.all_text_contents()[:3] == ["forward", "loss", "backward"]
    pointed(shared, 0.4)
    shared.mouse.down()
    pointed(shared, 0.5)
    expect(shared.locator("#scan .brush")).to_be_visible()
    pointed(shared, 0.55)
    shared.mouse.up()
    start, _, width, _ = map(float, shared.evaluate(VIEW).split())
    assert (round(start, -1), round(width, -1)) == (400, 150)
    expect(shared.locator("#scan .brush")).to_be_hidden()
    expect(shared.locator("svg.timeline circle.peak")).to_be_visible()
    pointed(shared, 0.55)
    expect(shared.locator("#readout")).to_contain_text("of the loss")
    shared.locator("#scan").dblclick()
    assert shared.evaluate(VIEW) == "0 0 1000 1000"
    shared.locator("#zoom-in").click()
    expect(shared.locator("#zoom-reset")).to_be_enabled()
    assert shared.evaluate(VIEW) != "0 0 1000 1000"
    shared.locator("#scan").focus()
    shared.keyboard.press("+")
    assert round(float(shared.evaluate(VIEW).split()[2])) == 250
    shared.keyboard.press("Home")  # the crosshair stays in sight
    assert shared.evaluate(VIEW).startswith("0 0 2")
    shared.keyboard.press("Escape")
    assert shared.evaluate(VIEW) == "0 0 1000 1000"


def test_the_curve_before_an_edit_stays(watched, site):
    """As a dashed line with its peak, until the next edit; the difference is said; a pin stays where it was."""
    live(watched, site)
    before = estimate(EXAMPLE)
    config = {**EXAMPLE, "training": {**EXAMPLE["training"], "sequence_length": 8192}}
    more = format_bytes(estimate(config).device.expected - before.device.expected)
    pointed(watched, 0.3)
    watched.mouse.down()
    watched.mouse.up()
    pinned = watched.locator("#moment-name").inner_text()
    expect(watched.locator(".ghost")).to_have_count(0)
    expect(watched.locator("#difference")).to_be_empty()
    for value in ("6144", "8192"):  # one edit, as a slider makes it
        watched.locator(SEQUENCE).fill(value)
        expect(watched.locator("#verdict")).to_have_attribute("aria-busy", "false")
    expect(watched.locator("svg.timeline text.ghost")).to_contain_text(f"peak {format_bytes(before.peak.peak)}")
    expect(watched.locator("svg.timeline .ghost polyline")).to_be_attached()
    expect(watched.locator("#difference")).to_have_text(f"+{more} since the last edit")
    expect(watched.locator("#moment-name")).to_have_text(pinned)
    expect(watched.locator("#moment-tensors details")).to_have_count(12)
    watched.locator(SEQUENCE).blur()
    watched.locator(SEQUENCE).fill("4096")
    expect(watched.locator("#difference")).to_have_text(f"−{more} since the last edit")
    watched.evaluate(f"location.hash = {SERVER!r}")
    expect(watched.locator("#timeline svg.users")).to_be_visible()
    expect(watched.locator("#zoom-in")).to_be_hidden()
    for link in (SERVER, *OTHERS):
        watched.evaluate(f"location.hash = {link!r}")
        device = str(estimate(decode_fragment(link)).device.expected)
        expect(watched.locator("#verdict")).to_have_attribute("data-device-bytes", device)
        expect(watched.locator("html")).to_have_attribute("data-answer", "whole")
        expect(watched.locator("#difference")).to_be_empty()  # another job was opened, nothing was edited
        expect(watched.locator(".ghost")).to_have_count(0)


def test_by_touch_and_in_chinese(browser, site):
    """A finger that slides reads, one that lifts pins; axe finds nothing with a moment pinned; all of it in Chinese."""
    size = {"width": 390, "height": 844}
    context = visitor(browser, viewport=size, has_touch=True, locale="zh-CN", bypass_csp=True, color_scheme="dark")
    page = live(context.new_page(), site)
    expect(page.locator("#moment")).to_be_hidden()
    page.locator("#scan").tap(position={"x": 60, "y": 50})
    expect(page.locator("#moment-state")).to_have_text("已固定")
    expect(page.locator("#moment-name")).to_contain_text("前向传播")
    expect(page.locator("#moment-tensors details")).to_have_count(12)
    expect(page.locator("#moment-tensors")).to_contain_text("另有")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 844})
        accessible(page)
    context.close()


def test_sliders_are_painted_by_what_fits(browser, site):
    """A slider opens under its number, says up to where the job fits, and pulling it edits the job; axe finds nothing."""
    context = visitor(browser, viewport={"width": 1280, "height": 800}, bypass_csp=True)
    page = live(context.new_page(), site)
    number = page.locator(SEQUENCE)
    track = page.get_by_role("slider", name="Sequence length, slider", include_hidden=True)
    most = solve(EXAMPLE, "training.sequence_length").value
    said = re.compile(f"^Fits up to {most:,}; tight above 2,048$")
    expect(page.locator("#field-training-sequence_length-painted")).to_have_text(said)
    expect(track).to_have_attribute("title", said)
    strip = page.locator(".slot:has(#field-training-sequence_length) .strip i")
    assert strip.evaluate_all("(all) => all.map((each) => each.className)") == ["fits", "tight", "no"]
    expect(track).to_be_hidden()
    number.focus()
    page.keyboard.press("Tab")
    expect(track).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(number).to_have_value("2048")
    expect(page.locator("#verdict")).to_have_attribute("data-level", "fits")
    expect(track).to_have_attribute("aria-valuetext", "2048")
    expect(page.locator("#field-training-sequence_length-painted")).to_have_text(said)  # whatever it says itself
    page.get_by_role("button", name="Raise: Sequence length").click()
    expect(number).to_have_value("4096")
    expect(page.locator("#verdict")).to_have_attribute("data-level", "tight")
    page.get_by_role("button", name="Lower: Sequence length").click()
    expect(number).to_have_value("2048")
    batch = page.locator("#field-training-micro_batch_size-painted")
    expect(batch).to_have_text(re.compile("^Fits up to "))
    expect(page.locator(".number.old")).to_have_count(0)
    page.keyboard.press("Escape")
    page.mouse.move(640, 790)  # while a button is pointed at, its number's slider is out of the way
    for width in (1280, 320):
        page.set_viewport_size({"width": width, "height": 800})
        for path in (
            "hardware.num_gpus",
            "training.sequence_length",
            "training.micro_batch_size",
            "training.adapter.rank",
        ):
            page.locator(f'[name="{path}"]').focus()
            box = page.locator(f'[data-track="{path}"]').bounding_box()
            assert box["x"] >= 0, path
            assert box["x"] + box["width"] <= width, path
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        accessible(page)
    page.evaluate("document.getElementById('language').value = 'zh'")
    page.evaluate("document.getElementById('language').dispatchEvent(new Event('change', { bubbles: true }))")
    expect(batch).to_have_text(re.compile("^最多可放下 "))
    context.close()


def test_stages_of_a_pipeline(shared):
    """A picture for each; pressing one shows its step, by keyboard too, with its own tensors and no ghost."""
    job = "v1&model=llama-3.1-8b&seq=512&engine=fsdp&pp=2&grad-accum=4&gpus=4&accelerator=h100-sxm-80gb"
    arrive(shared, f"#{job}")
    stages = shared.locator("#stages button")
    expect(stages).to_have_count(2)
    expect(shared.locator("#used")).to_contain_text("% used on the fullest GPU; 4 GPUs hold ")
    other = shared.locator('#stages [aria-pressed="false"]')
    size = other.locator("b").inner_text()
    assert size != shared.locator("#moment-total").inner_text()
    other.focus()
    shared.keyboard.press("Enter")
    expect(shared.locator("#moment-total")).to_have_text(size)
    expect(shared.locator('#stages [aria-pressed="true"] b')).to_have_text(size)
    expect(shared.locator("#stages button:focus")).to_have_count(1)
    expect(shared.locator(".ghost")).to_have_count(0)
    shared.locator("#scan").focus()
    shared.keyboard.press("Home")
    shared.keyboard.press("Enter")
    expect(shared.locator("#moment-tensors details")).not_to_have_count(0)
