"""Muon with Megatron's distributed optimizer: ranks have whole matrices."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memcore import estimate
from memcore.errors import ConfigError
from memcore.trainers.megatron.layer_wise import Matrix, laid_out, ping_pong

HIDDEN = 256
JOB = {
    "model": {
        "model_type": "megatron",
        "architecture": "gpt",
        "num_layers": 4,
        "hidden_size": HIDDEN,
        "num_attention_heads": 4,
        "max_position_embeddings": 512,
        "position_embedding_type": "rope",
        "normalization": "RMSNorm",
        "disable_bias_linear": True,
        "vocab_size": 1024,
    },
    "training": {"sequence_length": 512, "optimizer": "muon"},
    "parallelism": {"data_parallel_size": 4},
    "engine": {"type": "megatron"},
}


def numbered(*sizes):
    """Parameters with one side."""
    return [Matrix(index, (size,), size) for index, size in enumerate(sizes)]


def test_forth_and_back():
    """The example of Megatron's own documentation: four ranks, ten parameters from small to large."""
    found = ping_pong(numbered(*range(10, 20)), 4)
    assert found.ranks == ((0, 7, 8), (1, 6, 9), (2, 5), (3, 4))
    assert found.length == sum(range(10, 20))


def test_what_costs_most_goes_first():
    """Two ranks: the square of 64 costs 64³, two of 64 by 32 cost 64·32² each, a quarter of it."""
    parameters = [Matrix(0, (64, 32), 2048), Matrix(1, (64, 64), 4096), Matrix(2, (64, 32), 2048)]
    found = laid_out(parameters, 2, None)
    assert [sorted(own) for own in found.ranks] == [[1], [0, 2]]
    assert found.length == 2 * 4096


def test_parts_of_a_bucket_are_equally_long():
    """One matrix for two ranks: the other one's part is padding."""
    assert laid_out([Matrix(0, (64, 64), 4096)], 2, None).length == 2 * 4096


def test_buckets_close_when_they_are_long_enough():
    """Of at least 8000 elements: four matrices of 4096 for two ranks are two buckets, each without padding."""
    found = laid_out([Matrix(index, (64, 64), 4096) for index in range(4)], 2, 8000)
    assert found.length == 4 * 4096
    assert [len(own) for own in found.ranks] == [2, 2]


@settings(max_examples=50, deadline=None)
@given(
    sides=st.lists(st.tuples(st.integers(1, 300), st.integers(1, 300)), min_size=1, max_size=40),
    ranks=st.integers(1, 9),
    bucket=st.sampled_from([None, 1000, 50_000]),
)
def test_everything_has_one_owner(sides, ranks, bucket):
    """However it is shared, every parameter is on one rank, and the buffer has room for all of them."""
    parameters = [Matrix(index, each, each[0] * each[1]) for index, each in enumerate(sides)]
    for found in (ping_pong(parameters, ranks), laid_out(parameters, ranks, bucket)):
        assert sorted(index for own in found.ranks for index in own) == list(range(len(sides)))
        assert found.length >= sum(each.size for each in parameters)


def kept(**engine):
    """Bytes of optimizer states and master weights, and of the job between steps."""
    rank = estimate({**JOB, "engine": {**JOB["engine"], **engine}}).ranks[0]
    entries = [*rank.persistent.resident(), *rank.persistent.optimizer_states()]
    names = ("master_weight", "momentum_buffer", "moment_1", "moment_2")
    return {name: sum(entry.bytes for entry in entries if entry.rule == name) for name in names}


def test_four_layers_for_four_ranks():
    """A layer's matrices, 12·h² elements, are what each of four ranks optimizes; embedding, head and norms are divided."""
    matrices, rest = 12 * HIDDEN**2, 1024 * HIDDEN + 9 * HIDDEN
    found = kept(distributed_optimizer=True)
    assert found["momentum_buffer"] == 4 * matrices
    assert found["moment_1"] == found["moment_2"] == pytest.approx(rest, rel=0.01)
    assert found["master_weight"] == pytest.approx(4 * matrices + rest, rel=0.01)
    alone = kept()
    assert alone["momentum_buffer"] == 4 * 4 * matrices
    assert alone["moment_1"] == 4 * rest


def test_without_a_layout_even_the_embedding_is_whole():
    """The rank that has most has the embedding, which is larger than a layer's largest matrix."""
    found = kept(distributed_optimizer=True, no_use_layer_wise_param_layout=True)
    assert found["moment_1"] >= 4 * 1024 * HIDDEN


@pytest.mark.parametrize(
    ("engine", "match"),
    [
        ({"no_use_layer_wise_param_layout": True}, "needs engine.distributed_optimizer"),
        ({"distributed_optimizer": True, "num_distributed_optimizer_instances": 2}, "does not apply to muon"),
        ({"type": "megatron-fsdp", "data_parallel_sharding_strategy": "optim"}, "do not run with Megatron-FSDP"),
    ],
)
def test_contradictions_are_named(engine, match):
    """As Megatron refuses them."""
    with pytest.raises(ConfigError, match=match):
        kept(**engine)
