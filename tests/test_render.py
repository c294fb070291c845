"""Pictures and markup: golden files where the picture is the product, and hostile text that stays text.

`MEMCORE_GOLDEN=write python -m pytest tests/test_render.py` renews the golden files; look at them before committing.
"""

import os
from pathlib import Path

import pytest

from memcore import Config, Problem, estimate
from memcore.config.url import decode_fragment
from memcore.errors import problems_of
from memcore.faces.page.static import colours, parts
from memcore.faces.render import html, page, svg
from memcore.faces.render.form import Values, form
from memcore.faces.render.model import layer_strip, model_html
from memcore.networks.catalog import find_model

GOLDEN = Path(__file__).parent / "golden"
TINY = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 8, "num_attention_heads": 4, "vocab_size": 1000}
CASES = {
    "example": page.EXAMPLE,
    "accumulated": {"model": "gemma-2-2b", "training": {"sequence_length": 4096, "gradient_accumulation_steps": 4},
                    "hardware": {"accelerator": "rtx-4090"}},
    "unknown": {"model": TINY, "training": {"sequence_length": 256}},
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("picture", ["bar", "timeline"])
def test_golden_pictures(case, picture):
    """The pictures of these jobs are as they were looked at."""
    drawn = svg.standalone(getattr(svg, picture)(estimate(CASES[case])))
    path = GOLDEN / f"{case}-{picture}.svg"
    if os.environ.get("MEMCORE_GOLDEN") == "write":
        path.write_text(drawn, encoding="utf-8")
    assert drawn == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("model", ["gemma-2-2b", "nvidia-nemotron-nano-9b-v2", "deepseek-v3"])
def test_golden_strips_of_layers(model):
    """The stacks of layers of an alternating, a hybrid and a sparse network are as they were looked at."""
    drawn = svg.standalone(layer_strip(find_model(model)))
    path = GOLDEN / f"strip-{model}.svg"
    if os.environ.get("MEMCORE_GOLDEN") == "write":
        path.write_text(drawn, encoding="utf-8")
    assert drawn == path.read_text(encoding="utf-8")
    assert drawn.count("<g>") == find_model(model).num_layers


def test_a_model_as_a_table():
    """Every kind of layer with its parts, every kind of parameter, and the cache."""
    shown = model_html(find_model("deepseek-v3"), ("fp8", 641 << 30))
    assert 'weights as published, in fp8</th><td class="num">641.0 GiB' in shown
    for text in ("3-60", "8 of 256 experts of 2048", "latent attention", "671,026,404,352", "routed experts", "35,136"):
        assert text in shown


HOSTILE = "\"><img src=x onerror=alert(1)><script>alert(2)</script>&amp;'{}%s"


def test_hostile_names_stay_text():
    """A model's name and its keys never become markup."""
    found = estimate({"model": {**TINY, "_name": HOSTILE}, "training": {"sequence_length": 64}})
    parts = [*html.sections(found).values(), *html.attributes(found).values()]
    assert parts
    for part in parts:
        assert "<img" not in part
        assert "<script" not in part


def test_hostile_settings_stay_text():
    """What a link or a form says is escaped where it is shown again."""
    answer = page.answer(page.Form({"model": HOSTILE, "training.sequence_length": HOSTILE}))
    assert not answer.sections
    shown = html.problems(answer.problems) + form(Values({"model": HOSTILE, "engine.framework": HOSTILE}, {}, "none"))
    assert "<img" not in shown
    assert "<script" not in shown
    assert "&lt;img" in shown


def test_the_form_is_the_schema():
    """Each setting has one control, named by its path, with a label, a hint and a place for an error."""
    from memcore.config.settings import SETTINGS

    markup = form(Values({}, {}, "fsdp"))
    for path in SETTINGS:
        assert markup.count(f'name="{path}"') == 1
        name = f"field-{path.replace('.', '-')}"
        for part in (f'for="{name}"', f'id="{name}"', f'id="{name}-hint"', f'id="{name}-error"'):
            assert markup.count(part) == 1


def test_the_form_shows_what_applies():
    """Settings of other engines are hidden, unless they have a value that must be seen to be removed."""
    hidden = 'hidden><label for="field-engine-bucket_cap_mb"'
    assert hidden in form(Values({}, {}, "fsdp"))
    assert hidden not in form(Values({}, {}, "ddp"))
    assert hidden not in form(Values({"engine.bucket_cap_mb": "10"}, {}, "fsdp"))


def test_an_answer_and_its_form_agree():
    """The page answers a form as Python answers the config, and a config fills the form that gives it back."""
    config = Config.from_dict(page.EXAMPLE)
    answer = page.answer(page.fill(config))
    assert answer.attributes["data-allocated-bytes"] == str(estimate(config).allocated.expected)
    assert page.fill(decode_fragment(answer.fragment)) == page.fill(config)
    pasted = page.fill(Config({"model": TINY}))
    assert pasted.texts["model"] == ""
    assert decode_fragment(page.answer(pasted).fragment).model == TINY


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON: line 1, column 2: the text ends before its last bracket is closed"),
        ("[]", "expected a JSON object"),
        ('{"hello": 1}', "expected a memcore config with a 'model', or a config.json with a 'model_type'"),
        (" " * 2_000_000, "longer than 1,048,576 characters"),
        ("[" * 100_000, "not JSON: nested more than 64 levels deep"),
    ],
    ids=["broken", "list", "neither", "large", "deep"],
)
def test_a_wrong_file_changes_nothing(text, message):
    """A file that is not understood is refused with a reason."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the type is checked below
        page.read_file(text, page.Form({"model": "gpt2"}))
    problems = problems_of(caught.value)
    assert isinstance(problems[0], Problem)
    assert message is None or problems[0].message == message


def test_files_replace_the_model_or_everything():
    """A config.json is the model of the form; a memcore config is the whole form."""
    form_before = page.Form({"model": "gpt2", "training.sequence_length": "512"})
    model = page.read_file('{"model_type": "gpt2"}', form_before)
    assert (model.texts, '"gpt2"' in model.pasted) == ({**form_before.texts, "model": ""}, True)
    whole = page.read_file('{"model": "gpt2", "engine": {"type": "none"}}', form_before)
    assert whole == page.Form({"model": "gpt2", "engine.type": "none"})


def test_every_category_has_its_colours():
    """Each category, the unused rest and what lies outside have a colour on light and on dark ground."""
    from memcore.memory.ledger import CATEGORIES

    assert {svg.slug(name) for name in CATEGORIES} | {"unused", "outside"} == set(svg.COLOURS)
    assert colours().count("light-dark(") == len({**svg.COLOURS, **svg.STRIP_COLOURS})


def luminance(colour):
    """Relative luminance (WCAG 2.2)."""
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.03928 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("name", [*svg.COLOURS, *svg.STRIP_COLOURS])
def test_colours_stand_out(name):
    """Each category and each kind of part has a contrast of at least 3 to 1 with its ground (WCAG 1.4.11)."""
    if name in ("unused", "strip-none"):
        return  # what is absent stays in the background
    light, dark = {**svg.COLOURS, **svg.STRIP_COLOURS}[name]
    assert 1.05 / (luminance(light) + 0.05) >= 3
    assert (luminance(dark) + 0.05) / (luminance("#14181c") + 0.05) >= 3


def test_parts_of_the_build():
    """The build gets the form, every section, attributes, colours and the schema."""
    found = parts()
    assert {
        "verdict",
        "bar",
        "legend",
        "readings",
        "timeline",
        "moments",
        "ledger",
        "assumptions",
        "model-view",
        "form",
    } <= set(found["sections"])
    assert 'data-level="tight"' in found["sections"]["verdict-attributes"]
    assert "PyTorch 2.13.0; transformers 5.23.0" in found["sections"]["rules"]
