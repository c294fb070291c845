"""Files as their repositories have them, which nobody had read when the readers were written: their deciding keys."""

import json
import re

import pytest

from memcore import Config, estimate
from memcore.errors import ConfigError, MemcoreError
from memcore.formats.readers import flat
from memcore.networks.catalog import content_of, find_model
from memcore.tools import imported
from memcore.tools.exporting import exported
from memcore.tools.sources import Source, read_sources

VERL_MEGATRON = """\
set -x
python3 -m verl.trainer.main_ppo --config-path=config \\
    --config-name='ppo_megatron_trainer.yaml'\\
    algorithm.adv_estimator=grpo \\
    data.train_batch_size=1024 \\
    data.max_prompt_length=1024 \\
    data.max_response_length=1024 \\
    data.truncation='error' \\
    actor_rollout_ref.model.path=Qwen/Qwen2-7B-Instruct \\
    actor_rollout_ref.actor.optim.lr=1e-6 \\
    actor_rollout_ref.actor.ppo_mini_batch_size=256 \\
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 \\
    actor_rollout_ref.actor.megatron.pipeline_model_parallel_size=2 \\
    actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2 \\
    +actor_rollout_ref.actor.megatron.override_transformer_config.recompute_method=uniform \\
    +actor_rollout_ref.actor.megatron.override_transformer_config.recompute_granularity=full \\
    +actor_rollout_ref.actor.megatron.override_transformer_config.recompute_num_layers=1 \\
    actor_rollout_ref.rollout.n=5 \\
    trainer.n_gpus_per_node=8 \\
    trainer.nnodes=1 $@
"""
"""verl, examples/grpo_trainer/run_qwen2-7b_math_megatron.sh, with the recomputation of run_qwen3-235b_megatron_96gb.sh."""
VERL_ULYSSES = """\
python3 -m verl.trainer.main_ppo \\
    algorithm.adv_estimator=grpo \\
    data.max_prompt_length=2048 \\
    data.max_response_length=2048 \\
    actor_rollout_ref.model.path=${MODEL_PATH:-Qwen/Qwen3-0.6B} \\
    actor_rollout_ref.model.use_remove_padding=True \\
    actor_rollout_ref.actor.ulysses_sequence_parallel_size=4 \\
    actor_rollout_ref.actor.ppo_mini_batch_size=64 \\
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8 \\
    actor_rollout_ref.model.enable_gradient_checkpointing=True \\
    actor_rollout_ref.rollout.n=4 \\
    trainer.n_gpus_per_node=8 \\
    trainer.nnodes=4
"""
"""verl, examples/grpo_trainer/run_qwen3-32b_npu.sh, with a smaller model."""
FACTORY_GPTQ = """\
### model
model_name_or_path: TechxGenus/Meta-Llama-3-8B-Instruct-GPTQ
trust_remote_code: true

### method
stage: sft
do_train: true
finetuning_type: lora
lora_rank: 8
lora_target: all

### dataset
dataset: identity,alpaca_en_demo
template: llama3
cutoff_len: 2048
max_samples: 1000

### train
per_device_train_batch_size: 1
gradient_accumulation_steps: 8
bf16: true
ddp_timeout: 180000000
"""
"""LLaMA-Factory, examples/train_qlora/llama3_lora_sft_gptq.yaml."""
FACTORY_CP = """\
model: Qwen/Qwen3-0.6B
model_class: llm
flash_attn: flash_attention_2
dist_config:
  name: fsdp2
  dcp_path: null
cp_mode: ulysses
cp_size: 2
train_dataset: data/v1_sft_demo.yaml
output_dir: outputs/test_ulysses_cp
micro_batch_size: 1
cutoff_len: 2048
bf16: false
max_steps: 10
"""
"""LLaMA-Factory, examples/v1/train_full/train_full_ulysses_cp.yaml."""
SWIFT_EMBEDDING = """\
CUDA_VISIBLE_DEVICES=0,1,2,3 \\
INFONCE_TEMPERATURE=0.1 \\
NPROC_PER_NODE=4 \\
swift sft \\
    --model Qwen/Qwen3-Embedding-0.6B \\
    --task_type embedding \\
    --model_type qwen3_emb \\
    --tuner_type full \\
    --per_device_train_batch_size 256 \\
    --gradient_accumulation_steps 1 \\
    --loss_type infonce \\
    --sequence_parallel_size 4 \\
    --padding_free true \\
    --attn_impl flash_attn
"""
"""ms-swift, examples/train/sequence_parallel/sequence_parallel_emb.sh."""
AXOLOTL_MIXTRAL = """\
base_model: mistralai/Mixtral-8x7B-v0.1
load_in_4bit: true
adapter: qlora
sequence_len: 1024
sample_packing: false
lora_r: 32
lora_dropout: 0.05
lora_target_linear: true
gradient_accumulation_steps: 4
micro_batch_size: 2
optimizer: paged_adamw_8bit
bf16: auto
gradient_checkpointing: true
attn_implementation: flash_attention_2
fsdp:
  - full_shard
  - auto_wrap
fsdp_config:
  fsdp_offload_params: false
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
"""
"""axolotl, examples/mistral/mistral-qlora-fsdp.yml."""
ACCELERATE = """\
distributed_type: FSDP
fsdp_config:
  fsdp_activation_checkpointing: false
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_sharding_strategy: FULL_SHARD
"""
"""accelerate, examples/slurm/fsdp_config.yaml."""
SWIFT_TOWERS = """\
NPROC_PER_NODE=2 swift sft --model Qwen/Qwen2.5-VL-7B-Instruct --tuner_type lora --freeze_vit false \\
    --freeze_aligner false --target_modules all-linear --lora_rank 8 --deepspeed zero2
"""
SWIFT_GKD = """\
NPROC_PER_NODE=4 swift rlhf --rlhf_type gkd --model Qwen/Qwen2.5-7B --teacher_model Qwen/Qwen2.5-14B-Instruct \\
    --tuner_type full --max_length 2048 --max_completion_length 512 --deepspeed zero3
"""
SWIFT_GALORE = "swift sft --model Qwen/Qwen2.5-7B-Instruct --tuner_type full --use_galore true --galore_rank 64\n"
SWIFT_INFER = (
    "swift infer --model Qwen/Qwen2.5-7B-Instruct --infer_backend pt --max_batch_size 4 --max_new_tokens 512\n"
)
NEMO_1 = """\
trainer: {devices: 4, num_nodes: 8, precision: bf16}
exp_manager: {name: megatron_gpt}
model:
  micro_batch_size: 16
  global_batch_size: 512
  encoder_seq_length: 1024
  max_position_embeddings: ${.encoder_seq_length}
  num_layers: 24
  hidden_size: 1024
  ffn_hidden_size: 4096
  num_attention_heads: 16
  tokenizer: {library: megatron, type: GPT2BPETokenizer}
  megatron_amp_O2: true
  optim: {name: distributed_fused_adam}
"""
AXOLOTL_GPTQ = """\
base_model: TheBloke/Llama-2-7B-GPTQ
gptq: true
adapter: lora
lora_r: 8
sequence_len: 4096
micro_batch_size: 1
"""

WANTED = {
    NEMO_1: {
        "engine.type": "megatron",
        "engine.distributed_optimizer": True,
        "hardware.num_gpus": 32,
        "training.micro_batch_size": 16,
        "training.gradient_accumulation_steps": 1,
        "training.sequence_length": 1024,
        "training.precision": "bf16-mixed",
    },
    AXOLOTL_GPTQ: {"training.quantization": "gptq", "training.adapter.rank": 8},
    SWIFT_TOWERS: {"training.trainable": ["language-model", "tower", "projector"], "training.adapter.rank": 8},
    SWIFT_GKD: {
        "training.method.name": "distill",
        "training.method.teacher": "Qwen/Qwen2.5-14B-Instruct",
        "training.sequence_length": 2560,
        "engine.framework": "ms-swift",
        "engine.zero_stage": 3,
    },
    SWIFT_GALORE: {"training.optimizer.name": "galore", "training.optimizer.rank": 64},
    SWIFT_INFER: {"engine.type": "transformers", "inference.batch_size": 4, "inference.output_length": 512},
    VERL_MEGATRON: {
        "model": "Qwen/Qwen2-7B-Instruct",
        "engine.type": "megatron",
        "engine.distributed_optimizer": True,
        "hardware.num_gpus": 8,
        "parallelism.tensor_parallel_size": 2,
        "parallelism.pipeline_parallel_size": 2,
        "parallelism.sequence_parallel": True,
        "training.sequence_length": 2048,
        "training.micro_batch_size": 4,
        "training.gradient_accumulation_steps": 160,
        "training.activation_checkpointing.policy": "full",
    },
    VERL_ULYSSES: {
        "engine.type": "fsdp",
        "training.attention": "flash",
        "training.method.name": "grpo",
        "training.gradient_accumulation_steps": 4,
        "parallelism.ulysses_parallel_size": 4,
        "hardware.num_gpus": 32,
    },
    FACTORY_GPTQ: {"training.adapter.rank": 8, "training.sequence_length": 2048, "training.precision": "bf16"},
    FACTORY_CP: {"engine.type": "fsdp", "engine.version": 2, "parallelism.ulysses_parallel_size": 2},
    SWIFT_EMBEDDING: {
        "training.method.name": "reward",
        "training.attention": "flash",
        "training.micro_batch_size": 256,
        "parallelism.ulysses_parallel_size": 4,
        "hardware.num_gpus": 4,
    },
    AXOLOTL_MIXTRAL: {
        "training.adapter.target_modules": ["q_proj", "k_proj", "v_proj", "o_proj"],
        "training.quantization": "nf4-double",
        "training.precision": "bf16-mixed",
    },
    ACCELERATE: {"engine.type": "fsdp", "engine.version": 1, "training.precision": "fp32"},
}


@pytest.mark.parametrize("text", WANTED, ids=lambda text: text.split()[0])
def test_what_is_read(text):
    found = imported(text, None)
    said = {**flat({**found.config, "model": ""}), "model": found.config.get("model")}
    assert {path: said.get(path) for path in WANTED[text]} == WANTED[text]
    assert found.accounts.unknown == ()


def answered(text, **changes):
    config = Config.from_dict(imported(text, None).config)
    for path, value in changes.items():
        config = config.replaced(path.replace("__", "."), value)
    return estimate(config)


@pytest.mark.parametrize("text", [VERL_ULYSSES, FACTORY_CP, FACTORY_GPTQ], ids=["verl", "cp", "gptq"])
def test_what_was_refused_is_answered(text):
    """Sequences shared over FSDP's ranks, and adapters next to GPTQ's weights."""
    assert answered(text, hardware__accelerator="h100-sxm-80gb").peak.peak > 0


def test_rewards_of_pictures():
    """Models with towers learn by rewards too: their logits are those of the completion."""
    job = {"sequence_length": 1024, "precision": "bf16", "adapter": {"type": "lora"}}
    peaks = [
        estimate(Config.from_dict({"model": "Qwen/Qwen2.5-VL-3B-Instruct", "training": {**job, **more}})).peak.peak
        for more in ({}, {"method": {"name": "grpo", "completion_length": 128}})
    ]
    assert peaks[1] < peaks[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (SWIFT_EMBEDDING.replace("task_type embedding", "task_type prm"), "supported: causal_lm, seq_cls, embedding"),
        (FACTORY_CP.replace("cp_mode: ulysses", "cp_mode: ring"), "ulysses"),
        (FACTORY_GPTQ + "tensor_model_parallel_size: 1\n", "LLaMA-Factory with Megatron-Core"),
    ],
)
def test_what_is_refused(text, words):
    with pytest.raises(MemcoreError, match=words):
        imported(text, 8)


TORCHTUNE_DPO = """\
model:
  _component_: torchtune.models.llama3_1.lora_llama3_1_8b
  lora_attn_modules: ['q_proj', 'v_proj', 'output_proj']
  apply_lora_to_mlp: True
  lora_rank: 8
tokenizer:
  _component_: torchtune.models.llama3.llama3_tokenizer
  max_seq_len: 1024
batch_size: 4
optimizer:
  _component_: torch.optim.AdamW
  fused: True
loss:
  _component_: torchtune.rlhf.loss.DPOLoss
  beta: 0.1
gradient_accumulation_steps: 8
dtype: bf16
enable_activation_checkpointing: True
"""
"""torchtune, recipes/configs/llama3_1/8B_lora_dpo_single_device.yaml."""


def test_pairs_of_torchtune():
    """What the trained model is compared with is itself without its adapter."""
    found = answered(TORCHTUNE_DPO)
    assert {each.path: each.value for each in found.assumptions}["training.method.reference"] == "adapter"


@pytest.mark.parametrize(
    ("model", "share"), [("Qwen/Qwen2.5-VL-3B-Instruct", 0.5), ("tiiuae/Falcon-H1-0.5B-Base", 0.8)]
)
def test_four_bits_beside_towers_and_recurrent_layers(model, share):
    """Towers are quantized as the decoder is; matrices of recurrent layers are counted as they are stored."""
    job = {"sequence_length": 128, "precision": "bf16", "adapter": {"type": "lora"}}
    plain, frozen = (
        estimate(Config.from_dict({"model": model, "training": {**job, **more}})).peak.peak
        for more in ({}, {"quantization": "nf4-double"})
    )
    assert frozen < share * plain


@pytest.mark.parametrize("text", [VERL_MEGATRON, VERL_ULYSSES], ids=["megatron", "fsdp"])
def test_a_critic_beside_the_actor(text):
    """Its parameters and states are as large as the actor's; what is offloaded leaves no room taken."""
    changed = text.replace("adv_estimator=grpo", "adv_estimator=gae")
    assert flat(imported(changed).config)["training.method.critic"] is True
    small = {"model": "Qwen/Qwen3-0.6B", "hardware": {"num_gpus": 8, "accelerator": "h100-sxm-80gb"}}
    config = Config.from_dict({**imported(changed).config, **small})
    alone, both = estimate(config.replaced("training.method.critic", None)), estimate(config)
    kept = alone.rank.persistent
    assert both.device.expected - alone.device.expected == kept.parameters + kept.states


BRIDGE_RECIPE = """\
MODEL_NAME=qwen3_8b
TP=2
CLI_OVERRIDES="model.tensor_model_parallel_size=$TP \\
    model.recompute_granularity=selective \\
    model.recompute_modules=[core_attn,mlp] \\
    train.global_batch_size=32 \\
    train.micro_batch_size=2 \\
    dataset.seq_length=4096"
CMD="uv run --no-sync python scripts/training/run_recipe.py --recipe ${MODEL_NAME}_peft_config $CLI_OVERRIDES"
srun --mpi=pmix bash -c "$CMD"
"""
"""Megatron Bridge, in the way of examples/models/*/slurm_peft.sh."""


def test_recipes_by_name():
    """Keys that a command overrides are read, on what the recipe's name says; what it sets itself is said to be open."""
    found = imported(BRIDGE_RECIPE, 8)
    said = flat({**found.config, "model": ""})
    assert found.config["model"] == "qwen3-8b"
    assert said["parallelism.tensor_parallel_size"] == 2
    assert said["training.activation_checkpointing.modules"] == ["core_attn", "mlp"]
    assert (said["training.adapter.type"], said["training.adapter.rank"]) == ("lora", 32)
    assert (said["training.sequence_length"], said["training.gradient_accumulation_steps"]) == (4096, 4)
    assert any("own settings are unknown" in note for note in found.notes)


@pytest.mark.parametrize(("gpus", "each", "steps"), [(8, 6, 1), (2, 8, 3), (4, 8, 2)])
def test_a_last_micro_batch_may_be_smaller(gpus, each, steps):
    """LLM Foundry, scripts/train/yamls/finetune/mpt-7b_dolly_sft.yaml; utils/config_utils.py."""
    text = "global_train_batch_size: 48\ndevice_train_microbatch_size: 8\nmax_seq_len: 64\ntrain_loader: {name: text}\n"
    read = flat(imported(text, gpus).config)
    assert (read["training.micro_batch_size"], read["training.gradient_accumulation_steps"]) == (each, steps)


@pytest.mark.parametrize(
    ("said", "each", "steps"),
    [
        ('"train_batch_size": 256, "gradient_accumulation_steps": 1', 32, 1),
        ('"train_batch_size": 256', 32, 1),
        ('"train_batch_size": 256, "train_micro_batch_size_per_gpu": 4', 4, 8),
    ],
)
def test_sequences_of_a_step_of_deepspeed(said, each, steps):
    """DeepSpeedExamples, training/imagenet/config/ds_fp16_z1_config.json: what is not said follows from the rest."""
    text = f'{{{said}, "zero_optimization": {{"stage": 1}}, "fp16": {{"enabled": true}}}}'
    read = flat(imported(text, 8).config)
    assert (read["training.micro_batch_size"], read["training.gradient_accumulation_steps"]) == (each, steps)
    assert any("train_batch_size is ignored" in note for note in imported(text).notes)


MEGATRON_WORDS = (
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 2 --hidden-size 64 --num-attention-heads 2 "
    "--seq-length 64 --micro-batch-size 1 --bf16"
)


def test_a_vocabulary_that_no_flag_names():
    """It is asked for as a variable that the script leaves open."""
    with pytest.raises(ConfigError, match=r"--vocab-size: found \$VOCAB_SIZE, which the script does not set"):
        read_sources([Source("train.sh", MEGATRON_WORDS)])
    config, _ = read_sources([Source("train.sh", MEGATRON_WORDS)], variables={"VOCAB_SIZE": "512"})
    assert config["model"]["vocab_size"] == 512


@pytest.mark.parametrize(
    ("text", "loss"),
    [
        ("model_name_or_path: a/b\nper_device_train_batch_size: 1\nuse_liger_kernel: true\n", "fused-linear"),
        ("model_name_or_path: a/b\nstage: sft\nenable_liger_kernel: true\n", "fused-linear"),
        ("model_name_or_path: a/b\nstage: rm\nenable_liger_kernel: true\n", None),
        ("swift sft --model a/b --tuner_type lora --use_liger_kernel true", "fused-linear"),
        ("model_name_or_path: a/b\nmax_length: 8\nbeta: 0.1\nuse_liger_kernel: true\n", "fused-linear"),
    ],
)
def test_ligers_loss_comes_with_its_kernels(text, loss):
    """Logits are never made: `apply_liger_kernel_to_llama(fused_linear_cross_entropy=True)`."""
    said = flat({**imported(text).config, "model": ""})
    assert (said["training.implementation"], said.get("training.loss")) == ("liger", loss)


SIMPO = """\
model_name_or_path: meta-llama/Meta-Llama-3-8B-Instruct
torch_dtype: null
bf16: true
beta: 2.5
gamma_beta_ratio: 0.55
max_length: 2048
per_device_train_batch_size: 2
"""
"""SimPO, training_configs/llama-3-8b-instruct-simpo.yaml."""
ALPACA = """\
lora_trainable="q_proj,v_proj,k_proj,o_proj,gate_proj,down_proj,up_proj"
modules_to_save="embed_tokens,lm_head"
torchrun --nnodes 1 --nproc_per_node 1 run_clm_pt_with_peft.py \\
    --model_name_or_path meta-llama/Meta-Llama-3-8B --block_size 1024 --bf16 --torch_dtype bfloat16 \\
    --lora_rank 64 --trainable ${lora_trainable} --modules_to_save ${modules_to_save} --load_in_kbits 4
"""
"""Chinese-LLaMA-Alpaca-3, scripts/training/run_pt.sh, with 4 bits."""
VISION = """\
GLOBAL_BATCH_SIZE=128
BATCH_PER_DEVICE=4
NUM_DEVICES=8
GRAD_ACCUM_STEPS=$((GLOBAL_BATCH_SIZE / (BATCH_PER_DEVICE * NUM_DEVICES)))
deepspeed src/train/train_sft.py --deepspeed scripts/zero3_offload.json --model_id Qwen/Qwen3-VL-4B-Instruct \\
    --bf16 True --per_device_train_batch_size $BATCH_PER_DEVICE --gradient_accumulation_steps $GRAD_ACCUM_STEPS
"""
"""Qwen-VL-Series-Finetune, scripts/finetune.sh."""
LAUNCHED = """\
accelerate launch --mixed_precision bf16 --num_processes 8 --use_deepspeed \\
    --deepspeed_config_file configs/ds_configs/stage3_no_offloading_accelerate.conf open_instruct/dpo_tune.py \\
    --model_name_or_path allenai/tulu-2-7b --gradient_checkpointing --max_seq_length 2048 \\
    --per_device_train_batch_size 1
"""
"""open-instruct, scripts/dpo_train_with_accelerate.sh."""
KWARGS = """\
NPROC_PER_NODE=2 swift sft --model Qwen/Qwen2.5-7B-Instruct --tuner_type lora --deepspeed zero2 \\
    --gradient_checkpointing_kwargs '{"use_reentrant": false}' --quant_method bnb --quant_bits 4
"""
"""ms-swift, examples/train/multi-gpu/ddp_device_map/train.sh, with ZeRO and 4 bits."""
MEGATRON_GRPO = """\
NPROC_PER_NODE=8 megatron rlhf --rlhf_type grpo --model Qwen/Qwen3-30B-A3B-FP8 --tuner_type lora --micro_batch_size 1 \\
    --tensor_model_parallel_size 4 --max_length 8192 --max_completion_length 8192
"""
"""ms-swift, examples/megatron/grpo/moe_colocate_full.sh, with adapters."""
HYBRID = """\
base_model: meta-llama/Llama-3.1-8B
dp_shard_size: 4
dp_replicate_size: 2
tensor_parallel_size: 2
fsdp_version: 2
fsdp_config:
  offload_params: false
sequence_len: 2048
"""
"""axolotl, examples/distributed-parallel/llama-3_1-8b-hsdp-tp.yaml."""
BENCH = "tp_size: 1\npp_size: 1\nbackend: pytorch\nkv_cache_free_gpu_mem_fraction: 0.90\n"
"""gpu-recipes, src/frameworks/a4x/trtllm-configs/qwen3-4b.yaml."""
EARLIER = """\
step_scheduler: {local_batch_size: 4}
parallelizer: {activation_checkpointing: true}
model:
  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_config
  config: {pretrained_model_name_or_path: Qwen/Qwen3-30B-A3B}
"""
"""NeMo Automodel, examples/llm_benchmark/qwen/qwen3_moe_30b_te_fp8.yaml, without FP8."""
EXPERTS = """\
step_scheduler: {local_batch_size: 2}
distributed: {strategy: fsdp2, ep_size: 64, activation_checkpointing: true, moe: {reshard_after_forward: true}}
model:
  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_config
  config: {pretrained_model_name_or_path: deepseek-ai/DeepSeek-V3}
  backend: {attn: sdpa, dispatcher: hybridep}
"""
"""NeMo Automodel, examples/llm_benchmark/deepseek/deepseek_v3_sdpa_compile_gb200.yaml, with resharding."""
SECOND = {
    SIMPO: {"training.method.name": "simpo"},
    ALPACA: {
        "training.adapter.type": "lora",
        "training.adapter.rank": 64,
        "training.adapter.modules_to_save": ["embed_tokens", "lm_head"],
        "training.quantization": "nf4",
        "training.sequence_length": 1024,
    },
    VISION: {
        "model": "Qwen/Qwen3-VL-4B-Instruct",
        "training.gradient_accumulation_steps": 4,
        "engine.zero_stage": 3,
        "engine.offload_optimizer": "cpu",
    },
    LAUNCHED: {
        "engine.type": "deepspeed",
        "engine.zero_stage": 3,
        "engine.offload_optimizer": None,
        "training.method.name": "dpo",
    },
    KWARGS: {"training.activation_checkpointing.use_reentrant": False, "training.quantization": "nf4-double"},
    MEGATRON_GRPO: {"training.sequence_length": 16384, "model": "Qwen/Qwen3-30B-A3B"},
    HYBRID: {"hardware.num_gpus": 16},
    BENCH: {"engine.type": "tensorrt-llm", "engine.free_gpu_memory_fraction": 0.9},
    EARLIER: {"training.activation_checkpointing.policy": "full"},
    EXPERTS: {"engine.reshard_after_forward": True, "engine.moe_token_dispatcher": "hybridep"},
}


@pytest.mark.parametrize("text", SECOND, ids=range(len(SECOND)))
def test_what_is_read_of_widespread_scripts(text):
    found = imported(text, None)
    said = {**flat({**found.config, "model": ""}), "model": found.config.get("model")}
    assert {path: said.get(path) for path in SECOND[text]} == SECOND[text]


def test_sub_groups_are_of_stage_3_alone():
    """Qwen-VL-Series-Finetune, scripts/zero2.json."""
    text = '{{"zero_optimization": {{"stage": {}, "sub_group_size": 1e9}}, "bf16": {{"enabled": true}}}}'
    assert "engine.sub_group_size" not in flat(imported(text.format(2)).config)
    assert "engine.sub_group_size" in flat(imported(text.format(3)).config)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("CUDA_VISIBLE_DEVICES=0,1 swift sft --model Qwen/Qwen2.5-7B --tuner_type lora", "set NPROC_PER_NODE to 2"),
        (
            "base_model: gpt2\nsequence_len: 8\nqat:\n  weight_dtype: int4\n",
            "activation_dtype int8 with weight_dtype int4",
        ),
        ("base_model: gpt2\nsequence_len: 8\nlisa_n_layers: 2\n", "not supported yet"),
        (EARLIER + "  backend: {te_fp8: {recipe: block}}\n", "not supported yet"),
    ],
)
def test_what_would_be_another_number_is_refused(text, words):
    with pytest.raises(MemcoreError, match=words):
        imported(text, None)


def test_positional_arguments_are_asked_for():
    """Pai-Megatron-Patch, examples/qwen3/run_mcore_qwen3.sh, takes all of its sizes so."""
    text = f"{MEGATRON_WORDS.replace('--micro-batch-size 1', '--micro-batch-size $3')} --vocab-size 512"
    with pytest.raises(ConfigError, match=r"--micro-batch-size: found \$3"):
        read_sources([Source("run.sh", text)])
    config, _ = read_sources([Source("run.sh", text)], variables={"3": "2"})
    assert config["training"]["micro_batch_size"] == 2


def test_recipes_are_called_after_models():
    """Megatron Bridge, examples/models/qwen/qwen35_vl/slurm_sft_fsdp.sh."""
    for recipe, model in (("qwen35_vl_35b_a3b", "qwen3.5-35b-a3b"), ("llama32_1b", "llama3.2-1b")):
        text = BRIDGE_RECIPE.replace("qwen3_8b", recipe)
        assert imported(text, 8).config["model"] == model


def test_a_script_that_writes_python_is_one_of_a_shell():
    """verl, examples/grpo_trainer/run_gptoss_20b.sh, whose model is a folder called after a re-upload."""
    text = "#!/bin/bash\ncat > get_model.py << EOF\nimport torch\nmodel_id = 'openai/gpt-oss-20b'\nEOF\npython get_model.py\n"
    text += "model_dir=$HOME/models/gpt-oss-20b-bf16\n"
    found = imported(text + VERL_ULYSSES.replace("${MODEL_PATH:-Qwen/Qwen3-0.6B}", "$model_dir"))
    assert found.config["model"] == "gpt-oss-20b-bf16"
    assert any("assumed to be openai/gpt-oss-20b" in note for note in found.notes)


def test_muon_of_axolotl():
    """axolotl, examples/pretrain/muon-pretrain-fsdp2.yaml."""
    found = flat(imported("base_model: Qwen/Qwen2.5-0.5B\nsequence_len: 2048\noptimizer: muon\n").config)
    assert found["training.optimizer.name"] == "muon"


def test_no_recomputation_of_megatron_swift():
    said = "megatron sft --model Qwen/Qwen3-4B --micro_batch_size 1"
    policies = [
        flat(imported(said + more, 8).config)["training.activation_checkpointing.policy"]
        for more in ("", " --recompute_granularity none")
    ]
    assert policies == ["selective", "none"]


MEGATRON_YAML = """\
language_model:
  num_layers: 2
  hidden_size: 64
  num_attention_heads: 4
  ffn_hidden_size: null
  hidden_dropout: 0.0
  attention_dropout: 0.0
  layernorm_zero_centered_gamma: True
  add_bias_linear: False
  activation_func: swiglu
  bias_swiglu_fusion: True
  apply_rope_fusion: False
  layernorm_epsilon: 1.e-5
model_parallel:
  tensor_model_parallel_size: 2
  sequence_parallel: True
  bf16: True
  gradient_accumulation_fusion: True
micro_batch_size: 2
global_batch_size: 32
seq_length: 64
max_position_embeddings: 64
untie_embeddings_and_output_weights: True
position_embedding_type: rope
transformer_impl: local
vocab_size: 512
use_distributed_optimizer: False
"""
"""Megatron-LM, examples/gpt3/gpt_config.yaml (`--yaml-cfg`), smaller."""


def test_megatrons_yaml_is_its_command_line():
    found = imported(MEGATRON_YAML, 8)
    flags = imported(
        "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 2 --hidden-size 64 --num-attention-heads 4 "
        "--hidden-dropout 0 --attention-dropout 0 --apply-layernorm-1p --disable-bias-linear --swiglu --no-rope-fusion "
        "--tensor-model-parallel-size 2 --sequence-parallel --bf16 --micro-batch-size 2 --global-batch-size 32 "
        "--seq-length 64 --max-position-embeddings 64 --untie-embeddings-and-output-weights "
        "--position-embedding-type rope --transformer-impl local --vocab-size 512"
    )
    assert found.unknown == ()
    left, right = flat(found.config), flat(flags.config)
    assert {path: left[path] for path in left} == {path: right.get(path) for path in left}
    assert right.keys() - left.keys() <= {"hardware.num_gpus", "hardware.gpus_per_node"}
    assert answered(MEGATRON_YAML, hardware__num_gpus=8, hardware__accelerator="h100-sxm-80gb").peak.peak > 0


@pytest.mark.parametrize("name", ["quantization", "quantization_config"])
def test_files_of_mlx(name):
    text = json.dumps({"model_type": "llama", name: {"group_size": 64, "bits": 4}})
    with pytest.raises(MemcoreError, match="is MLX's"):
        read_sources([Source("config.json", text)])


SWIFT_CLASSES = """\
CUDA_VISIBLE_DEVICES=0 \\
swift sft \\
    --model Qwen/Qwen2.5-0.5B \\
    --tuner_type lora \\
    --torch_dtype bfloat16 \\
    --per_device_train_batch_size 3 \\
    --lora_rank 8 \\
    --target_modules all-linear \\
    --max_length 2048 \\
    --num_labels 2 \\
    --task_type seq_cls
"""
"""ms-swift, in the way of examples/train/seq_cls/qwen2_5/sft.sh."""
MEGATRON_DPO = """\
swift export --model Qwen/Qwen3-30B-A3B-Instruct-2507 --to_cached_dataset true
NPROC_PER_NODE=8 megatron rlhf --rlhf_type dpo --model Qwen/Qwen3-30B-A3B-Instruct-2507 --save_safetensors true \\
    --tuner_type lora --tensor_model_parallel_size 4 --expert_model_parallel_size 4 --pipeline_model_parallel_size 2 \\
    --micro_batch_size 1 --global_batch_size 4 --max_length 8192 --recompute_granularity full \\
    --recompute_method uniform --recompute_num_layers 1
"""
"""ms-swift, examples/train/cached_dataset/dpo.sh, with adapters."""
GENERATES = """\
torchrun --nproc_per_node 1 ../../tools/run_hybrid_text_generation_server.py \\
    --tensor-model-parallel-size 1 --hybrid-layer-pattern M-M*- --hidden-size 4096 --num-attention-heads 32 \\
    --seq-length 4096 --max-position-embeddings 4096 --bf16 --micro-batch-size 1 --vocab-size 256000
"""
"""Megatron-LM, examples/mamba/run_text_gen_server_8b.sh."""
TOWERS = """\
deepspeed src/train/train_sft.py --lora_enable True --vision_lora True --lora_rank 64 --deepspeed scripts/zero3.json \\
    --model_id Qwen/Qwen2.5-VL-3B-Instruct --freeze_llm True --bf16 True --per_device_train_batch_size 4
"""
"""Qwen-VL-Series-Finetune, scripts/finetune_lora_vision.sh."""
OWN_SCRIPT = """\
model_name: Qwen/Qwen3-0.6B
chat_template: qwen3
max_length: 5120
lora_r: 16
lora_dropout: 0.0
per_device_train_batch_size: 1
gradient_accumulation_steps: 4
load_in_4bit: true
attn_implementation: sdpa
gradient_checkpointing: unsloth
optim: adamw_8bit
"""
"""techwithsergiu/qwen-qlora-train, configs/qwen35/0.8b.yaml, with another model."""
COLLATED = """\
recipe: FinetuneRecipeForVLM
step_scheduler: {global_batch_size: 16, local_batch_size: 1}
model:
  _target_: nemo_automodel.NeMoAutoModelForImageTextToText.from_pretrained
  pretrained_model_name_or_path: Qwen/Qwen2.5-VL-3B-Instruct
peft:
  _target_: nemo_automodel.components._peft.lora.PeftConfig
  match_all_linear: False
  exclude_modules: ["*vision_tower*", "*visual*", "*image_encoder*", "*lm_head*", "*audio*"]
  dim: 8
distributed: {strategy: fsdp2, tp_size: 1, cp_size: 1, pp_size: 1}
dataloader:
  collate_fn: {_target_: nemo_automodel.components.datasets.vlm.collate_fns.default_collate_fn, max_length: 1024}
"""
"""NeMo Automodel, examples/vlm_finetune/qwen3_5_moe/qwen3_6_35b_lora.yaml, with a dense model."""
THIRD = {
    TOWERS: {"training.trainable": ["language-model", "tower"], "training.adapter.rank": 64},
    SWIFT_CLASSES: {
        "training.method.name": "classify",
        "training.micro_batch_size": 3,
        "training.gradient_accumulation_steps": 6,
    },
    MEGATRON_DPO: {
        "training.micro_batch_size": 2,
        "training.gradient_accumulation_steps": 4,
        "training.adapter.type": "lora",
        "parallelism.expert_parallel_size": 4,
    },
    OWN_SCRIPT: {
        "training.adapter.type": "lora",
        "training.adapter.rank": 16,
        "training.quantization": "nf4",
        "training.activation_checkpointing.policy": "full",
        "training.offload.activations": "cpu",
    },
    COLLATED: {"training.sequence_length": 1024, "training.adapter.rank": 8},
}


@pytest.mark.parametrize("text", THIRD, ids=lambda text: text.split()[0])
def test_what_a_file_says_is_estimated(text):
    found = imported(text, None)
    said = flat({**found.config, "model": ""})
    assert {path: said.get(path) for path in THIRD[text]} == THIRD[text]
    assert answered(text, hardware__accelerator="h100-sxm-80gb").peak.peak > 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GENERATES, "which does not train"),
        (MEGATRON_DPO.replace("rlhf_type dpo", "rlhf_type gkd"), "other methods are not supported yet"),
        (
            TOWERS.replace("vision_lora", "use_backbone_lora 8 --x"),
            "adapters of another rank on the tower are not supp",
        ),
    ],
)
def test_what_is_refused_by_reason(text, words):
    with pytest.raises(MemcoreError, match=words):
        imported(text, 8)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("unsloth/Qwen2.5-Coder-14B-Instruct", "Qwen/Qwen2.5-14B-Instruct"),
        ("ggml-org/Qwen2.5-Coder-3B-Q8_0-GGUF", "Qwen/Qwen2.5-3B"),
        ("google/gemma-1.1-7b-it", "google/gemma-7b-it"),
        ("unsloth/LFM2.5-1.2B-Instruct", "LiquidAI/LFM2-1.2B"),
        ("hugging-quants/Meta-Llama-3.1-405B-BNB-NF4-BF16", "meta-llama/Llama-3.1-405B"),
    ],
)
def test_series_of_the_same_shapes(name, model):
    """What continues another series is as large as that."""
    assert find_model(name).parameters == find_model(model).parameters


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("docker run --gpus all vllm/vllm-openai:v0.4.2 --model Qwen/Qwen2.5-1.5B-Instruct --api-key k", "v0.4.2"),
        ("docker run --gpus all vllm/vllm-openai:latest --model Qwen/Qwen2.5-1.5B-Instruct --port 80", None),
        ("pip install vllm==0.8.5\nvllm serve Qwen/Qwen3-8B --max-model-len 8", "v0.8.5"),
        ("pip install vllm==0.8.5\npip install vllm==0.9.0\nvllm serve Qwen/Qwen3-8B --max-model-len 8", None),
        ("pip install sglang==0.5.2\nvllm serve Qwen/Qwen3-8B --max-model-len 8", None),
        (
            "apiVersion: apps/v1\nspec:\n  containers:\n  - image: docker.io/vllm/vllm-openai:v0.10.0\n"
            "    command: [python3, -m, vllm.entrypoints.openai.api_server]\n    args: [--model=Qwen/Qwen3-8B]\n",
            "v0.10.0",
        ),
        (
            "services:\n  a:\n    image: lmsysorg/sglang:v0.5.2-cu126\n"
            "    command: python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --tp 2\n",
            "v0.5.2",
        ),
        (
            "services:\n  a:\n    image: ghcr.io/ggml-org/llama.cpp:server-cuda-b5200\n"
            "    command: -m Qwen3-8B-Q8_0.gguf -c 4096\n",
            "5200",
        ),
        (
            "services:\n  a:\n    image: ghcr.io/huggingface/text-generation-inference:3.3.4\n"
            "    command: --model-id Qwen/Qwen3-8B --num-shard 1\n",
            "v3.3.4",
        ),
    ],
)
def test_releases_of_servers(text, version):
    """What an image's tag or a pinned package says; several say nothing."""
    assert flat({**imported(text).config, "model": ""}).get("engine.version") == version


SWAPPED = """\
macros:
  latest-llama: >
    llama-server
    --port ${PORT}
models:
  "Qwen3-30B-A3B-AWQ":
    cmd: |
      docker run --rm --name ${MODEL_ID}
      -v /models/hf-cache:/cache/huggingface
      # the larger context does not start
      vllm/vllm-openai:v0.10.1
      --model Qwen/Qwen3-30B-A3B
      --tensor-parallel-size 2 --gpu-memory-utilization 0.90
      --max-model-len 131072
  qwen3-4b:
    cmd: ${latest-llama} -hf unsloth/Qwen3-4B-Instruct-2507-GGUF:UD-Q4_K_XL --ctx-size 32000
    ttl: 1800
"""
"""TKontu/llama-swap-deploy, config.yaml, and taagarwa-rh/llama-swap-config, config.yaml, two models of each."""
SWIFT_NODES = """\
nnodes=2
nproc_per_node=8

CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 \\
NNODES=$nnodes \\
NODE_RANK=0 \\
MASTER_ADDR=127.0.0.1 \\
NPROC_PER_NODE=$nproc_per_node \\
swift sft \\
    --model /data/models/Qwen/Qwen3-8B \\
    --train_type lora \\
    --torch_dtype bfloat16 \\
    --per_device_train_batch_size 1 \\
    --gradient_accumulation_steps $(expr 32 / $nproc_per_node / $nnodes) \\
    --lora_rank 8 \\
    --max_length 8192 \\
    --deepspeed zero2
"""
"""puzhiyuan/AiO, train/ms-swift/sft/mutilnode/node1.sh, with a smaller model."""
VERL_NODES = """\
torchrun \\
    --nnodes=$WORLD_SIZE \\
    --nproc_per_node=$NPROC_PER_NODE \\
    -m verl.trainer.fsdp_sft_trainer \\
    model.enable_gradient_checkpointing=True \\
    ulysses_sequence_parallel_size=4 \\
    model.partial_pretrain=ckpts/models--Qwen--Qwen2.5-32B-Instruct/snapshots/5ede1c97bbab6ce5cda5812749b4c0bdf79b18dd \\
    data.max_length=16384 \\
    use_remove_padding=True \\
    data.micro_batch_size_per_gpu=1 \\
    data.train_batch_size=32
"""
"""GAIR-NLP/LIMO as ChenmienTan/LIMO has it, scripts/train_qwen_32b_limo.sh."""
FACTORY_GPUS = """\
export CUDA_VISIBLE_DEVICES=0,1,2,3
llamafactory-cli chat --model_name_or_path /data/hf-models/Qwen3-8B --adapter_name_or_path saves/x --template qwen
llamafactory-cli train \\
    --model_name_or_path /data/hf-models/Qwen3-8B \\
    --stage sft --do_train --finetuning_type full --template qwen --cutoff_len 512 \\
    --per_device_train_batch_size 4 --gradient_accumulation_steps 2 --bf16
"""
"""okeeper/LLaMA-Factory, qwen/train.sh: its first and its last command."""
FOUNDRY_DORA = """\
max_seq_len: 2048
model:
  name: hf_causal_lm
  pretrained_model_name_or_path: HuggingFaceTB/SmolLM2-135M
  peft_config: {r: 64, peft_type: LORA, task_type: CAUSAL_LM, lora_alpha: 128, use_dora: true, target_modules: [q_proj]}
train_loader: {name: finetuning}
optimizer: {name: decoupled_adamw, lr: 6.0e-4}
global_train_batch_size: 8
device_train_microbatch_size: 4
precision: amp_bf16
fsdp_config: {sharding_strategy: FULL_SHARD, mixed_precision: PURE, activation_checkpointing: true}
"""
"""LocalResearchGroup/llm-foundry, scripts/train/yamls/finetune/smollm2-135m_dora.yaml, with checkpoints."""
SUBMITTED = """\
command: |
  composer train/train.py /mnt/config/parameters.yaml
image: mosaicml/llm-foundry:2.5.1_cu124-latest
compute:
  gpus: 16
parameters:
  variables: {max_seq_len: 4096}
  max_seq_len: ${variables.max_seq_len}
  model: {name: hf_causal_lm, pretrained_model_name_or_path: meta-llama/Llama-3.1-8B, use_flash_attention_2: true}
  optimizer: {name: decoupled_lionw, lr: 5.0e-7}
  global_train_batch_size: 16
  device_train_microbatch_size: 1
  precision: amp_bf16
  fsdp_config: {sharding_strategy: FULL_SHARD, mixed_precision: PURE}
"""
"""LLM Foundry, mcli/mcli-llama3-70b-instruct-finetune.yaml, with a smaller model."""
LITGPT_JOB = """\
script_name="ft_stabai"
cat >$script_name <<EOD
#!/bin/bash
export NCCL_DEBUG=INFO
conda activate litgpt
srun litgpt finetune_lora /data/fsx/checkpoints/NousResearch/Llama-3.2-1B  --data Alpaca --train.epochs 1  --precision bf16-true
EOD
sbatch $script_name
"""
"""harishvs/litgpt-slurm, slurm_ft.sh."""
UNIT = """\
[Unit]
Description=llama.cpp API Server (Qwen3.5-35B-A3B)

[Service]
Type=simple
ExecStart=/opt/llama.cpp/build/bin/llama-server \\
    --model /opt/models/Qwen3.5-35B-A3B-Q4_K_M.gguf \\
    --port 5000 \\
    --n-gpu-layers 99 \\
    --ctx-size 98304
Restart=on-failure

[Install]
WantedBy=multi-user.target
"""
"""tanker327/homelab-llm, llama-server.service."""
COMPOSED = """\
services:
  vllm:
    image: ${VLLM_IMAGE:-vllm/vllm-openai:v0.26.0}
    command: >
      --model ${MODEL:-Qwen/Qwen3-8B}
      --port ${PORT:-8000}
      --gpu-memory-utilization ${GPU_MEM_UTIL:-0.80}
      ${ENGINE_ARGS:-}
  proxy:
    image: ghcr.io/berriai/litellm
    command: [--config, /app/config.yaml, --max-model-len, "5"]
"""
"""luisefigueroa/pulsar-gb10-vllm-stack, docker-compose.yml, with another service in the same file."""
TEMPLATED = """\
model:
  _component_: torchtune.models.phi3.lora_phi3_mini
  lora_attn_modules: ['q_proj', 'v_proj', 'output_proj']
  apply_lora_to_mlp: True
  lora_rank: 8
tokenizer:
  _component_: torchtune.models.phi3.phi3_mini_tokenizer
  path: {{model_dir}}/tokenizer.model
  max_seq_len: 2048
optimizer: {_component_: torch.optim.AdamW, fused: True, lr: 3e-4}
loss: {_component_: torchtune.modules.loss.CEWithChunkedOutputLoss}
batch_size: 1
gradient_accumulation_steps: 16
enable_activation_checkpointing: True
dtype: bf16
output_dir: {{log_dir}}/lora_finetune_output
"""
"""Azure/torchtune-azureml, scripts/lora_finetune_phi3.yaml."""
BY_SIZES = """\
tokenizer: {_component_: tokenizer.DeepSeekTokenizer, max_seq_len: 4096}
model:
  _component_: torchtune.models.llama2.llama2
  vocab_size: 102400
  num_layers: 30
  num_heads: 32
  num_kv_heads: 32
  embed_dim: 4096
  max_seq_len: 4096
  attn_dropout: 0.0
  norm_eps: 1e-5
batch_size: 2
optimizer: {_component_: bitsandbytes.optim.PagedAdamW, lr: 2e-5}
loss: {_component_: torchtune.modules.loss.CEWithChunkedOutputLoss}
gradient_accumulation_steps: 16
enable_activation_checkpointing: True
dtype: bf16
"""
"""ebsmothers/torchtune-does-math, custom_fft_single_device.yaml."""
DAPO = """\
python3 -m recipe.dapo.main_dapo \\
  --config-path=${CONFIG_PATH:-config} \\
  --config-name='dapo_trainer' \\
  algorithm.adv_estimator=grpo \\
  data.max_prompt_length=2048 \\
  data.max_response_length=4096 \\
  actor_rollout_ref.model.path=Qwen/Qwen3-4B \\
  actor_rollout_ref.actor.use_dynamic_bsz=True \\
  actor_rollout_ref.actor.ppo_mini_batch_size=64 \\
  actor_rollout_ref.actor.ppo_max_token_len_per_gpu=$((1024 * 32)) \\
  actor_rollout_ref.actor.strategy=fsdp2 \\
  trainer.n_gpus_per_node=8
"""
"""ylXuu/Search-Gen-V, Search-Gen-V/trainer/train_dapo.sh."""
FOURTH = {
    SWIFT_NODES: {
        "hardware.num_gpus": 16,
        "hardware.gpus_per_node": 8,
        "training.gradient_accumulation_steps": 2,
        "engine.zero_stage": 2,
    },
    FACTORY_GPUS: {"hardware.num_gpus": 4, "engine.type": "ddp", "training.sequence_length": 512},
    FOUNDRY_DORA: {
        "training.adapter.type": "dora",
        "training.adapter.rank": 64,
        "training.activation_checkpointing.use_reentrant": True,
    },
    SUBMITTED: {
        "hardware.num_gpus": 16,
        "training.optimizer.name": "lion",
        "training.sequence_length": 4096,
        "training.attention": "flash",
    },
    LITGPT_JOB: {
        "training.adapter.rank": 8,
        "training.adapter.target_modules": ["q_proj", "v_proj"],
        "training.precision": "bf16",
    },
    UNIT: {"engine.type": "llama.cpp", "inference.quantization": "q4_k_m", "inference.max_model_len": 98304},
    COMPOSED: {
        "engine.gpu_memory_utilization": 0.8,
        "engine.version": "v0.26.0",
        "inference.max_model_len": None,
    },
    TEMPLATED: {"training.adapter.rank": 8, "training.micro_batch_size": 1, "training.sequence_length": 2048},
    BY_SIZES: {"training.optimizer.name": "paged-adamw", "training.gradient_accumulation_steps": 16},
    DAPO: {"training.sequence_length": 32768, "training.method.name": "grpo", "engine.version": 2},
}


@pytest.mark.parametrize("text", FOURTH, ids=lambda text: text.split()[0])
def test_every_key_of_a_file_is_known(text):
    found = imported(text, None)
    said = flat({**found.config, "model": ""})
    assert {path: said.get(path) for path in FOURTH[text]} == FOURTH[text]
    assert found.accounts.unknown == ()


def test_a_network_by_its_sizes():
    sizes = imported(BY_SIZES).config["model"]
    assert (sizes["intermediate_size"], sizes["num_hidden_layers"], sizes["vocab_size"]) == (11008, 30, 102400)


def test_models_of_llama_swap():
    """A command goes on over lines there, and macros are texts: each model is a job of its own."""
    jobs = [flat({**imported(SWAPPED, job=number).config, "model": ""}) for number in (1, 2)]
    assert [each.get("inference.max_model_len") for each in jobs] == [131072, 32000]
    assert [each["engine.type"] for each in jobs] == ["vllm", "llama.cpp"]
    with pytest.raises(ConfigError, match="2 commands for 2 jobs"):
        imported(SWAPPED)


def test_nodes_that_only_a_cluster_knows():
    """Processes of each node are not those of the job."""
    said = {"WORLD_SIZE": "4", "NPROC_PER_NODE": "8"}
    config, _ = read_sources([Source("run.sh", VERL_NODES)], variables=said)
    assert (config["hardware"]["num_gpus"], config["training"]["gradient_accumulation_steps"]) == (32, 4)
    with pytest.raises(ConfigError, match="WORLD_SIZE, which the script does not set; give it with --gpus"):
        read_sources([Source("run.sh", VERL_NODES)], variables={"NPROC_PER_NODE": "8"})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("python src/cli_demo.py --model_name_or_path gpt2 --template qwen --finetuning_type full", "does not train"),
        ("llamafactory-cli train a.yaml --model_name_or_path gpt2 --cutoff_len 512", "a.yaml; pass that file"),
        ("axolotl train cfg.yml --micro-batch-size 2", "cfg.yml; pass that file"),
        ("accelerate launch sft.py --config x.yaml --load_in_4bit true --model_name_or_path gpt2", "pass that file"),
        ("accelerate launch run_sft.py recipes/x.yaml --per_device_train_batch_size 2", "recipes/x.yaml; pass"),
        (FOUNDRY_DORA.replace("LORA,", "LOHA,"), "supported: LORA"),
        ("litgpt finetune_adapter gpt2/x --train.epochs 1", "supported: lora, full, pretrain"),
    ],
)
def test_what_another_file_says_is_asked_for(text, words):
    with pytest.raises(MemcoreError, match=words):
        imported(text, 1)


def test_a_value_that_a_program_prints():
    """What a command's output gives is asked for by its variable, and can be given."""
    script = 'G=$(awk "BEGIN {print 0.8}")\nvllm serve Qwen/Qwen3-8B --gpu-memory-utilization "${G}" --max-num-seqs 3\n'
    with pytest.raises(ConfigError, match=r"found \$G"):
        read_sources([Source("run.sh", script)])
    config, _ = read_sources([Source("run.sh", script)], variables={"G": "0.7"})
    assert config["engine"]["gpu_memory_utilization"] == 0.7


def test_a_switch_before_empty_variables():
    text = (
        "torchrun --nproc_per_node 1 pretrain_gpt.py --num-layers 2 --hidden-size 64 --num-attention-heads 4 "
        "--seq-length 128 --max-position-embeddings 128 --vocab-size 512 --micro-batch-size 1 --bf16 $MORE $OPTIONS"
    )
    assert imported(text).config["training"]["precision"] == "bf16-mixed"


def test_a_key_that_stands_empty_first():
    """YAML's readers take the later of two."""
    text = ACCELERATE.replace("distributed_type: FSDP\n", "num_processes:\ndistributed_type: FSDP\nnum_processes: 4\n")
    assert imported(text).config["hardware"]["num_gpus"] == 4


OF_OLLAMA = """\
cat > /tmp/Modelfile <<EOF
FROM /models/qwen2.5-3b-instruct-q4_k_m.gguf
PARAMETER stop "[INST]"
PARAMETER num_ctx 8192
EOF

ollama create qwen2-model -f /tmp/Modelfile || true
"""
"""Tomas148-M/MiniLLMBot, LLM_FineTunning/autoscript.sh, with a length."""
OF_MODELSCOPE = """\
export BASE_MODEL="/mnt/workspace/modelscope_hub/qwen/Qwen1___5-0___5B" # JUST AN EXAMPLE

CUDA_VISIBLE_DEVICES=0 python \\
    src/train_bash.py \\
    --stage sft \\
    --model_name_or_path ${BASE_MODEL} \\
    --finetuning_type full \\
    --template qwen2 \\
    --cutoff_len 4096 \\
    --per_device_train_batch_size 2 \\
    --gradient_accumulation_steps 32 \\
    --flash_attn \\
    --bf16 True
"""
"""GAIR-NLP/cs2916, hw2/finetune/run.sh."""


def test_what_ollama_and_modelscope_say():
    said = flat({**imported(OF_OLLAMA).config, "model": ""})
    assert (said["inference.quantization"], said["inference.max_model_len"]) == ("q4_k_m", 8192)
    found = imported(OF_MODELSCOPE).config
    assert (found["model"], found["training"]["attention"]) == ("Qwen/Qwen1.5-0.5B", "flash")
    with pytest.raises(MemcoreError, match="--device: found 'npu'"):
        imported("python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --device npu --mem-fraction-static 0.8")


TITAN = "NGPU=4 MODULE=qwen3 CONFIG=qwen3_14b ./run_train.sh --training.num_tokens_per_microbatch_per_dp_rank 8192"
"""torchtitan's README of August 2026 (`MODULE=llama3 CONFIG=llama3_8b ./run_train.sh`), with another model."""
LAUNCHED_TITAN = """\
torchrun --nnodes 4 --nproc_per_node 8 -m torchtitan.train --module llama3 --config llama3_70b \\
    --parallelism.pipeline_parallel_degree 2 activation-checkpoint:selective
"""
"""torchtitan, multinode_trainer.slurm, with the words of experiments/transformers_modeling_backend/tests."""
LAMBDA = """\
[model]
name = "deepseek_v3"
flavor = "16B"
converters = []
[optimizer]
name = "AdamW"
implementation = "fused"
early_step_in_backward = true
[training]
local_batch_size = 6
seq_len = 16384
dtype = "bfloat16"
mixed_precision_reduce = "bfloat16"
[parallelism]
data_parallel_shard_degree = 8
[activation_checkpoint]
mode = "selective"
selective_ac_option = "op"
[compile]
enable = true
components = ["model", "loss"]
"""
"""LambdaLabsML/torchtitan, configs/deepseek_16b-8xb200-16k.toml (0768f5d)."""
BACKEND = """\
[model]
name = "transformers_modeling_backend"
flavor = "full"
[hf_transformers]
model = "Qwen/Qwen3-4B-Instruct-2507"
[training]
local_batch_size = 2
[activation_checkpoint]
mode = "full"
"""
"""PiyushDatta/torchtitan_moe, torchtitan/experiments/transformers_modeling_backend/configs/full.toml (84d4ab0)."""
MCORE_FOLDER = """\
TP=2
EP=8
NPROC_PER_NODE=8 NNODES=2 NODE_RANK=0 MASTER_ADDR=10.0.0.2 MASTER_PORT=29500 \\
megatron sft --load /data01/LLM_model/Qwen3-30B-A3B-mcore --tensor_model_parallel_size $TP \\
    --expert_model_parallel_size $EP --micro_batch_size 24 --global_batch_size 960 --recompute_granularity full \\
    --recompute_method uniform --recompute_num_layers 1 --max_length 4000 --sequence_parallel true
"""
"""hsushuai/ms-swift-scripts, scripts/train_agent_30b_node.sh (c76dfc1)."""
CODE_LLAMA = """\
# tune run lora_finetune_single_device --config code_llama2/7B_lora_single_device
model:
  _component_: torchtune.models.code_llama2.lora_code_llama2_7b
  lora_attn_modules: ['q_proj', 'v_proj', 'output_proj']
  apply_lora_to_mlp: True
  lora_rank: 8
tokenizer: {_component_: torchtune.models.llama2.llama2_tokenizer, max_seq_len: 2048}
optimizer: {_component_: torchao.prototype.low_bit_optim.AdamW8bit, lr: 3e-4}
loss: {_component_: torchtune.modules.loss.CEWithChunkedOutputLoss}
batch_size: 2
dtype: bf16
"""
"""pls331/torchtune_personify, recipes/configs/code_llama2/7B_lora_single_device.yaml (bce7091); the optimizer is that of
zhangjun/torchtune-example, config/llama31_qat_int8_config.yaml (be4c39a)."""
RLHF_DPO = """\
MODEL_NAME_OR_PATH=${MODEL_NAME_OR_PATH:-Qwen/Qwen2.5-0.5B-Instruct}
python src/build_toy_data.py --out_dir data/toy
deepspeed --module openrlhf.cli.train_dpo \\
  --model_name_or_path "${MODEL_NAME_OR_PATH}" \\
  --max_len 1024 --train_batch_size 8 --micro_train_batch_size 1 --bf16 --gradient_checkpointing --zero_stage 3 \\
  2>&1 | tee logs/dpo_smoke.log
"""
"""jiakangkangfuzhe/llm-post-training-openrlhf-lab, scripts/run_dpo_smoke.sh (dcf2c09)."""
NEMOTRON = """\
dataset: {seq_length: 8192, packed_sequence_specs: {packed_sequence_size: 8192}}
train: {global_batch_size: 64, micro_batch_size: 1}
optimizer: {use_distributed_optimizer: true, bf16: true}
model:
  seq_length: 8192
  pipeline_model_parallel_size: 4
  tensor_model_parallel_size: 2
  expert_model_parallel_size: 2
  sequence_parallel: True
  recompute_granularity: selective
  recompute_modules: ["core_attn"]
checkpoint:
  pretrained_checkpoint: /projects/a5k/public/checkpoints/models/NVIDIA-Nemotron-3-Nano-30B-A3B-Base-BF16
"""
"""GeodesicResearch/geodesic-megatron, configs/quickstart/nemotron_nano_quickstart_sft.yaml (df06386)."""
GALORE = """\
model_name_or_path: meta-llama/Meta-Llama-3-8B-Instruct
stage: sft
do_train: true
finetuning_type: full
use_galore: true
galore_layerwise: true
galore_target: all
galore_rank: 128
galore_scale: 2.0
cutoff_len: 2048
per_device_train_batch_size: 1
pure_bf16: true
"""
"""kenyo3026/llama-factory-dock, recipes/extras/galore/llama3_full_sft.yaml (ce3ed2a)."""
IN_DOCKER = """\
usage() {
  cat <<'HELP'
Options:
  -g, --gpu-memory-utilization N    vLLM KV-cache allocation fraction
      --dtype DTYPE                 vLLM dtype (default: auto)
HELP
}
MODEL="/models/Qwen2.5-0.5B-Instruct"
docker_cmd=(
  docker run --detach --gpus all --entrypoint vllm nvcr.io/nvidia/vllm:1 serve "${MODEL}"
  --dtype auto --gpu-memory-utilization 0.15
)
"${docker_cmd[@]}"
"""
"""Tennsoku/k8s-llm-serving-public, serving/vllm/start-server.sh (31295b3)."""
FIREFLY = json.dumps({
    "model_name_or_path": "NousResearch/Meta-Llama-3-8B-Instruct", "template_name": "llama3", "max_seq_length": 1024,
    "per_device_train_batch_size": 1, "lora_rank": 64, "lora_dropout": 0.05, "gradient_checkpointing": True,
    "optim": "paged_adamw_32bit", "fp16": True,
})  # fmt: skip
"""yangjianxin1/Firefly, train_args/sft/qlora/llama3-8b-sft-qlora.json (e22b406)."""
FIREFLY_DPO = json.dumps({
    "model_name_or_path": "Qwen/Qwen1.5-7B-Chat", "template_name": "qwen", "train_mode": "full", "task_type": "dpo",
    "beta": 0.1, "max_seq_length": 1024, "max_prompt_length": 300, "per_device_train_batch_size": 1, "lora_rank": 64,
    "gradient_checkpointing": True, "fp16": True,
})  # fmt: skip
"""yangjianxin1/Firefly, train_args/dpo/full/qwen1.5-7b-dpo-full.json (e22b406)."""
MEDICAL = """\
CUDA_VISIBLE_DEVICES=0,1 python3 training/dpo_training.py --model_name_or_path Qwen/Qwen3.5-2B \\
    --per_device_train_batch_size 4 --use_peft True --max_source_length 1024 --max_target_length 512 \\
    --target_modules all --lora_rank 8 --torch_dtype bfloat16 --bf16 True --flash_attn True
"""
"""shibing624/MedicalGPT, scripts/run_dpo.sh and run_sft.sh (2f1008c)."""
HYDRA = """\
trainer:
  _target_: trl.SFTTrainer
  args: {_target_: trl.SFTConfig, per_device_train_batch_size: 4, max_length: 2048, output_dir: out}
model:
  _target_: transformers.AutoModelForCausalLM.from_pretrained
  pretrained_model_name_or_path: meta-llama/Llama-3.1-8B
  torch_dtype: torch.bfloat16
peft: {_target_: peft.LoraConfig, r: 16, target_modules: [q_proj]}
data: {path: x.jsonl}
"""
"""In the way of Hydra 1.3, docs/advanced/instantiate_objects/overview.md."""
LIGHTNING = """\
model:
  class_path: transformers.AutoModelForCausalLM.from_pretrained
  init_args: {pretrained_model_name_or_path: Qwen/Qwen2.5-1.5B}
args:
  class_path: trl.DPOConfig
  init_args: {beta: 0.1, max_length: 512, per_device_train_batch_size: 2}
"""
"""In the way of jsonargparse 4, docs/source/index.rst."""
SIXTH = {
    TITAN: {
        "hardware.num_gpus": 4,
        "training.sequence_length": 4096,
        "training.micro_batch_size": 2,
        "training.activation_checkpointing.policy": "full",
        "training.loss": "chunked:8",
    },
    LAUNCHED_TITAN: {
        "hardware.num_gpus": 32,
        "parallelism.tensor_parallel_size": 8,
        "parallelism.pipeline_parallel_size": 2,
        "training.activation_checkpointing.policy": "selective",
    },
    LAMBDA: {
        "training.precision": "bf16",
        "training.reduce_dtype": "bf16",
        "engine.optimizer_in_bwd": True,
        "training.micro_batch_size": 6,
    },
    BACKEND: {"model": "Qwen/Qwen3-4B-Instruct-2507", "training.implementation": "transformers"},
    MCORE_FOLDER: {"model": "Qwen/Qwen3-30B-A3B", "hardware.num_gpus": 16, "training.gradient_accumulation_steps": 5},
    CODE_LLAMA: {"model": "codellama/CodeLlama-7b-hf", "training.optimizer.name": "adamw-8bit"},
    RLHF_DPO: {
        "model": "Qwen/Qwen2.5-0.5B-Instruct",
        "training.method.name": "dpo",
        "engine.zero_stage": 3,
        "training.sequence_length": 1024,
    },
    NEMOTRON: {"model": "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-Base-BF16", "parallelism.expert_parallel_size": 2},
    GALORE: {
        "training.optimizer.name": "galore",
        "training.optimizer.rank": 128,
        "engine.optimizer_in_bwd": True,
        "training.precision": "bf16",
    },
    IN_DOCKER: {"engine.gpu_memory_utilization": 0.15, "inference.max_model_len": None},
    FIREFLY: {
        "training.quantization": "nf4-double",
        "training.adapter.target_modules": "all-linear",
        "training.method.name": None,
    },
    FIREFLY_DPO: {"training.adapter.type": None, "training.method.name": "dpo"},
    # microsoft/DeepSpeedExamples, applications/DeepSpeed-Chat/training/step2_reward_model_finetuning
    "deepspeed --num_gpus 2 main.py --data_split 2,4,4 --model_name_or_path facebook/opt-350m --num_padding_at_beginning 1 "
    "--zero_stage 2 --dtype bf16 --lora_dim 128 --only_optimize_lora --deepspeed": {
        "training.method.name": "reward",
        "training.adapter.rank": 128,
        "training.adapter.target_modules": "all-linear",
        "training.sequence_length": 512,
        "training.micro_batch_size": 16,
        "engine.zero_stage": 2,
    },
    MEDICAL: {"training.sequence_length": 1536, "training.attention": "flash", "training.method.name": "dpo"},
    HYDRA: {"training.adapter.rank": 16, "training.sequence_length": 2048, "training.micro_batch_size": 4},
    LIGHTNING: {"training.method.name": "dpo", "model": "Qwen/Qwen2.5-1.5B"},
}


def test_what_is_read_as_a_command():
    """A script of commands is no file of a tool's; one of Python is."""
    for name, text, words in (
        ("run.sh", IN_DOCKER, "read as a command of vLLM"),
        ("c.yaml", LIGHTNING, "read as a file of transformers.TrainingArguments and TRL"),
        ("serve.py", "from vllm import LLM\nllm = LLM(model='gpt2', max_model_len=8)\n", "read as a file of vLLM"),
    ):
        assert read_sources([Source(name, text)])[1][0] == words


def test_white_space_that_commands_tidy_up():
    """GeodesicResearch/geodesic-megatron, examples/models/gpt_oss/slurm_sft.sh (df06386)."""
    text = BRIDGE_RECIPE.replace('$CLI_OVERRIDES"', "$(echo \"$CLI_OVERRIDES\" | tr '\\n' ' ' | sed 's/  */ /g')\"")
    assert imported(text, 8).config == imported(BRIDGE_RECIPE, 8).config


def test_keys_that_a_recipe_does_not_read_are_said():
    """zhangjun/torchtune-example, config/llama31_qat_int8_config.yaml (be4c39a)."""
    quantizer = "quantizer: {_component_: torchtune.training.quantization.Int8DynActInt4WeightQATQuantizer}\n"
    assert any(note.startswith("quantizer._component_: not read by") for note in imported(CODE_LLAMA + quantizer).notes)


AXOLOTL_FILE = "base_model: Qwen/Qwen3-8B\nadapter: lora\nlora_r: 16\nsequence_len: 2048\nmicro_batch_size: 2\n"
IN_A_SCRIPT = f"cat > cfg.yml <<EOF\n{AXOLOTL_FILE}EOF\naxolotl train cfg.yml\n"
IN_A_SHELL = f'submit --gpus 8 bash -c "\n{IN_A_SCRIPT}"\n'
IN_A_TASK = "type: task\ncommands:\n  - pip install axolotl\n  - |\n" + "".join(
    f"    {line}\n" for line in IN_A_SCRIPT.splitlines()
)
WRAPPED = (
    "sbatch --nodes=2 --wrap=\"srun bash -c 'torchrun --nnodes 2 --nproc_per_node 8 -m verl.trainer.fsdp_sft_trainer "
    "model.partial_pretrain=Qwen/Qwen2.5-7B data.max_length=4096 data.micro_batch_size_per_gpu=1'\"\n"
)
APPLIED = """\
kubectl apply -f - <<EOF
apiVersion: apps/v1
kind: Deployment
spec:
  containers:
  - image: vllm/vllm-openai:v0.6.3.post1
    command: ["bash", "-c", "vllm serve Qwen/Qwen3-8B --max-model-len 4096"]
EOF
"""
"""In the way of vLLM's docs/deployment/k8s.md."""
CHART = """\
servingEngineSpec:
  modelSpec:
  - repository: vllm/vllm-openai
    tag: v0.10.1
    modelURL: mistralai/Mistral-7B-Instruct-v0.2
    vllmConfig: {maxModelLen: 32000}
    nodeSelectorTerms:
    - matchExpressions: [{key: nvidia.com/gpu.product, operator: In, values: [NVIDIA-RTX-A6000]}]
"""
"""vllm-project/production-stack, helm/examples."""
LAUNCHED_WITH = """\
cat > acc.yaml <<EOF
distributed_type: FSDP
num_processes: 4
fsdp_config: {fsdp_version: 2}
EOF
accelerate launch --config_file acc.yaml sft.py --model_name_or_path Qwen/Qwen3-8B --per_device_train_batch_size 2 \
    --max_length 4096 --bf16
"""
WRITTEN = {
    IN_A_SCRIPT: {"training.adapter.rank": 16, "training.micro_batch_size": 2},
    IN_A_SHELL: {"training.adapter.rank": 16, "training.sequence_length": 2048},
    IN_A_TASK: {"training.adapter.rank": 16, "training.sequence_length": 2048},
    WRAPPED: {"hardware.num_gpus": 16, "training.sequence_length": 4096},
    APPLIED: {"inference.max_model_len": 4096},
    CHART: {"engine.version": "v0.10.1", "hardware.accelerator": "rtx-a6000"},
    LAUNCHED_WITH: {"engine.type": "fsdp", "engine.version": 2, "hardware.num_gpus": 4, "training.micro_batch_size": 2},
}


@pytest.mark.parametrize("text", WRITTEN, ids=range(len(WRITTEN)))
def test_files_that_scripts_write(text):
    """Those that a command names, within whatever hands it to a shell, a queue or a cluster."""
    config, notes = read_sources([Source("run.sh", text)])
    said = flat(config)
    assert {path: said.get(path) for path in WRITTEN[text]} == WRITTEN[text]
    assert not any("separate file" in note for note in notes)


TITAN_FILE = LAMBDA.replace("converters = []", 'converters = ["float8"]').replace(
    '_reduce = "bfloat16"', '_reduce = "float32"'
)


def test_a_command_of_torchtitan_with_its_file():
    """torchtitan, run_train.sh: `CONFIG_FILE` names the file, whose keys flags override."""
    script = Source("run.sh", "NGPU=4 CONFIG_FILE=./a/x.toml ./run_train.sh --training.seq_len 4096\n")
    both = [Source("x.toml", TITAN_FILE), script]
    for sources in (both, both[::-1]):
        said = flat(read_sources(sources)[0])
        assert (said["hardware.num_gpus"], said["training.sequence_length"]) == (4, 4096)
        assert (said["training.precision"], said["training.parameter_dtype"]) == ("fp8-mixed", "bf16")
        assert said["training.reduce_dtype"] == "fp32"


SFM = """\
accelerate launch --config_file accelerate_config_6gpu.yaml train_dpo.py --model_name Qwen/Qwen3-8B \
    --deepspeed ds_config.json --beta 5.0 --per_device_train_batch_size 4 --gradient_accumulation_steps 5 \
    --max_length 2048 --max_prompt_length 2048 --bf16 true --gradient_checkpointing true
"""
"""MeridianResearch/sfm-post-training, scripts/dpo_mcqa_aligned_full.sh, with another model, and its two files."""


def test_several_files_keep_what_each_says():
    """What a section's short form holds (the method, checkpoints, the adapter) is not lost between them."""
    sources = [
        Source("accelerate_config_6gpu.yaml", "distributed_type: MULTI_GPU\nmixed_precision: bf16\nnum_processes: 6\n"),
        Source("ds_config.json", '{"bf16": {"enabled": true}, "zero_optimization": {"stage": 2}}'),
        Source("dpo.sh", SFM),
    ]
    said = flat(read_sources(sources)[0])
    assert (said["training.method.name"], said["training.activation_checkpointing.policy"]) == ("dpo", "full")
    assert (said["engine.type"], said["engine.zero_stage"], said["hardware.num_gpus"]) == ("deepspeed", 2, 6)
    fsdp = Source("accelerate.yaml", "distributed_type: FSDP\nfsdp_config: {fsdp_offload_params: true}\n")
    both = read_sources([fsdp, sources[1]])[0]
    assert flat(both)["engine.type"] == "deepspeed"
    assert "engine.cpu_offload" not in flat(both)
    adapted = "model_name_or_path: a/b\nuse_peft: true\ntorch_dtype: bfloat16\nbf16: true\nmax_length: 512\n"
    alone = [
        Source("lora.yaml", adapted),
        Source("accelerate.yaml", "distributed_type: MULTI_GPU\nmixed_precision: bf16\n"),
    ]
    assert flat(read_sources(alone)[0])["training.precision"] == "bf16"
    sharded = [
        Source("full.yaml", adapted.replace("use_peft: true\n", "")),
        Source("a.yaml", "distributed_type: FSDP\n"),
    ]
    assert flat(read_sources(sharded)[0])["training.precision"] == "bf16-mixed"
    guessing = Source("zero.json", '{"bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 1}}')
    floats = Source("axolotl.yml", "base_model: a/b\nsequence_len: 512\nfp16: true\nbf16: false\n")
    assert flat(read_sources([floats, guessing])[0])["training.precision"] == "fp16-mixed"


AXOLOTL_405B = """\
base_model: meta-llama/Meta-Llama-3.1-405B
load_in_4bit: true
adapter: qlora
sequence_len: 4096
lora_r: 16
lora_target_linear: true
micro_batch_size: 1
optimizer: adamw_torch
save_safetensors: true
"""
"""axolotl-ai-cloud/axolotl-cookbook, lambda/configs/llama-3_1-405b-qlora.yaml."""
TUNE_KD = TORCHTUNE_DPO.replace("torchtune.rlhf.loss.DPOLoss", "torchtune.modules.loss.LinearCrossEntropyLoss")
TUNE_HEADER = """\
#   tune run --nnodes 1 --nproc_per_node 2 lora_finetune_distributed --config qwen2/1.5B_lora
#   tune run --nnodes 1 --nproc_per_node 2 knowledge_distillation_distributed --config a
#   tune run --nnodes 1 --nproc_per_node 2 knowledge_distillation_distributed --config a b=c
"""
"""torchtune, recipes/configs/qwen2/1.5_to_0.5B_KD_lora_distributed.yaml."""
TUNE_EVERY = TUNE_KD.replace("checkpointing: True", "checkpointing: False\nac_mode: 'selective'\nac_option: 2")
"""torchtune, recipes/configs/dev/8B_full_experimental.yaml."""
UNSLOTH_BOTH = """\
from unsloth import FastLanguageModel
from trl import SFTTrainer, SFTConfig
model, tokenizer = FastLanguageModel.from_pretrained(model_name="unsloth/Llama-3.3-70B-Instruct", max_seq_length=8192)
model = FastLanguageModel.get_peft_model(model, r=128, lora_alpha=16)
trainer = SFTTrainer(model=model, args=SFTConfig(per_device_train_batch_size=2, max_length=8192))
model = FastLanguageModel.get_peft_model(model)
model.load_adapter("lora_model")
"""
"""maikyonn/agentic-narratives, unsloth.ipynb: what it does behind the training is inference."""
APERTUS = """\
model_name_or_path: swiss-ai/Apertus-8B-Instruct-2509
attn_implementation: flash-attention-3
per_device_train_batch_size: 4
use_peft: true
lora_r: 8
lora_target_modules: all-linear
max_length: 4096
"""
"""swiss-ai/apertus-finetuning-recipes, configs/sft_lora.yaml."""
QUEUED = (
    "python mason.py --gpus 1 -- source setup.sh \\&\\& python open_instruct/finetune.py "
    "--model_name_or_path Qwen/Qwen3-1.7B --max_seq_length 1024 --per_device_train_batch_size 1\n"
)
"""allenai/open-instruct, scripts/train/debug/, as its queue is handed commands."""
SEVENTH = {
    AXOLOTL_405B: {"training.quantization": "nf4-double", "training.optimizer.name": "adamw"},
    TUNE_EVERY: {
        "training.activation_checkpointing.policy": "selective",
        "training.activation_checkpointing.every": 2,
    },
    TUNE_HEADER + TUNE_KD + "teacher_model: {_component_: torchtune.models.qwen2.qwen2_1_5b}\n": {
        "training.method.teacher": "Qwen/Qwen2-1.5B",
    },
    UNSLOTH_BOTH: {"training.adapter.rank": 128, "training.micro_batch_size": 2},
    APERTUS: {"training.attention": "flash"},
    QUEUED: {"model": "Qwen/Qwen3-1.7B", "training.sequence_length": 1024},
    "FROM denisavetisyan/yandexgpt5_8b_lite_q8_0\nPARAMETER num_ctx 8192\n": {"inference.quantization": "q8_0"},
}


def test_checkpoints_on_the_way_to_a_model():
    name = "TinyLlama/TinyLlama-1.1B-intermediate-step-1431k-3T"
    assert find_model(name).parameters == find_model("TinyLlama/TinyLlama-1.1B-Chat-v1.0").parameters


GPT_OSS = """\
model_name_or_path: openai/gpt-oss-20b
attn_implementation: eager
torch_dtype: bfloat16
dataset_name: HuggingFaceH4/Multilingual-Thinking
do_train: true
per_device_train_batch_size: 4
use_peft: true
lora_r: 8
lora_target_modules: all-linear
max_length: 4096
logging_steps: 1
logging_steps: 5
"""
"""huggingface/gpt-oss-recipes, configs/sft_lora.yaml; the last keys are those of Girjoaba/apertus-finetuning-pipeline."""


def test_what_launches_a_loop_decides_its_precision():
    """DeepSpeed casts the weights that TRL loads in bf16; parameters are moved at stage 3 alone."""
    zero = "distributed_type: DEEPSPEED\nmixed_precision: bf16\nnum_processes: 8\ndeepspeed_config:\n  zero_stage: {}\n"
    zero += "  offload_optimizer_device: cpu\n  offload_param_device: cpu\n"
    for stage, moved in ((2, None), (3, "cpu")):
        said, notes = read_sources([Source("zero.yaml", zero.format(stage)), Source("sft.yaml", GPT_OSS)])
        found = flat(said)
        assert (found["training.precision"], found["engine.zero_stage"]) == ("bf16-mixed", stage)
        assert (found["engine.offload_optimizer"], found.get("engine.offload_param")) == ("cpu", moved)
        assert any("logging_steps appears twice with different values: the latter is used" in note for note in notes)


QLORA = """\
python qlora.py --model_name_or_path huggyllama/llama-7b --lora_r 64 --lora_modules all --double_quant --quant_type nf4 \\
    --bf16 --bits 4 --source_max_len 16 --target_max_len 512 --per_device_train_batch_size 1
"""
"""kallewoof/qlora, scripts/finetune_guanaco_7b.sh."""
BUILT_UPON = """\
python3 -m agent_r1.src.main_agent algorithm.adv_estimator=grpo data.max_prompt_length=3072 \\
    data.max_response_length=5120 actor_rollout_ref.model.path=Qwen/Qwen2.5-1.5B-Instruct \\
    actor_rollout_ref.actor.ppo_mini_batch_size=8 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 \\
    trainer.n_gpus_per_node=8 trainer.nnodes=1
"""
"""LHY-24/AwareCompiler, train_rl.sh."""
PLAYGROUND = """\
if [ $# -eq 0 ]; then
  set -- "--model" "${DEFAULT_MODEL:-Qwen/Qwen3-8B}" "--gpu-memory-utilization" "0.90"
fi
python -m vllm.entrypoints.openai.api_server "$@"
"""
"""CannonCoPilot/model-foundry, scripts/start_vllm.sh."""
BY_LAYER = json.dumps({
    "peft_type": "LORA", "r": 64, "base_model_name_or_path": "Qwen/Qwen3-0.6B", "modules_to_save": [],
    "target_modules": [f"model.layers.{layer}.self_attn.{name}" for layer in range(28) for name in ("q_proj", "v_proj")],
})  # fmt: skip
"""FanGShiYuu/CoReVLA, checkpoint/adapter_config.json, with another model."""
EIGHTH = {
    QLORA: {
        "training.quantization": "nf4-double",
        "training.adapter.target_modules": "all-linear",
        "training.sequence_length": 528,
    },
    BUILT_UPON: {"training.method.name": "grpo", "training.sequence_length": 8192, "hardware.num_gpus": 8},
    PLAYGROUND: {"model": "Qwen/Qwen3-8B", "engine.gpu_memory_utilization": 0.9},
    BY_LAYER: {"training.adapter.target_modules": ["q_proj", "v_proj"], "training.adapter.modules_to_save": None},
    "llama-server -m Qwen3-8B-Q4_K_M.gguf -c 4096 -fa 1 -ngl 99\n": {"engine.flash_attn": True},
}


SAID = {**SIXTH, **SEVENTH, **EIGHTH}


@pytest.mark.parametrize("text", SAID, ids=range(len(SAID)))
def test_what_a_file_says_is_read(text):
    found = imported(text, None)
    said = {**flat({**found.config, "model": ""}), "model": found.config.get("model")}
    assert {path: said.get(path) for path in SAID[text]} == SAID[text]


def test_adapters_of_some_layers_are_refused():
    with pytest.raises(MemcoreError, match="adapters on different layers by module"):
        imported(BY_LAYER.replace("model.layers.27.self_attn.v_proj", "model.layers.26.mlp.up_proj"))


def test_a_reference_next_to_what_learns():
    """ms-swift, examples/megatron/dpo: a copy of what each rank stores, without an adapter to switch off."""
    whole = MEGATRON_DPO.replace("tuner_type lora", "tuner_type full").replace("30B-A3B-Instruct-2507", "8B")
    whole = re.sub("--expert_model_parallel_size 4 ", "", whole)
    found = flat(imported(whole, 8).config)
    assert found["engine.reference_model"] is True
    answers = flat(imported(whole.replace("rlhf_type dpo", "rlhf_type kto --packing true"), 8).config)
    assert (answers["engine.reference_model"], 2 * answers["training.sequence_length"]) == (
        True,
        found["training.sequence_length"],
    )
    free = whole.replace("rlhf_type dpo", "rlhf_type grpo --beta 0")
    assert "engine.reference_model" not in flat(imported(free, 8).config)
    config = Config.from_dict({**imported(whole, 8).config, "model": "Qwen/Qwen3-8B"})
    both, alone = estimate(config), estimate(config.replaced("engine.reference_model", None))
    assert both.rank.persistent.buffers - alone.rank.persistent.buffers == alone.rank.persistent.parameters
    assert both.peak.peak - alone.peak.peak == alone.rank.persistent.parameters


def test_a_server_without_graphs():
    """WindChimeRan/applebench, scripts/serve_sglang.sh: before 0.5.15 room is left for graphs that nobody captures."""
    text = "python -m sglang.launch_server --model-path Qwen/Qwen3-8B --context-length 8192 --disable-cuda-graph\n"
    config = Config.from_dict({**imported(text).config, "hardware": {"accelerator": "h100-sxm-80gb"}})
    for release, is_left in (("0.5.14", True), ("0.5.15", False)):
        dated = config.replaced("engine.version", release)
        without, captured = (estimate(dated.replaced("engine.disable_cuda_graph", said)) for said in (True, None))
        assert without.device.expected < captured.device.expected
        assert (without.pool.tokens == captured.pool.tokens) is is_left


LLAVA = """\
deepspeed --include localhost:0,1,2,3 src/train/train_mem_flash.py --deepspeed scripts/zero3.json --lora_enable True \\
    --lora_r 128 --model_name_or_path lmsys/vicuna-7b-v1.5 --bf16 True --per_device_train_batch_size 16 \\
    --model_max_length 2048 --stage finetune
"""
"""AlignGPT-VL/AlignGPT, scripts/finetune.sh, with adapters as MILVLG/imp, scripts/finetune_lora.sh has them."""
PACKED = """\
recipe: FinetuneRecipeForVLM
step_scheduler: {global_batch_size: 16, local_batch_size: 1}
model:
  _target_: nemo_automodel.NeMoAutoModelForImageTextToText.from_pretrained
  pretrained_model_name_or_path: Qwen/Qwen3.5-4B
packed_sequence: {pretokenize: true, max_length: 4096, pack_size: 4096}
"""
"""NeMo Automodel, examples/vlm_finetune/qwen3_5/qwen3_5_4b_neat_packing.yaml."""
NANO = """\
PRETRAINED_CHECKPOINT=${WORKSPACE:-/workspace}/models/NVIDIA-Nemotron-3-Nano-30B-A3B-Base-BF16
python scripts/training/run_recipe.py --recipe nemotron_3_nano_pretrain_config model.seq_length=2048 \\
    checkpoint.pretrained_checkpoint=$PRETRAINED_CHECKPOINT dataset.seq_length=2048
"""
"""Megatron Bridge, examples/models/nemotron/nemotron_3/nano/slurm_pretrain.sh."""
NINTH = {
    LLAVA: {"training.adapter.target_modules": "all-linear", "training.sequence_length": 2048, "engine.zero_stage": 3},
    PACKED: {"training.sequence_length": 4096, "training.packed_sequences": True},
    NANO: {"model": "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-Base-BF16", "training.sequence_length": 2048},
    "python scripts/training/run_recipe.py --recipe qwen3_600m_sft_yarn_128k_config train.global_batch_size=8": {
        "model": "qwen3-0.6b",
        "training.sequence_length": 131072,
    },
    "model_name_or_path: a/b\nbeta: 0.01\nloss_type: sigmoid\ndo_train: true\nbf16: true\n": {
        "training.method.name": "dpo",
        "training.sequence_length": 1024,
    },
    "python3 -m verl.trainer.main_ppo --config-name='ppo_megatron_trainer' "
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1": {
        "engine.type": "megatron",
    },
    "python3 -m verl.trainer.main_ppo actor_rollout_ref.actor.fsdp_config.strategy=fsdp2 algorithm.adv_estimator=grpo "
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 distillation.enabled=True": {
        "training.method.name": "grpo",
        "engine.type": "fsdp",
        "engine.version": 2,
    },
    "max_seq_len: 2048\ndevice_train_microbatch_size: 4\nmodel:\n  name: hf_causal_lm\n  pretrained_model_name_or_path: gpt2\n"
    "  config_overrides: {n_positions: 2048}\nfsdp_config: {sharding_strategy: FULL_SHARD}\n": {
        "model": {"_name_or_path": "gpt2", **content_of("gpt2"), "n_positions": 2048},
    },
}


@pytest.mark.parametrize("text", NINTH, ids=range(len(NINTH)))
def test_ninth(text):
    found = imported(text, None)
    said = {**flat({**found.config, "model": ""}), "model": found.config.get("model")}
    assert {path: said.get(path) for path in NINTH[text]} == NINTH[text]


NANOTRON_QWEN2 = """\
checkpoints:
  checkpoint_interval: 100000
  checkpoints_path: checkpoints
  checkpoints_path_is_shared_file_system: false
  load_lr_scheduler: true
  load_optimizer: true
  resume_checkpoint_path: null
  save_final_state: true
  save_initial_state: false
data_stages:
- data:
    dataset:
      dataset_folder:
      - /fsx/loubna/datasets/llama_tokenized/fineweb-edu/merged
      dataset_max_tokens: null
      dataset_read_path: null
      dataset_weights: null
      pad_samples_to_global_batch_size: false
      return_positions: true
      shuffle_files: false
      skip_in_stream: false
      token_size_in_bytes: 4
      tokenizer_name: meta-llama/Llama-3.2-1B
      use_old_brrr_dataloader: false
      vocab_size: 128256
    num_loading_workers: 1
    seed: 42
  name: Stable Training Stage
  start_training_step: 1
general:
  benchmark_csv_path: null
  consumed_train_samples: null
  ignore_sanity_checks: true
  project: debug
  run: qwen_20250424_120835_16423158
  seed: 42
  step: null
lighteval: null
logging:
  iteration_step_info_interval: 1
  log_level: info
  log_level_replica: info
metrics_logging: null
model:
  ddp_bucket_cap_mb: 25
  dtype: bfloat16
  init_method:
    scaling_method: NUM_LAYERS
    std: 0.025
  make_vocab_size_divisible_by: 1
  model_config:
    _attn_implementation: flash_attention_2
    _fused_rms_norm: true
    _fused_rotary_emb: true
    _use_doc_masking: true
    _use_qkv_packed: true
    attention_bias: false
    bos_token_id: 1
    eos_token_id: 2
    flex_attention_mask: null
    hidden_act: silu
    hidden_size: 2048
    initializer_range: 0.02
    intermediate_size: 11008
    is_qwen2_config: true
    max_position_embeddings: 4096
    moe_config: null
    no_rope_layer: null
    num_attention_heads: 16
    num_hidden_layers: 36
    num_key_value_heads: 4
    pad_token_id: null
    pretraining_tp: 1
    rms_norm_eps: 1.0e-06
    rope_interleaved: false
    rope_scaling: null
    rope_theta: 10000.0
    sliding_window_size: null
    tie_word_embeddings: true
    use_cache: true
    vocab_size: 128256
    z_loss_coefficient: 0.0001
    z_loss_enabled: false
optimizer:
  accumulate_grad_in_fp32: true
  clip_grad: 1.0
  learning_rate_scheduler:
    learning_rate: 0.0003
    lr_decay_starting_step: null
    lr_decay_steps: 31998
    lr_decay_style: cosine
    lr_warmup_steps: 2
    lr_warmup_style: linear
    min_decay_lr: 1.0e-05
  optimizer_factory:
    adam_beta1: 0.9
    adam_beta2: 0.95
    adam_eps: 1.0e-08
    name: adamW
    torch_adam_is_fused: true
  weight_decay: 0.01
  weight_decay_exclude_named_params: []
  zero_stage: 0
parallelism:
  context_parallel_size: 1
  dp: 2
  expert_parallel_size: 1
  pp: 1
  pp_engine: 1f1b
  recompute_layer: false
  tp: 2
  tp_linear_async_communication: true
  tp_mode: REDUCE_SCATTER
  tp_recompute_allgather: true
profiler: null
s3_upload: null
tokenizer:
  tokenizer_max_length: null
  tokenizer_name_or_path: meta-llama/Llama-3.2-1B
  tokenizer_revision: null
tokens:
  batch_accumulation_per_replica: 1
  limit_test_batches: 0
  limit_val_batches: 0
  micro_batch_size: 3
  sequence_length: 4096
  train_steps: 32000
  val_check_interval: -1
"""
"""huggingface/nanotron, examples/config_qwen.yaml: SmolLM3's sizes."""


def test_nanotrons_qwen2():
    """SmolLM3's own recipes leave positions out of every fourth layer, and say nothing else of its network."""
    found = imported(NANOTRON_QWEN2)
    assert (found.unknown, found.config["engine"]["model_class"]) == ((), "qwen2")
    smollm3 = imported(NANOTRON_QWEN2.replace("no_rope_layer: null", "no_rope_layer: 4")).config["model"]
    assert (smollm3["model_type"], smollm3["no_rope_layer_interval"]) == ("smollm3", 4)
    assert find_model(smollm3).parameters == find_model("HuggingFaceTB/SmolLM3-3B").parameters
    biased = imported(NANOTRON_QWEN2.replace("attention_bias: false", "attention_bias: true")).config["model"]
    assert biased["model_type"] == "qwen2"
    for model in (found.config["model"], smollm3, biased):
        written = exported(Config.from_dict({**found.config, "model": model}))
        assert (written.left_out, imported(written.text).config) == ((), {**found.config, "model": model})


@pytest.mark.parametrize(
    ("said", "optimizer"),
    [
        ("optimizer=sgd", {"name": "sgd"}),
        ("optimizer=muon", {"name": "muon"}),
        ("optimizer=AdamW8bit ACTOR.optim.optimizer_impl=bitsandbytes.optim",
         {"name": "adamw-8bit", "implementation": "bitsandbytes"}),
        ("optimizer=AdamW ACTOR.optim.optimizer_impl=torch.optim", {"name": "adamw"}),
    ],
)  # fmt: skip
def test_what_a_section_says_is_not_silenced_as_a_whole(said, optimizer):
    """verl, workers/config/optimizer.py (`build_optimizer`) and utils/megatron/optimizer.py."""
    text = VERL_ULYSSES if "Adam" in said else VERL_MEGATRON.replace(" $@", "")
    actor = "actor_rollout_ref.actor"
    found = imported(f"{text.rstrip()} {actor}.optim.{said.replace('ACTOR', actor)}\n")
    assert found.config["training"]["optimizer"] == optimizer


def test_of_what_memory_may_depend_is_said():
    """A class of its own goes before a pattern of the whole section."""
    optim = "actor_rollout_ref.actor.optim"
    text = f"{VERL_ULYSSES.rstrip()} {optim}.override_optimizer_config.maximize=true {optim}.lr_warmup_steps=3\n"
    accounts = imported(text).accounts
    assert accounts.left_out == (f"{optim}.override_optimizer_config.maximize",)
    assert f"{optim}.lr_warmup_steps" in accounts.of_no_account


MEGATRON_FP8 = """\
torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 2 --num-layers 32 --hidden-size 4096 \\
    --ffn-hidden-size 14336 --num-attention-heads 32 --seq-length 8192 --max-position-embeddings 8192 \\
    --micro-batch-size 1 --global-batch-size 128 --vocab-size 128256 --bf16 --fp8-format hybrid
"""
"""After Megatron-LM, examples/llama/train_llama3_8b_h100_fp8.sh, shortened."""


@pytest.mark.parametrize("flag", ["--fp8-format hybrid", "--fp8-hybrid"])
def test_products_in_fp8(flag):
    """megatron/training/arguments.py called the format --fp8-hybrid before."""
    found = flat(imported(MEGATRON_FP8.replace("--fp8-format hybrid", flag)).config)
    assert (found["training.precision"], found["engine.fp8_format"]) == ("fp8-mixed", "hybrid")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (TITAN.replace("qwen3_14b", "qwen3_debugmodel"), "CONFIG: found 'qwen3_debugmodel'; pass the config_registry"),
        ("CONFIG_FILE=llama3_8b.toml ./run_train.sh --training.steps 1", "llama3_8b.toml; pass that file"),
        (FIREFLY_DPO.replace('"full"', '"prefix"'), "train_mode: found 'prefix'; supported: full, lora, qlora"),
        (GALORE.replace("target: all", "target: mlp"), "galore_target: found 'mlp'; supported: 'all'"),
        (HYDRA.replace("trl.SFTConfig", "trl.PPOConfig"), "PPOConfig: found"),
        (
            'import nemo_run as run\nNAME = "gpt3_5b"\n@run.cli.factory(name=NAME)\ndef model():\n    ...\n',
            "--factory gpt3_5b",
        ),
        (TITAN.replace(" --training", ' "$@" --training').replace("14b", "1b"), "CONFIG: found 'qwen3_1b'"),
        (MEGATRON_FP8.replace("--bf16 ", ""), "--fp8-format: found 'hybrid'; with parameters in fp32"),
        (MEGATRON_FP8.replace("--bf16", "--fp16"), "with parameters in fp16"),
        (
            "python open_instruct/grpo.py --model_name_or_path Qwen/Qwen2.5-7B --response_length 2048 "
            "--pack_length 4096 --per_device_train_batch_size 1 --num_learners_per_node 8\n",
            "OLMo-core's trainer is not supported yet",
        ),
    ],
)
def test_what_is_refused_with_the_closest(text, words):
    with pytest.raises(MemcoreError, match=re.escape(words)):
        imported(text, 8)


LAUNCHER = """\
distributed_type: FSDP
mixed_precision: 'no'
fsdp_config: {fsdp_version: 2, fsdp_offload_params: false, fsdp_activation_checkpointing: false}
num_processes: 4
"""
LAUNCHED = (
    "accelerate launch --config_file a.yaml {} run_sft.py --model_name_or_path Qwen/Qwen3-0.6B --max_length 512\n"
)


@pytest.mark.parametrize(
    ("flags", "wanted"),
    [
        ("", ("fsdp", 2, None, None, None)),
        ("--fsdp_offload_params true", ("fsdp", 2, True, None, None)),
        ("--use-fsdp --fsdp-offload-params true", ("fsdp", 2, True, None, None)),
        ("--use_deepspeed --zero_stage 3 --offload_param_device cpu", ("deepspeed", None, None, 3, "cpu")),
        ("--multi_gpu", ("ddp", None, None, None, None)),
    ],
)
def test_flags_of_accelerate_go_before_its_file(flags, wanted):
    """accelerate, commands/launch.py (`_validate_launch_command`), whatever order the files come in."""
    sources = [Source("a.yaml", LAUNCHER), Source("run.sh", LAUNCHED.format(flags))]
    for each in (sources, sources[::-1]):
        said = flat(read_sources(each)[0])
        names = ("type", "version", "cpu_offload", "zero_stage", "offload_param")
        assert tuple(said.get(f"engine.{name}") for name in names) == wanted
        assert said["hardware.num_gpus"] == 4


def test_a_launchers_precision_goes_before_its_files():
    sources = [Source("a.yaml", LAUNCHER), Source("run.sh", LAUNCHED.format("--mixed_precision fp16"))]
    assert flat(read_sources(sources)[0])["training.precision"] == "fp16-mixed"


QAT = """\
FROM ./models--unsloth--Qwen3.6-35B-A3B-GGUF/Qwen3.6-35B-A3B-UD-Q4_K_XL.gguf
FROM ./models--unsloth--Qwen3.6-35B-A3B-GGUF/mmproj-BF16.gguf
PARAMETER num_ctx 8192
"""
"""williamrobotma/ollama-modelfiles, modelfiles/qwen3.6/35b-a3b-coding-ud-q4-k-xl/Modelfile."""
AUTOTP = '{"bf16": {"enabled": true}, "zero_optimization": {"stage": 2}, "tensor_parallel": {"autotp_size": 4}}'
"""xiyang-aads-lilly/alignment-handbook, recipes/accelerate_configs/deepspeed_zs2_with_tp.json."""
PAIRS = """\
model_name_or_path: mistralai/Mistral-7B-Instruct-v0.2
beta: 0.4
hub_model_id: suri-orpo-lora-2
max_length: 15024
max_completion_length: 15000
max_prompt_length: 5000
per_device_train_batch_size: 1
"""
"""chtmp223/alignment-handbook, recipes/zephyr-7b-beta/orpo/orpo_lora.yaml."""
RAY = """\
from ray.serve.llm import LLMConfig, build_openai_app
FP8 = True
GRAPHS = False
if not FP8:
    SOURCE, KEEPS = "Qwen/Qwen3-8B-FP8", None
else:
    SOURCE = "Qwen/Qwen3-8B"
    KEEPS = "fp8"
engine_kwargs = dict(tensor_parallel_size=4, **{"max_model_len": 8192})
if KEEPS:
    engine_kwargs["kv_cache_dtype"] = KEEPS
if GRAPHS:
    engine_kwargs["max_num_seqs"] = 8
told = dict(model_loading_config=dict(model_id="m", model_source=SOURCE), engine_kwargs=engine_kwargs)
app = build_openai_app({"llm_configs": [LLMConfig(**told)]})
"""
"""anyscale/llm-serving-for-coding-agents, part3-optimize/serve_qwen3_6_27b_optimized.py, shortened."""
IMAGE = """\
# syntax=docker/dockerfile:1
FROM ghcr.io/ggml-org/llama.cpp:server-cuda
LABEL a="b"
ENV LLAMA_ARG_CTX_SIZE=4096 OTHER=1
CMD ["--model", "/models/Qwen3.6-35B-A3B-UD-Q4_K_XL.gguf", \\
     "-ngl", "99", "--ctx-size", "56320"]
"""
"""hanxiao/Qwen3.6-35B-A3B-MTP-L4, Dockerfile."""
FACTORY = "stage: sft\nmodel_name_or_path: Qwen/Qwen3-0.6B\nfinetuning_type: lora\ncutoff_len: 512\nwandb_entity: me\n"
"""AaronCaoZJ/LlamaFactory, examples/train_lora/gemma4/gemma4_12b_mix_22_27_v3.yaml."""
WORKERS = FACTORY + "ray_num_workers: 6\nper_device_train_batch_size: 1\n"
"""LLaMA-Factory, examples/train_lora/qwen3_lora_sft_ray.yaml."""
FALCON = "base_model: tiiuae/falcon-7b\nsequence_len: 2048\nmicro_batch_size: 2\nbatch_size: 8\nbf16: true\nadapter:\n"
"""axolotl, examples/archived/falcon/config-7b.yml."""
MOE = (
    "recipe: FinetuneRecipeForVLM\nmodel:\n  _target_: nemo_automodel.NeMoAutoModelForImageTextToText.from_pretrained\n"
    "  pretrained_model_name_or_path: Qwen/Qwen3.5-9B\n  backend:\n    dispatcher: deepep\ndistributed:\n  ep_size: 1\n"
    "dataset:\n  seq_length: 64\n"
)
"""NeMo Automodel, examples/vlm_finetune/qwen3_5/qwen3_5_9b.yaml."""
FROZEN = (
    "python3 -m openrlhf.cli.train_ppo_ray --actor.model_name_or_path Qwen/Qwen3.5-2B --algo.advantage.estimator rloo "
    "--actor.num_gpus_per_node 4 --train.colocate_all --actor.freeze_visual_encoder "
)
"""OpenRLHF, examples/scripts/train_vlm_math_hybrid_engine.sh; without sleep, train_reinforce_baseline_ray_agent_async.sh."""
HALF = (
    "torchrun --nproc_per_node 8 -m verl.trainer.fsdp_sft_trainer model.partial_pretrain=gpt2 model.strategy=fsdp "
    "model.fsdp_config.cpu_offload=True "
)
TENTH = {
    FROZEN: {"training.trainable": ["language-model"], "training.method.rollout_share": 0.95},
    FROZEN + "--train.async_enable": {"training.method.rollout_share": None},
    FROZEN + "--ds.lora.rank 8": {"training.trainable": None, "training.adapter.rank": 8},
    HALF: {"engine.version": 1, "engine.cpu_offload": None},
    HALF + "model.fsdp_config.offload_params=True": {"engine.cpu_offload": True},
    WORKERS: {"hardware.num_gpus": 6, "engine.type": "ddp"},
    FALCON: {"training.gradient_accumulation_steps": 4},
    FALCON + "use_ray: true\nray_num_workers: 4\n": {"hardware.num_gpus": 4},
    FALCON + "ray_num_workers: 4\n": {"hardware.num_gpus": None},
    MOE: {"engine.moe_token_dispatcher": None},
    QAT: {"model": "Qwen/Qwen3.6-35B-A3B", "inference.quantization": "q4_k_m", "inference.max_model_len": 8192},
    AUTOTP: {"parallelism.tensor_parallel_size": 4, "engine.zero_stage": 2},
    AUTOTP.replace("4}", "0}"): {"parallelism.tensor_parallel_size": None},
    PAIRS: {"training.method.name": "orpo", "training.sequence_length": 15024},
    RAY: {"model": "Qwen/Qwen3-8B", "parallelism.tensor_parallel_size": 4, "inference.max_model_len": 8192,
          "inference.kv_cache_dtype": "fp8", "inference.max_num_seqs": None},
    IMAGE: {"model": "Qwen/Qwen3.6-35B-A3B", "engine.type": "llama.cpp", "inference.max_model_len": 56320},
    FACTORY: {"training.sequence_length": 512},
}  # fmt: skip


@pytest.mark.parametrize("text", TENTH, ids=range(len(TENTH)))
def test_tenth(text):
    found = imported(text, None)
    said = {**flat({**found.config, "model": ""}), "model": found.config.get("model")}
    assert {path: said.get(path) for path in TENTH[text]} == TENTH[text]
    assert found.accounts.unknown == ()


def test_the_file_that_cannot_be_read_is_named():
    sources = [Source("a.yaml", LAUNCHER), Source("b.yaml", "nothing: known\n")]
    with pytest.raises(ConfigError, match=re.escape("b.yaml: does not match any supported tool")):
        read_sources(sources)
