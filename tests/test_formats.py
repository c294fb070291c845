"""Other tools' files and command lines: what they say as a config, and a config as they say it."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memcore import Config
from memcore.config.settings import SETTINGS
from memcore.errors import ConfigError, MemcoreError, UnsupportedError
from memcore.faces.cli import main
from memcore.formats.readers import flat, read_command, read_file
from memcore.formats.shell import variables_given, words
from memcore.formats.yaml import read_yaml
from memcore.tools import TOOLS, exported, flag, imported
from memcore.tools.sources import read_source

MEGATRON = """
#!/bin/bash
GPUS=8
TP=${TP:-2}
MODEL_ARGS=(
    --num-layers 32   # of Llama
    --hidden-size 4096
    --swiglu
    --untie-embeddings-and-output-weights
    "--position-embedding-type rope"
)
torchrun --nproc_per_node=$GPUS pretrain_gpt.py ${MODEL_ARGS[@]} \\
    --tensor-model-parallel-size $TP --sequence-parallel --micro-batch-size 1 --seq-length 8192 --bf16 \\
    --use-distributed-optimizer --recompute-granularity selective --recompute-modules core_attn moe_act \\
    --lr 1e-4 --something-new 3
"""

NANOTRON = """
general:
  project: debug
data_stages:
- name: Stable
model:
  dtype: bfloat16
  model_config:
    hidden_size: 2048
    num_hidden_layers: 16
    num_attention_heads: 32
    rms_norm_eps: 1.0e-05
optimizer:
  accumulate_grad_in_fp32: true
  optimizer_factory:
    name: adamW
    torch_adam_is_fused: true
  zero_stage: 1
parallelism:
  dp: 8
  tp: 4
  pp: 2
  pp_engine: afab
  tp_mode: REDUCE_SCATTER
  recompute_layer: false
  something_new: 3
tokens:
  batch_accumulation_per_replica: 4
  micro_batch_size: 2
  sequence_length: 4096
"""

READ = {
    "nanotron": (
        NANOTRON,
        {
            "model": {"model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32},
            "training": {
                "parameter_dtype": "bf16",
                "micro_batch_size": 2,
                "sequence_length": 4096,
                "gradient_accumulation_steps": 4,
                "optimizer": {"name": "adamw", "implementation": "fused"},
                "activation_checkpointing": {"policy": "none"},
            },
            "parallelism": {
                "data_parallel_size": 8,
                "tensor_parallel_size": 4,
                "pipeline_parallel_size": 2,
                "pipeline_schedule": "gpipe",
            },
            "engine": {
                "type": "nanotron",
                "tp_mode": "REDUCE_SCATTER",
                "zero_stage": 1,
                "accumulate_grad_in_fp32": True,
                "tp_linear_async_communication": False,
            },
        },
        ("parallelism.something_new",),
    ),
    "vllm": (
        "vllm serve org/model -tp 2 --max-model-len=8192 --dtype bfloat16 --no-enable-prefix-caching --port 80",
        {
            "model": "org/model",
            "engine": {"type": "vllm", "enable_prefix_caching": False},
            "parallelism": {"tensor_parallel_size": 2},
            "inference": {"max_model_len": 8192, "weight_dtype": "bf16"},
        },
        (),
    ),
    "llama.cpp": (
        "llama-server -hf org/model -c 32768 -np 4 -ngl 99 -ctk q8_0 -fa on",
        {
            "model": "org/model",
            "engine": {"type": "llama.cpp", "n_gpu_layers": 99, "cache_type_k": "q8_0", "flash_attn": True},
            "inference": {"max_model_len": 8192, "batch_size": 4},
        },
        (),
    ),
    "megatron": (
        MEGATRON,
        {
            "model": {
                "model_type": "megatron",
                "vocab_size": "$VOCAB_SIZE",
                "num_layers": 32,
                "hidden_size": 4096,
                "swiglu": True,
                "untie_embeddings_and_output_weights": True,
                "position_embedding_type": "rope",
            },
            "engine": {"type": "megatron", "distributed_optimizer": True},
            "training": {
                "dropout": {"hidden": 0.1, "attention": 0.1},
                "precision": "bf16-mixed",
                "micro_batch_size": 1,
                "sequence_length": 8192,
                "activation_checkpointing": {"policy": "selective", "modules": ["core_attn", "moe_act"]},
            },
            "parallelism": {"tensor_parallel_size": 2, "sequence_parallel": True},
            "hardware": {"gpus_per_node": 8, "num_gpus": 8},
        },
        ("--something-new",),
    ),
    "deepspeed": (
        '{"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": "auto", "bf16": {"enabled": true},'
        ' "zero_optimization": {"stage": 3, "reduce_bucket_size": 5e8, "new_key": 1}}',
        {
            "engine": {"type": "deepspeed", "zero_stage": 3, "reduce_bucket_size": 500_000_000},
            "training": {"precision": "bf16-mixed", "micro_batch_size": 4},
        },
        ("zero_optimization.new_key",),
    ),
    "torchtitan": (
        "[training]\nlocal_batch_size = 1\nseq_len = 8192\n[parallelism]\ndata_parallel_shard_degree = -1\n"
        'tensor_parallel_degree = 8\n[activation_checkpoint]\nmode = "selective"\nselective_ac_option = "op"\n',
        {
            "engine": {"type": "fsdp"},
            "training": {
                "implementation": "torchtitan",
                "activation_checkpointing": {"mode": "op", "policy": "selective"},
                "micro_batch_size": 1,
                "sequence_length": 8192,
            },
            "parallelism": {"tensor_parallel_size": 8},
        },
        (),
    ),
    "axolotl": (
        "base_model: org/model\nadapter: qlora\nload_in_4bit: true\nload_in_8bit: false\nlora_r: 32\n"
        "lora_target_linear: true\nsequence_len: 4096\noptimizer: paged_adamw_8bit\nbf16: auto\n"
        "gradient_checkpointing: true\ndatasets:\n  - path: org/data  # any\n    type: alpaca\n",
        {
            "model": "org/model",
            "engine": {"expandable_segments": True, "framework": "axolotl"},
            "training": {
                "micro_batch_size": 1,
                "adapter": {"type": "lora", "target_modules": "all-linear", "rank": 32},
                "quantization": "nf4-double",
                "precision": "bf16",
                "activation_checkpointing": {"policy": "full", "use_reentrant": True},
                "optimizer": {"name": "paged-adamw-8bit", "implementation": "bitsandbytes"},
                "sequence_length": 4096,
            },
        },
        (),
    ),
    "accelerate": (
        "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8\n"
        "fsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: true\n  fsdp_activation_checkpointing: true\n",
        {
            "engine": {"type": "fsdp", "version": 2, "reshard_after_forward": True},
            "training": {"precision": "bf16-mixed", "activation_checkpointing": {"policy": "full"}},
            "hardware": {"num_gpus": 8},
        },
        (),
    ),
    "trainer": (
        "model_name_or_path: org/model\nbf16: true\nmax_length: 2048\nlearning_rate: 1.0e-5\noptim: adamw_torch\n",
        {
            "model": "org/model",
            "training": {
                "micro_batch_size": 8,
                "precision": "bf16-mixed",
                "activation_checkpointing": {"policy": "full"},
                "optimizer": {"name": "adamw", "implementation": "foreach"},
                "sequence_length": 2048,
            },
            "engine": {"framework": "trl"},
        },
        (),
    ),
}


def sections(config):
    """A config with its sections in one order."""
    return {key: dict(sorted(value.items())) if isinstance(value, dict) else value for key, value in config.items()}


@pytest.mark.parametrize("tool", READ)
def test_what_files_say(tool):
    """Keys become settings; what is not understood is named, and what memory does not depend on is not."""
    text, config, unknown = READ[tool]
    if tool == "torchtitan":
        pytest.importorskip("tomllib")
    found = imported(text)
    assert (found.tool.name, sections(found.config), found.unknown) == (tool, sections(config), unknown)


FILES = {
    "compute_environment: X\ndistributed_type: FSDP\nnum_processes: 8\nfsdp_config:\n  fsdp_sharding_strategy: FULL_SHARD\n": (
        {"engine.type": "fsdp", "engine.version": 1, "engine.reshard_after_forward": None, "hardware.num_gpus": 8}, ()),
    "compute_environment: X\ndistributed_type: FSDP\nnum_processes: 8\nfsdp_config:\n  fsdp_version: 2\n"
    "  fsdp_offload_params: true\n  fsdp_reshard_after_forward: SHARD_GRAD_OP\n  fsdp_auto_wrap_policy: NO_WRAP\n": (
        {"engine.version": 2, "engine.reshard_after_forward": False, "engine.cpu_offload": True},
        ("fsdp_auto_wrap_policy is NO_WRAP; each layer is assumed to be one unit, which needs less memory",)),
    "distributed_type: DEEPSPEED\nnum_processes: 4\ndeepspeed_config:\n  zero_stage: 3\n  offload_param_device: cpu\n": (
        {"engine.type": "deepspeed", "engine.zero_stage": 3, "engine.offload_param": "cpu"}, ()),
    "model_name_or_path: a/b\nmax_length: 8\nbf16: true\ndtype: bfloat16\npacking: true\nfsdp: full_shard auto_wrap offload\n": (
        {"engine.type": "fsdp", "engine.version": 1, "engine.cpu_offload": True, "training.precision": "bf16-mixed",
         "training.packed_sequences": True, "training.micro_batch_size": 8},
        ("the number of GPUs is not given; set it with --gpus",)),
    "model_name_or_path: a/b\ncutoff_len: 8\nquantization_bit: 4\n": (
        {"engine.type": None, "training.adapter.type": "lora", "training.adapter.target_modules": "all-linear",
         "training.quantization": "nf4-double", "training.activation_checkpointing.policy": "full"}, ()),
    "model_name_or_path: a/b\nfinetuning_type: full\ndeepspeed: ds_z3_offload_config.json\ndisable_gradient_checkpointing: true\n": (
        {"engine.type": "deepspeed", "engine.zero_stage": 3, "engine.offload_param": "cpu", "training.adapter.type": None,
         "training.activation_checkpointing.policy": "none"},
        ("deepspeed: ds_z3_offload_config.json is a separate file; its name suggests ZeRO stage 3",
         "the number of GPUs is not given; set it with --gpus")),
    '{"zero_optimization": {"stage": 2}, "bf16": {"enabled": "auto"}, "train_batch_size": 64, "train_micro_batch_size_per_gpu": 2}': (
        {"training.precision": "bf16-mixed", "training.micro_batch_size": 2},
        ("bf16.enabled is 'auto': the trainer decides, bf16 is assumed",
         "the number of GPUs is not given; set it with --gpus",
         "train_batch_size is ignored: converting it to micro-batches needs the number of GPUs")),
    "deepspeed --num_gpus 8 train.py --model_name_or_path a/b --bf16 True --deepspeed ds_zero3.json": (
        {"engine.type": "deepspeed", "engine.zero_stage": 3, "hardware.num_gpus": 8, "training.precision": "bf16-mixed"},
        ("deepspeed: ds_zero3.json is a separate file; its name suggests ZeRO stage 3",)),
    "torchrun --nproc_per_node 4 sft.py --model_name_or_path a/b --max_length 8": (
        {"engine.type": "ddp", "hardware.num_gpus": 4, "training.sequence_length": 8},
        ("several processes without FSDP or DeepSpeed: treated as DDP",)),
    "llama-server -hf a/b -c 8 -fa": ({"engine.flash_attn": True}, ()),
    '{"zero_optimization": {"stage": 3, "cpu_offload": true, "cpu_offload_param": false}, "sequence_parallel_size": 2}': (
        {"engine.offload_optimizer": "cpu", "engine.offload_param": None, "parallelism.ulysses_parallel_size": 2},
        ("the number of GPUs is not given; set it with --gpus",)),
    '{"zero_optimization": true, "data_types": {"grad_accum_dtype": "fp32"}, "train_micro_batch_size_per_gpu": 1}': (
        {"engine.zero_stage": 1, "training.gradient_dtype": "fp32"},
        ("the number of GPUs is not given; set it with --gpus",)),
    "torchrun --nproc-per-node 8 pretrain_gpt.py --model-parallel-size 2 --batch-size 4 --checkpoint-activations": (
        {"hardware.num_gpus": 8, "parallelism.tensor_parallel_size": 2, "training.micro_batch_size": 4,
         "training.activation_checkpointing.policy": "full", "training.activation_checkpointing.num_layers": 1}, ()),
    "torchrun pretrain_gpt.py --micro-batch-size 4 --global-batch-size 8 --activations-checkpoint-method block": (
        {"hardware.num_gpus": 1, "training.gradient_accumulation_steps": 2,
         "training.activation_checkpointing.policy": "full", "training.activation_checkpointing.method": "block"}, ()),
    "deepspeed --num_gpus 8 --module openrlhf.cli.train_kd --pretrain a/b --teacher_model a/c --micro_train_batch_size 2 --max_len 8": (
        {"training.method.name": "distill", "training.method.teacher": "a/c"},
        ("train_kd: the teacher is sharded like the model; the divergence is counted as torchtune computes it",)),
    "deepspeed --num_gpus 8 --module openrlhf.cli.train_prm --pretrain a/b --micro_train_batch_size 2 --max_len 8": (
        {"training.method.name": None},
        ("train_prm: the loss takes the logits of placeholders alone, and is counted as that of all tokens",)),
    "torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 8 --pipeline-model-parallel-size 16": (
        {"hardware.num_gpus": None, "hardware.gpus_per_node": 8},
        ("the number of GPUs is not given; set it with --gpus",
         "--nproc_per_node × --nnodes is 8, which is not divisible by the group sizes: ignored")),
    "pretrain_gpt.py --micro-batch-size 1 --data-parallel-sharding-strategy optim --tensor-model-parallel-size 1": (
        {"engine.data_parallel_sharding_strategy": None},
        ("--data-parallel-sharding-strategy has no effect without --use-megatron-fsdp: ignored",
         "the number of GPUs is not given; set it with --gpus")),
    "pretrain_gpt.py --optimizer dist_muon --external-cuda-graph --moe-enable-deepep --tensor-model-parallel-size 1": (
        {"training.optimizer.name": "muon", "engine.distributed_optimizer": True,
         "engine.cuda_graph_impl": "transformer_engine", "engine.moe_flex_dispatcher_backend": "deepep"},
        ("the number of GPUs is not given; set it with --gpus",)),
}  # fmt: skip


def test_vocabularies_that_are_not_padded():
    """As many words as Megatron-LM is told to make, with what else older scripts say of positions."""
    found = imported(
        "pretrain_gpt.py --num-layers 2 --hidden-size 64 --padded-vocab-size 50432 --use-rotary-position-embeddings "
        "--attention-head-type multiquery"
    )
    sizes = {"vocab_size": 50432, "make_vocab_size_divisible_by": 1, "position_embedding_type": "rope"}
    sizes |= {"num_query_groups": 1}
    assert {name: found.config["model"][name] for name in sizes} == sizes
    assert not found.unknown


@pytest.mark.parametrize("text", FILES)
def test_what_keys_mean_together(text):
    """Versions, strategies and words of FSDP, names of DeepSpeed's files, defaults of trainers."""
    expected, notes = FILES[text]
    found = imported(text)
    config = Config.from_dict({"model": "gpt2", **found.config})
    assert {path: config.get(path) for path in expected} == expected
    assert (found.notes, found.unknown) == (notes, ())


def test_flavors_of_torchtitan():
    """A model of its tables, copies of the shards, float8 products, and what is left to it."""
    pytest.importorskip("tomllib")
    found = imported(
        '[model]\nname = "llama3"\nflavor = "70B"\nconverters = ["float8"]\n[training]\nlocal_batch_size = 2\n'
        "global_batch_size = 64\n[parallelism]\ndata_parallel_replicate_degree = 2\ndata_parallel_shard_degree = 4\n"
        'fsdp_reshard_after_forward = "default"\n',
        gpus=8,
    )
    assert found.config["model"] == "meta-llama/Llama-3.1-70B"
    assert found.config["parallelism"] == {"data_parallel_shard_size": 4, "data_parallel_size": 8}
    assert found.config["training"]["precision"] == "fp8-mixed"
    assert found.config["training"]["gradient_accumulation_steps"] == 4
    assert not found.unknown


SCRIPT = """#!/bin/bash
NODES=${NODES:-2}   # don't forget
DTYPE="fp8"
ARGS=(
    --num-layers 8 --hidden-size 512 --num-attention-heads 8   # a comment's quote
    --num-query-groups 2
    --micro-batch-size 1
    --global-batch-size $((16 * $NODES))
    --pipeline-model-parallel-size 2
    --num-layers-per-virtual-pipeline-stage 2
    --bf16
)
while [[ $# -gt 0 ]]; do
    case $1 in
        -h|--help) echo "Usage: $0 --hidden-size 1"; exit 0 ;;
    esac
done
if [[ "$DTYPE" == "fp8" ]]; then
    ARGS+=("--fp8-format hybrid")
else
    ARGS+=(--fp16)
fi
torchrun --nproc_per_node 8 --nnodes $NODES ../pretrain_gpt.py ${ARGS[@]} --seq-length 128 \\
    --max-position-embeddings 128 --merge-file merges.txt 2>&1 | tee log.txt
"""
TESTED = """ENV_VARS:
  NCCL_ALGO: Ring
MODEL_ARGS:
  --num-layers: 8
  --hidden-size: 512
  --num-attention-heads: 8
  --group-query-attention: true
  --num-query-groups: 2
  --micro-batch-size: 1
  --global-batch-size: 16
  --seq-length: 128
  --max-position-embeddings: 128
  --vocab-size: 1000
  --recompute-granularity: selective
  --recompute-modules: [core_attn layernorm]
  --use-megatron-fsdp: true
  --async-save: false
"""


def test_a_script_of_megatron():
    """Variables, arrays, conditions, comments; what several arguments give together."""
    found = imported(SCRIPT)
    assert found.config["hardware"] == {"gpus_per_node": 8, "num_gpus": 16}
    assert found.config["parallelism"] == {"pipeline_parallel_size": 2, "virtual_pipeline_parallel_size": 2}
    assert found.config["training"]["gradient_accumulation_steps"] == 32 // 8
    assert found.config["training"]["precision"] == "fp8-mixed"
    assert "num_query_groups" not in found.config["model"]
    assert found.config["model"]["vocab_size"] == 50257
    assert found.notes == (
        "--num-query-groups has no effect without --group-query-attention: ignored",
        "--vocab-size is 50257: GPT-2's vocabulary",
    )
    assert not found.unknown


@pytest.mark.parametrize(
    ("ends", "layout"),
    [
        ("--decoder-first-pipeline-num-layers 2 --decoder-last-pipeline-num-layers 2", [2, 4, 4, 2]),
        ("--decoder-last-pipeline-num-layers 3", [3, 3, 3, 3]),
        ("", None),
    ],
)
def test_first_and_last_stages_of_megatron(ends, layout):
    """Twelve layers on four stages, of which the first and the last one may have their own number."""
    sizes = (
        "--num-layers 12 --hidden-size 512 --num-attention-heads 8 --vocab-size 50257 --pipeline-model-parallel-size 4"
    )
    found = imported(f"torchrun pretrain_gpt.py {sizes} --max-position-embeddings 1024 {ends}", 4)
    assert found.config["parallelism"].get("pipeline_layout") == layout
    assert not found.unknown


def test_a_functional_test_of_megatron():
    """Its arguments are keys; how many micro-batches there are takes the number of GPUs."""
    found = imported(TESTED)
    assert found.config["engine"] == {"type": "megatron-fsdp"}
    assert found.config["training"]["activation_checkpointing"]["modules"] == ["core_attn", "layernorm"]
    assert found.notes == (
        "the number of GPUs is not given; set it with --gpus",
        "--global-batch-size is ignored: converting it to micro-batches needs the number of GPUs",
    )
    known = imported(TESTED, gpus=4)
    assert known.config["training"]["gradient_accumulation_steps"] == 4
    assert not known.notes
    with pytest.raises(ConfigError, match="--global-batch-size: found 16, which 3 data-parallel ranks"):
        imported(TESTED, gpus=3)
    config = Config.from_dict({**known.config, "hardware": {"num_gpus": 4}})
    assert "--group-query-attention" in exported(config).text
    assert "--global-batch-size 16" in exported(config).text


def test_gradients_of_megatron_in_fp32():
    """fp16 sums gradients in fp16 unless told otherwise; of two contradicting words bf16 counts."""
    command = "torchrun pretrain_gpt.py --num-layers 2 --accumulate-allreduce-grads-in-fp32"
    assert imported(f"{command} --fp16").config["training"]["gradient_dtype"] == "fp32"
    assert "gradient_dtype" not in imported(f"{command} --bf16 --grad-reduce-in-bf16").config["training"]
    assert imported(f"{command} --spec local").config["training"]["implementation"] == "megatron-local"


@pytest.mark.parametrize("argument", ["--img-h 336", "--fp4-format e2m1", "--megatron-fsdp-grad-comm-dtype bf16"])
def test_what_makes_another_network_is_refused(argument):
    """Left out, the answer would be one for another job."""
    with pytest.raises(UnsupportedError, match=argument.split()[0]):
        imported(f"torchrun pretrain_gpt.py --num-layers 2 --hidden-size 64 {argument}")
    same = imported("torchrun pretrain_gpt.py --use-custom-fsdp --num-layers 2 --megatron-fsdp-main-grads-dtype fp32")
    assert same.config["engine"]["type"] == "megatron-fsdp"
    assert same.config["training"]["gradient_dtype"] == "fp32"
    assert not same.unknown
    in_half = "--bf16 --megatron-fsdp-main-grads-dtype bf16 --megatron-fsdp-grad-comm-dtype bf16"
    half = imported(f"torchrun pretrain_gpt.py --use-megatron-fsdp --num-layers 2 {in_half}")
    assert not half.unknown
    assert "gradient_dtype" not in half.config["training"]


def test_older_words_of_functional_tests():
    """A comment may come first, a shell takes quotes away, and names of older tests mean what they mean today."""
    sizes = "--hidden-size: 512\n  --num-attention-heads: 8\n  --max-position-embeddings: 512\n"
    hybrid = imported(
        "# Hybrid\n\nMODEL_ARGS:\n  # sizes\n  --hybrid-override-pattern: M-M*\n  --is-hybrid-model: true\n"
        "  --mtp-num-layers: 2\n"
        f'  --mtp-hybrid-override-pattern: "\\"*E\\""\n  --cuda-graph-scope: mamba attn\n  {sizes}'
    )
    assert hybrid.config["model"]["hybrid_layer_pattern"] == "M-M*/*E/*E"
    assert hybrid.config["model"]["architecture"] == "hybrid"
    assert hybrid.config["engine"]["cuda_graph_scope"] == ["mamba", "attn"]
    assert not hybrid.unknown
    layout = imported(
        "MODEL_ARGS:\n  --pipeline-model-parallel-layout: Et*3\\\\|\\\\(tt\\\\|\\\\)*6mL\n  --num-layers: 15\n"
    )
    assert layout.config["parallelism"]["pipeline_layout"] == "Et*3|(tt|)*6mL"
    of_t5 = imported(
        "MODEL_ARGS:\n  --encoder-num-layers: 12\n  --decoder-num-layers: 12\n  --encoder-seq-length: 512\n"
        f"  --decoder-seq-length: 128\n  --tokenizer-type: BertWordPieceCase\n  --vocab-extra-ids: 100\n  {sizes}"
    )
    assert of_t5.config["model"]["architecture"] == "t5"
    assert of_t5.config["model"]["vocab_size"] == 28996 + 100
    assert of_t5.config["training"]["sequence_length"] == 512
    assert not of_t5.unknown


def test_a_script_cannot_multiply_itself():
    """Variables that double each other end."""
    with pytest.raises(ConfigError, match="variables expand endlessly"):
        imported("X=aaaa\n" + 'X="$X$X"\n' * 60 + "vllm serve $X --max-model-len 1")


@pytest.mark.parametrize("tool", TOOLS)
def test_tables_name_settings(tool):
    """Every key of a table is of a setting, and no name is given twice."""
    keys = TOOLS[tool].keys
    paths = [key.path for key in keys] + [path for meaning in TOOLS[tool].meanings for path in meaning.sets]
    assert set(paths) <= set(SETTINGS)
    names = [name for key in keys for name in key.names]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm", "llama.cpp", "none", "fsdp"])
def test_there_and_back(engine):
    """What a tool can say of a config is read back as it was."""
    config = Config.from_dict(
        {
            "model": "org/model",
            "engine": {"type": engine},
            "parallelism": {} if engine in ("llama.cpp", "none") else {"tensor_parallel_size": 2},
            **(
                {"training": {"micro_batch_size": 2, "sequence_length": 512, "precision": "bf16-mixed"}}
                if engine in ("none", "fsdp")
                else {"inference": {"max_model_len": 4096}}
            ),
        }
    )
    found = exported(config)
    back = imported(found.text).config
    aside = {*found.left_out, "engine.type", "model"}
    said = [path for path in SETTINGS if config.get(path) is not None and path not in aside]
    assert said
    for path in said:
        section, _, name = path.partition(".")
        assert back[section][name] == config.get(path)


@pytest.mark.parametrize(
    ("components", "expected"),
    [(None, (True, None)), (["model"], (True, False)), (["loss"], (False, True)), (["model", "loss"], (True, True))],
)
def test_what_torchtitan_compiles(components, expected):
    """All that it lists, there and back; without a list what its version compiles."""
    pytest.importorskip("tomllib")
    listed = "" if components is None else f"components = {json.dumps(components)}\n"
    found = imported(f"[training]\nlocal_batch_size = 1\n[compile]\nenable = true\n{listed}")
    training = found.config["training"]
    assert (training["compile"], training.get("compile_loss")) == expected
    assert not found.unknown
    back = imported(exported(Config.from_dict({"model": "gpt2", **found.config})).text).config["training"]
    assert (back["compile"], back.get("compile_loss")) == expected


def test_what_is_left_open_is_said_where_a_tool_means_another_thing(capsys):
    """Megatron's precision and dropout are others; a model that its arguments cannot describe is left to the script."""
    assert main(["convert", "--model", "gpt2", "--engine", "megatron", "--seq", "64"]) == 0
    assert "dropout" not in capsys.readouterr().out  # 0.1 in either
    assert main(["convert", "--model", "llama-3.1-8b", "--engine", "megatron", "--seq", "64"]) == 0
    printed = capsys.readouterr()
    assert all(flag in printed.out for flag in ("--bf16", "--hidden-dropout 0.0", "--attention-dropout 0.0"))
    assert printed.err == ""
    assert main(["convert", "--model", "google/gemma-2b", "--engine", "megatron", "--seq", "64"]) == 0
    said = "model: Megatron-LM has no key for this model; set it in your launch script"
    assert said in capsys.readouterr().err
    assert main(["convert", "--model", "llama-3.1-8b", "--seq", "64"]) == 0
    assert capsys.readouterr().out == (
        'model_name_or_path: "meta-llama/Llama-3.1-8B"\nmax_length: 64\nper_device_train_batch_size: 1\n'
        'dtype: "bfloat16"\noptim: "adamw_torch_fused"\ngradient_checkpointing: false\n'
    )


def test_flags():
    """A setting by the name that the tool of the config gives it."""
    of = Config.from_dict
    assert flag(of({"model": "gpt2", "engine": {"type": "sglang"}}), "inference.max_model_len", 4096) == (
        "--context-length 4096"
    )
    titan = of({"model": "gpt2", "engine": {"type": "fsdp"}, "training": {"implementation": "torchtitan"}})
    assert flag(titan, "parallelism.tensor_parallel_size", 8) == "parallelism.tensor_parallel_degree: 8"
    assert flag(of({"model": "gpt2"}), "training.activation_checkpointing.policy", "full") == (
        "gradient_checkpointing: true"
    )
    assert flag(of({"model": "gpt2"}), "training.images_per_sequence") is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: [1, x, {b: 2}]", {"a": [1, "x", {"b": 2}]}),
        ("a:\n- 1\n- b: 2\n  c: yes\n", {"a": [1, {"b": 2, "c": True}]}),
        ('a: "x: # y"  # z\nb: org/m:q4\nc:\nd: 1e-5', {"a": "x: # y", "b": "org/m:q4", "c": None, "d": 1e-5}),
        ("a: |\n  b: c\n  - d\ne: 1_000", {"a": "b: c\n- d\n", "e": 1000}),
        ("a:\n  b:\n    c: .5\n  d: -3\n", {"a": {"b": {"c": 0.5}, "d": -3}}),
        ("a: 1\nb: 2\na: 1", {"a": 1, "b": 2}),  # as in some of Megatron-LM's tests
    ],
)
def test_yaml(text, value):
    """The YAML of configs."""
    assert read_yaml(text) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: !x 1\nb: 2", "line 1: found 'a: !x 1', which has the tag !x, which is not supported"),
        ("a: [1, 2", r"line 1: found 'a: \[1, 2', which lacks its \]"),
        ("a: 1\n    b: 2", "line 2: found 'b: 2', which is indented"),
        ("hello: 1\nworld: 2", "does not match any supported tool"),
        ("{bad", "is not JSON"),
        ("vllm serve --x 'open", "cannot be read"),
    ],
)
def test_what_cannot_be_read(text, message):
    """The line and what is wrong with it."""
    with pytest.raises(ConfigError, match=message):
        imported(text)


@given(st.text(max_size=300) | st.text(alphabet="ab:-[]{},'\"# \n|>&1", max_size=120))
def test_any_text(text):
    """Whatever is pasted is read or refused; nothing hangs, and no other error comes out."""
    for read in (read_file, read_yaml, read_command, imported):
        with suppress(MemcoreError):
            read(text)


def test_on_the_command_line(tmp_path, capsys):
    """Every command takes other tools' files; convert writes them."""
    script = tmp_path / "serve.sh"
    script.write_text("vllm serve meta-llama/Llama-3.1-8B --max-model-len 8192 --swap-space 4 --port 1")
    assert main(["convert", str(script), "--enforce-eager"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "vllm serve meta-llama/Llama-3.1-8B \\\n  --max-model-len 8192 \\\n  --enforce-eager\n"
    assert printed.err == (
        "note: read as a command of vLLM\nnote: --swap-space: 4 GiB of host memory per GPU, no GPU memory\n"
        "note: no effect on memory: --port\n"
    )


def test_adapters_whose_layers_trl_leaves_to_peft():
    """Those of the family's row in PEFT's table, with a note; without a row all linear layers are taken."""
    text = "model_name_or_path: {}\nper_device_train_batch_size: 1\nuse_peft: true\n"
    llama = imported(text.format("meta-llama/Llama-3.1-8B"))
    usual = {"type": "lora", "rank": 16, "dropout": 0.05}  # trl, trainer/model_config.py
    assert llama.config["training"]["adapter"] == {**usual, "target_modules": ["q_proj", "v_proj"]}
    assert llama.notes == ("lora_target_modules: not given; PEFT's defaults for llama: q_proj, v_proj",)
    moe = imported(text.format("Qwen/Qwen3-30B-A3B"))
    assert moe.config["training"]["adapter"] == usual
    assert moe.notes == ("lora_target_modules: PEFT has no default for qwen3_moe; treated as all-linear",)


CASE = """case $SIZE in
  7b) TP=1; LAYERS=(--num-layers 32 --swiglu) ;;
  70b) TP=8; LAYERS=(--num-layers 80) ;;
esac
torchrun pretrain_gpt.py --tensor-model-parallel-size $TP ${LAYERS[@]}
"""
ASKED = {
    "X=1 one --a b\ntwo --c $X": ["one", "--a", "b", "*env.X=1", ";", "two", "--c", "$X", ";"],
    "export X=1\ntwo --c $X": ["two", "--c", "1", ";", "*env.X=1", ";"],
    "local -i X=1; two --c $X": ["two", "--c", "1", ";"],
    "NPROC_PER_NODE=8 one --a b": ["one", "--a", "b", "--nproc_per_node", "8", "*env.NPROC_PER_NODE=8", ";"],
    CASE: ["--num-layers", "$SIZE", "--swiglu", ";", "--num-layers", "$SIZE", ";", "torchrun", "pretrain_gpt.py",
           "--tensor-model-parallel-size", "$SIZE", ";"],
    f"SIZE=70b\n{CASE}": ["--num-layers", "80", ";", "torchrun", "pretrain_gpt.py", "--tensor-model-parallel-size", "8", ";"],
    "case $S in\n a) X=2;;\n *) X=2;;\nesac\none --x $X": ["one", "--x", "2", ";"],
    "X=1\ncase $S in\n a) X=2;;\nesac\none --x $X": ["one", "--x", "$S", ";"],
    "case $S in\n a) one --x 1;;\n b) one --x 2;;\nesac": ["one", "--x", "1", ";", "one", "--x", "2", ";"],
}  # fmt: skip
"""What holds for one command alone, and what a choice by a variable from outside leaves open."""


@pytest.mark.parametrize("script", ASKED)
def test_what_is_asked_for(script):
    assert words(script) == ASKED[script]


def test_a_choice_is_asked_for_by_its_variable():
    text = f"{CASE.strip()} --micro-batch-size 1 --seq-length 2048 --hidden-size 64 --num-attention-heads 4 --vocab-size 256"
    with pytest.raises(ConfigError, match=r"--tensor-model-parallel-size: found \$SIZE, which the script does not set"):
        read_source(text)
    with variables_given({"SIZE": "70b"}):
        assert read_source(text)[0]["model"]["num_layers"] == 80


COMPOSED = {
    "trainer:\n  devices: 4\n  strategy: fsdp\nmodel:\n  class_path: a.b.LitModel\n  init_args:\n    lr: 0.1\n":
        r"model\.class_path: found 'a\.b\.LitModel'; a Lightning class does not describe its network",
    "trainer:\n  accelerator: gpu\n  devices: 4\n  precision: bf16-mixed\ndata:\n  batch_size: 2\n":
        r"trainer\.devices: found 4; Lightning's Trainer does not describe the network",
    "defaults:\n  - model: llama\n  - _self_\nseed: 1\n": r"defaults: found \['model=llama', '_self_'\]; Hydra composes",
}  # fmt: skip


@pytest.mark.parametrize("text", COMPOSED)
def test_compositions_are_refused_by_name(text):
    with pytest.raises(UnsupportedError, match=COMPOSED[text]):
        imported(text)


CONDITIONS = {
    "if [ -f x ]; then T=2; else T=4; fi\nrun --tp $T": ["run", "--tp", "$T", ";"],
    "if [ -f x ]; then T=2; else T=2; fi\nrun --tp $T": ["run", "--tp", "2", ";"],
    "T=2; if [ -f x ]; then T=4; fi\nrun --tp $T": ["run", "--tp", "$T", ";"],
    "T=2; if [ -f x ]; then if [ -f y ]; then T=4; fi; fi\nrun --tp $T": ["run", "--tp", "$T", ";"],
    'A="--a 1"; if [ -f x ]; then A="$A --b 2"; fi\nrun $A': ["run", "--a", "1", "--b", "2", ";"],
    'if [ -f x ]; then A="--a 1 --b"; else A="--a 2"; fi\nrun $A': ["run", "--a", "$A", "--b", ";"],
    "if [ $# -gt 0 ]; then M=$1; else M=b/c; fi\nrun --m $M": ["run", "--m", "b/c", ";"],
    "if [ 0 -gt 1 ]; then T=1; else T=2; fi\nrun --tp $T": ["run", "--tp", "2", ";"],
    "N=8; if (( N > 4 )); then T=2; else T=1; fi\nrun --tp $T": ["run", "--tp", "2", ";"],
    "if [ -n a ] && [ -z a ]; then T=1; else T=2; fi\nrun --tp $T": ["run", "--tp", "2", ";"],
    "if [ ! -z $X ]; then T=1; else T=2; fi\nrun --tp $T": ["run", "--tp", "2", ";"],
    "M=x-70b; if [[ $M == *70b* ]]; then T=8; else T=1; fi\nrun --tp $T": ["run", "--tp", "8", ";"],
    '[[ -n "$T" ]] && U=$T\nrun --tp $U': ["run", "--tp", "$U", ";"],
    'T=2; [[ -n "$G" ]] && T=$G\nrun --tp $T': ["run", "--tp", "2", ";"],
    "[ -z $G ] && T=1 || T=2\nrun --tp $T": ["run", "--tp", "1", ";"],
    "[ -n $G ] && T=1 || T=2\nrun --tp $T": ["run", "--tp", "2", ";"],
    "[[ -f x ]] || { echo no; exit 1; }\nrun --tp 3": ["run", "--tp", "3", ";"],
    ': "${T:=4}"\nrun --tp $T': ["run", "--tp", "4", ";"],
    'M=$1; M=${M:-"a/b"}\nrun --m $M': ["run", "--m", "a/b", ";"],
    "T=; run --tp ${T-3} --pp ${U-5}": ["run", "--tp", "--pp", "5", ";"],
    'A="--a 1"; eval "run $A --b"': ["run", "--a", "1", "--b", ";"],
}


@pytest.mark.parametrize("script", CONDITIONS, ids=str)
def test_conditions(script):
    assert words(script) == CONDITIONS[script]


def test_what_a_variable_is_given_chooses_between_branches():
    with variables_given({"T": "2"}):
        assert words("if [ -f x ]; then T=2; else T=4; fi\nrun --tp $T") == ["run", "--tp", "2", ";"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("base_model: ${.name}\nname: a/b\nsequence_len: ${len}\nlen: 64\nmicro_batch_size: ${oc.env:NOWHERE,3}\n",
         {"model": "a/b", "training.sequence_length": 64, "training.micro_batch_size": 3}),
        ("run_llama --gpu-layers 9 --ctx-size 4096 --ubatch-size 64 --no-mmap --model x/Qwen3-8B-Q4_K_M.gguf",
         {"engine.type": "llama.cpp", "engine.n_gpu_layers": 9, "inference.max_model_len": 4096}),
        ("models:\n  a: {cmd: llama-server -m Qwen3-8B-Q8_0.gguf -c 64}\n  b: {cmd: whisper-server --m x --other 1}\n",
         {"inference.quantization": "q8_0", "inference.max_model_len": 64}),
        ("kind: Deployment\nspec:\n  containers:\n  - image: vllm/vllm-openai\n    command: [vllm, serve]\n"
         "    args: [--model=$(ID), --max-model-len=8]\n    env: [{name: ID, value: org/m}]\n",
         {"model": "org/m", "inference.max_model_len": 8}),
        ("kind: LLMInferenceService\nspec:\n  model: {uri: 'hf://org/m'}\n  parallelism: {tensor: 2}\n  template:\n"
         "    containers: [{name: main, env: [{name: VLLM_ADDITIONAL_ARGS, value: --enforce-eager}]}]\n",
         {"model": "org/m", "parallelism.tensor_parallel_size": 2, "engine.enforce_eager": True}),
        ("torchrun --nproc_per_node=8 -m verl.trainer.sft_trainer model.path=Qwen/Qwen3-0.6B engine=fsdp "
         "engine.strategy=fsdp2 data.train_batch_size=64 data.max_length=2048 engine.ulysses_sequence_parallel_size=2",
         {"model": "Qwen/Qwen3-0.6B", "engine.version": 2, "training.precision": "bf16-mixed", "training.packed_sequences": True,
          "training.sequence_length": 16384, "training.micro_batch_size": 1, "training.gradient_accumulation_steps": 2,
          "parallelism.ulysses_parallel_size": 2, "training.activation_checkpointing.policy": "full"}),
        ("torchrun --nproc_per_node=8 -m verl.trainer.sft_trainer model.path=Qwen/Qwen3-0.6B engine.strategy=fsdp "
         "data.use_dynamic_bsz=False engine.model_dtype=bf16 engine.use_no_sync_for_gradient_accumulation=True",
         {"engine.version": 1, "training.precision": "bf16", "training.sequence_length": 1024, "engine.no_sync": True,
          "training.micro_batch_size": 4, "training.gradient_accumulation_steps": 8}),
        ("megatron sft --model Qwen/Qwen3-0.6B --max_length 64 --megatron_extra_kwargs '{\"hidden_dropout\": 0.1}'",
         {"training.dropout.hidden": 0.1}),
        ("torchrun -m verl.trainer.fsdp_sft_trainer model.partial_pretrain=a/b ulysses_sequence_parallel_size=2 "
         "use_remove_padding=true",
         {"model": "a/b", "parallelism.ulysses_parallel_size": 2, "training.packed_sequences": True}),
        ("python train_lora.py --model_name_or_path a/b --lora_r 4 --q_lora True --per_device_train_batch_size 1",
         {"training.adapter.type": "lora", "training.adapter.rank": 4, "training.quantization": "nf4"}),
        ("model_name_or_path: a/b\nbeta: 0.1\nhub_model_id: me/b-orpo-v1\nmax_length: 8\n",
         {"training.method.name": "orpo"}),
        ("model_name_or_path: a/b\nstage: sft\nfinetuning_type: oft\nlora_rank: 8\noft_rank: 4\n",
         {"training.adapter.type": "oft", "training.adapter.rank": 4, "training.adapter.target_modules": "all-linear"}),
    ],
)  # fmt: skip
def test_further_ways_to_say_it(text, expected):
    found = flat(imported(text).config)
    assert {path: found.get(path) for path in expected} == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("exp_manager: {name: x}\ntrainer: {devices: 8}\nmodel: {micro_batch_size: 1}\n", "NeMo 1"),
        ("deepspeed pretrain_gpt.py --num-layers 2 --hidden-size 8 --deepspeed --zero-stage 1", "Megatron-DeepSpeed"),
        (
            "python -m verl.trainer.main_ppo actor_rollout_ref.model.path=a/b reward_model.prime_model.path=a/b algorithm.adv_estimator=rloo",
            "training a reward model on the same GPUs is not supported yet",
        ),
        (
            "torchrun -m verl.trainer.sft_trainer model.path=a/b engine.strategy=megatron",
            "engine.strategy: found 'megatron'",
        ),
        (
            "torchrun -m verl.trainer.sft_trainer model.path=a/b engine.fsdp_size=2 engine.qat.enable=True",
            "engine.qat.enable",
        ),
        ("model_name_or_path: a/b\nmax_length: 8\nspectrum_config_path: x.yaml\n", "name them with --trainable"),
        ("torchrun train.py --job.config_file llama3.toml", "pass that file"),
        ("python mine.py --model a/b --dtype bfloat16 --seed 1 --max-model-len 8 --host x", "does not match any"),
        (
            "kind: LLMInferenceService\nspec:\n  model: {uri: 'hf://org/m'}\n  parallelism: {data: 2}\n",
            "splitting over nodes",
        ),
    ],
)
def test_what_is_refused_by_name(text, why):
    with pytest.raises((ConfigError, UnsupportedError), match=why):
        imported(text)
