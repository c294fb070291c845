"""Writes the generated pages: `reference.md` from the schema and the tables, `accuracy.md` from the truth cases.

.venv/bin/python docs/generate.py            write them
.venv/bin/python docs/generate.py --check    fail if they are out of date
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from memcore.accuracy import Report, accuracy
from memcore.config.kinds import Choice, Counted, Flag, FlagOrCount, Integer, Kind, Listed, Number
from memcore.config.settings import SETTINGS
from memcore.estimation import estimate_training
from memcore.hardware import ACCELERATORS
from memcore.ledger import CATEGORIES
from memcore.model.catalog import catalog, nickname
from memcore.model.glossary import SYMBOLS
from memcore.places import PHASES
from memcore.render import svg
from memcore.render.page import EXAMPLE
from memcore.rules import RULES
from memcore.serving.entries import CATEGORIES as SERVED
from memcore.units import GiB, format_bytes, format_count

TRUTH = HERE.parent / "tests" / "truth"


def main() -> int:
    """Write or check every page."""
    pages = {
        "reference.md": reference(),
        "accuracy.md": accuracy_page(),
        "example-bar.svg": svg.standalone(svg.bar(estimate_training(EXAMPLE))),
        "example-timeline.svg": svg.standalone(svg.timeline(estimate_training(EXAMPLE))),
    }
    stale = [
        name for name, text in pages.items() if not (HERE / name).exists() or (HERE / name).read_text("utf-8") != text
    ]
    if "--check" in sys.argv:
        print("\n".join(f"docs/{name} is out of date: run docs/generate.py" for name in stale), end="")
        return 1 if stale else 0
    for name, text in pages.items():
        (HERE / name).write_text(text, encoding="utf-8")
    return 0


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def reference() -> str:
    """Settings, categories, phases, symbols, rules, models and accelerators."""
    settings = [
        (
            f"`{path}`",
            f"`--{each.flag}`",
            values(each.kind),
            f"{each.help} Default: {each.default}." if each.default else each.help,
        )
        for path, each in SETTINGS.items()
    ]
    rules = [(f"`{name}`", rule.title, rule.category or "by its lifetime", rule.source) for name, rule in RULES.items()]
    models = [
        (f"`{nickname(hub)}`", hub, entry["config"]["model_type"], format_count(entry["parameters"]))
        for hub, entry in catalog().items()
    ]
    gpus = [(f"`{each.id}`", each.name, f"{each.usable / GiB:.2f}", each.source) for each in ACCELERATORS]
    return "\n".join(
        [
            "# Reference",
            "",
            "Generated from the schema and the tables by `docs/generate.py`.",
            "",
            "## Settings",
            "",
            "A config is a JSON object with `model` and these settings by path; the flag is also the name in links. A missing "
            "key, or `null`, means what the engine does by default.",
            "",
            table(("Setting", "Flag", "Values", "Meaning"), settings),
            "## Categories of memory",
            "",
            table(("Category", "Meaning"), CATEGORIES.items()),
            "A server's memory has categories of its own.",
            "",
            table(("Category", "Meaning"), SERVED.items()),
            "## Phases of a step",
            "",
            table(("Phase", "In words"), ((f"`{name}`", words) for name, words in PHASES.items())),
            "## Symbols",
            "",
            table(("Symbol", "Meaning"), ((f"`{name}`", meaning) for name, meaning in SYMBOLS.items())),
            "## Rules",
            "",
            "What puts something in memory, and where that can be checked (PyTorch 2.13, transformers 5.23).",
            "",
            table(("Rule", "What it holds", "Category", "Source"), rules),
            "## Models",
            "",
            table(("Id", "Hub id", "Family", "Parameters"), models),
            "## Accelerators",
            "",
            "What a job can use is the lowest observed `total_memory`, which is less than the nominal size.",
            "",
            table(("Id", "Name", "Usable GiB", "Source"), gpus),
        ]
    )


def values(kind: Kind) -> str:
    """What a setting can be."""
    match kind:
        case Flag():
            return "`true`, `false`"
        case Choice():
            return ", ".join(f"`{option}`" for option in kind.options)
        case Counted():
            return ", ".join(f"`{option}`" for option in (*kind.options, f"{kind.prefix}:N"))
        case FlagOrCount():
            return "`true`, `false`, a number of ranks"
        case Integer():
            return f"a whole number{f' of {kind.unit}' if kind.unit else ''}"
        case Number():
            return f"a number from {kind.minimum:g} to {kind.maximum:g}"
        case Listed():
            return f"an id of the {kind.catalog} below"
        case _:
            return "a text"


NOTES = {
    "torchtune-l32-3b-base": "The sequence length is assumed: samples were padded dynamically and were much shorter.",
    "torchtitan-l2-7b-fsdp2-ac": "torchtitan of April 2024 with the FSDP2 of its time; it reported 22.7 GiB active where 19.8 GiB "
    "allocated are predicted for PyTorch 2.13. Which tensor makes the difference is not known.",
    "automodel-l32-1b-base": "Precision, sequence length and unit are assumed; which tensor makes the difference is not known.",
    "automodel-l32-1b-fsdp8": "Precision, sequence length and unit are assumed; which tensor makes the difference is not known.",
}
"""What is known about hardware cases that are off by more than five percent."""


def accuracy_page() -> str:
    """How far off predictions are, for what, and why."""
    simulated, hardware = (
        accuracy(json.loads((TRUTH / f"{name}.json").read_text("utf-8"))) for name in ("simulated", "hardware")
    )
    right, named = simulated.phases()
    measured = [
        (
            each.id,
            each.quantity,
            format_bytes(each.measured or 0),
            format_bytes(each.predicted or 0),
            f"{100 * each.error:+.1f}%",
            note(each.id),
        )
        for each in hardware.results
        if each.error is not None
    ]
    return "\n".join(
        [
            "# Accuracy",
            "",
            "Generated by `docs/generate.py`; `memcore accuracy tests/truth/simulated.json tests/truth/hardware.json` shows every case.",
            "",
            "## Simulated steps",
            "",
            "One real training step of PyTorch 2.13 and transformers 5.23 on fake tensors, with every allocation recorded: exact for "
            "what the allocator is asked for. Errors are absolute, in millionths of what was recorded.",
            "",
            table(("Engine", "Quantity", "Cases", "Median", "Mean", "95th percentile", "Worst"), rows(simulated)),
            f"The phase of the peak is named as the simulation names it in {right} of {named} cases. In one of "
            "the others the label says `loss` because a softmax peaks; it is the softmax of attention in the backward pass. In three, "
            "with a loss over a divided vocabulary, it says `backward`, because the loss's gradient is made by code of no module.",
            "",
            "Beyond these sums, `tests/test_tapes.py` compares whole steps event for event: every allocation and release above 2 KiB "
            "is the same, in the same order.",
            "",
            "Fake tensors are a tensor subclass, for which PyTorch adds gradients out of place and decomposes SiLU's gradient; they call "
            "no library, so that there are no cuBLAS workspaces. Simulated cases are predicted with these differences; jobs of users "
            "are predicted without them.",
            "",
            "## Measured jobs",
            "",
            "Published measurements on GPUs that this version can express. Where the difference is more than five percent, what is known about it.",
            "",
            table(("Case", "Quantity", "Measured", "Predicted", "Error", "Note"), measured),
            *servers(),
            "## Not expressible yet",
            "",
            "Cases of these engines that this version refuses, by reason.",
            "",
            table(("Cases", "Reason"), reasons(simulated, hardware)),
        ]
    )


SERVING_NOTES = {
    "vllm-6746-405b-fp8": "The checkpoint stores some layers in bf16; its list of them is not in the case's config.",
    "vllm-21348-qwen3-235b": "The release is not known; the newest one is assumed.",
    "sglang-21348-qwen3-235b": "The release is not known; what SGLang sets aside for graphs is its own rule, not a measure.",
    "vllm-0.19.0-llama-4-scout-17b-16e-instruct-tp4-pp1-len8192": "The case's config leaves out the checkpoint's 10M positions, "
    "which vLLM keeps a rotary table of 2.5 GiB for.",
    "vllm-2031-l2-70b": "vLLM 0.2 with tensor parallelism: what its workers and NCCL held is not known.",
    "llamacpp-159-glm-4-32b-0414-gguf-ctx32768": "The file's quantization is not known.",
    "llamacpp-164-qwen3-30b-a3b-iq4-k-ctx32768": "A format of a fork; its mix of types is not known.",
}
"""What is known about serving cases that are off by more than five percent."""


def servers() -> Iterable[str]:
    """How far off servers are."""
    report = accuracy(json.loads((TRUTH / "inference.json").read_text("utf-8")))
    groups = (
        (
            each.engine,
            each.quantity,
            str(each.cases),
            *(f"{100 * error:.2f}%" for error in (each.median, each.mean, each.p90, each.worst)),
        )
        for each in report.groups()
    )
    far = [each for each in report.results if each.error is not None and abs(each.error) > FAR]
    yield from ("## Servers", "")
    yield "What servers printed while they started; `memcore accuracy tests/truth/inference.json` shows every case. Errors are absolute."
    yield from ("", table(("Engine", "Quantity", "Cases", "Median", "Mean", "90th percentile", "Worst"), groups))
    yield from ("More than five percent off:", "")
    yield table(
        ("Case", "Quantity", "Error", "Note"),
        ((each.id, each.quantity, f"{100 * (each.error or 0):+.1f}%", SERVING_NOTES.get(each.id, "")) for each in far),
    )


FAR = 0.05
"""Errors above which a serving case is listed."""


def note(case: str) -> str:
    """What is known about a case."""
    return NOTES.get(case, "")


def rows(report: Report) -> Iterable[Sequence[str]]:
    """Groups of errors."""
    for each in report.groups():
        errors = (each.median, each.mean, each.p95, each.worst)
        yield each.engine, each.quantity, str(each.cases), *(f"{1e6 * error:.1f} ppm" for error in errors)


def reasons(*reports: Report) -> Iterable[Sequence[str]]:
    """Why cases have no prediction: the first thing that each lacks."""
    counts: dict[str, int] = {}
    for report in reports:
        for reason, count in report.reasons():
            first = reason.partition("; ")[0]
            counts[first] = counts.get(first, 0) + count
    for reason, count in sorted(counts.items(), key=lambda each: -each[1]):
        yield str(count), reason


if __name__ == "__main__":
    sys.exit(main())
