"""Plans, for a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from memcore.columns import WIDTH, fitted, table
from memcore.config.knobs import TIERS
from memcore.questions.costs import Range
from memcore.questions.describe_serving import pace_in_words, span_data
from memcore.questions.planning.budget import Budget
from memcore.questions.planning.plan import Planned, Proposal, Step
from memcore.units import format_bytes


def plans_text(found: Planned, tokens: int | None = None, price: float | None = None, width: int = WIDTH) -> str:
    """Return what `memcore plan` prints: a line for each plan, then each with its changes and the tool's file.

    With `tokens`, each plan says how long it trains on them; with the `price` of a GPU-hour, what that costs. Lines
    longer than `width` characters are broken, except those of files and commands.
    """
    lines = _fitting(_limit(found), width)
    if not found.plans:
        return "\n".join(lines) + "\n"
    rows = [("", "needs", "free", "step", "plan")]
    rows += [
        (f"{number}.", format_bytes(each.found.device.expected), format_bytes(each.headroom), _step(each), each.title)
        for number, each in enumerate(found.plans, 1)
    ]
    lines += _fitting(table(rows, right=(1, 2, 3)), width)
    for number, each in enumerate(found.plans, 1):
        lines += ["", *_fitting([f"Plan {number}: {each.title}", *_details(each, tokens, price)], width)]
        lines += _exported(each)
    return "\n".join(lines) + "\n"


def _fitting(lines: Iterable[str], width: int) -> list[str]:
    return [piece for line in lines for piece in fitted(line, width)]


def plans_brief(found: Planned) -> list[str]:
    """Return what follows an answer that does not fit: a line for each plan, and how to see them whole."""
    if not found.plans:
        return _limit(found)
    rows = [(format_bytes(each.found.device.expected), TIERS[each.tier], each.title) for each in found.plans]
    return [
        *_limit(found),
        "What fits (`memcore plan` with the same arguments shows the configs)",
        *(f"  {line}" for line in table(rows, right=(0,))),
    ]


def _limit(found: Planned) -> list[str]:
    """Return what binds, if nothing fits as asked."""
    lines = [f"No plan fits as asked: {found.none_because}."] if found.none_because else []
    return lines if found.plans else [*lines, "Choose more or larger GPUs, or a smaller model."]


def _memory(each: Proposal) -> str:
    device, capacity = each.found.device, each.found.capacity or 1
    needs = f"{format_bytes(device.expected)} ({format_bytes(device.low)} to {format_bytes(device.high)})"
    free = f"{format_bytes(each.headroom)} ({100 * each.headroom / capacity:.0f} %)"
    return f"  Memory: needs {needs} on each GPU, leaving {free} free."


def _step(each: Proposal) -> str:
    return "-" if each.seconds is None else f"{each.seconds[1]:.3g} s"


def _speed(each: Proposal, tokens: int | None, price: float | None) -> Iterator[str]:
    """Lines with tokens per second, and with days, GPU-hours and money."""
    if each.speed is not None:
        users = f" for each of {each.speed.users} users" if each.speed.users > 1 else ""
        yield f"  Speed: {pace_in_words(each.speed)} tokens/s{users}"
        yield f"    at {each.speed.length:,} tokens, while no prompt is read."
    if each.seconds is None or each.tokens is None:
        return
    shortest, seconds, longest = each.seconds
    low, expected, high = (each.tokens / each_one for each_one in (longest, seconds, shortest))
    yield f"  Speed: {expected:,.0f} tokens/s ({low:,.0f} to {high:,.0f}) by the cost model;"
    utilized = "" if each.mfu is None else f", MFU {100 * each.mfu:.0f} %"
    yield f"    {seconds:.3g} s a step ({shortest:.3g} to {longest:.3g}){utilized}."
    budget = None if tokens is None else each.budget(tokens, price)
    if budget is None:
        return
    said = [f"{_spread(budget.days)} days", f"{_spread(budget.gpu_hours)} GPU-hours"]
    said += [f"{_spread(budget.money)} at {price:g} each"] if budget.money else []
    said += [f"{_spread(budget.energy)} kWh for the GPUs at full power"] if budget.energy else []
    yield f"  {budget.tokens:,} tokens: {', '.join(said)}; failures and restarts not counted."


def _spread(found: Range) -> str:
    low, expected, high = (f"{each:,.0f}" if each >= 100 else f"{each:.3g}" for each in found)
    return f"{expected} ({low} to {high})"


def _details(each: Proposal, tokens: int | None, price: float | None) -> Iterator[str]:
    if not each.safe:
        yield "  Tight: the expected value fits, the high end of the range does not."
    yield _memory(each)
    if each.host:
        yield f"  Host: what is offloaded takes {format_bytes(each.host)} of each node's RAM."
    yield f"  Quality: {each.quality}."
    yield from _speed(each, tokens, price)
    yield from _changes(each.changes) if each.changes else ["  Nothing changes."]


def _changes(changes: Sequence[Step]) -> Iterator[str]:
    """Yield each reason once, over the settings that it changes."""
    yield "  Changes:"
    for why in dict.fromkeys(each.why for each in changes):
        yield f"    {why[:1].upper()}{why[1:]}."
        yield from table(
            (f"      {each.path}", f"{_said(each.before)} -> {_said(each.after)}")
            for each in changes
            if each.why == why
        )


def _exported(each: Proposal) -> Iterator[str]:
    """Yield the plan as the tools' files and commands, line by line as they are."""
    for tool, text in each.exports.items():
        yield f"  For {tool}:"
        yield from (f"    {line}" for line in text.rstrip().splitlines())


def _said(value: object) -> str:
    return "default" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def plans_data(found: Planned, tokens: int | None = None, price: float | None = None) -> dict[str, Any]:
    """Return the same as JSON."""
    return {
        "asked": found.asked.to_dict(),
        "plans": [_row(each, tokens, price) for each in found.plans],
        "none_because": found.none_because,
        "estimates": found.estimates,
    }


def _range(found: Range | None) -> dict[str, float] | None:
    return None if found is None else dict(zip(("low", "expected", "high"), found, strict=True))


def _budget(budget: Budget | None) -> dict[str, Any] | None:
    if budget is None:
        return None
    spans = {"days": budget.days, "gpu_hours": budget.gpu_hours, "money": budget.money, "kwh": budget.energy}
    return {"tokens": budget.tokens, **{name: _range(span) for name, span in spans.items()}}


def _row(each: Proposal, tokens: int | None, price: float | None) -> dict[str, Any]:
    device = each.found.device
    budget = None if tokens is None else each.budget(tokens, price)
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
        "node_host_bytes": each.host,
        "step_seconds": _range(each.seconds),
        "step_tokens": each.tokens,
        "mfu": each.mfu,
        "tokens_per_second": None if each.speed is None else span_data(each.speed.tokens),
        "first_token_seconds": None if each.speed is None or each.speed.first is None else span_data(each.speed.first),
        "budget": _budget(budget),
        "quality": each.quality,
        "exports": dict(each.exports),
    }
