"""Jobs that people come with, named by what they want. Each is estimated in the tests."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from memcore.config.settings import Config
from memcore.errors import ConfigError
from memcore.i18n.page import language
from memcore.records import dataclass


@dataclass(frozen=True, slots=True)
class Preset:
    """A job with its name."""

    name: str
    english: str
    chinese: str
    config: Mapping[str, Any]

    @property
    def title(self) -> str:
        """Return what it is called in the language that is spoken."""
        return self.chinese if language() == "zh" else self.english


def _on(accelerator: str, gpus: int) -> dict[str, Any]:
    return {"accelerator": accelerator, "num_gpus": gpus}


def _full(length: int, **more: Any) -> dict[str, Any]:
    return {"sequence_length": length, "activation_checkpointing": "full", **more}


_LORA = {"type": "lora", "rank": 16, "target_modules": "all-linear"}
_EVERY = (
    Preset("8b-8xh100", "Train 8B on 8×H100", "8×H100 训练 8B", {
        "model": "llama-3.1-8b", "training": _full(8192), "engine": {"type": "fsdp"},
        "hardware": _on("h100-sxm-80gb", 8),
    }),
    Preset("70b-8xh100", "Fine-tune 70B on 8×H100", "8×H100 微调 70B", {
        "model": "llama-3.1-70b", "training": _full(8192), "engine": {"type": "fsdp"},
        "hardware": _on("h100-sxm-80gb", 8),
    }),
    Preset("70b-64xh100", "70B on 64×H100, 32k tokens", "64×H100、32k 训练 70B", {
        "model": "llama-3.1-70b", "training": _full(32768, implementation="torchtitan"), "engine": {"type": "fsdp"},
        "parallelism": {"tensor_parallel_size": 8}, "hardware": _on("h100-sxm-80gb", 64),
    }),
    Preset("405b-16k", "405B on 16k GPUs", "1.6 万 GPU 训练 405B", {
        "model": "llama-3.1-405b", "training": _full(8192, gradient_accumulation_steps=16, implementation="torchtitan"),
        "engine": {"type": "fsdp"},
        "parallelism": {"tensor_parallel_size": 8, "pipeline_parallel_size": 16},
        "hardware": _on("h100-sxm-80gb", 16384),
    }),
    Preset("deepseek-v3", "DeepSeek-V3 pre-training", "DeepSeek-V3 预训练", {
        "model": "deepseek-v3", "training": _full(4096, gradient_accumulation_steps=16, precision="bf16-mixed"),
        "engine": {"type": "megatron", "distributed_optimizer": True},
        "parallelism": {"pipeline_parallel_size": 16, "pipeline_layout": [*[4] * 15, 1], "expert_parallel_size": 64},
        "hardware": _on("h100-sxm-80gb", 2048),
    }),
    Preset("qlora-8b-24gb", "QLoRA 8B on a 24 GB card", "24 GB 显卡 QLoRA 微调 8B", {
        "model": "llama-3.1-8b", "training": _full(2048, precision="bf16", quantization="nf4", adapter=_LORA),
        "hardware": _on("rtx-4090", 1),
    }),
    Preset("lora-8b-24gb", "LoRA 8B on a 24 GB card", "24 GB 显卡 LoRA 微调 8B", {
        "model": "llama-3.1-8b",
        "training": _full(1024, precision="bf16", adapter=_LORA, loss="chunked:8"),
        "hardware": _on("rtx-4090", 1),
    }),
    Preset("lora-32b-80gb", "LoRA 32B on one H100", "单卡 H100 LoRA 微调 32B", {
        "model": "qwen2.5-32b", "training": _full(2048, precision="bf16", adapter=_LORA),
        "hardware": _on("h100-sxm-80gb", 1),
    }),
    Preset("0.5b-t4", "Fine-tune 0.5B on a free T4", "免费 T4 微调 0.5B", {
        "model": "qwen2.5-0.5b", "training": _full(1024, precision="fp16-mixed"), "hardware": _on("t4", 1),
    }),
    Preset("gpt2-ddp", "GPT-2 on 4×RTX 3090 with DDP", "4×RTX 3090 DDP 训练 GPT-2", {
        "model": "gpt2", "training": {"sequence_length": 1024, "micro_batch_size": 8}, "engine": {"type": "ddp"},
        "hardware": _on("rtx-3090", 4),
    }),
    Preset("long-context", "8B at 128k tokens on 8×H100", "8×H100、128k 训练 8B", {
        "model": "llama-3.1-8b", "training": _full(131072, implementation="torchtitan"),
        "engine": {"type": "fsdp"},
        "parallelism": {"context_parallel_size": 8}, "hardware": _on("h100-sxm-80gb", 8),
    }),
    Preset("serve-32b-50", "Serve 32B to 50 users", "为 50 个用户推理 32B", {
        "model": "qwen2.5-32b", "engine": {"type": "vllm"}, "parallelism": {"tensor_parallel_size": 2},
        "inference": {"max_num_seqs": 50, "max_model_len": 8192, "mean_length": 2048},
        "hardware": _on("h100-sxm-80gb", 2),
    }),
    Preset("serve-70b-fp8", "Serve 70B in FP8 on 2×H100", "2×H100 FP8 推理 70B", {
        "model": "llama-3.1-70b", "engine": {"type": "vllm"}, "parallelism": {"tensor_parallel_size": 2},
        "inference": {"quantization": "fp8", "max_model_len": 16384, "kv_cache_dtype": "fp8"},
        "hardware": _on("h100-sxm-80gb", 2),
    }),
    Preset("deepseek-sglang", "Serve DeepSeek-V3 on 8×H200", "8×H200 推理 DeepSeek-V3", {
        "model": "deepseek-v3", "engine": {"type": "sglang"}, "parallelism": {"tensor_parallel_size": 8},
        "inference": {"max_model_len": 32768, "quantization": "fp8"}, "hardware": _on("h200-sxm-141gb", 8),
    }),
    Preset("gguf-8b", "Run 8B as Q4_K_M on an RTX 3090", "RTX 3090 运行 8B Q4_K_M", {
        "model": "llama-3.1-8b", "engine": {"type": "llama.cpp"},
        "inference": {"quantization": "q4_k_m", "max_model_len": 32768}, "hardware": _on("rtx-3090", 1),
    }),
    Preset("phi-2", "Answer one prompt with phi-2", "用 phi-2 回答一个提示词", {
        "model": "phi-2", "engine": {"type": "transformers"},
        "inference": {"batch_size": 1, "prompt_length": 2047, "output_length": 1, "max_model_len": 2048,
                      "weight_dtype": "bf16", "use_cache": True},
        "hardware": _on("rtx-4090", 1),
    }),
)  # fmt: skip


@cache
def presets() -> Mapping[str, Preset]:
    """Return every preset whose settings are known, by name."""
    return {each.name: each for each in _EVERY if _is_known(each)}


def _is_known(preset: Preset) -> bool:
    try:
        Config.from_dict(preset.config)
    except ConfigError:
        return False
    return True
