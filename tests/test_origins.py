"""What becomes of every key of a file: a setting with its line, of no account, left out, or assumed."""

import json

import pytest

from memcore.faces.cli import main
from memcore.formats.readers import flat, read_file
from memcore.tools.origins import origins
from memcore.tools.sources import Source

AXOLOTL = """\
base_model: gpt2
sequence_len: 512
bf16: auto
gradient_checkpointing: true
optimizer: adamw_8bit
lora_r: 16
learning_rate: 2e-5
eot_tokens: ["<end>"]
"""
SCRIPT = """\
torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 64 \\
    --max-position-embeddings 64 --vocab-size 256 --micro-batch-size 2 --tensor-model-parallel-size 2 --bf16 --lr 1e-4
"""
OTHERS = json.dumps({
    "model": {"name": "x", "num_parameters": "7e9", "num_layers": 32, "hidden_size": 4096, "num_attention_heads": 32},
    "training": {"batch_size": 4, "dtype": "bf16"},
    "engine": {"type": "pytorch_ddp", "zero_stage": 3},
    "hardware": {"num_gpus": 8, "gpu_memory_gb": 80},
})  # fmt: skip


def rows(text, name="job.yaml"):
    found = origins([Source(name, text)])
    return {(row.key, row.path): (row.line, row.value) for row in found.read}, found


def test_a_key_has_the_settings_that_follow_from_it():
    read, found = rows(AXOLOTL)
    assert read["sequence_len", "training.sequence_length"] == (2, 512)
    assert read["bf16", "training.precision"] == (3, "bf16")  # says what holds anyway
    assert read["gradient_checkpointing", "training.activation_checkpointing.use_reentrant"] == (4, True)
    assert read["optimizer", "training.optimizer.implementation"] == (5, "bitsandbytes")
    silent = {each.key: each.why for each in found.of_no_account}
    assert "changes nothing" in silent["lora_r"]
    assert "no effect" in silent["learning_rate"]
    assert [each.key for each in found.left_out] == ["eot_tokens"]


@pytest.mark.parametrize("text", [AXOLOTL, SCRIPT, OTHERS])
def test_no_key_is_silent(text):
    found = origins([Source("job.json" if text.startswith("{") else "job.yaml", text)])
    listed = {each.key for part in (found.read, found.of_no_account, found.left_out) for each in part}
    keys = set(read_file(text)[1] if text != OTHERS else flat(json.loads(OTHERS))) - {"", "*"}
    assert keys == listed


def test_what_another_calculator_says_otherwise_is_said():
    _, found = rows(OTHERS, "job.json")
    assert any("zero_stage" in each.because for each in found.assumed)


def test_a_command_names_its_flags_and_lines():
    read, _ = rows(SCRIPT, "train.sh")
    assert read["--micro-batch-size", "training.micro_batch_size"] == (2, 2)
    assert read["--nproc_per_node", "hardware.gpus_per_node"][0] == 1
    assert read["--hidden-size", "model.hidden_size"] == (1, 64)


def test_json_lists_every_key(tmp_path, capsys):
    file = tmp_path / "job.yaml"
    file.write_text(AXOLOTL)
    main(["estimate", str(file), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert {"read", "of_no_account", "left_out", "assumed"} <= found.keys()
    assert {"file", "key", "line", "path", "value"} == set(found["read"][0])
    assert all({"path", "value", "because"} == set(each) for each in found["assumed"])
    assert any(each["path"] == "training.implementation" for each in found["assumed"])


def test_dotted_keys_of_a_command_have_their_lines():
    text = "python3 -m verl.trainer.main_ppo \\\n  algorithm.adv_estimator=grpo \\\n"
    text += "  actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 actor_rollout_ref.model.path=gpt2\n"
    read, _ = rows(text, "train.sh")
    assert read["actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu", "training.micro_batch_size"] == (3, 4)


def test_a_key_that_says_what_holds_anyway_is_read():
    text = "max_seq_len: 64\nmodel: {name: mpt_causal_lm, d_model: 64, n_heads: 2, n_layers: 2, vocab_size: 99}\n"
    read, _ = rows(f"{text}precision: amp_bf16\ntrain_loader: {{name: text}}\n")
    assert read["precision", "training.precision"] == (3, "bf16-mixed")
