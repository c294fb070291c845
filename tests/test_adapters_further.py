"""Further adapters of PEFT: what each adds, and what each keeps for its backward pass. Worked out by hand."""

from __future__ import annotations

import pytest

import memcore
from memcore.config.schema import settings_of
from memcore.config.training import Training
from memcore.errors import ConfigError, MemcoreError, UnsupportedError
from memcore.networks.adapter_kinds import ADAPTER_KINDS
from memcore.networks.adapter_shapes import Numbers, factorization, tensors
from memcore.networks.adapters import Adapter, adapted, trainable
from memcore.networks.catalog import find_model

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
        ("lora", {"rank": 4, "rank_pattern": "v_proj=16"}, lambda out: {1024: 4, 256: 16}[out] * (INNER + out)),
        # One of the two layers alone, with twice the rank; and one with it, one without.
        ("lora", {"rank": 8, "layers_to_transform": [1]}, lambda out: 4 * (INNER + out)),
        (
            "dora",
            {"rank": 2, "rank_pattern": "layers.1.self_attn.q_proj=6,q_proj=2"},
            lambda out: {1024: 4, 256: 2}[out] * (INNER + out) + out,
        ),
        (
            "lokr",
            {"rank": 16, "rank_pattern": "q_proj=2"},
            lambda out: {1024: 32 * 32 + 2 * 2 * 32, 256: 16 * 32 + 16 * 32}[out],
        ),
        ("dora", {"rank": 4}, lambda out: 4 * (INNER + out) + out),
        ("adalora", {"init_r": 12}, lambda out: 12 * (INNER + out) + 12),
        ("vera", {"rank": 256}, lambda out: out + 256),
        ("loha", {"rank": 8}, lambda out: 2 * 8 * (INNER + out)),
        ("miss", {"rank": 64}, lambda out: 64 * out),
        ("ia3", {}, lambda out: out),
        # 1024 is 32 x 32, 256 is 16 x 16: both matrices as they are, or the second as a product of rank 4.
        ("lokr", {"rank": 16}, lambda out: {1024: 32 * 32 + 32 * 32, 256: 16 * 32 + 16 * 32}[out]),
        ("lokr", {"rank": 4, "decompose_factor": 4}, lambda out: 4 * 4 + 4 * (out // 4) + 4 * 256),
        ("oft", {}, lambda out: 32 * (32 * 31 // 2)),
        ("oft", {"rank": 8}, lambda out: 8 * (128 * 127 // 2)),
        ("oft", {"block_size": 48}, lambda out: 32 * (32 * 31 // 2)),
        ("boft", {}, lambda out: 256 * 4 * 4 + out),
        ("tinylora", {}, lambda out: 64),
        ("tinylora", {"u": 8, "rank": 3}, lambda out: 8),
        ("fourierft", {}, lambda out: 1000),
        ("fourierft", {"n_frequency": 64}, lambda out: 64),
        ("road", {}, lambda out: out),
        # As many products of rank 32 as the narrower side needs, each with a scale for it and for each of its elements.
        ("randlora", {}, lambda out: out // 32 * (32 + out)),
        ("c3a", {"block_size": 64}, lambda out: out // 64 * (INNER // 64) * 64),
        ("delora", {}, lambda out: 8 * (INNER + out) + 1),
        ("pvera", {}, lambda out: out + 2 * 256),
        ("gralora", {}, lambda out: 32 * (INNER + out)),
        ("hira", {"rank": 8}, lambda out: 8 * (INNER + out)),
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


def test_randloras_frozen_matrices_are_there_once():
    """The narrower side's, of rank 32, and for each of its 32 products the wider side's."""
    buffers = [entry for entry in rank("randlora").initial.entries if entry.rule == "shared_adapter"]
    assert sorted(entry.bytes for entry in buffers) == [4 * 32 * 1024, 4 * 1024 * 32 * 32]


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


@pytest.mark.parametrize("storage", ["nf4", "nf4-double", "fp4", "int8"])
def test_dora_beside_few_bits(storage):
    """Each forward pass dequantizes the weight for its norms; with dropout it is kept for the input's gradient, in fp32.

    Nor is a mask in the first layer, whose input needs none. The frozen product is kept in fp32 instead of bf16.
    """

    def step(dropout):
        adapter = {"type": "dora", "dtype": "fp32", "rank": 4, "target_modules": TARGETS, "dropout": dropout}
        training = {"sequence_length": TOKENS, "precision": "bf16", "adapter": adapter, "quantization": storage}
        return memcore.estimate({"model": MODEL, "training": training}).ranks[0]

    plain, drops = step(0), step(0.1)
    assert {"dequantized_weight", "norm"} <= {block.rule for block in plain.program.blocks}
    for_input = sum(4 * INNER * out + TOKENS * INNER for out in OUTER)
    products = sum((4 - 2) * TOKENS * out for out in OUTER)
    assert drops.end_of_forward - plain.end_of_forward == 2 * products + for_input


@pytest.mark.parametrize(
    ("kind", "settings", "said"),
    [
        ("ia3", {"rank": 8}, "ia3 has no rank"),
        ("road", {"rank": 8}, "road has no rank"),
        ("boft", {"rank": 8}, "boft has no rank"),
        ("ln-tuning", {"rank": 8}, "ln-tuning has no rank"),
        ("ln-tuning", {"target_modules": "q_proj"}, "found 'q_proj'; norms: input_layernorm, norm, post_attention_"),
        ("lora", {"init_r": 8}, "applies to adalora"),
        ("road", {"n_frequency": 8}, "applies to fourierft"),
        ("oft", {"decompose_factor": 4}, "applies to lokr"),
        ("p-tuning", {"u": 8}, "applies to tinylora"),
        ("trainable-tokens", {"num_virtual_tokens": 8}, "trainable-tokens has no num_virtual_tokens"),
        ("boft", {"block_size": 3}, "not a multiple of the block size"),
        ("oft", {"rank": 8, "block_size": 32}, "not both"),
        ("oft", {"dropout": 0.1}, "not supported yet for oft"),
        ("ia3", {"dropout": 0.1}, "not supported yet for ia3"),
    ],
)
def test_settings_that_a_kind_does_not_have(kind, settings, said):
    """Each kind has those of its row; nothing that is given is silently ignored."""
    with pytest.raises(MemcoreError, match=said):
        rank(kind, **settings)


def test_rows_of_kinds_name_settings():
    """A misspelled one would be refused for every kind."""
    named = {name for kind in ADAPTER_KINDS.values() for name in kind.settings}
    assert named == {each.name for each in settings_of(Training.adapter)} - {"type"}


def test_what_no_adapter_is_attached_to():
    """Beside quantized weights only low-rank matrices are supported; convolutions have no linear layers."""
    quantized = {"model": MODEL, "training": {"adapter": {"type": "vera"}, "quantization": "nf4"}}
    with pytest.raises(UnsupportedError, match="only on unquantized transformers layers"):
        memcore.estimate(quantized)
    convolutions = {"model_type": "squeezebert"}
    with pytest.raises(UnsupportedError, match="has no linear layers"):
        memcore.estimate({"model": convolutions, "training": {"adapter": "lora"}})


@pytest.mark.parametrize("family", ["mamba", "falcon_mamba"])
def test_the_first_mamba(family):
    """PEFT 0.21 counts as many for four layers: it refuses `out_proj` alone (`_check_lora_target_modules_mamba`)."""
    job = {"model": {"model_type": family, "num_hidden_layers": 4}}
    job["training"] = {"adapter": {"type": "lora", "rank": 16}, "sequence_length": 64}
    stored = memcore.estimate(job).ranks[0].persistent.stored
    assert sum(each.size * each.learning for each in stored) == 4 * 450_560


@pytest.mark.parametrize(
    ("dimension", "factor", "factors"),
    [(256, -1, (16, 16)), (128, -1, (8, 16)), (127, -1, (1, 127)), (128, 4, (4, 32)), (3072, -1, (48, 64))],
)
def test_factors_of_widths(dimension, factor, factors):
    """As in the examples of peft's `factorization`."""
    assert factorization(dimension, factor) == factors


def test_a_measured_job_trains_as_many():
    """PEFT's comparison on Llama 3.2 3B: LoKr of rank 32 and factor 4, and two rows of the embedding."""
    linears = ({"q": 3072, "v": 1024}[each] for each in "qv")
    shapes = [tensors("lokr", Numbers(inner=3072, outer=out, rank=32, factor=4)) for out in linears]
    assert 28 * sum(a * b for each in shapes for _, ((a,), (b,)) in each) == 2294656


@pytest.mark.parametrize(
    ("adapter", "count"),
    [
        ({"type": "oft", "rank": 32}, 8171520),
        ({"type": "boft"}, 802816),
        ({"type": "tinylora"}, 3584),
        ({"type": "trainable-tokens"}, 6144),
        ({"type": "prefix-tuning", "num_virtual_tokens": 200}, 11468800),
    ],
)
def test_published_counts(adapter, count):
    """Trained parameters of Llama 3.2 3B in PEFT's comparison of methods (MetaMathQA)."""
    if adapter["type"] in ("oft", "boft", "tinylora"):
        adapter = {**adapter, "target_modules": ["q_proj", "v_proj"]}
    training = {"sequence_length": 64, "precision": "bf16", "adapter": adapter}
    job = memcore.estimate({"model": "llama-3.2-3b", "training": training}).ranks[0].job
    assert trainable(job.share) == count


@pytest.mark.parametrize("tied", [False, True])
def test_rows_that_learn(tied):
    """A table with them in it for the embedding, and where it is the head's too, one that the head keeps."""
    training = {"sequence_length": TOKENS, "precision": "bf16", "adapter": {"type": "trainable-tokens"}}
    model = {**MODEL, "tie_word_embeddings": tied}
    found = memcore.estimate({"model": model, "training": training}).ranks[0]
    assert trainable(found.job.share) == 2 * 1024
    copies = [block for block in found.program.blocks if block.rule == "index_copy"]
    assert len(copies) == 1 + tied
    with pytest.raises(ConfigError, match="rows of model.embed_tokens are trainable"):
        rank("trainable-tokens")


def test_what_does_not_learn_is_kept():
    """TinyLoRA: singular vectors of rank 2 in fp32, and 64 projections; OFT: places in a triangle, in int64."""
    buffers = [entry for entry in rank("tinylora").initial.entries if entry.rule == "frozen_adapter"]
    assert {entry.each for entry in buffers} == {4 * 2 * 1024, 4 * 256 * 2, 4 * 64 * 2 * 2}
    buffers = [entry for entry in rank("oft").initial.entries if entry.rule == "frozen_adapter"]
    assert {entry.each for entry in buffers} == {4096}


@pytest.mark.parametrize(("kind", "count"), [("prompt-tuning", 20 * 1024), ("p-tuning", 20 * 1024 + 3 * 1024 * 1025)])
def test_tokens_before_the_sequence(kind, count):
    """A row for each token, or a network that makes them; the whole sequence is longer, and every layer keeps it."""
    settings = {"type": kind, "dtype": "fp32", "num_virtual_tokens": 20}
    training = {"sequence_length": TOKENS, "precision": "bf16", "adapter": settings}
    found = memcore.estimate({"model": MODEL, "training": training}).ranks[0]
    assert trainable(found.job.share) == count
    assert found.job.sizes["s"] == TOKENS + 20
    assert found.end_of_backward - found.persistent.before_step == pytest.approx(4 * count, abs=512 * 16)
    with pytest.raises(ConfigError, match="has no target_modules"):
        rank(kind, num_virtual_tokens=20)


@pytest.mark.parametrize(("tokens", "peak"), [(20, 17129472), (32, 17178624)])
def test_prefixes(tokens, peak):
    """The most that a step on PEFT 0.21 held beside parameters, with and without padded rows of masks."""
    model = {**MODEL, "hidden_size": 256, "intermediate_size": 704, "num_attention_heads": 4, "num_key_value_heads": 2}
    adapter = {"type": "prefix-tuning", "num_virtual_tokens": tokens}
    settings = {"sequence_length": 128, "micro_batch_size": 2, "precision": "bf16", "optimizer": "sgd"}
    config = {"model": model, "training": {**settings, "adapter": adapter}, "engine": {"type": "none"}}
    found = memcore.estimate(config, fake=True).ranks[0]
    assert trainable(found.job.share) == 2 * tokens * 2 * 2 * 64
    sizes, held, most = found.program.block_sizes(found.job.sizes), 0, 0
    for event in found.program.events:
        size = sizes[event] if event >= 0 else -sizes[~event]
        held += size if abs(size) > 2048 else 0
        most = max(most, held)
    assert most == peak
    with pytest.raises(ConfigError, match="does not support activation checkpointing"):
        memcore.estimate({**config, "training": {**config["training"], "activation_checkpointing": "full"}})
    with pytest.raises(UnsupportedError, match="supported only with engine.type none or ddp"):
        memcore.estimate({**config, "engine": {"type": "fsdp"}})


def test_cut_cross_entropy_keeps_no_gradients():
    """Liger's loss keeps gradients of hidden states and head; cut cross-entropy hidden states, and numbers for rows.

    A sum and a place for each row (4 and 8 bytes), and a mean for each word; in the backward pass gradients of both.
    """
    rows, words, width = 4 * 512, 4096, 1024
    training = {"sequence_length": 512, "micro_batch_size": 4, "precision": "bf16"}

    def kept(loss):
        found = memcore.estimate({"model": MODEL, "training": {**training, "loss": loss}}).ranks[0]
        return found.end_of_forward - found.persistent.before_step

    assert kept("fused-linear") - kept("cut-cross-entropy") == 2 * words * width - 12 * rows - 4 * words
    with pytest.raises(ConfigError, match="it supports bf16 and fp16"):
        memcore.estimate({"model": MODEL, "training": {"precision": "fp32", "loss": "cut-cross-entropy"}})


@pytest.mark.parametrize(
    ("saved", "tied", "learned", "frozen"),
    [
        # Untied, each copy stands beside its frozen original.
        ("lm_head", False, 1, 2),
        (["embed_tokens", "lm_head"], False, 2, 2),
        # Tied, the other module goes on with the original, or both have a copy of it.
        ("lm_head", True, 1, 1),
        ("embed_tokens", True, 1, 1),
        (["embed_tokens", "lm_head"], True, 2, 1),
    ],
)
def test_modules_that_learn_as_a_whole(saved, tied, learned, frozen):
    """`modules_to_save`: copies of matrices of 4096 rows of 1024 numbers in bf16 that learn; the originals stay."""
    adapter = {"type": "lora", "rank": 4, "target_modules": TARGETS, "modules_to_save": saved}
    training = {"sequence_length": TOKENS, "precision": "bf16", "adapter": adapter}
    found = memcore.estimate({"model": {**MODEL, "tie_word_embeddings": tied}, "training": training}).ranks[0]
    matrix = 4096 * 1024
    assert trainable(found.job.share) == learned * matrix + 2 * sum(4 * (INNER + out) for out in OUTER)
    held = [entry for entry in found.initial.entries if entry.shape[-2:] == ("V", "h")]
    assert sum(entry.bytes for entry in held) == (learned + frozen) * matrix * 2


def test_an_adapter_beside_the_head():
    """`target_modules` may name the head, tied or not: matrices of 8 by 1024 and of 4096 by 8."""
    for tied in (False, True):
        adapter = {"type": "lora", "rank": 8, "target_modules": "lm_head"}
        training = {"sequence_length": TOKENS, "precision": "bf16", "adapter": adapter}
        found = memcore.estimate({"model": {**MODEL, "tie_word_embeddings": tied}, "training": training}).ranks[0]
        assert trainable(found.job.share) == 8 * (1024 + 4096)
    with pytest.raises(ConfigError, match="bypasses an adapter on the head"):
        memcore.estimate({"model": MODEL, "training": {**training, "loss": "fused-linear"}})


def test_rank_stabilized_lora_takes_what_lora_takes():
    """It differs by a number; PEFT has a flag for it."""
    assert rank("rslora", rank=8).peak == rank("lora", rank=8, use_rslora=True).peak == rank("lora", rank=8).peak
    with pytest.raises(ConfigError, match="applies to lora and rslora and dora"):
        rank("loha", use_rslora=True)


def test_what_no_module_can_be():
    """Norms are not modelled as copies, learned tokens have none, and no module has an adapter and a copy."""
    with pytest.raises(ConfigError, match="supported only for embed_tokens and lm_head"):
        rank("lora", modules_to_save="norm")
    with pytest.raises(ConfigError, match="only with adapters of linear layers"):
        rank("prompt-tuning", modules_to_save="lm_head", target_modules=None)
    with pytest.raises(ConfigError, match="an adapter or is trained in full"):
        rank("lora", modules_to_save="lm_head", target_modules=["lm_head"])
    sharded = {"model": MODEL, "engine": {"type": "fsdp", "wrap": "layer"}, "hardware": {"num_gpus": 2}}
    adapter = {"type": "lora", "target_modules": ["lm_head"], "modules_to_save": "embed_tokens"}
    with pytest.raises(UnsupportedError, match="a single dtype per group"):
        memcore.estimate({**sharded, "training": {"precision": "bf16", "adapter": adapter}})


SPARSE = {
    "model_type": "qwen3_moe",
    "hidden_size": 256,
    "intermediate_size": 512,
    "moe_intermediate_size": 384,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "vocab_size": 1024,
}


def sparse(**adapter):
    """A step of LoRA of rank 8 on a small model with routed experts."""
    settings = {"type": "lora", "rank": 8, "target_modules": TARGETS, **adapter}
    training = {"sequence_length": 512, "precision": "bf16", "adapter": settings}
    return memcore.estimate({"model": SPARSE, "training": training}).ranks[0]


def test_adapters_beside_stacked_experts():
    """A factor of 64 by the input and one of the output by 64 for each stacked matrix, 8 experts of rank 8.

    Kept besides, for each layer: the matrices with what was added, both factors in bf16, and the rows that go in, of 2
    experts for each of 512 tokens.
    """
    plain, found = sparse(), sparse(target_parameters=["mlp.experts.gate_up_proj", "down_proj"])
    sides = ((768, 256), (256, 384))
    assert trainable(found.job.share) - trainable(plain.job.share) == 3 * sum(
        64 * (out + inner) for out, inner in sides
    )
    kept = [each.end_of_forward - each.persistent.before_step for each in (plain, found)]
    matrices = sum(8 * out * inner * 2 for out, inner in sides)
    factors = sum(64 * (out + inner) * 2 for out, inner in sides)
    rows = 512 * 2 * sum(inner for _, inner in sides) * 2
    assert kept[1] - kept[0] == 3 * (matrices + factors + rows)


def test_what_stacked_experts_do_not_take():
    """PEFT's wrapper takes LoRA without dropout; a dense model has no such matrices."""
    with pytest.raises(ConfigError, match="without dropout"):
        sparse(target_parameters="down_proj", dropout=0.1)
    with pytest.raises(ConfigError, match="expert matrices: down_proj, gate_up_proj"):
        sparse(target_parameters="w1")
    with pytest.raises(ConfigError, match="expert matrices: none"):
        rank("lora", target_parameters="down_proj")


TINY = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "moe_intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 128,
    "num_experts_per_tok": 2,
}
GROUPED = {"n_routed_experts": 4, "n_shared_experts": 1, "first_k_dense_replace": 1, "n_group": 2, "topk_group": 1}
LATENT = {"q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16}
SHARED = {"num_experts": 4, "shared_expert_intermediate_size": 48}


@pytest.mark.parametrize(
    ("model_type", "keys", "learn"),
    [
        ("qwen3_moe", {"num_experts": 4}, 30784),
        ("olmoe", {"num_experts": 4}, 51264),
        ("mixtral", {"num_local_experts": 4}, 51264),
        ("minimax_m2", {"num_local_experts": 4, "rotary_dim": 8}, 51264),
        ("deepseek_v3", {**GROUPED, **LATENT}, 20640),  # its dense layer and its shared expert lose theirs
        ("glm4_moe", GROUPED, 18976),
        ("hunyuan_v1_moe", {"num_experts": 4, "moe_topk": 2}, 51264),
        ("qwen2_moe", SHARED, 13584),  # no row of PEFT's table: neither router nor routed experts
        ("gpt_oss", {"num_local_experts": 4}, 7168),
        ("granitemoe", {"num_local_experts": 4}, 7168),
    ],
)
def test_all_linear_of_models_with_routed_experts(model_type, keys, learn):
    """What learns with `target_modules="all-linear"` and rank 8, as PEFT 0.21.2 with transformers 5.23 counts it."""
    adapter = {"type": "lora", "rank": 8, "target_modules": "all-linear"}
    training = {"sequence_length": 64, "adapter": adapter}
    found = memcore.estimate({"model": {**TINY, "model_type": model_type, **keys}, "training": training})
    assert trainable(found.ranks[0].job.share) == learn


SMALL_LATENT = {
    **{key: size for key, size in SPARSE.items() if key not in ("head_dim", "num_experts")},
    "model_type": "deepseek_v3",
    "moe_intermediate_size": 128,
    "num_key_value_heads": 4,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "n_group": 2,
    "topk_group": 1,
    "q_lora_rank": 32,
    "kv_lora_rank": 32,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 16,
    "v_head_dim": 32,
}
SMALL_MIXTRAL = {
    **{key: size for key, size in SPARSE.items() if key not in ("moe_intermediate_size", "num_experts")},
    "model_type": "mixtral",
    "intermediate_size": 384,
    "num_local_experts": 8,
}


@pytest.mark.parametrize(
    ("model", "dtype", "first", "peak"),
    [
        (SPARSE, "fp32", 68186624, 72711680),
        (SMALL_MIXTRAL, "bf16", 58045952, 60310016),
        (SMALL_LATENT, "fp32", 34760704, 36523008),
    ],
    ids=lambda value: value["model_type"] if isinstance(value, dict) else None,
)
def test_all_linear_of_routed_experts_in_simulated_steps(model, dtype, first, peak):
    """Peaks of the first and of a later step, as PyTorch 2.13, transformers 5.23 and PEFT 0.21 have them."""
    adapter = {"type": "lora", "rank": 8, "target_modules": "all-linear", "dtype": dtype}
    training = {"sequence_length": 256, "micro_batch_size": 2, "precision": "bf16", "adapter": adapter}
    training |= {"optimizer": {"name": "adamw", "implementation": "foreach"}, "loss": "cross-entropy-fp32"}
    found = memcore.estimate({"model": model, "training": training}, fake=True)
    assert (found.rank.first_step, found.peak.peak) == (first, peak)


def test_names_of_matrices_in_transformers_4():
    """They stand for the stacked matrices, whose adapter has twice the rank where it is of two."""
    before = ["q_proj", "k_proj", "v_proj", "o_proj", "gate", "gate_proj", "up_proj", "down_proj"]
    shares = [trainable(sparse(target_modules=targets).job.share) for targets in (before, "all-linear")]
    assert shares[0] == shares[1]
    with pytest.raises(ConfigError, match="gate_proj and up_proj; PEFT adapts both or neither"):
        sparse(target_modules=["q_proj", "up_proj"])
    with pytest.raises(ConfigError, match="only LoRA without dropout"):
        sparse(target_modules="all-linear", dropout=0.05)
    settings = {"type": "lora", "rank": 8, "target_modules": "all-linear"}
    config = {"model": SPARSE, "training": {"sequence_length": 512, "precision": "bf16", "adapter": settings}}
    engine = {"type": "none", "framework": "transformers", "framework_version": "4.57"}
    with pytest.raises(UnsupportedError, match=r"one nn\.Linear per expert"):
        memcore.estimate({**config, "engine": engine})


@pytest.mark.parametrize(
    ("framework", "model", "kind", "expected"),
    [
        (None, "meta-llama/Llama-3.1-8B", "lora", "all-linear"),
        ("axolotl", "meta-llama/Llama-3.1-8B", "lora", "all-linear"),
        ("peft", "meta-llama/Llama-3.1-8B", "lora", ["q_proj", "v_proj"]),
        ("TRL", "Qwen/Qwen3-8B", "dora", ["q_proj", "v_proj"]),
        ("transformers", "gpt2", "lora", ["c_attn"]),
        ("accelerate", "EleutherAI/pythia-1b", "lora", ["query_key_value"]),
        ("peft", "microsoft/phi-2", "lora", ["q_proj", "v_proj", "fc1", "fc2"]),
        ("peft", "microsoft/phi-2", "vera", ["q_proj", "v_proj"]),
        ("peft", "microsoft/phi-2", "ia3", ["q_proj", "v_proj", "fc2"]),
        ("peft", "meta-llama/Llama-3.1-8B", "ia3", ["k_proj", "v_proj", "down_proj"]),
        ("peft", "microsoft/phi-2", "adalora", "all-linear"),
        ("lit-gpt", "EleutherAI/pythia-1b", "lora", ["q_proj", "v_proj"]),
    ],
)
def test_layers_that_nobody_names(framework, model, kind, expected):
    """PEFT's table by family, for those who leave it the choice; where it has no row, all linear layers are assumed."""
    config = {"model": model, "training": {"sequence_length": 64, "adapter": kind}, "hardware": {"num_gpus": 1}}
    found = memcore.estimate({**config, "engine": {"type": "none", "framework": framework}})
    said = {each.path: each.value for each in found.job.assumptions}
    assert said["training.adapter.target_modules"] == expected


@pytest.mark.parametrize(("changes", "layers"), [({}, 2), ({"every": 2}, 2), ({"every": 2, "storage": "nf4"}, 1)])
def test_beside_checkpoints_the_first_layer_learns_too(changes, layers):
    """Of three layers the second has a checkpoint, if any; the first keeps its norm's input where PEFT lets it learn."""
    training = {
        "sequence_length": TOKENS,
        "attention": "sdpa",
        "adapter": {"type": "lora", "target_modules": ["up_proj"]},
        "quantization": changes.get("storage"),
        "activation_checkpointing": {"policy": "selective", "every": 2} if changes else "none",
    }
    found = memcore.estimate({"model": {**MODEL, "num_hidden_layers": 3}, "training": training}).ranks[0]
    entries = found.ledger(next(each for each in found.moments if each.phase == "loss")).entries
    copies = [each.copies for each in entries if each.module.endswith("input_layernorm") and each.rule == "to"]
    assert sum(copies) == layers


@pytest.mark.parametrize(
    ("model", "count"),
    [
        ("Qwen/Qwen3.5-0.8B", 10_822_656),
        ("LiquidAI/LFM2-350M", 5_996_544),
        ("google/recurrentgemma-2b", 19_234_816),
        ("ibm-granite/granite-4.0-h-micro", 28_823_552),
    ],
)
def test_linear_layers_of_recurrent_mixers_learn_too(model, count):
    """PEFT 0.21.2 on transformers 5.23: all-linear at rank 16, counted on the meta device."""
    adapter = Adapter(rank=16, targets=("all-linear",), dtype="fp32")
    assert trainable(adapted(find_model(model), adapter)) == count


@pytest.mark.parametrize("model", ["AntonV/mamba2-130m-hf", "nvidia/NVIDIA-Nemotron-Nano-9B-v2"])
def test_what_peft_refuses_next_to_mamba_is_no_layer_for_adapters(model):
    """`_check_lora_target_modules_mamba` of peft/tuners/tuners_utils.py."""
    adapter = {"type": "lora", "target_modules": ["out_proj"]}
    with pytest.raises((ConfigError, UnsupportedError), match="out_proj"):
        memcore.estimate({"model": model, "training": {"sequence_length": 64, "adapter": adapter}})


def test_recurrent_mixers_matrices_are_stored_in_four_bits():
    """As bitsandbytes converts every `nn.Linear`: 3,072 rows of in_proj and the like in each of 18 layers."""
    settings = {"sequence_length": 64, "quantization": "nf4-double", "adapter": {"type": "lora", "rank": 4}}
    entries = memcore.estimate({"model": "Qwen/Qwen3.5-0.8B", "training": settings}).ranks[0]
    plain = memcore.estimate({"model": "Qwen/Qwen3.5-0.8B", "training": {**settings, "quantization": None}}).ranks[0]
    fewer = plain.persistent.parameters - entries.persistent.parameters
    matrices = 18 * (6144 + 2048 + 16 + 16 + 2048) * 1024
    assert fewer > 1.4 * matrices
