"""How long an answer for all ranks of a large job of Megatron-Core takes.

    python benchmarks/megatron.py

Each structure is recorded once; then sizes change from answer to answer, so that nothing can be remembered. The median
and the least of many runs, for every pipeline stage together.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parent.parent))

from memcore import Config
from memcore.estimation import estimate_training as estimate

GPT_3 = {
    "model_type": "megatron",
    "architecture": "gpt",
    "num_layers": 96,
    "hidden_size": 12288,
    "num_attention_heads": 96,
    "vocab_size": 50257,
    "max_position_embeddings": 2048,
}
_SHARED = {"tensor_parallel_size": 8, "sequence_parallel": True}
_LLAMA = {**_SHARED, "pipeline_parallel_size": 16, "pipeline_layout": [7, *[8] * 14, 7]}

JOBS: Mapping[str, tuple[object, Mapping[str, object]]] = {
    "Llama-3.1 405B, TP8 PP16": ("meta-llama/Llama-3.1-405B", {**_LLAMA, "data_parallel_size": 8}),
    "Llama-3.1 405B, TP8 PP16 CP2": (
        "meta-llama/Llama-3.1-405B",
        {**_LLAMA, "context_parallel_size": 2, "data_parallel_size": 4},
    ),
    "GPT-3 175B, interleaved": (
        GPT_3,
        {**_SHARED, "pipeline_parallel_size": 8, "virtual_pipeline_parallel_size": 6, "data_parallel_size": 8},
    ),
    "DeepSeek-V3, PP16 EP64": (
        "deepseek-ai/DeepSeek-V3",
        {
            "pipeline_parallel_size": 16,
            "pipeline_layout": [4] * 13 + [3] * 3,
            "data_parallel_size": 128,
            "expert_parallel_size": 64,
        },
    ),
    "Mixtral 8x22B, interleaved": (
        "mistralai/Mixtral-8x22B-v0.1",
        {
            "tensor_parallel_size": 2,
            "sequence_parallel": True,
            "pipeline_parallel_size": 8,
            "virtual_pipeline_parallel_size": 7,
            "data_parallel_size": 8,
            "expert_parallel_size": 8,
            "expert_tensor_parallel_size": 1,
        },
    ),
    "Nemotron-H 8B": (
        "nvidia/Nemotron-H-8B-Base-8K",
        {"tensor_parallel_size": 2, "sequence_parallel": True, "data_parallel_size": 8},
    ),
}
"""Models and how they are laid out."""


def job(name: str, number: int) -> Config:
    """One of the jobs, with numbers of its own."""
    model, parallelism = JOBS[name]
    training = {"sequence_length": 2048 + 32 * number, "gradient_accumulation_steps": 64 + number}
    engine = {"type": "megatron", "distributed_optimizer": True, "moe_token_dispatcher": "alltoall"}
    return Config.from_dict({"model": model, "training": training, "parallelism": parallelism, "engine": engine})


def milliseconds(name: str, times: int = 60) -> list[float]:
    """Return what each answer takes, once the structure is known."""
    configs, taken = [job(name, -(number + 1)) for number in range(times + 1)], []
    for config in configs:
        began = perf_counter()
        found = estimate(config)
        if not all(rank.most >= rank.persistent.before_step for rank in found.ranks):
            raise AssertionError(name)
        taken.append(1000 * (perf_counter() - began))
    return taken[1:]


def main() -> None:
    """Measure and print."""
    for name in JOBS:
        taken = milliseconds(name)
        stages = len(estimate(job(name, -1)).ranks)
        print(f"{name:30s} {stages:2d} stages   median {median(taken):6.2f} ms   least {min(taken):6.2f} ms")


if __name__ == "__main__":
    main()
