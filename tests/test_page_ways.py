"""Ways on from an answer on the built page: plans that fit as cards, and what the free room is good for."""

import json
import re

import pytest
from browser import ON_EIGHT, SEQUENCE, accessible, answered, at, expect, live, native, visitor

from memcore import estimate, plan
from memcore.config.url import decode_fragment
from memcore.faces.page.next_steps import KEEP
from memcore.questions.solving import solve_by_piece

pytestmark = pytest.mark.machine

TOO_BIG = "v1&model=llama-2-7b-hf&seq=2048&accelerator=rtx-4090&gpus=1"
SERVER = "v1&model=llama-3.1-8b&engine=vllm&batch=8&max-len=8192&accelerator=h100-sxm-80gb"
HOPELESS = "v1&model=llama-3.1-405b&seq=4096&accelerator=t4&gpus=1"


def shown(page, config):
    """Wait until the cards are the plans that Python on this machine finds for a config, and return those."""
    plans = [each for each in plan(config, keep=KEEP).plans if each.moves]
    cards = page.get_by_role("region", name="Plans that fit").get_by_role("listitem")
    expect(cards).to_have_count(len(plans))
    for number, each in enumerate(plans):
        expect(cards.nth(number)).to_have_attribute("data-device-bytes", str(each.found.device.expected))
        expect(cards.nth(number).get_by_role("heading")).to_contain_text(each.moves[0])
    expect(page.locator("#ways [aria-busy]")).to_have_attribute("aria-busy", "false")
    return plans


def test_plans_are_shown_at_once(shared):
    """Two to four plans under the verdict, taken away or taken over by a button, and back; an edit asks anew."""
    page, asked = at(shared, f"#{TOO_BIG}"), decode_fragment(TOO_BIG)
    plans = shown(page, asked)
    assert 2 <= len(plans) <= 4
    cards = page.get_by_role("region", name="Plans that fit").get_by_role("listitem")
    cards.nth(1).get_by_role("button", name="Export").click()
    dialog = page.locator("#exports")
    expect(dialog).to_contain_text(plans[1].moves[0])
    with page.expect_download() as saved:
        dialog.get_by_role("button", name="Save json").click()
    exported = json.loads(saved.value.path().read_text(encoding="utf-8"))["config"]
    assert estimate(exported).device == plans[1].found.device
    page.keyboard.press("Escape")
    cards.nth(0).get_by_role("button", name="Use this").focus()
    page.keyboard.press("Enter")
    answered(page, plans[0].config)
    room = page.get_by_role("region", name="Also certain to fit")
    expect(room).to_contain_text(f"You use: {plans[0].moves[0]}")
    expect(page).to_have_url(re.compile("adapter=lora"))
    room.get_by_role("button", name="Undo").click()
    answered(page, asked)
    shown(page, asked)
    page.locator(SEQUENCE).fill("8192")
    page.locator(SEQUENCE).fill("1024")
    shown(page, asked.replaced("training.sequence_length", 1024))
    page.evaluate(f"location.hash = {HOPELESS!r}")
    other = page.get_by_role("region", name="Fits only with a smaller job or more hardware")
    expect(other).to_contain_text("Limited by: each GPU has 14.6 GiB")
    expect(other.get_by_role("listitem").first).to_contain_text(" GPUs")


def test_free_room_is_offered(shared):
    """Each button sets what it says, and the job still fits; where no capacity is known nothing is offered."""
    page = at(shared, ON_EIGHT)
    room = page.get_by_role("region", name="Also certain to fit")
    expect(room.locator("[aria-busy]")).to_have_attribute("aria-busy", "false")
    expect(room.get_by_role("button")).to_have_count(4)
    config = decode_fragment(ON_EIGHT)
    *_, solution = solve_by_piece(config, "training.micro_batch_size", certain=True)
    most = solution.value
    room.get_by_role("button", name=f"Micro-batch size: {most}").click()
    expect(page.get_by_label("Micro-batch size", exact=True)).to_have_value(str(most))
    config = config.replaced("training.micro_batch_size", most)
    assert native(config)["fits"] == "true"
    answered(page, config)
    page.get_by_label("Accelerator", exact=True).fill("")
    expect(page.locator("#verdict")).to_have_attribute("data-fits", "unknown")
    expect(page.locator("#ways-part")).to_be_hidden()


def test_users_and_context_of_a_server(shared):
    """A cell of the map, by the pointer or by arrow keys, sets both, and the verdict says what the cell said."""
    page = at(shared, f"#{SERVER}")
    crowd = page.get_by_role("region", name="Users and context")
    asked = crowd.get_by_role("button", name="8 × 8,192 tokens: fit", exact=True)
    expect(asked).to_have_attribute("aria-pressed", "true")
    asked.focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowRight")
    expect(crowd.get_by_role("button", name="16 × 16,384 tokens: fit", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("batch=16&max-len=16384"))
    expect(page.locator("#verdict")).to_contain_text("Fits 16 sequences of 16,384 tokens")
    crowd.get_by_role("button", name="64 × 16,384 tokens: do not fit", exact=True).click()
    expect(page.locator("#verdict")).to_have_attribute("data-fits", "false")
    expect(page.get_by_label("Sequences at once", exact=True)).to_have_value("64")


def test_cards_for_everybody(browser, site):
    """In Chinese, on a phone and dark: axe finds nothing, the page does not scroll sideways, and no button is tiny."""
    context = visitor(browser, bypass_csp=True, locale="zh-CN")
    page = live(context.new_page(), site)
    for link, name in (
        (ON_EIGHT, "还确定放得下"),
        (TOO_BIG, "放得下的方案"),
        (SERVER, "还确定放得下"),
    ):
        page.evaluate(f"location.hash = {link!r}")
        device = str(estimate(decode_fragment(link)).device.expected)
        expect(page.locator("#verdict")).to_have_attribute("data-device-bytes", device)
        expect(page.locator("#ways:not(.before)")).to_be_attached()  # the job before may have a part of the same name
        part = page.get_by_role("region", name=name)
        expect(part.locator("[aria-busy]")).to_have_attribute("aria-busy", "false")
        for width, scheme in ((390, "dark"), (1280, "light")):
            page.set_viewport_size({"width": width, "height": 844})
            page.emulate_media(color_scheme=scheme)
            accessible(page, f"{name}, {width}, {scheme}")
            heights = part.get_by_role("button").evaluate_all("(all) => all.map((each) => each.offsetHeight)")
            assert min(heights) >= 24
        assert not re.search(r"[a-z]{3,} [a-z]{3,}", part.inner_text())
    expect(page.get_by_role("region", name="用户数与上下文")).to_be_visible()
    context.close()
