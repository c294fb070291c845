"""Published formulas beside memcore's answer, as text and as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from memcore.columns import table
from memcore.questions.formulas import Comparison
from memcore.units import format_bytes


def comparison_data(found: Comparison) -> dict[str, Any]:
    """What `memcore formulas --json` prints; sizes are bytes."""
    own = found.estimate
    return {
        "memcore": None
        if own is None
        else {
            "between_steps_bytes": found.held,
            "peak_bytes": own.allocated.expected,
            "rank": own.rank.name,
        },
        "refused": found.refused or None,
        "micro_batches": found.micro_batches,
        "arguments": asdict(found.arguments),
        "formulas": {
            each.name: {
                "title": each.title,
                "weight_and_optimizer_bytes": each.memory.weight_and_optimizer,
                "activation_bytes": each.memory.activation,
                "total_bytes": each.memory.total,
                "assumptions": list(each.assumptions),
                "differences": list(each.differences),
            }
            for each in found.answers
        },
        "deepspeed": [asdict(each) for each in found.deepspeed],
    }


def comparison_text(found: Comparison) -> str:
    """What `memcore formulas` prints."""
    rows = [("", "weights, gradients, optimizer", "activations", "together"), *_rows(found)]
    lines = [*table(rows, right=(1, 2, 3)), ""]
    if found.refused:
        lines += [f"memcore has no answer of its own: {found.refused}", ""]
    for each in found.answers:
        lines += [f"{each.title} assumes", *(f"  {line}" for line in each.assumptions), ""]
    lines.append("Why memcore says something else")
    for text in dict.fromkeys(text for each in found.answers for text in each.differences):
        names = [each.title for each in found.answers if text in each.differences]
        lines.append(f"  {text}" + ("" if len(names) == len(found.answers) else f" ({', '.join(names)})"))
    lines.append("  DeepSpeed's estimators leave out activations, buckets and gathered parameters")
    return "\n".join(lines) + "\n"


def _rows(found: Comparison) -> Iterator[tuple[str, str, str, str]]:
    if found.estimate is not None and found.held is not None:
        peak = found.estimate.allocated.expected
        yield "memcore", format_bytes(found.held), format_bytes(peak - found.held), format_bytes(peak)
    for each in found.answers:
        activation = "not reported" if each.memory.activation is None else format_bytes(round(each.memory.activation))
        weights, total = round(each.memory.weight_and_optimizer), round(each.memory.total)
        yield each.title, format_bytes(weights), activation, format_bytes(total)
    for line in found.deepspeed:
        if line.zero_init is not False:
            offload = "parameters and optimizer" if line.offload_param else "the optimizer"
            title = f"DeepSpeed ZeRO-{line.stage}" + (f", {offload} offloaded" if line.offload_optimizer else "")
            yield title, format_bytes(line.gpu), "not reported", format_bytes(line.gpu)
