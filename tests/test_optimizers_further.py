"""Muon and optimizers of other libraries: states and temporaries, worked out by hand."""

from __future__ import annotations

import pytest

import memcore
from memcore.errors import ConfigError, UnsupportedError
from memcore.symbols import Factors

MODEL = {
    "model_type": "llama",
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 2,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "vocab_size": 32000,
}
MATRICES = 2 * (4 * 1024 * 1024 + 3 * 2816 * 1024)
ENDS, NORMS = 2 * 32000 * 1024, 5 * 1024
ALL = MATRICES + ENDS + NORMS


SMALL = {
    "model_type": "llama",
    "hidden_size": 512,
    "intermediate_size": 768,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 1000,
}


def kept(optimizer, precision="fp32", engine=None, gpus=1, model=MODEL):
    """What a rank keeps, and its states by rule."""
    training = {"sequence_length": 64, "precision": precision, "optimizer": optimizer}
    engine = engine or {"type": "none", "framework": "torchtune"}
    config = {"model": model, "training": training, "engine": engine, "hardware": {"num_gpus": gpus}}
    persistent = memcore.estimate(config).ranks[0].persistent
    states = {}
    for entry in persistent.optimizer_states():
        states[entry.rule] = states.get(entry.rule, 0) + entry.bytes
    return persistent, states


@pytest.mark.parametrize(("precision", "size"), [("fp32", 4), ("bf16", 2)])
def test_muon(precision, size):
    """Momentum for the layers' matrices, Adam's moments for the rest; one matrix is orthogonalized at a time.

    The update in the gradient's dtype, two iterates and two squares of the smaller side in bf16.
    """
    persistent, states = kept("muon", precision)
    assert states == {
        "momentum_buffer": size * MATRICES,
        "exp_avg": size * (ENDS + NORMS),
        "exp_avg_sq": size * (ENDS + NORMS),
    }
    assert persistent.stepping == size * 2816 * 1024 + 2 * 2 * 2816 * 1024 + 2 * 2 * 1024 * 1024


def test_muon_under_fsdp():
    """A matrix with more rows than columns sums squares over ranks, another is gathered: counted on DTensors.

    Four ranks, 768 x 512 and 512 x 768: the update in fp32, iterates in bf16; four squares of 512, or two whole
    matrices.
    """
    tall = 4 * 192 * 512 + 2 * 192 * 512 + 4 * 2 * 512 * 512
    assert kept("muon", "bf16-mixed", {"type": "fsdp"}, 4, SMALL)[0].stepping == tall == 2686976
    wide = 4 * 128 * 768 + 2 * 2 * 128 * 768 + 2 * 2 * 128 * 512 + 2 * 2 * 512 * 768
    assert wide == 2621440
    with pytest.raises(UnsupportedError, match="needs unsharded matrices"):
        kept("muon", engine={"type": "fsdp", "version": 1}, gpus=2)


def test_schedule_free_keeps_a_second_sequence():
    """As much as Adam; foreach takes all roots at once."""
    persistent, states = kept("adamw-schedule-free")
    assert states == {"schedule_free_z": 4 * ALL, "exp_avg_sq": 4 * ALL}
    assert persistent.stepping == 4 * ALL


def test_norms_of_updates():
    """LAMB and LARS keep the norm of each update, and copy a parameter in fp32 to know its norm."""
    tensors = 2 + 2 * 9 + 1
    persistent, states = kept("lamb", "bf16")
    assert states == {"exp_avg": 4 * ALL, "exp_avg_sq": 4 * ALL, "update_norm": 512 * tensors}
    assert persistent.stepping == 4 * 32000 * 1024
    persistent, states = kept("lars")
    assert states == {"exp_avg": 4 * ALL, "update_norm": 512 * tensors}
    assert persistent.stepping == 0


def test_two_first_moments():
    """AdEMAMix: twelve bytes for each parameter, three and three scales for each 256 in 8 bits."""
    assert sum(kept("ademamix")[1].values()) == 12 * ALL
    large = MATRICES + ENDS
    states = kept("ademamix-8bit")[1]
    assert states["quantized_moment"] == 3 * large
    assert states["block_scales"] == 3 * 4 * large // 256
    assert states["exp_avg"] + states["exp_avg_sq"] == 12 * NORMS


SQUARE, KEYS, FFN = 512 * 512, 256 * 512, 768 * 512
ENDS_OF_SMALL, NORMS_OF_SMALL = 2 * 1000 * 512, 5 * 512
OF_LAYERS = 2 * (2 * SQUARE + 2 * KEYS + 3 * FFN)
ALL_OF_SMALL = OF_LAYERS + ENDS_OF_SMALL + NORMS_OF_SMALL
SIDES = 2 * (2 * 2 * SQUARE + 2 * (SQUARE + 256 * 256) + 3 * (SQUARE + 768 * 768)) + 2 * (1000 * 1000 + SQUARE)
"""The elements of one square for each axis of each matrix."""


def test_adabelief_keeps_as_much_as_adam():
    """And holds all differences and all roots at once."""
    persistent, states = kept("adabelief", model=SMALL)
    assert states == {"exp_avg": 4 * ALL_OF_SMALL, "exp_avg_var": 4 * ALL_OF_SMALL}
    assert persistent.stepping == 2 * 4 * ALL_OF_SMALL


def test_adam_mini_keeps_a_number_for_each_block():
    """A head of queries or keys, a row of other matrices, a norm; each allocation is 512 bytes at least."""
    persistent, states = kept("adam-mini", model=SMALL)
    rows = 2 * (4 * 256 + 4 * 512 + 2 * 4 * 768 + 4 * 512) + 2 * 4096 + 5 * 512
    heads = 2 * 2 * 512
    assert states == {"exp_avg": 4 * ALL_OF_SMALL, "mean_square": rows + heads}
    assert persistent.stepping == 2 * 4 * 1000 * 512


def test_squares_for_each_axis():
    """Shampoo for every axis, those of norms too; SOAP for those of matrices, up to 10 000.

    When most is there: Shampoo's singular vectors of the vocabulary's square; SOAP's factors of that and of the width.
    """
    persistent, states = kept("shampoo", model=SMALL)
    squares = 4 * (SIDES + 5 * SQUARE)
    assert states["momentum_buffer"] == 4 * ALL_OF_SMALL
    assert states["preconditioner"] == states["preconditioner_root"] == pytest.approx(squares, abs=512 * 40)
    assert persistent.stepping == pytest.approx(4 * 4 * 1000 * 1000, abs=2048)
    persistent, states = kept("soap", model=SMALL)
    assert states["exp_avg"] == states["exp_avg_sq"] == 4 * ALL_OF_SMALL
    assert states["preconditioner"] == states["eigenbasis"] == pytest.approx(4 * SIDES, abs=512 * 40)
    assert persistent.stepping == pytest.approx(28350464, rel=1e-3)
    large = kept("soap", model={**SMALL, "vocab_size": 10016})[1]
    assert large["preconditioner"] == states["preconditioner"] - 2 * 4000256
    with pytest.raises(UnsupportedError, match="factorizes matrices in fp32"):
        kept("soap", "bf16", model=SMALL)


@pytest.mark.parametrize(("precision", "size"), [("fp32", 4), ("bf16", 2)])
def test_projected_gradients(precision, size):
    """Moments of the larger side by the rank; in fp32 GaLore's projection is a slice of all singular vectors.

    Most is there when the first matrix is projected: the head's root and update, and two projected gradients.
    """
    low = 2 * 64 * (2 * 512 + 2 * 512 + 3 * 768)
    thin = 2 * 64 * (2 * 512 + 2 * 256 + 3 * 512)
    square = 2 * (2 * SQUARE + 2 * 256 * 256 + 3 * SQUARE)
    persistent, states = kept({"name": "galore", "rank": 64}, precision, model=SMALL)
    factors = 4 * (2 * SQUARE + 512 * 64) + (0 if size == 4 else 4 * SQUARE)
    assert persistent.stepping == size * 2 * 1000 * 512 + factors
    assert states["exp_avg"] == states["exp_avg_sq"] == size * (low + ENDS_OF_SMALL + NORMS_OF_SMALL)
    assert states["projection"] == (4 * square if size == 4 else 2 * thin)
    persistent, states = kept({"name": "apollo", "rank": 64}, precision, model=SMALL)
    assert states["projection"] == size * thin
    assert states["update_norm"] == 512 * 14
    assert persistent.stepping == size * (2 * 1000 * 512 + 2 * 512 * 64)
    assert sum(kept("apollo-mini", precision, model=SMALL)[1].values()) < sum(states.values())


def test_ranks_belong_to_projections():
    """Adam projects nothing."""
    with pytest.raises(ConfigError, match="does not project gradients"):
        kept({"name": "adamw", "rank": 4})


def test_sparse_gradients_alone():
    """SparseAdam is refused with its reason: no parameter of these models has a sparse gradient."""
    with pytest.raises(ConfigError, match=r"sparse-adam.*takes sparse gradients.*adam, adamw-8bit"):
        memcore.estimate({"model": "gpt2", "training": {"optimizer": "sparse-adam"}})


def test_what_factorizes_needs_fp32_and_whole_matrices():
    """One GPU trains in the checkpoint's bf16, eight shard by default: both are refused before anything is asked for."""
    with pytest.raises(UnsupportedError, match="parameters in bf16; it factorizes matrices in fp32"):
        memcore.estimate({"model": "gpt2", "training": {"optimizer": "soap"}})
    with pytest.raises(UnsupportedError, match="plain tensors with DTensors; engine.type ddp does not shard them"):
        memcore.estimate({"model": "gpt2", "training": {"optimizer": "apollo"}, "hardware": {"num_gpus": 8}})


@pytest.mark.parametrize(
    ("framework", "version", "each", "checkpoints"),
    [
        (None, None, 2, "none"),
        ("transformers", "4.57.1", 4, "none"),
        ("transformers", "5.2", 2, "none"),
        ("trl", None, 4, "full"),
    ],
)
def test_what_frameworks_load(framework, version, each, checkpoints):
    """transformers 4 and TRL load in fp32, transformers 5 in the checkpoint's dtype; TRL checkpoints layers."""
    engine = {"type": "none", "framework": framework, "framework_version": version}
    config = {"model": "gpt2", "training": {"sequence_length": 64}, "engine": engine}
    rank = memcore.estimate({**config, "hardware": {"num_gpus": 1}}).ranks[0]
    assert {entry.bytes for entry in rank.initial.entries if entry.module == "transformer.wte.weight"} == {
        50257 * 768 * each
    }
    assert (rank.job.recipe.checkpoints is not None) == (checkpoints == "full")


FOUR = {"type": "fsdp"}, 4, SMALL


def test_shampoo_on_tiles():
    """What Distributed Shampoo keeps of a rank's part of SMALL, as steps of it on four ranks' DTensors showed.

    A packed square for each axis: of 128 x 512 for a square matrix, of 250 x 512 for the ends, and so on; a vector's
    part has one, too. Where they lie is kept for each side, in two rows of int32.
    """

    def packed(*sides):
        return sum(-(-side * (side + 1) // 2 // 128) * 512 for side in sides)

    layer = 2 * packed(128, 512) + 2 * packed(64, 512) + 2 * packed(192, 512) + packed(128, 768) + 2 * packed(128)
    factors = 2 * layer + 2 * packed(250, 512) + packed(128)
    own = -(-ALL_OF_SMALL // 4) * 4
    persistent, states = kept("shampoo", "bf16-mixed", *FOUR)
    resident = dict.fromkeys(("preconditioner", "preconditioner_root", "triangle_indices", "exp_avg"), 0)
    for entry in persistent.resident():
        if entry.rule in resident:
            resident[entry.rule] += entry.bytes
    indices = sum(-(-8 * side * (side + 1) // 2 // 512) * 512 for side in (64, 128, 192, 250, 512, 768))
    assert resident == {
        "preconditioner": factors,
        "preconditioner_root": factors,
        "triangle_indices": indices,
        "exp_avg": own,
    }
    assert states == {}
    assert persistent.states == 2 * factors + indices + own == 30187520
    tile = 4 * (128 * 128 + 768 * 768 + 128 * 768)
    assert persistent.stepping == 2 * own + tile == pytest.approx(12221952, rel=0.05)


def test_soap_on_tiles():
    """Whole bases beside packed squares, second moments in them; a basis' squares when its side is factorized."""
    persistent, _ = kept("soap", "bf16-mixed", *FOUR)
    assert persistent.states == 45755392
    assert persistent.stepping == 6 * 4 * 768 * 768 == pytest.approx(14233600, rel=0.006)
    assert (
        kept("soap", "bf16-mixed", *FOUR)[0].states
        == kept({"name": "soap", "implementation": "distributed-shampoo"}, "bf16-mixed", *FOUR)[0].states
    )


def test_tiles():
    """Of 1500 x 600 there are two, of 2048 numbers two, and a small matrix is one vector."""
    tiles = Factors(((1500,), (600,)), 1024, 1)
    assert tiles.sides({}) == {1024, 476, 600}
    assert tiles.value({}) == 524800 + 113526 + 2 * 180300
    assert Factors(((2048,),), 1024, 1).value({}) == 2 * 524800
    assert Factors(((8,), (1,), (100,)), 1024, 1, packed=False).value({}) == 800 * 800
    assert Factors(((16,), (100,)), 1024, 1, packed=False).value({}) == 16 * 16 + 100 * 100


def test_galore_on_dtensors():
    """More rows than columns: moments of a rank's rows; else each rank has all of them. Every rank has the vectors.

    Counted on four ranks' DTensors; most is there when the whole gradient of the next layer's first matrix is
    decomposed, beside the root and the update, as a whole, of a matrix with more columns.
    """
    persistent, states = kept("galore", "bf16-mixed", *FOUR)
    rows = (2 * 128 + 2 * 192) * 128
    wide = 128 * (2 * 512 + 768)
    moment = 4 * 2 * (rows + wide) + ENDS_OF_SMALL + NORMS_OF_SMALL
    square = 4 * 2 * (5 * SQUARE + 2 * 256 * 256)
    assert states == {"exp_avg": moment, "exp_avg_sq": moment, "projection": square}
    assert persistent.states == 2 * moment + square == 18568192
    left = 4 * (128 * 768 + 512 * 768)
    assert persistent.stepping == left + 4 * (3 * SQUARE + 512) == 5113856


@pytest.mark.parametrize(
    ("optimizer", "engine", "reason"),
    [
        ("apollo", {"type": "fsdp"}, "projection is a plain tensor"),
        ("galore-8bit", {"type": "fsdp"}, "states are plain tensors"),
        (
            {"name": "soap", "implementation": "for-loop"},
            {"type": "fsdp"},
            "implementation 'distributed-shampoo' steps",
        ),
        ("galore", {"type": "fsdp", "version": 1}, "slices of one flat vector"),
        ("shampoo", {"type": "deepspeed"}, "slices of one flat vector"),
        ({"name": "soap", "implementation": "distributed-shampoo"}, {"type": "ddp"}, "splitting its tiles among ranks"),
    ],
)
def test_what_does_not_step_with_shards(optimizer, engine, reason):
    """Each is refused with what breaks."""
    with pytest.raises(UnsupportedError, match=reason):
        kept(optimizer, "bf16-mixed", engine, 4)
