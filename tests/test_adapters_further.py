"""Further adapters of PEFT: what each adds, and what each keeps for its backward pass. Worked out by hand."""

from __future__ import annotations

import pytest

import memcore
from memcore.errors import ConfigError, UnsupportedError
from memcore.model.adapters import trainable

MODEL = {
    "model_type": "llama",
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 2,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "vocab_size": 4096,
}
TARGETS = ["q_proj", "v_proj"]
INNER, OUTER = 1024, (1024, 256)
TOKENS = 512


def rank(kind, **adapter):
    """A step in bf16 with adapters in fp32."""
    settings = {"type": kind, "dtype": "fp32", **adapter}
    if kind != "ln-tuning":
        settings.setdefault("target_modules", TARGETS)
    training = {"sequence_length": TOKENS, "precision": "bf16", "adapter": settings}
    return memcore.estimate({"model": MODEL, "training": training}).ranks[0]


@pytest.mark.parametrize(
    ("kind", "settings", "each"),
    [
        ("lora", {"rank": 4}, lambda out: 4 * (INNER + out)),
        ("dora", {"rank": 4}, lambda out: 4 * (INNER + out) + out),
        ("adalora", {"init_r": 12}, lambda out: 12 * (INNER + out) + 12),
        ("vera", {"rank": 256}, lambda out: out + 256),
        ("loha", {"rank": 8}, lambda out: 2 * 8 * (INNER + out)),
        ("miss", {"rank": 64}, lambda out: 64 * out),
        ("ia3", {}, lambda out: out),
    ],
)
def test_trained_parameters(kind, settings, each):
    """As peft/tuners names and shapes them."""
    found = rank(kind, **settings)
    assert trainable(found.job.share) == 2 * sum(each(out) for out in OUTER)


def test_ia3_scales_the_input_of_the_last_matrix():
    """For a feed-forward layer's last matrix a factor for each element that goes in."""
    assert trainable(rank("ia3", target_modules="down_proj").job.share) == 2 * 2816


def test_ln_tuning_trains_the_norms():
    """Two in each layer, and the last one."""
    assert trainable(rank("ln-tuning").job.share) == 5 * 1024


def test_veras_frozen_matrices_are_there_once():
    """As large as the largest layer needs, in fp32."""
    buffers = [entry for entry in rank("vera", rank=256).initial.entries if entry.rule == "shared_adapter"]
    assert [entry.bytes for entry in buffers] == [4 * 256 * 1024, 4 * 1024 * 256]


def kept(kind, **adapter):
    """Bytes that layers keep for the backward pass."""
    found = rank(kind, **adapter)
    return found.end_of_forward - found.persistent.before_step


def test_dense_deltas_and_magnitudes_are_kept():
    """LoHa keeps a dense fp32 matrix for each target, but in the first layer, whose input needs no gradient.

    DoRA keeps the base's and the adapter's result, in bf16 and fp32.
    """
    lora = kept("lora", rank=8)
    dense = sum(4 * INNER * out for out in OUTER)
    assert kept("loha", rank=8) - lora == pytest.approx(dense, rel=0.02)
    results = 2 * sum((2 + 4) * out for out in OUTER) * TOKENS
    assert kept("dora", rank=8) - lora == pytest.approx(results, rel=0.02)


def test_dora_makes_the_whole_weight():
    """An identity as large as the square of the input, the weight in fp32, its adapter, and their sum."""
    made = {block.rule for block in rank("dora").program.blocks}
    assert {"eye", "norm"} <= made


def test_what_adapters_do_not_have():
    """IA3 has no rank, only AdaLoRA begins with one; beside quantized weights only low-rank matrices are modelled."""
    with pytest.raises(ConfigError, match="ia3 has no rank"):
        rank("ia3", rank=8)
    with pytest.raises(ConfigError, match="applies to adalora"):
        rank("lora", init_r=8)
    quantized = {"model": MODEL, "training": {"adapter": {"type": "vera"}, "quantization": "nf4"}}
    with pytest.raises(UnsupportedError, match="beside unquantized layers"):
        memcore.estimate(quantized)
    with pytest.raises(ConfigError, match=r"training\.adapter\.type"):
        rank("tinylora")


@pytest.mark.parametrize(("kind", "count"), [("prompt-tuning", 20 * 1024), ("p-tuning", 20 * 1024 + 3 * 1024 * 1025)])
def test_tokens_before_the_sequence(kind, count):
    """A row for each token, or a network that makes them; the whole sequence is longer, and every layer keeps it."""
    settings = {"type": kind, "dtype": "fp32", "num_virtual_tokens": 20}
    training = {"sequence_length": TOKENS, "precision": "bf16", "adapter": settings}
    found = memcore.estimate({"model": MODEL, "training": training}).ranks[0]
    assert trainable(found.job.share) == count
    assert found.job.sizes["s"] == TOKENS + 20
    assert found.end_of_backward - found.persistent.before_step == pytest.approx(4 * count, abs=512 * 16)
    with pytest.raises(ConfigError, match="has none"):
        rank(kind, num_virtual_tokens=20)
