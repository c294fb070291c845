"""FSDP1: flat parameters, and what mixing frozen and trained ones in a unit costs. Bytes worked out by hand."""

from __future__ import annotations

import pytest

import memcore
from memcore.errors import ConfigError
from memcore.trainers.pytorch.fsdp1 import Fsdp1

MODEL = {
    "model_type": "llama",
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "vocab_size": 8192,
}
LAYER = 4 * 512 * 512 + 3 * 512 * 1024 + 2 * 512
ROOT = 2 * 8192 * 512 + 512


def rank(precision="bf16", adapter=None, steps=1, gpus=2, model=MODEL, **engine):
    """One of the ranks of a job with full checkpointing."""
    training = {"sequence_length": 128, "precision": precision, "activation_checkpointing": "full"}
    training |= {"gradient_accumulation_steps": steps, "optimizer": "sgd"} | ({"adapter": adapter} if adapter else {})
    settings = {"type": "fsdp", "version": 1, **engine}
    config = {"model": model, "training": training, "engine": settings, "hardware": {"num_gpus": gpus}}
    return memcore.estimate(config).ranks[0]


def largest(found, rule, module=None):
    """Bytes of the largest block that a rule allocates."""
    sizes = found.program.block_sizes(found.job.sizes)
    blocks = zip(found.program.blocks, sizes, strict=True)
    return max((size for block, size in blocks if block.rule == rule and module in (None, block.module)), default=0)


def test_a_unit_is_gathered_in_one_piece():
    """A layer and the root each have one unsharded tensor, with no all-gather output beside it."""
    found = rank()
    assert largest(found, "unsharded_parameter", "model.layers.*") == 2 * LAYER
    assert largest(found, "unsharded_parameter", "") == 2 * ROOT
    assert largest(found, "all_gather_output") == 0
    assert found.persistent.parameters == sum(
        entry.bytes for entry in found.initial.entries if entry.rule == "parameter"
    )
    assert abs(found.persistent.parameters - (4 * LAYER + ROOT)) < 512 * 60


def test_gradients_of_a_unit_are_concatenated():
    """`torch.split`'s backward pass makes one flat gradient; reduced, each rank keeps its half."""
    found = rank()
    assert largest(found, "flat_gradient", "model.layers.*") == 2 * LAYER
    assert largest(found, "sharded_gradient", "model.layers.*") == LAYER
    mixed = rank("bf16-mixed")
    assert largest(mixed, "reduce_scatter_input", "model.layers.*") == 4 * LAYER
    assert largest(mixed, "all_gather_input", "model.layers.*") == LAYER


def test_mixing_frozen_and_trained_parameters_costs_their_gradients():
    """With use_orig_params a frozen layer gets gradients with its adapters; without, adapters are units of their own."""
    lora = {"type": "lora", "rank": 8, "dtype": "bf16", "target_modules": "q_proj"}
    adapters = 2 * 8 * 512
    mixed, uniform = (rank(adapter=lora, use_orig_params=each) for each in (True, False))
    assert largest(mixed, "flat_gradient", "model.layers.*") == 2 * (LAYER + adapters)
    assert largest(uniform, "flat_gradient") == 2 * adapters


def test_without_communication_gradients_stay_whole():
    """Under no_sync each unit's flat gradient stays until the last micro-batch: of every layer, on every rank."""
    kept = rank(steps=4, no_sync=True).end_of_backward, rank(steps=4).end_of_backward
    whole = rank(steps=4, no_sync=True)
    first = [moment for moment in whole.moments if moment.turn == (0, 0)]
    assert first[-1].end - whole.persistent.before_step >= 2 * (4 * LAYER + ROOT)
    assert abs(kept[0] - kept[1]) < 512 * 20


def test_prefetching_holds_two_units():
    """BACKWARD_PRE gathers the layer before while one runs."""
    peaks = []
    for each in ("pre", "none"):
        moments = rank(backward_prefetch=each).moments
        peaks.append(next(moment.peak for moment in moments if (moment.phase, moment.place) == ("backward", "0.2.0")))
    assert peaks[0] - peaks[1] == 2 * LAYER


def test_a_freed_unit_is_read_until_the_one_after_the_next_is_gathered(monkeypatch):
    """Kernels still read one freed unit when the next is gathered, and the reducing stream two flat gradients."""
    wide = {**MODEL, "hidden_size": 2048, "intermediate_size": 8192}
    layer = 2 * (4 * 2048 * 2048 + 3 * 2048 * 8192 + 2 * 2048)
    held = []
    for pending in ({}, {"unsharded_parameter": 1}, {"unsharded_parameter": 1, "flat_gradient": 2}):
        monkeypatch.setattr(Fsdp1, "pending", pending)
        held.append(rank(model=wide).reserved)
    assert held[1] - held[0] == pytest.approx(layer, rel=0.02)
    assert held[2] - held[1] == pytest.approx(2 * layer, rel=0.02)


def test_offloaded_shards_pass_through_the_gpu():
    """CPU offload keeps nothing on the GPU but what runs."""
    found = rank(cpu_offload=True)
    assert found.persistent.parameters == 0
    assert largest(found, "all_gather_input", "model.layers.*") == LAYER


def test_what_is_not_resharded_after_the_forward_pass():
    """`SHARD_GRAD_OP`: every layer's parameters stay from its forward to its backward pass."""
    found = [rank(reshard_after_forward=each).reserved for each in (True, False)]
    assert found[1] > found[0]


def test_settings_belong_to_a_version():
    """What only one version has is refused with the other."""
    with pytest.raises(ConfigError, match=r"engine\.reshard_after_forward: applies to engine\.version 2"):
        rank(reshard_after_forward=2)
    with pytest.raises(ConfigError, match=r"engine\.use_orig_params: applies to engine\.version 1"):
        memcore.estimate(
            {"model": MODEL, "engine": {"type": "fsdp", "use_orig_params": True}, "hardware": {"num_gpus": 2}}
        )
    with pytest.raises(ConfigError, match=r"engine\.version: found 1"):
        memcore.estimate({"model": MODEL, "engine": {"type": "ddp", "version": 1}, "hardware": {"num_gpus": 2}})
