"""What the built page keeps and gives away: offline, new versions, storage, exports and logs; and it talks to nobody else."""

import json
import re
from pathlib import Path

import pytest
from browser import (
    AT_4096,
    EIGHT,
    ON_EIGHT,
    PATIENCE,
    SEQUENCE,
    answered,
    at,
    controlled,
    expect,
    live,
    native,
    numbers,
    size,
    view,
    visitor,
)
from conftest import served
from test_checkpoints_listed import of_gguf

from memcore.config.url import decode_fragment
from memcore.networks.catalog import find_model
from memcore.servers.llamacpp.gguf import gguf_file

pytestmark = pytest.mark.machine


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


UPDATING = """
async () => {
  const found = await navigator.serviceWorker.getRegistration();
  await found.update();
  return Boolean(found.installing ?? found.waiting);
}
"""
"""Looks for a new version until there is one: the page's own look, if it is under way, may still find the old one."""


@pytest.mark.unhurried
def test_an_update_waits_for_a_click(dist, watched, site):
    """A new version is fetched in the background, offered, and takes over with the job in place."""
    live(watched, f"{site}#v1&model=gpt2&seq=512")
    controlled(watched)
    worker: Path = dist / "sw.js"
    original = worker.read_text(encoding="utf-8")
    try:
        worker.write_text(original + "\n// a new version\n", encoding="utf-8")
        watched.wait_for_function(UPDATING, polling=500, timeout=PATIENCE)
        expect(watched.locator("#update")).to_be_visible()
        with watched.expect_event("load"):
            watched.locator("#reload").click()
        expect(watched.locator("html")).to_have_attribute("data-state", "live")
        expect(watched.locator('[name="model"]')).to_have_value("GPT-2")
    finally:
        worker.write_text(original, encoding="utf-8")


@pytest.mark.unhurried
def test_a_link_of_a_newer_version_offers_a_reload(dist, watched, site):
    """It says that the page is older; the button brings the newest version, with the link as it was."""
    live(watched, site)
    controlled(watched)
    worker: Path = dist / "sw.js"
    original = worker.read_text(encoding="utf-8")
    try:
        for fragment, said in (
            ("v2&model=gpt2&seq=512", "is older"),
            ("v1&model=gpt2&seq=512&setting-of-tomorrow=1", "newer memcore"),
        ):
            worker.write_text(f"{original}\n// for {fragment}\n", encoding="utf-8")
            watched.evaluate("window.before = true")
            watched.evaluate(f"location.hash = {fragment!r}")
            button = watched.locator("#problems [data-renew]")
            expect(watched.locator("#problems")).to_contain_text(said)
            with watched.expect_event("load"):
                button.click()
            expect(button).to_be_visible()
            assert watched.evaluate("window.before === undefined")
            state = "navigator.serviceWorker.getRegistration().then((found) => [found.waiting, found.installing])"
            assert watched.evaluate(state) == [None, None]
    finally:
        worker.write_text(original, encoding="utf-8")


def test_what_leaves_the_page_comes_back(browser, shared, tmp_path):
    """SVG and PNG hold the config: each, dropped on another visit, brings the job back. The archive works below a path."""
    from zipfile import ZipFile

    at(shared, "#v1&model=gpt2&seq=512&accelerator=t4")
    shared.get_by_role("button", name="Export", exact=True).click()
    dialog = shared.locator("#exports")
    for text in ("max_length: 512", "memcore estimate --model gpt2", "memcore.estimate(", "| component |", '"config"'):
        expect(dialog).to_contain_text(text)
    files = {}
    for kind in ("svg", "png", "json"):
        with shared.expect_download() as saved:
            dialog.locator(f'[data-kind="{kind}"][data-way="save"]').click()
        files[kind] = tmp_path / f"plan.{kind}"
        saved.value.save_as(files[kind])
    with shared.expect_download(timeout=60_000) as saved:
        shared.locator("#offline").click()
    saved.value.save_as(tmp_path / "page.zip")
    with ZipFile(tmp_path / "page.zip") as archive:
        assert archive.testzip() is None
        archive.extractall(tmp_path)
    with served(tmp_path) as elsewhere:
        kept = visitor(browser).new_page()
        live(kept, f"{elsewhere}memcore/#v1&model=gpt2&seq=512&accelerator=t4")
        assert numbers(kept) == native(decode_fragment("v1&model=gpt2&seq=512&accelerator=t4"))
        kept.context.close()
    for path in files.values():
        shared.evaluate("document.querySelectorAll('dialog[open]').forEach((each) => each.close())")
        shared.locator(SEQUENCE).fill("256")
        shared.get_by_role("button", name="Import", exact=True).click()
        shared.locator("#import-file").set_input_files(path)
        expect(shared.locator(SEQUENCE)).to_have_value("512")
        expect(shared.locator("#import")).to_be_hidden()


def test_a_script_of_ones_own_is_taken_away(watched, site):
    """Generating with transformers is taken away as the script that runs it; the address's own query stays out."""
    live(watched, f"{site}?q=,=1#v1&model=gpt2&engine=transformers&max-len=1024&accelerator=t4")
    watched.get_by_role("button", name="Export", exact=True).click()
    dialog = watched.locator("#exports")
    expect(dialog).to_be_visible()
    expect(dialog.locator("#export-flags")).to_contain_text("from transformers import pipeline")
    with watched.expect_download() as saved:
        dialog.locator('[data-kind="csv"][data-way="save"]').click()
    assert saved.value.suggested_filename == "memcore.csv"
    assert ",=" not in saved.value.path().read_text()


def test_a_log_of_a_run(shared, tmp_path):
    """Pasted by keyboard, chosen or dropped as a file; the measured case is saved; nothing of the log becomes markup."""
    at(shared, ON_EIGHT)
    shared.keyboard.press("l")
    shared.wait_for_function("document.activeElement?.id === 'log-text'")
    shared.keyboard.insert_text("<img src=x onerror=alert(1)> memory: 38.25GiB(48.3%)")
    for _ in range(3):
        shared.keyboard.press("Tab")
    shared.wait_for_function("document.activeElement?.dataset.do === 'reconcile'")
    shared.keyboard.press("Enter")
    found = shared.locator("#reconciled")
    expect(found).to_contain_text("torchtitan: peak reserved")
    expect(found.locator("img")).to_have_count(0)
    with shared.expect_download() as saved:
        found.get_by_role("button", name="Save").click()
    saved.value.save_as(tmp_path / "case.json")
    case = json.loads((tmp_path / "case.json").read_text(encoding="utf-8"))[0]
    assert (case["config"], case["measured"]["quantity"]) == (EIGHT, "max_reserved")
    carried = shared.evaluate_handle(
        """(text) => { const carried = new DataTransfer();
           carried.items.add(new File([text], "vllm.log")); return carried; }""",
        "Model loading took 14.9889 GiB and 4.2 seconds",
    )
    shared.dispatch_event("#sentence", "drop", {"dataTransfer": carried})
    expect(found).to_contain_text("vLLM: weights")
    log = tmp_path / "run.log"
    log.write_text("71.3 GiB")
    shared.locator("#log-file").set_input_files(log)
    expect(found).to_contain_text("say what the number is")
    shared.locator("#log-reading").select_option("device_used")
    shared.get_by_role("button", name="Compare with the prediction").click()
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
    """On a reload: what is compared, a pasted log, and a question that asks back, until the address says what it asks.

    In two tabs: the plans of both. With damaged storage: nothing.
    """
    live(watched, f"{site}{ON_EIGHT}")
    watched.locator("nav [data-do=pin]").click()
    expect(watched.locator("#compare [data-do=unpin]")).to_have_count(1)
    watched.locator(SEQUENCE).fill("4096")
    watched.locator("nav [data-do=pin]").click()
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
    watched.keyboard.press("Escape")
    model = watched.get_by_role("combobox", name="Model", exact=True)
    model.fill("serve Qwen3 32B to 20 users of 8k on 2 A100")
    model.press("Enter")
    expect(watched.locator("#said")).to_contain_text("Which a100?")
    watched.reload()
    expect(watched.locator("html")).to_have_attribute("data-state", "live")
    watched.get_by_role("button", name="A100 SXM · 80 GB").click()
    expect(watched).to_have_url(
        re.compile("qwen3-32b&batch=20&max-len=8192&engine=vllm&accelerator=a100-sxm-80gb&gpus=2")
    )
    assert "texts" not in watched.evaluate("sessionStorage.memcore")
    expect(watched.locator("#compare [data-do=unpin]")).to_have_count(2)
    expect(watched.locator("#compare")).to_contain_text("8,192")
    expect(watched.locator("#log-text")).to_have_value("71.3 GiB")


def test_the_hub_is_asked_at_a_click_only(context, page, site):
    """The foreign requests: the files that describe this model, of weights the header, and nothing else is sent."""
    asked = []
    context.on(
        "request", lambda request: None if request.url.startswith((site, "data:", "blob:")) else asked.append(request)
    )
    model = {"model_type": "gpt2", "n_embd": 128, "n_head": 4, "n_layer": 3}
    held = json.dumps({"a": {"dtype": "F32", "shape": [5, 5], "data_offsets": [0, 100]}}).encode()
    weights = len(held).to_bytes(8, "little") + held + bytes(100)
    open_to_all = {"access-control-allow-origin": "*"}

    def answer(route):
        name = route.request.url.rpartition("/")[2]
        if "no-such" in route.request.url or ("gated" in route.request.url and name == "config.json"):
            route.fulfill(status=401, headers=open_to_all)
        elif "/api/" in route.request.url:
            files = ("config.json", "README.md", "model.safetensors")
            route.fulfill(
                json={"sha": "c0ffee", "siblings": [{"rfilename": each} for each in files]}, headers=open_to_all
            )
        elif name == "config.json":
            route.fulfill(json=model, headers=open_to_all)
        else:
            first, last = map(int, route.request.headers["range"].removeprefix("bytes=").split("-"))
            route.fulfill(body=weights[first : last + 1], status=206, headers=open_to_all)

    context.route("https://huggingface.co/**", answer)
    live(page, site)
    page.locator('[data-open="import"]').click()
    page.locator("#hub-id").fill("not an id")
    page.locator("#hub-fetch").click()
    expect(page.locator("#import-error")).to_contain_text("expected an id of the hub")
    assert asked == []
    page.locator("#hub-id").fill("https://huggingface.co/some-org/some-model")
    page.locator("#hub-fetch").click()
    expect(page.locator("#model-json")).to_have_value(json.dumps(model, indent=2))
    expect(page.locator("#notice")).to_contain_text("lists 1 tensors of 100 bytes")
    base = "https://huggingface.co/some-org/some-model/resolve/c0ffee"
    assert [request.url for request in asked] == [
        "https://huggingface.co/api/models/some-org/some-model/revision/main", f"{base}/config.json",
        *[f"{base}/model.safetensors"] * 2,
    ]  # fmt: skip
    assert [each.headers.get("range") for each in asked[2:]] == ["bytes=0-7", f"bytes=8-{7 + len(held)}"]
    assert not any("cookie" in each.headers for each in asked)
    for name, said in (("no-such", "has no public repository org/no-such"), ("gated", "org/gated is gated")):
        page.get_by_role("combobox", name="Model", exact=True).fill(f"org/{name}")
        page.locator(f'[data-hub="org/{name}"]').click()
        expect(page.locator("#import-error")).to_contain_text(said)
        page.keyboard.press("Escape")
    context.route("https://cas-bridge.xethub.hf.co/**", lambda route: route.fulfill(body="", headers=open_to_all))
    for host, done in (
        ("example.org", "blocked"),
        ("hf.co.example.org", "blocked"),
        ("cas-bridge.xethub.hf.co", "sent"),
    ):
        assert page.evaluate(f"fetch('https://{host}/').then(() => 'sent', () => 'blocked')") == done


def test_a_checkpoint_is_read_by_its_header(page, site):
    """A GGUF file's vocabulary stays on its disk; what is no such file says so."""
    tensors = gguf_file(find_model("Qwen/Qwen3-0.6B"), "Q8_0")
    keys = {"general.name": "Qwen3 0.6B", "general.architecture": "qwen3", "qwen3.block_count": 28}
    held = of_gguf({**keys, "tokenizer.ggml.tokens": ["token"] * 10**5, "general.file_type": 7}, tensors)
    live(page, site)
    page.locator('[data-open="import"]').click()
    page.locator("#import-file").set_input_files({"name": "m.gguf", "mimeType": "", "buffer": held + bytes(2**22)})
    expect(page.locator('[name="inference.quantization"]')).to_have_value("q8_0")
    expect(page.locator('[name="model"]')).to_have_value("Qwen/Qwen3-0.6B")
    page.locator('[data-open="import"]').click()
    page.locator("#import-file").set_input_files({"name": "m.gguf", "mimeType": "", "buffer": b"GGUF" + bytes(20)})
    expect(page.locator("#import-error")).to_contain_text("version")
    page.locator("#import-file").set_input_files({"name": "a.log", "mimeType": "", "buffer": bytes(2**24 + 1)})
    expect(page.locator("#import-error")).to_contain_text("a.log is larger than 16 MiB")
