"""Faces of a server's estimate: text, JSON, HTML and pictures, on the command line and on the page."""

import json
import xml.etree.ElementTree as ET

import pytest
from test_cli import memcore
from test_serving_servers import serve

from memcore import Config
from memcore.config.settings import SETTINGS
from memcore.config.url import decode_fragment
from memcore.faces.render import page
from memcore.faces.render.form import Values, form, is_shown
from memcore.faces.render.serving_data import serving_explanation_data, serving_summary_data
from memcore.faces.render.serving_html import serving_attributes, serving_stages
from memcore.faces.render.serving_svg import CLASSES, serving_bar, users_chart
from memcore.faces.render.serving_text import serving_explanation, serving_summary
from memcore.faces.render.svg import COLOURS, slug
from memcore.questions.describe_serving import answers, serving_verdict
from memcore.serving.entries import CATEGORIES

FOUND = [
    serve(version="0.19.0", inference={"sleep_level": 1}),
    serve("gpt-oss-20b"),
    serve("llama-3.1-70b"),
    serve("qwen3-next-80b-a3b-instruct", parallelism={"tensor_parallel_size": 4}),
    serve(engine="sglang"),
    serve(engine="tensorrt-llm"),
    serve("phi-2", engine="transformers", inference={"prompt_length": 512}, hardware={"accelerator": "t4"}),
    serve(engine="llama.cpp", inference={"max_model_len": 4096}, hardware={"accelerator": "rtx-4090"}),
    serve(hardware={}),
]
NAMES = [f"{each.job.server.name}-{number}" for number, each in enumerate(FOUND)]


@pytest.mark.parametrize("found", FOUND, ids=NAMES)
def test_text_and_data(found):
    """Every face is made for every server, and its parts add up to its total."""
    text, data = serving_summary(found), json.loads(json.dumps(serving_summary_data(found)))
    assert serving_verdict(found).headline in text
    assert data["device_bytes"] == sum(data["breakdown"].values()) == sum(data["parts"].values())
    explained = serving_explanation_data(found)
    assert sum(each["bytes"] for each in explained["entries"]) == explained["bytes"] == found.ledger.total
    assert all(each["source"] for each in explained["entries"])
    assert "source:" in serving_explanation(found)
    assert data["readings"]["device"]["low_bytes"] <= data["device_bytes"] <= data["readings"]["device"]["high_bytes"]


@pytest.mark.parametrize("found", FOUND, ids=NAMES)
def test_pages(found):
    """Every part of the page is well formed, and pictures say in words what they show."""
    for name, markup in (each for stage in serving_stages(found) for each in stage.items()):
        whole = markup.replace("&nbsp;", " ").replace("<br>", "<br/>")
        assert ET.fromstring(f"<div>{whole}</div>") is not None, name
    bar = ET.fromstring(serving_bar(found))
    assert len(bar.findall(".//{http://www.w3.org/2000/svg}desc")) == 1
    assert set(serving_attributes(found)) >= {"data-fits", "data-level", "data-device-bytes"}


def test_the_chart_of_users():
    """One point for each length, as high as users fit."""
    picture = ET.fromstring(users_chart(FOUND[0]))
    circles = picture.findall("{http://www.w3.org/2000/svg}circle")
    heights = [float(each.get("cy")) for each in circles]
    assert len(circles) == 10
    assert heights == sorted(heights)
    assert users_chart(FOUND[-1]) == ""


def test_categories_have_colours():
    """Each category borrows the colour of a training category, and no two the same."""
    assert set(CLASSES) == set(CATEGORIES)
    assert len(set(CLASSES.values())) == len(CLASSES)
    assert {slug(each) for each in CLASSES.values()} <= set(COLOURS)


def test_verdicts_in_words():
    """Sentences for what fits, what does not, and what nobody can know."""
    assert serving_verdict(FOUND[0]).headline.startswith("Fits a sequence of 131,072 tokens: ")
    assert serving_verdict(FOUND[2]).headline.startswith("Does not fit a sequence of 131,072 tokens: ")
    assert serving_verdict(FOUND[-1]).headline.endswith("Name an accelerator to see whether that fits.")
    assert "the cache takes 0 B" not in serving_verdict(FOUND[-1]).reason
    assert {each.key for each in answers(FOUND[0])} == {
        "longest_context",
        "users_at_longest",
        "users_at_mean",
        "fewest_gpus",
        "largest_format",
        "gpu_memory_utilization",
        "tokens_per_second",
        "first_token_seconds",
    }


@pytest.mark.machine
def test_the_command_line():
    """`estimate` answers, with 1 where it does not fit; `explain` lists entries; `gpus` counts; presets have names."""
    arguments = ("--model", "llama-3.1-8b", "--engine", "vllm", "--accelerator", "h100-sxm-80gb", "--max-len", "8k")
    status, text, _ = memcore("estimate", *arguments)
    assert status == 0
    for heading in ("On the GPU", "Readings", "Answers", "Users by context length", "Assumed"):
        assert f"\n{heading}\n" in text
    assert json.loads(memcore("estimate", *arguments, "--json")[1])["task"] == "inference"
    assert memcore("estimate", "--model", "llama-3.1-70b", *arguments[2:])[0] == 1
    assert "source: " in memcore("explain", *arguments)[1]
    assert memcore("explain", *arguments, "--at", "loss")[0] == 2
    assert json.loads(memcore("explain", *arguments, "--json")[1])["task"] == "inference"
    assert "h100-sxm-80gb" in memcore("gpus", *arguments)[1]
    assert json.loads(memcore("gpus", *arguments, "--json")[1])[0]["gpus"] is not None
    assert memcore("gpus", "--model", "gpt2")[0] == 0  # of training jobs too
    assert "phi-2" in memcore("estimate", "single-gpu-inference")[1]


def test_links_of_servers():
    """A config of a server survives a link, its version, draft and flags too."""
    config = FOUND[0].job.config.replaced("inference.draft_model", "llama-3.2-1b")
    answer = page.answer_config(config)
    assert decode_fragment(answer.fragment) == config
    assert page.answer(page.fill(config)).attributes["data-phase"] == "serving"


def test_the_form_of_a_server():
    """Fields of training are hidden, and what they hold waits; fields of other servers are hidden too."""
    config = Config.from_dict({"model": "gpt2", "engine": {"type": "vllm"}})
    filled = page.fill(config)
    waiting = page.Form({**filled.texts, "training.sequence_length": "512"})
    assert page.answer(waiting).problems == ()
    assert not is_shown("training.sequence_length", "vllm", "512")
    assert is_shown("inference.max_num_seqs", "vllm", "")
    assert not is_shown("engine.mem_fraction_static", "vllm", "")
    assert not is_shown("inference.batch_size", "fsdp", "")
    markup = form(Values(filled.texts, {}, "vllm"))
    assert 'id="group-Training" open hidden>' in markup
    assert 'id="group-Inference" open>' in markup
    assert all(f'name="{path}"' in markup for path in SETTINGS)


def test_a_link_without_a_server():
    """What is said about inference alone is vLLM's."""
    config = Config.from_dict({"model": "gpt2", "inference": {"batch_size": 2}})
    assert page.fill(config).texts["engine.type"] == "vllm"
