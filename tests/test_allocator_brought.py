"""How the caching allocator is set up where a script, a notebook, a container or a test says so."""

import json

import pytest

from memcore.errors import ConfigError
from memcore.formats.readers import flat
from memcore.tools import imported
from memcore.tools.origins import origins
from memcore.tools.sources import Source

TRAIN = "python train.py --model_name_or_path gpt2 --per_device_train_batch_size 2"
PYTHON = """\
import os
from trl import SFTConfig, SFTTrainer
{}
SFTTrainer(model="gpt2", args=SFTConfig(per_device_train_batch_size=2, max_length=128))
"""
MEGATRON = """\
ENV_VARS:
  PYTORCH_CUDA_ALLOC_CONF: expandable_segments:True
MODEL_ARGS:
  --num-layers: 2
  --hidden-size: 64
  --num-attention-heads: 2
  --seq-length: 64
  --micro-batch-size: 1
  --vocab-size: 128
"""
BENCHMARK = """\
step_scheduler: {local_batch_size: 1}
model:
  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained
  pretrained_model_name_or_path: gpt2
ci: {env_vars: {PYTORCH_CUDA_ALLOC_CONF: "expandable_segments:True"}}
"""
COMPOSE = """\
services:
  vllm:
    image: vllm/vllm-openai:v0.9
    environment: ["PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"]
    command: --model gpt2
"""
POD = """\
apiVersion: v1
kind: Pod
spec:
  containers:
  - name: train
    image: python
    env: [{name: PYTORCH_ALLOC_CONF, value: "expandable_segments:True"}]
    command: [bash, -c, "python train.py --model_name_or_path gpt2 --per_device_train_batch_size 2"]
"""


def notebook(*cells):
    return json.dumps({"cells": [{"cell_type": "code", "source": [each]} for each in cells]})


EXPANDABLE = {"expandable_segments": True}
READ = {
    f"export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n{TRAIN}": EXPANDABLE,
    f"PYTORCH_ALLOC_CONF='expandable_segments:True' {TRAIN}": EXPANDABLE,
    f"env PYTORCH_HIP_ALLOC_CONF=expandable_segments:True {TRAIN}": EXPANDABLE,
    f"export PYTORCH_CUDA_ALLOC_CONF=${{CONF:-max_split_size_mb:128}}\n{TRAIN}": {"max_split_size_mb": 128},
    f"export PYTORCH_CUDA_ALLOC_CONF=$PYTORCH_CUDA_ALLOC_CONF\n{TRAIN}": {},
    f"export PYTORCH_CUDA_ALLOC_CONF=backend:native,garbage_collection_threshold:0.6,roundup_power2_divisions:4\n{TRAIN}": {
        "garbage_collection_threshold": 0.6, "roundup_power2_divisions": 4},
    f"export PYTORCH_ALLOC_CONF=max_split_size_mb:64\nexport PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n{TRAIN}": {
        "max_split_size_mb": 64},
    PYTHON.format('os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"'): EXPANDABLE,
    PYTHON.format('os.environ.setdefault("PYTORCH_ALLOC_CONF", "max_split_size_mb:256")'): {"max_split_size_mb": 256},
    PYTHON.format('os.environ.update({"PYTORCH_ALLOC_CONF": "expandable_segments:" + "False"})'): {
        "expandable_segments": False},
    notebook("%env PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", PYTHON.format("")): EXPANDABLE,
    MEGATRON: EXPANDABLE,
    BENCHMARK: EXPANDABLE,
    COMPOSE: EXPANDABLE,
    POD: EXPANDABLE,
    "base_model: gpt2\nsequence_len: 8\n": EXPANDABLE,
}  # fmt: skip
"""What each says of the allocator; axolotl sets it up itself (`set_pytorch_cuda_alloc_conf`)."""
NAMES = {"expandable_segments", "max_split_size_mb", "garbage_collection_threshold", "roundup_power2_divisions"}


@pytest.mark.parametrize("text", READ, ids=range(len(READ)))
def test_what_an_environment_says(text):
    found = imported(text, 1)
    said = flat(found.config).items()
    assert {path.rpartition(".")[2]: value for path, value in said if path.rpartition(".")[2] in NAMES} == READ[text]
    assert found.unknown == ()


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ("roundup_power2_divisions:[256:1,512:2,>:8],expandable_segments:True", ["roundup_power2_divisions"]),
        ("backend:cudaMallocAsync", ["backend"]),
        ("max_non_split_rounding_mb:40,pinned_use_background_threads:True", ["max_non_split_rounding_mb"]),
    ],
)
def test_what_is_not_supported_is_named(options, left):
    found = imported(f"export PYTORCH_CUDA_ALLOC_CONF='{options}'\n{TRAIN}", 1)
    assert found.accounts.left_out == tuple(f"PYTORCH_CUDA_ALLOC_CONF={each}" for each in left)


@pytest.mark.parametrize(
    "options",
    [
        "expandable_segments:maybe",
        "max_split_size_mb:8",
        "roundup_power2_divisions:3",
        "garbage_collection_threshold:2",
    ],
)
def test_what_pytorch_rejects_is_refused(options):
    with pytest.raises(ConfigError, match="which PyTorch does not accept"):
        imported(f"export PYTORCH_CUDA_ALLOC_CONF={options}\n{TRAIN}", 1)


def test_where_it_stands_is_said():
    text = f"export WANDB_PROJECT=x\nexport PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n{TRAIN}"
    found = origins([Source("train.sh", text)])
    assert [(row.key, row.line) for row in found.read if row.path == "engine.expandable_segments"] == [
        ("PYTORCH_CUDA_ALLOC_CONF", 2)
    ]
    assert "WANDB_PROJECT" not in {row.key for row in found.of_no_account}


def test_a_section_that_decides_the_engine_has_it():
    text = "base_model: gpt2\nsequence_len: 8\nfsdp: [full_shard, auto_wrap]\nfsdp_config:\n  fsdp_sharding_strategy: FULL_SHARD\n"
    found = origins([Source("job.yaml", text)])
    assert {row.path: row.key for row in found.read}["engine.type"] == "fsdp"
    assert "engine.type" not in {row.path for row in found.assumed}
