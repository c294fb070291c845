"""LitGPT's layers against what its tutorials measured, and what its fused matrices and adapters keep."""

from __future__ import annotations

import pytest

import memcore
from memcore.errors import ConfigError, UnsupportedError
from memcore.layers.litgpt.network import HEAD, TARGETS
from memcore.networks.adapters import trainable as count_trainable

LLAMA = "meta-llama/Llama-2-7b-hf"
PHI = {
    "model_type": "phi",
    "hidden_size": 2048,
    "num_hidden_layers": 24,
    "num_attention_heads": 32,
    "intermediate_size": 8192,
    "vocab_size": 51200,
    "partial_rotary_factor": 0.5,
}
STABLELM = {
    "model_type": "gpt_neox",
    "hidden_size": 4096,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "intermediate_size": 16384,
    "vocab_size": 50688,
    "rotary_pct": 0.25,
}
LORA = {"type": "lora", "rank": 8, "target_modules": ["q_proj", "v_proj"], "dtype": "bf16", "dropout": 0.05}


def found(model, length, batch, quantization=None, adapter=LORA, **engine):
    """The estimate of finetune/lora.py on Alpaca, whose longest sequence is `length` tokens."""
    training = {"sequence_length": length, "micro_batch_size": batch, "gradient_accumulation_steps": 4}
    training |= {"precision": "bf16", "gradient_clipping": False, "attention": "flash", "adapter": adapter}
    if quantization:
        training |= {"quantization": quantization, "optimizer": "paged-adamw"}
    settings = {"type": "none", "framework": "lit-gpt", "lm_head_chunk_size": 128, **engine}
    hardware = {"accelerator": "a100-sxm-40gb", "num_gpus": 1}
    return memcore.estimate({"model": model, "training": training, "engine": settings, "hardware": hardware})


@pytest.mark.parametrize(
    ("model", "length", "batch", "quantization", "gigabytes"),
    [
        (LLAMA, 1304, 1, None, 21.30),
        (LLAMA, 1304, 2, None, 29.07),
        (LLAMA, 1304, 1, "nf4", 14.14),
        (LLAMA, 1304, 1, "nf4-double", 13.84),
        (PHI, 1044, 1, None, 4.82),
        (PHI, 1044, 4, None, 10.68),
        (PHI, 1044, 1, "nf4", 3.78),
        (STABLELM, 1034, 2, None, 12.10),
        (STABLELM, 1034, 4, None, 16.92),
        (STABLELM, 1034, 1, "nf4-double", 6.19),
    ],
)
def test_what_litgpt_measured(model, length, batch, quantization, gigabytes):
    """`torch.cuda.max_memory_allocated` on an A100, from tutorials/finetune_lora.md and resource-tables.md."""
    assert found(model, length, batch, quantization).allocated.expected == pytest.approx(gigabytes * 1e9, rel=0.007)


EVERYWHERE = {**LORA, "target_modules": [*TARGETS, HEAD]}


@pytest.mark.parametrize(
    ("model", "batch", "adapter", "gigabytes"),
    [
        ("tiiuae/falcon-7b", 1, {**LORA, "rank": 32}, 16.69),
        ("google/gemma-2b", 2, {**EVERYWHERE, "dropout": 0.1}, 12.62),
        ("microsoft/phi-2", 4, EVERYWHERE, 13.98),
    ],
    ids=lambda said: said.rpartition("/")[2] if isinstance(said, str) else "",
)
def test_what_its_config_hub_measured(model, batch, adapter, gigabytes):
    """One norm for both parts of a layer; norms with 1 + w, scaled embeddings; an adapter on the head.

    Source: config_hub/finetune/README.md, `lora.yaml` of each on an A10G.
    """
    assert found(model, 512, batch, adapter=adapter).allocated.expected == pytest.approx(gigabytes * 1e9, rel=0.01)


@pytest.mark.parametrize(
    ("model", "length", "quantization", "version", "trainable", "gigabytes"),
    [
        (STABLELM, 1034, None, "llama-adapter", 573_888, 9.10),
        (STABLELM, 1034, "nf4", "llama-adapter", 573_888, 5.65),
        (STABLELM, 1034, "nf4-double", "llama-adapter", 573_888, 5.48),
        (LLAMA, 1304, None, "llama-adapter", 1_229_760, 19.98),
        (LLAMA, 1304, "nf4", "llama-adapter", 1_229_760, 12.68),
        (STABLELM, 1034, None, "llama-adapter-v2", 2_125_248, 10.71),
        (STABLELM, 1034, "nf4", "llama-adapter-v2", 2_125_248, 7.41),
        (LLAMA, 1304, None, "llama-adapter-v2", 4_279_744, 25.51),
        (LLAMA, 1304, "nf4", "llama-adapter-v2", 4_279_744, 18.30),
        (LLAMA, 1304, "nf4-double", "llama-adapter-v2", 4_279_744, 17.98),
    ],
)
def test_learned_tokens(model, length, quantization, version, trainable, gigabytes):
    """LLaMA-Adapter: parameters and peaks of tutorials/resource-tables.md (0f021f3a)."""
    one = found(model, length, 1, quantization, adapter=version)
    assert count_trainable(one.job.share) == trainable
    assert one.allocated.expected == pytest.approx(gigabytes * 1e9, rel=0.005)


def test_learned_tokens_are_litgpts():
    """Transformers' layers have none of them yet, and they have no rank."""
    with pytest.raises(UnsupportedError, match="supported only with LitGPT's layers"):
        memcore.estimate({"model": LLAMA, "training": {"adapter": "llama-adapter"}})
    with pytest.raises(ConfigError, match="llama-adapter has no rank"):
        found(LLAMA, 128, 1, adapter={"type": "llama-adapter", "rank": 8})


def test_adapters_of_a_fused_matrix_share_the_first_one():
    """Queries and values: one matrix of twice the rank, and one over both of their heads."""
    entries = found(LLAMA, 1304, 1).ranks[0].initial.entries
    shapes = {entry.module.split(".")[-3]: entry.each for entry in entries if ".lora_" in entry.module}
    assert shapes == {"lora_A": 2 * 16 * 4096, "lora_B": 2 * 8192 * 8}


def test_what_litgpt_cannot_express():
    """Its targets have names of their own, and its layers are attention and a dense feed-forward layer."""
    with pytest.raises(ConfigError, match="LitGPT supports q_proj"):
        found(LLAMA, 128, 1, adapter={**LORA, "target_modules": "query_key_value"})
    with pytest.raises(UnsupportedError, match="LitGPT's layers need"):
        found("mistralai/Mixtral-8x7B-v0.1", 128, 1)
