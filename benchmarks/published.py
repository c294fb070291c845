"""Where the layouts of well-known runs stand in a search of the same cluster, and why not where they do not.

    python benchmarks/published.py

Cost is relative to the cheapest layout that fits. Precisions are those that are modelled: the runs computed in fp8 where
they say so.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from memcore import Config, Layout, MemcoreError, estimate, search
from memcore.searching.layouts import config_of
from memcore.searching.questions import questions_of
from memcore.searching.spaces import Tried

H100 = {"accelerator": "h100-sxm-80gb"}
NEMOTRON = {
    "model_type": "nemotron", "hidden_size": 18432, "num_hidden_layers": 96, "num_attention_heads": 96,
    "num_key_value_heads": 8, "intermediate_size": 73728, "vocab_size": 256000, "max_position_embeddings": 4096,
    "head_dim": 192,
}  # fmt: skip
MEGATRON = {"type": "megatron", "distributed_optimizer": True}


@dataclass(frozen=True, slots=True)
class Run:
    """A published run."""

    title: str
    config: Mapping[str, object]
    gpus: int
    sequences: int
    was: Callable[[Layout], bool]
    note: str = ""


RUNS = (
    Run(
        "Llama 3 405B, 8192 GPUs: TP 8, PP 16, 8k tokens (arXiv 2407.21783, table 4)",
        {
            "model": "llama-3.1-405b",
            "training": {"sequence_length": 8192, "implementation": "torchtitan"},
            "hardware": {**H100, "num_gpus": 8192},
        },
        8192,
        2048,
        lambda each: (each.tensor, each.stages, each.context, each.micro_batch) == (8, 16, 1, 1),
    ),
    Run(
        "Nemotron-4 340B, 1536 GPUs: TP 8, PP 12 in 8 chunks (arXiv 2402.16819, section 2.3)",
        {
            "model": NEMOTRON,
            "training": {"sequence_length": 4096},
            "engine": MEGATRON,
            "parallelism": {"tensor_parallel_size": 8, "sequence_parallel": True},
            "hardware": {**H100, "num_gpus": 1536},
        },
        1536,
        768,
        lambda each: (each.tensor, each.stages, each.context, each.micro_batch) == (8, 12, 1, 1),
    ),
    Run(
        "torchtitan Llama 3.1 405B, 512 GPUs of 96 GB: TP 8, PP 8, micro-batch 4",
        {
            "model": "llama-3.1-405b",
            "training": {"sequence_length": 8192, "implementation": "torchtitan"},
            "hardware": {**H100, "num_gpus": 512, "gpu_memory_gb": 95},
        },
        512,
        256,
        lambda each: (each.tensor, each.stages, each.context, each.micro_batch) == (8, 8, 1, 4),
        "8 micro-batches on 8 stages leave a bubble of 7/8, which smaller micro-batches do not",
    ),
    Run(
        "torchtitan Llama 3.1 70B, 256 GPUs: TP 8, micro-batch 16",
        {
            "model": "llama-3.1-70b",
            "training": {"sequence_length": 8192, "implementation": "torchtitan"},
            "hardware": {**H100, "num_gpus": 256, "gpu_memory_gb": 95},
        },
        256,
        512,
        lambda each: (each.tensor, each.stages, each.context, each.micro_batch) == (8, 1, 1, 16),
    ),
)


def report(run: Run) -> None:
    """One run."""
    config = Config.from_dict(dict(run.config))
    space = questions_of(config, [run.gpus], None, run.sequences, None, Tried(micro_batches=(1, 2, 4, 8, 16)))[0][0]
    *_, last = search(config, gpus=[run.gpus], sequences=run.sequences, micro_batches=(1, 2, 4, 8, 16))
    print(f"{run.title}\n  {last.total} layouts, {len(last.best)} recommended")
    if not last.best:
        print("  nothing fits")
        return
    cheapest = last.best[0].cost.per_token
    ours = sorted(
        (each for each in space.space.layouts() if run.was(each)), key=lambda each: space.cost(each).per_token
    )
    for each in ours:
        price = space.cost(each).per_token / cheapest
        try:
            found = estimate(config_of(config, each, space.space.policies))
        except MemcoreError as error:
            print(f"  {error}")
            continue
        if not found.fits and each.policy == ours[0].policy:
            print(
                f"  its cheapest variant, cost {price:.2f}, needs {found.allocated.expected / 2**30:.0f} GiB in tensors"
            )
        if found.fits:
            print(f"  fits with {found.allocated.expected / 2**30:.1f} GiB in tensors, cost {price:.2f}: {tuple(each)}")
            print(f"  {run.note}" if run.note else "")
            return
    print("  none of its variants fits" if ours else "  is not among the layouts")


if __name__ == "__main__":
    for run in RUNS:
        report(run)
    print("DeepSeek-V3 (2048 GPUs: PP 16, EP 64, DualPipe): its fp8 training and its schedule are not searched;")
    print("  layouts with expert parallelism are, see benchmarks/search.py")
