"""The built page in a real browser: it boots, answers, remembers, works offline and talks to nobody else."""

import json
import re
import shutil
from pathlib import Path

import pytest

from memcore import estimate
from memcore.config.url import decode_fragment
from memcore.render.page import EXAMPLE

pytestmark = pytest.mark.machine
playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect
expect.set_options(timeout=20_000)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
if CHROMIUM is None:
    pytest.skip("no Chromium on this machine: the tests of the page in a browser are skipped", allow_module_level=True)

SEQUENCE = '[name="training.sequence_length"]'


@pytest.fixture(scope="session")
def browser_type_launch_args():
    """The machine's own Chromium; its network features that nobody asked for are off."""
    return {
        "executable_path": CHROMIUM,
        "args": ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
    }


@pytest.fixture
def watched(context, page, site):
    """A page whose console errors, failures and foreign requests end the test."""
    wrong = []
    page.on("console", lambda message: wrong.append(message.text) if message.type in {"error", "warning"} else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    context.on(
        "request",
        lambda request: None if request.url.startswith((site, "data:", "blob:")) else wrong.append(request.url),
    )
    yield page
    assert wrong == []


def live(page, address):
    """Open an address and wait until Python answers."""
    page.goto(address)
    expect(page.locator("html")).to_have_attribute("data-state", "live")
    return page


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


def test_the_first_paint_is_an_answer(browser, site):
    """Without scripts the page shows the example's verdict, pictures and tensors."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(site)
    assert page.locator("html").get_attribute("data-state") == "static"
    assert numbers(page) == native(EXAMPLE)
    expect(page.locator("#verdict")).to_contain_text("Fits: needs")
    expect(page.locator("#bar svg rect").first).to_be_visible()
    assert page.locator("#ledger details").count() > 5
    context.close()


def test_python_takes_over_with_the_same_numbers(watched, site):
    """What was prerendered and what Python in the page computes are the same, to the byte and to the markup."""
    watched.goto(site)
    before = watched.locator("#ledger").inner_html(), watched.locator("#bar").inner_html(), numbers(watched)
    expect(watched.locator("html")).to_have_attribute("data-state", "live")
    watched.locator(SEQUENCE).fill("4096")
    expect(watched.locator("#verdict")).not_to_have_attribute("data-allocated-bytes", before[2]["allocated-bytes"])
    watched.locator(SEQUENCE).fill("8192")
    expect(watched.locator("#verdict")).to_have_attribute("data-allocated-bytes", before[2]["allocated-bytes"])
    assert (watched.locator("#ledger").inner_html(), watched.locator("#bar").inner_html(), numbers(watched)) == before


def test_an_edit_is_answered_and_remembered(watched, site):
    """Every edit changes verdict and URL, and the URL decodes to the same job in Python."""
    live(watched, site)
    watched.locator(SEQUENCE).fill("32k")
    watched.locator('[name="engine.type"]').select_option("ddp")
    expect(watched).to_have_url(re.compile("engine=ddp"))
    expect(watched.locator("#verdict")).to_have_attribute("data-fits", "false")
    config = decode_fragment(watched.url)
    assert config.training.sequence_length == 32768
    assert config.engine.type == "ddp"
    assert numbers(watched) == native(config)


def test_a_link_restores_everything(watched, site):
    """A link fills the form and answers; other people's links work the same."""
    fragment = "v1&model=gemma-2-2b&seq=2048&grad-accum=4&optimizer=sgd&momentum=0.9&accelerator=rtx-4090"
    live(watched, f"{site}#{fragment}")
    assert numbers(watched) == native(decode_fragment(fragment))
    for name, value in (
        ("model", "gemma-2-2b"),
        ("training.sequence_length", "2048"),
        ("training.optimizer.momentum", "0.9"),
    ):
        assert watched.locator(f'[name="{name}"]').input_value() == value
    assert watched.locator('[name="hardware.num_gpus"]').input_value() == ""


def test_back_and_forward_undo_and_redo(watched, site):
    """Each finished edit is one step of the browser's history."""
    live(watched, site)
    for value in ("4096", "2048"):
        watched.locator(SEQUENCE).fill(value)
        watched.locator(SEQUENCE).blur()
        expect(watched).to_have_url(
            f"{site}#v1&model=llama-3.1-8b&seq={value}&checkpointing=full&engine=fsdp&accelerator=h100-sxm-80gb&gpus=8"
        )
        watched.wait_for_timeout(100)
    watched.go_back()
    expect(watched.locator(SEQUENCE)).to_have_value("4096")
    watched.go_back()
    expect(watched.locator(SEQUENCE)).to_have_value("8192")
    watched.go_forward()
    expect(watched.locator(SEQUENCE)).to_have_value("4096")
    expect(watched.locator("#verdict")).to_have_attribute(
        "data-allocated-bytes", native(decode_fragment(watched.url))["allocated-bytes"]
    )


def test_copy_link(context, watched, site):
    """The button copies a link that restores everything, and says so."""
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    live(watched, site)
    watched.locator("#copy").click()
    expect(watched.locator("#notice")).to_have_text("Link copied.")
    link = watched.evaluate("navigator.clipboard.readText()")
    assert decode_fragment(link).to_dict() == EXAMPLE


def test_wrong_input_is_said_beside_the_field(watched, site):
    """A wrong value is marked and explained, and the last answer stays."""
    live(watched, site)
    before = numbers(watched)
    watched.locator(SEQUENCE).fill("many")
    field = watched.locator(SEQUENCE)
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(watched.locator("#field-training-sequence_length-error")).to_contain_text("found 'many'")
    expect(watched.locator("#problems")).to_contain_text("training.sequence_length")
    assert numbers(watched) == before
    field.fill("4096")
    expect(watched.locator("#problems")).to_be_hidden()
    expect(field).not_to_have_attribute("aria-invalid", "true")


@pytest.mark.parametrize(
    "fragment",
    ["v9&model=gpt2", "v1&model=deflate:xyz", "%3Cscript%3Ealert(1)%3C/script%3E",
     "v1&model=%22%3E%3Cimg%20src=x%20onerror=alert(1)%3E"],
)  # fmt: skip
def test_a_broken_or_hostile_link_changes_nothing(watched, site, fragment):
    """The form keeps the example, the problem is said, and nothing of the link becomes markup."""
    live(watched, f"{site}#{fragment}")
    expect(watched.locator("#problems")).to_be_visible()
    assert watched.locator("#problems img, #problems script").count() == 0
    assert numbers(watched) == native(EXAMPLE)


def test_a_pasted_config_json(watched, site):
    """A config.json in the form replaces the model, travels in the link, and a broken one loses nothing."""
    live(watched, site)
    model = {
        "model_type": "llama",
        "hidden_size": 1024,
        "num_hidden_layers": 4,
        "num_attention_heads": 16,
        "vocab_size": 32000,
    }
    watched.locator("#paste summary").click()
    watched.locator("#model-json").fill(json.dumps(model))
    expect(watched.locator("#verdict")).to_have_attribute(
        "data-allocated-bytes", native({**EXAMPLE, "model": model})["allocated-bytes"]
    )
    assert decode_fragment(watched.url).model == model
    watched.locator("#model-json").fill(json.dumps(model)[:-1])
    expect(watched.locator("#model-json-error")).to_contain_text("not JSON")
    watched.reload()
    expect(watched.locator("html")).to_have_attribute("data-state", "live")
    expect(watched.locator("#model-json")).to_have_value(json.dumps(model)[:-1])
    assert decode_fragment(watched.url).model == model


def test_a_chosen_file(watched, site, tmp_path):
    """A memcore config as a file fills the whole form; a wrong file changes nothing."""
    live(watched, site)
    wrong, right = tmp_path / "wrong.json", tmp_path / "job.json"
    wrong.write_text('{"hello": "world"}')
    right.write_text(json.dumps({"model": "gpt2", "training": {"sequence_length": 512}}))
    watched.locator("#paste summary").click()
    watched.locator("#file").set_input_files(wrong)
    expect(watched.locator("#problems")).to_contain_text("expected a memcore config")
    assert watched.locator('[name="model"]').input_value() == "llama-3.1-8b"
    watched.locator("#file").set_input_files(right)
    expect(watched.locator('[name="model"]')).to_have_value("gpt2")
    expect(watched.locator("#verdict")).to_have_attribute("data-fits", "unknown")


def test_a_dropped_file(watched, site):
    """A config.json dropped anywhere on the page becomes the model."""
    live(watched, site)
    model = {"model_type": "gpt2", "n_embd": 128, "n_head": 4, "n_layer": 3}
    carried = watched.evaluate_handle(
        """(text) => { const carried = new DataTransfer();
           carried.items.add(new File([text], "config.json", { type: "application/json" })); return carried; }""",
        json.dumps(model),
    )
    watched.locator(SEQUENCE).fill("512")
    watched.dispatch_event("body", "drop", {"dataTransfer": carried})
    expect(watched.locator("#model-json")).to_have_value(json.dumps(model, indent=2))
    config = {**EXAMPLE, "model": model, "training": {**EXAMPLE["training"], "sequence_length": 512}}
    expect(watched.locator("#verdict")).to_have_attribute("data-allocated-bytes", native(config)["allocated-bytes"])


def test_settings_of_other_engines_are_hidden(watched, site):
    """Only what applies is shown, and defaults show what they are."""
    live(watched, site)
    bucket, reshard = (
        watched.locator("#field-engine-gradient_as_bucket_view"),
        watched.locator("#field-engine-reshard_after_forward"),
    )
    expect(bucket).to_be_hidden()
    expect(reshard).to_be_visible()
    expect(reshard).to_have_attribute("placeholder", "true")
    watched.locator('[name="engine.type"]').select_option("ddp")
    expect(bucket).to_be_visible()
    expect(reshard).to_be_hidden()


def test_a_server_instead_of_training(watched, site):
    """Choosing a server turns the page over: its fields, headings, numbers and chart; and back again."""
    live(watched, f"{site}#v1&model=llama-3.1-8b&engine=vllm&accelerator=h100-sxm-80gb&max-len=8192")
    training, inference = watched.locator("#group-Training"), watched.locator("#group-Inference")
    expect(training).to_be_hidden()
    expect(inference).to_be_visible()
    verdict = watched.locator("#verdict")
    found = estimate(decode_fragment(watched.url))
    expect(verdict).to_have_attribute("data-phase", "serving")
    expect(verdict).to_have_attribute("data-device-bytes", str(found.device.expected))
    expect(watched.locator("#timeline svg.users")).to_be_visible()
    watched.locator('[name="engine.type"]').select_option("fsdp")
    expect(training).to_be_visible()
    expect(inference).to_be_hidden()


def test_unfolded_tensors_stay_unfolded(watched, site):
    """A category that is open stays open when the numbers change; it shows formula, numbers and source."""
    live(watched, site)
    group = watched.locator("#ledger-activations")
    group.locator("summary").click()
    expect(group).to_contain_text("b·s·h × 2 B")
    watched.locator(SEQUENCE).fill("4096")
    expect(group).to_contain_text("1·4,096·4,096 × 2 B")
    expect(group).to_have_attribute("open", "")


def test_the_keyboard_alone(watched, site):
    """Tab reaches the skip link first, then the actions; Enter unfolds; parts of the bar are one stop with arrows."""
    live(watched, site)
    reached = []
    for _ in range(3):
        watched.keyboard.press("Tab")
        reached.append(watched.evaluate("document.activeElement.textContent"))
    assert reached == ["Skip to the answer", "Examples", "Import"]
    watched.locator("#ledger-parameters summary").focus()
    watched.keyboard.press("Enter")
    expect(watched.locator("#ledger-parameters")).to_have_attribute("open", "")


def test_offline_after_one_visit(context, watched, site):
    """After one visit the page reloads and answers with the network off, below its path and with a link."""
    live(watched, site)
    controlled(watched)
    context.set_offline(True)
    watched.reload()
    expect(watched.locator("html")).to_have_attribute("data-state", "live")
    fragment = "v1&model=gpt2&seq=512&accelerator=t4"
    live(watched, f"{site}?anything#{fragment}")
    assert numbers(watched) == native(decode_fragment(fragment))
    context.set_offline(False)


@pytest.mark.parametrize("width", [320, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessibility(browser, site, width, scheme):
    """axe finds nothing, with everything unfolded and with an error shown, and no width scrolls sideways."""
    from axe_playwright_python.sync_playwright import Axe

    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme, bypass_csp=True)
    page = live(context.new_page(), site)
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    tags = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
    assert Axe().run(page, options=tags).response["violations"] == []
    page.locator(SEQUENCE).fill("many")
    expect(page.locator("#problems")).to_be_visible()
    assert Axe().run(page, options=tags).response["violations"] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    context.close()


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
        watched.locator("#reload").click()
        expect(watched.locator("html")).to_have_attribute("data-state", "live")
        expect(watched.locator('[name="model"]')).to_have_value("gpt2")
    finally:
        worker.write_text(original, encoding="utf-8")
