"""The documentation in dist/docs/: no dead link, nothing from elsewhere, a search without a server, accessible."""

import html
import json
import re
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest
from chromium import CHROMIUM

from memcore import estimate
from memcore.config.url import decode_fragment
from memcore.units import format_bytes

pytestmark = pytest.mark.machine
NO_BROWSER = "no Chromium on this machine: the tests of the documentation in a browser are skipped"


class Page(HTMLParser):
    """The links, the resources and the anchors of a page."""

    def __init__(self):
        super().__init__()
        self.links, self.loaded, self.anchors = [], [], set()

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.anchors |= {found[name] for name in ("id", "name") if found.get(name)}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif found.get("rel") not in {"canonical", "prev", "next"}:
            self.loaded += [found[name] for name in ("src", "href", "data-src") if found.get(name)]


@pytest.fixture(scope="module")
def pages(dist):
    """Every page, read, by its path."""
    found = {}
    for path in sorted((dist / "docs").rglob("*.html")):
        found[path] = Page()
        found[path].feed(path.read_text(encoding="utf-8"))
    assert len(found) > 10
    return found


def test_no_link_is_dead(dist, pages):
    """Links within the site lead to a file and, where they name one, to an anchor on it."""
    dead, seen = [], 0
    for path, page in pages.items():
        for link in [*page.links, *page.loaded]:
            split = urlsplit(link)
            if split.scheme:
                continue
            target = (path.parent / unquote(split.path)).resolve() if split.path else path
            anchors = pages[target].anchors if target in pages and split.fragment else {unquote(split.fragment)}
            if dist not in target.parents or not target.is_file() or unquote(split.fragment) not in anchors:
                dead.append((path.name, link))
            seen += 1
    assert seen > 500
    assert dead == []


def test_nothing_comes_from_elsewhere(dist, pages):
    """Pages load their own files alone; scripts and styles name no content delivery network."""
    loaded = [link for page in pages.values() for link in page.loaded]
    assert len(loaded) > 50
    assert [link for link in loaded if urlsplit(link).netloc] == []
    code = [path for path in (dist / "docs").rglob("*") if path.suffix in {".js", ".css"}]
    assert len(code) > 4
    hosts = re.compile(r"unpkg\.com|jsdelivr|cdnjs|googleapis|gstatic")
    assert [path.name for path in code if hosts.search(path.read_text(encoding="utf-8"))] == []


def test_every_source_is_a_page(pages):
    """Each Markdown file of docs/ that readers need has its page, and each page a title of its own."""
    names = {path.stem for path in pages}
    assert names >= {
        "index",
        "start",
        "tutorials",
        "concepts",
        "how-to",
        "reference",
        "cli",
        "accuracy",
        "faq",
        "changelog",
    }
    assert {path.stem for path in pages if path.parent.name == "zh"} == {"index", *CHAPTERS}
    titles = [re.search(r"<title>(.*?)</title>", path.read_text(encoding="utf-8"))[1] for path in pages]
    assert len(set(titles)) == len(titles) > 10


@pytest.fixture(scope="session")
def browser_type_launch_args():
    """The machine's own Chromium."""
    if CHROMIUM is None:
        pytest.skip(NO_BROWSER)
    return {"executable_path": CHROMIUM, "args": ["--no-sandbox"]}


@pytest.fixture(scope="module")
def offline(dist, browser):
    """A page without a server and without a network; requests for anything but files end the test."""
    foreign = []
    context = browser.new_context(offline=True, viewport={"width": 1280, "height": 800}, bypass_csp=True)
    context.on(
        "request", lambda each: None if each.url.startswith(("file:", "data:", "blob:")) else foreign.append(each.url)
    )
    yield context.new_page(), (dist / "docs").as_uri()
    context.close()
    assert foreign == []


@pytest.mark.parametrize(("words", "title"), [("expandable segments", "Reference"), ("search more cores", "How to")])
def test_search_without_a_server(offline, words, title):
    """A page that is opened as a file searches the whole site."""
    from playwright.sync_api import expect

    page, address = offline
    page.goto(f"{address}/index.html")
    page.get_by_role("textbox", name="Search").click()
    page.keyboard.type(words)
    expect(page.locator(".md-search-result__item h1").filter(has_text=title).first).to_be_attached(timeout=30_000)


@pytest.mark.parametrize(
    ("scheme", "names"), [("light", ("index", "tutorials", "guide/sharding")), ("dark", ("start", "guide/zh/loss"))]
)
def test_the_documentation_is_accessible(offline, scheme, names):
    """Axe finds nothing of weight on a page of each kind, and a phone scrolls no page sideways."""
    from axe_playwright_python.sync_playwright import Axe

    page, address = offline
    page.emulate_media(color_scheme=scheme)
    found = {}
    for name in names:
        page.goto(f"{address}/{name}.html")
        options = {"runOnly": ["wcag2a", "wcag2aa", "wcag21aa"], "resultTypes": ["violations"]}
        for each in Axe().run(page, options=options).response["violations"]:
            found[name, each["id"]] = [node["html"][:150] for node in each["nodes"][:3]]
        page.set_viewport_size({"width": 360, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, name
        page.set_viewport_size({"width": 1280, "height": 800})
    assert found == {}


CHAPTERS = ("weights", "activations", "loss", "sharding", "parallelism", "allocator", "adapters", "serving")


def frames_of(page):
    """What a chapter's picture shows, by the stops of its slider."""
    found = re.findall(r'data-frames="([^"]*)"', page.read_text(encoding="utf-8"))
    assert len(found) == 1
    return json.loads(html.unescape(found[0]))


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_is_the_same_in_both_languages(dist, chapter):
    """Both have the picture with the same numbers, and as many paragraphs and links to rules."""
    english, chinese = (dist / "docs" / "guide" / folder / f"{chapter}.html" for folder in (".", "zh"))
    one, other = frames_of(english), frames_of(chinese)
    assert len(one) == len(other) > 3
    numbers = [[[row["widths"], row["total"]] for row in frame["rows"]] for frame in one]
    assert numbers == [[[row["widths"], row["total"]] for row in frame["rows"]] for frame in other]
    texts = [path.read_text(encoding="utf-8") for path in (english, chinese)]
    assert '<html lang="zh-Hans"' in texts[1]
    for part in ("<strong>", "reference.html#rule-"):
        assert texts[0].count(part) == texts[1].count(part)
    assert texts[0].count("reference.html#rule-") or chapter == "serving"


@pytest.mark.parametrize("chapter", [each for each in CHAPTERS if each not in {"weights", "allocator"}])
def test_pictures_show_what_their_links_open(dist, chapter):
    """Each bar is the peak of the job that its name opens, at the first and the last stop."""
    frames = frames_of(dist / "docs" / "guide" / f"{chapter}.html")
    rows = [*frames[0]["rows"], *frames[-1]["rows"]]
    assert len(rows) >= 6
    for row in rows:
        path, _, fragment = row["link"].partition("#")
        assert (dist / "docs" / "guide" / path).resolve() == dist / "index.html"
        assert row["total"] == format_bytes(estimate(decode_fragment(fragment)).ledger.total)


def test_the_weights_take_what_the_text_says(dist):
    """Sixteen bytes for each parameter in fp32 with AdamW, eight in bf16, four with SGD."""
    fragments = [
        row["link"].partition("#")[2] for row in frames_of(dist / "docs" / "guide" / "weights.html")[0]["rows"]
    ]
    found = [estimate(decode_fragment(each)) for each in fragments]
    kept = ("parameters", "gradients", "optimizer states")
    each = [sum(one.ledger.by_category.get(name, 0) for name in kept) / one.job.model.parameters for one in found]
    assert [round(size) for size in (each[0], each[1], each[3])] == [16, 8, 4]


def test_a_picture_is_pulled(offline):
    """The slider redraws bars, totals and links, by keyboard, without a server."""
    page, address = offline
    page.goto(f"{address}/guide/activations.html")
    total, link = page.locator(".memory-row output").first, page.locator(".memory-row a").first
    before = total.inner_text(), link.get_attribute("href")
    page.get_by_label("Sequence length").press("ArrowRight")
    assert page.locator(".memory label output").inner_text() == "8,192 tokens"
    assert before[0] != total.inner_text()
    assert before[1] != link.get_attribute("href")
