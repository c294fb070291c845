"""Plans, for a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from memcore.columns import WIDTH, fitted, table
from memcore.config.devices import node_of
from memcore.config.knobs import TIERS
from memcore.formats.tool import Tool
from memcore.hardware import USUAL
from memcore.i18n.page import say, sentence, translated
from memcore.messages import listed
from memcore.questions.costs import Range
from memcore.questions.describe_serving import pace_in_words, serving_verdict, span_data
from memcore.questions.planning.budget import Budget
from memcore.questions.planning.plan import Planned, Proposal, Step
from memcore.serving.estimate import ServingEstimate
from memcore.tools import Exported
from memcore.units import format_bytes, format_tokens


def plans_text(
    found: Planned,
    tokens: int | None = None,
    price: float | None = None,
    width: int = WIDTH,
    brought: Tool | None = None,
) -> str:
    """Return what `memcore plan` prints: a line for each plan, then each with its changes and the tool's file.

    With `tokens`, each plan says how long it trains on them; with the `price` of a GPU-hour, what that costs. Lines
    longer than `width` characters are broken, except those of files and commands. `brought`: as of `Proposal.export`.
    """
    lines = wrapped(_limit(found), width)
    if not found.plans:
        return "\n".join(lines) + "\n"
    pace = "cli-per-step" if any(each.seconds for each in found.plans) else "cli-per-second"
    rows = [("", *map(say, ("cli-needs", "cli-left", pace, "cli-plan")))]
    rows += [
        (
            f"{number}.",
            format_bytes(each.found.device.expected),
            format_bytes(each.headroom),
            _step(each),
            title_of(each),
        )
        for number, each in enumerate(found.plans, 1)
    ]
    lines += wrapped(table(rows, right=(1, 2, 3)), width)
    for number, each in enumerate(found.plans, 1):
        lines += [
            "",
            *wrapped(
                [say("cli-plan-number", number=number, title=title_of(each)), *_details(each, tokens, price)], width
            ),
        ]
        lines += written_lines(each, brought, width)
    return "\n".join(lines) + "\n"


def wrapped(lines: Iterable[str], width: int) -> list[str]:
    """Return lines, the longer ones broken."""
    return [piece for line in lines for piece in fitted(line, width)]


def plans_brief(found: Planned, heading: str = "cli-ways") -> list[str]:
    """Return what follows an answer that does not fit: a line for each plan; the heading says how to see them whole."""
    if not found.plans:
        return _limit(found)
    rows = [
        (format_bytes(each.found.device.expected), translated(TIERS[each.tier]), title_of(each)) for each in found.plans
    ]
    return [
        *_limit(found),
        say(heading),
        *(f"  {line}" for line in table(rows, right=(0,))),
    ]


def _limit(found: Planned) -> list[str]:
    """Return what binds, if nothing fits as asked."""
    lines = [say("cli-no-plan", reason=translated(found.none_because))] if found.none_because else []
    lines += [say("cli-plan-assumed", reason=translated(found.assumed))] if found.assumed else []
    return lines if found.plans else [*lines, say("ways-least")]


def title_of(each: Proposal) -> str:
    """Return what a plan is called."""
    return listed(say("and-comma"), map(translated, each.parts))


def _memory(each: Proposal) -> str:
    device, capacity = each.found.device, each.found.capacity or 1
    sizes = {"need": device.expected, "low": device.low, "high": device.high, "free": each.headroom}
    said = {name: format_bytes(size) for name, size in sizes.items()}
    key = "cli-memory" if each.found.job.num_gpus > 1 else "cli-memory-of-one"
    return "  " + say(key, **said, share=f"{100 * each.headroom / capacity:.0f}")


def _step(each: Proposal) -> str:
    """Return seconds of a step of training; of a server tokens per second of one user."""
    if each.speed is not None:
        return f"{each.speed.tokens[1]:.3g}"
    return "-" if each.seconds is None else f"{each.seconds[1]:.3g} s"


def _speed(each: Proposal, tokens: int | None, price: float | None) -> Iterator[str]:
    """Yield lines with tokens per second, and with days, GPU-hours and money."""
    if each.speed is not None:
        users = each.speed.users
        yield "  " + say("cli-pace-each" if users > 1 else "cli-pace", pace=pace_in_words(each.speed), users=users)
        yield "    " + say("cli-pace-at", length=f"{each.speed.length:,}")
    elif each.why_no_speed is not None:
        yield "  " + say("cli-pace-unknown", why=each.why_no_speed)
    if each.seconds is None or each.tokens is None:
        return
    shortest, seconds, longest = each.seconds
    low, expected, high = (each.tokens / each_one for each_one in (longest, seconds, shortest))
    yield "  " + say("cli-speed", expected=f"{expected:,.0f}", low=f"{low:,.0f}", high=f"{high:,.0f}")
    span = {"seconds": f"{seconds:.3g}", "low": f"{shortest:.3g}", "high": f"{longest:.3g}"}
    utilized = "" if each.mfu is None else f"{100 * each.mfu:.0f}"
    yield "    " + say("cli-seconds-mfu" if utilized else "cli-seconds", **span, mfu=utilized)
    if each.found.job.accelerator is None:
        yield "    " + say("cli-speed-of", name=USUAL.name)
    budget = None if tokens is None else each.budget(tokens, price)
    if budget is None:
        return
    said = [say("cli-days", span=_spread(budget.days)), say("cli-gpu-hours", span=_spread(budget.gpu_hours))]
    said += [say("cli-money", span=_spread(budget.money), price=f"{price:g}")] if budget.money else []
    said += [say("cli-energy", span=_spread(budget.energy))] if budget.energy else []
    yield "  " + say("cli-budget", tokens=format_tokens(budget.tokens), parts=say("and-comma").join(said))


def plain(number: float) -> str:
    """Return a number with three digits, or all before the point.

    >>> plain(10.627), plain(2330.4)
    ('10.6', '2,330')
    """
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _spread(found: Range) -> str:
    low, expected, high = map(plain, found)
    return say("serves-range", expected=expected, low=low, high=high)


def _details(each: Proposal, tokens: int | None, price: float | None) -> Iterator[str]:
    if not each.safe:
        yield "  " + say("cli-tight")
    yield _memory(each)
    if isinstance(each.found, ServingEstimate):
        yield "    " + serving_verdict(each.found).reason
    if each.host:
        alone = each.found.job.num_gpus <= node_of(each.config)
        yield "  " + say("cli-host-ram-alone" if alone else "cli-host-ram", size=format_bytes(each.host))
    if each.host_room is not None:
        yield "  " + say("cli-host-spills", usual=format_bytes(int(each.host_room)))
    yield "  " + say("cli-quality", said=translated(each.quality))
    yield from _speed(each, tokens, price)
    yield from change_lines(each)


def change_lines(each: Proposal) -> Iterator[str]:
    """Yield what a plan changes."""
    yield from _changes(each.changes) if each.changes else ["  " + say("cli-unchanged")]


def _changes(changes: Sequence[Step]) -> Iterator[str]:
    """Yield each reason once, over the settings that it changes."""
    yield "  " + say("cli-changes")
    for why in dict.fromkeys(each.why for each in changes):
        yield "    " + sentence(translated(why))
        yield from table(
            (f"      {each.path}", f"{_said(each.before)} -> {_said(each.after)}")
            for each in changes
            if each.why == why
        )


def written_lines(each: Proposal, brought: Tool | None, width: int) -> list[str]:
    """Return a plan as its tool's text, and what that does not say; nothing where no format covers it."""
    written = each.export(brought)
    return [] if written is None else [*_exported(written), *wrapped(_left_out(written), width)]


def _exported(written: Exported) -> Iterator[str]:
    """Yield the plan as its tool's file or command, line by line as it is."""
    yield "  " + say("cli-for-tool", tool=translated(written.tool.title))
    yield from (f"    {line}" for line in written.text.rstrip().splitlines())


def _left_out(written: Exported) -> Iterator[str]:
    """Yield what the plan needs and its tool's file does not say."""
    if written.reasons:
        yield "  " + say("cli-not-in-file")
        yield from (f"    {translated(why)}" for why in written.reasons)


def _said(value: object) -> str:
    return say("cli-default") if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def plans_data(
    found: Planned, tokens: int | None = None, price: float | None = None, brought: Tool | None = None
) -> dict[str, Any]:
    """Return the same as JSON."""
    return {
        "asked": found.asked.to_dict(),
        "plans": [_row(each, tokens, price, each.export(brought)) for each in found.plans],
        "none_because": found.none_because,
        "assumed": found.assumed,
        "estimates": found.estimates,
    }


def ends(found: Range | None) -> dict[str, float] | None:
    """Return a range by its ends."""
    return None if found is None else dict(zip(("low", "expected", "high"), found, strict=True))


def _budget(budget: Budget | None) -> dict[str, Any] | None:
    if budget is None:
        return None
    spans = {"days": budget.days, "gpu_hours": budget.gpu_hours, "money": budget.money, "kwh": budget.energy}
    return {"tokens": budget.tokens, **{name: ends(span) for name, span in spans.items()}}


def _row(each: Proposal, tokens: int | None, price: float | None, written: Exported | None) -> dict[str, Any]:
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
        "step_seconds": ends(each.seconds),
        "step_tokens": each.tokens,
        "mfu": each.mfu,
        "tokens_per_second": None if each.speed is None else span_data(each.speed.tokens),
        "first_token_seconds": None if each.speed is None or each.speed.first is None else span_data(each.speed.first),
        "budget": _budget(budget),
        "quality": each.quality,
        "exports": {} if written is None else {written.tool.name: written.text},
    }
