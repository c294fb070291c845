"""How fast an estimate is: against depth, and against what else a run of Python costs.

    python benchmarks/estimate.py

Prints medians of repeated runs. The step of a structure is recorded once; then only sizes change, as in a search.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parent.parent))

from memcore import Config
from memcore.estimation import estimate_training as estimate
from memcore.networks.catalog import catalog
from memcore.networks.read import read_model

LLAMA = {
    "model_type": "llama",
    "hidden_size": 16384,
    "num_attention_heads": 128,
    "num_key_value_heads": 8,
    "intermediate_size": 53248,
}


def job(layers: int, sequence: int = 8192) -> Config:
    """Llama-3.1-405B's layers, as many as asked for, under FSDP on 512 GPUs."""
    return Config.from_dict(
        {
            "model": {**LLAMA, "num_hidden_layers": layers, "vocab_size": 128256},
            "training": {"sequence_length": sequence, "activation_checkpointing": "full"},
            "engine": {"type": "fsdp"},
            "hardware": {"num_gpus": 512, "accelerator": "h100-sxm-80gb"},
        }
    )


def peak(configs: Sequence[Config], number: int) -> object:
    """The peak of one of the configs."""
    return estimate(configs[number]).peak


def milliseconds(run: Callable[[int], object], times: int = 200) -> float:
    """The median of many runs; each gets a number of its own, so that nothing can be remembered."""
    taken = []
    for number in range(times):
        began = perf_counter()
        run(number)
        taken.append(1000 * (perf_counter() - began))
    return median(taken)


def import_milliseconds(statement: str, times: int = 15) -> float:
    """Return what a statement costs a fresh interpreter, beyond starting it."""
    code = f"from time import perf_counter as t; b = t(); {statement}; print(1000 * (t() - b))"
    root = Path(__file__).parent.parent
    command = [sys.executable, "-c", code]
    return median(
        float(subprocess.run(command, cwd=root, check=True, capture_output=True).stdout) for _ in range(times)
    )


def reading_milliseconds() -> list[float]:
    """For every checkpoint of the catalog, what it takes to read its config into a model: the least of five."""
    found = []
    for entry in catalog().values():
        taken = []
        for _ in range(5):
            began = perf_counter()
            read_model(entry["config"])
            taken.append(1000 * (perf_counter() - began))
        found.append(min(taken))
    return found


def main() -> None:
    """Measure and print."""
    began = perf_counter()
    found = estimate(job(126))
    recorded = 1000 * (perf_counter() - began)
    configs = {layers: [job(layers, 4096 + 16 * number) for number in range(200)] for layers in (8, 32, 126)}
    times = {layers: milliseconds(partial(peak, each)) for layers, each in configs.items()}
    print(f"import memcore                        {import_milliseconds('import memcore'):8.2f} ms")
    print(f"import memcore and all of the engine  {import_milliseconds('import memcore; memcore.estimate'):8.2f} ms")
    print(
        f"reading a config.json, the slowest     {max(reading_milliseconds()):7.2f} ms   of {len(catalog())} checkpoints"
    )
    print(f"first estimate of a structure         {recorded:8.2f} ms")
    for layers, taken in times.items():
        print(f"estimate, {layers:3d} layers                  {taken:8.3f} ms   {taken / times[8]:.2f} of 8 layers")
    taken = milliseconds(lambda n: estimate(configs[126][n]).ledger, 50)
    print(f"with the ledger of the peak           {taken:8.3f} ms   {taken / times[126]:.1f} of the estimate")
    taken = milliseconds(lambda n: estimate(configs[126][n]).reserved, 20)
    print(f"with the allocator replayed           {taken:8.3f} ms   {taken / times[126]:.0f} of the estimate")
    print(f"peak of 126 layers: {found.peak.peak:,} B")


if __name__ == "__main__":
    main()
