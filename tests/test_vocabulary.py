"""Every key of every harvested release has a class, and what memcore takes an absent key for is the tool's own default."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from memcore.errors import ConfigError, MemcoreError
from memcore.tools import TOOLS, imported
from memcore.tools.loops import DEFAULTS
from memcore.tools.vocabulary import CLASSES, MAPPED, class_of, table
from memcore.trainers.deepspeed.files import WIDTHS

pytestmark = pytest.mark.machine
TABLES = Path(__file__).parent.parent / "harvest" / "tables"
HARVESTED = sorted(path.stem for path in TABLES.glob("*.json"))
READERS = {
    name: [tool for tool in TOOLS.values() if name in tool.vocabulary]
    for name in HARVESTED
    if any(name in tool.vocabulary for tool in TOOLS.values())
}
APART = ("trl", "peft")


def rows(name):
    return json.loads((TABLES / f"{name}.json").read_text())


def names(tool):
    """Keys that a tool's tables name."""
    found = {key for each in tool.keys for key in (*each.names, each.off)}
    found |= {key for meaning in tool.meanings for key in meaning.keys}
    found |= {*tool.dimensions, *tool.world, tool.batch, tool.model, tool.copies, tool.per_chunk, *tool.alongside}
    return {key for key in found if key and not key.startswith("*")}


def test_harvested():
    assert set(READERS) >= {
        "transformers",
        "trl",
        "axolotl",
        "llama-factory",
        "ms-swift",
        "deepspeed",
        "vllm",
        "sglang",
    }


RELEASES = {
    "transformers": ("4.46.", "4.57.", "5."),
    "trl": ("0.12.", "0.24.", "1."),
    "peft": ("0.13.", "0.21."),
    "accelerate": ("1.2.", "1.15."),
    "deepspeed": ("0.16.", "0.19."),
    "axolotl": ("0.5.", "0.18.", "0.19."),
    "llama-factory": ("0.8.", "0.9.6"),
    "ms-swift": ("3.5.", "3.10.", "4.5.", "4.6."),
    "torchtune": ("0.3.", "0.6."),
    "torchtitan": ("0.1.", "0.2.", "0.3.", "2026."),
    "megatron": ("0.8.", "0.12.", "0.19."),
    "nanotron": ("0.4", "0.5"),
    "vllm": ("0.8.5", "0.9.", "0.10.", "0.11.", "0.14.", "0.17.", "0.20.", "0.25.", "0.29.", "0.33."),
    "sglang": ("0.4.6", "0.5.2", "0.5.8", "0.5.16", "0.5.20", "0.5.23"),
    "llama.cpp": ("b10", "b11"),
    "tensorrt-llm": ("1.2.", "1.3."),
}
"""Releases whose whole vocabulary is classed, by how their numbers begin."""


@pytest.mark.parametrize("name", RELEASES)
def test_releases_are_harvested(name):
    """Each key of such a release has a class, as `test_every_key_has_a_class` says of all that is harvested."""
    found = rows(name)["versions"]
    assert [begin for begin in RELEASES[name] if not any(each.startswith(begin) for each in found)] == []


@pytest.mark.parametrize("name", HARVESTED)
def test_every_key_has_a_class(name):
    """`python -m harvest` writes a question mark for a key that a new release brings."""
    harvested = {key.partition(".")[2] if name in APART else key for key in rows(name)["keys"]}
    classes = table(name)
    assert set(classes) == harvested
    assert harvested
    assert {key: found for key, found in classes.items() if found not in CLASSES} == {}


@pytest.mark.parametrize("name", READERS)
def test_keys_that_are_read_are_mapped(name):
    """A key is classed as read if and only if a table names it, or what keys mean together reads it."""
    tools = READERS[name]
    own = {key for tool in tools for key in names(tool)}
    parts = {part for key in own for part in (key.rpartition(".")[2], key.partition(".")[0])}
    patterns = [each for tool in tools for each in tool.settles]
    mapped = [key for key, found in table(name).items() if found == MAPPED]
    assert mapped
    for key in mapped:
        assert key in own or key in parts or any(fnmatchcase(key, each) for each in patterns), key
    for key in own & set(table(name)):
        assert table(name)[key] == MAPPED, key


@pytest.mark.parametrize("name", ["axolotl", "llama-factory", "ms-swift"])
def test_keys_that_are_read_exist(name):
    """A loop's tables name no key that no release has, of its own or of DeepSpeed's."""
    tables = TOOLS[name].vocabulary
    absent = [
        key
        for key in names(TOOLS[name])
        if class_of(("deepspeed",) if key.startswith("deepspeed.") else tables, key.removeprefix("deepspeed.")) is None
    ]
    assert absent == []


def default(name, key):
    """The default of a key in the newest release that has it."""
    return rows(name)["keys"][key][-1][1]


_COMPARED_ELSEWHERE = (
    "accelerate",
    "deepspeed",
    "trl",
    "torchtitan",
    "nanotron",
    "megatron",
    "nemo-automodel",
    "llm-foundry",
)


@pytest.mark.parametrize("name", [name for name in READERS if any(tool.defaults for tool in READERS[name])])
def test_defaults_of_tables_are_the_tools_own(name):
    """Where a table says what an absent key means, the tool's own source says the same."""
    compared = 0
    for tool in READERS[name]:
        for key in tool.keys:
            first = next((each for each in tool.vocabulary if key.name in table(each)), None)
            found = rows(name)["keys"].get(key.name) if first == name else None
            if key.path in tool.defaults and found is not None and not isinstance(found[-1][1], str | None):
                assert found[-1][1] == tool.defaults[key.path], key.name
                compared += 1
    assert compared or name in _COMPARED_ELSEWHERE


@pytest.mark.parametrize(("name", "key"), [(name, key) for name, keys in DEFAULTS.items() for key in keys])
def test_defaults_of_loops_are_the_tools_own(name, key):
    assert default(name, key) == DEFAULTS[name][key]


@pytest.mark.parametrize("key", WIDTHS)
def test_sizes_of_deepspeed_are_its_own(key):
    found = str(default("deepspeed", f"zero_optimization.{key}"))  # `=pp_int(5e8)`: a number that is printed well
    assert float(found.removeprefix("=pp_int(").rstrip(")")) == WIDTHS[key]


BAD = {
    "base_model: a/b\nsequence_length_: 1\nmicro_batch_siz: 2\n": "micro_batch_siz: no known release of axolotl",
    "model_name_or_path: a/b\nstage: sft\ncutof_len: 4\n": "did you mean 'cutoff_len'",
    "model_name_or_path: a/b\ntemplate: x\nstage: xpo\n": "stage: found 'xpo'; supported: sft, pt, dpo",
    "model_name_or_path: a/b\nstage: sft\nuse_badam: true\n": "use_badam: found True",
    "model_name_or_path: a/b\nfinetuning_type: freeze\n": "finetuning_type: found 'freeze'",
    "base_model: a/b\nrl: ebft\n": "rl: found 'ebft'; supported: dpo",
    "base_model: a/b\nunfrozen_parameters: ['layers.[0-7].']\n": "plain module names",
    "base_model: a/b\noptimizer: sparkle\n": "optimizer: found 'sparkle'; supported here:",
    "model_name_or_path: a/b\nmax_length: 8\nkl_coef: 0.1\n": "a key of TRL's PPO, which is not supported yet; the closest is --method ppo",
    "python x/bco.py --model_name_or_path a/b --bf16": "bco is not supported yet",
    "swift rlhf --rlhf_type ppo --model a/b --tuner_type lora": "rlhf_type: found 'ppo'",
    "swift export --model a/b": "which does not train",
    "megatron rlhf --rlhf_type gkd --model a/b": "rlhf_type: found 'gkd'",
    "megatron sft --model a/b --task_type prm": "task_type: found 'prm'",
    "megatron sft --model a/b --tuner_type lora --modules_to_save x": "modules_to_save: found",
    "megatron sft --model a/b --tensor_model_parallel_sise 2": "did you mean 'tensor_model_parallel_size'",
    "vllm serve a/b --max-model-lenn 4": "did you mean '--max-model-len'",
    "[model]\nname = 'llama3'\nflavor = '8B'\n[training]\nlocal_batchsize = 4\n[parallelism]\n": "did you mean 'training.local_batch_size'",
    "pretrain_gpt.py --num-layers 2 --step-batch-size-schedule 0:much": "expected steps such as 0:768 250B:1536",
    "vllm serve a/b --port 1 &\nvllm serve a/c --port 2": "2 commands for 2 jobs",
    "model_name_or_path: a/b\nexport_dir: x\ntemplate: y\n": "export_dir",
}


@pytest.mark.parametrize("text", BAD)
def test_refused_by_name(text):
    with pytest.raises(MemcoreError) as raised:
        imported(text)
    assert BAD[text] in str(raised.value)


def test_no_key_is_silent():
    """Each key of a file is read, of no account, left out by name, or an error."""
    text = "base_model: a/b\nlora_r: 8\nadapter: lora\nlearning_rate: 1\nuse_kernels: true\nwandb_project: x\n"
    found = imported(text)
    read = {key for key, _ in found.read}
    assert {"lora_r", "adapter"} <= read
    assert found.accounts.of_no_account == ("learning_rate", "wandb_project")
    assert found.accounts.left_out == ("use_kernels",)
    assert found.accounts.unknown == ()


def test_a_variable_from_outside_is_asked_for():
    from memcore.tools.sources import read_source

    text = "vllm serve $MODEL --tensor-parallel-size $TP --enforce-eager $MORE"
    with pytest.raises(
        ConfigError, match=r"--tensor-parallel-size: found \$TP, which the script does not set; give it with --tp"
    ):
        read_source(text, given=("model",))
    config, _ = read_source(text, given=("model", "parallelism.tensor_parallel_size"))
    assert config["engine"]["enforce_eager"] is True
