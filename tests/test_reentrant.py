"""Reentrant checkpoints, and LoRA with frozen first matrices."""

from __future__ import annotations

import pytest

import memcore
from memcore.errors import ConfigError, UnsupportedError
from memcore.model.adapters import trainable

MODEL = {
    "model_type": "llama",
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 6,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "vocab_size": 512,
}
TOKENS = 4096


def rank(reentrant=False, engine=None, gpus=1, **training):
    """A step with full checkpointing."""
    checkpoints = {"policy": "full", "use_reentrant": reentrant}
    settings = {"sequence_length": TOKENS, "precision": "bf16", "activation_checkpointing": checkpoints, **training}
    config = {"model": MODEL, "training": settings, "engine": engine or {}, "hardware": {"num_gpus": gpus}}
    return memcore.estimate(config).ranks[0]


def test_both_forms_keep_the_inputs_of_layers():
    """At the end of the forward pass, and all gradients at the end of the backward pass."""
    old, new = rank(reentrant=True), rank()
    assert old.end_of_forward == new.end_of_forward
    assert old.end_of_backward == new.end_of_backward


def test_the_old_form_runs_the_last_product_again():
    """It does not stop early: the layer's result, 2·h bytes for each token, is there again with its last sum."""
    old, new = (each.peak_of("backward") for each in (rank(reentrant=True), rank()))
    assert 0 < old - new <= 3 * 2 * 1024 * TOKENS


def test_what_the_old_form_cannot():
    """It selects nothing, stops nowhere, and FSDP's hooks around it are not modelled."""
    policy = {"policy": "selective", "use_reentrant": True}
    with pytest.raises(ConfigError, match="run layers again as a whole"):
        rank(activation_checkpointing=policy)
    with pytest.raises(UnsupportedError, match="none or ddp only"):
        rank(reentrant=True, engine={"type": "fsdp"}, gpus=2)


def test_lora_fa_freezes_first_matrices():
    """Only second matrices learn; without dropout their input, of the rank, is all that adapters keep."""
    adapter = {"type": "lora", "rank": 8, "dtype": "bf16", "target_modules": ["q_proj", "v_proj"]}
    usual, frozen = (rank(adapter=adapter, optimizer=each) for each in ("adamw", "lora-fa"))
    assert trainable(frozen.job.share) == 6 * 8 * (1024 + 256)
    assert trainable(usual.job.share) == 6 * 8 * (1024 + 256 + 2 * 1024)
    assert frozen.persistent.states == 6 * 2 * 2 * 8 * (1024 + 256)
    with pytest.raises(ConfigError, match="freezes LoRA's first matrices"):
        rank(optimizer="lora-fa")
