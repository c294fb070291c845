"""How fast layouts are searched: exact totals, a whole search, executors, messages, and peers on the same question.

    python benchmarks/search.py

Prints layouts per second on one core. Steps are recorded once for each structure; layouts that
come later share them. Each total is what `estimate` says, which a sample checks.
Megatron-LM's closed forms, which `memcore formulas` has built in, answer a part of the same question.
"""

from __future__ import annotations

import pickle
import random
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parent.parent))

from memcore import Config, MemcoreError, estimate, search
from memcore.engines import report_theoretical_memory
from memcore.searching.layouts import Layout, config_of
from memcore.searching.questions import questions_of
from memcore.searching.spaces import Space, Tried
from memcore.searching.tasks import Task, perform
from memcore.searching.totals import Totals

DENSE = {
    "model": "llama-3.1-70b",
    "training": {"sequence_length": 8192, "implementation": "torchtitan"},
    "parallelism": {"tensor_parallel_size": 8},
    "hardware": {"num_gpus": 1024, "accelerator": "h100-sxm-80gb"},
}
SPARSE = {
    "model": "deepseek-v3",
    "training": {"sequence_length": 4096, "implementation": "torchtitan"},
    "parallelism": {"expert_parallel_size": 8},
    "hardware": {"num_gpus": 1024, "accelerator": "h100-sxm-80gb"},
}


def space_of(job: Mapping[str, object], sequences: int) -> tuple[Config, Space]:
    """A config, and all its layouts."""
    config = Config.from_dict(dict(job))
    return config, questions_of(config, None, None, sequences, None, Tried(micro_batches=(1, 2, 4, 8)))[0][0].space


def timed(run: Callable[[], object]) -> float:
    """Seconds of a run."""
    began = perf_counter()
    run()
    return perf_counter() - began


def totals(name: str, job: Mapping[str, object], kept: Callable[[Layout], bool], needed: int) -> None:
    """Exact totals: of half of the layouts, while steps are recorded; then of the other half, which is new."""
    config, space = space_of(job, 4096)
    layouts = [each for each in space.layouts() if kept(each)]
    random.Random(5).shuffle(layouts)  # noqa: S311
    seen, new = layouts[: len(layouts) // 2], layouts[len(layouts) // 2 :]
    both = Totals(config, space)
    first = timed(lambda: [both.total(each) for _ in range(6) for each in seen])
    then = timed(lambda: [both.total(each) for each in new])
    for _ in range(6):
        for each in new:
            both.total(each)
    again = timed(lambda: [both.total(each) for each in layouts])
    for each in random.Random(1).sample(layouts, 12):  # noqa: S311
        found = both.total(each)
        try:
            wanted = estimate(config_of(config, each, space.policies)).allocated.expected
        except MemcoreError:
            wanted = None
        if wanted is not None and wanted != found:
            raise SystemExit(f"{each}: {found}, but estimate says {wanted}")
    rate = len(layouts) / again
    print(f"{name}: {len(layouts)} layouts; steps recorded and reduced in {first:.1f} s for the first half of them")
    print(f"  the other half, with the structures that it has beyond the first: {len(new) / then:,.0f} layouts/s")
    print(f"  layouts whose structures are all known: {rate:,.0f} layouts/s, {rate / needed:.2f} × {needed:,}")


def whole(name: str, job: Mapping[str, object]) -> None:
    """A search from the first layout to the recommendation, with bounds."""
    began = perf_counter()
    *_, last = search(job)
    cold = perf_counter() - began
    warm = timed(lambda: list(search(job)))
    print(f"{name}: {last.total} layouts, {last.measured} measured; {cold:.2f} s cold, {warm:.2f} s again")
    print(f"  {last.total / cold:,.0f} layouts/s cold, {last.total / warm:,.0f} again")


def executors() -> None:
    """One process and two, and what is sent."""
    config, space = space_of({**DENSE, "hardware": {"num_gpus": 64, "accelerator": "h100-sxm-80gb"}}, 64)
    layouts = tuple(islice(space.layouts(), 64))
    task = Task(0, "{}", space, layouts, None)
    answers = [(70 * 2**30, None)] * len(layouts)
    print(f"a task of {len(layouts)} layouts: {len(pickle.dumps(task))} bytes and the config's JSON;", end=" ")
    print(f"its answers: {len(pickle.dumps((0, answers)))} bytes")
    small = {"model": "gpt2", "training": {"sequence_length": 1024}, "hardware": {"num_gpus": 64, "accelerator": "t4"}}
    alone = timed(lambda: list(search(small, every=True)))
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(perform, []))
        both = timed(lambda: list(search(small, every=True, executor=pool)))
    print(f"a sweep in one process over two: {alone / both:.2f} × as long")
    del config


def peers() -> None:
    """Megatron-LM's closed forms on the same question: Llama-3.1-70B, TP 8, PP 4."""
    job = estimate(
        {
            "model": "llama-3.1-70b",
            "engine": {"type": "megatron", "distributed_optimizer": True},
            "training": {"sequence_length": 8192, "activation_checkpointing": "selective"},
            "parallelism": {"tensor_parallel_size": 8, "pipeline_parallel_size": 4, "sequence_parallel": True},
            "hardware": {"num_gpus": 256},
        }
    ).job
    count = 2000
    taken = timed(lambda: [report_theoretical_memory(job.config, 64) for _ in range(count)])
    print(f"Megatron-LM's closed forms (no layers, no moments): {count / taken:,.0f} evaluations/s")


if __name__ == "__main__":
    totals("dense", DENSE, lambda each: each.stages <= 8 and each.context == 1 and each.policy >= 4, 20_000)
    totals("DeepSeek-V3", SPARSE, lambda each: each.stages == 1 and each.tensor == 1 and each.context == 1, 5_000)
    whole("search, 70B on 64 GPUs at 32k", {
        **DENSE, "training": {"sequence_length": 32768, "implementation": "torchtitan"},
        "hardware": {"num_gpus": 64, "accelerator": "h100-sxm-80gb"},
    })  # fmt: skip
    whole("search, 405B on 8192 GPUs at 8k", {
        "model": "llama-3.1-405b", "training": {"sequence_length": 8192, "implementation": "torchtitan"},
        "hardware": {"num_gpus": 8192, "accelerator": "h100-sxm-80gb"},
    })  # fmt: skip
    executors()
    peers()
