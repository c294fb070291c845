"""LitGPT's configs, as its config_hub has them."""

import pytest

from memcore.errors import UnsupportedError
from memcore.formats.readers import flat
from memcore.tools import imported

P, KIND, TARGETS, POLICY = (
    "training.precision", "training.adapter.type", "training.adapter.target_modules",
    "training.activation_checkpointing.policy",
)  # fmt: skip
TRAIN = """train:
  # Number of samples between optimizer steps across data-parallel ranks (type: int, default: 16)
  global_batch_size: 8
  micro_batch_size: 2
  lr_warmup_steps: 10
  max_tokens:
  max_seq_length: 512
  min_lr: 6.0e-05
"""
QLORA = f"""# The path to the base model's checkpoint directory to load for finetuning. (type: <class 'Path'>)
checkpoint_dir: checkpoints/meta-llama/Llama-3.2-1B
out_dir: out/finetune/qlora-llama3.2-1b
precision: bf16-true
quantize: bnb.nf4
devices: 1
num_nodes: 1
lora_r: 32
lora_alpha: 16
lora_dropout: 0.05
lora_query: true
lora_key: false
lora_value: true
lora_projection: false
lora_mlp: false
lora_head: false
data:
  class_path: litgpt.data.Alpaca2k
{TRAIN}logger_name: csv
seed: 1337
optimizer:
  class_path: torch.optim.AdamW
  init_args:
    lr: 0.0002
"""
FULL = f"checkpoint_dir: checkpoints/meta-llama/Meta-Llama-3.1-8B\nprecision: bf16-true\ndevices: 4\n{TRAIN}logger_name: csv\n"
PRETRAIN = (
    f"model_name: tiny-llama-1.1b\nprecision: bf16-mixed\ndevices: auto\n{TRAIN}logger_name: csv\noptimizer: AdamW\n"
)
READ = {
    QLORA: {"model": "meta-llama/Llama-3.2-1B", P: "bf16", KIND: "lora", TARGETS: ["q_proj", "v_proj"],
            "training.quantization": "nf4", "training.adapter.dtype": "bf16", "training.loss": "chunked:4",
            "training.gradient_accumulation_steps": 4, "engine.framework": "lit-gpt", "engine.type": None,
            "training.optimizer.name": "adamw", "training.gradient_clipping": False, POLICY: "none"},
    QLORA.replace("lora_mlp: false", "lora_mlp: true").replace("lora_query: true\n", ""): {
        TARGETS: ["q_proj", "v_proj", "gate_proj", "up_proj", "down_proj"]},
    QLORA.replace("devices: 1", "devices: 2").replace("quantize: bnb.nf4\n", ""): {
        "engine.type": "fsdp", "engine.version": 2, POLICY: "full", "training.gradient_accumulation_steps": 2},
    QLORA.replace("precision: bf16-true", "precision:"): {P: "bf16-mixed", "training.adapter.dtype": None},
    QLORA.replace("torch.optim.AdamW", "bitsandbytes.optim.PagedAdamW"): {
        "training.optimizer.name": "paged-adamw", "training.optimizer.implementation": "bitsandbytes"},
    FULL: {"model": "meta-llama/Meta-Llama-3.1-8B", KIND: None, "engine.type": "fsdp", "engine.version": 1,
           POLICY: "full", "training.loss": "cross-entropy-fp32", "hardware.num_gpus": 4, "training.gradient_accumulation_steps": 1},
    PRETRAIN: {"training.compile": True, POLICY: None, P: "bf16-mixed", "hardware.num_gpus": None},
}  # fmt: skip


@pytest.mark.parametrize("text", READ)
def test_configs_of_litgpt(text):
    found = imported(text)
    said = flat(found.config)
    assert found.tool.name == "litgpt"
    assert found.unknown == ()
    assert {path: said.get(path) for path in READ[text]} == READ[text]


def test_other_optimizers_are_refused_by_name():
    with pytest.raises(UnsupportedError, match="optimizer: found 'GaLore'"):
        imported(FULL + "optimizer: GaLore\n")


def test_a_length_that_the_data_decides_is_said():
    found = imported(FULL.replace("max_seq_length: 512", "max_seq_length:"))
    assert any("train.max_seq_length is not set" in note for note in found.notes)
