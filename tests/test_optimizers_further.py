"""Muon and optimizers of other libraries: states and temporaries, worked out by hand."""

from __future__ import annotations

import pytest

import memcore
from memcore.errors import UnsupportedError

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


def kept(optimizer, precision="fp32", engine=None, gpus=1):
    """What a rank keeps, and its states by rule."""
    training = {"sequence_length": 64, "precision": precision, "optimizer": optimizer}
    engine = engine or {"type": "none", "framework": "torchtune"}
    config = {"model": MODEL, "training": training, "engine": engine, "hardware": {"num_gpus": gpus}}
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


def test_muon_needs_whole_matrices():
    """Under FSDP its step gathers in ways that are not modelled."""
    with pytest.raises(UnsupportedError, match="needs whole matrices"):
        kept("muon", engine={"type": "fsdp"}, gpus=2)


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
