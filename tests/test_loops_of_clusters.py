"""Files of NeMo Automodel and LLM Foundry, and commands of verl and OpenRLHF: what their keys mean together, and what is refused."""

import re

import pytest

from memcore import Config, estimate
from memcore.errors import MemcoreError, UnsupportedError
from memcore.formats.readers import flat
from memcore.tools import imported

RECIPE = """\
recipe: TrainFinetuneRecipeForNextTokenPrediction
step_scheduler:
  global_batch_size: 64
  local_batch_size: 2
model:
  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained
  pretrained_model_name_or_path: meta-llama/Llama-3.2-1B
  torch_dtype: torch.bfloat16
peft:
  _target_: nemo_automodel.components._peft.lora.PeftConfig
  target_modules: '*_proj'
  dim: 8
distributed:
  strategy: fsdp2
  dp_size: none
  tp_size: 1
  activation_checkpointing: true
loss_fn:
  _target_: nemo_automodel.components.loss.masked_ce.MaskedCrossEntropy
packed_sequence:
  packed_sequence_size: 1024
optimizer:
  _target_: torch.optim.Adam
  lr: 1.0e-5
clip_grad_norm:
  max_norm: 1.0
"""
VERL = """\
n=4
python3 -m verl.trainer.main_ppo --config-name=ppo_trainer \\
    algorithm.adv_estimator=grpo \\
    data.max_prompt_length=512 \\
    data.max_response_length=1024 \\
    actor_rollout_ref.model.path="$HOME/models/Qwen2.5-0.5B-Instruct" \\
    actor_rollout_ref.actor.ppo_mini_batch_size=64 \\
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 \\
    actor_rollout_ref.actor.use_kl_loss=True \\
    +actor_rollout_ref.actor.fsdp_config.mixed_precision.reduce_dtype=bf16 \\
    actor_rollout_ref.rollout.n=${n} \\
    trainer.logger=['console'] \\
    trainer.n_gpus_per_node=8 \\
    trainer.nnodes=1 $@
"""
OPENRLHF = """\
read -r -d '' training_commands <<EOF
openrlhf.cli.train_sft \\
   --data.max_len 2048 --train.batch_size 256 --train.micro_batch_size 2 \\
   --model.model_name_or_path meta-llama/Llama-3.2-1B --ds.zero_stage 3 --ds.packing_samples \\
   --model.gradient_checkpointing_enable --adam.lr 5e-6
EOF
deepspeed --module $training_commands
"""
FORMER = """\
python3 -m openrlhf.cli.train_ppo_ray --actor_num_nodes 1 --actor_num_gpus_per_node 4 --colocate_all_models \\
   --pretrain meta-llama/Llama-3.2-1B --micro_train_batch_size 2 --train_batch_size 64 --prompt_max_len 512 \\
   --generate_max_len 512 --zero_stage 3 --bf16 --advantage_estimator reinforce --vllm_enable_sleep --flash_attn
"""
FOUNDRY = """\
variables:
  max_seq_len: 1024
max_seq_len: ${variables.max_seq_len}
model:
  name: mpt_causal_lm
  d_model: 256
  n_heads: 4
  n_layers: 4
  expansion_ratio: 4
  max_seq_len: ${variables.max_seq_len}
  vocab_size: 50368
  attn_config:
    attn_impl: flash
optimizer:
  name: decoupled_adamw
  lr: 6.0e-4
algorithms:
  gradient_clipping:
    clipping_type: norm
    clipping_threshold: 1.0
global_train_batch_size: 64
device_train_microbatch_size: 4
precision: amp_bf16
fsdp_config:
  sharding_strategy: FULL_SHARD
  mixed_precision: PURE
  activation_checkpointing: true
"""


def read(text, gpus=8):
    found = imported(text, gpus)
    return found, flat({"model": found.config["model"], **found.config})


WANTED = {
    RECIPE: {
        "model": "meta-llama/Llama-3.2-1B",
        "engine.type": "fsdp",
        "engine.framework": "nemo-automodel",
        "training.precision": "bf16",
        "training.adapter.type": "lora",
        "training.adapter.target_modules": "all-linear",
        "training.sequence_length": 1024,
        "training.packed_sequences": True,
        "training.activation_checkpointing.policy": "full",
        "training.loss_shift": "labels-preshifted",
        "training.gradient_accumulation_steps": 4,
        "training.optimizer.name": "adam",
    },
    VERL: {
        "model": "Qwen/Qwen2.5-0.5B-Instruct",
        "engine.type": "fsdp",
        "engine.version": 1,
        "hardware.num_gpus": 8,
        "training.precision": "bf16-mixed",
        "training.reduce_dtype": "bf16",
        "training.micro_batch_size": 4,
        "training.gradient_accumulation_steps": 8,
        "training.sequence_length": 1536,
        "training.method.name": "grpo",
        "training.method.completion_length": 1536,
        "training.activation_checkpointing.policy": "full",
    },
    OPENRLHF: {
        "model": "meta-llama/Llama-3.2-1B",
        "engine.type": "deepspeed",
        "engine.zero_stage": 3,
        "engine.hidden_size_buckets": True,
        "training.precision": "bf16-mixed",
        "training.attention": "flash",
        "training.gradient_accumulation_steps": 16,
    },
    FOUNDRY: {
        "model.n_positions": 1024,
        "model.n_inner": 1024,
        "engine.type": "fsdp",
        "engine.version": 1,
        "training.precision": "bf16-mixed",
        "training.reduce_dtype": "bf16",
        "training.gradient_accumulation_steps": 2,
        "training.attention": "flash",
        "training.activation_checkpointing.policy": "full",
    },
    FORMER: {
        "hardware.num_gpus": 4,
        "training.method.name": "grpo",
        "training.method.reference": "copy",
        "training.sequence_length": 1024,
        "engine.zero_stage": 3,
        "training.attention": "flash",
    },
}


WANTED |= {
    RECIPE.replace("tp_size: 1", "tp_size: 2"): {  # components/distributed/config.py: no sequence parallelism
        "parallelism.tensor_parallel_size": 2,
        "parallelism.sequence_parallel": False,
        "training.adapter.type": "lora",
    },
    re.sub(r"(?s)peft:.*?(?=distributed:)", "", RECIPE)
    + "fp8: {enabled: true, recipe_name: rowwise, filter_fqns: [lm_head]}\n": {
        "training.precision": "fp8-mixed",
        "training.parameter_dtype": "bf16",
        "engine.fp8_recipe": "rowwise",
    },
}


@pytest.mark.parametrize("text", WANTED)
def test_read(text):
    found, config = read(text)
    assert {path: config.get(path) for path in WANTED[text]} == WANTED[text]
    assert found.unknown == ()


@pytest.mark.parametrize("text", WANTED)
def test_answered(text):
    config = Config.from_dict(imported(text, 8).config)
    config = config if config.get("hardware.num_gpus") else config.replaced("hardware.num_gpus", 8)
    assert estimate(config).allocated.expected > 0


OPEN_INSTRUCT = """\
python mason.py --num_nodes 4 --gpus 8 -- source configs/beaker_configs/ray_node_setup.sh \\&\\& \\
python open_instruct/grpo_fast.py --beta 0.0 --pack_length 4096 --response_length 2048 --deepspeed_stage 3 \\
    --model_name_or_path Qwen/Qwen2.5-7B --per_device_train_batch_size 1 --num_learners_per_node 8 8 8 \\
    --vllm_num_engines 8 --gradient_checkpointing
"""


@pytest.mark.parametrize(("cuts", "noted"), [("", True), ("truncation: false", True), ("truncation: true", False)])
def test_automodel_cuts_only_where_it_is_told_to(cuts, noted):
    """examples/llm_finetune/agent/qwen2_5_3b_function_calling.yaml ran out of memory at step 21 (its a4c56f566)."""
    job = f"""\
step_scheduler: {{local_batch_size: 1}}
model:
  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained
  pretrained_model_name_or_path: Qwen/Qwen2.5-3B
dataset:
  _target_: nemo_automodel.components.datasets.llm.agent_chat.make_agent_chat_dataset
  seq_length: 4096
  {cuts}
"""
    found, said = read(job)
    assert said["training.sequence_length"] == 4096
    assert any("not cut" in note for note in found.notes) == noted


@pytest.mark.parametrize(
    ("version", "experts", "dtype"),
    [(None, 1, "fp32"), ("0.5.0", 1, "fp32"), ("0.4.0", 1, "bf16"), ("0.4.0", 8, "fp32"), ("0.1.2", 8, "bf16")],
)
def test_automodel_reduces_as_its_release_does(version, experts, dtype):
    """6ec67a855 of May 14, 2026; models with shared experts have a parallelizer of their own."""
    job = {
        "model": "Qwen/Qwen3-30B-A3B",
        "training": {"precision": "bf16"},
        "parallelism": {"expert_parallel_size": experts},
        "engine": {"type": "fsdp", "framework": "nemo-automodel", "framework_version": version},
        "hardware": {"num_gpus": 8, "accelerator": "h100-sxm-80gb"},
    }
    recipe = estimate(job).job.recipe
    assert recipe.precision.reduce == dtype
    assert recipe.loss.keeps_outputs  # recipes/llm/train_ft.py, `out`


@pytest.mark.parametrize(
    ("framework", "engine", "said", "syncs"),
    [
        ("nemo-automodel", "fsdp", None, False),
        ("nemo-automodel", "fsdp", False, True),
        ("nemo-rl", "fsdp", None, True),  # its own loop calls no get_sync_ctx
        ("transformers", "fsdp", None, True),
    ],
)
def test_who_keeps_gradients_unsharded_until_the_last_micro_batch(framework, engine, said, syncs):
    """NeMo Automodel, components/distributed/utils.py (`get_sync_ctx`); NeMo RL, nemo_rl/models/automodel/train.py."""
    job = {
        "model": "qwen3-0.6b",
        "training": {"precision": "bf16", "gradient_accumulation_steps": 4},
        "engine": {"type": engine, "framework": framework, "no_sync": said},
        "hardware": {"num_gpus": 8, "accelerator": "h100-sxm-80gb"},
    }
    assert estimate(job).job.recipe.sharding.syncs_every_micro_batch == syncs


@pytest.mark.parametrize(
    ("lines", "said", "noted"),
    [
        ("strategy: fsdp2\n  defer_fsdp_grad_sync: false", False, False),
        ("strategy: fsdp2\n  defer_fsdp_grad_sync: true", True, False),
        ("strategy: fsdp2", None, False),
        ("strategy: ddp\n  defer_fsdp_grad_sync: false", None, False),
        ("strategy: fsdp2\n  pp_size: 2\n  defer_fsdp_grad_sync: false", False, True),
    ],
)
def test_automodel_says_when_gradients_are_reduced(lines, said, noted):
    """components/distributed/config.py, `FSDP2Config.defer_fsdp_grad_sync`."""
    found, config = read(RECIPE.replace("strategy: fsdp2", lines))
    assert config.get("engine.no_sync") is said
    assert any("counted unsharded" in str(note) for note in found.notes) == noted


def test_learners_of_open_instruct():
    """Its learners alone count; a reference is kept whatever its weight; logits are divided by a temperature."""
    found, config = read(OPEN_INSTRUCT, None)
    assert found.accounts.left_out == found.unknown == ()
    wanted = {
        "hardware.num_gpus": 24,
        "hardware.gpus_per_node": 8,
        "training.sequence_length": 4096,
        "training.method.reference": "copy",
        "engine.zero_hpz_partition_size": 8,
        "training.attention": "flash",
    }
    assert {path: config.get(path) for path in wanted} == wanted
    rank = estimate(Config.from_dict(found.config)).ranks[0]
    sizes = rank.program.block_sizes(rank.job.sizes)
    logits = [each.rule for each, size in zip(rank.program.blocks, sizes, strict=True) if size == 4096 * 152064 * 2]
    assert {"linear", "div"} <= set(logits)
    assert "log_softmax" not in logits
    assert "training.method.reference" not in read(OPEN_INSTRUCT.strip() + " --load_ref_policy false\n", None)[1]


REFUSED = {
    RECIPE.replace("TrainFinetuneRecipeForNextTokenPrediction", "TrainEagle3Recipe"): "recipe",
    RECIPE.replace("torch.optim.Adam", "dion.Muon"): "optimizer._target_",
    RECIPE.replace("strategy: fsdp2", "strategy: megatron_fsdp"): "distributed.strategy",
    RECIPE + "fp8: {enabled: true}\n": "fp8.enabled",
    RECIPE.replace("  torch_dtype:", "  backend: {te_fp8: {recipe: block}}\n  torch_dtype:"): "model.backend.te_fp8",
    VERL.replace("ppo_mini_batch_size=64", "strategy=veomni"): "actor_rollout_ref.actor.strategy",
    VERL.replace("    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 \\\n", ""): (
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_refused_by_key(text):
    with pytest.raises(UnsupportedError) as raised:
        imported(text, 8)
    assert str(raised.value).startswith(REFUSED[text])


def test_verls_strategy_tells_the_engine():
    found, config = read(VERL.replace("ppo_mini_batch_size=64", "strategy=megatron"))
    assert (found.tool.name, config["engine.type"]) == ("verl-megatron", "megatron")
    assert "actor_rollout_ref.actor.strategy" not in found.unknown + found.accounts.left_out


def test_micro_batches_by_tokens_are_one_sequence():
    text = VERL.replace("ppo_mini_batch_size=64", "use_dynamic_bsz=True")
    found, config = read(text)
    assert config["training.sequence_length"] == 16384
    assert config["training.micro_batch_size"] == 1
    assert any("packed up to" in note for note in found.notes)


def test_gradients_take_the_place_of_logits():
    """FlashAttention's cross-entropy keeps the logits; verl's writes their gradients over them, OpenRLHF's does not.

    verl divides a view of the logits in place: the gradient is copied for the view, twice for the part, and divided.
    """

    def peak(framework):
        config = {
            "model": "qwen2.5-0.5b",
            "training": {"method": {"name": "grpo", "completion_length": 2048}, "sequence_length": 2048,
                         "micro_batch_size": 4, "activation_checkpointing": "full"},
            "engine": {"type": "fsdp", "framework": framework},
            "hardware": {"num_gpus": 8},
        }  # fmt: skip
        return estimate(config).allocated.expected

    logits = 4 * 2048 * 151936 * 2
    assert abs(peak("openrlhf") - peak("verl")) < 0.01 * logits  # fp32 and gradients next to them; four in 16 bits
    assert peak("trl") < peak("verl")  # its fused head has no logits at all


def test_a_folder_of_a_known_model_is_that_model():
    found = imported("base_model: /data/models/Llama-3.2-1B/\nmicro_batch_size: 1\nsequence_len: 64\n")
    assert found.config["model"] == "meta-llama/Llama-3.2-1B"
    assert any("folder's name" in note for note in found.notes)
    with pytest.raises(MemcoreError, match="catalog"):
        estimate(imported("base_model: ./mine\nmicro_batch_size: 1\nsequence_len: 64\n").config)


VERL_WITH_CLASSES = """
actor_rollout_ref:
  model: {path: Qwen/Qwen2.5-0.5B-Instruct}
  actor: {ppo_micro_batch_size_per_gpu: 2, strategy: fsdp, ppo_mini_batch_size: 8}
algorithm: {adv_estimator: grpo}
data: {max_prompt_length: 512, max_response_length: 512}
reward: {_target_: verl.workers.config.reward.RewardConfig, num_workers: 8}
trainer: {n_gpus_per_node: 8, nnodes: 1}
"""


def test_a_composed_config_of_verl_has_classes_of_its_own():
    """verl's `RewardConfig` is not TRL's (verl 0.9.1, trainer/config/_generated_ppo_trainer.yaml)."""
    found = imported(VERL_WITH_CLASSES)
    assert (found.tool.name, found.config["training"]["micro_batch_size"]) == ("verl", 2)


def test_what_a_loop_does_without_a_word_is_its_own():
    """verl's optimizer is what torch.optim takes, EasyR1's is fused, and Megatron Bridge's preset of FP8 gathers in FP8.

    prime-rl's optimizer states are on the host but for the step.
    """
    sharded = {"model": "gpt2", "training": {"sequence_length": 64}, "hardware": {"num_gpus": 2}}
    for framework, kernel in (("verl", "foreach"), ("transformers", "fused")):
        found = estimate(Config.from_dict({**sharded, "engine": {"type": "fsdp", "framework": framework}}))
        assert {each.path: each.value for each in found.assumptions}["training.optimizer.implementation"] == kernel
    text = "python3 -m verl.trainer.main config=examples/config.yaml worker.actor.model.model_path=Qwen/Qwen3-0.6B"
    assert imported(text).config["training"]["optimizer"]["implementation"] == "fused"
    toml = "[model]\nname = 'gpt2'\n[model.ac_offloading]\n[data]\nseq_len = 64\nbatch_size = 8\n[optim]\nlr = 1e-5\n"
    read = imported(toml)
    assert (read.tool.name, read.config["training"]["gradient_accumulation_steps"]) == ("prime-rl", 8)
    on_host, kept = (
        estimate(Config.from_dict({**read.config, "training": {**read.config["training"], "offload": offload}})).ranks[
            0
        ]
        for offload in ({"optimizer": "cpu"}, {})
    )
    states = kept.persistent.states
    assert kept.persistent.before_step - on_host.persistent.before_step == states
    assert (
        kept.persistent.before_step + kept.persistent.stepping
        == on_host.persistent.before_step + on_host.persistent.stepping
    )
    assert sum(each.bytes for each in on_host.host if each.rule == "host_state") == pytest.approx(states, rel=0.01)
    bridge = {"type": "megatron", "framework": "megatron-bridge"}
    job = {**sharded, "training": {"sequence_length": 64, "precision": "fp8-mixed"}}
    sizes = {
        estimate(Config.from_dict({**job, "engine": {**bridge, **recipe}})).allocated.expected
        for recipe in ({}, {"fp8_recipe": "delayed"})
    }
    assert len(sizes) == 1


def test_parameters_that_are_offloaded_and_kept_are_refused():
    """A job says one of them."""
    job = {"model": "gpt2", "training": {"sequence_length": 64, "offload": {"parameters": "cpu"}},
           "engine": {"type": "fsdp", "cpu_offload": False}, "hardware": {"num_gpus": 2}}  # fmt: skip
    with pytest.raises(MemcoreError, match="engine.cpu_offload: contradicts training.offload.parameters 'cpu'"):
        estimate(Config.from_dict(job))
