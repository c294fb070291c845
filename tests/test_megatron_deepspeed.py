"""Megatron-DeepSpeed: Megatron's layers under ZeRO, by hand."""

import math
from itertools import pairwise

import pytest

from memcore.config.settings import Config
from memcore.errors import ConfigError, UnsupportedError
from memcore.estimation import estimate_training

H, A, F, V, S = 1024, 16, 2816, 32000, 512
LLAMA = {
    "model_type": "llama",
    "hidden_size": H,
    "num_hidden_layers": 8,
    "num_attention_heads": A,
    "num_key_value_heads": A,
    "intermediate_size": F,
    "vocab_size": V,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
}
GPT = {"model_type": "gpt2", "n_embd": H, "n_layer": 8, "n_head": A, "vocab_size": 50257, "n_positions": 1024}


def job(layers=8, model=LLAMA, **changes):
    """A job on eight GPUs, with changes of settings by path."""
    count = "n_layer" if model is GPT else "num_hidden_layers"
    described = {
        "model": {**model, count: layers},
        "training": {"sequence_length": S},
        "parallelism": {},
        "engine": {"type": "megatron-deepspeed", "zero_stage": 1, "reduce_bucket_size": 10_000_000},
        "hardware": {"num_gpus": 8},
    }
    for path, value in changes.items():
        section, name = path.split("__")
        described[section][name] = value
    return estimate_training(Config.from_dict(described))


def a_layer(**changes):
    """Bytes that one more layer leaves for the backward pass."""
    first, second = (job(layers, **changes).rank for layers in (8, 9))
    kept = [rank.end_of_forward - rank.persistent.before_step for rank in (first, second)]
    return kept[1] - kept[0]


SHARED = {"parallelism__tensor_parallel_size": 4, "parallelism__sequence_parallel": True}
FULL = {"training__activation_checkpointing": "full"}
LAYERS = [
    # For a token: inputs of norms and their results, queries, keys, values and the core's result, gate and up, the
    # activation and the product; statistics of norms and attention in fp32.
    ({}, S * (2 * 4 * H + 2 * 4 * H + 8 * F + 2 * 4 + 4 * A)),
    ({"parallelism__tensor_parallel_size": 4}, S * (2 * 4 * H + (2 * 4 * H + 8 * F + 4 * A) // 4 + 2 * 4)),
    (SHARED, S // 4 * (2 * 4 * H + 2 * 4) + S * (2 * 4 * H + 8 * F + 4 * A) // 4),
    # The core's result is there before and after it is sent back.
    ({"parallelism__ulysses_parallel_size": 4}, S // 4 * (2 * 4 * H + 2 * 5 * H + 8 * F + 2 * 4 + 4 * A)),
    # A checkpoint keeps a layer's input.
    (FULL, S * 2 * H),
    # Or this rank's part of it, or nothing: the newest two are still there.
    ({"parallelism__tensor_parallel_size": 4, **FULL, "engine__partition_activations": True}, S * 2 * H // 4),
    # Buffers for all layers are there earlier, and no larger.
    (
        {"parallelism__tensor_parallel_size": 4, **FULL}
        | {"engine__partition_activations": True, "engine__contiguous_memory_optimization": True},
        S * 2 * H // 4,
    ),
    ({**FULL, "engine__cpu_checkpointing": True}, 0),
    (
        {"parallelism__tensor_parallel_size": 4, **FULL}
        | {"engine__partition_activations": True, "engine__cpu_checkpointing": True},
        0,
    ),
    # Selective recomputation covers unfused attention, of which queries, keys, what values are a part of, and the
    # result are kept; where it is flash, nothing changes.
    ({"training__activation_checkpointing": "selective"}, S * (2 * 4 * H + 2 * 4 * H + 8 * F + 2 * 4 + 4 * A)),
    (
        {"training__activation_checkpointing": "selective", "training__attention": "math"},
        S * (2 * 4 * H + 2 * 6 * H + 8 * F + 2 * 4),
    ),
    # LayerNorm has two statistics; GELU's input and result are as wide as four times the model; masks of dropout.
    (
        {"model": GPT, "training__dropout": {"hidden": 0, "attention": 0}},
        S * (2 * 4 * H + 2 * 4 * H + 2 * 8 * H + 4 * 4 + 4 * A),
    ),
    (
        {"model": GPT, "training__dropout": {"hidden": 0.1, "attention": 0}},
        S * (2 * 4 * H + 2 * 4 * H + 2 * 8 * H + 4 * 4 + 4 * A + 2 * H),
    ),
]


@pytest.mark.parametrize(("changes", "size"), LAYERS)
def test_what_a_layer_keeps(changes, size):
    """Saved tensors of one layer, to the byte but for rounding up to blocks and Ulysses' or Adam's few more."""
    assert a_layer(**changes) == pytest.approx(size, abs=8 * 512)


MIXTRAL = {**LLAMA, "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}


@pytest.mark.parametrize(("chosen", "factor"), [(1, 1), (2, 1), (2, 1.25), (4, 1)])
def test_what_experts_keep(chosen, factor):
    """Every expert has as many rows as its capacity, empty ones too; saved tensors as PyTorch's hooks show them.

    Of a token the router's input in fp32, weights of all experts and masks, and each chosen expert's result; of a row
    where it comes from, its input, gate and up, the activation and the product.
    """
    model = {**MIXTRAL, "num_experts_per_tok": chosen}
    changes = {"parallelism__expert_parallel_size": 4, "engine__moe_expert_capacity_factor": factor}
    rows = 8 * math.ceil(S * chosen * factor / 8)
    masks = {1: 8 * 8, 2: 9 * 8 + 16, 4: 9 * 8 + 8 + 8 * 4}[chosen]
    tokens = S * (4 * H + 4 * 8 + masks + chosen * (2 * H + 8 + 4))
    routed = tokens + rows * (2 * H + 8 * F + 8 + (8 if chosen > 2 else 0)) + 4 * 8 * H
    attention = S * (2 * 3 * H + 2 * 4 * H + 2 * 4 + 4 * A)
    assert a_layer(model=model, **changes) == pytest.approx(attention + routed, abs=16 * 512)


def test_groups_of_experts():
    """Ranks that have the same experts share their optimizer; gradients of stage 1 are whole until they are reduced."""
    experts, layer = 8 * 3 * H * F, 4 * H * H + 8 * H + 2 * H
    others = 8 * layer + 2 * V * H + H
    for ranks in (1, 4, 8):
        found = job(model=MIXTRAL, parallelism__expert_parallel_size=ranks)
        own = 8 * experts // ranks
        assert found.rank.persistent.parameters == pytest.approx(2 * (own + others), abs=80 * 512)
        part_of = own * ranks / 8 + others / 8
        assert held(found, "fp32_partition") == pytest.approx(4 * part_of, abs=80 * 512)
        assert held(found, "exp_avg") == pytest.approx(4 * part_of, abs=80 * 512)
    gathered = job(model=MIXTRAL, engine__zero_stage=2, parallelism__expert_parallel_size=8)
    assert part(gathered.rank, "partitioned_gradients") == pytest.approx(2 * part_of, abs=80 * 512)


def held(found, rule):
    """Bytes of a rule at the peak."""
    return sum(entry.bytes for entry in found.ledger.entries if entry.rule == rule)


def test_states():
    """Ranks of Megatron's groups have parts of matrices and of a padded vocabulary; ZeRO shards over the others."""
    layer = 4 * H * H + 3 * H * F
    whole = 8 * (layer + 2 * H) + 2 * 32000 * H + H
    part = 8 * (layer // 4 + 2 * H) + 2 * 32256 * H // 4 + H
    plain, tensor = job(), job(**SHARED)
    assert plain.rank.persistent.parameters == pytest.approx(2 * whole, abs=60 * 512)
    assert held(plain, "fp32_partition") == pytest.approx(4 * whole / 8, abs=60 * 512)
    assert tensor.rank.persistent.parameters == pytest.approx(2 * part, abs=60 * 512)
    assert held(tensor, "fp32_partition") == pytest.approx(4 * part / 2, abs=60 * 512)
    assert held(tensor, "gather_buffer") == 2 * S * H
    ulysses = job(parallelism__ulysses_parallel_size=4, engine__zero_stage=3)
    assert held(ulysses, "fp32_partition") == pytest.approx(4 * whole / 8, abs=60 * 512)


def test_checkpoints_on_the_host():
    """They come back one by one; only the newest two inputs stay."""
    found = [job(**FULL, engine__cpu_checkpointing=hosted).rank for hosted in (False, True)]
    plain, hosted = (rank.end_of_forward for rank in found)
    assert plain - hosted == 6 * 2 * S * H
    assert sum(entry.bytes for entry in found[1].host if entry.rule == "host_activation") == 6 * 2 * S * H


def test_a_pipeline():
    """A stage keeps what came twice and its output, or with tensor parallelism once and a part; ZeRO shards its own."""
    tokens = 2 * S * H
    staged = {"parallelism__pipeline_parallel_size": 4, "training__gradient_accumulation_steps": 8}
    found = job(**staged)
    assert [rank.name for rank in found.ranks] == [f"stage {stage}" for stage in range(4)]
    layer, (first, second, *_) = 4 * H * H + 3 * H * F, found.ranks
    assert part(first, "fp32_partition") == pytest.approx(4 * (2 * (layer + 2 * H) + V * H) / 2, abs=60 * 512)
    assert part(second, "fp32_partition") == pytest.approx(4 * 2 * (layer + 2 * H) / 2, abs=60 * 512)
    # A buffer, and two copies of each of the three micro-batches in flight.
    assert (part(first, "received_activation"), part(second, "received_activation")) == (0, (1 + 2 * 3) * tokens)
    assert part(second, "received_gradient") == tokens
    assert part(second, "causal_mask") == S * S
    shared = job(**staged, parallelism__tensor_parallel_size=2)
    first, second, *_ = shared.ranks
    assert (part(first, "partitioned_activation"), part(second, "partitioned_activation")) == (
        2 * tokens,
        3 * tokens // 2,
    )
    assert part(second, "received_activation") == tokens // 2 + 3 * tokens


def part(rank, rule):
    """The most bytes of a rule at any moment of a rank's step."""
    ledgers = (rank.ledger(moment) for moment in rank.moments)
    return max(sum(entry.bytes for entry in each.entries if entry.rule == rule) for each in ledgers)


def test_the_loss():
    """The logits, their copy in fp32 and what the largest is subtracted in; with Ulysses a softmax and its logarithm."""

    def found(**changes):
        before, loss = next(pair for pair in pairwise(job(**changes).moments) if pair[1].place == "head and loss")
        return loss.peak - before.end

    assert found() == pytest.approx(S * 32000 * (2 + 4 + 4), rel=0.01)
    assert found(parallelism__ulysses_parallel_size=4) == pytest.approx(S // 4 * 32000 * (2 + 4 + 4 + 4), rel=0.01)


MISTAKES = [
    ({"parallelism__ulysses_parallel_size": 2, "parallelism__tensor_parallel_size": 2}, "supports one or the other"),
    ({"training__adapter": {"type": "lora"}}, "does not support adapters yet"),
    ({"training__compile": True}, "leave it out"),
    ({"parallelism__pipeline_parallel_size": 2, "engine__zero_stage": 2}, "DeepSpeed's pipelines support 0 and 1"),
    (
        {"parallelism__pipeline_parallel_size": 2, **FULL, "engine__cpu_checkpointing": True},
        "not supported yet in DeepSpeed",
    ),
    ({"engine__cpu_checkpointing": True}, "needs training.activation_checkpointing 'full'"),
    ({**FULL, "engine__contiguous_memory_optimization": True}, "needs engine.partition_activations"),
    ({**SHARED, **FULL, "engine__partition_activations": True}, "already holds only part of the sequence"),
    ({"training__activation_checkpointing": {"policy": "selective", "every": 2}}, "every: found 2"),
    ({"parallelism__tensor_parallel_size": 3, "hardware__num_gpus": 6}, "which does not divide "),
    ({"model": {**LLAMA, "num_key_value_heads": 4}, "parallelism__ulysses_parallel_size": 2}, "as many key heads"),
    ({"model": MIXTRAL, "parallelism__tensor_parallel_size": 2}, "found 2 with routed experts"),
    ({"model": MIXTRAL, "engine__zero_stage": 3}, "supports 0, 1 and 2"),
    ({"model": MIXTRAL, "parallelism__expert_parallel_size": 3}, "does not divide"),
    (
        {"model": {**MIXTRAL, "num_local_experts": 16}, "parallelism__expert_parallel_size": 16},
        "must divide the 8 data",
    ),
    ({"parallelism__expert_parallel_size": 2}, "no routed experts"),
]


@pytest.mark.parametrize(("changes", "message"), MISTAKES)
def test_mistakes_are_named(changes, message):
    """What contradicts itself or is not modelled is refused by name."""
    with pytest.raises((ConfigError, UnsupportedError), match=message):
        job(**changes)
