"""Pipelines with several stages on a rank: PyTorch's order of passes, micro-batches in flight, and what ranks hold."""

import pytest
from test_pipeline import job

from memcore import ConfigError, UnsupportedError, estimate
from memcore.config.settings import Config
from memcore.trace.schedules import BOTH_WAYS, LOOPED, V_SHAPED, facing, fullest

pytestmark = pytest.mark.machine  # the same Python in Pyodide, where it takes minutes


def spelled(name, rank, ranks, count, chunks=2):
    """A rank's order as one word for each stage's pass, written as PyTorch's own listings do."""
    return " ".join(f"{chunk}{kind}" for kind, chunk in LOOPED[name](rank, ranks, chunks, count))


@pytest.mark.parametrize(
    ("name", "rank", "order"),
    [
        ("interleaved-1f1b", 0, "0F 0F 1F 1F 0F 1B 0F 1B 1F 0B 1F 0B 1B 1B 0B 0B"),
        ("interleaved-1f1b", 1, "0F 0F 1F 1B 1F 1B 0F 0B 0F 0B 1F 1B 1F 1B 0B 0B"),
        ("zb-h1", 1, "0F 0F 1F 1I 1F 1I 1W 0F 0I 1W 0F 0I 0W 1F 1I 0W 1F 1I 1W 0I 1W 0I 0W 0W"),
        ("zbv", 0, "0F 0F 0F 1F 1I 1W 1F 1I 1W 0F 0I 0W 1F 1I 1W 0I 0W 1F 1I 1W 0I 0W 0I 0W"),
        ("dualpipev", 1, "0F 1F 0F 1F 0F 1B 1F 0B 0F 1B 1F 0B 1B 0B 1I 0I 1W 0W"),
    ],
)
def test_the_order_is_pytorch_s(name, rank, order):
    """Two ranks, four micro-batches, as `pipeline_order` of torch 2.13 lists them."""
    assert spelled(name, rank, 2, 4) == order


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("name", LOOPED)
def test_everything_runs_once(name, ranks):
    """Each stage runs every micro-batch forward, and backward for inputs and weights."""
    entering = 4 * ranks
    count = entering // 2 if name == BOTH_WAYS else entering  # half of them in each direction
    for rank in range(ranks):
        actions = LOOPED[name](rank, ranks, 2, entering)
        for chunk in range(2):
            kinds = [kind for kind, each in actions if each == chunk]
            assert kinds.count("F") == count
            assert kinds.count("B") + kinds.count("I") == count == kinds.count("B") + kinds.count("W")


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("interleaved-1f1b", lambda rank, ranks: ranks + 2 * (ranks - 1 - rank) + 1),
        ("zb-h1", lambda rank, ranks: 2 * ranks),
        ("zbv", lambda rank, ranks: 2 * ranks),
        ("dualpipev", lambda rank, ranks: 2 * ranks + 1),
        ("dualpipe", lambda rank, ranks: ranks + 1),  # "PP+1" in the table of DeepSeek's repository
    ],
)
def test_micro_batches_in_flight(name, most, ranks):
    """Closed forms of the most in flight on two stages of a rank, with enough micro-batches."""
    for rank in range(ranks):
        actions = LOOPED[name](rank, ranks, 2, 4 * ranks)
        assert sum(fullest(actions, (1, 1))) + 1 == most(rank, ranks)


def looped(name="interleaved-1f1b", chunks=2, stages=2, micro_batches=8, **more):
    """The estimate of a small Llama of 22 layers with several stages on a rank."""
    settings = {"pipeline_schedule": name, "virtual_pipeline_parallel_size": chunks, **more.pop("parallelism", {})}
    return estimate(Config.from_dict(job(stages, micro_batches, parallelism=settings, **more)))


@pytest.mark.parametrize("name", LOOPED)
def test_ranks_hold_all_layers(name):
    """All parameters are somewhere, and the ends are where the schedule puts them."""
    found = looped(name)
    copies = 2 if name == BOTH_WAYS else 1
    assert sum(rank.job.share.parameters for rank in found.ranks) == copies * found.job.model.parameters
    reads, predicts = (
        [getattr(rank.job.share.network.embedding_and_head, end) for rank in found.ranks]
        for end in ("reads_tokens", "predicts")
    )
    assert reads == [True, name == BOTH_WAYS]
    assert predicts == [name in {*V_SHAPED, BOTH_WAYS}, name not in V_SHAPED]


def test_receive_buffers_of_every_stage():
    """Of four stages each has a buffer for hidden states and gradients and each micro-batch, but for the outer ends."""
    one = 1 * 1024 * 512 * 2
    ranks = looped().ranks
    assert ranks
    for rank in ranks:
        assert sum(entry.bytes for entry in rank.persistent.receive_buffers()) == 8 * 3 * one


def test_a_micro_batch_in_flight_costs_what_it_keeps():
    """Rank 0 of 2 with checkpoints: micro-batches keep the input of each of 5 and 6 layers, and the stage's output."""
    checkpoints = {"activation_checkpointing": "full", "implementation": "torchtitan"}
    found = looped(micro_batches=8, training=checkpoints).ranks[0]
    assert fullest(LOOPED["interleaved-1f1b"](0, 2, 2, 8), (5, 6)) == (2, 2)
    before = next(moment for moment in found.moments if moment.place == "inputs" and moment.turn == (0, 1))
    kept = [each for each in found.ledger(before).entries if each.rule in ("add", "embedding", "received_activation")]
    embedded = 1  # the third micro-batch on the first stage begins
    assert sum(each.bytes for each in kept) == (2 * (5 + 1) + 2 * 6 + embedded) * 1024 * 512 * 2


def test_layers_keep_their_numbers():
    """The second stage of rank 0 of 2 is the third of four: it begins with layer 12."""
    assert looped().ranks[0].job.share.starts == (0, 12)
    assert looped("zbv").ranks[0].job.share.starts == (0, 17)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"name": "1f1b"}, ConfigError, "one stage on each rank"),
        ({"name": "zbv", "chunks": 3}, ConfigError, "2 stages on each rank"),
        ({"name": "dualpipev", "micro_batches": 3}, ConfigError, "at least 4"),
        ({"micro_batches": 9}, ConfigError, "a multiple of its 4 rounds"),
        ({"stages": 8, "chunks": 3}, ConfigError, "has 22 layers"),
        ({"chunks": 4, "engine": "fsdp"}, UnsupportedError, "keep 3 stages gathered"),
    ],
)
def test_what_schedules_refuse(changes, error, message):
    """As PyTorch's own checks do."""
    with pytest.raises(error, match=message):
        looped(**changes)


def both_ways(**changes):
    """Llama 3.1 8B on eight ranks, from both ends."""
    described = {
        "model": "llama-3.1-8b",
        "training": {"sequence_length": 1024, "precision": "bf16", "gradient_accumulation_steps": 16},
        "parallelism": {"pipeline_parallel_size": 8, "pipeline_schedule": "dualpipe"},
        "engine": {"type": "none"},
        "hardware": {"num_gpus": 8},
    }
    return {
        section: {**value, **changes.get(section, {})} if section in changes else value
        for section, value in described.items()
    }


def test_dualpipe_has_every_stage_twice():
    """Parameters per device are 2x in the table of DeepSeek's repository, and a rank's mirror image holds the same."""
    found = estimate(both_ways())
    assert [facing(rank, 8) for rank in range(8)] == [(0, 7), (1, 6), (2, 5), (3, 4), (3, 4), (2, 5), (1, 6), (0, 7)]
    assert [rank.peak.peak for rank in found.ranks] == [rank.peak.peak for rank in reversed(found.ranks)]
    assert sum(rank.persistent.parameters for rank in found.ranks) == 2 * 2 * 8_030_261_248  # twice, in bf16
    assert found.job.num_gpus == 8
    assert any("PP - 1 - r" in each.reason for each in found.assumptions)


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"parallelism": {"pipeline_parallel_size": 5}, "hardware": {"num_gpus": 5}}, "pipeline_parallel_size"),
        ({"parallelism": {"virtual_pipeline_parallel_size": 3}}, "virtual_pipeline_parallel_size"),
        ({"training": {"gradient_accumulation_steps": 14}}, "gradient_accumulation_steps"),
        ({"training": {"gradient_accumulation_steps": 17}}, "gradient_accumulation_steps"),
        ({"engine": {"pipeline_runtime": "torch"}}, "engine.pipeline_runtime"),
        ({"engine": {"type": "megatron"}}, "parallelism.pipeline_schedule"),
    ],
)
def test_what_dualpipe_asserts(changes, path):
    """`num_ranks % 2 == 0`, and an even number of micro-batches, at least twice as many as ranks."""
    with pytest.raises(ConfigError, match=path):
        estimate(both_ways(**changes))
