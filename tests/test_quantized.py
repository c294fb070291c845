"""Frozen weights in few bits: what bitsandbytes keeps of them, worked out by hand, and what a step needs for a moment."""

from __future__ import annotations

import pytest

import memcore
from memcore.errors import ConfigError, UnsupportedError

MODEL = {
    "model_type": "llama",
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 2,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "vocab_size": 32000,
}
LINEARS = [1024 * 1024, 256 * 1024, 256 * 1024, 1024 * 1024, *[2816 * 1024] * 3]
"""Elements of the seven matrices of a layer."""
ENDS = 2 * 32000 * 1024 + 5 * 1024
"""Embedding, head and norms, which stay as they are."""


def job(quantization, **training):
    """A step of LoRA over frozen weights."""
    settings = {"sequence_length": 512, "precision": "bf16", "adapter": {"type": "lora", "dtype": "bf16"}}
    return {"model": MODEL, "training": {**settings, "quantization": quantization, **training}}


def rounded(size):
    """As the caching allocator rounds a request."""
    return -(-size // 512) * 512


def frozen(found):
    """Bytes of everything that is there before the first step, but the adapters."""
    entries = [entry for entry in found.ranks[0].initial.entries if ".lora_" not in entry.module]
    return sum(entry.bytes for entry in entries if entry.category == "parameters")


def maxima(count):
    """A maximum for each block of 64."""
    return count // 64


@pytest.mark.parametrize(
    ("quantization", "each"),
    [
        ("nf4", lambda n: n // 2 + 4 * maxima(n) + 512),
        ("nf4-double", lambda n: n // 2 + maxima(n) + rounded(4 * -(-maxima(n) // 256)) + 512 + 1024 + 512),
        ("int8", lambda n: n + 4096 * (n == 2**20) + 1024 * (n == 2**18)),
        # A scale for each 128 by 128: 8 x 8, 2 x 8 and 22 x 8 of them.
        ("fp8", lambda n: n + rounded(4 * n // 2**14)),
    ],
)
def test_frozen_matrices_take_few_bits(quantization, each):
    """Half a byte, an fp32 number for each 64 and a table of sixteen; doubly quantized a byte for each 64.

    LLM.int8() has a scale for each row. Embedding, head and norms are not quantized.
    """
    expected = ENDS * 2 + 2 * sum(each(count) for count in LINEARS)
    if quantization == "int8":
        expected += 2 * 4 * (2816 * 2 + 1024)
    assert frozen(memcore.estimate(job(quantization))) == expected


def test_gptq_keeps_scales_zeros_and_groups():
    """Half a byte a number; for each 128 inputs of a row a scale in fp16 and a zero point, eight to an int32.

    The group of each input is an int32, too. PEFT casts nothing of such a model to fp32.
    """
    shapes = [(1024, 1024), (256, 1024), (256, 1024), (1024, 1024), (2816, 1024), (2816, 1024), (1024, 2816)]
    layer = sum(
        rows * columns // 2
        + rounded(columns // 128 * rows * 2)
        + rounded(columns // 128 * rows // 2)
        + rounded(4 * columns)
        for rows, columns in shapes
    )
    given = job("gptq", precision="fp16")
    prepared = given | {"engine": {"type": "none", "prepare_model_for_kbit_training": True}}
    assert frozen(memcore.estimate(given)) == frozen(memcore.estimate(prepared)) == ENDS * 2 + 2 * layer


def test_experts_are_linear_layers_of_their_own_in_transformers_4():
    """Each is quantized there; transformers 5 stacks them, and bitsandbytes leaves what is stacked."""
    experts = {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}
    for quantization, scales in (("nf4", lambda rows, columns: rows * columns // 16),
                                 ("gptq", lambda rows, columns: rows * columns // 128 * 5 // 2)):  # fmt: skip
        given = {**job(quantization), "model": {**MODEL, **experts}}
        given["training"]["adapter"] = {**given["training"]["adapter"], "target_modules": ["q_proj"]}
        old, new = (
            memcore.estimate({**given, "training": {**given["training"], "quantization": kind},
                              "engine": {"type": "none", "framework": "transformers", "framework_version": version}})
            for kind, version in ((quantization, "4.57"), ("nf4", "5.0"))
        )  # fmt: skip
        stacked = [4 * 2 * 2816 * 1024, 4 * 1024 * 2816]
        saved = 2 * sum(2 * count - count // 2 for count in stacked)
        extra = 2 * (scales(4 * 2 * 2816, 1024) + scales(4 * 1024, 2816))
        left = 1024 * 1024 if quantization == "nf4" else 0.02 * saved  # GPTQ keeps attention's scales in other sizes
        assert abs(frozen(new) - frozen(old) - (saved - extra)) <= left


def test_a_quantized_layer_keeps_neither_its_input_nor_its_matrix():
    """Beyond the adapters the activations of QLoRA are those of LoRA, and each product dequantizes its matrix."""
    plain, quantized = (memcore.estimate(job(each)).ranks[0] for each in (None, "nf4"))
    made = {block.rule for block in quantized.program.blocks}
    assert "dequantized_weight" in made
    assert "dequantized_weight" not in {block.rule for block in plain.program.blocks}
    kept = (
        plain.end_of_forward - plain.persistent.before_step,
        quantized.end_of_forward - quantized.persistent.before_step,
    )
    assert kept[0] == kept[1]


def test_preparing_for_few_bits_casts_the_rest_to_fp32():
    """PEFT's prepare_model_for_kbit_training: embedding, head and norms take four bytes, the rest is as it was."""
    prepared = job("nf4", compute_dtype="bf16") | {"engine": {"type": "none", "prepare_model_for_kbit_training": True}}
    assert frozen(memcore.estimate(prepared)) - frozen(memcore.estimate(job("nf4"))) == 2 * ENDS


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"training": {"quantization": "nf4"}}, "training.quantization"),
        (
            {"engine": {"type": "none", "prepare_model_for_kbit_training": True}},
            "engine.prepare_model_for_kbit_training",
        ),
        (job("mxfp4"), "training.quantization"),
        (job("fp8") | {"engine": {"type": "fsdp"}, "hardware": {"num_gpus": 2}}, "training.quantization"),
        (job("fp8", compute_dtype="bf16"), "training.compute_dtype"),
        (job("fp8") | {"model": "gpt2"}, "training.quantization"),
        (job("fp8") | {"model": "mixtral-8x7b-v0.1"}, "training.quantization"),
        (job("int8") | {"engine": {"type": "fsdp"}, "hardware": {"num_gpus": 2}}, "training.quantization"),
        (job("gptq") | {"engine": {"type": "fsdp"}, "hardware": {"num_gpus": 2}}, "training.quantization"),
        (job("gptq") | {"model": "gpt2"}, "training.quantization"),
        (job("gptq") | {"model": "mixtral-8x7b-v0.1"}, "training.quantization"),
        (job("gptq", adapter={"type": "dora"}), "training.adapter.type"),
    ],
)
def test_what_cannot_be_quantized_is_refused(change, path):
    """Nothing learns without an adapter, FSDP shards no 8-bit matrices, and fp8 is for transformers' linear layers."""
    with pytest.raises((ConfigError, UnsupportedError), match=path):
        memcore.estimate({"model": MODEL, **change})


def test_formats_that_are_known_by_name():
    """Formats of other libraries are not modelled, and some have no backward pass at all."""
    with pytest.raises(ConfigError, match="'hqq' is not supported yet; allowed: nf4"):
        memcore.estimate(job("hqq"))
    with pytest.raises(ConfigError, match="found 'mxfp4', which has no backward pass in transformers"):
        memcore.estimate(job("mxfp4"))


def test_fp8_keeps_nothing_of_its_inputs():
    """The gradient of an input needs a copy of the matrix in its dtype, and its scales, repeated for each row."""
    plain, found = (memcore.estimate(job(each)).ranks[0] for each in (None, "fp8"))
    kept = [each.end_of_forward - each.persistent.before_step for each in (plain, found)]
    assert kept[0] == kept[1]
    copies = {block.shape for block in found.program.blocks if block.rule == "dequantized_weight"}
    assert ("f", "h") in copies
    assert "quantized_rows" not in {block.rule for block in found.program.blocks}


def test_fsdp_shards_packed_matrices_and_no_maxima():
    """The packed numbers of a rank are a part of them unless they are integers; what lies next to them is whole."""
    for storage, part in (("float", 4), ("uint8", 2)):
        engine = {"type": "fsdp", "bnb_4bit_quant_storage": storage}
        rank = memcore.estimate(job("nf4") | {"engine": engine, "hardware": {"num_gpus": 2}}).ranks[0]
        entries = rank.initial.entries
        scales = sum(entry.bytes for entry in entries if entry.rule == "quantization_scales")
        packed = sum(
            entry.bytes for entry in entries if entry.rule == "parameter" and entry.module.endswith("_proj.weight")
        )
        assert scales == 2 * sum(4 * maxima(count) for count in LINEARS)
        assert packed == 2 * sum(count // part for count in LINEARS)
        gathered = {block.module for block in rank.program.blocks if block.rule == "unsharded_parameter"}
        assert any(module.endswith("q_proj.weight") for module in gathered) == (storage == "float")


def test_trainable_parts():
    """Only what is named learns: of the head and the norms alone are there gradients and moments."""
    found = memcore.estimate(
        {"model": MODEL, "training": {"sequence_length": 512, "precision": "bf16", "trainable": ["lm_head", "norm"]}}
    )
    states = {entry.module for entry in found.ranks[0].persistent.optimizer_states() if entry.rule == "exp_avg"}
    assert {"lm_head.weight", "model.norm.weight", "model.layers.*.input_layernorm.weight"} == states - {
        "model.layers.*.post_attention_layernorm.weight"
    }
    with pytest.raises(ConfigError, match=r"training\.trainable: found 'nothing'"):
        memcore.estimate({"model": MODEL, "training": {"trainable": ["nothing"]}})


def states(optimizer, **training):
    """Optimizer states on the GPU, by rule, of a job that trains everything."""
    config = {
        "model": MODEL,
        "training": {"sequence_length": 64, "precision": "bf16", "optimizer": optimizer, **training},
    }
    rank = memcore.estimate({**config, "engine": {"type": "none", "framework": "torchtune"}}).ranks[0]
    found = {}
    for entry in rank.persistent.optimizer_states():
        found[entry.rule] = found.get(entry.rule, 0) + entry.bytes
    return found, rank.persistent


LARGE = 2 * 32000 * 1024 + 2 * sum(LINEARS)
"""Elements of matrices; norms have 1024, fewer than are quantized."""
TENSORS = 2 + 2 * 7


def test_bitsandbytes_keeps_small_tensors_in_fp32():
    """Two bytes and two fp32 scales for each 256 elements; below 4096 elements eight bytes; two tables for all."""
    found, kept = states({"name": "adamw-8bit", "implementation": "bitsandbytes"})
    assert found == {
        "quantized_moment": 2 * LARGE,
        "block_scales": 2 * 4 * LARGE // 256,
        "exp_avg": 5 * 4096,
        "exp_avg_sq": 5 * 4096,
        "quantization_map": 2 * 1024,
    }
    assert kept.paged == 0


def test_the_trainer_keeps_embeddings_in_32_bits():
    """Hugging Face's Trainer exempts nn.Embedding: eight bytes for each of its elements."""
    optimizer = {"name": "adamw-8bit", "implementation": "bitsandbytes"}
    config = {"model": MODEL, "training": {"sequence_length": 64, "precision": "bf16", "optimizer": optimizer}}
    alone, trainer = (
        memcore.estimate({**config, "engine": {"type": "none", "framework": name}}).ranks[0].persistent
        for name in (None, "transformers")
    )
    held = [
        sum(each.bytes for each in kept.optimizer_states() if each.module == "model.embed_tokens.weight")
        for kept in (alone, trainer)
    ]
    assert held == [(2 + 2 * 4 / 256) * 32000 * 1024, 8 * 32000 * 1024]


@pytest.mark.parametrize(
    ("release", "kept"),
    [("4.50", 0), ("4.51", 1 / 2), ("4.57", 1 / 2), ("5.0", 1), ("5.3", 1), ("5.4", 0)],
)
def test_loading_may_reserve_more_than_steps(release, kept):
    """Half of the model in 16 bits is allocated at once with transformers 4.51 to 4.57, and all of it ahead in 5.0 to 5.3.

    Steps of 64 tokens need less than either.
    """
    engine = {"framework": "transformers", "framework_version": release}
    model = {**MODEL, "num_hidden_layers": 64}
    found = memcore.estimate(
        {**job("nf4", activation_checkpointing="full", sequence_length=64), "model": model, "engine": engine}
    )
    whole = 2 * (64 * (sum(LINEARS) + 2 * 1024) + 2 * 32000 * 1024 + 1024)
    assert found.ranks[0].reserved_by_steps < whole / 2
    assert found.reserved.expected == (round(kept * whole) or found.ranks[0].reserved_by_steps)


def test_embedding_and_head_are_cast_when_they_are_loaded():
    """Both are in fp32 at once, and one of them in 16 bits again.

    With TRL 0.24, whose transformers allocates half of the model first, neither has room in what is free of that half.
    """
    words = 4 * 32000
    given = {**job("nf4", activation_checkpointing="full", sequence_length=64), "model": {**MODEL, "vocab_size": words}}
    found, half, usual = (
        memcore.estimate({**given, "engine": engine})
        for engine in (
            {"framework": "axolotl"},
            {"framework": "trl", "framework_version": "0.24"},
            {"framework": "trl", "framework_version": "1.10"},
        )
    )
    assert found.reserved.expected - found.ranks[0].after_init == 2 * (words * 1024) * 2 + words * 1024 * 2
    assert half.reserved.expected - half.ranks[0].after_init == 2 * (words * 1024) * 4
    assert usual.reserved.expected == usual.ranks[0].reserved_by_steps


def test_paged_states_lie_outside_the_pool():
    """From 100 000 elements on they are in managed memory; scales of blocks stay."""
    found, kept = states("paged-adamw")
    assert found == {"exp_avg": 5 * 4096, "exp_avg_sq": 5 * 4096}
    assert kept.paged == 8 * LARGE
    found, kept = states("paged-adamw-8bit")
    assert found["block_scales"] == 2 * 4 * LARGE // 256
    assert "quantized_moment" not in found
    assert kept.paged == 2 * LARGE


def test_paged_states_give_way():
    """Where the GPU is full they are on the host: a job whose tensors fit is not too large for them."""
    job = {
        "model": "meta-llama/Llama-3.1-8B",
        "training": {"precision": "bf16", "optimizer": "paged-adamw", "activation_checkpointing": "full"},
        "hardware": {"accelerator": "h100-sxm-80gb"},
    }
    full, empty = (
        memcore.estimate(job),
        memcore.estimate({**job, "hardware": {**job["hardware"], "gpu_memory_gb": 141}}),
    )
    assert empty.device.expected > full.capacity
    assert full.device.expected == full.capacity
    assert full.fits
    assert not memcore.estimate({**job, "hardware": {**job["hardware"], "gpu_memory_gb": 24}}).fits


def test_torchao_keeps_a_table_for_each_moment():
    """8 bits in blocks of 256, 4 bits in blocks of 128; what is small stays in the parameters' dtype."""
    found, _ = states({"name": "adamw-8bit", "implementation": "torchao"})
    small = 5 * 1024 * 2
    assert found == {
        "quantized_moment": 2 * LARGE,
        "block_scales": 2 * 4 * LARGE // 256,
        "quantization_map": 2 * TENSORS * 1024,
        "exp_avg": small,
        "exp_avg_sq": small,
    }
    found, _ = states("adamw-4bit")
    assert found["quantized_moment"] == LARGE
    assert found["block_scales"] == 2 * 4 * LARGE // 128


def test_copies_next_to_bf16_parameters():
    """TransformerEngine keeps fp32 moments and the bits that bf16 lacks; FlashOptim 8 bits each, scales of 32 in fp16."""
    elements = LARGE + 5 * 1024
    found, _ = states({"name": "adamw", "implementation": "transformer-engine"}, master_dtype="int16")
    assert found == {"exp_avg": 4 * elements, "exp_avg_sq": 4 * elements, "master_copy": 2 * elements}
    fused = {"name": "adamw", "implementation": "transformer-engine", "state_dtype": "bf16"}
    assert states(fused)[0] == {"exp_avg": 2 * elements, "exp_avg_sq": 2 * elements}
    assert states(fused, precision="bf16-mixed", master_dtype="int16")[0]["master_copy"] == 4 * elements
    flash = {"name": "adamw", "implementation": "flashoptim"}
    scales = 2 * (2 * LARGE // 32 + 5 * 512)  # those of a norm fill an allocation
    assert states(flash)[0] == {"quantized_moment": 2 * elements, "block_scales": scales, "master_copy": elements}
    with pytest.raises(memcore.MemcoreError, match="it extends parameters in bf16"):
        states(flash, precision="bf16-mixed")


def test_states_in_another_dtype():
    """The fused kernel keeps bf16 moments beside fp32 parameters; the others keep them like the parameters."""
    found, _ = states({"name": "adamw", "state_dtype": "bf16"}, precision="fp32")
    assert found["exp_avg"] == 2 * (LARGE + 5 * 1024)
    with pytest.raises(ConfigError, match=r"training\.optimizer\.state_dtype"):
        states({"name": "adamw", "implementation": "foreach", "state_dtype": "bf16"}, precision="fp32")


TINYLLAMA = {
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "num_hidden_layers": 22,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "vocab_size": 32000,
}


@pytest.mark.parametrize(
    ("length", "attention", "measured"),
    [
        (2048, "math", 6_978_273_280),
        (2048, "efficient", 4_086_300_672),
        (512, "math", 1_938_817_024),
        (512, "efficient", 1_936_719_872),
    ],
)
def test_what_a_t4_measured(length, attention, measured):
    """QLoRA of TinyLlama by a loop of one's own on a T4 (fitcheck): eager attention needs four tensors of all scores."""
    adapter = {"type": "lora", "rank": 32, "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj"], "dtype": "fp32"}
    training = {"sequence_length": length, "micro_batch_size": 2, "precision": "fp32", "compute_dtype": "fp16"}
    training |= {"activation_checkpointing": "full", "attention": attention, "adapter": adapter, "quantization": "nf4"}
    training |= {"optimizer": {"name": "adamw", "implementation": "foreach"}, "gradient_clipping": False}
    engine = {"type": "none", "framework": "peft", "prepare_model_for_kbit_training": True, "autocast": False}
    hardware = {"accelerator": "t4", "num_gpus": 1}
    config = {"model": TINYLLAMA, "training": training, "engine": engine, "hardware": hardware}
    assert memcore.estimate(config).allocated.expected == pytest.approx(measured, rel=0.012)


ROUTED = {
    "model_type": "mixtral",
    "hidden_size": 256,
    "intermediate_size": 384,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "vocab_size": 1024,
}


def test_stacked_experts_stay_unquantized_and_say_so():
    """transformers 5: four matrices of attention become 4 bits; router and experts are no `nn.Linear`.

    In transformers 4 each expert's matrices are.
    """
    adapter = {"type": "lora", "rank": 8, "target_modules": ["q_proj"]}
    training = {"sequence_length": 64, "precision": "bf16", "adapter": adapter, "quantization": "nf4"}
    found = memcore.estimate({"model": ROUTED, "training": training})
    few = {weight.name for weight, _, _ in found.rank.job.share.tensors if weight.quantized}
    assert few == {f"self_attn.{each}_proj.weight" for each in "qkvo"}
    assert "routed experts are not quantized" in found.job.model.warnings[0]
    engine = {"type": "none", "framework": "transformers", "framework_version": "4.57.1"}
    older = memcore.estimate({"model": ROUTED, "training": training, "engine": engine})
    assert older.job.model.warnings == ()
    names = {weight.name for weight, _, _ in older.rank.job.share.tensors if weight.quantized}
    assert few < names
    assert {name.rpartition(".")[2] for name in names - few} >= {"gate_up_proj", "down_proj"}


def test_stacked_experts_that_are_quantized_when_they_are_loaded():
    """axolotl: a layer's experts are stored in half a byte and dequantized together, in bf16."""
    training = {
        "sequence_length": 64,
        "precision": "bf16",
        "quantization": "nf4",
        "activation_checkpointing": "full",
        "adapter": {"type": "lora", "rank": 8, "target_modules": ["q_proj"]},
    }
    plain, few = (
        memcore.estimate({"model": ROUTED, "training": training, "engine": {"type": "none", **own}})
        for own in ({}, {"quantize_moe_experts": True})
    )
    names = {weight.name.rpartition(".")[2]: weight for weight, _, _ in few.rank.job.share.tensors if weight.quantized}
    assert {"gate_up_proj", "down_proj"} <= set(names)
    elements = (
        sum(
            entry.each * entry.copies
            for entry in plain.ranks[0].initial.entries
            if entry.module.endswith(("gate_up_proj", "down_proj")) and ".lora_" not in entry.module
        )
        // 2
    )
    assert frozen(plain) - frozen(few) == pytest.approx(2 * elements - elements // 2 - elements // 16, rel=0.01)
    with pytest.raises(ConfigError, match="quantize_moe_experts"):
        memcore.estimate(
            {
                "model": ROUTED,
                "training": {**training, "quantization": None},
                "engine": {"type": "none", "quantize_moe_experts": True},
            }
        )
    job = {"model": ROUTED, "training": {**training, "quantization": "int8"}}
    eight = memcore.estimate({**job, "engine": {"type": "none", "quantize_moe_experts": True}})
    matrices = [
        entry for entry in eight.ranks[0].initial.entries if entry.module.endswith(("gate_up_proj", "down_proj"))
    ]
    assert sum(each.each * each.copies for each in matrices if each.dtype == "int8") == elements


def test_adapters_next_to_stacked_experts_that_are_quantized():
    """Each forward pass makes the matrices whole, and a sum of them and the adapter's product (PEFT, `ParamWrapper`)."""
    training = {
        "sequence_length": 64,
        "precision": "bf16",
        "quantization": "nf4",
        "adapter": {"type": "lora", "rank": 8, "target_modules": ["q_proj"]},
    }
    adapter = {**training["adapter"], "target_parameters": ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]}
    without, found = (
        memcore.estimate({"model": ROUTED, "training": each, "engine": {"type": "none", "quantize_moe_experts": True}})
        for each in (training, {**training, "adapter": adapter})
    )
    sizes = found.rank.job.sizes
    matrices = sizes["E"] * 3 * sizes["h"] * sizes["m"] * 2
    kept = [entry for entry in found.ledger.entries if ".experts" in entry.module and entry.rule == "bmm"]
    assert sum(entry.bytes for entry in kept) == found.rank.job.model.num_layers * matrices
    assert not [entry for entry in without.ledger.entries if entry.rule == "bmm"]
