"""A server's estimate for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memcore.columns import table
from memcore.faces.render.text import assumed, readings, section
from memcore.i18n.page import named, say, translated
from memcore.questions.describe_serving import answers, asked_of_pool, serving_title, serving_verdict
from memcore.serving.answers import curve, sleep_phases
from memcore.serving.entries import CATEGORIES
from memcore.serving.estimate import ServingEstimate
from memcore.serving.inference import Inference
from memcore.serving.presets import question_parts
from memcore.units import format_bytes, format_count


def serving_summary(found: ServingEstimate, picture: Sequence[str] = ()) -> str:
    """Return what `memcore estimate` prints for a server; a picture comes after the verdict."""
    verdict = serving_verdict(found)
    warnings = [say("cli-warning", said=translated(each)) for each in found.job.model.warnings]
    lines = [serving_title(found), "", verdict.headline, verdict.reason, *warnings, "", *picture]
    held, read = where(found), "Readings"
    if asked_of_pool(found):
        held, read = (say("serves-without-cache", where=translated(each)) for each in (held, read))
    lines += section(held, table(_breakdown(found), right=(1, 2)))
    lines += section(read, table(readings(found), right=(1,)))
    rows = [(each.question, each.answer) for each in answers(found)]
    if rows:
        lines += section("Answers", table(rows))
    points = [
        (say("serves-tokens", count=format_count(each.length)), format_count(each.users)) for each in curve(found)
    ]
    if points:
        lines += section("Users by context length", table(points, right=(0, 1)))
    if found.job.config[Inference.sleep_level] is not None:
        lines += section("Sharing the GPU with training", table(_phases(found), right=(1, 2)))
    if found.notes:
        lines += section("Notes", [translated(each) for each in found.notes])
    taken = list(assumed(found, say("cli-more-server")))
    if taken:
        lines += section("Assumed", table(taken))
    return "\n".join(lines).rstrip() + "\n"


def where(found: ServingEstimate) -> str:
    """Return whose ledger is shown."""
    if len(found.ranks) > 1 and found.rank.count == 1:
        return say("serves-where-stage", name=found.rank.name)
    if len(found.ranks) > 1:
        return say("serves-where-each-of", name=found.rank.name)
    return say("serves-where-each" if found.job.num_gpus > 1 else "serves-where")


def _breakdown(found: ServingEstimate) -> Iterator[Sequence[str]]:
    total, within = found.ledger.total, {part.within: part for part in question_parts(found) if part.within}
    for name, size in found.ledger.by_category.items():
        yield translated(name), format_bytes(size), f"{100 * size / total:.0f}%", translated(CATEGORIES[name])
        if name in within:
            yield f"  {translated(within[name].name)}", format_bytes(within[name].bytes), "", ""
    yield say("cli-total"), format_bytes(total), "100%", ""
    if found.budget.line is not None:
        yield translated(found.budget.line_title), format_bytes(found.budget.line), "", ""


def _phases(found: ServingEstimate) -> Iterator[Sequence[str]]:
    for each in sleep_phases(found):
        free = "" if each.free is None else say("cli-free", size=format_bytes(each.free))
        yield translated(each.name), format_bytes(each.held), free, translated(each.why)


def serving_explanation(found: ServingEstimate) -> str:
    """Return what `memcore explain` prints: every entry in symbols, in numbers, and with its source."""
    lines = [serving_title(found), ""]
    for category, size in found.ledger.by_category.items():
        meaning = translated(CATEGORIES[category])
        lines.append(say("cli-part-of", category=translated(category), size=format_bytes(size), meaning=meaning))
        for entry in found.ledger.of(category):
            shown = format_bytes(entry.bytes)
            if entry.range:
                shown = say("cli-observed", name=shown, low=format_bytes(entry.low), high=format_bytes(entry.high))
            module = f" ({entry.module})" if entry.module else ""
            lines += [f"  {shown}  {translated(entry.title)}{module}", f"      {translated(entry.formula)}"]
            if not entry.text:
                lines.append(f"      {entry.numbers()}")
            lines += [f"      {translated(entry.why)}"] if entry.why else []
            lines.append(f"      {say('cli-source', said=named(entry.source))}")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"
