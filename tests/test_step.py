"""The step as stretches: what the crosshair of the picture reads at any moment is what the ledger has, to the byte."""

import json
import re
from html import unescape
from itertools import pairwise

import pytest

from memcore import estimate
from memcore.config.url import decode_fragment
from memcore.faces.page.actions import handle
from memcore.faces.page.session import Session
from memcore.faces.render import page
from memcore.faces.render.page import EXAMPLE
from memcore.faces.render.step import step
from memcore.i18n.page import speaking
from memcore.memory import readings
from memcore.memory.ledger import CATEGORIES
from memcore.memory.stretches import stretches
from memcore.units import format_bytes

JOBS = {
    "lora": EXAMPLE,
    "pattern": "v1&model=gemma-2-2b&seq=2048&grad-accum=4&accelerator=rtx-4090",
    "pipeline": "v1&model=llama-3.1-8b&seq=512&engine=fsdp&pp=2&grad-accum=4&gpus=4&accelerator=h100-sxm-80gb",
    "megatron": "v1&model=llama-3.1-8b&engine=megatron&tp=2&pp=2&gpus=8&grad-accum=4&accelerator=h100-sxm-80gb",
    "deepspeed": "v1&model=llama-3.1-8b&engine=deepspeed&gpus=8&seq=2048&accelerator=h100-sxm-80gb",
    "no accelerator": "v1&model=gpt2&seq=512",
}


def answered(job):
    return estimate(decode_fragment(job) if isinstance(job, str) else job)


@pytest.mark.parametrize("job", JOBS)
def test_every_moment_has_its_tensors(job):
    """At the ends and in the middle of a run of layers, the tensors sum to what the curve shows, kind by kind."""
    ranks = answered(JOBS[job]).ranks
    checked = 0
    for rank in ranks:
        every = stretches(rank)
        assert [every[0].start, every[-1].end] == [0, 1]
        assert all(one.end == other.start for one, other in pairwise(every))
        for each in every:
            for done in {0, each.repeats // 2, each.repeats - 1}:
                steps = max(each.repeats - 1, 1)
                levels = [low + (high - low) * done // steps for low, high in zip(each.first, each.last, strict=True)]
                found = each.ledger(rank, done).by_category
                assert [found.get(name, 0) for name in CATEGORIES] == levels
                checked += 1
        assert max(max(sum(each.first), sum(each.last)) for each in every) == rank.peak.peak
    assert checked >= 10


def data_of(markup):
    """What the picture carries for the page."""
    return json.loads(unescape(re.search(r'data-step="([^"]*)"', markup)[1]))


@pytest.mark.parametrize("job", JOBS)
def test_the_picture_carries_its_numbers(job):
    """The data has every stretch, the peak is the estimate's, and it stays small."""
    found = answered(JOBS[job])
    data = data_of(step(found))
    at, done = data["peak"]
    *_, repeats, first = data["stretches"][at][:5]
    last = data["stretches"][at][-1]
    assert max(sum(first), sum(last)) == found.peak.peak
    assert done in (0, repeats - 1)
    assert data["phases"][0][1] == 0
    assert data["phases"][-1][2] == 1
    assert len(json.dumps(data)) < 20_000


def test_the_picture_in_chinese():
    """Names of moments and phases are Chinese where the page is."""
    with speaking("zh"):
        data = data_of(step(answered(EXAMPLE)))
    assert data["stretches"][0][2] == "前向传播，输入"
    assert [name for name, *_ in data["phases"]] == ["前向", "损失", "反向", "梯度裁剪", "优化器更新"]


def test_a_moment_is_asked_for():
    """A moment's largest tensors come with the key of the question; a pinned one has formulas; elsewhere is nothing."""
    session = Session()
    list(handle(session, {"do": "start", "link": "", "texts": None, "language": "en", "entry": 0}))

    def asked(**more):
        (patch,) = [patch for patch in handle(session, {"do": "moment", "key": "1:3:2:0", **more}) if patch]
        assert patch["moment"]["key"] == "1:3:2:0"
        return patch["moment"]["html"]

    brief, pinned = asked(stretch=8, done=0), asked(stretch=8, done=0, pinned=True)
    assert brief.count("<li>") == 5
    assert "mlp.down_proj.weight" in brief
    assert "log-probabilities" in brief
    assert pinned.count("<details>") == 12
    assert "log-probabilities" in pinned
    assert "Source: " in pinned
    assert " × 4 B" in pinned
    for wrong in ({"stretch": 99, "done": 0}, {"stretch": -1}, {"stretch": "<b>"}, {}):
        assert asked(**wrong) == ""
    assert asked(stretch=3, done=10**9) == asked(stretch=3, done=27)


def test_a_stage_is_shown_large():
    """Every stage has its small picture, the worst is marked; a chosen one stays chosen over edits that keep it."""
    session = Session()
    link = JOBS["pipeline"]
    shown = {}
    for patch in handle(session, {"do": "open", "link": link}):
        shown |= patch.get("html", {})
    found = answered(link)
    assert shown["stages"].count("<li>") == len(found.ranks) == 2
    assert shown["stages"].count("needs most") == 1
    other = next(number for number, rank in enumerate(found.ranks) if rank is not found.rank)
    (patch,) = [patch for patch in handle(session, {"do": "stage", "stage": other}) if patch]
    assert data_of(patch["html"]["timeline"])["rank"] == found.ranks[other].name
    assert f'data-stage="{other}" aria-pressed="true"' in patch["html"]["stages"]
    (patch,) = [patch for patch in handle(session, {"do": "moment", "key": "", "stretch": 0, "done": 0}) if patch]
    first = stretches(found.ranks[other])[0].ledger(found.ranks[other], 0).entries[0]
    assert format_bytes(first.bytes) in patch["moment"]["html"]
    shown = {}
    for patch in handle(session, {"do": "open", "link": link.replace("seq=512", "seq=1024")}):
        shown |= patch.get("html", {})
    assert data_of(shown["timeline"])["rank"] == found.ranks[other].name
    for patch in handle(session, {"do": "open", "link": "v1&model=gpt2&seq=512"}):
        shown |= patch.get("html", {})
    assert shown["stages"] == ""
    assert [patch for patch in handle(session, {"do": "stage", "stage": 5}) if patch] == []


@pytest.mark.parametrize(
    ("job", "text"),
    [
        (EXAMPLE, "99% used"),
        ("v1&model=gpt2&seq=512", ""),
        (JOBS["deepspeed"], "% used; 8 GPUs hold "),
        (JOBS["pipeline"], "% used on the fullest GPU; 4 GPUs hold "),
        ("v1&model=llama-3.1-8b&engine=vllm&gpus=2&accelerator=h100-sxm-80gb&max-len=8192", "% used; 2 GPUs hold "),
    ],
)
def test_how_full_the_gpus_are(job, text):
    """The share of the fullest GPU, and what all of them hold: the sum over every class of ranks."""
    found = answered(job)
    said = page.sections(found)["used"]
    assert text in said
    if "hold" in text and len(found.ranks) == 1:
        assert format_bytes(found.ranks[0].count * found.device.expected) in said
    if job == JOBS["pipeline"]:
        sizes = [rank.count * readings.device(rank, readings.reserved(rank)).expected for rank in found.ranks]
        assert format_bytes(sum(sizes)) in said
