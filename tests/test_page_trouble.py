"""The built page when things go wrong: files that are missing, damaged or of another version, and jobs that never end."""

import gzip
import json
import re

import pytest
from browser import HURRIED, PATIENCE, SEQUENCE, answered, controlled, expect, live, native, numbers, size, visitor
from conftest import served

from memcore.config.settings import Config
from memcore.config.url import decode_fragment, encode_fragment
from memcore.faces.render.page import EXAMPLE

pytestmark = pytest.mark.machine

JOB = "v1&model=gpt2&seq=512&accelerator=t4"
SOON = 10_000
"""Milliseconds within which the page says what is wrong."""
NEVER = 31337
"""A sequence length for which the tests' Python never ends."""


def gone(route):
    """As a server answers that does not have the file."""
    route.fulfill(status=404, content_type="text/html", body="<!doctype html><h1>404</h1>")


def replaced(change):
    """The file with other content."""

    def fulfil(route):
        found = route.fetch()
        route.fulfill(response=found, body=change(found.body()))

    return fulfil


def flipped(body):
    """One bit is wrong."""
    return body[:1000] + bytes([body[1000] ^ 1]) + body[1001:]


def repacked(change):
    """A memory that unpacks without an error to something else."""
    return lambda body: gzip.compress(change(gzip.decompress(body)), 1)


def halved(body):
    """Only the beginning arrives."""
    return body[: len(body) // 2]


def web_page(_):
    """A web page instead, as some servers answer for what they do not have."""
    return b"<!doctype html><p>Not here."


truncated, a_page = replaced(halved), replaced(web_page)
another = replaced(lambda body: body + b"\n// of another version\n")


def trouble(page, *texts):
    """Wait until the page says what failed; each text stands in it."""
    for text in texts:
        expect(page.locator("#trouble")).to_contain_text(text, timeout=SOON)
    expect(page.locator("#retry")).to_be_visible()
    expect(page.locator("#config")).to_be_visible()


AGAIN = {
    ("pyodide.asm.wasm", gone),
    ("main.py", a_page),
    ("core-*.js", truncated),
    ("app.js", gone),
    ("view.js", another),
}
"""Who may have failed: Python's worker, what runs in it, PyScript, the page's script, and a module that has another hash.

The reload that follows is the same for other files of theirs.
"""


@pytest.mark.parametrize(
    ("file", "how", "said"),
    [
        ("pyodide.asm.wasm", truncated, "pyodide.asm.wasm"),
        ("pyodide.asm.wasm", gone, "pyodide.asm.wasm is missing on the server"),
        ("pyodide.asm.mjs", truncated, "pyodide.asm.mjs is damaged"),
        ("pyodide-lock.json", gone, "pyodide-lock.json is missing on the server"),
        ("python.mjs", gone, "python.mjs is missing on the server"),
        ("main.py", gone, "main.py is missing on the server"),
        ("main.py", a_page, "main.py is damaged or belongs to another version"),
        ("core-*.js", truncated, "is damaged or belongs to another version"),
        ("core-*.js", gone, "is missing on the server"),
        ("start.js", gone, "start.js is missing on the server"),
        ("app.js", gone, "app.js is missing on the server"),
        ("app.js", truncated, "app.js is damaged"),
        ("view.js", another, "view.js is damaged or belongs to another version"),
        ("waiting.js", gone, "waiting.js is missing on the server"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_start_that_fails_says_so(context, page, site, file, how, said):
    """Which file, and what to do, and never the example's verdict for somebody's link; trying again goes on."""
    context.route(f"**/{file}", how)
    page.goto(f"{site}#{JOB}")
    trouble(page, "memcore could not start.", said, "Try again reloads the files")
    expect(page.locator("#verdict")).to_have_text("No answer for this job: memcore did not start.")
    assert set(numbers(page).values()) == {None}
    context.unroute_all(behavior="ignoreErrors")  # a request that the page gave up may still be on its way
    if (file, how) not in AGAIN:
        return
    page.locator("#retry").click()
    expect(page.locator("html")).to_have_attribute("data-state", "live")
    expect(page.locator("#trouble")).to_be_hidden()
    answered(page, decode_fragment(JOB))


DAMAGE = {
    "gone": (None, "Error: memory.bin: 404"),
    "one bit": (repacked(flipped), "Error: memory.bin: damaged"),
    "truncated": (halved, "TypeError: Compressed input was truncated"),
    "a page": (web_page, "TypeError: The compressed data was not valid"),
    "zeros": (repacked(lambda memory: bytes(len(memory))), "Error: memory.bin: damaged"),
    "too long": (repacked(lambda memory: memory + bytes(100)), "Error: memory.bin: too long"),
    "too short": (repacked(lambda memory: memory[:-5000]), "Error: memory.bin: incomplete"),
}
"""What may be wrong with the memory, and what the page says of it."""
TO_THE_END = ("gone", "one bit")
"""A memory that does not come, and one that came: the start that follows is the same whatever else is wrong."""


@pytest.mark.parametrize("name", DAMAGE)
def test_a_memory_that_is_wrong_is_done_without(context, page, site, dist, tmp_path, name):
    """Python starts from bytecode instead, compiles nothing, and answers what was asked."""
    change, said = DAMAGE[name]
    if change:
        (tmp_path / "memory.bin").write_bytes(change((dist / "pyodide" / "memory.bin").read_bytes()))
    fetched = []
    page.on("request", lambda request: fetched.append(request.url.rpartition("/")[2]))
    # It comes from another server: what a route is given as bytes passes through two programs, which takes seconds.
    with served(tmp_path) as elsewhere:
        context.route("**/memory.bin?inflated", lambda route: route.continue_(url=f"{elsewhere}memory.bin"))
        with page.expect_console_message(
            lambda message: f"starts from nothing: {said}" in message.text, timeout=PATIENCE
        ):
            page.goto(f"{site}#{JOB}")
    if name not in TO_THE_END:
        expect(page.locator("html")).not_to_have_attribute("data-state", "failed")
        expect(page.locator("#trouble")).to_be_hidden()
        return
    expect(page.locator("html")).to_have_attribute("data-state", "live")
    answered(page, decode_fragment(JOB))
    assert "library.zip" in fetched
    assert not [name for name in fetched if name.endswith(".whl") or name == "python_stdlib.zip"]


def test_a_deployment_that_is_half_done(context, page, site, dist):
    """A page whose files are of another version, or gone, does not mix them: it says that it is being updated."""
    index = (dist / "index.html").read_text(encoding="utf-8")
    newer = re.sub(r"wheels/\w+/", "wheels/0123456789ab/", index)
    newer = re.sub(r'(app.js" integrity="sha256-).{8}', r"\g<1>00000000", newer)
    context.route(f"{site}?new", lambda route: route.fulfill(body=newer, content_type="text/html"))
    page.goto(f"{site}?new#{JOB}")
    trouble(page, "memcore could not start.", "The files on the server belong to another version")
    assert set(numbers(page).values()) == {None}
    context.unroute(f"{site}?new")
    page.locator("#retry").click()
    expect(page.locator("html")).to_have_attribute("data-state", "live")
    answered(page, decode_fragment(JOB))


def test_what_was_typed_outlives_a_failed_start(context, page, site):
    """The form can be used all the while; after trying again what was typed is answered."""
    context.route("**/pyodide.asm.wasm", gone)
    page.goto(site)
    trouble(page, "pyodide.asm.wasm")
    assert numbers(page) == native(EXAMPLE)  # nothing else was asked about
    page.locator(SEQUENCE).fill("2048")
    context.unroute("**/pyodide.asm.wasm")
    page.locator("#retry").click()
    expect(page.locator("html")).to_have_attribute("data-state", "live")
    expect(page.locator(SEQUENCE)).to_have_value("2048")
    answered(page, {**EXAMPLE, "training": {**EXAMPLE["training"], "sequence_length": 2048}})


def test_a_start_that_stands_still(context, page, site):
    """Where nothing arrives any more and nothing fails the page says that too, and goes on if it does."""
    held = []
    context.route("**/pyodide.asm.mjs", lambda route: held.append(route))  # noqa: PLW0108 - a route knows no builtin
    page.goto(f"{site}#{JOB}")
    expect(page.locator("#trouble")).to_contain_text("nothing has arrived for 8 s", timeout=15_000)
    expect(page.locator("#retry")).to_be_visible()
    for route in held:
        route.continue_()
    expect(page.locator("html")).to_have_attribute("data-state", "live")
    expect(page.locator("#trouble")).to_be_hidden()


def test_trouble_in_chinese(browser, site):
    """What is said before Python runs, or if it does not, is in the browser's language."""
    context = visitor(browser, locale="zh-CN")
    context.route("**/pyodide.asm.wasm", gone)
    page = context.new_page()
    page.goto(f"{site}#{JOB}", wait_until="commit")
    expect(page.locator("#verdict")).to_contain_text("此任务")
    trouble(page, "memcore 未能启动。", "服务器上缺少 pyodide.asm.wasm。")
    expect(page.locator("#retry")).to_have_text("重试")
    expect(page.locator("#verdict")).to_have_text("此任务没有结果：memcore 未能启动。")
    context.close()


WATCH = """
window.shown = new Set();
const look = () => {
  const verdict = document.getElementById("verdict");
  const answer = document.getElementById("bar");
  if (verdict) shown.add(verdict.innerText);
  if (answer && getComputedStyle(answer).visibility === "visible") shown.add(document.getElementById("bar").textContent);
  requestAnimationFrame(look);
};
look();
"""


def test_the_example_is_never_shown_for_a_link(context, page, site):
    """In no frame from the first paint on; until the link's own answer is there the verdict says that it is computed."""
    page.add_init_script(WATCH)
    live(page, f"{site}#{JOB}")
    answered(page, decode_fragment(JOB))
    expect(page.locator("#bar svg")).to_be_visible()
    shown = page.evaluate("[...shown]")
    assert any(text.startswith("Computing the answer for this job") for text in shown)
    assert any(size(decode_fragment(JOB)) in text for text in shown)
    assert not [text for text in shown if size(EXAMPLE) in text or "llama" in text.lower()]
    example = context.new_page()
    example.add_init_script(WATCH)
    fragment = encode_fragment(Config.from_dict(EXAMPLE))
    example.goto(f"{site}#{fragment}")
    assert numbers(example) == native(EXAMPLE)  # that is the example's own link


OLDER = "v9&model=gpt2"
"""A link for which the page is too old."""


@pytest.mark.parametrize(
    ("fragment", "why"),
    [
        (OLDER, "v9"),
        ("v1&model=deflate:xyz", "model"),
        ("v1&model=llama-3.2-1b&seq=512&tp=3&gpus=3&engine=fsdp", "tensor_parallel_size: found 3"),
    ],
)
def test_a_link_without_an_answer_says_why(page, site, fragment, why):
    """Instead of a verdict; going to another link is answered, and so is going back, which needs no second cause."""
    live(page, f"{site}#{fragment}")
    verdict = page.locator("#verdict")
    expect(verdict).to_contain_text("No answer for this job.")
    expect(verdict).to_contain_text(why)
    assert set(numbers(page).values()) == {None}
    expect(page.locator("#answer, #answer svg *, #outdated, #example-note").filter(visible=True)).to_have_count(0)
    page.evaluate(f"location.hash = '{JOB}'")
    answered(page, decode_fragment(JOB))
    if fragment != OLDER:
        return
    expect(page.locator("#bar svg")).to_be_visible()
    page.go_back()
    expect(verdict).to_contain_text("No answer for this job.")
    expect(verdict).to_contain_text(why)
    page.evaluate(f"location.hash = '{JOB}'")
    answered(page, decode_fragment(JOB))


@pytest.fixture
def endless(context):
    """A page whose Python never ends with one sequence length."""
    slow = f"""
import memcore.faces.page.answering as answering
estimate = answering.estimate
def never(config):
    while config.get("training.sequence_length") == {NEVER}:
        pass
    return estimate(config)
answering.estimate = never
"""
    context.route("**/main.py", replaced(lambda body: slow.encode() + body.split(b'"""', 2)[2]))


def test_a_link_that_never_ends_can_be_stopped(endless, page, site):
    """The page says that it takes long, stops at a click, and takes the next edit; nothing of the example is shown."""
    page.add_init_script(WATCH)
    page.goto(f"{site}#v1&model=gpt2&seq={NEVER}&accelerator=t4")
    expect(page.locator("#busy-text")).to_contain_text("takes longer than usual: 4 s so far")
    expect(page.locator("#verdict")).to_have_text("Computing the answer for this job…")
    page.locator("#stop").click()
    expect(page.locator("#verdict")).to_have_text("No answer for this job: you stopped the computation.")
    expect(page.locator("#busy-text")).to_contain_text("Change a setting to get an answer, or try again.")
    expect(page.locator("html")).to_have_attribute("data-state", "live")
    expect(page.locator('[name="model"]')).to_have_value("GPT-2")
    expect(page.locator(SEQUENCE)).to_have_value(str(NEVER))
    page.locator("#again").click()
    expect(page.locator("#stop")).to_be_visible()
    page.locator("#stop").click()
    expect(page.locator("html")).to_have_attribute("data-state", "live")
    page.locator(SEQUENCE).fill("512")
    answered(page, decode_fragment(JOB))
    expect(page.locator("#busy")).to_be_hidden()
    expect(page.locator("#bar svg")).to_be_visible()
    assert not [text for text in page.evaluate("[...shown]") if size(EXAMPLE) in text]


def test_an_edit_that_never_ends_can_be_stopped(endless, page, site):
    """What was typed while Python was stuck is answered after the stop; what was compared and the language stay."""
    live(page, f"{site}#{JOB}")
    page.locator("#language").select_option("zh")
    expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
    page.locator("nav [data-do=pin]").click()
    expect(page.locator("#compare [data-do=unpin]")).to_have_count(1)
    page.locator(SEQUENCE).fill(str(NEVER))
    expect(page.locator("#busy")).to_contain_text("本次计算比平时久")
    page.locator(SEQUENCE).fill("256")
    page.locator("#stop").click()
    answered(page, decode_fragment("v1&model=gpt2&seq=256&accelerator=t4"))
    expect(page.locator("#verdict")).to_contain_text("需要")
    expect(page.locator("#busy")).to_be_hidden()
    expect(page.locator(SEQUENCE)).to_have_value("256")
    expect(page.locator("#compare [data-do=unpin]")).to_have_count(1)
    page.locator(SEQUENCE).fill(str(NEVER))
    page.locator("#stop").click()
    expect(page.locator("html")).to_have_attribute("data-state", "live")
    page.locator('[data-show="overview"]').click()
    page.locator('#legend [data-part="parameters"]').click()  # what the page shows is known after the stop too
    expect(page.locator("#drawer")).to_be_visible()


POISON = """
async ([path, inflated]) => {
  const cache = await caches.open("memcore-files");
  const hash = (await (await fetch("./files.json")).json())[path];
  const place = new URL(`./by-hash/${encodeURIComponent(hash)}${inflated ? "?inflated" : ""}`, location.href.split(/[?#]/)[0]).href;
  const found = await cache.match(place);
  const body = new Uint8Array(await found.arrayBuffer());
  body.fill(7, body.length >> 1, (body.length >> 1) + 100);
  await cache.put(place, new Response(body, { headers: found.headers }));
}
"""
KEPT = """
async ([path, inflated]) => {
  const cache = await caches.open("memcore-files");
  const hash = (await (await fetch("./files.json")).json())[path];
  const found = await cache.match(new URL(`./by-hash/${encodeURIComponent(hash)}`, location.href.split(/[?#]/)[0]).href);
  if (!found) return false;
  const bytes = new Uint8Array(await crypto.subtle.digest("SHA-256", await found.arrayBuffer()));
  return hash === `sha256-${btoa(String.fromCharCode(...bytes))}`;
}
"""


@pytest.fixture
def kept(context, page, site):
    """A page whose files are all kept by the service worker, as after an earlier visit; for that Python need not start."""
    page.goto(f"{site}licences.txt")
    page.evaluate("navigator.serviceWorker.register('./sw.js', { updateViaCache: 'none' }).then(() => true)")
    controlled(page)
    context.add_init_script(HURRIED)
    return page


@pytest.mark.unhurried
@pytest.mark.parametrize(
    ("path", "inflated", "stops"),
    [("index.html", False, False), ("view.js", False, True), ("main.py", False, True), ("pyodide/memory.bin", True, False),
     ("pyodide/pyodide.asm.wasm", False, True)],
)  # fmt: skip
def test_a_poisoned_cache_is_not_served_for_ever(kept, site, path, inflated, stops):
    """What is kept is compared with its hash: damage is noticed, said where it stops the start, and repaired."""
    kept.evaluate(POISON, [path, inflated])
    kept.goto(f"{site}?again#{JOB}")
    if stops:
        trouble(kept, "memcore could not start.", f"{path} was damaged in this browser's cache")
        kept.locator("#retry").click()
    expect(kept.locator("html")).to_have_attribute("data-state", "live")
    answered(kept, decode_fragment(JOB))
    if not inflated:
        kept.wait_for_function(KEPT, arg=[path, inflated], polling=500, timeout=PATIENCE)
        return
    kept.wait_for_timeout(100)
    live(kept, f"{site}?at-last#{JOB}")  # the hash of what is kept unpacked is the service worker's own
    answered(kept, decode_fragment(JOB))


@pytest.mark.unhurried
def test_an_idle_page_checks_what_is_kept(kept, site):
    """A file that no start needs is repaired too, without anybody asking."""
    kept.evaluate(POISON, ["schema.json", False])
    assert kept.evaluate(KEPT, ["schema.json", False]) is False
    live(kept, f"{site}?again")
    for _ in range(30):
        if kept.evaluate(KEPT, ["schema.json", False]):
            break
        kept.wait_for_timeout(1000)
    assert kept.evaluate(KEPT, ["schema.json", False])
    assert json.loads(kept.evaluate("fetch('./schema.json').then((found) => found.text())"))
