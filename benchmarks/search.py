"""How fast layouts are searched: exact totals, a whole search, executors, messages, and peers on the same question.

    python benchmarks/search.py

Prints layouts per second on one core. Steps are recorded once for each structure; layouts that
come later share them. Each total is what `estimate` says, which a sample checks.
Megatron-LM's closed forms, which `memcore formulas` has built in, answer a part of the same question.
"""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from memcore import Config, MemcoreError, estimate, search
from memcore.questions.searching.layouts import Layout, config_of
from memcore.questions.searching.questions import questions_of
from memcore.questions.searching.spaces import Space, Tried
from memcore.questions.searching.tasks import Task
from memcore.questions.searching.totals import Totals
from memcore.trainers.megatron.published.report import report_theoretical_memory

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
    _, space = space_of({**DENSE, "hardware": {"num_gpus": 64, "accelerator": "h100-sxm-80gb"}}, 64)
    layouts = tuple(islice(space.layouts(), 64))
    task = Task(0, "{}", space, layouts, None)
    answers = [(70 * 2**30, None, None)] * len(layouts)
    print(f"a task of {len(layouts)} layouts: {len(pickle.dumps(task))} bytes and the config's JSON;", end=" ")
    print(f"its answers: {len(pickle.dumps((0, answers)))} bytes")
    for job, options in COMPARED.items():
        compared(job, options)


COMPARED = {
    "search, 8B on 8 GPUs": ["--gpus", "8"],
    "sweep, 8B on 1 GPU": ["--gpus", "1", "--every"],
    "sweep, 8B on 4 GPUs": ["--gpus", "4", "--every"],
    "sweep, 8B on 8 GPUs": ["--gpus", "8", "--every"],
}
JOB = ["--model", "llama-3.1-8b", "--seq", "8192", "--accelerator", "h100-sxm-80gb"]


def compared(name: str, options: Sequence[str]) -> None:
    """Time one command with one process and with two: wall time, and CPU time, which other work does not disturb.

    Where nothing else runs, two processes take what the first takes and half of what the workers do.
    """
    command = [sys.executable, "-c", USED, "search", *JOB, *options, "--jobs"]
    clock, used = [], []
    for jobs in "12":
        began = perf_counter()
        done = subprocess.run([*command, jobs], cwd=ROOT, capture_output=True, text=True, check=True)
        clock.append(perf_counter() - began)
        used.append([float(each) for each in done.stderr.split()])
    (alone, _), (first, workers) = used
    print(
        f"{name}: --jobs 1 {clock[0]:.1f} s, --jobs 2 {clock[1]:.1f} s ({clock[1] / clock[0]:.2f} ×); of the", end=" "
    )
    print(f"processor {alone:.1f} s, {first:.1f} + {workers:.1f} s in workers ({(first + workers / 2) / alone:.2f} ×)")


USED = """
import resource, sys
from memcore.faces.cli import main
main()
for who in resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN:
    used = resource.getrusage(who)
    print(used.ru_utime + used.ru_stime, file=sys.stderr)
"""


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
