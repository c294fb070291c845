"""Files as their repositories have them, which nobody had read when the readers were written: the batch of winter."""

import pytest

from memcore import Config, estimate
from memcore.errors import ConfigError, UnsupportedError
from memcore.formats.normalized import filled, interpolated
from memcore.formats.readers import flat
from memcore.networks.catalog import find_model
from memcore.servers.vllm.startup import too_long
from memcore.tools.sources import Source, read_sources

TRL = "model_name_or_path: Qwen/Qwen3-0.6B\nper_device_train_batch_size: 4\nmax_length: 512\n"
CLIPPED = {
    "trl.yaml": f"{TRL}max_grad_norm: 0.2\n",
    "factory.yaml": "stage: sft\nfinetuning_type: lora\nmodel_name_or_path: gpt2\nmax_grad_norm: 1.0\n",
    "axolotl.yml": "base_model: gpt2\nadapter: lora\nsequence_len: 512\nmax_grad_norm: 1.0\n",
    "swift.sh": "swift sft --model gpt2 --max_length 512 --max_grad_norm 0.5\n",
    "megatron.sh": "torchrun pretrain_gpt.py --num-layers 2 --hidden-size 8 --num-attention-heads 2 --vocab-size 64"
    " --max-position-embeddings 16 --seq-length 16 --micro-batch-size 1 --clip-grad 1.0\n",
}


def read(*texts: tuple[str, str], gpus=None, given=(), **variables):
    """The settings of several files together, and the notes on them."""
    config, notes = read_sources([Source(name, text) for name, text in texts], gpus, given, variables)
    return flat(config), notes


@pytest.mark.parametrize("name", CLIPPED)
def test_gradients_are_clipped_at_any_norm(name):
    """What says that they are clipped at all is one value; any other is of no account."""
    found, notes = read((name, CLIPPED[name]))
    assert found.get("training.gradient_clipping", True) is True
    assert any(note.startswith("no effect on memory") for note in notes)


def test_what_slurm_is_asked_for():
    """swiss-ai/Megatron-LM, submit-llama3-8b.sh: `srun` starts a process for each GPU."""
    script = (
        "#!/bin/bash\n#SBATCH --nodes=16\n#SBATCH --ntasks-per-node=4\n#SBATCH --gpus-per-node=4\n"
        'CMD="python3 pretrain_gpt.py --num-layers 2 --hidden-size 8 --num-attention-heads 2 --vocab-size 64'
        ' --max-position-embeddings 16 --seq-length 16 --micro-batch-size 1 --global-batch-size 128"\n'
        'srun -lu bash -c "RANK=\\$SLURM_PROCID $CMD"\n'
    )
    found, _ = read(("submit.sh", script))
    assert found["training.gradient_accumulation_steps"] == 2
    launched = script.replace("python3", "torchrun --nnodes $SLURM_NNODES --nproc_per_node $SLURM_GPUS_ON_NODE")
    assert read(("submit.sh", launched))[0]["training.gradient_accumulation_steps"] == 2


def test_older_ways_to_calculate_and_to_ask_programs():
    """NineAbyss/S2R, scripts/train_sft.sh; Pai-Megatron-Patch, examples/qwen3/run_mcore_qwen3.sh."""
    script = (
        "GPUS=`python -c 'import torch; print(torch.cuda.device_count())'`\nSTEPS=$[32/1/$NODES]\n"
        "torchrun --nproc_per_node $GPUS train.py --model_name_or_path gpt2 --per_device_train_batch_size 1"
        " --max_length 512 --gradient_accumulation_steps $STEPS\n"
    )
    with pytest.raises(ConfigError, match=r"\$GPUS"):
        read(("train.sh", script), NODES="8")
    found, _ = read(("train.sh", script), NODES="8", GPUS="8")
    assert (found["training.gradient_accumulation_steps"], found["hardware.num_gpus"]) == (4, 8)


SWAP = """\
models:
  a:
    cmd: >
      bash -c "source /opt/setvars.sh > /dev/null && exec /build/bin/llama-server
      -m /models/Qwen3-8B-Q4_K_S.gguf
      -c 16384 -ctk q8_0 -ctv q8_0
      --alias 'a b'"
"""
COMPOSE = """\
services:
  vllm:
    image: vllm/vllm-openai:v0.15.0
    command: >
      /models/Qwen3-8B
      --max-model-len 32768
      --speculative-config '{"method":"ngram","num_speculative_tokens":4}'
"""


def test_commands_of_containers_are_split_as_shells_do():
    """jeffgrover/b70-setup, llama-swap.yaml; niushuai1991/qwen3.6-27b, docker-compose.k4-flashinfer.yml."""
    found, _ = read(("llama-swap.yaml", SWAP))
    assert (found["inference.quantization"], found["engine.cache_type_k"]) == ("q4_k_s", "q8_0")
    found, _ = read(("compose.yml", COMPOSE))
    assert (found["inference.max_model_len"], found["inference.num_speculative_tokens"]) == (32768, 4)
    assert found["model"] == "Qwen/Qwen3-8B"


def test_a_script_with_its_config_and_its_launchers():
    """alfredyu24/amd-mi350-benchmarks, scripts/train_sft.sh; sarelWeinberger/qwen-hebrew-finetuning, train_all.sh."""
    accelerate = "distributed_type: DEEPSPEED\ncompute_environment: LOCAL_MACHINE\ndeepspeed_config:\n  zero_stage: 2\n"
    script = (
        'C=${1:-/x/trl.yaml}\naccelerate launch --config_file /x/zero2.yaml --num_processes "${2:-8}" sft.py'
        ' --config "$C" --gradient_accumulation_steps 3\n'
    )
    found, _ = read(("train.sh", script), ("trl.yaml", TRL), ("zero2.yaml", accelerate))
    assert found["engine.zero_stage"] == 2
    assert (found["hardware.num_gpus"], found["training.micro_batch_size"]) == (8, 4)
    assert found["training.gradient_accumulation_steps"] == 3
    launch = "accelerate launch --config_file=zero2.yaml --num_processes 4 train.py --dataset x\n"
    found, notes = read(("all.sh", launch), ("zero2.yaml", accelerate), given={"model"})
    assert found["hardware.num_gpus"] == 4
    assert any("only launches" in note for note in notes)


def test_launchers_of_llama_factory():
    """Its own script, as its manual has it for FSDP."""
    script = (
        "accelerate launch --config_file fsdp.yaml --num_cpu_threads_per_process 4 --num_processes 4 src/train.py"
        " --stage sft --model_name_or_path gpt2 --finetuning_type lora --cutoff_len 512\n"
    )
    found, _ = read(("train.sh", script))
    assert (found["engine.type"], found["hardware.num_gpus"]) == ("fsdp", 4)


def test_scripts_that_others_source():
    """SRO-SA/trtllm-qwen-benchmark, scripts/serve_final_baseline.sh."""
    served = 'source "$(dirname "$0")/common.sh"\nA=(--tp_size "${TP:-4}")\nadd A --max_num_tokens 512\n'
    served += 'trtllm-serve serve "${A[@]}" "$M"\n'
    found, _ = read(("serve.sh", served), ("common.sh", 'export M="${M:-/models/Qwen3-8B}"\nexport TP=2\n'))
    assert (found["parallelism.tensor_parallel_size"], found["engine.max_num_tokens"]) == (2, 512)


def test_recipes_of_torchtune_by_name():
    """odissei-benchmarks/torchtune-gpu-benchmark, della-scripts/pre-standardized/llama-3.2-dist.slurm."""
    script = (
        "tune run \\\n    --nproc_per_node 4 \\\n    lora_finetune_distributed --config llama3_2/1B_lora \\\n"
        "    seed=14 \\\n    batch_size=1 tokenizer.max_seq_len=2048\n"
    )
    with pytest.raises(ConfigError, match="llama3_2/1B_lora; pass that file"):
        read(("run.slurm", script))
    recipe = (
        "model:\n  _component_: torchtune.models.llama3_2.lora_llama3_2_1b\n  lora_attn_modules: [q_proj]\n"
        "  lora_rank: 64\n  lora_alpha: 128\ntokenizer:\n  max_seq_len: null\nbatch_size: 4\ndtype: bf16\n"
        "enable_activation_checkpointing: False\noptimizer:\n  _component_: torch.optim.AdamW\n"
        "loss:\n  _component_: torchtune.modules.loss.CEWithChunkedOutputLoss\n"
    )
    found, _ = read(("run.slurm", script), ("1B_lora.yaml", recipe))
    assert (found["hardware.num_gpus"], found["training.micro_batch_size"]) == (4, 1)
    assert found["training.sequence_length"] == 2048


def test_older_names_of_tensorrt_llm():
    """slikhite-1/TRTLLM-serve-guide, trt-llm-benchmarking.sh, for 0.19."""
    text = "pytorch_backend_config:\n  use_cuda_graph: true\n  cuda_graph_max_batch_size: 512\n  kv_cache_dtype: fp8\n"
    found, _ = read(("extra.yml", text), given={"model"})
    assert found["inference.kv_cache_dtype"] == "fp8"
    assert found["engine.cuda_graphs"] == 36  # 1 to 32, and powers of two up to 512
    script = "docker run -d --entrypoint trtllm-serve x/release:1 serve /models/Qwen3-8B --tp_size 2\n"
    assert read(("serve.sh", script))[0]["parallelism.tensor_parallel_size"] == 2


def test_tokens_of_sglangs_pool():
    """Cloud-Linuxer/Qwen, docker-compose.qwen3-32b-awq.yml."""
    script = "python -m sglang.launch_server --model-path Qwen/Qwen3-8B --max-total-tokens 16384\n"
    assert read(("serve.sh", script))[0]["engine.max_total_tokens"] == 16384


SCRIPT = """\
import argparse, os
from pathlib import Path
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

ROOT = Path(__file__).resolve().parent
MODEL = ROOT / "models" / "Qwen3-0.6B"
parser = argparse.ArgumentParser()
parser.add_argument("--model-path", default=str(MODEL))
parser.add_argument("--checkpoints", action="store_true")
args = parser.parse_args()
tokenizer = AutoTokenizer.from_pretrained(args.model_path)
model = AutoModelForCausalLM.from_pretrained(args.model_path)
TrainingArguments(".")
rows = data.map(lambda row: tokenizer(row["text"], truncation=True, max_length=2048))
Trainer(model=model, args=TrainingArguments(output_dir=os.path.join(ROOT, "o"), bf16=True,
        per_device_train_batch_size=2, gradient_checkpointing=args.checkpoints), train_dataset=rows).train()
"""


def test_paths_and_switches_of_scripts():
    """HaoranLuo/text2sql-grpo, src/train_sft.py; Cyb3rDudu/cyb3r-qlora, scripts/train_unsloth.py."""
    found, _ = read(("train.py", SCRIPT))
    assert found["training.sequence_length"] == 2048
    assert found["training.activation_checkpointing.policy"] == "none"
    assert found["model"] == "Qwen/Qwen3-0.6B"
    named = SCRIPT.replace('ROOT / "models" / "Qwen3-0.6B"', 'f"{ROOT}/Qwen3-0.6B"')
    assert read(("train.py", named))[0]["model"] == "Qwen/Qwen3-0.6B"


def test_folders_that_recipes_name():
    """GeodesicResearch/geodesic-megatron, tutorials/recipes/llama/conf/llama32_1b_finetune.yaml."""
    text = "checkpoint:\n  pretrained_checkpoint: ./checkpoints/llama32_1b\nmodel:\n  tensor_model_parallel_size: 1\ntrain:\n"
    text += "  micro_batch_size: 2\n  global_batch_size: 8\ndataset:\n  seq_length: 512\n"
    assert read(("finetune.yaml", text), gpus=1)[0]["model"] == "llama3.2-1b"


def test_what_is_said_of_a_forks_flavors_and_of_templates():
    """LambdaLabsML/torchtitan, configs/llama3_32b-8xb200-16k.toml; text-generation-inference-helm, deployment.yaml."""
    text = '[model]\nname = "llama3"\nflavor = "32B"\n[training]\nlocal_batch_size = 2\nseq_len = 512\n'
    _, notes = read(("llama3_32b.toml", text), given={"model"})
    assert any("model.flavor 32B is not one of" in note for note in notes)
    with pytest.raises(ConfigError, match="helm template"):
        read(("deployment.yaml", "{{- range .Values.models }}\napiVersion: apps/v1\n{{- end }}\n"))


STAGE_2 = """\
{"bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 2, "reduce_bucket_size": "auto",
 "stage3_prefetch_bucket_size": "auto", "stage3_max_live_parameters": 1e9, "sub_group_size": 1e9}}
"""


def test_keys_of_stage_3_in_files_of_others():
    """OpenThaiGPT/openthaigpt-pretraining, src/model/scripts/hf_trainer/config/llama_deepspeed.json."""
    found, notes = read(("trl.yaml", TRL), ("zero2.json", STAGE_2), gpus=8)
    assert not [path for path in found if path.startswith("engine.stage3")]
    assert any("stage3_max_live_parameters: only for stage 3" in note for note in notes)


def test_deepspeed_takes_the_gpus_of_its_node():
    """Humanity-Unleashed/pretraining, scripts/slurm_train_sft.sh."""
    script = (
        "#SBATCH --nodes=2\n#SBATCH --gpus-per-node=4\ndeepspeed --module openrlhf.cli.train_sft --max_len 1024 \\\n"
        "  --train_batch_size 128 --micro_train_batch_size 8 --pretrain Qwen/Qwen2.5-7B-Instruct --zero_stage 3 --bf16\n"
    )
    found, _ = read(("train.sh", script))
    assert (found["hardware.num_gpus"], found["training.gradient_accumulation_steps"]) == (4, 4)


def test_ranks_and_switches_of_widespread_scripts():
    """FreedomIntelligence/TRIM, scripts/finetune_lora.sh; Limbicnation/prompt-lora-trainer, configs/sft_qwen3_4b.yaml."""
    llava = (
        "deepspeed --num_gpus 8 llava/train/train_mem.py --lora_enable True --model_name_or_path lmsys/vicuna-7b-v1.5"
        " --model_max_length 2048 --per_device_train_batch_size 16 --bf16 True\n"
    )
    assert read(("finetune.sh", llava))[0]["training.adapter.rank"] == 64
    own = "model_id: Qwen/Qwen3-4B\nmax_seq_length: 512\nlora_r: 16\nuse_4bit: true\nbnb_4bit_quant_type: nf4\n"
    own += "bnb_4bit_compute_dtype: bfloat16\nper_device_train_batch_size: 4\n"
    found, _ = read(("sft.yaml", own))
    assert (found["training.quantization"], found["training.adapter.rank"]) == ("nf4", 16)


def test_images_for_other_devices_are_refused():
    """xprilion/gemma3-vllm-tpu-gke-autoscaling, k8s/vllm-deployment.yaml; java-alchemist/inference-stack."""
    compose = "services:\n  a:\n    image: {}\n    command: --model-path Qwen/Qwen3-8B --port 1\n"
    with pytest.raises(UnsupportedError, match="vllm-tpu"):
        read(("compose.yml", compose.format("vllm/vllm-tpu:nightly")))
    found, _ = read(("compose.yml", compose.format("lmsysorg/sglang-rocm:v0.5.14-rocm720-mi30x")))
    assert found["engine.version"] == "v0.5.14"


PAIRS = "stage: {}\nfinetuning_type: lora\nmodel_name_or_path: gpt2\ncutoff_len: 512\n"


def silent_of(text):
    """What a file's notes say to have no effect."""
    _, notes = read(("file.yaml", text))
    listed = next((note for note in notes if note.startswith("no effect on memory")), "")
    return {each.strip() for each in listed.rpartition(": ")[2].split(",")}


def test_what_is_read_is_not_said_to_have_no_effect():
    """A key that is read with others is of no account where its value changes nothing, and there alone."""
    assert "stage" in silent_of(PAIRS.format("sft"))
    assert "stage" not in silent_of(PAIRS.format("dpo"))


FILLED = """\
from dataclasses import dataclass, field
from transformers import AutoModelForCausalLM, HfArgumentParser
from trl import SFTConfig, SFTTrainer
from peft import LoraConfig
@dataclass
class ScriptArguments:
    model_name: str = field(default="Qwen/Qwen3-0.6B", metadata={"help": "The model."})
    batch: int = field(default=4)
    lora_r: int = 64
    targets: list = field(default_factory=lambda: ["q_proj", "v_proj"])
parser = HfArgumentParser(ScriptArguments)
script_args = parser.parse_args_into_dataclasses()[0]
model = AutoModelForCausalLM.from_pretrained(script_args.model_name)
peft_config = LoraConfig(r=script_args.lora_r, target_modules=script_args.targets)
args = SFTConfig(output_dir="o", per_device_train_batch_size=script_args.batch, max_length=512)
SFTTrainer(model=model, args=args, peft_config=peft_config).train()
"""
"""How TRL's older examples, and what is copied from them, take their settings."""
CLASSES = """\
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
class Config:
    MODEL = "Qwen/Qwen3-0.6B"
    def __init__(self, batch: int = 4, steps: int = 8, optim: str = None):
        self.batch = batch
        self.steps = steps
        self.optim = optim or "adamw_8bit"
def train(config: Config):
    model = AutoModelForCausalLM.from_pretrained(config.MODEL)
    args = TrainingArguments(output_dir="o", per_device_train_batch_size=config.batch, optim=config.optim,
                             gradient_accumulation_steps=config.steps)
    Trainer(model=model, args=args).train()
train(Config(batch=2))
"""
"""As SanatbekMatlatipov/UzABSA-LLM, scripts/train_unsloth.py, has them."""


def test_settings_in_classes_of_a_script():
    """Dataclasses that a command line fills, and classes with values of their own."""
    found, _ = read(("train.py", FILLED))
    assert (found["model"], found["training.micro_batch_size"]) == ("Qwen/Qwen3-0.6B", 4)
    assert found["training.adapter.rank"] == 64
    assert found["training.adapter.target_modules"] == ["q_proj", "v_proj"]
    found, _ = read(("train.py", CLASSES), given={"training.sequence_length"})
    assert (found["training.micro_batch_size"], found["training.gradient_accumulation_steps"]) == (2, 8)
    assert found["training.optimizer.name"] == "adamw-8bit"


@pytest.mark.parametrize("line", ["config.batch = 16", "config = Config(**loaded)", "other = Config(batch=8)"])
def test_settings_in_classes_that_nobody_knows(line):
    """Values that are set later on, that come from a file, or of which there are two."""
    with pytest.raises(ConfigError, match="batch|optim"):
        read(("train.py", f"{CLASSES}{line}\n"), given={"training.sequence_length"})


def test_processes_from_a_variable_with_a_default():
    """MM-Speech/DualAxisRM, scripts/train_grpo.sh: a default from outside is no use of the variable."""
    swift = "swift sft --model Qwen/Qwen2.5-7B-Instruct --train_type lora --max_length 512 --deepspeed zero2"
    for script in (
        f"export NPROC_PER_NODE=${{NPROC_PER_NODE:-2}}\n{swift}\n",
        f'N="${{N:-2}}"\ncmd=(\n  {swift}\n)\nCUDA_VISIBLE_DEVICES=0,1 NPROC_PER_NODE="$N" "${{cmd[@]}}"\n',
    ):
        assert read(("train.sh", script))[0]["hardware.num_gpus"] == 2


EIGHT_BITS = "Qwen2.5-3B-Instruct-GPTQ-Int8"


@pytest.mark.parametrize(
    "command",
    [
        f"vllm serve /models/{EIGHT_BITS} --quantization gptq",
        f"vllm serve Qwen/{EIGHT_BITS} --quantization gptq_marlin",
        f"python -m sglang.launch_server --model-path Qwen/{EIGHT_BITS} --quantization gptq",
        f"text-generation-launcher --model-id Qwen/{EIGHT_BITS} --quantize gptq",
        f"lmdeploy serve api_server Qwen/{EIGHT_BITS} --model-format gptq",
    ],
)
def test_methods_of_four_bits_with_a_name_that_says_eight(command):
    """kyourselfer/OTUS_LLM-llm_mlflow, docker/docker-compose.yml: the checkpoint says how many bits there are."""
    found, _ = read(("serve.sh", command))
    assert found.get("inference.quantization") is None
    assert EIGHT_BITS in found["model"]


def test_paths_of_windows_and_patterns_of_layers():
    """carteakey/lllms, llama-server-configs/qwen3-30-a3b.sh: the experts of every second of 48 layers."""
    script = (
        '& "C:\\llama-cpp\\llama-server.exe" `\n--model "C:\\models\\Qwen3-30B-A3B.Q8_0.gguf" `\n'
        "--override-tensor 'blk\\.([0-9]*[02468])\\.ffn_.*_exps\\.=CPU'\n"
    )
    found, notes = read(("serve.ps1", script))
    assert (found["model"], found["engine.n_cpu_moe"]) == ("Qwen/Qwen3-30B-A3B", 24)
    assert any("as many layers as the patterns match" in note for note in notes)


def test_lengths_of_older_releases_of_llama_factory():
    """Zzzzz1N/TabularDB-SQL, scripts/train_sft.sh."""
    script = (
        "python train/sft_train.py --model_name_or_path gpt2 --do_train --finetuning_type lora --template default"
        " --max_source_length 512 --max_target_length 256 --lora_target c_attn --per_device_train_batch_size 1\n"
    )
    assert read(("train.sh", script))[0]["training.sequence_length"] == 768


def test_rollouts_that_do_not_divide_the_gpus():
    """BaohaoLiao/self_luffy, train.sh."""
    script = (
        "python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=Qwen/Qwen3-0.6B trainer.n_gpus_per_node=1"
        " actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1"
        " actor_rollout_ref.rollout.tensor_model_parallel_size=2\n"
    )
    _, notes = read(("train.sh", script))
    assert any("which does not divide the number of GPUs, 1" in note for note in notes)


SERVED = """\
import argparse
from vllm import LLM
parser = argparse.ArgumentParser()
parser.add_argument("-m", "--model", required=True)
parser.add_argument("--tp", type=int, default=1)
parser.add_argument("--max-len", type=int, default=4096)
opt = parser.parse_args()
llm = LLM(model=opt.model, tensor_parallel_size=opt.tp, max_model_len=opt.max_len)
"""


def test_options_that_a_command_gives_a_script():
    """Scripts with options of their own, and the command that starts them."""
    command = (
        "MODEL=${1:-Qwen/Qwen3-0.6B}\nexport PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n"
        "python src/run.py --model $MODEL --tp 2 2>&1 | tee log.txt\n"
    )
    found, notes = read(("run.py", SERVED), ("run.sh", command))
    assert (found["model"], found["inference.max_model_len"]) == ("Qwen/Qwen3-0.6B", 4096)
    assert (found["parallelism.tensor_parallel_size"], found["engine.expandable_segments"]) == (2, True)
    assert "run.sh: gives run.py its options: --model, --tp" in notes
    command = "accelerate launch --num_processes 2 train.py --batch 2 --lora_r 8\n"
    found, _ = read(("train.sh", command), ("train.py", FILLED))
    assert (found["hardware.num_gpus"], found["training.micro_batch_size"]) == (2, 2)
    assert (found["training.adapter.rank"], found["training.sequence_length"]) == (8, 512)
    with pytest.raises(ConfigError, match="model"):
        read(("run.py", SERVED))


SWIFT_TWO = """\
NPROC_PER_NODE=4 swift dpo --model_type yi-6b-chat --ref_model_type yi-6b-chat --sft_type lora --dtype AUTO \\
    --max_length 1024 --lora_rank 4 --lora_dropout_p 0.05 --lora_target_modules DEFAULT --batch_size 2 \\
    --quantization_bit 4 --deepspeed default-zero2 \
    --gradient_accumulation_steps $(expr 16 / 4) --check_dataset_strategy none
"""


def test_ms_swift_before_three():
    """modelscope/ms-swift, examples/pytorch/llm/scripts/dpo/lora_ddp_mp/dpo.sh of release 2."""
    found, notes = read(("dpo.sh", SWIFT_TWO), given={"model"})
    assert (found["training.method.name"], found["training.method.reference"]) == ("dpo", "copy")
    assert (found["training.micro_batch_size"], found["training.gradient_accumulation_steps"]) == (2, 4)
    assert (found["training.quantization"], found["engine.zero_stage"]) == ("nf4-double", 2)
    assert found["training.adapter.target_modules"] == ["q_proj", "k_proj", "v_proj"]
    assert any(note.startswith("lora_target_modules: DEFAULT") for note in notes)
    found, _ = read(("sft.sh", "python llm_sft.py --model_id_or_path AI-ModelScope/gemma-2b-it --sft_type lora\n"))
    assert (found["training.sequence_length"], found["training.gradient_accumulation_steps"]) == (2048, 16)
    with pytest.raises(UnsupportedError, match="lora_target_modules"):
        read(("sft.sh", "swift sft --model gpt2 --sft_type lora --lora_target_modules EMBEDDING\n"))


def test_methods_of_ms_swift_by_their_keys():
    """RWLinno/TopoPRM, configs/grpo_qwen3_14b.yaml and scripts/run_sft.sh."""
    grpo = "model: Qwen/Qwen3-0.6B\ntrain_type: lora\nnum_generations: 8\nmax_completion_length: 64\nmax_length: 128\n"
    found, notes = read(("grpo.yaml", grpo))
    assert found["training.method.name"] == "grpo"
    assert any("num_generations" in note for note in notes)
    started = 'S="swift"\nNPROC_PER_NODE="${NPROC_PER_NODE:-8}"\nexport NPROC_PER_NODE\necho "$NPROC_PER_NODE GPUs"\n'
    plain = "model: Qwen/Qwen3-0.6B\ntrain_type: lora\nmax_length: 128\n"
    found, _ = read(("run.sh", f'{started}$S sft --config "$ROOT/sft.yaml" 2>&1 | tee log\n'), ("sft.yaml", plain))
    assert found["hardware.num_gpus"] == 8


FUNCTIONS = {
    "words.sh": 'serve() {\n  local model="$1" len="$2"\n  shift 2\n  vllm serve "$model" --max-model-len "$len" "$@"\n}\n'
    "serve Qwen/Qwen3-8B 8192 --gpu-memory-utilization 0.8\n",
    "added.sh": 'A=(Qwen/Qwen3-8B --port 1)\nadd() { local f="$1" v="$2"; if [ -n "$v" ]; then A+=("$f" "$v"); fi; }\n'
    'add --max-model-len 8192\nadd --quantization ""\nadd --gpu-memory-utilization 0.8\nvllm serve "${A[@]}"\n',
    "guarded.sh": 'E=()\n[ -n "${Q:-}" ] && E+=(--quantization "${Q}")\nexec docker run --gpus all "${I:-vllm/vllm-openai}" \\\n'
    '  --model Qwen/Qwen3-8B --max-model-len 8192 --gpu-memory-utilization 0.8 "${E[@]}"\n',
    "array.sh": 'nvidia-smi --query-gpu=name\nA=(\n  "$HERE/models/Qwen3-8B"\n  "--max-model-len" 8192\n  '
    '--gpu-memory-utilization 0.8\n)\nvllm serve "${A[@]}"\n',
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_and_arrays_of_scripts(name):
    """hermes-speedboat/vllm.qwen3.6-35b_mtp_spark, vllm-server.sh; Saibernard/llm_inference_benchmarking, scripts/."""
    found, _ = read((name, FUNCTIONS[name]))
    assert found["model"].rpartition("/")[2] == "Qwen3-8B"
    assert (found["inference.max_model_len"], found["engine.gpu_memory_utilization"]) == (8192, 0.8)
    assert "inference.quantization" not in found


def test_calls_with_other_words_are_other_jobs():
    """A function that starts a server twice, and a loop that starts the same one three times."""
    both = 'run() {\n  vllm serve "$1" --max-model-len 4096 &\n}\nrun Qwen/Qwen3-8B\nrun Qwen/Qwen3-4B\n'
    with pytest.raises(ConfigError, match="2 commands"):
        read(("both.sh", both))
    loop = "for g in 0 1 2; do\n  CUDA_VISIBLE_DEVICES=$g vllm serve Qwen/Qwen3-8B --port 800$g &\ndone\n"
    assert "a loop starts this 3 times: one of them is read" in read(("loop.sh", loop))[1]


def test_macros_of_one_model():
    """waflores/local-ai-configs, llama-swap/config.yaml: a model's own macros hold before those of the file."""
    swap = (
        "macros: {size: 131072, run: 'llama-server -c ${size}'}\nmodels:\n  a:\n    macros: {size: 4096}\n"
        "    cmd: ${run} -m Qwen3-8B-Q4_K_M.gguf\n"
    )
    assert read(("config.yaml", swap))[0]["inference.max_model_len"] == 4096


PARSED = """\
from dataclasses import dataclass
from transformers import BitsAndBytesConfig, HfArgumentParser, TrainingArguments
from unsloth import FastLanguageModel
from trl import SFTTrainer

@dataclass
class Own:
    model_name_or_path: str
    max_seq_length: int = 2048
    rank: int = 16
    four: bool = False

args, own = HfArgumentParser((TrainingArguments, Own)).parse_args_into_dataclasses()
bits = BitsAndBytesConfig(load_in_8bit=True) if own.four else None
model, _ = FastLanguageModel.from_pretrained(own.model_name_or_path, max_seq_length=own.max_seq_length, dtype=own.kind)
model = FastLanguageModel.get_peft_model(model, r=own.rank)
SFTTrainer(model=model, args=args).train()
"""
"""DeL-TaiseiOzaki/multi-gpu-sft, train_unsloth.py."""


def test_scripts_with_options_besides_the_trainers():
    """What the script declares is read with it, and the rest with the command."""
    command = (
        "torchrun --nproc_per_node 2 train.py --model_name_or_path Qwen/Qwen3-0.6B --per_device_train_batch_size 4"
        " --max_seq_length 512 --rank 8 --four False\n"
    )
    found, notes = read(("run.sh", command), ("train.py", PARSED.replace(", dtype=own.kind", "")))
    assert (found["training.micro_batch_size"], found["hardware.num_gpus"]) == (4, 2)
    assert (found["training.adapter.rank"], found["training.sequence_length"]) == (8, 512)
    assert found["training.quantization"] == "nf4-double"
    assert any("gives train.py its options" in note and "rank" in note for note in notes)
    _, notes = read(("run.sh", command), ("train.py", PARSED))
    assert any("what the script makes of its options is not read: dtype" in note for note in notes)


def test_interpolations_that_give_themselves():
    """mosaicml/llm-foundry, scripts/train/yamls/pretrain/mpt-7b.yaml: `run_name: ${variables.run_name}` of nothing."""
    found = interpolated({"a": "${a}", "b": "x${c}", "c": "${b}"})
    assert (found["a"], found["b"].startswith("x")) == ("${a}", True)
    assert filled({"a": "${a}"}, "${a}") == "${a}"


def test_ranks_of_experts():
    """ylXuu/Search-Gen-V, rubric_construction/qwen3-235b.sh; banjuede/deepseek-test, trt-llm/serve.sh."""
    for command in (
        "python -m sglang.launch_server --model-path Qwen/Qwen3-30B-A3B --tp-size 4 --ep-size 4\n",
        "trtllm-serve Qwen/Qwen3-30B-A3B --tp_size 4 --ep_size 4\n",
    ):
        found, notes = read(("serve.sh", command))
        assert found["parallelism.tensor_parallel_size"] == 4
        assert any("same bytes on each GPU" in note for note in notes)


def test_sequences_longer_than_the_models():
    """vllm, config/model.py: `_get_and_verify_max_len`."""
    plain = {"model_type": "qwen2", "max_position_embeddings": 32768}
    assert too_long(plain, 32768) is None
    assert "max_position_embeddings=32768" in str(too_long(plain, 32769))
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    assert too_long({**plain, "rope_parameters": yarn}, 131072) is None
    assert too_long({**plain, "rope_scaling": {"full": yarn, "window": {"rope_type": "default"}}}, 131073)
    assert too_long({**plain, "model_max_length": 65536}, 65536) is None
    assert too_long({}, 10**6) is None
    config = {"model": "Qwen/Qwen2.5-7B-Instruct", "engine": {"type": "vllm"}}
    asked = estimate(Config.from_dict({**config, "inference": {"max_model_len": 65536}}))
    assert any("VLLM_ALLOW_LONG_MAX_MODEL_LEN" in note for note in asked.notes)
    assert not any("VLLM_ALLOW" in note for note in estimate(Config.from_dict(config)).notes)


SPLIT = (
    'LAYOUTS=("2,2" "4,1")\nfor L in "${LAYOUTS[@]}"; do\n  IFS=\',\' read -r TP PP <<< "$L"\n'
    '  OVER=" model.tensor_model_parallel_size=$TP model.pipeline_model_parallel_size=$PP train.micro_batch_size=1"\n'
    '  CMD="python scripts/training/run_recipe.py"\n  CMD="$CMD --recipe llama3_8b_pretrain_config $OVER"\n  srun bash -c "$CMD"\ndone\n'
)


def test_lists_that_read_splits():
    """NVIDIA-NeMo/Megatron-Bridge, examples/models/gpt_oss/slurm_peft.sh; deepseek_v4/slurm_pretrain.sh."""
    with pytest.raises(ConfigError, match="2 commands for 2 jobs"):
        read(("job.sh", SPLIT))
    second, _ = read_sources([Source("job.sh", SPLIT, 2)], 8)
    found = flat(second)
    assert found["parallelism.tensor_parallel_size"] == 4
    alone = SPLIT.replace("LAYOUTS=", "# ").partition("done")[0].partition("do\n")[2]
    one = f"L=${{L:-8,1}}\n{alone}"
    assert read(("job.sh", one), gpus=8)[0]["parallelism.tensor_parallel_size"] == 8
    assert read(("job.sh", one), gpus=8, L="2,2")[0]["parallelism.pipeline_parallel_size"] == 2


HANDED = (
    "import argparse\nfrom transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments\n"
    "from peft import LoraConfig, get_peft_model\n"
    "def lora(rank):\n    return LoraConfig(r=rank, target_modules=['q_proj'])\n"
    "def main(load_4bit, args):\n"
    "    if load_4bit:\n        bnb = BitsAndBytesConfig(load_in_4bit=True)\n"
    "        model = AutoModelForCausalLM.from_pretrained('gpt2', quantization_config=bnb)\n"
    "    else:\n        model = AutoModelForCausalLM.from_pretrained('gpt2')\n"
    "    if args.size is None:\n        args.size = 3\n"
    "    model = get_peft_model(model, lora(args.rank))\n"
    "    training = TrainingArguments(per_device_train_batch_size=args.size)\n"
    "    Trainer(model=model, args=training).train()\n"
    "p = argparse.ArgumentParser()\np.add_argument('--load-4bit', action='store_true')\n"
    "p.add_argument('--rank', type=int, default=32)\np.add_argument('--size', type=int, default=None)\n"
    "args = p.parse_args()\nmain(args.load_4bit, args)\n"
)


def test_what_functions_are_called_with():
    """AlexThunder01/Qwen-COBOL, scripts/train_sft.py; Alasdey/trl-sft-grpo; HAE-RAE/logical-puzzles."""
    found, _ = read(("train.py", HANDED), given=("training.sequence_length",))
    assert "training.quantization" not in found
    assert found["training.adapter.rank"] == 32
    assert found["training.micro_batch_size"] == 3
    twice = HANDED + "lora(8)\n"
    with pytest.raises(ConfigError, match=r"\$rank"):
        read(("train.py", twice), given=("training.sequence_length",))


def test_compose_files_that_override():
    """TimeTreker/chromie, docker-compose.sglang.yml."""
    text = "services:\n  a:\n    image: vllm/vllm-openai:v0.11.0\n    command: --model gpt2\n    ports: !override\n      - 1:1\n"
    assert read(("compose.yml", text))[0]["model"] == "gpt2"


def test_accelerate_starts_a_process_for_each_gpu():
    """modelscope/ms-swift, examples/train/multi-gpu/fsdp_qlora/train.sh."""
    script = "CUDA_VISIBLE_DEVICES=0,1 accelerate launch --config_file fsdp.json swift/cli/sft.py --model gpt2 --max_length 64"
    assert read(("train.sh", script))[0]["engine.type"] == "fsdp"


def test_a_stage_that_accelerate_does_not_ask_for():
    """accelerate, commands/launch.py, `_validate_launch_command`."""
    sharded = "distributed_type: FSDP\nfsdp_config: {fsdp_version: 2}\nnum_processes: 4\n"
    command = "accelerate launch --config_file f.yaml --zero_stage 3 t.py --model_name_or_path gpt2 --max_length 64"
    found, notes = read(("run.sh", f"{command} --per_device_train_batch_size 1"), ("f.yaml", sharded))
    assert (found["engine.type"], found.get("engine.zero_stage")) == ("fsdp", None)
    assert any("zero_stage has no effect" in note for note in notes)


def test_adapters_in_files_of_scripts():
    """The-FinAI/HARMONIC, src/FT/configs/lora_config_llama.json, as LianjiaTech/BELLE has it."""
    adapter = '{"lora_r": 16, "lora_alpha": 32, "lora_dropout": 0.05, "lora_target_modules": ["q_proj", "v_proj"]}'
    script = "torchrun --nproc_per_node 1 sft_train.py --model_name_or_path gpt2 --per_device_train_batch_size 2"
    found, _ = read(("run.sh", f"{script} --model_max_length 64 --lora_config lora.json"), ("lora.json", adapter))
    assert found["training.adapter.rank"] == 16
    assert found["training.adapter.target_modules"] == ["q_proj", "v_proj"]


def test_modules_of_an_interpreter_in_a_folder():
    """liushz/cogrpo_verl, scripts/launch_verifier_interns1_lora_llamafactory.sh."""
    script = (
        "rank=8\nrjob submit --gpu=8 -- bash -c \"\n  f='a.yaml' &&\n  cat > \\$f << EOF\nmodel_name_or_path: gpt2\n"
        "stage: sft\nfinetuning_type: lora\nlora_rank: $rank\ncutoff_len: 64\nEOF\n"
        '  /opt/envs/a/bin/python -m llamafactory.cli train \\$f\n"\n'
    )
    assert read(("launch.sh", script))[0]["training.adapter.rank"] == 8


def test_names_that_a_condition_spells_out():
    """dw-innovation/unsloth-training, train_unsloth.py: switches that a script gives as numbers."""
    script = (
        "import argparse\nfrom transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments\n"
        "p = argparse.ArgumentParser()\np.add_argument('--four', type=int, default={})\nargs = p.parse_args()\n"
        "four = args.four\nif four == 1:\n    four = True\nelse:\n    four = False\n"
        "model = AutoModelForCausalLM.from_pretrained('gpt2', quantization_config=BitsAndBytesConfig(load_in_4bit=four))\n"
        "Trainer(model=model, args=TrainingArguments(per_device_train_batch_size=1)).train()\n"
    )
    given = ("training.sequence_length",)
    assert read(("train.py", script.format(1)), given=given)[0]["training.quantization"] == "fp4"
    assert "training.quantization" not in read(("train.py", script.format(0)), given=given)[0]


def test_arguments_that_are_sifted_by_release():
    """JChangCL/grpo-qwen25-gsm8k-finetune, train_grpo.py: what this release of TRL does not know is left out."""
    script = (
        "from dataclasses import fields\nfrom trl import SFTConfig, SFTTrainer\n"
        "def main():\n    said = dict(per_device_train_batch_size=3, max_length=64)\n"
        "    known = {f.name for f in fields(SFTConfig)}\n"
        "    said = {k: v for k, v in said.items() if k in known}\n"
        "    SFTTrainer(model='gpt2', args=SFTConfig(**said)).train()\nmain()\n"
    )
    assert read(("train.py", script))[0]["training.micro_batch_size"] == 3


@pytest.mark.parametrize(
    ("more", "batch"),
    [
        ("said['per_device_train_batch_size'] = 5", 5),
        ("said.update(per_device_train_batch_size=6)", 6),
        ("said.update({'per_device_train_batch_size': 7})", 7),
        ("if args.big:\n        said['per_device_train_batch_size'] = 5", 3),
        ("if not args.big:\n        said['per_device_train_batch_size'] = 5", 5),
        ("if torch.cuda.device_count() > 1:\n        said['per_device_train_batch_size'] = 5", None),
    ],
)
def test_mappings_that_become_longer(more, batch):
    """What a script adds to the arguments that it hands over as one mapping counts; what only the run decides is asked."""
    script = (
        "import argparse, torch\nfrom trl import SFTConfig, SFTTrainer\n"
        "p = argparse.ArgumentParser()\np.add_argument('--big', action='store_true')\nargs = p.parse_args()\n"
        f"def main():\n    said = dict(per_device_train_batch_size=3, max_length=64)\n    {more}\n"
        "    SFTTrainer(model='gpt2', args=SFTConfig(**said)).train()\nmain()\n"
    )
    if batch is None:
        with pytest.raises(ConfigError, match="per_device_train_batch_size"):
            read(("train.py", script))
    else:
        assert read(("train.py", script))[0]["training.micro_batch_size"] == batch


FACTORY_FILE = (
    "model_name_or_path: Qwen/Qwen2.5-7B\nstage: sft\nfinetuning_type: full\ncutoff_len: 2048\n"
    "per_device_train_batch_size: 1\nbf16: true\n"
)
AXOLOTL_FILE = "base_model: Qwen/Qwen2.5-7B\nsequence_len: 2048\nmicro_batch_size: 1\nflash_attention: true\n"
FOUNDRY_FILE = (
    "max_seq_len: 2048\ndevice_train_microbatch_size: 4\nprecision: amp_bf16\nmodel:\n  name: hf_causal_lm\n"
    "  pretrained_model_name_or_path: meta-llama/Llama-2-7b-hf\nfsdp_config:\n  sharding_strategy: FULL_SHARD\n"
)
VLLM_FILE = "model: Qwen/Qwen2.5-7B\nmax-model-len: 2048\ngpu-memory-utilization: 0.5\n"
LENGTH, EACH = "training.sequence_length", "training.micro_batch_size"
OVERRIDDEN = [
    ("llamafactory-cli train x.yaml cutoff_len=512 \\\n  per_device_train_batch_size=4", FACTORY_FILE, {LENGTH: 512, EACH: 4}),
    ("torchrun --nproc_per_node 8 src/train.py x.yaml cutoff_len=512", FACTORY_FILE, {LENGTH: 512, "hardware.num_gpus": 8}),
    ("axolotl train x.yaml --sequence-len 512 --no-flash-attention", AXOLOTL_FILE, {LENGTH: 512, "training.attention": None}),
    ("accelerate launch --num_processes 4 -m axolotl.cli.train x.yaml --micro_batch_size=3", AXOLOTL_FILE, {EACH: 3}),
    ("composer -n 8 train/train.py x.yaml max_seq_len=512 device_train_microbatch_size=2", FOUNDRY_FILE,
     {LENGTH: 512, EACH: 2, "hardware.num_gpus": 8}),
    ("trl sft --config x.yaml --max_length 256 --accelerate_config zero3 --num_processes 4", TRL,
     {LENGTH: 256, EACH: 4, "engine.zero_stage": 3, "hardware.num_gpus": 4}),
    ("vllm serve --config x.yaml --max-model-len 512", VLLM_FILE,
     {"inference.max_model_len": 512, "engine.gpu_memory_utilization": 0.5, "model": "Qwen/Qwen2.5-7B"}),
    ("vllm serve Qwen/Qwen3-8B --config x.yaml", VLLM_FILE, {"inference.max_model_len": 2048, "model": "Qwen/Qwen3-8B"}),
]  # fmt: skip


@pytest.mark.parametrize(("command", "text", "wanted"), OVERRIDDEN, ids=range(len(OVERRIDDEN)))
def test_words_behind_a_file_hold(command, text, wanted):
    """Each program takes them in its own way: LLaMA-Factory and composer as words, axolotl and vLLM as flags."""
    found, _ = read(("run.sh", f"{command}\n"), ("x.yaml", text))
    assert {path: found.get(path) for path in wanted} == wanted


SLIME = """\
source "${SCRIPT_DIR}/models/qwen3-4B.sh"
CKPT=(--hf-checkpoint /models/Qwen3-4B --ref-load /models/ref)
PERF=(--tensor-model-parallel-size 2 --sequence-parallel --use-dynamic-batch-size --max-tokens-per-gpu 9216)
ray job submit -- python3 train.py --actor-num-nodes 1 --actor-num-gpus-per-node 8 --colocate ${MODEL_ARGS[@]} \\
  ${CKPT[@]} ${PERF[@]} --global-batch-size 256 --n-samples-per-prompt 8 --rollout-max-response-len 8192
"""
"""THUDM/slime, scripts/run-qwen3-4B.sh."""
STARTED = {
    SLIME: {
        "model": "Qwen/Qwen3-4B", "engine.type": "megatron", "engine.distributed_optimizer": True, LENGTH: 9216,
        "training.gradient_accumulation_steps": 64, "training.precision": "bf16-mixed", "hardware.num_gpus": 8,
    },
    "read -r -d '' C <<EOF\nopenrlhf.cli.train_sft --pretrain Qwen/Qwen3-8B \\\n  --micro_train_batch_size 2\nEOF\n"
    "deepspeed --num_gpus 4 --module $C\n": {EACH: 2, "hardware.num_gpus": 4},
    "srun -p x --nodes=2 --ntasks=16 --ntasks-per-node=8 python -u t.py --model_name_or_path OpenGVLab/InternVL3-8B \\\n"
    " --conv_style a --force_image_size 448 --per_device_train_batch_size 1 --use_packed_ds True": {
        "hardware.num_gpus": 16, "training.attention": "flash", "training.packed_sequences": True, LENGTH: 8192,
    },
}  # fmt: skip
"""JYudelson1/OpenRLHF-reward-hacking, train_sft_llama.sh; OpenGVLab/InternVL, internvl_chat/shell/internvl2.5."""


@pytest.mark.parametrize("text", STARTED, ids=("slime", "document", "srun"))
def test_what_starts_a_script_says_its_processes(text):
    found, _ = read(("run.sh", text))
    assert {path: found.get(path) for path in STARTED[text]} == STARTED[text]


def test_a_script_that_another_reads_by_a_variable():
    """JYudelson1/OpenRLHF-reward-hacking, train_llama_slurm.sh; simplescaling/s1, sft_slurm.sh with its JSON."""
    outer = 'readonly S="inner.sh"\nsource ./${S} slurm\nvllm serve Qwen/Qwen3-8B --max-model-len $N\n'
    assert read(("run.sh", outer), ("inner.sh", "N=512\n"))[0]["inference.max_model_len"] == 512
    script = (
        'torchrun --nproc_per_node 8 t.py --model_name Qwen/Qwen3-8B --fsdp "full_shard auto_wrap" --block_size=512'
        ' --fsdp_config="train/f.json" --per_device_train_batch_size 1 --bf16 True\n'
    )
    found, _ = read(("run.sh", script), ("f.json", '{"activation_checkpointing": true}'))
    assert (found["engine.type"], found["training.activation_checkpointing.policy"]) == ("fsdp", "full")


def test_what_is_rounded_and_what_is_frozen():
    """axolotl, examples/llama-3/3b-qat-fsdp2.yaml; torchtune, recipes/configs/llama3_2_vision/11B_lora.yaml."""
    rounded = f"{AXOLOTL_FILE}qat:\n  activation_dtype: int8\n  weight_dtype: int4\n"
    assert read(("a.yaml", rounded))[0]["training.fake_quantization"] == "int8-int4"
    vision = (
        "model:\n  _component_: torchtune.models.{}\n{}batch_size: 1\noptimizer: {{_component_: torch.optim.AdamW}}\n"
    )
    for said in ("", "  decoder_trainable: frozen\n"):
        with pytest.raises(UnsupportedError, match="model.decoder_trainable: found 'frozen'"):
            read(("t.yaml", vision.format("llama3_2_vision.lora_llama3_2_vision_11b", said)), gpus=1)
    found, notes = read(
        ("t.yaml", vision.format("llama4.lora_llama4_scout_17b_16e", "  decoder_trainable: lora\n")), gpus=1
    )
    assert found["training.adapter.type"] == "lora"
    assert any("adapters outside the decoder" in note for note in notes)


def test_spelling_is_of_no_account():
    """Lines that end as on Windows, and dashes in flags of scripts that `HfArgumentParser` reads."""
    flags = "--model_name_or_path gpt2 --per_device_train_batch_size 3 \\\n  --max_length 64 --bf16 True\n"
    plain, _ = read(("run.sh", f"accelerate launch --num_processes 2 sft.py {flags}"))
    dashed = f"accelerate launch --num_processes 2 sft.py {flags.replace('_', '-')}"
    assert read(("run.sh", dashed))[0] == read(("run.sh", dashed.replace("\n", "\r\n")))[0] == plain
    manifest = "apiVersion: v1\nkind: Service\n---\nspec:\n  containers:\n  - command: [vllm, serve, gpt2, --max-model-len, 64]\n"
    assert read(("k.yaml", manifest.replace("\n", "\r\n")))[0]["inference.max_model_len"] == 64


EVALUATED = """\
log() { echo "$1"; }
CMD="vllm serve \\"$MODEL\\" --max-model-len 4096"
info "Launching: $CMD --max-model-len 1"
eval "$CMD > \\"$LOG\\" 2>&1 &"
"""
THERE_OR_NOT = """\
FOLDER=${FOLDER:-/opt/models/Qwen3-8B}
if [ ! -d "$FOLDER" ]; then FOLDER=Qwen/Qwen3-8B; fi
python -m sglang.launch_server --model-path $FOLDER --mem-fraction-static 0.8 > ~/sglang.launch_server.log 2>&1 &
"""
BY_MEMORY = """\
gb=$(( $(sysctl -n hw.memsize) / 1073741824 ))
if [[ $gb -ge 64 ]]; then
  LEN=65536
else
  LEN=8192
fi
exec vllm serve Qwen/Qwen3-8B --max-model-len "$LEN"
"""
ENTRY_POINT = """\
services:
  a:
    image: vllm/vllm-openai:v0.10.0
    entrypoint: ["vllm", "serve", "Qwen/Qwen3-8B", "--max-model-len", "4096", # its only words
    ]
"""
MOUNTED = """\
services:
  a:
    image: vllm/vllm-openai:v0.10.0
    volumes: ["/srv/Qwen3-8B:/models/it:ro"]
    entrypoint: ["python3", "-m", "vllm.entrypoints.openai.api_server", "--max-model-len", "4096"]
    command: ["--model", "/models/it"]
"""
IN_DOCKER = (
    "docker run --device /dev/infiniband -v /srv/Qwen3-8B:/it vllm/vllm-openai:v0.10.0 --model /it --max-model-len 4096"
)


@pytest.mark.parametrize(
    ("text", "length"),
    [(EVALUATED, 4096), (THERE_OR_NOT, None), (BY_MEMORY, 65536), (ENTRY_POINT, 4096), (MOUNTED, 4096), (IN_DOCKER, 4096)],
    ids=["evaluated", "there or not", "by memory", "entry point", "mounted", "in docker"],
)  # fmt: skip
def test_one_server_is_started(text, length):
    """Neither what is printed nor a log's name starts another; a folder and a repository of one name are one model.

    FlexKV, scripts/launch_vllm_server.sh; qwen3vl-on-aws, sglang/start_server_eagle3.sh; a guide to Qwen on Macs,
    start-llama-server.sh; NapthaAI, vllm-models/*.yml; spark-hackathon, docker-compose-nemotron-trtllm.yaml.
    """
    found, _ = read(("start", text), MODEL="Qwen/Qwen3-8B", gb="64")
    assert find_model(found["model"]).name == "Qwen/Qwen3-8B"
    assert found.get("inference.max_model_len") == length


def test_variables_of_a_file_beside_a_script():
    """As compose reads `.env`; what the caller sets holds, and a file that a script sources stands in its place."""
    script = ("compose.yml", "services: {a: {image: vllm/vllm-openai, command: '--model $MODEL -tp ${TP:-1}'}}")
    file = (".env.example", '# of the server\nMODEL="Qwen/Qwen3-8B" # small\nexport TP=2\n')
    found, _ = read(script, file)
    assert (found["model"], found["parallelism.tensor_parallel_size"]) == ("Qwen/Qwen3-8B", 2)
    assert read(script, file, TP="4")[0]["parallelism.tensor_parallel_size"] == 4
    sourced = ("run.sh", "source ./server.env\nvllm serve $MODEL")
    assert read(sourced, ("server.env", "MODEL=Qwen/Qwen3-4B\n"))[0]["model"] == "Qwen/Qwen3-4B"


@pytest.mark.parametrize("named", ["./Qwen3-8B-Q4_K_M.gguf", "unsloth/Qwen3-8B-GGUF:Q4_K_M"])
def test_gguf_is_not_taken_for_16_bits(named):
    """A server of other formats refuses it, by a file's name and by a repository's, and a type that is asked for."""
    with pytest.raises(UnsupportedError, match="GGUF files are not supported yet with vLLM; llama.cpp and Ollama"):
        read(("start.sh", f"vllm serve {named} --max-model-len 4096"))
    for settings in ({"quantization": "q4_k_m"}, {}):
        config = {"model": "unsloth/Qwen3-8B-GGUF", "inference": settings, "engine": {"type": "sglang"}}
        with pytest.raises(UnsupportedError, match="GGUF files are not supported yet with SGLang"):
            estimate(Config.from_dict(config))
