"""Plans, for a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memcore.columns import table
from memcore.questions.planning.plan import Planned, Proposal
from memcore.questions.planning.rows import TIERS
from memcore.units import format_bytes


def plans_text(found: Planned) -> str:
    """What `memcore plan` prints: a line for each plan, then each with its changes and the tool's file."""
    lines = [f"No plan fits as asked: {found.none_because}."] if found.none_because else []
    if not found.plans:
        return "\n".join([*lines, "Name more GPUs, larger ones, or a smaller model."]) + "\n"
    rows = [("plan", "needs", "free", "step", "gives up")]
    rows += [
        (f"{number}. {each.title}", _needs(each), _free(each), _step(each), TIERS[each.tier])
        for number, each in enumerate(found.plans, 1)
    ]
    lines += table(rows, right=(1, 2, 3))
    for number, each in enumerate(found.plans, 1):
        lines += ["", f"Plan {number}: {each.title}", *_details(each)]
    return "\n".join(lines) + "\n"


def _needs(each: Proposal) -> str:
    device = each.found.device
    return f"{format_bytes(device.expected)} ({format_bytes(device.low)} to {format_bytes(device.high)})"


def _free(each: Proposal) -> str:
    capacity = each.found.capacity or 1
    return f"{format_bytes(each.headroom)} ({100 * each.headroom / capacity:.0f} %)"


def _step(each: Proposal) -> str:
    if each.seconds is None:
        return "-"
    low, expected, high = each.seconds
    return f"{expected:.3g} s ({low:.3g} to {high:.3g})"


def _details(each: Proposal) -> Iterator[str]:
    if not each.safe:
        yield "  Tight: the expected value fits, the high end of the range does not."
    yield f"  Quality: {each.quality}."
    rows = [(f"  {step.path}", f"{_said(step.before)} -> {_said(step.after)}", step.why) for step in each.changes]
    yield from table(rows) if rows else ["  Nothing changes."]
    for tool, text in each.exports.items():
        yield f"  For {tool}:"
        yield from (f"    {line}" for line in text.rstrip().splitlines())


def _said(value: object) -> str:
    return "default" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def plans_data(found: Planned) -> dict[str, Any]:
    """The same as JSON."""
    return {
        "asked": found.asked.to_dict(),
        "plans": [_row(each) for each in found.plans],
        "none_because": found.none_because,
        "estimates": found.estimates,
    }


def _row(each: Proposal) -> dict[str, Any]:
    device = each.found.device
    seconds = None if each.seconds is None else dict(zip(("low", "expected", "high"), each.seconds, strict=True))
    return {
        "title": each.title,
        "gives_up": each.tier,
        "config": each.config.to_dict(),
        "changes": [
            {"path": step.path, "from": step.before, "to": step.after, "why": step.why} for step in each.changes
        ],
        "fits": each.fits,
        "safe": each.safe,
        "device_bytes": {"low": device.low, "expected": device.expected, "high": device.high},
        "headroom_bytes": each.headroom,
        "step_seconds": seconds,
        "quality": each.quality,
        "exports": dict(each.exports),
    }
