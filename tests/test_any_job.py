"""Whatever a config combines is answered, or refused by name: no other error, on any engine."""

import pytest
from conftest import truth
from hypothesis import given, settings
from hypothesis import strategies as st

from memcore import estimate
from memcore.errors import MemcoreError, UnsupportedError
from memcore.questions.describe import symbols

CHECKPOINTS = truth("checkpoints")
MODELS = [
    CHECKPOINTS[name]["config"]
    for name in ("Qwen/Qwen3-0.6B", "deepseek-ai/DeepSeek-V2-Lite", "openai/gpt-oss-20b", "Zyphra/Zamba2-7B")
]
SIZES = st.sampled_from([1, 1, 1, 2, 4])


def maybe(**choices):
    """Some of these settings."""
    return st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in choices.items()})


@st.composite
def jobs(draw):
    """A job on any engine, with settings that may contradict each other."""
    kinds = ["none", "ddp", "fsdp", "megatron", "megatron-fsdp", "deepspeed", "nanotron"]
    parallelism = {f"{name}_parallel_size": draw(SIZES) for name in ("tensor", "pipeline", "context", "expert")}
    gpus = (
        2
        * parallelism["tensor_parallel_size"]
        * parallelism["pipeline_parallel_size"]
        * parallelism["context_parallel_size"]
    )
    training = draw(
        maybe(
            implementation=["torchtitan", "liger", "lit-gpt"],
            precision=["bf16", "bf16-mixed", "fp8-mixed"],
            activation_checkpointing=["none", "full", "selective"],
            loss=["fused-linear", "chunked:4", "vocab-parallel"],
            compile=[True],
            quantization=["nf4"],
            adapter=[{"type": "lora"}, {"type": "dora"}],
            optimizer=["adafactor", "adamw-8bit", "muon"],
        )
    )
    return {
        "model": draw(st.sampled_from(MODELS)),
        "training": {"sequence_length": 512, "gradient_accumulation_steps": 4, **training},
        "parallelism": {name: size for name, size in parallelism.items() if size > 1},
        "engine": {"type": draw(st.sampled_from(kinds)), **draw(maybe(version=[1], zero_stage=[1, 3]))},
        "hardware": {"num_gpus": gpus},
    }


@given(jobs())
@settings(max_examples=60, deadline=None)
def test_answered_or_refused(job):
    """Every reading and every symbol of what is answered."""
    try:
        found = estimate(job)
        assert all(reading.low <= reading.expected <= reading.high for reading in found.readings)
        assert symbols(found)
    except MemcoreError as error:
        assert str(error)


def test_an_encoders_decoder_has_a_length_of_its_own():
    """T5 in Megatron: formulas name the tokens of either side."""
    model = {"model_type": "megatron", "architecture": "t5", "num_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
             "vocab_size": 512, "max_position_embeddings": 64, "decoder_seq_length": 16}  # fmt: skip
    found = symbols(estimate({"model": model, "engine": {"type": "megatron"}}))
    assert {each.name: each.value for each in found if each.name in ("s", "sd")} == {"s": 64, "sd": 16}


@pytest.mark.parametrize(
    ("model", "training", "parallelism", "engine", "refused"),
    [
        (
            "MiniMaxAI/MiniMax-M2",
            {"implementation": "torchtitan"},
            {},
            {"type": "fsdp"},
            "norms over heads or none and rotary embeddings over whole heads, which minimax_m2 lacks",
        ),
        ("Qwen/Qwen3-8B", {}, {"pipeline_parallel_size": 2}, {"type": "fsdp", "version": 1}, "found engine.version 1"),
        (
            "Qwen/Qwen3-8B",
            {"implementation": "lit-gpt"},
            {"pipeline_parallel_size": 2},
            {"type": "fsdp"},
            "no pipeline parallelism",
        ),
    ],
)
def test_refusals(model, training, parallelism, engine, refused):
    """What is not modelled together is refused with the key and what is there instead."""
    config = {
        "model": CHECKPOINTS[model]["config"],
        "training": {"gradient_accumulation_steps": 4, **training},
        "parallelism": parallelism,
        "engine": engine,
        "hardware": {"num_gpus": 8},
    }
    with pytest.raises(UnsupportedError, match=refused):
        estimate(config)


def test_experts_in_a_pipeline():
    """A stage that begins with routed experts gathers its first layers at once; the allocator's replay follows."""
    job = {
        "model": CHECKPOINTS["deepseek-ai/DeepSeek-V3"]["config"],
        "training": {"sequence_length": 1024, "gradient_accumulation_steps": 2},
        "parallelism": {"pipeline_parallel_size": 2, "expert_parallel_size": 2},
        "engine": {"type": "fsdp"},
        "hardware": {"num_gpus": 4},
    }
    found = estimate(job)
    assert len(found.ranks) == 2
    assert all(rank.reserved >= rank.peak.peak for rank in found.ranks)


def test_grouped_queries_in_nanotron():
    """Keys and values of fewer heads are copied apart from the queries; the gradients find their way back."""
    llama = CHECKPOINTS["meta-llama/Llama-3.1-8B"]["config"]
    job = {"model": llama, "training": {"sequence_length": 1024}, "engine": {"type": "nanotron"}}
    shared, own = (estimate({**job, "model": {**llama, "num_key_value_heads": heads}}).peak.peak for heads in (8, 32))
    assert 0 < shared < own
