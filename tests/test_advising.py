"""Advice: real estimates on both sides, words of the tool that runs the job, and reasons for what saves nothing."""

from itertools import pairwise

import pytest

from memcore import advise, estimate
from memcore.config.hardware import Hardware
from memcore.faces.cli import main
from memcore.faces.render.advice import advice_data, advice_html, advice_text
from memcore.networks.catalog import find_model
from memcore.questions.advising.changes import CHANGES
from memcore.questions.advising.native import DIALECTS
from memcore.questions.costs import cost, cost_of
from memcore.questions.dividing import Plan
from memcore.questions.roofline import roofline_of
from memcore.questions.work import work_of
from memcore.trace.changes import KINDS, RISKS

pytestmark = pytest.mark.machine  # the same Python in Pyodide, where it takes minutes

LARGE = {
    "model": "llama-3.1-70b",
    "training": {"sequence_length": 32768, "implementation": "torchtitan"},
    "hardware": {"num_gpus": 64, "accelerator": "h100-sxm-80gb"},
}
SMALL = {
    "model": "llama-3.2-1b",
    "training": {"sequence_length": 8192},
    "hardware": {"accelerator": "rtx-4090"},
}
REPLICATED = {
    "model": "gpt2",
    "training": {"sequence_length": 1024, "micro_batch_size": 4},
    "engine": {"type": "ddp"},
    "hardware": {"num_gpus": 8, "accelerator": "t4"},
}
RECOMPUTING = {
    "model": "llama-3.1-8b",
    "training": {"sequence_length": 8192},
    "engine": {"type": "megatron"},
    "parallelism": {"tensor_parallel_size": 2},
    "hardware": {"num_gpus": 8, "accelerator": "h100-sxm-80gb"},
}
ZERO = {
    "model": "llama-3.2-1b",
    "training": {"sequence_length": 4096},
    "engine": {"type": "deepspeed", "zero_stage": 1},
    "hardware": {"num_gpus": 4, "accelerator": "l40s"},
}
JOBS = {"megatron": RECOMPUTING, "deepspeed": ZERO, "large": LARGE, "small": SMALL, "replicated": REPLICATED}


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
def test_savings_are_those_of_real_estimates(job):
    """What is said to be saved is the difference of two estimates, and the changed config is one that works."""
    now = estimate(job)
    advice = advise(job).advice
    assert advice
    for each in advice:
        then = estimate(each.config)
        assert each.saving == now.allocated.expected - then.allocated.expected
        assert each.flags
        assert each.kind in KINDS
        assert (each.because is None) == (each.saves > 0)
        if each.fits is not None:
            assert each.fits == then.fits


def test_a_layer_that_is_not_kept_is_not_there():
    """Of a 70B model at 32k tokens, full checkpointing keeps each layer's input: 80 × 32768 × 8192 × 2 bytes = 40 GiB."""
    found = {each.title: each for each in advise(LARGE).advice}
    full = found["Full activation checkpointing"]
    assert full.after.allocated.expected > 40 * 2**30 > full.after.allocated.expected / 3
    assert full.flags == ("--activation_checkpoint.mode full",)
    assert "+26% FLOPs" in full.reason, "each layer ends before its last product"
    assert 0.23 < full.slowdown < 0.26, "the optimizer and the backward pass of attention take what they took"


def test_the_best_comes_first():
    """Savings over slowdown fall; what risks precision, or takes another job, comes after; then what saves nothing."""
    order = [(each.saves > 0, each.kind not in RISKS) for each in advise(LARGE).advice]
    assert order == sorted(order, reverse=True)


def test_what_saves_nothing_says_why():
    """The peak is in the loss, where no gradient is reduced."""
    found = {each.title: each for each in advise(LARGE).useless}
    why = found["Reduce gradients in bf16"].because
    assert "no effect at the peak (gradient of the loss" in why
    assert "backward pass falls from" in why


def test_the_ladder_climbs_until_it_fits():
    """Each rung is measured from the one before, and the last one fits."""
    rungs = advise(LARGE, ladder=True).ladder
    assert rungs[-1].after.fits
    for below, above in pairwise(rungs):
        assert above.before is below.after
        assert not below.after.fits


def test_nothing_is_offered_that_the_engine_lacks():
    """DDP has no shards, torchtitan no adapters, and what is on already is not offered."""
    assert not [each for each in advise(REPLICATED).advice if "engine.cpu_offload" in each.changes]
    assert not [each for each in advise(LARGE).advice if "training.adapter.type" in each.changes]
    checkpointed = {**SMALL, "training": {"sequence_length": 8192, "activation_checkpointing": "full"}}
    assert not [each for each in advise(checkpointed).advice if each.kind == "compute"]


def served(engine, **more):
    """A server of a 70B model on two GPUs, which hardly has room for a cache."""
    config = {
        "model": "llama-3.1-70b",
        "engine": {"type": engine},
        "inference": {"max_model_len": 32768, "max_num_seqs": 64},
        "parallelism": {"tensor_parallel_size": 2},
        "hardware": {"accelerator": "h100-sxm-80gb", "num_gpus": 2},
    }
    return config | more


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
def test_advice_for_servers(engine):
    """Each change is an estimate of its own; what saves comes first, in the server's words."""
    found = advise(served(engine))
    for each in found.advice:
        then = estimate(each.config)
        assert each.saves == then.headroom - found.estimate.headroom
        assert each.fits == then.fits
        assert each.flags
        assert (each.because is None) == (each.saves > 0)
    order = [(each.saves > 0, each.kind not in RISKS) for each in found.advice]
    assert order == sorted(order, reverse=True)
    titles = {each.title: each for each in found.advice}
    halved = titles["Weights in fp8"]
    assert halved.slowdown < -0.4
    assert 24 * 2**30 < halved.saves < 36 * 2**30
    assert titles["Twice the GPUs, each matrix split over them"].config[Hardware.num_gpus] == 4


def test_the_ladder_of_a_server():
    """Its rungs are climbed until the server takes what is asked."""
    config = served("vllm", inference={"max_model_len": 131072, "max_num_seqs": 8})
    rungs = advise(config, ladder=True).ladder
    assert rungs[-1].after.fits
    for below, above in pairwise(rungs):
        assert above.before is below.after
        assert not below.after.fits


@pytest.mark.parametrize(
    ("engine", "title"), [("transformers", "Weights in NF4"), ("llama.cpp", "KV cache in q8_0")], ids=str
)
def test_servers_on_one_gpu(engine, title, capsys):
    """Their caches grow with what is asked; every face says the same."""
    config = {
        "model": "llama-3.1-8b",
        "engine": {"type": engine},
        "inference": {"max_model_len": 8192},
        "hardware": {"accelerator": "rtx-3090", "num_gpus": 1},
    }
    found = advise(config)
    assert title in {each.title for each in found.saving}
    assert title in advice_text(found)
    assert advice_html(found).count("<tr data-class") == len(found.advice)
    flags = ["--engine", engine, "--max-len", "8192", "--accelerator", "rtx-3090", "--csv"]
    assert main(["advise", "--model", "llama-3.1-8b", *flags]) == 0
    assert title in capsys.readouterr().out


def test_every_row_has_words():
    """Each change is spelled by at least one tool."""
    for row in CHANGES:
        for path in row.to or ():
            assert any(path in words for words in DIALECTS.values()), path
    assert any(row.to for row in CHANGES)


def test_work_by_hand():
    """Llama 3.1 8B at 8192 tokens: 2 operations for each parameter but the embedding, and half of all scores twice."""
    work = work_of(find_model("llama-3.1-8b"), 8192)
    assert work.products == 2 * (8030261248 - 128256 * 4096) * 8192
    assert work.attention == 32 * 2 * 8192 * 8192 * 32 * 128
    assert work.keys == 32 * 2 * 8 * 128


def test_cost_by_hand():
    """One GPU computes three forward passes; two GPUs that shard gather twice and reduce once."""
    work, roofline = work_of(find_model("llama-3.1-8b"), 8192), roofline_of("h100-sxm-80gb")
    alone = cost(work, Plan(1, 1, 1, 1, 1, 1, 1, 1), roofline)
    memory, attention = 3350e9 * 0.7, 989e12 * 0.33 * 8192 / (8192 + 350)
    # Each product is slower by one over its three dimensions, weighted by operations: tokens, and the widths of a layer.
    widths = (8030261248 - 2 * 128256 * 4096) / 4096 + 4 * 32 * 4096
    edges = 1 + 120 * (2 * 8192 * widths / work.products + 1 / 8192)
    by_hand = 3 * (work.products / (989e12 * 0.803) * edges + work.elementwise / memory)
    by_hand += 3.5 * work.attention / attention + 3 * 32 * 6 * 30e-6
    assert alone.seconds == pytest.approx(by_hand + 8030261248 * 38 / memory)
    assert work.elementwise == 8192 * (2 * (10 * 4096 * 32 + (8030261248 - 2 * 128256 * 4096) / 4096) + 16 * 128256)
    two = cost(work, Plan(2, 1, 1, 1, 2, 1, 1, 1, gathers=2, reduces=1), roofline)
    assert two.data == 8030261248 / 2 * (2 * 2 + 4)
    assert two.tokens == 2 * alone.tokens
    piped = cost(work, Plan(2, 1, 2, 1, 1, 1, 1, 4), roofline)
    assert piped.bubble == 1 / 4


def test_costs_follow_the_job():
    """A job's plan is what its config says."""
    job = estimate({**LARGE, "parallelism": {"tensor_parallel_size": 8, "pipeline_parallel_size": 2}}).job
    found = cost_of(job, roofline_of("h100-sxm-80gb"))
    assert (found.gpus, found.bubble) == (64, 1 / 2)
    assert found.tokens == 4 * 2 * 32768


def test_faces(capsys):
    """Terminal, JSON, CSV and page say the same."""
    found = advise(SMALL, ladder=True)
    text, data, page = advice_text(found), advice_data(found), advice_html(found)
    for each in found.advice:
        assert each.title in text
        assert each.title in page
    assert [row["saves"] for row in data["advice"]] == [each.saves for each in found.advice]
    assert main(["advise", "--model", "gpt2", "--seq", "512", "--csv"]) == 0
    assert capsys.readouterr().out.startswith("title,class,saves,")


def test_words_of_each_engine():
    """Megatron's arguments and DeepSpeed's keys are theirs, and what they cost is counted."""
    megatron = {each.title: each for each in advise(RECOMPUTING).advice}
    full = megatron["Full activation checkpointing"]
    assert full.flags[0].startswith("--recompute-granularity full")
    assert full.slowdown > 0.2
    assert megatron["Sequence parallel"].flags == ("--sequence-parallel",)
    zero = {each.title: each for each in advise(ZERO).advice}
    assert [each for each in zero.values() if each.changes.get("engine.zero_stage") == 3]
