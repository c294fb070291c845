"""Pipelines: stages differ in layers and in micro-batches in flight, and their receive buffers grow with all of them."""

import pytest

from memcore import ConfigError, UnsupportedError, estimate
from memcore.config.settings import Config
from memcore.memory import pipeline as pipelines
from memcore.networks.catalog import find_model
from memcore.networks.stages import layers_of, stage_of


def job(stages=4, micro_batches=8, engine="none", **more):
    """A small Llama in stages."""
    model = {
        "model_type": "llama",
        "hidden_size": 512,
        "intermediate_size": 1408,
        "num_hidden_layers": 22,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "vocab_size": 4096,
        "tie_word_embeddings": False,
    }
    return {
        "model": model,
        "training": {"sequence_length": 1024, "gradient_accumulation_steps": micro_batches, **more.pop("training", {})},
        "parallelism": {"pipeline_parallel_size": stages, **more.pop("parallelism", {})},
        "engine": {"type": engine, **more.pop("engine_settings", {})},
    }


def test_stages_have_all_layers_between_them():
    """Left-over layers go to the first stages; the embedding is in the first stage and the head in the last."""
    assert layers_of(22, 4) == (6, 6, 5, 5)
    model = find_model("llama-3.1-8b")
    stages = [stage_of(model, number, 5) for number in range(5)]
    assert [stage.num_layers for stage in stages] == [7, 7, 6, 6, 6]
    assert [stage.first_layer for stage in stages] == [0, 7, 14, 20, 26]
    assert sum(stage.parameters for stage in stages) == model.parameters


@pytest.mark.parametrize(
    ("layers", "stages", "version", "shares"),
    [
        (32, 4, None, [8, 9, 8, 7]),  # 34 with the ends: 9, 9, 8, 8
        (126, 8, "b291ad6", [15, 16, 16, 16, 16, 16, 16, 15]),  # before April 2025 the first stage had no more
        (126, 8, None, [15, 16, 16, 16, 16, 16, 16, 15]),
        (22, 4, "b291ad6", [5, 6, 6, 5]),
    ],
)
def test_torchtitan_shares_layers_out(layers, stages, version, shares):
    """Embedding and head count as a layer each; until April 2025 what is left over goes to stages after the first."""
    engine = {"framework": "torchtitan", **({"framework_version": version} if version else {})}
    config = job(stages, 8, "fsdp", engine_settings=engine, training={"implementation": "torchtitan"})
    config["model"]["num_hidden_layers"] = layers
    assert [rank.job.model.num_layers for rank in estimate(Config.from_dict(config)).ranks] == shares


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        ([5, 6, 6, 5], None),
        ([5, 6, 6, 6], "22 in total"),
        ([0, 8, 8, 6], "a stage empty"),
        ("Et*5|t*17L", "one layer count for each of the 4 stages"),
    ],
)
def test_a_job_may_list_its_stages(layout, said):
    """Counts in the order of layers, which add up."""
    config = Config.from_dict(job(4, 8, parallelism={"pipeline_layout": layout}))
    if said is None:
        assert [rank.job.model.num_layers for rank in estimate(config).ranks] == layout
        return
    with pytest.raises(ConfigError, match=said):
        estimate(config)


@pytest.mark.parametrize("family", ["gemma-3-12b-it", "jamba-v0.1", "deepseek-v3"])
@pytest.mark.parametrize("count", [2, 3, 7])
def test_stages_cut_through_patterns(family, count):
    """Runs of a pattern of several layers may begin and end anywhere in a stage."""
    model = find_model(family)
    layers = [
        layer
        for stage in (stage_of(model, number, count) for number in range(count))
        for pattern, repeats in zip(stage.network.runs, stage.repeats, strict=True)
        for layer in pattern * repeats
    ]
    whole = [
        layer for pattern, repeats in zip(model.network.runs, model.repeats, strict=True) for layer in pattern * repeats
    ]
    assert layers == whole


def test_earlier_stages_have_more_micro_batches_in_flight():
    """1F1B: a stage begins its first backward pass after as many forward passes as there are stages from it on."""
    found = estimate(job(stages=6, micro_batches=12))
    activations = [rank.ledger(rank.peak).by_category["activations"] for rank in found.ranks[1:-1]]
    assert activations == sorted(activations, reverse=True)
    assert len(set(activations)) == len(activations)


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
@pytest.mark.parametrize("engine", ["none", "fsdp"])
@pytest.mark.parametrize("runtime", ["torch", "ideal"])
def test_one_micro_batch_may_stand_for_many(monkeypatch, schedule, engine, runtime):
    """Peaks are the same whether micro-batches in flight are recorded one by one or counted."""
    config = job(
        stages=8,
        micro_batches=16,
        engine=engine,
        parallelism={"pipeline_schedule": schedule},
        engine_settings={"pipeline_runtime": runtime},
    )
    config["hardware"] = {"num_gpus": 32 if engine == "fsdp" else 8}
    counted = [(rank.peak.peak, rank.first_step) for rank in estimate(config).ranks]
    monkeypatch.setattr(pipelines, "COUNTED", 100)
    one_by_one = [(rank.peak.peak, rank.first_step) for rank in estimate(config).ranks]
    assert counted == one_by_one


def test_gpipe_holds_all_micro_batches():
    """All forward passes come first, so that more micro-batches need more memory; 1F1B does not care."""
    peaks = {}
    for schedule in ("1f1b", "gpipe"):
        for count in (8, 32):
            config = job(
                micro_batches=count,
                parallelism={"pipeline_schedule": schedule},
                engine_settings={"pipeline_runtime": "ideal"},
            )
            peaks[schedule, count] = estimate(config).ranks[0].peak.peak
    assert peaks["1f1b", 8] == peaks["1f1b", 32]
    assert peaks["gpipe", 8] < peaks["gpipe", 32]


def test_pytorchs_schedules_have_a_buffer_for_every_micro_batch():
    """Stages in the middle receive activations and gradients; 2 buffers of b·s·h for each micro-batch of the step."""
    for count in (8, 16):
        found = estimate(job(micro_batches=count))
        buffers = [
            sum(entry.bytes for entry in rank.ledger(rank.peak).entries if entry.rule == "receive_buffer")
            for rank in found.ranks
        ]
        one = count * 1024 * 512 * 2
        assert buffers == [one, 2 * one, 2 * one, one]


def test_returned_outputs_stay_between_steps():
    """The last stage holds the logits of all micro-batches until its next step begins, the others nothing."""
    kept, freed = (
        estimate(job(engine_settings={"return_outputs": returns}), fake=True).ranks for returns in (True, False)
    )
    assert [more.between_steps - less.between_steps for more, less in zip(kept, freed, strict=True)] == [
        0, 0, 0, 8 * 1024 * 4096 * 2,
    ]  # fmt: skip


@pytest.mark.parametrize("micro_batches", [4, 8, 64])
def test_losses_stay_until_the_step_ends(micro_batches):
    """The schedule lists the losses of all micro-batches, 512 bytes each, until the last backward pass is done."""
    last = estimate(job(micro_batches=micro_batches), fake=True).ranks[-1]
    program, sizes = last.program, last.job.sizes
    each = [
        size if block.rule == "nll_loss" else 0
        for size, block in zip(program.block_sizes(sizes), program.blocks, strict=True)
    ]

    def losses(held):
        return sum(copies * each[index] for index, copies in held.items())

    during = [losses(program.held(moment, sizes)) for moment in last.moments if moment.segment is not None]
    assert max(during) == 512 * (micro_batches + 1)  # and what the last one was divided by
    assert losses(program.held_at_end(sizes)) == 0


def test_the_last_stage_returns_its_outputs_unless_told_not_to():
    """`return_outputs=True` keeps the logits of all micro-batches until the next step."""
    peaks = [
        estimate(job(engine_settings={"return_outputs": returns})).ranks[-1].peak_of("optimizer_step")
        for returns in (True, False)
    ]
    assert peaks[0] - peaks[1] == 8 * 1024 * 4096 * 2


def test_parameters_stay_whole_under_fsdp():
    """Between micro-batches neither parameters nor gradients are sharded again (pipelining/stage.py)."""
    config = job(engine="fsdp", training={"precision": "bf16-mixed"})
    config["hardware"] = {"num_gpus": 64}
    found = estimate(config)
    assert found.ranks
    for rank in found.ranks:
        held = rank.ledger(rank.peak)
        whole = sum(entry.bytes for entry in held.entries if entry.rule == "accumulated_gradient")
        assert whole >= 4 * rank.job.model.parameters * 0.99


@pytest.mark.parametrize("config", [job(), job(engine="fsdp") | {"hardware": {"num_gpus": 8}}], ids=["none", "fsdp"])
def test_the_ledger_adds_up_on_every_stage(config):
    """Every byte of every moment has a name."""
    config = {**config, "parallelism": {"pipeline_parallel_size": 8}}
    ranks = estimate(config).ranks
    assert len(ranks) == 8
    for rank in ranks:
        for moment in rank.moments:
            assert rank.ledger(moment).total == moment.peak
        assert rank.reserved >= rank.peak.peak


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (job(stages=23), "has 22 layers"),
        (job(engine="ddp"), "found 'ddp'"),
        (job(training={"loss_shift": "model"}), "labels-preshifted"),
        (job(stages=1, engine_settings={"return_outputs": True}), "needs parallelism.pipeline_parallel_size"),
        (job(parallelism={"pipeline_schedule": "1f2b"}), "did you mean '1f1b'"),
        (job(engine="fsdp") | {"hardware": {"num_gpus": 6}}, "not a multiple of the 4 pipeline-parallel ranks"),
    ],
)
def test_what_a_pipeline_cannot_do_is_refused(config, said):
    """Errors say what would do."""
    with pytest.raises(ConfigError, match=said):
        estimate(Config.from_dict(config))


def test_a_schedule_without_a_pipeline():
    """torchtitan's files have one in any case: it changes nothing, and one that nobody sets by default is mentioned."""
    alone = estimate(Config.from_dict(job(stages=1, micro_batches=1)))
    for schedule, count in (("1f1b", 0), ("gpipe", 1), ("zbv", 1)):
        found = estimate(Config.from_dict(job(1, 1, parallelism={"pipeline_schedule": schedule})))
        assert found.rank.most == alone.rank.most
        assert len(found.job.model.warnings) == count
        assert all(repr(schedule) in each for each in found.job.model.warnings)


def test_tied_heads_are_refused():
    """Both ends of the pipeline would have the matrix."""
    with pytest.raises(UnsupportedError, match="a tied head"):
        estimate(job() | {"model": "llama-3.2-1b"})


def test_every_second_layer_of_a_stage():
    """Each stage counts its own layers: of 3 in each of two stages the second has a checkpoint, so that 2 keep all."""
    config = job(stages=2, micro_batches=2, training={"activation_checkpointing": {"policy": "selective", "every": 2}})
    config["model"] |= {"num_hidden_layers": 6}
    ranks = estimate(config).ranks
    assert len(ranks) == 2
    for rank in ranks:
        assert [len(run) for run in rank.job.share.network.runs] == [2, 1]
        assert rank.job.share.repeats == (1, 1)
        assert rank.job.recipe.checkpoints.skipped == {(0, 0), (1, 0)}


def test_gpipe_keeps_logits_until_the_backward_pass():
    """PyTorch's stage has the outputs of micro-batches in flight in `fwd_cache`, returned or not: b·s·V in bf16 each."""
    peaks = {}
    for count in (2, 4):
        config = job(
            stages=2,
            micro_batches=count,
            training={"precision": "bf16"},
            parallelism={"pipeline_schedule": "gpipe"},
            engine_settings={"return_outputs": False},
        )
        config["model"] |= {"vocab_size": 64000}
        rank = estimate(config).ranks[1]
        peaks[count] = sum(
            entry.bytes
            for entry in rank.ledger(rank.peak).entries
            if entry.rule == "linear" and entry.module == "lm_head"
        )
    assert peaks[4] - peaks[2] == 2 * 1024 * 64000 * 2
