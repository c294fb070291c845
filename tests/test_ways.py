"""Ways on from an answer: which job gets plans and which free room, and that each is what it says."""

import json
import re
from html import unescape

import pytest
from test_session import Visit

from memcore import estimate, plan
from memcore.config.settings import Config
from memcore.config.url import decode_fragment, encode_fragment
from memcore.faces.page.actions import handle
from memcore.faces.page.exchanging import understood
from memcore.faces.page.next_steps import KEEP
from memcore.faces.render.page import Form
from memcore.questions.concurrency import concurrencies
from memcore.questions.headroom import headroom
from memcore.questions.planning.plan import plan_by_piece

pytestmark = pytest.mark.machine  # the same Python in Pyodide, where it takes minutes

ON_24 = "accelerator=rtx-4090&gpus=1"
JOBS = {
    "LoRA": f"v1&model=llama-3.1-8b&seq=4096&adapter=lora&checkpointing=full&{ON_24}",
    "a step": f"v1&model=llama-2-7b-hf&seq=2048&{ON_24}",
    "nodes": "v1&model=llama-3.1-70b&seq=4096&accelerator=h100-sxm-80gb&gpus=8",
    "a server": "v1&model=llama-3.1-70b&engine=vllm&max-len=8192&accelerator=rtx-4090&gpus=2",
    "layers on the host": f"v1&model=llama-3.1-70b&engine=llama.cpp&max-len=8192&{ON_24}",
}
ROOM = {
    "a step": ("v1&model=llama-3.1-8b&seq=8192&checkpointing=full&engine=fsdp&accelerator=h100-sxm-80gb&gpus=8", 4),
    "a server": ("v1&model=qwen2.5-32b&engine=vllm&tp=2&max-len=8192&accelerator=h100-sxm-80gb&gpus=2", 2),
}


def visited(link, language="en"):
    """A visit that has opened a link and been told the ways on."""
    return Visit(f"#{link}", language).do("ways")


def jobs(markup):
    """The plans of the cards, as fragments by the bytes that each card says."""
    found = re.findall(r'data-device-bytes="(\d+)".*?data-job="([^"]+)"', markup)
    return [(int(size), unescape(job)) for size, job in found]


@pytest.mark.parametrize("link", JOBS.values(), ids=JOBS)
def test_a_card_is_a_plan(link):
    """The cards are the planner's first plans; each exported and estimated on its own gives the bytes it says."""
    visit = visited(link)
    plans = [each for each in plan(decode_fragment(link), keep=KEEP).plans if each.moves]
    if visit.last("attributes")["data-level"] == "tight":  # it fits as expected: only what is sure to fit helps
        plans = [each for each in plans if each.safe]
    cards = jobs(visit.html["ways"])
    assert plans
    assert [job for _, job in cards] == [encode_fragment(each.config) for each in plans]
    assert visit.html["ways"].count("<li ") == len(plans)
    for (size, job), each in zip(cards, plans, strict=True):
        assert estimate(decode_fragment(job)).device == each.found.device
        assert each.found.device.expected == size
        visit.do("export", kind="json", way="copy", job=job, base="https://example.org/")
        exported = json.loads(visit.last("copy"))
        assert estimate(exported["config"]).device == each.found.device
        visit.do("export", kind="markdown", way="copy", job=job, base="https://example.org/")
        assert f"#{job})" in visit.last("copy")
        form, _ = understood(json.dumps(exported), Form({}))
        visit.do("adopt", job=job, said=each.moves[0], entry=2)
        assert visit.session.form == form
        assert visit.last("attributes")["data-device-bytes"] == str(size)
        # Every patch says so; the later ones have this job's own plans.
        used = next(patch["html"] for patch in handle(visit.session, {"do": "ways"}) if "html" in patch)["ways-used"]
        assert used.startswith(f"You use: {each.moves[0].replace(chr(39), '&#x27;')}.")


@pytest.mark.parametrize(("link", "least"), ROOM.values(), ids=ROOM)
def test_free_room_fits(link, least):
    """Every value on offer is more than now, or fewer GPUs, and fits even at the upper end of its range."""
    config = decode_fragment(link)
    found = [each for each in headroom(config, estimate(config)) if each is not None]
    assert len(found) >= least
    for each in found:
        assert estimate(config.replaced(each.path, each.value)).device == each.found.device
        assert each.found.fits
        assert each.found.certain
    assert visited(link).html["ways"].count("<button") == len(found)


SERVERS = {
    "vllm": "v1&model=llama-3.1-8b&engine=vllm&max-len=8192&accelerator=h100-sxm-80gb",
    "ranks": "v1&model=qwen2.5-32b&engine=vllm&tp=2&max-len=8192&accelerator=h100-sxm-80gb&gpus=2",
    "sglang": "v1&model=llama-3.1-8b&engine=sglang&max-len=8000&accelerator=rtx-4090",
    "tensorrt": "v1&model=llama-3.1-8b&engine=tensorrt-llm&max-len=8192&batch=3&accelerator=h100-sxm-80gb",
}


@pytest.mark.parametrize("link", SERVERS.values(), ids=SERVERS)
def test_a_cell_is_an_estimate(link):
    """On both sides of every boundary a server estimated on its own says the same."""
    config = decode_fragment(link)
    every = list(concurrencies(config, estimate(config)))
    assert len(every) > 5
    assert any(each.full for each in every)
    for each in every:
        assert each.full <= each.usual
        for count in {1, each.full or 1, each.full + 1}:
            asked = config.changed({"inference.max_model_len": each.length, "inference.batch_size": count})
            assert estimate(asked).fits is (count <= each.full), (each, count)


def test_a_cell_asks_for_what_it_shows():
    """The map is a server's alone; the asked cell is marked, and another one sets users and length."""
    visit = visited(SERVERS["vllm"])
    assert not visit.last("hidden")["crowd-part"]
    assert visit.html["crowd"].count('aria-pressed="true"') == 1
    assert 'aria-label="1 × 8,192 tokens: fit" aria-pressed="true"' in visit.html["crowd"]
    first, *_ = visit.html["crowd"].split("<tbody>")[1].split("</tr>")
    assert 'class="waits"' in first  # the most users are some that one length takes
    visit.do("crowd", users="64", length="4096", entry=2)
    assert (visit.texts["inference.batch_size"], visit.texts["inference.max_model_len"]) == ("64", "4096")
    assert visit.last("attributes")["data-fits"] == "true"
    assert visited(JOBS["a step"]).last("hidden")["crowd-part"]
    assert visited("v1&model=llama-3.1-8b&engine=llama.cpp&accelerator=t4").last("hidden")["crowd-part"]


def test_lengths_end_where_the_model_does():
    """No sequence is longer than the positions that the model was made for."""
    config = decode_fragment("v1&model=gpt2&seq=512&accelerator=h100-sxm-80gb")
    lengths = [
        each.value for each in headroom(config, estimate(config)) if each and each.path.endswith("sequence_length")
    ]
    assert lengths == [1024]


def test_each_verdict_has_its_way():
    """No capacity and no room are said; there is always a plan, on as much hardware as it takes."""
    visit = visited("v1&model=gpt2&seq=512")
    assert visit.last("hidden")["ways-part"]
    visit = visited("v1&model=kimi-k2-base&seq=4096&engine=none&accelerator=t4&gpus=1")
    assert "B300" in visit.html["ways"]
    visit = visited("v1&model=llama-3.1-405b&seq=4096&accelerator=t4&gpus=1")
    assert visit.html["ways-heading"] == "Fits only with a smaller job or more hardware"
    assert jobs(visit.html["ways"])
    assert "Limited by: each GPU has 14.6 GiB" in visit.html["ways"]
    visit = visited("v1&model=llama-3.1-405b&seq=4096&accelerator=t4&gpus=1", "zh")
    assert "受限于：每块 GPU 有 14.6 GiB" in visit.html["ways"]


def test_an_edit_ends_the_search():
    """Nothing more is said of a job once another is asked about, and what was found is known again."""
    visit = visited(JOBS["a step"])
    known = visit.html["ways"]
    assert len(visit.session.ways) == 1
    visit.do("set", path="training.sequence_length", value="1024", entry=2)
    search = handle(visit.session, {"do": "ways"})
    next(search)
    visit.do("set", path="training.sequence_length", value="2048", entry=3)
    assert all("ways" not in patch.get("html", {}) for patch in list(search)[1:])
    patches = list(handle(visit.session, {"do": "ways"}))
    assert [patch["html"]["ways"] for patch in patches if "html" in patch] == [known]


def test_the_first_plans_stay():
    """What is shown while more is looked for is the beginning of what is found in the end."""
    pieces = list(plan_by_piece(Config.from_dict(decode_fragment(JOBS["nodes"]).to_dict()), keep=KEEP))
    early = [each.plans for each in pieces[:-1] if each is not None and each.plans]
    assert early
    assert None in pieces
    last = [each.config for each in pieces[-1].plans]
    for plans in early:
        assert [each.config for each in plans] == last[: len(plans)]
