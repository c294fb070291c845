"""Activation memory budgets: what PyTorch's partitioner keeps of a compiled block, and what a step then needs."""

from itertools import combinations

import pytest
from conftest import truth
from hypothesis import given
from hypothesis import strategies as st
from test_compiled import LLAMA, H
from test_compiled import job as job_of
from test_compiled import kept as held

from memcore import Config, advise, estimate
from memcore.errors import ConfigError, UnsupportedError
from memcore.questions.work import recomputed
from memcore.tools.convert import imported
from memcore.tools.exporting import exported
from memcore.trainers.pytorch.budgets import block_results
from memcore.trainers.pytorch.partitioner import CHEAP, COSTLY, UNLISTED, Result, kept
from memcore.trainers.pytorch.resolve import resolve

TRUTH = truth("budgets")["blocks"]
MODEL = {"num_hidden_layers": 2, "vocab_size": 512, "tie_word_embeddings": False, "max_position_embeddings": 8192}


def name_of(block):
    """What is special about a block, and its tokens."""
    model, training = block["model"], block["training"]
    size = "×".join(str(training[key]) for key in ("micro_batch_size", "sequence_length"))
    named = (model.get("gqa"), training.get("attention"), training["precision"], block.get("fp8_recipe"))
    return " ".join([training["implementation"], model["model_type"], size, *filter(None, named)])


@pytest.mark.parametrize("block", TRUTH, ids=name_of)
def test_the_partitioner_decides_so(block):
    """Each of 41 budgets leaves as many bytes of a block as PyTorch 2.13 does."""
    training = {**block["training"], "compile": True}
    recipe = block.get("fp8_recipe")
    around = {"engine": {"type": "fsdp", "fp8_recipe": recipe}, "hardware": {"num_gpus": 2}} if recipe else {}
    job = resolve(Config.from_dict({"model": {**MODEL, **block["model"]}, "training": training, **around}))
    results, unread = block_results(job.recipe.network.kinds[0], job.recipe, job.sizes)
    assert sum(each.size - each.instead for each in results) - unread == block["above_inputs"]
    for number, saved in enumerate(block["saved"]):
        if saved is None:
            continue  # scales of float8 alone
        names = kept(results, unread, number / 40)
        assert sum(each.size for each in results if each.name in names) == saved, number / 40


QWEN = {**LLAMA, "model_type": "qwen3", "head_dim": 32}


def job(model=LLAMA, **training):
    """An estimate of a small model with compiled blocks of torchtitan."""
    return job_of(model=model, **{"compile": True, **training})


AD, KD, A, K, F = 256, 128, 8, 4, 704


@pytest.mark.parametrize(
    ("model", "budget", "bytes_for_each_token"),
    [
        (LLAMA, 1, 8 * H + 8 + 4 * AD + 4 * KD + 4 * A + 6 * F),
        (LLAMA, 0.7, 4 * H + 8 + 4 * AD + 4 * KD + 4 * A + 4 * F),
        (LLAMA, 0.5, 2 * H + 2 * KD + 2 * AD + 4 * A + 4 * F),
        (LLAMA, 0.1, 2 * H + 2 * AD + 4 * A),
        (LLAMA, 0, 2 * H),
        (QWEN, 1, 8 * H + 8 + 4 * A + 4 * K + 6 * AD + 6 * KD + 4 * A + 6 * F),
        (QWEN, 0.8, 4 * H + 8 + 4 * A + 4 * K + 6 * AD + 6 * KD + 4 * A + 4 * F),
        (QWEN, 0.7, 4 * H + 8 + 4 * A + 4 * K + 4 * AD + 4 * KD + 4 * A + 4 * F),
    ],
    ids=str,
)
def test_what_a_layer_keeps(model, budget, bytes_for_each_token):
    """At 0.7 the results of norms and the feed-forward product go, which are cheap; at 0.5 costly ones, too.

    Queries that are normalized are kept as projected and as rotated; `cat` within the rotation is not on the
    partitioner's list, so that rotated ones go only below 0.8. Four random states belong to each attention; the final
    norm keeps the last layer's output.
    """
    found = held(job(model, activation_memory_budget=budget))
    assert found == pytest.approx(bytes_for_each_token, abs=2 * H / 4 + 4)


def test_no_budget_is_a_whole_one():
    """1 is PyTorch's default: nothing changes. 0 needs what full checkpoints of compiled blocks need."""
    assert job(activation_memory_budget=1).peak == job().peak
    none, full = job(activation_memory_budget=0), job(activation_checkpointing="full")
    assert [moment.peak for moment in none.rank.moments] == [moment.peak for moment in full.rank.moments]


def test_what_is_computed_again_takes_time():
    """At 0.7 no product is computed again, at 0.1 all but attention, the last of the block aside."""
    assert recomputed(job(activation_memory_budget=0.7).job) == (0, 0)
    assert recomputed(job(activation_memory_budget=0.1).job) == (1, 0)
    assert recomputed(job(activation_memory_budget=0).job) == (1, 1)


@given(
    st.lists(st.tuples(st.integers(1, 400), st.integers(1, 10**5)), min_size=1, max_size=7),
    st.integers(1, 99),
)
def test_the_knapsack_is_the_best(items, percent):
    """What is kept takes at least as long to compute as anything else that fits, and fits."""
    results = [Result(("mm", number), size, COSTLY, runtime) for number, (size, runtime) in enumerate(items)]
    filler = Result(("norm", 0), 10_000 - sum(size for size, _ in items), CHEAP)
    names = kept([*results, filler], 0, percent / 100)
    size = {each.name: each.size for each in results}
    runtime = {each.name: each.runtime for each in results}
    room = percent * 100
    if sum(size.values()) < room:
        assert names == set(size)
        return
    best = max(
        sum(runtime[each] for each in chosen)
        for count in range(len(results) + 1)
        for chosen in combinations(size, count)
        if sum(size[each] for each in chosen) <= room
    )
    assert sum(size[each] for each in names) <= room
    assert sum(runtime[each] for each in names) == best


def test_runtimes_are_added_in_single_precision():
    """A statistic takes a nominal operation: beside products of many it does not count, and is computed again."""
    product, statistic = Result(("mm", 0), 4000, COSTLY, 1 << 40), Result(("norm_statistics", 0), 100, COSTLY)
    rest = Result(("norm", 0), 5900, CHEAP)
    second = Result(("mm", 1), 5000, COSTLY, 1)
    assert kept([product, statistic, second, rest], 0, 0.41) == {product.name}
    assert kept([statistic, second, rest], 0, 0.41) == {statistic.name}


def test_a_block_that_keeps_less_than_its_inputs_needs_no_budget():
    """Copies of weights in half precision are smaller than the weights: with few tokens nothing is left to save."""
    copy = Result(("weight_cast", 0), 100, CHEAP, instead=200)
    product = Result(("mm", 0), 90, COSTLY, 8)
    assert kept([copy, product], 0, 0.1) == {copy.name, product.name}
    assert kept([copy, product], 0, 0) == set()


def test_cuts_come_before_the_knapsack():
    """What is unlisted goes after what is cheap, and before what is costly."""
    results = [Result(("mm", 0), 50, COSTLY, 8), Result(("rotary", 0), 20, UNLISTED), Result(("norm", 0), 30, CHEAP)]
    assert kept(results, 0, 1) == {("mm", 0), ("rotary", 0), ("norm", 0)}
    assert kept(results, 0, 0.71) == {("mm", 0), ("rotary", 0)}
    assert kept(results, 0, 0.7) == {("mm", 0)}
    assert kept(results, 0, 0.49) == set()


REFUSED = [
    ({"compile": False}, "set training.compile to true"),
    ({"activation_checkpointing": "full"}, "needs policy 'none'"),
    ({"precision": "fp8-mixed", "activation_memory_budget": 0.01}, "too small to keep any matrix product"),
    ({"attention": "flex"}, "attention 'flex'"),
    ({"implementation": "transformers", "attention": "flash"}, "attention 'flash'"),
    ({"implementation": "transformers", "attention_mask": "padded"}, "masks of attention"),
    ({"implementation": "transformers", "adapter": {"type": "lora"}}, "adapters or frozen layers"),
    ({"activation_memory_budget": 1.5}, "from 0 to 1"),
]


@pytest.mark.parametrize(("training", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_is_refused(training, message):
    """By name, with what would be allowed."""
    with pytest.raises((ConfigError, UnsupportedError), match=f"(?s)activation_memory_budget.*{message}"):
        job(**{"activation_memory_budget": 0.5, **training})


@pytest.mark.parametrize("engine", ["none", "nanotron", "megatron-deepspeed", "megatron"])
@pytest.mark.parametrize("setting", [{"activation_memory_budget": 0.5}, {"activation_memory_budget": 0}])
def test_no_engine_ignores_a_budget(engine, setting):
    """Where nothing is compiled, no budget is left unsaid; a whole one changes nothing."""
    config = {"model": LLAMA, "training": {"sequence_length": 64}, "engine": {"type": engine}}
    usual = estimate(config)
    config["training"] |= setting
    with pytest.raises((ConfigError, UnsupportedError), match="activation_memory_budget"):
        estimate(config)
    config["training"]["activation_memory_budget"] = 1
    assert estimate(config).peak == usual.peak


@pytest.mark.parametrize(
    ("checkpoints", "expected"),
    [
        ('mode = "memory_budget"\nmemory_budget = 0.3\n', ("none", 0.3)),
        ('mode = "memory_budget"\nselective_ac_option = "2"\n', ("none", 0.5)),
        ('mode = "full"\nmemory_budget = 0.3\nselective_ac_option = "2"\n', ("full", None)),
    ],
)
def test_torchtitans_mode(checkpoints, expected):
    """`activation_checkpoint.mode` says which of the other keys count; there and back."""
    pytest.importorskip("tomllib")
    found = imported(
        f"[training]\nlocal_batch_size = 1\n[compile]\nenable = true\n[activation_checkpoint]\n{checkpoints}"
    )
    for each in (found, imported(exported(Config.from_dict({"model": "gpt2", **found.config})).text)):
        training = each.config["training"]
        said = training["activation_checkpointing"]["policy"], training.get("activation_memory_budget")
        assert (said, each.unknown) == (expected, ())
        assert training["activation_checkpointing"].keys() == {"policy"}


def test_half_of_the_activations_is_advice():
    """For compiled blocks; with a budget, checkpoints are offered in its place."""
    offered = {each.title: each for each in advise(job().job.config).advice}
    half = offered["Half the saved activations of compiled blocks"]
    assert half.after.job.recipe == job(activation_memory_budget=0.5).job.recipe
    assert half.flags == ("--activation_checkpoint.mode memory_budget --activation_checkpoint.memory_budget 0.5",)
    titles = {each.title for each in advise(job(activation_memory_budget=0.5).job.config).advice}
    assert half.title not in titles
    assert "Full activation checkpointing" in titles
