"""What the loops around the Trainer do where their files say nothing, and what several of their keys mean together."""

from __future__ import annotations

import re

import pytest

from memcore.config.settings import SETTINGS, Config
from memcore.errors import ConfigError, MemcoreError, UnsupportedError
from memcore.estimation import estimate, estimate_training
from memcore.formats.readers import flat, read_command, read_file
from memcore.networks.catalog import find_model
from memcore.tools import imported
from memcore.tools.exporting import exported
from memcore.tools.targets import targets

P, POLICY, REENTRANT = "training.precision", "training.activation_checkpointing.policy", (
    "training.activation_checkpointing.use_reentrant"
)  # fmt: skip
AXOLOTL = "base_model: a/b\nmicro_batch_size: 1\n"
LIGER = "plugins:\n  - axolotl.integrations.liger.LigerPlugin\nliger_rope: true\nliger_rms_norm: true\nliger_glu_activation: true\n"
SWIFT = "swift sft --model a/b --torch_dtype bfloat16 "
TUNE = (
    "# tune run --nproc_per_node 2 lora_finetune_distributed --config x\n"
    "model:\n  _component_: torchtune.models.llama3_1.lora_llama3_1_8b\n  lora_attn_modules: ['q_proj', 'output_proj']\n"
    "  apply_lora_to_mlp: True\n  lora_rank: 8\noptimizer:\n  _component_: torch.optim.AdamW\n  fused: True\n"
    "loss:\n  _component_: torchtune.modules.loss.LinearCrossEntropyLoss\ntokenizer:\n  max_seq_len: 512\nbatch_size: 2\n"
    "dtype: bf16\nenable_activation_checkpointing: True\ncheckpointer:\n  checkpoint_files: [\n    a.safetensors,\n    b.safetensors,\n  ]\n"
)
MEGATRON = (
    "NPROC_PER_NODE=4 megatron sft --model Qwen/Qwen2.5-7B --tensor_model_parallel_size 2 --micro_batch_size 2 "
    "--global_batch_size 16 --save_safetensors true "
)
READ = {
    # axolotl
    AXOLOTL: {P: "bf16"},
    AXOLOTL + "bf16: auto\n": {P: "bf16"},
    AXOLOTL + "fp16: true\n": {P: "fp16"},
    AXOLOTL + "bf16: false\n": {P: "fp32"},
    # fsdp2.py of axolotl's own shards the dtype that was loaded; accelerate upcasts for FSDP 1
    AXOLOTL + "bf16: true\nfsdp_version: 2\nfsdp_config:\n  offload_params: false\n": {P: "bf16", "engine.type": "fsdp"},
    AXOLOTL + "bf16: true\nfsdp_version: 1\nfsdp_config:\n  offload_params: false\n": {P: "bf16-mixed"},
    AXOLOTL + "quantize_moe_experts: true\n": {"engine.quantize_moe_experts": True},
    AXOLOTL + "adapter: qlora\nload_in_4bit: true\n": {"training.quantization": "nf4-double"},
    AXOLOTL + "gradient_checkpointing: true\n": {POLICY: "full", REENTRANT: True},
    AXOLOTL + "gradient_checkpointing: offload\n": {POLICY: "full", "training.offload.activations": "cpu"},
    AXOLOTL + "gradient_checkpointing: unsloth\n": {POLICY: "full", "training.offload.activations": "cpu"},
    AXOLOTL + LIGER: {"training.implementation": "liger", "training.loss": "cross-entropy-fp32"},
    AXOLOTL + LIGER + "liger_fused_linear_cross_entropy: true\n": {"training.loss": "fused-linear"},
    AXOLOTL + LIGER.replace("liger_glu_activation: true\n", ""): {"training.liger_kernels": ["rms_norm", "rope"]},
    AXOLOTL + "plugins:\n  - axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin\n": {
        "training.loss": "cut-cross-entropy", "training.implementation": None},
    AXOLOTL + "adapter: lora\nlora_target_modules: 'model.layers.[\\d]+.(mlp|self_attn).(up|q)_proj'\n": {
        "training.adapter.target_modules": ["up_proj", "q_proj"]},
    # LLaMA-Factory
    "model_name_or_path: a/b\nstage: sft\nbf16: true\n": {P: "bf16", "training.adapter.type": "lora", REENTRANT: True},
    "model_name_or_path: a/b\nstage: sft\nfinetuning_type: full\nbf16: true\n": {P: "bf16-mixed"},
    "model_name_or_path: a/b\nstage: sft\nfinetuning_type: full\npure_bf16: true\n": {P: "bf16"},
    "model_name_or_path: a/b\nstage: sft\nlora_target: q_proj,v_proj\n": {
        "training.adapter.target_modules": ["q_proj", "v_proj"]},
    "model_name_or_path: a/b\nstage: sft\nfinetuning_type: oft\noft_block_size: 32\n": {
        "training.adapter.type": "oft", "training.adapter.block_size": 32},
    # its second generation
    "model: a/b\nmodel_class: llm\ndist_config:\n  name: fsdp2\ncutoff_len: 64\n": {
        P: "bf16", "engine.type": "fsdp", POLICY: "full", "training.adapter.type": None, "training.micro_batch_size": 1},
    "model: a/b\nmodel_class: llm\npeft_config:\n  name: lora\n  r: 16\n": {"training.adapter.rank": 16},
    # transformers' Trainer: what its choice of Liger's kernels leaves out is on
    "model_name_or_path: a/b\nper_device_train_batch_size: 1\nbf16: true\nuse_liger_kernel: true\n"
    "liger_kernel_config:\n  swiglu: false\n": {
        "training.implementation": "liger", "training.liger_kernels": ["rms_norm", "rope"],
        "training.loss": "fused-linear"},
    "model_name_or_path: a/b\nper_device_train_batch_size: 1\nbf16: true\nuse_liger_kernel: true\n"
    "liger_kernel_config:\n  fused_linear_cross_entropy: false\n": {
        "training.implementation": "liger", "training.liger_kernels": None, "training.loss": "cross-entropy-fp32"},
    # ms-swift
    SWIFT: {P: "bf16", "training.adapter.rank": 8, "training.adapter.target_modules": "all-linear", POLICY: "full",
            "training.gradient_accumulation_steps": 16, REENTRANT: True},
    SWIFT + "--tuner_type full": {"training.adapter.type": None, "training.adapter.rank": None},
    SWIFT + "--tuner_type adalora --adalora_init_r 16 --lora_rank 4": {
        "training.adapter.type": "adalora", "training.adapter.init_r": 16, "training.adapter.rank": None},
    SWIFT + "--train_type boft": {"training.adapter.type": "boft", "training.adapter.block_size": 4},
    SWIFT + "--train_type bone --reft_rank 8": {"training.adapter.type": "miss", "training.adapter.rank": 8},
    "NPROC_PER_NODE=4 " + SWIFT + "--deepspeed zero2_offload": {
        "hardware.num_gpus": 4, "engine.zero_stage": 2, "engine.offload_optimizer": "cpu", P: "bf16-mixed",
        "training.gradient_accumulation_steps": 4},
    "n=2\n" + SWIFT + "--gradient_accumulation_steps $(expr 16 / $n)": {"training.gradient_accumulation_steps": 8},
    # Megatron-SWIFT
    MEGATRON: {
        "engine.type": "megatron", "engine.framework": "ms-swift", P: "bf16-mixed", "training.attention": "flash",
        POLICY: "selective", "hardware.num_gpus": 4, "parallelism.tensor_parallel_size": 2,
        "training.gradient_accumulation_steps": 4, "training.packed_sequences": None},
    MEGATRON + "--tuner_type lora --packing true --max_length 512": {
        "training.adapter.type": "lora", "training.adapter.rank": 8, "training.adapter.target_modules": "all-linear",
        "training.packed_sequences": True, "training.sequence_length": 512},
    MEGATRON + "--apply_rope_fusion true --gradient_accumulation_fusion false --optimizer_cpu_offload true": {
        "engine.no_rope_fusion": False, "engine.gradient_accumulation_fusion": False,
        "training.offload.optimizer": "cpu"},
    MEGATRON + "--recompute_granularity full --recompute_method uniform --recompute_num_layers 1": {
        "training.activation_checkpointing.policy": "full", "training.activation_checkpointing.method": "uniform"},
    "NPROC_PER_NODE=8 megatron sft --model moonshotai/Moonlight-16B-A3B-Instruct --pipeline_model_parallel_size 2 "
    "--decoder_last_pipeline_num_layers 13": {"parallelism.pipeline_layout": [14, 13]},
    # TRL, and scripts of one's own
    "model_name_or_path: a/b\ndataset_name: c/d\n": {
        P: "bf16-autocast", POLICY: "full", "training.sequence_length": 1024},
    "torchrun --nproc_per_node 1 run_clm.py --model_name_or_path a/b --dataset_name c/d --do_train --block_size 8": {
        POLICY: None, "training.sequence_length": 8},
    "model_name_or_path: a/b\nbf16: true\nper_device_train_batch_size: 1\n": {P: "bf16-mixed", POLICY: None},
    "accelerate launch --config_file x/fsdp_config.yaml t.py --model_name_or_path a/b --use_peft_lora True --lora_r 4": {
        "engine.type": "fsdp", "training.adapter.type": "lora", "training.adapter.rank": 4},
    # torchtune
    TUNE: {"engine.type": "fsdp", "hardware.num_gpus": 2, "training.adapter.target_modules": [
        "q_proj", "o_proj", "gate_proj", "down_proj", "up_proj"], "training.loss": "chunked:8", P: "bf16",
        "training.gradient_clipping": False, "engine.framework": "torchtune"},
    # accelerate and DeepSpeed
    "compute_environment: X\ndistributed_type: DEEPSPEED\nnum_processes: 8\n": {"engine.zero_stage": 2},
    "compute_environment: X\ndistributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: a/zero3.json\n": {
        "engine.zero_stage": 3},
    '{"zero_optimization": {"stage": 3, "reduce_bucket_size": "auto", "max_live_parameters": 0}}': {
        "engine.hidden_size_buckets": True, "engine.stage3_prefetch_bucket_size": 50_000_000,
        "engine.stage3_max_live_parameters": 0},
    '{"zero_optimization": {"stage": 2}, "optimizer": {"type": "AdamW", "params": {"torch_adam": true}}}': {
        "training.optimizer.name": "adamw", "training.optimizer.implementation": "foreach"},
    '{"zero_optimization": {"stage": 2}, "optimizer": {"type": "SGD", "params": {"momentum": 0.9}}}': {
        "training.optimizer.momentum": 0.9},
}  # fmt: skip

NOTED = {
    "model_name_or_path: a/b\nbf16: true\nper_device_train_batch_size: 1\n": "counted in fp32, as transformers 4",
    "model_name_or_path: a/b\nper_device_train_batch_size: 1\n": "the checkpoint's, as transformers 5 loads them",
}  # fmt: skip


@pytest.mark.parametrize("text", NOTED)
def test_what_is_noted(text):
    assert any(NOTED[text] in note for note in imported(text).notes)


def test_a_version_alone_is_that_of_transformers():
    """And without one, the answer asks for it. What it leaves of a quantized model has 16 bits."""
    job = {"model": "gpt2", "engine": {"framework_version": "4.57"}}
    assert estimate(job).job.recipe.precision.parameter == "fp32"
    few = {"quantization": "nf4", "adapter": {"type": "lora"}}
    assert estimate({**job, "training": few}).job.recipe.precision.parameter == "bf16"
    asked = estimate({**job, "engine": {"framework": "transformers"}})
    assert any("transformers 4 loads them in fp32" in warning for warning in asked.job.model.warnings)


@pytest.mark.parametrize("text", READ)
def test_what_is_read(text):
    found = flat(imported(text).config)
    assert READ[text].keys() <= set(SETTINGS)
    short = {POLICY: found.get("training.activation_checkpointing")}  # a policy alone is its section's short form
    assert {path: found.get(path, short.get(path)) for path in READ[text]} == READ[text]


TARGETS = {
    ".*\\.layers\\.\\d+\\.self_attn\\.(q|k)_proj|.*\\.mlp\\.(up|gate)_proj": [
        "q_proj",
        "k_proj",
        "up_proj",
        "gate_proj",
    ],
    "q_proj,self_attn.v_proj": ["q_proj", "v_proj"],
    "all": "all-linear",
}


@pytest.mark.parametrize("text", TARGETS)
def test_targets(text):
    assert targets(text) == TARGETS[text]


STARTED = {
    "services:\n  a:\n    image: vllm/vllm-openai:v1\n    environment:\n      - M=a/b\n    command: --model $M --max-num-seqs 4\n": (
        "vllm",
        {"inference.max_num_seqs": 4},
    ),
    "type: service\nenv:\n  - M=a/b\ncommands:\n  - pip install -q vllm\n  - |\n    vllm serve $M \\\n      --max-model-len 8\n": (
        "vllm",
        {"inference.max_model_len": 8},
    ),
    'services:\n  a:\n    image: own/image\n    entrypoint:\n      - bash\n      - -c\n      - |\n        x.sh\n        exec vllm serve "$@"\n'
    '    command:\n      - --model\n      - a/b\n      - --max-num-seqs\n      - "${N:-3}"\n': (
        "vllm",
        {"inference.max_num_seqs": 3},
    ),
    "docker run --gpus all -p 1:1 vllm/vllm-openai --model a/b --dtype half --kv-cache-dtype fp8_e4m3": (
        "vllm",
        {"inference.weight_dtype": "fp16", "inference.kv_cache_dtype": "fp8"},
    ),
    "pip install -q x\npython -m vllm.entrypoints.openai.api_server --model a/b --max_num_seqs 2\nbench --model c/d --seed 1": (
        "vllm",
        {"inference.max_num_seqs": 2},
    ),
    "llama-server -m x/y-Q8_0.gguf -ngl all -c 0 -np 2": (
        "llama.cpp",
        {"inference.quantization": "q8_0", "engine.n_gpu_layers": None, "inference.max_model_len": None},
    ),
}


@pytest.mark.parametrize("text", STARTED)
def test_commands_of_servers(text):
    name, expected = STARTED[text]
    found = imported(text)
    config = flat(found.config)
    assert (found.tool.name, {path: config.get(path) for path in expected}) == (name, expected)
    assert config.get("model") in ("a/b", None)


def test_arguments_that_another_script_uses():
    """A variable of arguments that no command of the file expands is arguments all the same."""
    assert read_command('X="\n --num-layers 2 \\\n --hidden-size 8"')["--hidden-size"] == 8


def test_python_is_told_apart():
    with pytest.raises(ConfigError, match="is a Python script, which is not run"):
        read_file("import torch\n\ndef main():\n    pass\n")


@pytest.mark.parametrize(
    ("version", "step", "reentrant"),
    [("4.46.3", "foreach", True), ("4.57.3", "fused", True), ("5.23.0", "fused", False)],
)
def test_transformers_by_version(version, step, reentrant):
    """As in harvest/tables/transformers.json, and in modeling_utils.py of these releases."""
    found = estimate_training({
        "model": "gpt2", "engine": {"framework": "transformers", "framework_version": version},
        "training": {"sequence_length": 64, "activation_checkpointing": "full"},
    })  # fmt: skip
    taken = {each.path: each.value for each in found.assumptions}
    assert (taken["training.optimizer.implementation"], taken[REENTRANT]) == (step, reentrant)


@pytest.mark.parametrize(
    ("framework", "version", "step"),
    [
        ("llama-factory", "0.9.1", "foreach"),
        ("LLaMA-Factory", "0.9.3.dev0", "foreach"),
        ("llama-factory", "0.9.4", "fused"),
        ("axolotl", "0.10.1", "foreach"),
        ("axolotl", "v0.12.0", "fused"),
        ("ms-swift", "3.6.1", "foreach"),
        ("trl", "0.19.0", "foreach"),
        ("trl", "1.16", "fused"),
        ("trl", "0.7.4", "foreach"),
        ("axolotl", "0.3.0", "foreach"),
        ("axolotl", "3f0a9b1", "fused"),
        ("llama-factory", None, "fused"),
    ],
)
def test_transformers_by_the_release_of_a_tool(framework, version, step):
    """What each release admits of transformers: the Trainer fuses AdamW's step since 4.54."""
    found = estimate_training({
        "model": "gpt2", "engine": {"framework": framework, "framework_version": version},
        "training": {"sequence_length": 64, "precision": "bf16"},
    })  # fmt: skip
    assert {each.path: each.value for each in found.assumptions}["training.optimizer.implementation"] == step


@pytest.mark.parametrize(
    ("framework", "version", "joined"),
    [("torchtitan", "6a74d747c6d9", False), ("torchtitan", "0.2.2", False), ("torchtitan", "b5bcd76c66d0", True),
     ("torchtitan", None, True), (None, None, False)],
)  # fmt: skip
def test_torchtitan_joins_queries_keys_and_values(framework, version, joined):
    """Since 3396a4b (June 24, 2026): a checkpoint that keeps every second product keeps keys too, with one matrix."""
    length, engine = 2048, {"type": "fsdp"} | ({"framework": framework} if framework else {})
    found, taken = (
        estimate_training({
            "model": "llama-3-8b", "engine": engine | ({"framework_version": given} if given else {}),
            "training": {
                "sequence_length": length, "precision": "bf16-mixed", "implementation": "torchtitan",
                "activation_checkpointing": {"policy": "selective", "mode": "op"},
            },
            "hardware": {"num_gpus": 8},
        }) for given in ("6a74d747c6d9" if framework else None, version)
    )  # fmt: skip
    keys = 32 * length * 8 * 128 * 2
    assert taken.allocated.expected - found.allocated.expected == pytest.approx(keys * joined, rel=0.02, abs=1)


@pytest.mark.parametrize(
    ("version", "recipe", "checkpointing", "kept"),
    [("d4c86e375", "tensorwise", "none", 1), ("d4c86e375", "rowwise", "none", 1), ("d4c86e375", "mxfp8", "none", 0),
     ("d4c86e375", "tensorwise", "full", 0), ("b109f7d71", "tensorwise", "none", 0), (None, "tensorwise", "none", 0)],
)  # fmt: skip
def test_weights_in_float8_stay_for_the_backward_pass(version, recipe, checkpointing, kept):
    """pytorch/pytorch#141881: until June 2025 the compiler saved what is smaller than a parameter, one byte of two."""
    found, without = (
        estimate_training({
            "model": "llama-3-8b",
            "engine": {"type": "fsdp", "framework": "torchtitan", **({"framework_version": version} if version else {}),
                       **({"fp8_recipe": recipe} if precision == "fp8-mixed" else {})},
            "training": {"sequence_length": 4096, "precision": precision, "implementation": "torchtitan",
                         "compile": True, "activation_checkpointing": checkpointing, "loss": "chunked:8"},
            "hardware": {"num_gpus": 8},
        }) for precision in ("fp8-mixed", "bf16-mixed")
    )  # fmt: skip
    weights, tokens = 32 * (2 * 4096 * (4096 + 1024) + 3 * 4096 * 14336), 32 * 4096
    spared = 0 if checkpointing == "full" or recipe == "mxfp8" else tokens * 2 * (2 * 4096 + 14336)
    difference = found.allocated.expected - without.allocated.expected
    assert difference == pytest.approx(kept * weights - spared, rel=0.05, abs=2**28)


TITAN = {"type": "fsdp", "framework": "torchtitan"}


@pytest.mark.parametrize(
    ("version", "more", "widths"),
    [("575674a4e", {}, 3), ("575674a4e", {"compile": True}, 0), ("bb308da6b", {}, 0),
     ("575674a4e", {"attention": "sdpa"}, 0), ("575674a4e", {"activation_checkpointing": "full"}, 0)],
)  # fmt: skip
def test_inputs_of_flex_attention_are_kept(version, more, widths):
    """From December 8, 2025 selective checkpoints keep what compiled code returns: queries, keys and values."""
    training = {"sequence_length": 4096, "implementation": "torchtitan", "attention": "flex", "loss": "chunked:8",
                "activation_checkpointing": {"policy": "selective", "mode": "op"}, **more}  # fmt: skip
    job = {"model": "llama-3-8b", "training": training, "hardware": {"num_gpus": 8}}
    found, before = (
        estimate_training({**job, "engine": {**TITAN, "framework_version": each}}).rank.end_of_forward
        for each in (version, "bb308da6b")
    )
    assert found - before == widths * 32 * 4096 * 4096 * 2


@pytest.mark.parametrize(
    ("version", "attention", "tokens"),
    [("6bccdb652", "sdpa", 4096), ("92ed8b318", "sdpa", 2048), ("6bccdb652", "flex", 4096), (None, "flex", 2048)],
)
def test_context_parallelism_of_torchtitan(version, attention, tokens):
    """For five days of October 2025 each rank computed the whole sequence. FlexAttention has keys of all ranks."""
    engine = {**TITAN, **({"framework_version": version} if version else {})}
    training = {"sequence_length": 4096, "implementation": "torchtitan", "attention": attention}
    found = estimate_training({"model": "llama-3-8b", "training": training, "engine": engine,
                               "hardware": {"num_gpus": 8}, "parallelism": {"context_parallel_size": 2}})  # fmt: skip
    assert found.job.sizes["s"] == tokens
    gathered = [
        block for block in found.rank.program.blocks if block.shape[:1] == ("cp",) and block.rule == "all_gather_output"
    ]
    assert bool(gathered) == (tokens == 2048)


@pytest.mark.parametrize(("model", "rings"), [("llama-3-8b", True), ("gemma-3-4b", False)])
def test_context_parallelism_over_layers_of_transformers(model, rings):
    """accelerate runs SDPA as a ring, unless a layer has a window (`context_parallel`)."""
    job = {"model": model, "training": {"sequence_length": 4096}, "engine": {"type": "fsdp", "framework": "trl"},
           "hardware": {"num_gpus": 8}, "parallelism": {"context_parallel_size": 4}}  # fmt: skip
    if not rings:
        with pytest.raises(MemcoreError, match="every token sees all before it"):
            estimate_training(job)
        return
    found = estimate_training(job)
    assert found.job.sizes["s"] == 1024
    assert {each.rule for each in found.rank.program.blocks} >= {"ring_gradient", "ring_merge"}


@pytest.mark.parametrize(
    ("version", "tokens", "words"),
    [("d8f290ef0", 4096, 2048), ("83c21ddac", 4096, 8192), ("0.5.0", 4096, 8192), (None, 1024, 8192)],
)
def test_the_head_of_prime_rl(version, tokens, words):
    """Chunks of the vocabulary, more of it since February 26, 2026, and of tokens since March 9; fewer since June."""
    engine = {"type": "fsdp", "framework": "prime-rl", **({"framework_version": version} if version else {})}
    training = {"sequence_length": 4096, "loss": "fused-head", "implementation": "transformers"}
    found = estimate_training(
        {"model": "Qwen/Qwen3-0.6B", "training": training, "engine": engine, "hardware": {"num_gpus": 1}}
    )
    assert (found.job.sizes["lr"], found.job.sizes["lw"]) == (tokens, words)
    assert any(block.rule == "fused_head_chunk" for block in found.rank.program.blocks)


def test_buckets_by_width():
    """transformers, integrations/deepspeed.py: h², 0.9 h², 10 h."""
    found = estimate_training({
        "model": "gpt2", "engine": {"type": "deepspeed", "zero_stage": 3, "hidden_size_buckets": True},
        "hardware": {"num_gpus": 2}, "training": {"sequence_length": 64},
    })  # fmt: skip
    taken = {each.path: each.value for each in found.assumptions}
    names = ("reduce_bucket_size", "stage3_prefetch_bucket_size", "stage3_param_persistence_threshold")
    assert [taken[f"engine.{name}"] for name in names] == [768 * 768, int(0.9 * 768 * 768), 7680]


def test_a_cache_stays_on_where_the_loop_wraps_layers():
    """llama-recipes' wrapper is unknown to transformers, whose cache then was a tuple of keys and values: no copies."""
    training = {"sequence_length": 2048, "micro_batch_size": 4, "precision": "bf16", "activation_checkpointing": "full"}
    shape = {"model": "llama-2-7b", "parallelism": {"data_parallel_size": 4}}
    engine = {"type": "fsdp", "version": 1, "framework": "llama-recipes"}

    def forward(**more):
        job = shape | {"training": training | {"outputs_kept": True} | more, "engine": engine}
        return estimate_training(job).rank.end_of_forward

    assert forward(use_cache=True) - forward() == 2 * 32 * 4 * 2048 * 4096 * 2


V1 = "model: a/b\nmodel_class: llm\ntrain_dataset: data/x.yaml\nmicro_batch_size: 1\n"
TUNED = TUNE.replace("lora_finetune_distributed", "{}")
KINDS = {
    V1 + "pref_loss: orpo\n": "pref_loss: found 'orpo'; only `llamafactory-cli dpo` reads it",
    TUNED.format("qat_distributed") + "quantizer:\n  _component_: a.Int4WeightOnlyQATQuantizer\n  groupsize: 256\n":
        r"quantizer\._component_: found .*; fake quantization is supported for Int8DynAct",
    TUNED.format("knowledge_distillation_distributed") + "teacher_model:\n  _component_: torchtune.models.llama3_1.llama\n":
        r"teacher_model\._component_: found 'llama'; known builders",
    TUNED.format("knowledge_distillation_distributed")
    + "teacher_model: {_component_: a.llama3_1_8b}\nkd_loss: {_component_: a.ForwardKLLoss}\n":
        r"kd_loss\._component_: found 'ForwardKLLoss'; supported",
}  # fmt: skip


@pytest.mark.parametrize("text", KINDS)
def test_refused_by_the_part(text):
    with pytest.raises(UnsupportedError, match=KINDS[text]):
        imported(text)


def test_parts_that_no_recipe_reads():
    """torchtune, recipes/lora_finetune_distributed.py, which has neither a quantizer nor a teacher."""
    text = TUNE + "quantizer:\n  _component_: a.B\nteacher_model:\n  _component_: a.b\n"
    assert imported(text).config == imported(TUNE).config


EXPERTS = (
    "base_model: Qwen/Qwen3-30B-A3B\nexpert_parallel_size: 4\nmicro_batch_size: 1\nsequence_len: 512\nbf16: true\n"
)


@pytest.mark.parametrize(("more", "shards"), [("", 1), ("dp_shard_size: 2\nfsdp_config:\n  fsdp_version: 2\n", 2)])
def test_experts_of_axolotl_are_on_ranks_of_their_own(more, shards):
    """axolotl, integrations/expert_parallel: experts are divided, and each slice is sharded as all else is."""
    found = imported(EXPERTS + more)
    assert found.config["hardware"]["num_gpus"] == 4 * shards
    assert found.accounts.left_out == ()
    rank = estimate(Config.from_dict(found.config)).ranks[0]
    model = find_model("Qwen/Qwen3-30B-A3B")
    routed = sum(count * model.size(each.shape) for each, _, count in model.tensors if each.kind == "routed-expert")
    kept = 2 * (routed / 4 + model.parameters - routed) / shards
    assert rank.persistent.parameters == pytest.approx(kept, rel=0.002)
    with pytest.raises(UnsupportedError, match="expert_parallel_size: found 4; with adapter"):
        imported(EXPERTS + more + "adapter: lora\n")


@pytest.mark.parametrize("recipe", ["qat_distributed", "qat_lora_finetune_distributed"])
def test_a_quantizer_rounds_linear_layers(recipe):
    """torchtune, recipes/qat_distributed.py and qat_lora_finetune_distributed.py: both keep masks and copies."""
    text = TUNED.format(recipe) + "quantizer:\n  _component_: a.Int8DynActInt4WeightQATQuantizer\n  groupsize: 256\n"
    found = imported(text + "fake_quant_after_n_steps: 1000\n")
    assert found.config["training"]["fake_quantization"] == "int8-int4"
    plain = imported(TUNE)
    both = [estimate(Config.from_dict(each.config)).peak.peak for each in (found, plain)]
    assert both[0] > both[1]


def test_a_teacher_runs_next_to_the_student():
    """torchtune, recipes/knowledge_distillation_distributed.py: sharded as the student is."""
    text = (
        TUNED.format("knowledge_distillation_distributed").replace("lora_llama3_1_8b", "llama3_2_1b")
        + "teacher_model:\n  _component_: torchtune.models.llama3_1.llama3_1_8b\nkd_ratio: 0.5\n"
    ).replace("llama3_1.llama3_2_1b", "llama3_2.llama3_2_1b")
    text = re.sub(r"  lora_attn[^\n]*\n  apply_lora[^\n]*\n  lora_rank[^\n]*\n", "", text)
    found = imported(text)
    assert found.config["training"]["method"] == {"name": "distill", "teacher": "meta-llama/Llama-3.1-8B"}
    assert found.accounts.left_out == ()
    rank = estimate(Config.from_dict(found.config)).ranks[0]
    teacher = next(each for each in rank.initial.entries if each.rule == "teacher_parameter")
    assert teacher.bytes == pytest.approx(find_model("meta-llama/Llama-3.1-8B").parameters * 2 / 2, rel=0.001)
    other = found.config["training"]["method"] | {"teacher": "gpt2"}
    with pytest.raises(ConfigError, match="vocabulary of 50,257"):
        estimate(Config.from_dict({**found.config, "training": {**found.config["training"], "method": other}}))


def test_a_method_of_the_command_is_said():
    assert any(note.startswith("only the command names the method") for note in imported(V1).notes)


@pytest.mark.parametrize(
    ("model", "more", "trained"),
    [
        ("Qwen/Qwen2.5-VL-7B-Instruct", "", ["language-model"]),
        ("Qwen/Qwen2.5-VL-7B-Instruct", "freeze_multi_modal_projector: false\n", ["language-model", "projector"]),
        ("Qwen/Qwen2.5-VL-7B-Instruct", "freeze_vision_tower: false\nfreeze_multi_modal_projector: false\n", None),
        ("Qwen/Qwen3-8B", "freeze_vision_tower: true\n", None),
    ],
)
def test_towers_that_llama_factory_trains(model, more, trained):
    """A full fine-tune leaves towers and projectors as they are unless its file says otherwise; and back again."""
    text = f"stage: sft\nmodel_name_or_path: {model}\nfinetuning_type: full\ncutoff_len: 512\ntemplate: x\n{more}"
    found = imported(text, 1)
    assert found.config["training"].get("trainable") == trained
    assert "freeze_vision_tower" not in found.accounts.left_out
    written = exported(Config.from_dict(found.config), "llama-factory", {})
    assert written.left_out == ()
    assert imported(written.text, 1).config["training"].get("trainable") == trained


TOWERS = "Qwen/Qwen2.5-VL-7B-Instruct"
SWIFT_VL = f"model: {TOWERS}\ntuner_type: full\ntorch_dtype: bfloat16\n"
AXOLOTL_VL = f"base_model: {TOWERS}\nsequence_len: 2048\n"
QWEN_VL = f"torchrun train_qwen.py --model_name_or_path {TOWERS} --per_device_train_batch_size 1 --bf16 "
VERL_VL = (
    f"python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path={TOWERS} algorithm.adv_estimator=grpo "
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 "
)
AUTOMODEL_VL = (
    "recipe: FinetuneRecipeForVLM\nstep_scheduler: {local_batch_size: 1}\nmodel:\n"
    "  _target_: nemo_automodel.NeMoAutoModelForImageTextToText.from_pretrained\n"
    "  pretrained_model_name_or_path: {}\n"
)


@pytest.mark.parametrize(
    ("text", "trained"),
    [
        (SWIFT_VL, ["language-model"]),
        (SWIFT_VL + "freeze_aligner: false\n", ["language-model", "projector"]),
        (SWIFT_VL + "freeze_vit: false\nfreeze_aligner: false\n", None),
        (SWIFT_VL.replace(TOWERS, "Qwen/Qwen2.5-7B-Instruct"), None),
        (SWIFT_VL.replace("full", "lora"), None),
        (AXOLOTL_VL, None),
        (AXOLOTL_VL + "freeze_mm_modules: true\n", ["language-model"]),
        (AXOLOTL_VL + "adapter: lora\nlora_target_linear: true\n", ["language-model", "tower", "projector"]),
        (AXOLOTL_VL + "adapter: lora\nlora_target_modules: [q_proj, down_proj]\n", ["language-model", "tower"]),
        (AXOLOTL_VL + "adapter: lora\nlora_target_modules: 'language_model.*.(q|down)_proj'\n", None),
        (QWEN_VL, None),
        (QWEN_VL + "--tune_mm_llm True --tune_mm_mlp True --tune_mm_vision False", ["language-model", "projector"]),
        (QWEN_VL + "--freeze_vision_tower True --freeze_merger False", ["language-model", "projector"]),
        (QWEN_VL + "--freeze_backbone True --freeze_mlp True", ["language-model"]),
        (VERL_VL, None),
        (VERL_VL + "actor_rollout_ref.actor.freeze_vision_tower=True", ["language-model"]),
        (AUTOMODEL_VL.replace("{}", TOWERS), None),
        (AUTOMODEL_VL.replace("{}", TOWERS) + "freeze_config: {freeze_audio_tower: true}\n", ["language-model"]),
        (
            AUTOMODEL_VL.replace("{}", "google/gemma-3-4b-it") + "freeze_config: {freeze_vision_tower: true}\n",
            ["language-model", "projector"],
        ),
    ],
)
def test_other_tools_freeze_towers_by_their_own_keys(text, trained):
    assert imported(text).config["training"].get("trainable") == trained


@pytest.mark.parametrize("tool", ["llama-factory", "ms-swift", "axolotl"])
@pytest.mark.parametrize("given", [None, "language-model", ["language-model", "projector"]])
def test_what_learns_of_a_model_with_towers_comes_back(tool, given):
    job = {"model": TOWERS, "training": {"trainable": given} if given else {}}
    told = exported(Config.from_dict(job), tool)
    back = imported(told.text).config["training"].get("trainable")
    lost = "training.trainable" in told.left_out
    assert lost == (tool == "axolotl" and isinstance(given, list))
    assert lost or back == ([given] if isinstance(given, str) else given)


@pytest.mark.parametrize("tool", ["axolotl", "trainer"])
def test_adapters_of_the_language_model_alone_come_back(tool):
    adapted = {"adapter": {"type": "lora", "rank": 8, "target_modules": "all-linear"}}
    told = exported(Config.from_dict({"model": TOWERS, "training": adapted}), tool)
    back = imported(told.text).config["training"]
    assert (back.get("trainable"), back["adapter"]["target_modules"], *told.left_out) == (None, "all-linear")


@pytest.mark.parametrize(
    "text",
    [SWIFT_VL + "freeze_llm: true\n", QWEN_VL + "--tune_mm_llm False --tune_mm_mlp True",
     AUTOMODEL_VL.replace("{}", TOWERS) + "freeze_config: {freeze_language_model: true}\n"],
)  # fmt: skip
def test_towers_alone_are_not_trained(text):
    with pytest.raises(UnsupportedError, match="training only the towers"):
        imported(text)


@pytest.mark.parametrize(
    ("named", "called", "engine", "layers", "policy"),
    [
        ("torchtitan", "torchtitan", "fsdp", "torchtitan", "selective"),
        ("LitGPT", "lit-gpt", "fsdp", "lit-gpt", "none"),
        ("torchtune", "torchtune", "fsdp", "transformers", "none"),
        ("TRL", "trl", "fsdp", "transformers", "full"),
        ("Megatron_Bridge", "megatron-bridge", "megatron", "transformer-engine", "none"),
        ("openrlhf", "openrlhf", "deepspeed", "transformers", "none"),
    ],
)
def test_a_framework_named_alone_brings_its_own(named, called, engine, layers, policy):
    """Its engine, layers and checkpoints, as its files would."""
    job = {"model": "llama-3.1-8b", "hardware": {"num_gpus": 8}, "engine": {"framework": named}}
    found = estimate(job)
    assert (found.job.config["engine.framework"], found.job.engine.name) == (called, engine)
    assert found.job.recipe.implementation == layers
    assert (found.job.recipe.checkpoints is None) == (policy == "none")
    taken = {each.path: each.value for each in found.assumptions}
    assert taken.get("training.activation_checkpointing.policy", "none") == policy
    assert taken.get("engine.zero_stage", 2) == 2  # OpenRLHF's default


@pytest.mark.parametrize(
    ("name", "said"),
    [("nanotron", "is an engine: use --engine nanotron"), ("tranformers", r"known: transformers, .*'transformers'\?")],
)
def test_what_is_no_framework(name, said):
    """What to write instead is in the error."""
    with pytest.raises(ConfigError, match=said):
        estimate({"model": "gpt2", "engine": {"framework": name}})
