"""How much work an edit on the page is: CPU time until the allocated memory is known, and until the verdict is.

    PYTHONPATH=. .venv/bin/python benchmarks/edits.py      in this Python
    node benchmarks/edits.mjs                              in Pyodide, as on the page (after build.py)

Each edit is done in three visits, with the steps recorded that a build records ahead; the last edit of each field takes
the others back, and is remembered. Prints milliseconds: median, 95th percentile and maximum over the edits, of the
first visit and of the quickest. Unlike time on the clock (benchmarks/page.py), it hardly depends on what else the
machine does.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from statistics import median

from memcore.faces.page.actions import handle
from memcore.faces.page.answering import values_of
from memcore.faces.page.framing import keep_openings
from memcore.faces.page.precomputed import record_ahead
from memcore.faces.page.session import Message, Session

EDITS = {
    "training.sequence_length": ("4096", "6144", "16k", "8192"),
    "training.micro_batch_size": ("2", "4", ""),
    "hardware.num_gpus": ("16", "64", "8"),
    "hardware.accelerator": ("h200-sxm-141gb", "a100-sxm-80gb", "h100-sxm-80gb"),
    "training.precision": ("fp16-mixed", "bf16", ""),
    "training.optimizer.name": ("adamw-8bit", "sgd", ""),
    "training.activation_checkpointing.policy": ("none", "selective", "full"),
    "training.adapter.rank": ("8", "64", "16"),
    "engine.type": ("deepspeed", "ddp", "fsdp"),
    "model": ("qwen2.5-7b", "llama-3.2-1b", "llama-3.1-8b"),
}
"""Edits of the example, one after the other; the last of each field is the example again."""
TIMES = 3


def main(clock: Callable[[], float] = time.process_time) -> None:
    """Measure and print."""
    record_ahead()
    keep_openings()
    gc.collect()
    gc.freeze()
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for _ in range(TIMES):
        session = Session()
        _answered(session, {"do": "start", "language": "en", "link": "", "texts": None}, clock)
        texts = values_of(session.form)
        for path, values in EDITS.items():
            for value in values:
                texts = {**texts, path: value}
                given = {name: text for name, text in texts.items() if text}
                took = _answered(session, {"do": "edit", "texts": given, "entry": 1}, clock)
                found.setdefault((path, value), []).append(took)
    for number, name in enumerate(("first answer", "verdict")):
        for kind, pick in (("first time", _first), ("quickest", min)):
            times = sorted(1000 * pick([each[number] for each in runs]) for runs in found.values())
            high = times[min(len(times) - 1, int(0.95 * len(times)))]
            print(f"{name:14s} {kind:12s} {median(times):7.1f} {high:7.1f} {times[-1]:7.1f} ms")


def _first(times: list[float]) -> float:
    return times[0]


def _answered(session: Session, message: Message, clock: Callable[[], float]) -> tuple[float, float]:
    """Seconds until an edit's first answer and until its verdict."""
    began, first, verdict = clock(), 0.0, 0.0
    for patch in handle(session, message):
        if patch and not first:
            first = clock() - began
        if "verdict" in patch.get("html", {}):
            verdict = clock() - began
    return first, verdict


if __name__ == "__main__":
    main()
