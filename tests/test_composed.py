"""Files that are one: defaults lists, and a file whose keys a command overrides."""

import pytest

from memcore.errors import MemcoreError
from memcore.formats.readers import flat
from memcore.tools import imported
from memcore.tools.composing import composed
from memcore.tools.origins import origins
from memcore.tools.sources import Source, read_sources

BASE = """\
grpo: {num_prompts_per_step: 32}
policy:
  model_name: Qwen/Qwen2.5-1.5B
  train_global_batch_size: 512
  train_micro_batch_size: 4
  max_total_sequence_length: 512
  precision: bfloat16
  optimizer: {name: torch.optim.AdamW}
  dtensor_cfg: {enabled: true, activation_checkpointing: false, tensor_parallel_size: 1, lora_cfg: {enabled: false}}
  megatron_cfg:
    enabled: false
    activation_checkpointing: false
    tensor_model_parallel_size: 1
    pipeline_model_parallel_size: 1
    context_parallel_size: 1
    sequence_parallel: false
    optimizer: {optimizer: adam, use_precision_aware_optimizer: true, use_distributed_optimizer: true}
    distributed_data_parallel_config: {grad_reduce_in_fp32: false, overlap_grad_reduce: true}
    peft: {enabled: false}
  sequence_packing: {enabled: true, train_mb_tokens: "${mul:${policy.max_total_sequence_length}, 4}"}
  generation: {colocated: {enabled: true}}
cluster: {gpus_per_node: 1, num_nodes: 1}
"""
"""NeMo RL, in the way of examples/configs/grpo_math_1B.yaml."""
RECIPE = """\
defaults: ../../grpo_math_1B.yaml
policy:
  model_name: Qwen/Qwen3-8B
  train_micro_batch_size: 1
  max_total_sequence_length: 4096
  dtensor_cfg:
    enabled: false
  sequence_packing:
    enabled: false
  megatron_cfg:
    enabled: true
    tensor_model_parallel_size: 4
    sequence_parallel: true
    activation_checkpointing: true
  generation:
    vllm_cfg:
      tensor_parallel_size: 4
cluster:
  gpus_per_node: 8
"""
"""NeMo RL, examples/configs/recipes/llm/grpo-qwen3.5-9b-1n8g-megatron.yaml, with another model."""
EASYR1 = """\
MODEL_PATH=Qwen/Qwen2.5-VL-7B-Instruct
python3 -m verl.trainer.main \\
    config=examples/config.yaml \\
    data.train_files=hiyouga/geometry3k@train \\
    worker.actor.model.model_path=${MODEL_PATH} \\
    worker.actor.clip_ratio_low=0.2 \\
    algorithm.disable_kl=True \\
    trainer.n_gpus_per_node=8
"""
"""EasyR1, examples/qwen2_5_vl_7b_geo3k_dapo.sh."""
ITS_FILE = """\
data: {max_prompt_length: 1024, max_response_length: 3072}
algorithm: {adv_estimator: grpo}
worker:
  actor:
    global_batch_size: 64
    micro_batch_size_per_device_for_update: 2
    padding_free: true
    ulysses_size: 2
    model: {model_path: Qwen/Qwen2.5-7B-Instruct, enable_gradient_checkpointing: true, lora: {rank: 0}}
    optim: {strategy: adamw}
    fsdp: {enable_full_shard: true, torch_dtype: bf16}
  rollout: {n: 4}
trainer: {nnodes: 1, n_gpus_per_node: 4}
"""


def said(*texts, **variables):
    config, _ = read_sources([Source(name, text) for name, text in texts], variables=variables)
    return {**flat({**config, "model": ""}), "model": config.get("model")}


def test_a_recipe_with_the_file_below_it():
    """Whatever the order in which they are given."""
    files = ("recipes/grpo.yaml", RECIPE), ("configs/grpo_math_1B.yaml", BASE)
    found = said(*files)
    wanted = {
        "model": "Qwen/Qwen3-8B",
        "engine.type": "megatron",
        "engine.grad_reduce_in_bf16": True,
        "engine.precision_aware_optimizer": True,
        "hardware.num_gpus": 8,
        "parallelism.tensor_parallel_size": 4,
        "parallelism.sequence_parallel": True,
        "training.sequence_length": 4096,
        "training.micro_batch_size": 1,
        "training.gradient_accumulation_steps": 256,
        "training.activation_checkpointing.policy": "full",
        "training.precision": "bf16-mixed",
    }
    assert {path: found.get(path) for path in wanted} == wanted
    assert found == said(*reversed(files))


def test_a_complete_file_of_nemo_rl():
    """Packed sequences are as many tokens as a micro-batch has."""
    found = said(("grpo.yaml", BASE))
    wanted = {
        "model": "Qwen/Qwen2.5-1.5B",
        "engine.type": "fsdp",
        "engine.version": 2,
        "training.method.name": "grpo",
        "training.sequence_length": 2048,
        "training.micro_batch_size": 1,
        "training.gradient_accumulation_steps": 128,
        "training.packed_sequences": True,
        "training.precision": "bf16-mixed",
    }
    assert {path: found.get(path) for path in wanted} == wanted
    shards = said(("grpo.yaml", BASE.replace("false, tensor_parallel_size: 1", "false, tensor_parallel_size: 2")))
    assert (shards["parallelism.tensor_parallel_size"], shards.get("training.method.name")) == (2, None)
    taught = said(("distillation.yaml", BASE.replace("grpo:", "distillation:", 1)))
    assert taught == found


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ([("recipe.yaml", RECIPE)], r"defaults: found '../../grpo_math_1B.yaml'; pass that file as well"),
        ([("recipe.yaml", RECIPE), ("sft.yaml", BASE)], "pass that file as well"),
        ([("run.sh", "python examples/run_grpo.py --config my.yaml policy.train_micro_batch_size=2")], "config: found"),
        ([("easy.sh", EASYR1.replace("examples/config.yaml", "mine.yaml"))], "pass that file as well"),
        (
            [("a.yaml", "defaults: [{model: small}, {trainer: fsdp}]"), ("model/small.yaml", "x: 1")],
            "lists files that were not given: trainer/fsdp",
        ),
        ([("a.yaml", "defaults: [b]"), ("b.yaml", "defaults: [a]")], "nested more than"),
        ([("rl.yaml", BASE.replace("grpo:", "ppo:"))], "ppo: found 'ppo'"),
    ],
)
def test_what_is_not_there_is_asked_for(texts, words):
    with pytest.raises(MemcoreError, match=words):
        said(*texts)


def test_groups_are_packages():
    """Hydra: a file's own keys come last, or where `_self_` is; experiments choose other files of a group."""
    files = {
        "config.yaml": "defaults:\n  - _self_\n  - model: small\n  - trainer@training: one\n  - callbacks: many\n"
        "  - hydra: default\n  - optional debug: null\nmodel: {width: 1, depth: 7}\n",
        "model/small.yaml": "width: 2\n",
        "model/large.yaml": "width: 3\n",
        "trainer/one.yaml": "batch: ${model.width}\n",
        "data/all.yaml": "# @package _global_\nseed: 5\n",
    }
    [found] = composed(list(files.items()))
    assert found.keys == {"model.width": 2, "model.depth": 7, "training.batch": 2}
    assert found.members == (1, 3, 0)
    files["experiment/x.yaml"] = "# @package _global_\ndefaults:\n  - override /model: large\nmodel: {depth: 9}\n"
    [found] = composed(list(files.items()))
    assert found.keys == {"model.width": 3, "model.depth": 9, "training.batch": 3}


def test_files_that_name_none_stand_for_themselves():
    assert composed([("a.yaml", "x: 1"), ("b.yaml", "defaults: [c]")]) == []
    assert composed([("a.yaml", "defaults: [b]")]) == []


def test_a_command_over_its_file():
    """The command's keys hold; without the file, what EasyR1's own has is taken, and said to be."""
    found = said(("run.sh", EASYR1), ("examples/config.yaml", ITS_FILE))
    wanted = {
        "model": "Qwen/Qwen2.5-VL-7B-Instruct",
        "engine.type": "fsdp",
        "engine.version": 1,
        "hardware.num_gpus": 8,
        "parallelism.ulysses_parallel_size": 2,
        "training.precision": "bf16",
        "training.sequence_length": 4096,
        "training.micro_batch_size": 2,
        "training.gradient_accumulation_steps": 32,
        "training.activation_checkpointing.policy": "full",
    }
    assert {path: found.get(path) for path in wanted} == wanted
    alone = imported(EASYR1)
    assert flat(alone.config)["training.micro_batch_size"] == 1
    assert any("is not given: EasyR1 0.3's own is assumed" in note for note in alone.notes)


def test_where_a_key_stands():
    """In the last file that has it."""
    files = [Source("recipe.yaml", RECIPE), Source("grpo_math_1B.yaml", BASE)]
    rows = {(each.key, each.file) for each in origins(files).read}
    assert ("policy.max_total_sequence_length", "recipe.yaml") in rows
    assert ("policy.train_global_batch_size", "grpo_math_1B.yaml") in rows


def test_whatever_is_no_mapping():
    with pytest.raises(MemcoreError, match="pass them as well"):
        said(("a.yaml", "defaults: [b]\n"), ("b.yaml", "- 1\n"))
