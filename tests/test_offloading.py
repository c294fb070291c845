"""What is kept on the host, and what that saves on the GPU. Bytes worked out by hand."""

from __future__ import annotations

import pytest

import memcore
from memcore.errors import ConfigError

MODEL = {
    "model_type": "llama",
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "vocab_size": 4096,
}
TOKENS = 4 * 1024


def rank(engine=None, gpus=1, **training):
    """One of the ranks."""
    settings = {"sequence_length": 1024, "micro_batch_size": 4, "precision": "bf16", **training}
    found = {"model": MODEL, "training": settings, "engine": {"type": "none", **(engine or {})}}
    return memcore.estimate(found | {"hardware": {"num_gpus": gpus}}).ranks[0]


def test_checkpoints_on_the_host():
    """With full checkpointing layers keep their input, 2·h bytes for each token, and all of them cosines and sines."""
    kept, away = (rank(activation_checkpointing="full", offload=each) for each in ({}, {"activations": "cpu"}))
    assert kept.end_of_forward - away.end_of_forward == 8 * 2 * 512 * TOKENS + 2 * 2 * 64 * 1024
    assert away.end_of_backward == kept.end_of_backward


def test_saved_tensors_on_the_host_come_back_one_by_one():
    """Without checkpoints nothing of a layer stays; the peak of the backward pass is lower, and gradients the same."""
    kept, away = (rank(offload=each) for each in ({}, {"activations": "cpu"}))
    assert away.peak_of("backward") < kept.peak_of("backward")
    assert away.end_of_forward < kept.end_of_forward - 7 * 16 * 512 * TOKENS
    assert away.end_of_backward == kept.end_of_backward


def test_the_optimizer_on_the_host():
    """No states on the GPU and no temporaries of a step; gradients stay."""
    kept, away = (rank(offload=each) for each in ({}, {"optimizer": "cpu"}))
    tensors = 3 + 8 * 9
    assert kept.persistent.states - tensors * 512 == pytest.approx(2 * kept.persistent.parameters, rel=1e-3)
    assert (away.persistent.states, away.persistent.stepping) == (0, 0)
    assert away.persistent.hosted == pytest.approx(2 * kept.persistent.parameters, rel=1e-3)
    assert away.persistent.paged == 0


def test_an_optimizer_in_the_backward_pass_holds_one_gradient():
    """Torchtune's optimizer_in_bwd: when the backward pass ends no gradient is left, and none is clipped."""
    usual, fused = (rank({"optimizer_in_bwd": each}) for each in (False, True))
    assert usual.end_of_backward - fused.end_of_backward == usual.persistent.parameters
    assert fused.persistent.clipping == 0
    with pytest.raises(ConfigError, match="gradients are freed before they can accumulate"):
        rank({"optimizer_in_bwd": True}, gradient_accumulation_steps=2)


def test_an_optimizer_in_fsdps_backward_pass_lets_shards_go():
    """A unit's sharded gradients go when its parameters are updated; nothing is left for the end of the step."""
    adam = {"name": "adamw", "implementation": "foreach"}
    usual, fused = (rank({"type": "fsdp", "optimizer_in_bwd": each}, 2, optimizer=adam) for each in (False, True))
    assert usual.end_of_backward - fused.end_of_backward == usual.persistent.parameters
    assert fused.persistent.stepping == 0 < usual.persistent.stepping
    assert "optimizer_temporary" in {block.rule for block in fused.program.blocks}
    with pytest.raises(ConfigError, match="optimizer_in_bwd"):
        rank({"type": "fsdp", "version": 1, "optimizer_in_bwd": True}, 2)


def test_offloaded_parameters_are_fsdps_offload():
    """`offload.parameters` says what `cpu_offload` says."""
    fsdp = {"type": "fsdp"}
    first, second = rank(fsdp, 2, offload={"parameters": "cpu"}), rank({**fsdp, "cpu_offload": True}, 2)
    assert first.peak.peak == second.peak.peak
    assert first.persistent.parameters == 0
    with pytest.raises(ConfigError, match=r"training\.offload\.parameters"):
        rank(offload={"parameters": "cpu"})


@pytest.mark.parametrize("stage", [2, 3])
def test_checkpoints_on_the_host_with_zero(stage):
    """The inputs of layers go, whoever shards the rest."""
    zero = {"type": "deepspeed", "zero_stage": stage}
    kept, away = (
        rank(zero, 2, precision="bf16-mixed", activation_checkpointing="full", offload=offload).end_of_forward
        for offload in ({}, {"activations": "cpu"})
    )
    assert kept - away == 8 * 2 * 512 * TOKENS + 2 * 2 * 64 * 1024
