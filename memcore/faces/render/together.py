"""Plans for several jobs on the same GPUs, for a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memcore.columns import WIDTH, table
from memcore.faces.render.plans import change_lines, title_of, wrapped, written_lines
from memcore.faces.render.sharing import verdict
from memcore.i18n.page import say, translated
from memcore.questions.describe_serving import serving_verdict
from memcore.questions.planning.plan import Proposal
from memcore.questions.planning.together import PlannedTogether, Together
from memcore.serving.estimate import ServingEstimate
from memcore.units import format_bytes


def together_text(found: PlannedTogether, width: int = WIDTH) -> str:
    """Return what `memcore plan --with` prints: a line for each plan, then each with its jobs and their commands."""
    lines = wrapped([say("cli-no-plan", reason=translated(found.none_because))] if found.none_because else [], width)
    if not found.plans:
        return "\n".join([*lines, say("ways-least")]) + "\n"
    rows = [("", *map(say, ("cli-needs", "cli-left", "cli-plan")))]
    rows += [
        (f"{number}.", format_bytes(each.shared.expected), format_bytes(each.shared.headroom or 0), _title(each))
        for number, each in enumerate(found.plans, 1)
    ]
    lines += wrapped(table(rows, right=(1, 2)), width)
    for number, each in enumerate(found.plans, 1):
        told = [f"  {line}" for line in verdict(each.shared, ())]
        lines += ["", *wrapped([say("cli-plan-number", number=number, title=_title(each)), *told], width)]
        for job in each.jobs:
            lines += [*wrapped(_job(job), width), *written_lines(job, None, width)]
    return "\n".join(lines) + "\n"


def together_brief(found: PlannedTogether) -> list[str]:
    """Return what follows jobs that do not fit together: a line for each plan."""
    rows = [(format_bytes(each.shared.expected), _title(each)) for each in found.plans]
    return [say("cli-ways"), *(f"  {line}" for line in table(rows, right=(0,)))] if rows else []


def _title(each: Together) -> str:
    return "; ".join(f"{job.found.job.model.name}: {title_of(job)}" for job in each.jobs)


def _job(each: Proposal) -> Iterator[str]:
    device = each.found.device
    span = say("between", low=format_bytes(device.low), high=format_bytes(device.high))
    yield f"  {each.found.job.model.name}: {format_bytes(device.expected)} ({span})"
    if isinstance(each.found, ServingEstimate):
        yield "    " + serving_verdict(each.found).reason
    yield "  " + say("cli-quality", said=translated(each.quality))
    yield from change_lines(each)


def together_data(found: PlannedTogether) -> dict[str, Any]:
    """Return the same as JSON."""
    return {
        "asked": [each.job.config.to_dict() for each in found.asked.found],
        "plans": [
            {
                "title": each.title,
                "gives_up": each.gives_up,
                "fits": each.shared.fits,
                "safe": each.safe,
                "device_bytes": {
                    "low": each.shared.low,
                    "expected": each.shared.expected,
                    "high": each.shared.high,
                },
                "headroom_bytes": each.shared.headroom,
                "jobs": [_row(job) for job in each.jobs],
            }
            for each in found.plans
        ],
        "none_because": found.none_because,
    }


def _row(each: Proposal) -> dict[str, Any]:
    device = each.found.device
    return {
        "config": each.config.to_dict(),
        "changes": [
            {"path": step.path, "from": step.before, "to": step.after, "why": step.why} for step in each.changes
        ],
        "device_bytes": {"low": device.low, "expected": device.expected, "high": device.high},
        "quality": each.quality,
        "exports": dict(each.exports),
    }
