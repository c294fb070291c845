"""Liger's kernels, and Unsloth's: what a layer keeps for each token, worked out from what each kernel saves."""

from __future__ import annotations

import pytest

import memcore
from memcore.errors import MemcoreError, UnsupportedError

H, F, A, K, D = 1024, 2816, 16, 4, 64
MODEL = {
    "model_type": "llama",
    "hidden_size": H,
    "intermediate_size": F,
    "num_attention_heads": A,
    "num_key_value_heads": K,
    "vocab_size": 4096,
}
TOKENS = 1024


def kept(implementation, layers, kernels=None):
    """Bytes at the end of the forward pass."""
    training = {"sequence_length": TOKENS, "precision": "bf16", "implementation": implementation}
    training |= {"liger_kernels": kernels} if kernels else {}
    rank = memcore.estimate({"model": {**MODEL, "num_hidden_layers": layers}, "training": training}).ranks[0]
    return rank.end_of_forward - rank.persistent.before_step


@pytest.mark.parametrize(
    ("implementation", "each"),
    [
        ("transformers", 16 * H + 8 + 4 * A * D + 4 * K * D + 4 * A + 8 * F),
        ("liger", 8 * H + 8 + 4 * A * D + 4 * K * D + 4 * A + 6 * F),
    ],
)
def test_what_a_layer_keeps(implementation, each):
    """A norm its input and its result instead of three more; the gate and the product instead of a result between."""
    assert (kept(implementation, 6) - kept(implementation, 5)) / TOKENS == pytest.approx(each, rel=1e-3)


def test_autocast_casts_the_head_of_the_fused_loss():
    """A frozen head in fp32, as large as the embedding, is also there in 16 bits while a chunk is multiplied with it."""
    peaks = []
    for words in (32768, 65536):
        training = {"sequence_length": TOKENS, "precision": "bf16-autocast", "implementation": "liger",
                    "loss": "fused-linear", "adapter": {"type": "lora", "rank": 8}}  # fmt: skip
        model = {**MODEL, "num_hidden_layers": 1, "vocab_size": words, "tie_word_embeddings": False}
        found = memcore.estimate({"model": model, "training": training})
        peaks.append(max(each.peak for each in found.moments if each.phase == "loss"))
    assert peaks[1] - peaks[0] == (4 + 4 + 2) * 32768 * H


def test_families_that_liger_does_not_patch():
    """Its kernels need Llama's kind of layer."""
    with pytest.raises(UnsupportedError, match="Liger's kernels need"):
        memcore.estimate({"model": "gpt2", "training": {"implementation": "liger"}})


def test_a_compiled_chunked_loss_upcasts_nothing():
    """torchtune compiles chunks of the loss, which keep logits in bf16 instead of log-probabilities in fp32."""
    peaks = []
    for named in ({"framework": "torchtune"}, {}):
        training = {"sequence_length": TOKENS, "precision": "bf16", "loss": "chunked:8", "compile": True}
        engine = {"type": "none", **named}
        config = {"model": {**MODEL, "num_hidden_layers": 2}, "training": training, "engine": engine}
        peaks.append(memcore.estimate(config).ranks[0].end_of_forward)
    assert peaks[1] - peaks[0] == pytest.approx(2 * 4096 * TOKENS, rel=0.01)


def test_a_head_in_chunks_of_the_vocabulary():
    """prime-rl's has a chunk's logits twice, their probabilities and gradients while the next one's replace them.

    A chunk has 8,192 words and, since March 2026, 1,024 tokens.
    """
    training = {"sequence_length": 16 * TOKENS, "precision": "bf16", "loss": "fused-head"}
    config = {"model": {**MODEL, "num_hidden_layers": 1, "vocab_size": 16384}, "training": training}
    found = memcore.estimate({**config, "engine": {"type": "none", "framework": "prime-rl"}}).ranks[0]
    chunks = [
        entry
        for moment in found.moments
        if moment.place == "gradient of the loss"
        for entry in found.ledger(moment).entries
        if entry.rule == "fused_head_chunk"
    ]
    assert sum(entry.bytes for entry in chunks) == (2 + 5 * 4) * 1024 * 8192


LORA = {"type": "lora", "rank": 8, "target_modules": "all-linear", "dtype": "fp32"}


def with_lora(layers=6, engine="none", gpus=1, **training):
    """An estimate with Unsloth's layers."""
    settings = {"sequence_length": TOKENS, "precision": "bf16", "implementation": "unsloth", "adapter": LORA}
    model, job = {**MODEL, "num_hidden_layers": layers}, {**settings, **training}
    return memcore.estimate(
        {"model": model, "training": job, "engine": {"type": engine}, "hardware": {"num_gpus": gpus}}
    )


def test_unsloth_keeps_an_input_once():
    """Norms keep input and result, which queries, keys and values share; of the feed-forward layer gate and up stay."""
    five, six = (
        rank.end_of_forward - rank.persistent.before_step for rank in (with_lora(each).rank for each in (5, 6))
    )
    assert (six - five) / TOKENS == pytest.approx(8 * H + 8 + 4 * A * D + 4 * K * D + 4 * A + 4 * F, rel=1e-3)


def test_unsloths_loss_makes_no_logits_in_fp32():
    """It is fused with the head where a job names no other: logits are in 16 bits, as many as a target allows."""
    fused, plain = with_lora(), with_lora(loss="cross-entropy-fp32")
    assert plain.rank.peak.peak - fused.rank.peak.peak > TOKENS * 4096 * 4
    assert fused.job.recipe.loss.kind == "fused-linear"


@pytest.mark.parametrize(
    ("version", "gpu", "tokens", "kind", "at_once"),
    [
        ("2024.8", None, 16384, "fused-linear", 16384),  # logits in 16 bits, whole
        ("2025.3.15", None, 16384, "cut-cross-entropy", None),
        ("2025.3.15", None, 1024, "fused-linear", 1024),  # as before where tokens are few
        ("2025.8.5", None, 16384, "fused-linear", 2048),  # 7.8 GiB in fp32: eight parts for a target of 1 GiB
        ("2025.11.3", 24, 16384, "fused-linear", 16384),  # half of what is free
        ("2026.7.2", None, 16384, "fused-linear", 4096),  # at most 4 GiB, so four parts
        ("2026.7.2", None, 8192, "fused-linear", 8192),
        ("2026.7.2", 18, 8192, "fused-linear", 2048),
    ],
)
def test_unsloths_losses_by_release(version, gpu, tokens, kind, at_once):
    """How many rows of logits exist at once (`get_chunk_size`): Llama 3's are 513 KB in fp32 for a token."""
    job = memcore.estimate(
        {
            "model": "llama-3.1-8b",
            "training": {"sequence_length": tokens, "precision": "bf16", "implementation": "unsloth", "adapter": LORA},
            "engine": {"framework": "unsloth", "framework_version": version},
            "hardware": {} if gpu is None else {"gpu_memory_gb": gpu},
        }
    ).job
    assert job.recipe.loss.kind == kind
    if at_once is not None:
        assert job.sizes["lc"] == at_once


def test_unsloths_attention_of_gemma_3_has_all_scores():
    """Releases that share heads under a mask, for which PyTorch has no fused kernel: 8 heads by 8,192², in fp32."""
    found = [
        memcore.estimate(
            {
                "model": "google/gemma-3-4b-it",
                "training": {"sequence_length": 8192, "precision": "bf16", "implementation": "unsloth",
                             "adapter": LORA, "activation_checkpointing": "full"},
                "engine": {"framework": "unsloth", "framework_version": version},
            }
        )
        for version in ("2025.3.3", "2025.4.1", "2025.11.3", "2026.3.1")
    ]  # fmt: skip
    assert [each.job.recipe.heads_as.grouped for each in found] == [False, True, True, False]
    assert found[1].rank.peak.peak - found[0].rank.peak.peak > 2 * 8 * 8192**2 * 4


def test_layers_that_unsloth_leaves_alone():
    """With dropout before the adapter its functions are not taken: inputs are kept in fp32, too."""
    alone = with_lora(adapter={**LORA, "dropout": 0.1}).rank.end_of_forward
    assert alone > with_lora().rank.end_of_forward + 6 * 3 * 4 * H * TOKENS


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"adapter": {"type": "dora"}}, "supported only on transformers layers"),
        ({"engine": "fsdp", "gpus": 2}, "none or ddp"),
    ],
)
def test_what_unsloth_does_not_do(changes, said):
    """It has no functions for other adapters, and FSDP is not supported."""
    with pytest.raises(MemcoreError, match=said):
        with_lora(**changes)


@pytest.mark.parametrize(
    ("kernels", "each"),
    [
        (["rms_norm", "rope"], 8 * H + 8 + 4 * A * D + 4 * K * D + 4 * A + 8 * F),
        ("swiglu", 16 * H + 8 + 4 * A * D + 4 * K * D + 4 * A + 6 * F),
    ],
)
def test_each_kernel_can_be_left_out(kernels, each):
    """FMS Acceleration has Liger's norms and rotation without its activation; axolotl and transformers ask for each."""
    assert (kept("liger", 6, kernels) - kept("liger", 5, kernels)) / TOKENS == pytest.approx(each, rel=1e-3)


@pytest.mark.parametrize(
    ("changes", "engine", "words"),
    [
        ({"implementation": "transformers"}, "none", "needs training.implementation 'liger'"),
        ({"implementation": "liger", "liger_kernels": "geglu"}, "none", "allowed: rms_norm, rope, swiglu"),
        ({}, "megatron", "training.liger_kernels"),
        ({}, "nanotron", "training.liger_kernels"),
        ({}, "megatron-deepspeed", "training.liger_kernels"),
    ],
)
def test_kernels_without_liger(changes, engine, words):
    """They are Liger's, and no other layers have them."""
    training = {"sequence_length": TOKENS, "liger_kernels": "rope", **changes}
    with pytest.raises(MemcoreError, match=words):
        memcore.estimate({"model": "meta-llama/Llama-2-7b-hf", "training": training, "engine": {"type": engine}})


def test_a_full_fine_tune_of_unsloth_is_said_to_be_like_liger():
    """unsloth/models/loader.py, `full_finetuning`: unsloth_zoo compiles the layers, whose kernels are fused."""
    found = with_lora(adapter=None)
    assert any("unsloth_zoo" in str(each.reason) for each in found.job.assumptions)


EXPERTS, MIDDLE, CHOSEN, W = 8, 256, 4, 512
GPT_OSS = {
    "model_type": "gpt_oss",
    "hidden_size": W,
    "intermediate_size": MIDDLE,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 4096,
    "num_local_experts": EXPERTS,
    "num_experts_per_tok": CHOSEN,
    "sliding_window": 128,
}


def of_gpt_oss(layers, tokens, **training):
    settings = {"sequence_length": tokens, "precision": "bf16", "implementation": "unsloth", "adapter": LORA}
    model, job = {**GPT_OSS, "num_hidden_layers": layers}, {**settings, "quantization": "nf4", **training}
    return memcore.estimate({"model": model, "training": job}).rank


def test_unsloth_splits_the_experts_of_gpt_oss_to_quantize_them():
    """Matrices of experts have half a byte; biases, the router, norms and sinks two, LoRA's matrices four."""
    two, four = (of_gpt_oss(layers, TOKENS).persistent.parameters for layers in (2, 4))
    matrices = EXPERTS * 3 * MIDDLE * W + 2 * W * W + 2 * W * 128
    others = EXPERTS * (2 * MIDDLE + W) + 2 * W + 2 * 128 + EXPERTS * W + EXPERTS + 2 * W + 8
    lora = 8 * (4 * W + 2 * (W + 128))
    assert (four - two) / 2 == pytest.approx(matrices / 2 + 2 * others + 4 * lora, rel=2e-3)


@pytest.mark.parametrize("tokens", [TOKENS, 8 * TOKENS])
def test_unsloths_tiles_hold_experts(tokens):
    """Of a router and experts only their input is kept, and no mask grows with the square of a sequence."""
    kept_of = {}
    for tiled in (False, True):
        two, four = (of_gpt_oss(layers, tokens, tiled_mlp=tiled) for layers in (2, 4))
        own = [rank.end_of_forward - rank.persistent.before_step for rank in (two, four)]
        kept_of[tiled] = (own[1] - own[0]) / 2 / tokens
    # Gate and up, results, two weights in 16 bits and four indices for each expert that is chosen.
    assert kept_of[False] - kept_of[True] == pytest.approx(CHOSEN * (2 * (2 * MIDDLE + W) + 4 + 32) - 2 * W, rel=1e-3)
    assert kept_of[True] < 40 * W


def test_unsloth_has_flex_attention_alone_for_sinks():
    """unsloth_zoo/flex_attention/attention_sink.py."""
    with pytest.raises(MemcoreError, match="allowed: flex"):
        of_gpt_oss(2, TOKENS, attention="sdpa")
