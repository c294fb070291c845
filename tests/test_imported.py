"""Files of other calculators, and jobs from a size alone."""

import pytest

from memcore.config.engine import EngineSettings
from memcore.config.imported import imported
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.errors import ConfigError
from memcore.estimation import estimate_training
from memcore.networks.catalog import find_model
from memcore.questions.quick import quick

DDP = {
    "model": {
        "name": "custom-1b",
        "num_parameters": "1B",
        "num_layers": 24,
        "hidden_size": 2048,
        "num_attention_heads": 16,
        "vocab_size": 32000,
        "max_seq_len": 2048,
    },
    "training": {
        "batch_size": 8,
        "gradient_accumulation_steps": 2,
        "optimizer": "adamw",
        "dtype": "bf16",
        "activation_checkpointing": 0,
    },
    "parallelism": {
        "tensor_parallel_size": 1,
        "pipeline_parallel_size": 1,
        "data_parallel_size": 4,
        "sequence_parallel": False,
    },
    "engine": {"type": "pytorch_ddp", "zero_stage": None, "offload_optimizer": "none", "offload_param": "none"},
    "hardware": {"num_gpus": 4, "gpu_memory_gb": 40},
}
"""A published example of George614/gpu-mem_calculator."""


def test_a_file_is_accepted_as_it_is():
    """Its words become this project's, and the sizes are what they say."""
    config = Config.from_dict(DDP)
    assert config[EngineSettings.type] == "ddp"
    assert config[Training.precision] == "bf16-mixed"
    assert config[Training.activation_checkpointing.policy] == "none"
    assert config[Training.sequence_length] == 2048
    found = estimate_training(config)
    assert found.capacity == 40 * 2**30
    assert abs(found.job.model.parameters - 10**9) < 10**7
    assert imported(DDP).notes == []


def test_a_file_for_zero_3():
    """Another of its published examples: Llama 2 7B, ZeRO-3, the optimizer on the host."""
    sizes = {"num_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "vocab_size": 32000}
    described = {
        "model": {
            "name": "llama2-7b",
            "num_parameters": "7B",
            **sizes,
            "max_seq_len": 4096,
            "largest_layer_params": 125829120,
        },
        "training": {
            **DDP["training"],
            "batch_size": 4,
            "gradient_accumulation_steps": 4,
            "activation_checkpointing": 1,
        },
        "parallelism": {**DDP["parallelism"], "data_parallel_size": 8},
        "engine": {
            "type": "deepspeed",
            "zero_stage": 3,
            "offload_optimizer": "cpu",
            "offload_param": "none",
            "zero_init": True,
        },
        "hardware": {"num_gpus": 8, "gpu_memory_gb": 80},
    }
    found = estimate_training(Config.from_dict(described))
    assert found.job.model.parameters == 6_738_415_616
    assert sum(entry.bytes for entry in found.rank.host) > 16 * found.job.model.parameters / 8
    assert found.rank.persistent.states < 2**20


ENGINES = [
    ({"type": "pytorch"}, {"type": "ddp"}),
    ({"type": "megatron_lm", "zero_stage": None, "offload_param": "none"}, {"type": "megatron"}),
    ({"type": "megatron_deepspeed", "zero_stage": 1}, {"type": "megatron-deepspeed", "zero_stage": 1}),
    ({"type": "fsdp", "sharding_strategy": "full_shard"}, {"type": "fsdp", "reshard_after_forward": True}),
    ({"type": "fsdp", "sharding_strategy": "shard_grad_op"}, {"type": "fsdp", "reshard_after_forward": False}),
    ({"type": "fsdp", "sharding_strategy": "no_shard"}, {"type": "ddp"}),
    (
        {"type": "deepspeed", "zero_stage": 2, "offload_optimizer": "cpu"},
        {"type": "deepspeed", "zero_stage": 2, "offload_optimizer": "cpu"},
    ),
]


@pytest.mark.parametrize(("theirs", "ours"), ENGINES)
def test_engines(theirs, ours):
    """Its engines by our names; keys that it ignores for an engine are left out."""
    assert imported({**DDP, "engine": theirs}).config["engine"] == ours


@pytest.mark.parametrize(
    ("level", "policy"), [(0, "none"), (1, "selective"), (2, "selective"), (3, "full"), (4, "full")]
)
def test_checkpointing_levels(level, policy):
    """Levels become policies; those without an equal are noted."""
    found = imported({**DDP, "training": {**DDP["training"], "activation_checkpointing": level}})
    assert found.config["training"]["activation_checkpointing"] == policy
    assert len(found.notes) == (0 < level < 4)


ROUTED = {**DDP["model"], "moe_enabled": True, "num_experts": 4, "top_k": 2}
GROUPS = [
    # Tensor- and pipeline-parallel sizes, engine, network: what it becomes, and the sizes that stay.
    ((2, 2), {"type": "deepspeed", "zero_stage": 3}, DDP["model"], "deepspeed", (1, 1, 8)),
    ((2, 1), {"type": "deepspeed", "zero_stage": 3}, DDP["model"], "megatron-deepspeed", (2, 1, 2)),
    ((2, 2), {"type": "deepspeed", "zero_stage": 1}, DDP["model"], "megatron-deepspeed", (2, 2, 2)),
    ((4, 1), {"type": "deepspeed", "zero_stage": 2}, ROUTED, "deepspeed", (1, 1, 8)),
    ((4, 1), {"type": "pytorch_ddp"}, DDP["model"], "ddp", (1, 1, 8)),
    ((2, 1), {"type": "fsdp"}, ROUTED, "fsdp", (1, 1, 4)),
    ((2, 1), {"type": "fsdp"}, DDP["model"], "fsdp", (2, 1, 2)),
]


@pytest.mark.parametrize(("sizes", "engine", "model", "taken", "left"), GROUPS)
def test_groups_of_engines_that_divide_no_layers(sizes, engine, model, taken, left):
    """Its DeepSpeed and DDP share states between all GPUs whatever the groups: presets of it have such files."""
    names = [f"{name}_parallel_size" for name in ("tensor", "pipeline", "data")]
    parallelism = dict(zip(names, (*sizes, 8 // (sizes[0] * sizes[1]) if left[2] == 8 else 2), strict=True))
    gpus = parallelism[names[0]] * parallelism[names[1]] * parallelism[names[2]]
    described = {**DDP, "model": model, "engine": engine, "parallelism": parallelism, "hardware": {"num_gpus": gpus}}
    found = imported(described)
    assert found.config["engine"]["type"] == taken
    assert tuple(found.config["parallelism"].get(name, 1) for name in names) == left
    assert any("split" in note for note in found.notes) == (engine["type"] != "fsdp" or model is ROUTED)
    assert estimate_training(Config.from_dict(described)).rank.most > 0


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"zero_stage": 2, "offload_optimizer": "nvme"}, {"zero_stage": 2}),
        ({"zero_stage": 2, "offload_param": "cpu"}, {"zero_stage": 2}),
        ({"offload_optimizer": "cpu"}, {}),
        ({"zero_stage": 1, "offload_optimizer": "cpu"}, {"zero_stage": 1, "offload_optimizer": "cpu"}),
        ({"zero_stage": 3, "offload_param": "nvme"}, {"zero_stage": 3, "offload_param": "nvme"}),
    ],
)
def test_offload_below_its_stage(given, kept):
    """It leaves on the GPU what ZeRO cannot offload at a stage."""
    found = imported({**DDP, "engine": {"type": "deepspeed", **given}})
    assert found.config["engine"] == {"type": "deepspeed", **kept}
    assert len(found.notes) == (given != kept)


def test_gpus_decide():
    """Where the groups' sizes and the GPUs disagree, data parallelism is what the GPUs leave, and it is said."""
    parallelism = {"tensor_parallel_size": 8, "pipeline_parallel_size": 16, "data_parallel_size": 1}
    engine = {"type": "megatron_lm"}
    found = imported({**DDP, "engine": engine, "parallelism": parallelism, "hardware": {"num_gpus": 1024}})
    assert "data_parallel_size" not in found.config["parallelism"]
    assert "1024 is not the product of the parallel sizes 8 × 16 × 1" in found.notes[0]


def test_mixtures_of_experts():
    """Mixtral as its presets describe it, where keys and values have as many heads as queries."""
    sizes = {
        **DDP["model"],
        "num_layers": 32,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_parameters": "46.7B",
    }
    experts = {"moe_enabled": True, "num_experts": 8, "top_k": 2, "expert_intermediate_size": 14336}
    model = find_model(imported({**DDP, "model": {**sizes, **experts}}).config["model"])
    mlp, attention = 8 * 3 * 4096 * 14336 + 8 * 4096, 4 * 4096**2
    assert model.parameters == 32 * (mlp + attention + 2 * 4096) + 2 * 32000 * 4096 + 4096
    shared = imported({**DDP, "model": {**sizes, **experts, "shared_expert_intermediate_size": 2048}}).config["model"]
    wide = 32 * (3 * 4096 * 2048 + 4096 + 3 * 4096)
    assert find_model(shared).parameters == model.parameters + wide
    dense = imported({**DDP, "model": {**sizes, **experts, "moe_enabled": False}}).config["model"]
    assert "top_k" not in dense


def test_mistakes_are_named():
    """What is wrong in such a file is an error with its path; other configs are left alone."""
    with pytest.raises(ConfigError, match="training.precision"):
        Config.from_dict({**DDP, "training": {"dtype": "int8"}})
    with pytest.raises(ConfigError, match="training.learning_rate"):
        Config.from_dict({**DDP, "training": {**DDP["training"], "learning_rate": 1}})
    with pytest.raises(ConfigError, match="sharding_strategy"):
        Config.from_dict({**DDP, "engine": {"type": "fsdp", "sharding_strategy": "half"}})
    own = {"model": "gpt2", "engine": {"type": "fsdp"}}
    assert imported(own).config == own


STATED = [
    # num_parameters of 32 layers of 4096: the feed-forward width, by Llama's rule where the count rounds to it.
    ("7B", 11008),
    ("6.7B", 11008),
    ("8B", 14208),
    (6_738_415_616, 11008),
    (7_000_000_000, 11008),
    (6.7e9, 11008),
    (6_500_000_000, 10432),
]


@pytest.mark.parametrize(("stated", "width"), STATED)
def test_a_stated_size_decides_what_is_left_open(stated, width):
    """Nothing that is given is ignored: the width that no key names follows from the number of parameters."""
    sizes = {"num_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "vocab_size": 32000}
    assert find_model({**sizes, "num_parameters": stated}).sizes["f"] == width


def test_sizes_that_disagree_are_said():
    """With all sizes given they decide, and a warning says what the number of parameters would be."""
    sizes = {"num_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "intermediate_size": 11008}
    found = find_model({**sizes, "num_parameters": "13B"})
    assert "its sizes give 6,738,415,616 parameters, but num_parameters is 13B" in found.warnings[0]


def test_quick():
    """A size is enough, and everything that was assumed is said."""
    config, assumed = quick("7", gpus=8, engine="pytorch_ddp", memory=80)
    found = estimate_training(config)
    assert abs(found.job.model.parameters - 7e9) < 2e7
    assert (found.job.num_gpus, found.capacity) == (8, 80 * 2**30)
    assert any("2048 tokens" in each for each in assumed)
    assert quick("350M")[0][EngineSettings.type] == "none"
    for size, parameters in (("7e9", 7e9), ("7000000000", 7e9), ("1e3", 1e12), ("0.5", 5e8)):
        assert abs(estimate_training(quick(size)[0]).job.model.parameters / parameters - 1) < 0.01
    sharded, assumed = quick("7", gpus=8, engine="deepspeed")
    assert sharded[EngineSettings.zero_stage] == 2
    assert "ZeRO stage 2, nothing offloaded" in assumed
    assert estimate_training(sharded).fits
    with pytest.raises(ConfigError, match="num_parameters"):
        estimate_training(quick("seven")[0])
    with pytest.raises(ConfigError, match="--dtype"):
        quick("7", dtype="int3")
