"""The built page in a real browser: it boots, answers, remembers, works offline and talks to nobody else."""

import json
import re
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from browser import (
    AT_4096,
    EIGHT,
    ON_EIGHT,
    PATIENCE,
    SEQUENCE,
    accessible,
    answered,
    at,
    cancel,
    controlled,
    expect,
    live,
    native,
    numbers,
    readable,
    settings,
    size,
    view,
    visitor,
)

from memcore import estimate
from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.training import Training
from memcore.config.url import decode_fragment
from memcore.faces.render.page import EXAMPLE

pytestmark = pytest.mark.machine

VIEWS = ("overview", "tensors", "plans", "layouts", "compare", "log", "model")
STAGES = "v1&model=llama-3.1-8b&seq=512&engine=fsdp&pp=2&grad-accum=4&gpus=4&accelerator=h100-sxm-80gb"
SERVED = "v1&model=llama-3.1-8b&engine=vllm&accelerator=h100-sxm-80gb&max-len=8192"
FOUR_STAGES = "v1&model=llama-3.1-8b&seq=8192&engine=megatron&pp=4&accelerator=rtx-4090&gpus=8"
TOO_BIG = "v1&model=llama-3.1-8b&seq=4096&accelerator=rtx-4090&gpus=1"


def test_the_first_paint_is_an_answer(browser, site):
    """Without scripts the page shows the example's verdict, pictures and tensors."""
    context = visitor(browser, java_script_enabled=False)
    page = context.new_page()
    page.goto(site)
    assert page.locator("html").get_attribute("data-state") == "static"
    assert numbers(page) == native(EXAMPLE)
    expect(page.locator("#verdict")).to_contain_text(size(EXAMPLE))
    expect(page.locator("#bar svg rect").first).to_be_visible()
    written = page.content()
    assert not re.search(r"<[^>]* on[a-z]+=|<[^>]* style=|<script(?![^>]* src=)|javascript:", written)
    assert not re.search(r"(src|href)=\"(https?:)?//", written)
    for rule in ("default-src 'none'", "script-src 'self' 'wasm-unsafe-eval'", "form-action 'none'", "base-uri 'none'"):
        assert rule in written
    assert page.locator("#ledger details").count() > 5
    context.close()


@pytest.mark.unhurried
def test_python_takes_over_with_the_same_numbers(watched, site):
    """What was prerendered and what Python in the page computes are the same, to the byte and to the markup."""
    watched.goto(site)
    before = watched.locator("#ledger").inner_html(), watched.locator("#bar").inner_html(), numbers(watched)
    expect(watched.locator("html")).to_have_attribute("data-state", "live")
    watched.locator(SEQUENCE).fill("2048")
    expect(watched.locator("#verdict")).not_to_have_attribute("data-allocated-bytes", before[2]["allocated-bytes"])
    watched.locator(SEQUENCE).fill("4096")
    expect(watched.locator("#verdict")).to_have_attribute("data-allocated-bytes", before[2]["allocated-bytes"])
    same = "([ledger, bar]) => ledger === document.querySelector('#ledger').innerHTML && bar === document.querySelector('#bar').innerHTML"
    watched.wait_for_function(same, arg=list(before[:2]))
    answered(watched, EXAMPLE)


def test_without_the_kept_memory(context, page, site):
    """Without the memory that a build kept, and without its bytecode, micropip installs the wheel."""
    context.route("**/memory.bin?inflated", lambda route: route.fulfill(status=404))
    context.route("**/library.zip", lambda route: route.fulfill(status=404))
    said = page.expect_console_message(lambda message: "starts from nothing" in message.text, timeout=PATIENCE)
    with said, page.expect_request("**/wheels/*/memcore-*.whl", timeout=PATIENCE):
        page.goto(f"{site}#v1&model=gpt2&seq=512")
    expect(page.locator("html")).to_have_attribute("data-state", "live")
    assert numbers(page) == native(decode_fragment("v1&model=gpt2&seq=512"))


def test_an_edit_is_answered_and_remembered(shared):
    """Every edit changes verdict and URL, and the URL decodes to the same job in Python."""
    at(shared, ON_EIGHT)
    shared.locator(SEQUENCE).fill("32k")
    settings(shared)
    shared.locator('[name="engine.type"]').select_option("ddp")
    expect(shared).to_have_url(re.compile("engine=ddp"))
    expect(shared.locator("#verdict")).to_have_attribute("data-fits", "false")
    config = decode_fragment(shared.url)
    assert config[Training.sequence_length] == 32768
    assert config[EngineSettings.type] == "ddp"
    answered(shared, config)


def test_what_is_of_the_job_before_is_marked(watched, site):
    """Every part of an answer is marked until its piece has come; a curve stays, and says that it is of another job."""
    live(watched, f"{site}{ON_EIGHT}")
    view(watched, "plans")
    watched.locator("[data-do=curve]").click()
    expect(watched.locator("#curve-details")).to_be_attached()
    expect(watched.locator("#curve-earlier")).to_be_hidden()
    watched.evaluate(
        """window.marked = 0;
           new MutationObserver(() => { marked = Math.max(marked, document.querySelectorAll(".before").length); })
             .observe(document.querySelector("main"), { subtree: true, attributeFilter: ["class"] });"""
    )
    watched.locator(SEQUENCE).fill("4096")
    expect(watched.locator("#verdict")).to_contain_text(size(AT_4096))
    expect(watched.locator("#curve-earlier")).to_be_visible()
    expect(watched.locator("html")).to_have_attribute("data-answer", "whole")
    expect(watched.locator(".before")).to_have_count(0)
    assert watched.evaluate("marked") > 3


def test_a_link_restores_everything(shared):
    """A link fills the form and answers; other people's links work the same."""
    fragment = "v1&model=gemma-2-2b&seq=2048&grad-accum=4&optimizer=sgd&momentum=0.9&accelerator=rtx-4090"
    at(shared, f"#{fragment}")
    answered(shared, decode_fragment(fragment))
    for name, value in (
        ("model", "Gemma 2 2B"),
        ("training.sequence_length", "2048"),
        ("training.optimizer.momentum", "0.9"),
    ):
        expect(shared.locator(f'[name="{name}"]')).to_have_value(value)
    expect(shared.locator('[name="hardware.num_gpus"]')).to_have_value("")


def test_back_and_forward_undo_and_redo(watched, site):
    """Each finished edit is one step of the browser's history."""
    live(watched, f"{site}{ON_EIGHT}")
    redo = watched.locator("#redo")
    expect(redo).to_be_disabled()
    for value in ("4096", "2048"):
        watched.locator(SEQUENCE).fill(value)
        watched.locator(SEQUENCE).blur()
        expect(watched).to_have_url(
            f"{site}#v1&model=llama-3.1-8b&seq={value}&checkpointing=full&engine=fsdp&accelerator=h100-sxm-80gb&gpus=8"
        )
        answered(watched, decode_fragment(watched.url))
    expect(redo).to_be_disabled()
    watched.go_back()
    expect(watched.locator(SEQUENCE)).to_have_value("4096")
    expect(redo).to_be_enabled()
    watched.go_back()
    expect(watched.locator(SEQUENCE)).to_have_value("8192")
    watched.go_forward()
    expect(watched).to_have_url(re.compile("seq=4096"))
    expect(watched.locator(SEQUENCE)).to_have_value("4096")
    answered(watched, decode_fragment(watched.url))
    watched.reload()  # what was edited after that was taken back
    expect(watched.locator("html")).to_have_attribute("data-state", "live")
    expect(watched.locator(SEQUENCE)).to_have_value("4096")


def test_a_model_by_its_sizes(watched, site):
    """Sizes of one's own model are fields; they write a config.json, which a link keeps and shows as fields again."""
    sizes = {"num_hidden_layers": 4, "hidden_size": 512, "num_attention_heads": 8, "intermediate_size": 2048}
    live(watched, site)
    settings(watched)
    watched.get_by_text("A model of your own").click()
    for key, number in {**sizes, "vocab_size": 32_000}.items():
        watched.locator(f"#size-{key}").fill(f"{number:,}")
    answered(watched, {**EXAMPLE, "model": {"model_type": "llama", **sizes, "vocab_size": 32_000}})
    expect(watched).to_have_url(re.compile("model="))
    watched.reload()
    expect(watched.locator("html")).to_have_attribute("data-state", "live")
    settings(watched)
    expect(watched.locator("#size-hidden_size")).to_have_value("512")


def test_what_is_typed_before_python_runs(watched, site):
    """It is answered as soon as Python runs, and the page goes live as ever."""
    watched.goto(site, wait_until="domcontentloaded")
    expect(watched.locator("html")).to_have_attribute("data-state", re.compile("loading|live"))
    watched.locator(SEQUENCE).fill("2048")
    expect(watched.locator("html")).to_have_attribute("data-state", "live")
    answered(watched, {**EXAMPLE, "training": {**EXAMPLE["training"], "sequence_length": 2048}})
    expect(watched.locator(SEQUENCE)).to_have_value("2048")


def test_what_is_typed_before_any_script_runs(context, watched, site):
    """The form can be used from the first paint on; what it says by then is answered first."""
    held = []

    def hold(route):
        held.append(route)

    context.route("**/app.js", hold)
    watched.goto(site, wait_until="commit")
    watched.locator(SEQUENCE).fill("2048")
    settings(watched)
    watched.locator('[name="engine.type"]').select_option("none")
    watched.wait_for_function("document.documentElement.dataset.state === 'static'")
    held.pop().continue_()
    expect(watched.locator("html")).to_have_attribute("data-state", "live")
    training = {**EXAMPLE["training"], "sequence_length": 2048}
    answered(watched, {**EXAMPLE, "training": training, "engine": {"type": "none"}})


def test_copy_link(shared):
    """The button copies a link that restores everything, and says so."""
    at(shared)
    shared.locator("#copy").click()
    expect(shared.locator("#notice")).to_have_text("Link copied.")
    link = shared.evaluate("navigator.clipboard.readText()")
    assert decode_fragment(link).to_dict() == EXAMPLE


def test_wrong_input_is_said_beside_the_field(shared):
    """A wrong value is marked and explained, and the last answer stays."""
    at(shared)
    before = numbers(shared)
    shared.locator(SEQUENCE).fill("many")
    field = shared.locator(SEQUENCE)
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(shared.locator("#field-training-sequence_length-error")).to_contain_text("found 'many'")
    expect(shared.locator("#problems")).to_contain_text("training.sequence_length")
    assert numbers(shared) == before
    field.fill("2048")
    expect(shared.locator("#problems")).to_be_hidden()
    expect(field).not_to_have_attribute("aria-invalid", "true")


@pytest.mark.parametrize(
    "fragment",
    ["v9&model=gpt2", "v1&model=deflate:xyz", "%3Cscript%3Ealert(1)%3C/script%3E",
     "v1&model=%22%3E%3Cimg%20src=x%20onerror=alert(1)%3E"],
)  # fmt: skip
def test_a_broken_or_hostile_link_changes_nothing(watched, site, fragment):
    """The problem is said, no verdict is shown, nothing of the link becomes markup, and the example is a click away."""
    live(watched, f"{site}#{fragment}")
    expect(watched.locator("#problems")).to_be_visible()
    expect(watched.locator("#problems img, #problems script, #verdict img, #verdict script")).to_have_count(0)
    expect(watched.locator("#verdict .why")).not_to_be_empty()
    assert set(numbers(watched).values()) == {None}
    watched.locator("#discard").click()
    answered(watched, EXAMPLE)
    expect(watched.locator("#bar svg")).to_be_visible()


def test_a_pasted_config_json(shared):
    """A config.json in the form replaces the model, travels in the link, and a broken one loses nothing."""
    at(shared)
    model = {
        "model_type": "llama",
        "hidden_size": 1024,
        "num_hidden_layers": 4,
        "num_attention_heads": 16,
        "vocab_size": 32000,
    }
    settings(shared)
    shared.locator("#paste summary").click()
    shared.locator("#model-json").fill(json.dumps(model))
    answered(shared, {**EXAMPLE, "model": model})
    expect(shared).to_have_url(re.compile("model=deflate"))
    assert decode_fragment(shared.url).model == model
    shared.locator("#model-json").fill(json.dumps(model)[:-1])
    expect(shared.locator("#model-json-error")).to_contain_text("not JSON")
    shared.reload()
    expect(shared.locator("html")).to_have_attribute("data-state", "live")
    expect(shared.locator("#model-json")).to_have_value(json.dumps(model)[:-1])
    assert decode_fragment(shared.url).model == model


def test_a_chosen_file(shared, tmp_path):
    """A memcore config as a file fills the whole form; a wrong file changes nothing."""
    at(shared)
    wrong, right = tmp_path / "wrong.json", tmp_path / "job.json"
    wrong.write_text('{"hello": "world"}')
    right.write_text(json.dumps({"model": "gpt2", "training": {"sequence_length": 512}}))
    settings(shared)
    shared.locator("#paste summary").click()
    shared.locator("#file").set_input_files(wrong)
    expect(shared.locator("#problems")).to_contain_text("does not match any supported tool")
    expect(shared.locator('[name="model"]')).to_have_value("Llama 3.1 8B")
    shared.locator("#file").set_input_files(right)
    expect(shared.locator('[name="model"]')).to_have_value("GPT-2")
    expect(shared.locator("#verdict")).to_have_attribute("data-fits", "unknown")


def test_a_dropped_file(shared):
    """A config.json dropped anywhere on the page becomes the model."""
    at(shared)
    model = {"model_type": "gpt2", "n_embd": 128, "n_head": 4, "n_layer": 3}
    carried = shared.evaluate_handle(
        """(text) => { const carried = new DataTransfer();
           carried.items.add(new File([text], "config.json", { type: "application/json" })); return carried; }""",
        json.dumps(model),
    )
    shared.locator(SEQUENCE).fill("512")
    shared.dispatch_event("body", "drop", {"dataTransfer": carried})
    expect(shared.locator("#model-json")).to_have_value(json.dumps(model, indent=2))
    config = {**EXAMPLE, "model": model, "training": {**EXAMPLE["training"], "sequence_length": 512}}
    answered(shared, config)


def test_settings_of_other_engines_are_hidden(shared):
    """Only what applies is shown, and defaults show what they are."""
    at(shared, ON_EIGHT)
    settings(shared)
    bucket, reshard = (
        shared.locator("#field-engine-gradient_as_bucket_view"),
        shared.locator("#field-engine-reshard_after_forward"),
    )
    expect(bucket).to_be_hidden()
    expect(reshard).to_be_visible()
    expect(reshard).to_have_attribute("placeholder", "true")
    shared.locator('[name="engine.type"]').select_option("ddp")
    expect(bucket).to_be_visible()
    expect(reshard).to_be_hidden()


def test_a_server_instead_of_training(shared):
    """Choosing a server turns the page over: its fields, headings, numbers and chart; and back again."""
    at(shared, "#v1&model=llama-3.1-8b&engine=vllm&accelerator=h100-sxm-80gb&max-len=8192")
    settings(shared)
    training, inference = shared.locator("#group-Training"), shared.locator("#group-Inference")
    expect(training).to_be_hidden()
    expect(inference).to_be_visible()
    verdict = shared.locator("#verdict")
    found = estimate(decode_fragment("v1&model=llama-3.1-8b&engine=vllm&accelerator=h100-sxm-80gb&max-len=8192"))
    expect(verdict).to_have_attribute("data-phase", "serving")
    expect(verdict).to_have_attribute("data-device-bytes", str(found.device.expected))
    expect(shared.locator("#timeline svg.users")).to_be_visible()
    shared.locator('[name="engine.type"]').select_option("fsdp")
    expect(training).to_be_visible()
    expect(inference).to_be_hidden()


def test_unfolded_tensors_stay_unfolded(shared):
    """A category that is open stays open when the numbers change; it shows formula, numbers and source."""
    at(shared, ON_EIGHT)
    view(shared, "tensors")
    group = shared.locator("#ledger-activations")
    group.locator("summary").click()
    expect(group).to_contain_text("b·s·h × 2 B")
    shared.locator(SEQUENCE).fill("4096")
    expect(group).to_contain_text("1·4,096·4,096 × 2 B")
    expect(group).to_have_attribute("open", "")


def test_focus_is_never_lost_and_changes_are_said_once(shared):
    """Whatever is drawn anew, or goes away at a press, leaves the focus where it was, or where the work goes on."""
    at(shared, ON_EIGHT)
    expect(shared.locator("#spoken")).to_contain_text(size(EIGHT))
    focus = "document.activeElement?.id || document.activeElement?.dataset.part || document.activeElement?.textContent"
    view(shared, "tensors")
    summary = shared.locator("#ledger-activations summary")
    summary.click()
    shared.evaluate(
        """window.heard = [];
           new MutationObserver(() => heard.push(document.getElementById("spoken").textContent))
             .observe(document.getElementById("spoken"), { childList: true });"""
    )
    assert (
        shared.evaluate(
            "document.querySelectorAll('#answer [aria-live], #top [role=alert], #top [role=status]').length"
        )
        == 0
    )
    shared.evaluate(
        """for (const text of ["40", "409", "4096"]) {
             const field = document.querySelector('[name="training.sequence_length"]');
             field.value = text; field.dispatchEvent(new Event("input", { bubbles: true })); }"""
    )
    expect(shared.locator("#spoken")).to_contain_text(size(AT_4096))
    assert len(shared.evaluate("heard")) == 1
    assert "activations" in shared.evaluate(focus)
    bytes_column = shared.locator("#ledger-activations th button").nth(1)
    sizes = "[...document.querySelectorAll('#ledger-activations tbody td:nth-child(2) span')].map((each) => Number(each.title.replace(/\\D/g, '')))"
    bytes_column.click()
    assert shared.evaluate(sizes) == sorted(shared.evaluate(sizes))
    shared.locator("#ledger-activations [data-copy]").click()
    expect(shared.locator("#notice")).to_contain_text("Table copied")
    copied = shared.evaluate("navigator.clipboard.readText()").splitlines()
    assert [int(line.split("\t")[1]) for line in copied[1:]] == shared.evaluate(sizes)
    view(shared, "overview")
    shared.locator('#legend [data-part="activations"]').click()
    expect(shared.locator("#drawer-heading")).to_be_focused()
    shared.keyboard.press("Escape")
    expect(shared.locator('#legend [data-part="activations"]')).to_be_focused()
    settings(shared)
    policy = shared.locator('[name="training.activation_checkpointing.policy"]')
    shared.locator("#field-training-activation_checkpointing-policy-origin").click()
    expect(policy).to_be_focused()
    expect(policy).to_have_value("")
    expect(shared.locator("#field-training-activation_checkpointing-policy-origin")).to_be_hidden()
    shared.locator("#settings-close").click()
    shared.locator(SEQUENCE).fill("many")
    shared.locator("#field-training-sequence_length-error .fix").click()
    expect(shared.locator(SEQUENCE)).to_be_focused()
    shared.keyboard.press("Escape")
    shared.locator("[data-do=pin]").click()
    shared.locator("#compare [data-do=unpin]").click()
    expect(shared.locator("[data-do=pin]")).to_be_focused()
    view(shared, "tensors")
    shared.locator("#assumptions [data-go]").first.click()
    assert shared.evaluate("document.activeElement.name")


def test_what_is_folded_stays_folded(browser, site):
    """A narrow window opens with the groups folded and a line of the verdict in sight; a choice outlives the visit."""
    context = visitor(browser, viewport={"width": 375, "height": 700})
    page = context.new_page()
    page.goto(site)
    training, engine = page.locator("#group-Training"), page.locator("#group-Engine")
    expect(training).not_to_have_attribute("open", "")
    live(page, site)
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


def test_the_keyboard_alone(watched, site):
    """Tab reaches the skip link first, then the actions; Enter unfolds; parts of the bar are one stop with arrows."""
    live(watched, site)
    for text in ("Skip to the answer", "Examples", "Import"):
        watched.keyboard.press("Tab")
        expect(watched.locator(":focus")).to_have_text(text)
    view(watched, "tensors")
    watched.locator("#ledger-parameters summary").focus()
    expect(watched.locator("#ledger-parameters summary")).to_be_focused()
    watched.keyboard.press("Enter")
    expect(watched.locator("#ledger-parameters")).to_have_attribute("open", "")


@pytest.mark.unhurried
def test_offline_after_one_visit(context, watched, site):
    """After one visit the page reloads and answers with the network off, below its path and with a link."""
    live(watched, site)
    controlled(watched)
    context.set_offline(True)
    watched.reload()
    expect(watched.locator("html")).to_have_attribute("data-state", "live")
    fragment = "v1&model=gpt2&seq=512&accelerator=t4"
    live(watched, f"{site}?anything#{fragment}")
    answered(watched, decode_fragment(fragment))
    watched.goto(f"{site}docs/")
    watched.get_by_role("textbox", name="Search").click()
    watched.keyboard.type("checkpointing")
    expect(watched.locator(".md-search-result__item").first).to_be_attached()
    context.set_offline(False)


GROUNDS = [(320, "light"), (1280, "dark")]
"""Widths and colour schemes in which nothing may be wrong; in the other two only colours may differ."""


def on_every_ground(page, name, part="html"):
    """Look at a part of a page on every ground, and whether its texts can be read on all four.

    What is the same in all views, the form and the frame, need not be looked at in each.
    """
    for width in (320, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            if (width, scheme) in GROUNDS:
                accessible(page, name, part)
            readable(page, f"{name}, {width}, {scheme}", part)


def test_accessibility(browser, site):
    """axe finds nothing in any view, with everything unfolded, all settings included, and with an error shown."""
    context = visitor(browser, color_scheme="light", bypass_csp=True)
    page = live(context.new_page(), site)
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    on_every_ground(page, "the page")
    for name in VIEWS:
        page.evaluate(f"document.querySelector('[data-show={name}]').click()")
        on_every_ground(page, name, "#answer")
    page.locator(SEQUENCE).fill("many")
    expect(page.locator("#problems")).to_be_visible()
    on_every_ground(page, "an error", "#sentence, #said, #top")
    context.close()


@pytest.mark.unhurried
def test_an_update_waits_for_a_click(dist, watched, site):
    """A new version is fetched in the background, offered, and takes over with the job in place."""
    live(watched, f"{site}#v1&model=gpt2&seq=512")
    controlled(watched)
    worker: Path = dist / "sw.js"
    original = worker.read_text(encoding="utf-8")
    try:
        worker.write_text(original + "\n// a new version\n", encoding="utf-8")
        watched.evaluate("navigator.serviceWorker.getRegistration().then((found) => found.update()).then(() => true)")
        expect(watched.locator("#update")).to_be_visible()
        with watched.expect_event("load"):
            watched.locator("#reload").click()
        expect(watched.locator("html")).to_have_attribute("data-state", "live")
        expect(watched.locator('[name="model"]')).to_have_value("GPT-2")
    finally:
        worker.write_text(original, encoding="utf-8")


@pytest.mark.unhurried
@pytest.mark.parametrize("fragment", ["v2&model=gpt2&seq=512", "v1&model=gpt2&seq=512&setting-of-tomorrow=1"])
def test_a_link_of_a_newer_version_offers_a_reload(dist, watched, site, fragment):
    """It says that the page is older; the button brings the newest version, with the link as it was."""
    live(watched, site)
    controlled(watched)
    worker: Path = dist / "sw.js"
    original = worker.read_text(encoding="utf-8")
    try:
        worker.write_text(original + "\n// a new version\n", encoding="utf-8")
        watched.evaluate("window.before = true")
        watched.evaluate(f"location.hash = {fragment!r}")
        button = watched.locator("#problems [data-renew]")
        expect(watched.locator("#problems")).to_contain_text("newer memcore" if "tomorrow" in fragment else "is older")
        with watched.expect_event("load"):
            button.click()
        expect(button).to_be_visible()
        assert watched.evaluate("window.before === undefined")
        state = "navigator.serviceWorker.getRegistration().then((found) => [found.waiting, found.installing])"
        assert watched.evaluate(state) == [None, None]
    finally:
        worker.write_text(original, encoding="utf-8")


def test_suggestions_leave_the_page_to_edits(watched, site):
    """Suggestions are worked out piece by piece; an edit is answered between two, and ends those for another job."""
    live(watched, f"{site}#v1&model=gpt2&seq=512&accelerator=t4")
    view(watched, "plans")
    watched.locator("[data-do=advise]").click()
    expect(watched.locator("#advice")).not_to_be_empty()
    watched.locator(SEQUENCE).fill("256")
    answered(watched, decode_fragment("v1&model=gpt2&seq=256&accelerator=t4"))
    watched.locator("[data-do=advise]").click()
    expect(watched.locator("#advice table")).to_be_visible()


def test_from_a_blank_page_to_a_link(context, watched, site):
    """Which layout for my 70B on 64 GPUs, and the link to send: six actions."""
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    live(watched, f"{site}{ON_EIGHT}")
    watched.locator('[name="model"]').fill("llama-3.1-70b")
    watched.locator('[name="hardware.num_gpus"]').fill("64")
    view(watched, "layouts")
    watched.get_by_role("button", name="Find layouts that fit").click()
    watched.locator("#search table a").first.click(timeout=50_000)
    expect(watched.locator("#verdict")).to_have_attribute("data-fits", "true")
    expect(watched).to_have_url(re.compile("model=llama-3.1-70b.*gpus=64"))
    watched.locator("#copy").click()
    expect(watched.locator("#notice")).to_have_text("Link copied.")
    config = decode_fragment(watched.evaluate("navigator.clipboard.readText()"))
    assert config[Hardware.num_gpus] == 64
    answered = str(estimate(config).device.expected)
    expect(watched.locator("#verdict")).to_have_attribute("data-device-bytes", answered)
    watched.locator("#undo").click()
    expect(watched.locator('[name="training.gradient_accumulation_steps"]')).to_have_value("")


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


def test_an_example_how_far_it_goes_and_what_to_change(watched, site):
    """An example by intent answers; the most that fits is taken at a click, a suggestion too, and each is undone."""
    live(watched, site)
    watched.locator('[data-open="presets"]').click()
    watched.get_by_role("button", name="QLoRA 8B on a 24 GB card").click()
    expect(watched.locator('[name="training.quantization"]')).not_to_have_value("")
    expect(watched.locator("#verdict")).to_have_attribute("data-fits", "true")
    before = watched.locator(SEQUENCE).input_value()
    watched.locator('[data-do="solve"][data-path="training.sequence_length"]').click()
    most = watched.locator('.fix[data-path="training.sequence_length"]')
    longest = most.get_attribute("data-value")
    assert int(longest) > int(before)
    most.click()
    expect(watched.locator(SEQUENCE)).to_have_value(longest)
    expect(watched.locator("#verdict")).to_have_attribute("data-fits", "true")
    answered(watched, decode_fragment(watched.evaluate("location.hash.slice(1)")))
    watched.locator("#undo").click()
    expect(watched.locator(SEQUENCE)).to_have_value(before)
    view(watched, "plans")
    watched.locator("[data-do=advise]").click()
    suggestion = watched.locator("#advice a").first
    changed = suggestion.get_attribute("href").removeprefix("#")
    suggestion.click()
    answered(watched, decode_fragment(changed))
    watched.locator("#undo").click()
    expect(watched).not_to_have_url(re.compile(re.escape(changed) + "$"))


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


class Quiet(SimpleHTTPRequestHandler):
    """A plain static server."""

    def log_message(self, format, *values):  # noqa: A002 - the name in the standard library
        """Nothing."""


def test_what_leaves_the_page_comes_back(context, watched, site, tmp_path):
    """SVG and PNG hold the config: each, dropped on another visit, brings the job back. The archive works below a path."""
    from zipfile import ZipFile

    link = f"{site}#v1&model=gpt2&seq=512&accelerator=t4"
    live(watched, link)
    watched.get_by_role("button", name="Export", exact=True).click()
    dialog = watched.locator("#exports")
    for text in ("max_length: 512", "memcore estimate --model gpt2", "memcore.estimate(", "| component |", '"config"'):
        expect(dialog).to_contain_text(text)
    files = {}
    for kind in ("svg", "png", "json"):
        with watched.expect_download() as saved:
            dialog.locator(f'[data-kind="{kind}"][data-way="save"]').click()
        files[kind] = tmp_path / f"plan.{kind}"
        saved.value.save_as(files[kind])
    with watched.expect_download(timeout=60_000) as saved:
        watched.locator("#offline").click()
    saved.value.save_as(tmp_path / "page.zip")
    with ZipFile(tmp_path / "page.zip") as archive:
        assert archive.testzip() is None
        archive.extractall(tmp_path)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    Thread(target=server.serve_forever, daemon=True).start()
    kept = visitor(context.browser).new_page()
    live(kept, f"http://127.0.0.1:{server.server_address[1]}/memcore/#v1&model=gpt2&seq=512&accelerator=t4")
    assert numbers(kept) == native(decode_fragment("v1&model=gpt2&seq=512&accelerator=t4"))
    kept.context.close()
    server.shutdown()
    server.server_close()
    for path in files.values():
        watched.evaluate("document.querySelectorAll('dialog[open]').forEach((each) => each.close())")
        watched.locator(SEQUENCE).fill("256")
        watched.get_by_role("button", name="Import", exact=True).click()
        watched.locator("#import-file").set_input_files(path)
        expect(watched.locator(SEQUENCE)).to_have_value("512")
        expect(watched.locator("#import")).to_be_hidden()


def test_a_script_of_ones_own_is_taken_away(watched, site):
    """Serving with transformers has no file that a tool reads; everything else can be had."""
    live(watched, f"{site}?q=,=1#v1&model=gpt2&engine=transformers&max-len=1024&accelerator=t4")
    watched.get_by_role("button", name="Export", exact=True).click()
    dialog = watched.locator("#exports")
    expect(dialog).to_be_visible()
    expect(dialog.locator("#export-flags")).to_have_count(0)
    with watched.expect_download() as saved:
        dialog.locator('[data-kind="csv"][data-way="save"]').click()
    assert saved.value.suggested_filename == "memcore.csv"
    assert ",=" not in saved.value.path().read_text()


def test_a_log_of_a_run(watched, site, tmp_path):
    """Pasted by keyboard, chosen or dropped as a file; the measured case is saved; nothing of the log becomes markup."""
    live(watched, f"{site}{ON_EIGHT}")
    watched.keyboard.press("l")
    watched.wait_for_function("document.activeElement?.id === 'log-text'")
    watched.keyboard.insert_text("<img src=x onerror=alert(1)> memory: 38.25GiB(48.3%)")
    for _ in range(3):
        watched.keyboard.press("Tab")
    watched.wait_for_function("document.activeElement?.dataset.do === 'reconcile'")
    watched.keyboard.press("Enter")
    found = watched.locator("#reconciled")
    expect(found).to_contain_text("torchtitan: peak reserved")
    expect(found.locator("img")).to_have_count(0)
    with watched.expect_download() as saved:
        found.get_by_role("button", name="Save").click()
    saved.value.save_as(tmp_path / "case.json")
    case = json.loads((tmp_path / "case.json").read_text(encoding="utf-8"))[0]
    assert (case["config"], case["measured"]["quantity"]) == (EIGHT, "max_reserved")
    log = tmp_path / "run.log"
    log.write_text("71.3 GiB")
    watched.locator("#log-file").set_input_files(log)
    expect(found).to_contain_text("say what the number is")
    watched.locator("#log-reading").select_option("device_used")
    watched.get_by_role("button", name="Compare with the prediction").click()
    expect(found).to_contain_text("used on the GPU")
    expect(found).not_to_contain_text("say what the number is")


def test_own_things_stay_in_this_browser(watched, site):
    """Theme, language and plans survive a reload and are not in the link; a shared link leaves them alone."""
    live(watched, f"{site}{ON_EIGHT}")
    watched.locator("#theme").select_option("dark")
    watched.locator("#language").select_option("zh")
    expect(watched.locator("#verdict")).to_contain_text("可以放下")
    expect(watched.locator("html")).to_have_attribute("lang", "zh-CN")
    watched.keyboard.press("Escape")
    watched.locator('[data-open="plans"]').click()
    watched.locator("#plan-name").fill("<b>mine</b>")
    watched.locator("#plan-save").click()
    expect(watched.locator("#plans-list")).to_contain_text("<b>mine</b>")
    assert "dark" not in watched.url
    live(watched, f"{site}?again#v1&model=gpt2&seq=512")
    expect(watched.locator("html")).to_have_attribute("data-theme", "dark")
    expect(watched.locator("#verdict")).to_contain_text("需要")
    watched.locator('[data-open="plans"]').click()
    watched.get_by_role("button", name="<b>mine</b>", exact=True).click()
    expect(watched.locator('[name="model"]')).to_have_value("Llama 3.1 8B")
    watched.locator("#language").select_option("en")
    expect(watched.locator("#verdict")).to_contain_text("Fits")


def test_without_storage(browser, site):
    """Where storage is blocked the page answers all the same, and says that nothing can be kept."""
    context = visitor(browser)
    context.add_init_script(
        """for (const name of ["localStorage", "sessionStorage"])
             Object.defineProperty(window, name, { get() { throw new DOMException("blocked", "SecurityError"); } });"""
    )
    page = live(context.new_page(), f"{site}{ON_EIGHT}")
    page.locator(SEQUENCE).fill("4096")
    expect(page.locator("#verdict")).to_contain_text(size(AT_4096))
    page.locator('[data-open="plans"]').click()
    page.locator("#plan-save").click()
    expect(page.locator("#notice")).to_contain_text("does not store anything")
    context.close()


def test_nothing_is_lost(context, watched, site):
    """On a reload: what is compared, and a pasted log. In two tabs: the plans of both. With damaged storage: nothing."""
    live(watched, f"{site}{ON_EIGHT}")
    watched.locator("[data-do=pin]").click()
    expect(watched.locator("#compare [data-do=unpin]")).to_have_count(1)
    watched.locator(SEQUENCE).fill("4096")
    watched.locator("[data-do=pin]").click()
    expect(watched.locator("#compare [data-do=unpin]")).to_have_count(2)
    view(watched, "log")
    watched.locator("#log-text").fill("71.3 GiB")
    other = live(context.new_page(), site)
    for page, name in ((watched, "first"), (other, "second")):
        page.locator('[data-open="plans"]').click()
        page.locator("#plan-name").fill(name)
        page.locator("#plan-save").click()
        expect(page.locator("#plans-list")).to_contain_text(name)
    expect(watched.locator("#plans-list")).to_contain_text("second")
    other.evaluate("""localStorage.setItem("memcore", '{"plans": 5, "theme": {}, "groups": []}')""")
    live(other, f"{site}?damaged")
    other.close()
    watched.reload()
    expect(watched.locator("html")).to_have_attribute("data-state", "live")
    expect(watched.locator("#compare [data-do=unpin]")).to_have_count(2)
    expect(watched.locator("#compare")).to_contain_text("8192")
    expect(watched.locator("#log-text")).to_have_value("71.3 GiB")


def test_the_hub_is_asked_at_a_click_only(context, page, site):
    """The one foreign request: this model's config.json, when its button is pressed, with nothing else sent."""
    asked = []
    context.on(
        "request", lambda request: None if request.url.startswith((site, "data:", "blob:")) else asked.append(request)
    )
    model = {"model_type": "gpt2", "n_embd": 128, "n_head": 4, "n_layer": 3}
    context.route(
        "https://huggingface.co/**",
        lambda route: route.fulfill(json=model, headers={"access-control-allow-origin": "*"}),
    )
    live(page, site)
    page.locator('[data-open="import"]').click()
    page.locator("#hub-id").fill("not an id")
    page.locator("#hub-fetch").click()
    expect(page.locator("#import-error")).to_contain_text("Enter an id")
    assert asked == []
    page.locator("#hub-id").fill("some-org/some-model")
    page.locator("#hub-fetch").click()
    expect(page.locator("#model-json")).to_have_value(json.dumps(model, indent=2))
    assert [request.url for request in asked] == ["https://huggingface.co/some-org/some-model/resolve/main/config.json"]
    assert "cookie" not in asked[0].headers
    assert page.evaluate("fetch('https://example.org/').then(() => 'sent', () => 'blocked')") == "blocked"


def test_keys(watched, site):
    """`?` shows the map, single keys act outside of fields, and can be turned off."""
    live(watched, f"{site}{ON_EIGHT}")
    watched.keyboard.press("?")
    expect(watched.locator("#help")).to_be_visible()
    expect(watched.locator("#help")).to_contain_text("Ctrl Z")
    watched.keyboard.press("Escape")
    expect(watched.locator("#help")).to_be_hidden()
    watched.keyboard.press("/")
    expect(watched.locator('[name="model"]')).to_be_focused()
    watched.keyboard.type("?")
    expect(watched.locator("#help")).to_be_hidden()
    watched.keyboard.press("Backspace")
    expect(watched.locator('[name="model"]')).to_have_value("Llama 3.1 8B")
    watched.locator(SEQUENCE).focus()
    expect(watched.locator(SEQUENCE)).to_be_focused()
    watched.keyboard.press("ArrowUp")
    expect(watched.locator(SEQUENCE)).to_have_value("16384")
    watched.locator(SEQUENCE).blur()
    expect(watched).to_have_url(re.compile("seq=16384"))
    expect(watched.locator("#undo")).to_be_enabled()
    watched.keyboard.press("Control+z")
    expect(watched.locator(SEQUENCE)).to_have_value("8192")
    watched.keyboard.press("c")
    expect(watched.locator("#compare-part")).to_be_visible()
    watched.keyboard.press("?")
    watched.locator("#shortcuts").uncheck()
    watched.locator('[data-close="help"]').click()
    watched.keyboard.press("?")
    expect(watched.locator("#help")).to_be_hidden()


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
    live(watched, f"{site}?eight{ON_EIGHT}")
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
    for name in VIEWS:
        view(page, name)
        on_every_ground(page, name, "#answer")
    view(page, "overview")
    on_every_ground(page, "the page")
    page.locator('#legend [data-part="parameters"]').click()
    expect(page.locator("#drawer")).to_be_visible()
    on_every_ground(page, "drawer", "#drawer, #answer")
    page.keyboard.press("Escape")
    for dialog in ("presets", "import", "plans", "help"):
        page.evaluate(f"document.getElementById('{dialog}').showModal()")
        on_every_ground(page, dialog, f"#{dialog}")
        page.evaluate(f"document.getElementById('{dialog}').close()")
    page.keyboard.press("x")
    expect(page.locator("#exports pre").first).to_be_visible()
    on_every_ground(page, "exports", "#exports")
    page.keyboard.press("Escape")
    page.evaluate(f"location.hash = '{SERVED}'")
    expect(page.locator("#timeline svg.users")).to_be_visible()
    on_every_ground(page, "a server", "#sentence, #top, #bar-part, #answer")
    context.close()


def test_the_answer_is_in_sight(browser, site):
    """Sentence, verdict, gauge and step without scrolling; on a phone sentence and verdict, and two screens in all.

    So it is with a shared link, whose note is there, and plans; at 320 pixels no view is over three screens.
    """
    context = visitor(browser, viewport={"width": 1280, "height": 800})
    page = live(context.new_page(), f"{site}#{TOO_BIG}")
    bottom = "(id) => document.getElementById(id).getBoundingClientRect().bottom"
    expect(page.locator("#shared")).to_be_visible()
    for link in (TOO_BIG, FOUR_STAGES, SERVED):
        page.evaluate(f"location.hash = '{link}'")
        device = str(estimate(decode_fragment(link)).device.expected)
        expect(page.locator("#verdict")).to_have_attribute("data-device-bytes", device)
        expect(page.locator('html[data-answer="whole"]:not([data-job])')).to_be_attached()
        expect(page.locator("#ways:not(.before) li").first).to_be_visible()
        hero = "crowd" if link == SERVED else "timeline"
        for part in ("sentence", "verdict", "bar", hero):
            assert page.evaluate(bottom, part) <= 800, (link, part)
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
        for name in VIEWS:
            view(page, name)
            height, width = page.evaluate(
                "(({ scrollHeight, scrollWidth }) => [scrollHeight, scrollWidth])(document.documentElement)"
            )
            assert height <= 3 * 640, (link, name)
            assert width <= 320, (link, name)
    context.close()


def test_what_people_ask_takes_few_actions(watched, site):
    """By roles and names alone: the largest LoRA batch of Qwen3 8B on a 3090, why it peaks, what to change, a flag."""
    live(watched, site)
    watched.get_by_label("Model", exact=True).fill("qwen3 8b")
    watched.get_by_label("Accelerator", exact=True).fill("RTX 3090")
    watched.get_by_role("button", name="Find the largest value of Micro-batch size that fits").click()
    expect(watched.get_by_text("No value fits: even 1 needs")).to_be_visible()
    watched.get_by_role("button", name=re.compile("^logits and loss")).last.click()
    expect(watched.get_by_role("heading", name="logits and loss")).to_be_visible()
    watched.keyboard.press("Escape")
    watched.get_by_role("button", name="Plans", exact=True).click()
    watched.get_by_role("button", name="Suggest changes").last.click()
    expect(watched.locator("#advice table")).to_be_visible()
    expect(watched).to_have_url(re.compile("&view=plans$"))
    watched.get_by_text("All settings", exact=True).click()
    watched.get_by_role("searchbox").fill("--recompute-granularity")
    expect(watched.get_by_label("Activation checkpointing", exact=True)).to_be_visible()
    expect(watched.get_by_label("Precision", exact=True)).to_be_hidden()
    watched.get_by_role("button", name="Close").click()
    watched.reload()
    expect(watched.locator("html")).to_have_attribute("data-state", "live")
    expect(watched.locator("#change-part")).to_be_visible()
    expect(watched.get_by_label("Model", exact=True)).to_have_value("Qwen3 8B")
