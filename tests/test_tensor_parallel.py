"""Tensor parallelism with DTensor: what each rank holds, and what it refuses.

That every allocation is PyTorch's is in test_tapes.py.
"""

from math import prod as product

import pytest

from memcore import Config, estimate
from memcore.errors import MemcoreError
from memcore.symbols import measure

MODEL = {
    "model_type": "llama",
    "hidden_size": 256,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "intermediate_size": 704,
    "vocab_size": 4096,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
}


def job(model=None, training=None, **parallelism):
    """An estimate of a small model."""
    sizes = {"sequence_length": 128, "micro_batch_size": 2, "optimizer": "sgd", "loss_shift": "labels-preshifted"}
    config = {
        "model": {**MODEL, **(model or {})},
        "training": {**sizes, **(training or {})},
        "parallelism": {"tensor_parallel_size": 2, **parallelism},
        "engine": {"type": "fsdp" if parallelism.get("data_parallel_size", 1) > 1 else "none"},
    }
    return estimate(Config.from_dict(config))


def test_matrices_are_shared_and_norms_are_not():
    """Every rank has half of each matrix, and all seven norms."""
    matrices = 2 * 4096 * 256 + 3 * (2 * 256 * 256 + 2 * 128 * 256 + 3 * 704 * 256)
    found = job(training={"precision": "bf16"})
    assert found.rank.persistent.parameters == matrices // 2 * 2 + 7 * 512


def test_the_embedding_s_gradient_is_not_shared():
    """DTensor has no strategy that shards it by rows: every rank computes all of it (_ops/_embedding_ops.py)."""
    found = job(training={"precision": "bf16"})
    program, sizes = found.rank.program, found.job.sizes
    gradients = [
        size
        for block, size in zip(program.blocks, program.block_sizes(sizes), strict=True)
        if block.rule == "embedding_backward"
    ]
    assert gradients == [4096 * 256 * 2]


def test_tied_tensors_are_two():
    """`parallelize_module` gives each module a parameter of its own."""
    tied, untied = job({"tie_word_embeddings": True}), job()
    assert tied.rank.persistent.parameters == untied.rank.persistent.parameters


def test_what_is_gathered_is_kept():
    """Sequence parallelism keeps what it gathers for the products; without it the norms' inputs are whole besides."""
    shared, whole = job(), job(sequence_parallel=False)
    assert shared.rank.end_of_forward < whole.rank.end_of_forward


def test_parallel_loss_never_has_all_logits():
    """Its largest tensors are half of them in fp32."""
    largest = [max(found.rank.program.block_sizes(found.job.sizes)) for found in map(_with_loss, (True, False))]
    assert largest == [2 * 128 * 2048 * 4, 2 * 128 * 4096 * 4]


def test_a_loss_in_parts_gathers_once():
    """torchtitan's: every rank is given all hidden states, collects their gradient in fp32, and scatters it once.

    Of each part's logits a rank has those of its half of the vocabulary.
    """
    found = job(training={"precision": "bf16", "implementation": "torchtitan", "loss": "chunked:8"})
    program, sizes = found.rank.program, found.job.sizes
    in_loss = [
        (block.rule, size)
        for block, size in zip(program.blocks, program.block_sizes(sizes), strict=True)
        if block.phase == "loss"
    ]
    first = [rule for rule, _ in in_loss].index("collected_gradient")
    assert in_loss[first] == ("collected_gradient", 2 * 128 * 256 * 4)
    assert in_loss[first + 1] == ("linear", 2 * 128 // 8 * 4096 // 2 * 2)
    rules = [rule for rule, _ in in_loss]
    assert (rules.count("tensor_all_gather"), rules.count("tensor_reduce_scatter")) == (1, 1)


def test_gpus_are_data_times_tensor():
    """Four groups of two."""
    found = job(data_parallel_size=4)
    assert (found.job.num_gpus, found.job.sizes["z"], found.job.sizes["tp"]) == (8, 4, 2)


def _with_loss(parallel):
    return job(loss_parallel=parallel)


@pytest.mark.parametrize(
    ("model", "training", "parallelism", "message"),
    [
        ({"num_key_value_heads": 1}, {}, {}, "which does not divide .*key and value heads .1.; allowed: 1$"),
        ({}, {"sequence_length": 129}, {}, "found 129, which is not divisible by 2 ranks"),
        ({"attention_bias": True}, {}, {}, "a bias that all ranks add"),
        ({"model_type": "mixtral"}, {}, {}, "routed experts"),
        ({}, {"attention": "math"}, {}, "not supported yet with tensor parallelism"),
        ({}, {"loss": "chunked:8"}, {}, "not supported yet with tensor parallelism"),
        ({}, {}, {"tensor_parallel_size": 1, "loss_parallel": True}, "needs parallelism.tensor_parallel_size above 1"),
    ],
    ids=str,
)
def test_refusals(model, training, parallelism, message):
    """What is not modelled is refused, with its reason."""
    with pytest.raises(MemcoreError, match=message):
        job(model, training, **parallelism)


def test_momentum_of_an_embedding_has_its_gradient_s_shape():
    """`grad.clone()` of a table whose gradient no strategy shards: four times the part that a rank has of 4096 by 256.

    Peaks as PyTorch 2.13 has them in a simulated step: after the first step three parts more, and while the parameter
    is updated a part for a moment, when the sums of the norms' gradients are gone.
    """
    model = {
        "model_type": "llama",
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "vocab_size": 4096,
    }
    optimizer = {"name": "sgd", "implementation": "foreach", "momentum": 0.9}
    training = {"sequence_length": 128, "precision": "bf16", "optimizer": optimizer, "loss": "cross-entropy-fp32"}
    parallelism = {"tensor_parallel_size": 4, "data_parallel_size": 1, "sequence_parallel": True}
    config = {"model": model, "training": training, "parallelism": parallelism, "hardware": {"num_gpus": 4}}
    found = estimate(config, fake=True).rank
    states = {each.module: each.each for each in found.persistent.optimizer_states()}
    assert states["model.embed_tokens.weight"] == 4096 * 256 * 2
    assert states["lm_head.weight"] == 4096 * 256 * 2 // 4
    stepping = next(each for each in found.moments if each.phase == "optimizer_step")
    assert (found.first_step, found.peak.peak, stepping.peak) == (9008128, 12287488, 8790528)


ADAPTED = {"implementation": "torchtitan", "precision": "bf16-mixed", "adapter": {"type": "lora", "rank": 8}}


def test_lora_is_shared_with_its_layer():
    """By columns the second matrix is, by rows the first; FSDP halves the rows of both. The other is on every rank.

    Of that each rank has a term of the gradient, in the backward pass in bf16, which an all-reduce adds up.
    """
    found = job(training={**ADAPTED, "optimizer": "adamw"}, data_parallel_size=2)
    fed = 2 * (4 * 256 + 704 // 4 * 8) + 4 * 704 // 2 + 256 // 2 * 8
    queries = 4 * 256 + 256 // 4 * 8
    keys = 2 * (4 * 256 + 128 // 4 * 8)
    output = 4 * 256 // 2 + 256 // 2 * 8
    moments = [entry for entry in found.rank.persistent.optimizer_states() if entry.rule in ("exp_avg", "exp_avg_sq")]
    assert sum(entry.bytes for entry in moments) == 2 * 4 * 3 * (queries + keys + output + fed)
    program = found.rank.program
    summed = {
        block.module.partition("*.")[2]: size
        for block, size in zip(program.blocks, program.block_sizes(found.job.sizes), strict=True)
        if block.rule == "tensor_all_reduce" and "lora" in block.module
    }
    columns = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj"]
    rows = ["self_attn.o_proj", "mlp.down_proj"]
    expected = {f"{each}.lora_A.default.weight" for each in columns} | {
        f"{each}.lora_B.default.weight" for each in rows
    }
    assert set(summed) == expected
    assert set(summed.values()) == {2 * 8 * 256}


AUTOMODEL = {"implementation": "transformers", "precision": "bf16", "adapter": {"type": "lora", "rank": 8}}


def automodel(**training):
    """A job of NeMo Automodel's on two ranks that share every layer."""
    engine = {"type": "fsdp", "framework": "nemo-automodel"}
    sizes = {"sequence_length": 128, "micro_batch_size": 2, "optimizer": "sgd"}
    config = {"model": MODEL, "training": {**sizes, **AUTOMODEL, **training}, "engine": engine}
    return estimate(Config.from_dict({**config, "parallelism": {"tensor_parallel_size": 2, "data_parallel_size": 2}}))


def test_lora_of_automodel_is_shared_in_both_matrices():
    """nemo_automodel, `ColwiseParallelLora`, `RowwiseParallelLora`: what lies between is gathered, or scattered."""
    found = automodel()
    shapes = {
        each.path.partition("*.")[2]: [measure(axis, found.job.sizes) for axis in each.shape]
        for each in found.rank.persistent.stored
        if "lora" in each.path
    }
    assert product(shapes["self_attn.q_proj.lora_A.default.weight"]) == 8 // 2 // 2 * 256
    assert product(shapes["self_attn.q_proj.lora_B.default.weight"]) == 256 // 2 // 2 * 8
    assert product(shapes["mlp.down_proj.lora_A.default.weight"]) == 8 // 2 * 704 // 2
    assert product(shapes["mlp.down_proj.lora_B.default.weight"]) == 256 // 2 * 8 // 2
    rules = [block.rule for block in found.rank.program.blocks if block.module.endswith(("down_proj", "q_proj"))]
    assert {"tensor_all_gather", "tensor_reduce_scatter"} <= set(rules)
    assert not [b for b in found.rank.program.blocks if b.rule == "tensor_all_reduce" and "lora" in b.module]


@pytest.mark.parametrize(
    ("training", "reason"),
    [
        ({"adapter": {"type": "lora", "rank": 7}}, "divisible by 2"),
        ({"adapter": {"type": "dora"}}, "supported: lora"),
        ({"adapter": {"type": "lora"}, "quantization": "nf4"}, "unquantized"),
    ],
)
def test_adapters_of_automodel_that_ranks_cannot_share(training, reason):
    """The error says what of the adapter is not supported."""
    with pytest.raises(MemcoreError, match=reason):
        automodel(**training)


@pytest.mark.parametrize(
    ("training", "reason"),
    [
        ({"implementation": "transformers"}, "transformers' own tensor-parallel plan"),
        ({"adapter": {"type": "lora", "dropout": 0.1}}, "LoRA has no dropout"),
        ({"adapter": {"type": "lora", "target_modules": ["lm_head"]}}, "dense feed-forward layers"),
    ],
)
def test_adapters_that_are_not_torchtitan_s(training, reason):
    """They are refused by name."""
    with pytest.raises(MemcoreError, match=reason):
        job(training={**ADAPTED, **training}, data_parallel_size=2)
