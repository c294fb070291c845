"""Jobs that are too big as people ask for them, and the first move of somebody who knows: it is among the first plans."""

import json
from pathlib import Path

import pytest

from memcore import estimate, plan
from memcore.questions.planning.plan import KEEP, MOST
from memcore.questions.planning.rows import TIERS

pytestmark = pytest.mark.machine
PRE = {"goal": "pre-train"}


def gpus(number, accelerator="h100-sxm-80gb"):
    """What a job runs on."""
    return {"num_gpus": number, "accelerator": accelerator}


def train(model, length, hardware, engine=None, **training):
    """A training job."""
    found = {"model": model, "training": {"sequence_length": length, **training}, "hardware": hardware}
    return found if engine is None else {**found, "engine": {"type": engine}}


def serve(model, length, hardware, engine="vllm", **inference):
    """A server."""
    return {
        "model": model,
        "engine": {"type": engine},
        "inference": {"max_model_len": length, **inference},
        "hardware": hardware,
    }


LORA = {"type": "lora", "rank": 16}
FULL, NF4 = "training.activation_checkpointing.policy", "training.quantization"
ADAPTER, TENSOR, STAGES = (
    "training.adapter.type",
    "parallelism.tensor_parallel_size",
    "parallelism.pipeline_parallel_size",
)
FORMAT, CACHE, LAYERS = "inference.quantization", "inference.kv_cache_dtype", "engine.n_gpu_layers"
SHARED_OPTIMIZER, EXPERTS = "engine.distributed_optimizer", "parallelism.expert_parallel_size"
JOBS = {
    # The eleven: job, goal, and settings of which one of the first three plans has all
    "7B on 24 GB": (train("llama-2-7b-hf", 2048, gpus(1, "rtx-4090")), {}, {ADAPTER: "lora", FULL: "full"}),
    "70B LoRA on 80 GB": (train("llama-3.1-70b", 2048, gpus(1), adapter=LORA, precision="bf16"), {}, {NF4: "nf4"}),
    "8B at 128k": (train("llama-3.1-8b", 131072, gpus(8)), {}, {"parallelism.context_parallel_size": 8}),
    "Mixtral on 16": (
        train("mixtral-8x7b-v0.1", 4096, gpus(16), "megatron"), PRE, {SHARED_OPTIMIZER: True},
    ),
    "405B on 504": (
        train("llama-3.1-405b", 8192, gpus(504), "megatron"), PRE, {SHARED_OPTIMIZER: True, TENSOR: 8, STAGES: 7},
    ),
    "llama.cpp 70B on 24 GB": (serve("llama-3.1-70b", 8192, gpus(1, "rtx-4090"), "llama.cpp"), {}, {LAYERS: ...}),
    "vLLM 70B on 2 of 24 GB": (serve("llama-3.1-70b", 8192, gpus(2, "rtx-4090")), {}, {FORMAT: "awq", TENSOR: 2}),
    "8B on one of 80 GB": (train("llama-3.1-8b", 4096, gpus(1)), {}, {FULL: "full"}),
    "70B on 8": (train("llama-3.1-70b", 4096, gpus(8)), {}, {ADAPTER: "lora"}),
    "13B on 8 of 40 GB": (train("llama-2-13b-hf", 4096, gpus(8, "a100-sxm-40gb")), {}, {FULL: "full"}),
    "70B for 50 users": (serve("llama-3.1-70b", 8192, gpus(4), batch_size=50), {}, {TENSOR: 4}),
    # Further ones, their first moves written down before they were run
    "3B on 16 GB": (train("llama-3.2-3b", 2048, gpus(1, "t4"), precision="fp16"), {}, {ADAPTER: "lora"}),
    "1B on 24 GB": (train("llama-3.2-1b", 8192, gpus(1, "rtx-3090")), {}, {"training.loss": "fused-linear"}),
    "32B on 24 GB": (train("qwen3-32b", 1024, gpus(1, "rtx-4090")), {}, {NF4: "nf4"}),
    "32B on 8 of 80 GB": (train("qwen3-32b", 4096, gpus(8)), {}, {FULL: "full"}),
    "8B at 32k on 4": (train("llama-3.1-8b", 32768, gpus(4)), {}, {FULL: "full"}),
    "8B on 2 of 24 GB": (train("llama-3.1-8b", 2048, gpus(2, "rtx-4090")), {}, {ADAPTER: "lora"}),
    "8B DDP on 8": (train("llama-3.1-8b", 2048, gpus(8), "ddp"), {}, {"engine.type": "fsdp"}),
    "8B ZeRO-1 on 8 of 40 GB": (
        {**train("llama-3.1-8b", 2048, gpus(8, "a100-sxm-40gb")), "engine": {"type": "deepspeed", "zero_stage": 1}},
        {}, {"engine.zero_stage": 3},
    ),
    "70B on 64": (train("llama-3.1-70b", 8192, gpus(64)), PRE, {FULL: "full"}),
    "8x22B on 64": (train("mixtral-8x22b-v0.1", 4096, gpus(64), "megatron"), PRE, {SHARED_OPTIMIZER: True}),
    "30B-A3B on 8": (train("qwen3-30b-a3b", 4096, gpus(8)), {}, {FULL: "full"}),
    "405B on 1,024": (train("llama-3.1-405b", 8192, gpus(1024), "megatron"), PRE, {TENSOR: 8}),
    "32B vLLM on 24 GB": (serve("qwen3-32b", 4096, gpus(1, "rtx-4090")), {}, {FORMAT: "awq"}),
    "70B vLLM on 80 GB": (serve("llama-3.1-70b", 8192, gpus(1)), {}, {FORMAT: "fp8"}),
    "8B vLLM at 128k on 24 GB": (serve("llama-3.1-8b", 131072, gpus(1, "rtx-4090")), {}, {CACHE: "fp8"}),
    "70B SGLang on 2": (serve("llama-3.1-70b", 8192, gpus(2), "sglang"), {}, {TENSOR: 2}),
    "32B llama.cpp on 16 GB": (serve("qwen3-32b", 8192, gpus(1, "t4"), "llama.cpp"), {}, {LAYERS: ...}),
    "405B vLLM on 8": (serve("llama-3.1-405b", 8192, gpus(8)), {}, {FORMAT: "fp8", TENSOR: 8}),
    "14B generate on 24 GB": (serve("qwen3-14b", 4096, gpus(1, "rtx-4090"), "transformers"), {}, {FORMAT: "int8"}),
}  # fmt: skip

HOST, OPTIMIZER = "engine.cpu_offload", "training.optimizer.name"
RECIPES = {
    # Others, whose first moves are those of published recipes, written down before they were run
    # axolotl, examples/llama-3/qlora-fsdp-70b.yaml
    "70B on 2 of 24 GB": (train("llama-3.1-70b", 512, gpus(2, "rtx-4090")), {}, {NF4: "nf4"}),
    # torchtune, llama3_1/405B_qlora; it checkpoints fully, where the plan does so selectively and still fits
    "405B on 8": (train("llama-3.1-405b", 2048, gpus(8)), {}, {NF4: "nf4"}),
    # torchtune, llama3_3/70B_full
    "70B in full on 8": (train("llama-3.3-70b", 2048, gpus(8)), {"quality": "same"}, {HOST: True, FULL: "full"}),
    # torchtune, llama3_3/70B_full_multinode
    "70B in full on 16": (train("llama-3.3-70b", 1024, gpus(16)), {"quality": "same"}, {FULL: "full", TENSOR: 8}),
    # torchtune, gemma2/27B_lora
    "27B on 4 of 80 GB": (train("gemma-2-27b", 2048, gpus(4)), {}, {ADAPTER: "lora", FULL: "full"}),
    # Unsloth, notebooks: gpt-oss-20b with QLoRA on a T4
    "20B of experts on 16 GB": (train("gpt-oss-20b", 1024, gpus(1, "t4"), precision="fp16"), {}, {ADAPTER: "lora"}),
    # axolotl, examples/expert_parallel/qwen3_30ba3b_ep_fsdp_fft_4gpu.yaml
    "30B-A3B on 4": (train("qwen3-30b-a3b", 2048, gpus(4)), {}, {FULL: "full", OPTIMIZER: "adamw-8bit"}),
    # torchtune, phi4/14B_full_low_memory
    "14B in full on 80 GB": (train("phi-4", 2048, gpus(1)), {"quality": "close"}, {FULL: "full", OPTIMIZER: "adamw-8bit"}),
    # torchtune, llama3_2/3B_full_single_device
    "3B in full on 24 GB": (
        train("llama-3.2-3b", 2048, gpus(1, "rtx-4090")), {"quality": "close"}, {FULL: "full", OPTIMIZER: "adamw-8bit"},
    ),
    # axolotl, examples/mistral: mixtral-qlora
    "Mixtral on 48 GB": (train("mixtral-8x7b-v0.1", 2048, gpus(1, "rtx-a6000")), {}, {NF4: "nf4", FULL: "full"}),
    # Megatron Bridge, perf_recipes/deepseek/b300: 256 GPUs
    "DeepSeek-V3 on 256 B300": (
        train("deepseek-v3", 4096, gpus(256, "b300"), "megatron"), PRE, {STAGES: 8, EXPERTS: 8},
    ),
    # perf_recipes/qwen/gb200: 64 GPUs
    "235B on 64 GB200": (train("qwen3-235b-a22b", 4096, gpus(64, "gb200"), "megatron"), PRE, {STAGES: 8, EXPERTS: 8}),
    # perf_recipes/llama/h100: 64 GPUs, TP4 PP4 CP2
    "70B on 64 by Megatron": (train("llama-3-70b", 8192, gpus(64), "megatron"), PRE, {TENSOR: 4}),
    # perf_recipes/qwen/h100: 16 GPUs
    "30B-A3B on 16 by Megatron": (train("qwen3-30b-a3b", 4096, gpus(16), "megatron"), PRE, {EXPERTS: ...}),
    # vLLM recipes, Llama/Llama3.3-70B.md: FP8 on Hopper
    "70B for 64 users on 2": (serve("llama-3.3-70b", 8192, gpus(2), batch_size=64), {}, {FORMAT: "fp8", TENSOR: 2}),
    # vLLM recipes, Qwen/Qwen3.md: FP8 on four
    "235B vLLM on 4": (serve("qwen3-235b-a22b", 16384, gpus(4)), {}, {FORMAT: "fp8"}),
    # vLLM recipes, Llama/Llama4-Scout.md: FP8
    "Scout vLLM on 2": (serve("llama-4-scout-17b-16e", 8192, gpus(2)), {}, {FORMAT: "fp8"}),
    # llama.cpp, tools/server/README.md, --n-cpu-moe: experts stay on the host
    "30B-A3B llama.cpp on 16 GB": (
        serve("qwen3-30b-a3b", 8192, gpus(1, "t4"), "llama.cpp"), {}, {"engine.n_cpu_moe": ...},
    ),
    # Unsloth, documentation: long contexts with QLoRA
    "8B at 32k on 24 GB": (train("llama-3.1-8b", 32768, gpus(1, "rtx-4090")), {}, {ADAPTER: "lora", FULL: "full"}),
}  # fmt: skip

LATER = {
    # Twelve more of the same kind, from other recipes: eight were right when they were first asked
    # axolotl, examples/gpt-oss/README.md: offloading, 2 × 24 GB
    "20B of experts in full on 2 of 24 GB": (
        train("gpt-oss-20b", 4096, gpus(2, "rtx-4090")), {"quality": "same"}, {HOST: True, FULL: "full"},
    ),
    # the same: 4 × 80 GB
    "20B of experts in full on 4": (
        train("gpt-oss-20b", 4096, gpus(4)), {"quality": "close"}, {FULL: "full", OPTIMIZER: "adamw-8bit"},
    ),
    # the same: offloading, 8 × 80 GB
    "120B of experts in full on 8": (
        train("gpt-oss-120b", 4096, gpus(8)), {"quality": "same"}, {HOST: True, FULL: "full"},
    ),
    # the same: LoRA, 48 GB
    "20B of experts on 48 GB": (train("gpt-oss-20b", 4096, gpus(1, "rtx-a6000")), {}, {ADAPTER: "lora"}),
    # axolotl, examples/glm45/README.md: QLoRA, 80 GB
    "106B of experts on 80 GB": (train("glm-4.5-air", 2048, gpus(1)), {}, {NF4: "nf4", FULL: "full"}),
    # axolotl, examples/archived/yi-34B-chat/README.md: QLoRA, 24 GB
    "34B on 24 GB": (train("yi-34b", 1024, gpus(1, "rtx-4090")), {}, {NF4: "nf4", FULL: "full"}),
    # axolotl, examples/devstral/README.md: QLoRA, 21 GB
    "Devstral on 24 GB": (train("devstral-small-2507", 2048, gpus(1, "rtx-4090")), {}, {NF4: "nf4"}),
    # axolotl, examples/archived/code-llama/README.md: QLoRA, 40 GB and more
    "34B on 48 GB": (train("codellama-34b-hf", 4096, gpus(1, "rtx-a6000")), {}, {NF4: "nf4"}),
    # axolotl, examples/archived/dbrx/README.md: LoRA in 16 bits, 8 × 80 GB
    "DBRX on 8": (train("dbrx-base", 512, gpus(8)), {}, {ADAPTER: "lora", FULL: "full"}),
    # Megatron Bridge, perf_recipes/qwen/h100: TP2 PP8 EP32
    "235B on 256": (train("qwen3-235b-a22b", 4096, gpus(256), "megatron"), PRE, {STAGES: 8}),
    # perf_recipes/kimi/h100: TP8 PP16 EP64
    "Kimi K2 on 1,024": (train("kimi-k2-base", 4096, gpus(1024), "megatron"), PRE, {STAGES: 16}),
    # perf_recipes/gpt_oss/h100: PP4 EP8
    "120B of experts on 64": (train("gpt-oss-120b", 4096, gpus(64), "megatron"), PRE, {STAGES: 4, EXPERTS: 8}),
}  # fmt: skip

PARAMETERS, FORM = "engine.offload_param", "training.quantization"
LATEST = {
    # Twelve more, written down before they were asked
    # axolotl, examples/seed-oss/README.md: QLoRA, 27.7 GiB
    "36B on 48 GB": (
        train("seed-oss-36b-instruct", 2048, gpus(1, "rtx-a6000"), micro_batch_size=2), {}, {NF4: "nf4", FULL: "full"},
    ),
    # axolotl, examples/mistral-small/mistral-small-3.1-24B-lora.yml and README.md: LoRA on 8-bit weights, 29.4 GiB
    "24B on 40 GB": (
        train("mistral-small-3.1-24b-instruct-2503", 2048, gpus(1, "a100-sxm-40gb"), micro_batch_size=2), {},
        {ADAPTER: "lora", FORM: "int8"},
    ),
    # axolotl, examples/mistral/bigstral/bigstral-ds-zero3.yaml: ZeRO-3, parameters on the host, 8 × 80 GB
    "8x22B in full on 8": (
        train("mixtral-8x22b-v0.1", 2048, gpus(8), "deepspeed"), {}, {PARAMETERS: "cpu", FULL: "full"},
    ),
    # axolotl, examples/llama-3/README.md and fft-8b.yaml: 8-bit Adam, 48 GB
    "8B in full on 48 GB": (
        train("llama-3.1-8b", 8192, gpus(1, "rtx-a6000")), {}, {OPTIMIZER: "adamw-8bit", FULL: "full"},
    ),
    # axolotl, examples/alst/llama3-8b-fsdp2-alst.yaml: 500,000 tokens over 8 GPUs
    "8B at 512k on 8": (
        train("llama-3.1-8b", 524288, gpus(8)), {}, {"parallelism.context_parallel_size": 8, FULL: "full"},
    ),
    # axolotl, examples/qwen3-next/README.md: QLoRA without experts, 47 GiB
    "80B-A3B on 80 GB": (
        train("qwen3-next-80b-a3b-instruct", 2048, gpus(1, "a100-sxm-80gb"), micro_batch_size=2), {}, {NF4: "nf4"},
    ),
    # Megatron Bridge, perf_recipes/deepseek/h100: TP2 PP8 EP64, 16,384 sequences
    "DeepSeek-V3 on 1,024": (
        train("deepseek-v3", 4096, gpus(1024), "megatron", gradient_accumulation_steps=16), PRE,
        {STAGES: 8, EXPERTS: 64},
    ),
    # perf_recipes/llama/h100: TP8 PP8 CP2, 768 sequences
    "405B on 512": (
        train("llama-3.1-405b", 8192, gpus(512), "megatron", gradient_accumulation_steps=2), PRE, {TENSOR: 8, STAGES: 8},
    ),
    # the same: TP4 PP4, 32 sequences
    "70B in full on 32 by Megatron": (
        train("llama-3-70b", 4096, gpus(32), "megatron"), {"quality": "same"}, {TENSOR: 4, STAGES: 4},
    ),
    # vLLM, docs/serving/parallelism_scaling.md: tensor parallel in a node, pipeline over nodes
    "DeepSeek-V3 vLLM on 16": (serve("deepseek-v3", 8192, gpus(16)), {}, {TENSOR: 8, STAGES: 2}),
    # vLLM recipes, Qwen/Qwen3-Coder-480B-A35B.md: FP8 on eight
    "480B vLLM on 8": (serve("qwen3-coder-480b-a35b-instruct", 16384, gpus(8)), {}, {FORMAT: "fp8", TENSOR: 8}),
    # llama.cpp, discussion 15396 (gpt-oss): experts stay on the host
    "120B llama.cpp on 24 GB": (
        serve("gpt-oss-120b", 8192, gpus(1, "rtx-4090"), "llama.cpp"), {}, {"engine.n_cpu_moe": ...},
    ),
}  # fmt: skip

RANKS = "parallelism.context_parallel_size"
WRITTEN = {
    # Fifteen more, written down before they were asked
    # Unsloth, documentation, requirements: 8B with QLoRA takes 6 GB
    "8B on 8 GB": (
        train("llama-3.1-8b", 1024, {**gpus(1, "rtx-3090"), "gpu_memory_gb": 8}), {}, {NF4: "nf4", FULL: "full"},
    ),
    # Unsloth, notebooks, Qwen3 (14B): QLoRA on a T4
    "14B on 16 GB": (
        train("qwen3-14b", 2048, gpus(1, "t4"), precision="fp16", micro_batch_size=2), {}, {NF4: "nf4", FULL: "full"},
    ),
    # Unsloth, documentation, requirements: 27B with QLoRA takes 22 GB, LoRA 64
    "27B on 24 GB": (train("gemma-3-27b-pt", 1024, gpus(1, "rtx-4090")), {}, {NF4: "nf4", FULL: "full"}),
    # axolotl, examples/glm47-flash/README.md: LoRA with FSDP2 without experts on 2 × 48 GB, 43 GiB each
    "30B of experts on 2 of 48 GB": (
        train("glm-4.7-flash", 2048, gpus(2, "rtx-a6000")), {}, {ADAPTER: "lora", FULL: "full"},
    ),
    # Megatron Bridge, recipes/llama/h100/llama3.py, 16k: TP4 PP2 CP2 on 16; torchtitan's 8B on 8 with CP at 64k
    "8B at 64k on 8 by Megatron": (train("llama-3-8b", 65536, gpus(8), "megatron"), PRE, {RANKS: ...}),
    # axolotl, examples/llama-4/README.md: QLoRA on one H100 at 4k, 64.5 GB
    "Scout on 80 GB": (train("llama-4-scout-17b-16e", 4096, gpus(1)), {}, {NF4: "nf4", FULL: "full"}),
    # alignment-handbook, recipes/zephyr-7b-beta/dpo/config_qlora.yaml: one RTX 4090 (scripts/README.md)
    "DPO of 7B on 24 GB": (
        train("mistral-7b-v0.1", 1024, gpus(1, "rtx-4090"), method="dpo", micro_batch_size=4), {},
        {ADAPTER: "lora", NF4: "nf4", FULL: "full"},
    ),
    # alignment-handbook, recipes/zephyr-7b-beta/dpo/config_full.yaml with ZeRO-3 on 8 × 80 GB
    "DPO of 7B in full on 8": (
        {
            **train("mistral-7b-v0.1", 1024, gpus(8), method="dpo", micro_batch_size=8),
            "engine": {"type": "deepspeed", "zero_stage": 0},
        },
        {"quality": "same"}, {"engine.zero_stage": 3, FULL: "full"},
    ),
    # torchtune, recipes/configs/dev/3B_full_grpo.yaml: all weights, checkpoints, 8 GPUs
    "GRPO of 3B in full on 8": (
        train("llama-3.2-3b", 1024, gpus(8), method="grpo", micro_batch_size=16), {}, {FULL: "full"},
    ),
    # alignment-handbook, recipes/zephyr-141b-A35b/orpo/config_full.yaml: bf16, 8-bit Adam, FSDP on 32 × 80 GB
    "ORPO of 8x22B on 32": (
        train("mixtral-8x22b-v0.1", 2048, gpus(32), method="orpo"), {}, {FULL: "full", OPTIMIZER: "adamw-8bit"},
    ),
    # Megatron Bridge, perf_recipes/llama/gb200/llama31.py: TP4 PP16, 1,536 sequences
    "405B on 256 GB200": (
        train("llama-3.1-405b", 8192, gpus(256, "gb200"), "megatron", gradient_accumulation_steps=6), PRE,
        {TENSOR: 4, STAGES: 16},
    ),
    # vLLM recipes, OpenAI/GPT-OSS.md: weights as they are, TP2
    "120B of experts for 200 users on 2": (
        serve("gpt-oss-120b", 8192, gpus(2), batch_size=200), {}, {TENSOR: 2},
    ),
    # vLLM recipes, Qwen/Qwen3-VL.md: FP8, TP8 or TP4
    "235B with images for 50 users on 8": (
        serve("qwen3-vl-235b-a22b-instruct", 16384, gpus(8), batch_size=50), {}, {FORMAT: "fp8", TENSOR: ...},
    ),
    # Qwen3.5-35B-A3B in two bits, 10.6 GB, on a Mac with 16 GB (walter-grace/mac-code, README.md), of which Metal
    # recommends to use two thirds; the file is unsloth's IQ2_M, and llama-quantize's has 2 GB more
    "35B-A3B llama.cpp on a Mac of 16 GB": (
        serve("qwen3.5-35b-a3b", 4096, {**gpus(1, "rtx-4090"), "gpu_memory_gb": 11}, "llama.cpp"), {},
        {FORMAT: "iq2_xxs"},
    ),
    # torchtune, recipes/configs/llama3_2_vision/11B_qlora_single_device.yaml: one GPU of 24 GB
    "11B with images on 24 GB": (
        train("llama-3.2-11b-vision-instruct", 2048, gpus(1, "rtx-4090"), micro_batch_size=2), {},
        {NF4: "nf4", FULL: "full"},
    ),
}  # fmt: skip

AGAIN = {
    # Ten more, written down after the fifteen were mended
    # Megatron Bridge, recipes/glm/h100/glm45.py: PP4 EP8
    "106B of experts on 32": (
        train("glm-4.5-air", 4096, gpus(32), "megatron", gradient_accumulation_steps=64), PRE, {STAGES: 4, EXPERTS: 8},
    ),
    # Megatron Bridge, recipes/llama/h100/llama3.py: LoRA, TP8
    "70B LoRA on 8 by Megatron": (train("llama-3.1-70b", 4096, gpus(8), "megatron"), {}, {ADAPTER: "lora", TENSOR: 8}),
    # axolotl, examples/gemma4/README.md: QLoRA, 25.2 GiB
    "31B on 32 GB": (train("gemma-4-31b", 2048, gpus(1, "rtx-5090")), {}, {NF4: "nf4", FULL: "full"}),
    # Unsloth, notebooks, Llama 3.1 (8B) GRPO: 4 bits on a T4
    "GRPO of 8B on 16 GB": (
        train("llama-3.1-8b", 1024, gpus(1, "t4"), precision="fp16", method="grpo", micro_batch_size=2), {},
        {NF4: "nf4"},
    ),
    # torchtune, recipes/configs/llama3_2_vision/90B_qlora.yaml: 4 GPUs
    "90B with images on 4": (
        train("llama-3.2-90b-vision-instruct", 2048, gpus(4), micro_batch_size=2), {}, {NF4: "nf4", FULL: "full"},
    ),
    # vLLM recipes, Google/Gemma4.md: TP2 in bf16
    "31B for 50 users on 2": (serve("gemma-4-31b", 8192, gpus(2), batch_size=50), {}, {TENSOR: 2}),
    # vLLM recipes, MiniMax/MiniMax-M2.md: TP4, weights as they are published
    "229B for 20 users on 4": (serve("minimax-m2", 16384, gpus(4), batch_size=20), {}, {TENSOR: 4}),
    # vLLM recipes, Mistral/Mistral-Large-3.md: FP8 on 8 × H200, TP8
    "675B on 8 of 141 GB": (
        serve("mistral-large-3-675b-instruct-2512", 16384, gpus(8, "h200-sxm-141gb"), batch_size=20), {}, {TENSOR: 8},
    ),
    # unsloth, Qwen3-235B-A22B-GGUF: experts on the host
    "235B llama.cpp on 24 GB": (
        serve("qwen3-235b-a22b", 8192, gpus(1, "rtx-4090"), "llama.cpp"), {}, {"engine.n_cpu_moe": ...},
    ),
    # axolotl, examples/glm47-flash/README.md: QLoRA with experts in NF4, 24 GiB
    "30B of experts on 48 GB": (train("glm-4.7-flash", 2048, gpus(1, "rtx-a6000")), {}, {NF4: "nf4", FULL: "full"}),
}  # fmt: skip

RECENT = {
    # Ten more, written down before they were asked
    # torchtune, recipes/configs/qwen2_5/72B_lora.yaml: LoRA in bf16 with FSDP on 8, two sequences each, checkpoints
    "72B on 8": (train("qwen2.5-72b-instruct", 2048, gpus(8), micro_batch_size=2), {}, {ADAPTER: "lora", FULL: "full"}),
    # axolotl, examples/magistral/magistral-small-qlora.yaml and README.md: QLoRA, 24 GB
    "Magistral on 24 GB": (
        train("magistral-small-2506", 2048, gpus(1, "rtx-4090"), micro_batch_size=2), {}, {NF4: "nf4", FULL: "full"},
    ),
    # axolotl, examples/olmo3/olmo3-7b-qlora.yaml and README.md: QLoRA, 11.3 GiB
    "OLMo 3 on 16 GB": (
        train("olmo-3-7b-instruct", 2048, gpus(1, "t4"), precision="fp16", micro_batch_size=2), {},
        {NF4: "nf4", FULL: "full"},
    ),
    # axolotl, examples/qwen3.5/27b-qlora.yaml and README.md: QLoRA, 47 GiB
    "27B of two kinds of attention on 48 GB": (
        train("qwen3.5-27b", 2048, gpus(1, "rtx-a6000")), {}, {NF4: "nf4", FULL: "full"},
    ),
    # axolotl, examples/mistral4/README.md: QLoRA without experts, 69 GiB
    "119B of experts on 80 GB": (
        train("mistral-small-4-119b-2603", 2048, gpus(1)), {}, {NF4: "nf4", FULL: "full"},
    ),
    # axolotl, examples/llama-3/instruct-dpo-lora-8b.yml: LoRA on 8-bit weights, two pairs of 4,096 tokens
    "DPO of 8B on 48 GB": (
        train("llama-3-8b-instruct", 4096, gpus(1, "rtx-a6000"), method="dpo", micro_batch_size=2), {},
        {ADAPTER: "lora", FULL: "full"},
    ),
    # Megatron Bridge, recipes/glm/h100/glm45.py: TP2 PP8 EP16, 2,048 sequences
    "355B of experts on 128": (
        train("glm-4.5", 4096, gpus(128), "megatron", gradient_accumulation_steps=16), PRE, {STAGES: 8, EXPERTS: 16},
    ),
    # Megatron Bridge, recipes/qwen/h100/qwen3.py: TP8 PP2 with full recomputation
    "32B on 16 by Megatron": (
        train("qwen3-32b", 4096, gpus(16), "megatron", gradient_accumulation_steps=2), PRE, {TENSOR: 8},
    ),
    # vLLM recipes, Qwen/Qwen2.5-VL.md: TP4 in bf16 on 4 × A100 80 GB, 65,536 tokens for most scenarios
    "72B with images on 4": (
        serve("qwen2.5-vl-72b-instruct", 65536, gpus(4, "a100-sxm-80gb")), {}, {TENSOR: 4},
    ),
    # vLLM recipes, Qwen/Qwen3-Next.md: TP4 on 4 × A100, 10 requests at a time
    "80B-A3B vLLM on 4": (
        serve("qwen3-next-80b-a3b-instruct", 32768, gpus(4, "a100-sxm-80gb"), batch_size=10), {}, {TENSOR: 4},
    ),
}  # fmt: skip

NEWEST = {
    # Twelve more, written down before they were asked
    # torchtune, recipes/configs/llama2/13B_full.yaml: FSDP on 4 GPUs, two sequences each, checkpoints
    "13B in full on 4 of 40 GB": (
        train("llama-2-13b-hf", 2048, gpus(4, "a100-sxm-40gb"), micro_batch_size=2), {}, {FULL: "full"},
    ),
    # Liger's loss holds the gradient of the whole head (ops/fused_linear_cross_entropy.py), which is more than the logits
    "8B in full, short sequences": (
        train("qwen3-8b", 512, gpus(8)), {}, {"engine.type": "fsdp", "training.loss": "cross-entropy-fp32"},
    ),
    # torchtune, recipes/configs/llama4/scout_17B_16E_full.yaml: 8 × A100, parameters on the host, checkpoints
    "Scout in full on 8": (
        train("llama-4-scout-17b-16e", 2048, gpus(8, "a100-sxm-80gb")), {"quality": "same"}, {HOST: True, FULL: "full"},
    ),
    # torchtune, recipes/configs/llama3_2_vision/90B_lora.yaml: 4 GPUs and more, 8,192 tokens, two sequences each
    "90B LoRA with images on 4": (
        train("llama-3.2-90b-vision-instruct", 8192, gpus(4), micro_batch_size=2), {}, {ADAPTER: "lora", FULL: "full"},
    ),
    # torchtune, recipes/configs/llama3_1/8B_full_dpo.yaml: 4 GPUs, four pairs each, checkpoints
    "DPO of 8B in full on 4": (
        train("llama-3.1-8b", 1024, gpus(4), method="dpo", micro_batch_size=4), {}, {FULL: "full"},
    ),
    # axolotl, examples/arcee/afm-4.5b-qlora.yaml and README.md: QLoRA, 7.8 GiB
    "4.5B on 12 GB": (
        train("afm-4.5b-base", 2048, gpus(1, "rtx-3060-12gb"), micro_batch_size=2), {}, {NF4: "nf4", FULL: "full"},
    ),
    # axolotl, examples/kimi-linear/kimi-48b-lora.yaml and README.md: LoRA on 8-bit weights, 98.7 GiB
    "48B-A3B on 141 GB": (
        train("kimi-linear-48b-a3b-instruct", 2048, gpus(1, "h200-sxm-141gb"), micro_batch_size=2), {},
        {ADAPTER: "lora", FULL: "full"},
    ),
    # axolotl, examples/qwen3.5/122b-a10b-moe-qlora.yaml: QLoRA with experts in NF4 on one GPU
    "122B-A10B on 80 GB": (train("qwen3.5-122b-a10b", 2048, gpus(1)), {}, {NF4: "nf4", FULL: "full"}),
    # Megatron Bridge, recipes/moonlight/h100/moonlight_16b.py: EP8, 2,048 sequences
    "16B-A3B on 8 by Megatron": (
        train("moonlight-16b-a3b", 4096, gpus(8), "megatron", gradient_accumulation_steps=256), PRE, {EXPERTS: 8},
    ),
    # Megatron Bridge, recipes/llama/h100/llama3.py, 64k: TP8 PP4 CP8, 512 sequences
    "70B at 64k on 256": (
        train("llama-3-70b", 65536, gpus(256), "megatron", gradient_accumulation_steps=2), PRE, {TENSOR: 8, RANKS: ...},
    ),
    # vLLM recipes, models/Qwen/Qwen3.5-122B-A10B.yaml: FP8 on 2 × H200
    "122B-A10B vLLM on 2 of 141 GB": (
        serve("qwen3.5-122b-a10b", 32768, gpus(2, "h200-sxm-141gb"), batch_size=10), {}, {FORMAT: "fp8", TENSOR: 2},
    ),
    # vLLM recipes, models/ByteDance-Seed/Seed-OSS-36B-Instruct.yaml: bf16 with TP8, on RTX 3090 too
    "36B vLLM on 8 of 24 GB": (
        serve("seed-oss-36b-instruct", 32768, gpus(8, "rtx-3090"), batch_size=8), {}, {TENSOR: 8},
    ),
    # llama.cpp, tools/server/README.md, --n-cpu-moe: experts stay on the host
    "106B llama.cpp on 24 GB": (
        serve("glm-4.5-air", 16384, gpus(1, "rtx-3090"), "llama.cpp"), {}, {"engine.n_cpu_moe": ...},
    ),
}  # fmt: skip

FRESH = {
    # Of twenty more, written down before they were asked (tests/truth/plan_fresh.json), those that name an engine
    each["name"]: (
        each["job"],
        each.get("options", {}),
        {path: ... if value == "..." else value for path, value in each["moves"].items()},
    )
    for each in json.loads((Path(__file__).parent / "truth" / "plan_fresh.json").read_text(encoding="utf-8"))
    if "engine" in each["job"]
}

MISSED = {
    "8x22B in full on 8": "with the optimizer on the host parameters fit on the GPUs",
    "DeepSeek-V3 on 1,024": "PP16 EP8 and PP8 EP16 come first: sending tokens over eight nodes takes longer",
    "70B LoRA on 8 by Megatron": "LoRA with TP4 and two replicas comes first: it is expected to be faster than TP8",
    "Scout on 80 GB": "transformers splits Llama 4's experts to quantize them, which is not supported yet",
    "DeepSeek-V2 on 128": "PP8 EP8 comes first: it keeps experts in a node, where PP4 EP32 sends tokens over four",
    "405B on 256 GB200": "TP4 PP16 is expected to be 12 % faster, but needs 179 of 184 GiB, less headroom than plans leave",
    "8B in full on 48 GB": "8-bit states come fourth, behind plans that fit for certain: they leave 0.3 GiB of 47.5",
}
"""Jobs of which no plan among the first three has all that their recipe has, and why. Of the ten in `RECENT` all were
right when they were first asked. Of the twelve after them all were answered with plans that are estimated the same on
their own, and eleven were right; the twelfth, 122B-A10B on 80 GB, had QLoRA fourth, behind offloading that takes 58
times as long, because it leaves less than a tenth of the GPU free. Of the twenty in `plan_fresh.json` 19 were right
when they were first asked, and one sentence was absurd ("holds only 8 of 4 sequences"): it spoke of the usual
repository of a format, not of the one that does not fit."""
ALL = {**JOBS, **RECIPES, **LATER, **LATEST, **WRITTEN, **AGAIN, **RECENT, **NEWEST, **FRESH}
ASKED = [
    pytest.param(*row, id=name, marks=[pytest.mark.xfail(reason=MISSED[name], strict=True)] if name in MISSED else [])
    for name, row in ALL.items()
]


def has(found, moves):
    """Whether a job has all settings of a move, given or assumed; `...` stands for any value."""
    taken = {**{each.path: each.value for each in found.assumptions}, **found.job.config.values}
    return all(taken.get(path) == value or (value is ... and path in taken) for path, value in moves.items())


@pytest.mark.parametrize(("job", "options", "moves"), ASKED)
def test_a_job_ends_in_plans(job, options, moves):
    """The first move of an expert is among the first three plans, each fits, and is estimated the same on its own."""
    found = plan(job, **options)
    assert found.plans
    assert found.estimates <= MOST + (40 if found.none_because is None else 3 * 80)
    assert len(found.plans) <= KEEP
    assert any(has(each.found, moves) for each in found.plans[:3]), [each.title for each in found.plans[:3]]
    for each in found.plans:
        again = estimate(each.config.to_dict())
        assert (again.device.low, again.device.expected, again.device.high) == (
            each.found.device.low, each.found.device.expected, each.found.device.high,
        )  # fmt: skip
        assert each.fits
        assert not each.safe or again.device.high <= again.capacity
        assert each.tier in TIERS
        assert each.changes or each.config == found.asked
