"""Several files that describe one job between them: a trainer's with DeepSpeed's, accelerate's, an adapter's, a model's."""

import json

import pytest

from memcore import Config, estimate
from memcore.errors import ConfigError
from memcore.faces.cli import main
from memcore.tools.sources import Source, read_sources

TRAINER = Source(
    "train.yaml",
    """\
model_name_or_path: meta-llama/Llama-3.1-8B
per_device_train_batch_size: 2
gradient_checkpointing: true
bf16: true
deepspeed: ds_z3.json
""",
)
STAGE_3 = Source("ds_z3.json", '{"zero_optimization": {"stage": 3}, "bf16": {"enabled": true}}')
ACCELERATE = Source(
    "accelerate.yaml",
    """\
compute_environment: LOCAL_MACHINE
distributed_type: FSDP
num_processes: 4
mixed_precision: bf16
fsdp_config:
  fsdp_version: 2
  fsdp_reshard_after_forward: true
""",
)
ADAPTER = Source(
    "adapter_config.json",
    json.dumps({"peft_type": "LORA", "r": 32, "target_modules": ["q_proj"], "base_model_name_or_path": "org/base"}),
)
MODEL = Source(
    "config.json",
    json.dumps(
        {
            "model_type": "llama",
            "hidden_size": 256,
            "intermediate_size": 512,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "vocab_size": 1000,
            "max_position_embeddings": 512,
        }
    ),
)
OWN = Source("job.json", '{"model": "qwen3-8b", "training": {"sequence_length": 512}}')

TOGETHER = {
    "a trainer's file and DeepSpeed's": (
        [TRAINER, STAGE_3],
        {"engine": {"type": "deepspeed", "zero_stage": 3}, "training": {"micro_batch_size": 2}},
    ),
    "in the other order": (
        [STAGE_3, TRAINER],
        {"engine": {"type": "deepspeed", "zero_stage": 3}, "training": {"micro_batch_size": 2}},
    ),
    "an adapter and accelerate's file": (
        [ADAPTER, ACCELERATE],
        {
            "model": "org/base",
            "engine": {"type": "fsdp", "version": 2},
            "hardware": {"num_gpus": 4},
            "training": {"adapter": {"rank": 32}},
        },
    ),
    "a model and an adapter": ([MODEL, ADAPTER], {"training": {"adapter": {"target_modules": "q_proj"}}}),
    "an own config and an adapter": (
        [OWN, ADAPTER],
        {"model": "org/base", "training": {"sequence_length": 512, "adapter": {"rank": 32}}},
    ),
}


def contains(found, wanted):
    """Whether nested mappings hold what is wanted of them."""
    return all(
        contains(found.get(key, {}), value) if isinstance(value, dict) else found.get(key) == value
        for key, value in wanted.items()
    )


@pytest.mark.parametrize("name", TOGETHER)
def test_files_are_one_job(name):
    sources, wanted = TOGETHER[name]
    config, _ = read_sources(sources)
    assert contains(config, wanted), config


@pytest.mark.parametrize("order", [[MODEL, ADAPTER], [ADAPTER, MODEL]], ids=["model first", "adapter first"])
def test_a_config_json_is_the_model_whatever_others_call_it(order):
    config, _ = read_sources(order)
    assert config["model"]["hidden_size"] == 256
    assert estimate(Config.from_dict(config)).peak.peak > 0


def test_what_files_say_differently_is_told():
    _, notes = read_sources([OWN, ADAPTER])
    assert "model is 'qwen3-8b' in job.json and 'org/base' in adapter_config.json: the latter is used" in notes


def test_a_file_that_is_given_is_not_missed():
    """The trainer's file names DeepSpeed's: alone its stage is unknown, together it is read."""
    _, alone = read_sources([TRAINER])
    _, notes = read_sources([TRAINER, STAGE_3])
    assert [each for each in alone if "is a separate file" in each]
    assert [each for each in notes if "is a separate file" in each] == []


def test_what_a_file_says_precedes_what_another_tool_assumes():
    """DeepSpeed's own default is one sequence for each GPU; the trainer's file says two."""
    first, _ = read_sources([TRAINER, STAGE_3])
    second, _ = read_sources([STAGE_3, TRAINER])
    assert estimate(Config.from_dict(first)).peak.peak == estimate(Config.from_dict(second)).peak.peak


def test_the_command_line(tmp_path, capsys):
    """Files may stand anywhere among the flags."""
    paths = []
    for each in (TRAINER, STAGE_3):
        paths.append(tmp_path / each.name)
        paths[-1].write_text(each.text)
    assert main(["estimate", str(paths[0]), "--gpus", "8", str(paths[1]), "--seq", "1024"]) == 0
    assert "DeepSpeed on 8" in capsys.readouterr().out
    assert main(["validate", "-", "-"]) == 2
    assert "standard input is given twice" in capsys.readouterr().err


def test_one_wrong_file_is_named():
    with pytest.raises(ConfigError, match="does not match any supported tool"):
        read_sources([TRAINER, Source("other.yaml", "colour: blue\n")])
