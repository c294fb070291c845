"""Reentrant checkpoints, and LoRA with frozen first matrices."""

from __future__ import annotations

import pytest

import memcore
from memcore.errors import ConfigError
from memcore.networks.adapters import trainable

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
    """A step with full checkpointing; DeepSpeed calls 16-bit parameters with fp32 copies bf16-mixed."""
    checkpoints = {"policy": "full", "use_reentrant": reentrant}
    precision = "bf16-mixed" if engine and engine["type"] == "deepspeed" else "bf16"
    settings = {"sequence_length": TOKENS, "precision": precision, "activation_checkpointing": checkpoints, **training}
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


ENGINES = [
    {"type": "fsdp"},
    {"type": "fsdp", "version": 1},
    *({"type": "deepspeed", "zero_stage": stage} for stage in range(4)),
]


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: " ".join(map(str, engine.values())))
def test_engines_keep_their_hooks_outside(engine):
    """transformers checkpoints `forward`, below the hooks of modules: only the layer's result is there once more."""
    old, new = (rank(reentrant=each, engine=engine, gpus=4) for each in (True, False))
    assert old.end_of_forward == new.end_of_forward
    assert old.end_of_backward == new.end_of_backward
    assert old.peak_of("backward") - new.peak_of("backward") == 2 * 1024 * TOKENS


def beside(found, rule):
    """Bytes of what runs again that lie beside the first block of a rule of the last layer."""
    program, live = found.program, set()
    sizes = program.block_sizes(found.job.sizes)
    for event in program.events:
        if event < 0:
            live.discard(~event)
        elif program.blocks[event].rule == rule and program.blocks[event].module:
            return sum(sizes[block] for block in live if program.blocks[block].recomputed)
        else:
            live.add(event)
    raise AssertionError(rule)


def test_fsdp1_reduces_within_the_checkpoint():
    """A flat gradient ends the checkpoint's own backward pass, whose result is still there; outside, nothing is."""
    old, new = (rank(reentrant=each, engine={"type": "fsdp", "version": 1}, gpus=4) for each in (True, False))
    assert beside(old, "flat_gradient") - beside(new, "flat_gradient") == 2 * 1024 * TOKENS


def test_what_the_old_form_cannot():
    """It selects nothing and stops nowhere, and some engines have checkpoints of their own."""
    policy = {"policy": "selective", "use_reentrant": True}
    with pytest.raises(ConfigError, match="recomputes whole layers"):
        rank(activation_checkpointing=policy)
    with pytest.raises(ConfigError, match="has its own checkpointing"):
        rank(reentrant=True, engine={"type": "nanotron"}, gpus=2)


def test_keys_of_other_layers():
    """A layer without a checkpoint has a graph of its keys, through which the first of those that share them goes."""
    gemma = {"model_type": "gemma3n_text", "num_hidden_layers": 10, "num_kv_shared_layers": 4, "vocab_size": 512}
    for every, refused in ((1, False), (2, True)):
        policy = {"policy": "selective", "every": every, "use_reentrant": True}
        training = {"sequence_length": 128, "precision": "bf16", "activation_checkpointing": policy}
        config = {"model": gemma, "training": training, "engine": {"type": "none"}}
        if refused:
            with pytest.raises(ConfigError, match="backward through that graph only once"):
                memcore.estimate(config)
        else:
            assert memcore.estimate(config).rank.peak.peak > 0


def test_lora_fa_freezes_first_matrices():
    """Only second matrices learn; without dropout their input, of the rank, is all that adapters keep."""
    adapter = {"type": "lora", "rank": 8, "dtype": "bf16", "target_modules": ["q_proj", "v_proj"]}
    usual, frozen = (rank(adapter=adapter, optimizer=each) for each in ("adamw", "lora-fa"))
    assert trainable(frozen.job.share) == 6 * 8 * (1024 + 256)
    assert trainable(usual.job.share) == 6 * 8 * (1024 + 256 + 2 * 1024)
    assert frozen.persistent.states == 6 * 2 * 2 * 8 * (1024 + 256)
    with pytest.raises(ConfigError, match="freezes LoRA's first matrices"):
        rank(optimizer="lora-fa")
