"""What people come for, each within four actions from the example, by what is visible alone: roles and names.

With a pointer, by the keyboard alone, and with a finger on a phone in Chinese; whatever way is taken, the job is the same.
"""

import re

import pytest
from browser import expect, live, visitor

from memcore import estimate
from memcore.config.settings import SETTINGS
from memcore.config.url import decode_fragment
from memcore.i18n.page import label, say, speaking, translated

pytestmark = pytest.mark.machine

MOST = 4
"""Actions for each task."""
BEGIN = "if (location.hash) { delete document.documentElement.dataset.answer; location.hash = ''; }"
"""Goes to the example, and takes away the mark of an answer, so that nobody takes the answer before for the one to come."""


class Pointer:
    """A mouse, or a finger: each click counts, and each text that is typed."""

    def __init__(self, page):
        self.page, self.count = page, 0

    def ask(self, name, text):
        """Type a text into a field and finish it with Enter."""
        field = self.page.get_by_role("combobox", name=name, exact=True)
        field.fill(text)
        field.press("Enter")
        self.count += 2

    def press(self, name):
        """Press a button."""
        self.page.get_by_role("button", name=name).first.click()
        self.count += 1


class Keyboard(Pointer):
    """No pointer: Tab until the place is reached, which counts once with what is done there."""

    def ask(self, name, text):
        self._reach(self.page.get_by_role("combobox", name=name, exact=True))
        self.page.keyboard.press("Control+A")
        self.page.keyboard.type(text)
        self.page.keyboard.press("Enter")
        self.count += 2

    def press(self, name):
        self._reach(self.page.get_by_role("button", name=name))
        self.page.keyboard.press("Enter")
        self.count += 1

    def _reach(self, wanted):
        expect(wanted.first).to_be_visible()
        for _ in range(120):
            if wanted.first.evaluate("(each) => each === document.activeElement"):
                return
            self.page.keyboard.press("Tab")
        raise AssertionError(f"Tab does not reach {wanted}")


VISITS = {
    "pointer": (Pointer, {"viewport": {"width": 1280, "height": 800}}, "en"),
    "keyboard": (Keyboard, {"viewport": {"width": 1280, "height": 800}}, "en"),
    "phone": (Pointer, {"viewport": {"width": 390, "height": 844}, "has_touch": True, "locale": "zh-CN"}, "zh"),
}


@pytest.fixture(scope="module", params=VISITS)
def visit(request, browser, site):
    """A page that all tasks share, and who uses it."""
    kind, options, language = VISITS[request.param]
    context = visitor(browser, **options)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = live(context.new_page(), site)
    with speaking(language):
        yield kind, page, language
    context.close()


@pytest.fixture
def hands(visit):
    """The page as it opens, with nothing counted."""
    kind, page, language = visit
    page.keyboard.press("Escape")
    page.evaluate(BEGIN)
    expect(page.get_by_role("combobox", name=label("model", "Model"), exact=True)).to_have_value("Llama 3.1 8B")
    expect(page.locator("html")).to_have_attribute("data-answer", "whole")
    page.evaluate("document.activeElement.blur()")
    with speaking(language):
        found = kind(page)
        yield found
        assert 0 < found.count <= MOST


MODEL, GPU = "model", "hardware.accelerator"


def named(path):
    return label(path, SETTINGS[path].label)


def test_the_largest_batch(hands):
    """LoRA of Qwen3 8B on a 3090: asked in one sentence, or field by field, it is the same job with the same answer."""
    page, ways = hands.page, []
    for texts in ({MODEL: "LoRA Qwen3 8B on a 3090"}, {MODEL: "qwen3 8b", GPU: "3090"}):
        page.evaluate(BEGIN)
        expect(page.locator("html")).to_have_attribute("data-answer", "whole")
        expect(page.get_by_role("combobox", name=named(MODEL), exact=True)).to_have_value("Llama 3.1 8B")
        for path, text in texts.items():
            hands.ask(named(path), text)
        expect(page).to_have_url(re.compile("model=qwen3-8b.*accelerator=rtx-3090"))
        ways.append(estimate(decode_fragment(page.url)).device)
        if len(texts) == 1:
            hands.press(say("max-of", name=named("training.micro_batch_size")))
            expect(page.locator("#field-training-micro_batch_size-note")).not_to_be_empty()
            one, hands.count = hands.count, 0
    assert one <= MOST
    assert ways[0] == ways[1]


def test_a_server_for_twenty(hands):
    """A 70B model for 20 users of 8k tokens on two H100: the page takes the usual board, and offers the others."""
    page = hands.page
    sentence = {
        "en": "serve Llama 3.1 70B to 20 users of 8k on 2 x H100",
        "zh": "用 2 张 H100 部署 Llama 3.1 70B，20 个用户，8k token",
    }
    chinese = say("close") != "Close"
    hands.ask(named(MODEL), sentence["zh" if chinese else "en"])
    expect(page.get_by_role("button", name="H100 PCIe · 80 GB").first).to_be_visible()
    expect(page).to_have_url(re.compile("accelerator=h100-sxm-80gb&gpus=2"))
    values = decode_fragment(page.url).values
    assert (values["inference.batch_size"], values["inference.max_model_len"]) == (20, 8192)
    expect(page.locator("#verdict")).to_contain_text("8,192")
    expect(page.locator("#verdict")).to_have_attribute("data-fits", "false")


def test_why_it_peaks_there(hands):
    """The verdict says when and of what; the part explains itself, with its largest tensors and where that is written."""
    page = hands.page
    expect(page.locator("#verdict-reason")).to_contain_text(translated("parameters"))
    hands.press(re.compile(rf"^{translated('logits and loss')} \d"))
    expect(page.get_by_role("heading", name=translated("logits and loss"))).to_be_visible()


def test_what_to_change(hands):
    """Plans that fit stand below the verdict, and one press takes one."""
    page = hands.page
    use = say("ways-of", action=say("ways-use"), what="")
    hands.press(re.compile(f"^{use.strip()}"))
    expect(page.locator("#verdict")).to_have_attribute("data-fits", "true")


def test_the_file_for_a_tool(hands):
    """The file of axolotl is copied, and says the model and the method."""
    page = hands.page
    hands.press(re.compile(f"^{say('export')}$"))
    hands.press(re.compile(f"^{say('export-copy')} axolotl$"))
    expect(page.locator("#notice")).to_have_text(say("export-copied"))
    copied = page.evaluate("navigator.clipboard.readText()")
    assert 'base_model: "meta-llama/Llama-3.1-8B"' in copied
    assert 'adapter: "lora"' in copied
