"""Tiled feed-forward layers, checkpoints on the host, and all-gathers without a limit."""

import pytest

from memcore.errors import ConfigError, UnsupportedError
from memcore.estimation import estimate
from memcore.units import GiB

LLAMA = {"model_type": "llama", "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336,
         "num_hidden_layers": 8, "num_attention_heads": 32, "num_key_value_heads": 8}  # fmt: skip


def job(engine=None, parallelism=None, gpus=1, model=LLAMA, **training):
    """A long sequence with full checkpoints."""
    usual = {"sequence_length": 65536, "precision": "bf16", "attention": "flash", "loss": "fused-linear",
             "activation_checkpointing": "full", "implementation": "liger", "optimizer": "sgd"}  # fmt: skip
    return estimate({
        "model": model, "training": {**usual, **training}, "engine": {"type": "none", **(engine or {})},
        "parallelism": parallelism or {}, "hardware": {"accelerator": "h200-sxm-141gb", "num_gpus": gpus},
    })  # fmt: skip


def test_tiles_leave_no_tensor_of_the_feed_forward_width():
    """Four tensors of the whole sequence's width become four of a tile's."""
    whole, tiled = job(), job(tiled_mlp=True)
    wide = 65536 * 14336 * 2
    assert tiled.job.sizes["tm"] == 16
    assert whole.peak.peak - tiled.peak.peak > 2 * wide
    assert all(each.each < wide for each in tiled.ledger.entries)


@pytest.mark.parametrize(("tiles", "framework", "count"), [(True, None, 16), (4, None, 4), (True, "axolotl", 2)])
def test_the_number_of_tiles(tiles, framework, count):
    """As many tokens as the hidden size, a number, or what a framework takes."""
    assert job({"framework": framework} if framework else None, tiled_mlp=tiles).job.sizes["tm"] == count


def test_gradients_of_tiles_add_up():
    """From the second tile on a matrix's gradient is there while the next one is computed."""
    assert job(tiled_mlp=2, sequence_length=8192).peak.peak > job(tiled_mlp=8, sequence_length=8192).peak.peak


@pytest.mark.parametrize(
    ("training", "error"),
    [
        ({"compile": True, "implementation": "transformers"}, ConfigError),
        ({"implementation": "torchtitan", "loss": "cross-entropy"}, ConfigError),
    ],
)
def test_what_is_not_tiled(training, error):
    """Compiled blocks and other code."""
    with pytest.raises(error, match="tiled_mlp"):
        job(tiled_mlp=True, **training)


def test_experts_are_not_tiled():
    """Nor are layers without a gate."""
    with pytest.raises(UnsupportedError, match="tiled_mlp"):
        job(tiled_mlp=True, implementation="transformers", loss="cross-entropy", model="gpt2", sequence_length=1024)


def test_checkpoints_of_zero_on_the_host():
    """What checkpoints keep goes; the newest stay."""
    zero = {"type": "deepspeed", "zero_stage": 3}
    here, there = (job({**zero, "cpu_checkpointing": hosted}, precision="bf16-mixed") for hosted in (False, True))
    assert here.peak.peak - there.peak.peak > 4 * 65536 * 4096 * 2
    with pytest.raises(ConfigError, match="activation_checkpointing"):
        job({**zero, "cpu_checkpointing": True}, precision="bf16-mixed", activation_checkpointing="none")


def test_all_gathers_without_a_limit():
    """Tensors are the same; freed units stay reserved until the GPU has read them."""
    fsdp = {"type": "fsdp", "version": 1}
    few, many = (
        job({**fsdp, "limit_all_gathers": limit}, {"data_parallel_size": 4}, 4, precision="bf16", sequence_length=4096)
        for limit in (True, False)
    )
    assert few.allocated.expected == many.allocated.expected
    assert few.reserved.expected + GiB < many.reserved.expected


def test_layers_are_no_units_of_zero():
    """With the checkpoints of an early transformers, ZeRO-3's layers hold what one layer needs, not all.

    Apart from that each of the eight holds its rotary frequencies: 64 numbers of 32 bits, in a block of 512 bytes.
    """
    zero = {"type": "deepspeed", "zero_stage": 3, "framework": "transformers"}
    early, late = (
        job({**zero, "framework_version": version}, precision="bf16-mixed", implementation="transformers",
            sequence_length=4096, activation_checkpointing={"policy": "full", "use_reentrant": True})
        for version in ("4.35", "4.57")
    )  # fmt: skip
    assert early.rank.peak_of("backward") == late.rank.peak_of("backward") + 8 * 512
