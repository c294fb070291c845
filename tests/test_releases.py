"""What releases of libraries did differently: transformers' losses and checkpoints, Megatron-Core's dummies."""

import pytest
from conftest import predicted, truth

from memcore import estimate

# A run whose release matters, and by how much its prediction may be off: what is missing is then no tensor of the job.
MEASURED = {
    "fms-mistral7b-qlora-1g-b4": 0.001,  # 4.48: 16-bit logits, their fp32 copy, and one of it without the last token
    "fms-powerlm3b-qlora-1g-b8": 0.001,  # 4.45: the model upcasts its logits
    "fms-powerlm3b-full-fsdp2-b4": 0.001,
    "fms-mistral7b-qlora-fsdp2-b2": 0.003,  # 4.48: hooks of frozen units hold inputs and their gradients
    "simumax-b200-llama3-70b-12l-tp4-dp2": 0.003,  # core 0.14: the head's dummy gradient stays
    "simumax-b200-llama3-70b-12l-pp2-dp4-stage1": 0.003,
    "simumax-b200-deepseek-v2-4l-ep8-dp8": 0.003,
    "simumax-b200-llama3-70b-12l-cp8-s32k": 0.003,  # and attention keeps its result before heads are exchanged
}


@pytest.mark.parametrize(("name", "most"), MEASURED.items(), ids=list(MEASURED))
def test_measured_runs_of_a_release(name, most):
    """Predicted within the bound: no tensor of the release is missing, and none is too much."""
    (found,) = predicted("runs", lambda case: case["id"] == name)
    assert abs(found.error) < most


DIFFERENT = {
    "4.46.3": ("gemma", "gemma2", "mistral", "olmo", "phi3"),
    "4.51.3": ("gemma", "gemma2", "olmo", "olmo2"),
    "4.57.6": ("gemma", "gemma2"),
}
"""Families of which a release did something more that is not modelled: rotary embeddings in each layer of 4.46, a
buffer of Gemma's since. They are off by 512 bytes to 1.9 MB in steps of 130 MB."""
OFF = {"release-4.57.6-stablelm-full-bf16", "torch-2.8-llama-sgd", "torch-2.8-llama-adafactor"}
"""With PyTorch 2.13 and 2.8 alike: a copy of StableLM's heads, 512 bytes of SGD and 10.5 KiB of Adafactor."""


def exact(case):
    """Whether the peak of a case is known to be right to the byte."""
    release, family = case["config"].get("engine", {}).get("framework_version"), case["config"]["model"]["model_type"]
    peak = case["measured"]["moment"] == "peak" and case["id"] not in OFF
    return peak and family not in DIFFERENT.get(release, ())


SIMULATED = [each for each in truth("releases") if exact(each)]


@pytest.fixture(scope="module")
def released():
    """Results by the id of their case."""
    return {each.id: each for each in predicted("releases")}


@pytest.mark.parametrize("case", SIMULATED, ids=lambda case: case["id"])
def test_simulated_steps_of_a_release(case, released):
    """Steps of transformers 4.46, 4.51 and 4.57, and of PyTorch 2.8, are exact to the byte."""
    found = released[case["id"]]
    assert found.predicted == found.measured


def allocated(model, version, **training):
    """Bytes of a job of transformers' Trainer at its peak."""
    job = {"sequence_length": 2048, "micro_batch_size": 4, "precision": "bf16", "adapter": "lora", **training}
    engine = {"framework": "transformers", "framework_version": version}
    return estimate({"model": model, "training": job, "engine": engine}).allocated.expected


LOGITS = 4 * 2048 * 32000 * 2
"""Of Llama 2 in 16 bits."""


def test_logits_by_release():
    """Before 4.49 logits are copied without the last token; from 4.46 on 16-bit logits stay beside the copies."""
    found = {version: allocated("llama-2-7b-hf", version) for version in ("4.45.2", "4.48.1", "4.49.0", "5.0.0")}
    assert found["4.49.0"] == pytest.approx(found["5.0.0"], rel=1e-5)
    assert found["4.48.1"] - found["4.45.2"] == pytest.approx(LOGITS, rel=0.01)
    assert found["4.48.1"] - found["4.49.0"] >= LOGITS


@pytest.mark.parametrize("version", ["4.44", "4.48.3"])
def test_families_that_never_upcast(version):
    """GPT-2's loss was computed in the dtype of its logits; a later release computes it in fp32."""
    found = estimate(
        {
            "model": "gpt2",
            "training": {"sequence_length": 1024, "micro_batch_size": 8, "precision": "bf16"},
            "engine": {"framework": "transformers", "framework_version": version},
        }
    )
    assert (found.job.recipe.loss.kind, found.job.recipe.loss.slices_logits) == ("cross-entropy", True)
    newest = estimate({"model": "gpt2", "training": {"sequence_length": 1024, "precision": "bf16"}})
    assert (newest.job.recipe.loss.kind, newest.job.recipe.loss.slices_logits) == ("cross-entropy-fp32", False)


@pytest.mark.parametrize(("version", "rules"), [("5.14", {"gated_norm", "norm_statistics"}), ("5.15", {"to", "silu"})])
def test_gated_norm_by_release(version, rules):
    """Until 5.14 the norm after Qwen3.5's delta rule is one kernel of flash-linear-attention, which keeps its inputs."""
    training = {"sequence_length": 64, "precision": "bf16"}
    engine = {"framework": "transformers", "framework_version": version}
    blocks = estimate({"model": "Qwen/Qwen3.5-0.8B", "training": training, "engine": engine}).rank.program.blocks
    found = {each.rule for each in blocks if each.module.endswith("linear_attn.norm")}
    assert found & {"gated_norm", "norm_statistics", "to", "silu"} == rules


def test_hooks_of_frozen_units_hold_leaves():
    """Reentrant checkpoints around FSDP1's units (before 4.52) leave inputs and gradients of every layer until the end."""

    def peak(version):
        return allocated_fsdp(version).peak_of("backward")

    inputs = 2048 * 4 * 4096 * 2
    assert peak("4.51.0") - peak("4.52.0") > 20 * inputs


def allocated_fsdp(version):
    """A rank of FSDP1 with LoRA under full checkpointing."""
    return estimate(
        {
            "model": "llama-2-7b-hf",
            "training": {
                "sequence_length": 2048,
                "micro_batch_size": 4,
                "precision": "bf16",
                "adapter": "lora",
                "activation_checkpointing": "full",
            },
            "parallelism": {"data_parallel_size": 2},
            "engine": {"type": "fsdp", "version": 1, "framework": "transformers", "framework_version": version},
        }
    ).rank


def test_megatron_keeps_the_heads_dummy_since_core_014():
    """The output head's dummy gradient is one more [V, h]; with a deferred gradient there is none."""

    def peak(**engine):
        job = {
            "model": "llama-2-7b-hf",
            "training": {"sequence_length": 2048},
            "parallelism": {"tensor_parallel_size": 8},
            "engine": {"type": "megatron", **engine},
            "hardware": {"num_gpus": 8},
        }
        return estimate(job).allocated.expected

    head = 32768 // 8 * 4096 * 2  # the vocabulary is padded to 128 × TP
    assert peak() == peak(version="0.14")
    assert peak() - peak(version="0.13") == head
