"""An estimate for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from memcore.columns import table
from memcore.config.engine import EngineSettings
from memcore.config.settings import SETTINGS
from memcore.i18n.page import named, say, translated
from memcore.memory.answer import Answer
from memcore.memory.doubts import narrowing
from memcore.memory.estimate import Estimate
from memcore.memory.host_phases import host_phases, processes
from memcore.memory.phases import phases
from memcore.memory.places import PHASES
from memcore.memory.rank import outside_allocator
from memcore.messages import joined
from memcore.questions.describe import Verdict, name_of, place_in_words, spelled, symbols, verdict, when
from memcore.rules.table import RULES
from memcore.trace.job import Job
from memcore.trace.program import Moment
from memcore.units import format_bytes, format_count


def title(job: Job) -> str:
    """Return the job in one line."""
    gpu = job.accelerator.name if job.accelerator else "GPU"
    one = "cli-engine-on-one" if job.engine.distributed else "cli-on-one"
    key = "cli-on-many" if job.num_gpus > 1 else one
    parts = [
        say("cli-model", name=translated(job.model.name), count=format_count(job.model.parameters)),
        say(key, engine=job.engine.title, count=job.num_gpus, gpu=gpu),
        _sequence(job),
        _batch(job),
    ]
    return " · ".join(parts)


def _sequence(job: Job) -> str:
    """Return the length of a sequence, and of a GPU's part of it under context parallelism."""
    part, ranks = job.sizes["s"], job.sizes["cp"]
    return say("cli-sequence" if ranks == 1 else "cli-split-sequence", length=part * ranks, part=part)


def _batch(job: Job) -> str:
    """Return the micro-batch; methods that compare pairs run both sequences of each."""
    objective = job.recipe.objective
    if objective is None:
        return say("cli-batch", count=job.micro_batch)
    pairs = "cli-pair" if job.micro_batch == 1 else "cli-pairs"
    return f"{objective.method} · " + say(pairs if objective.pairs else "cli-batch", count=job.micro_batch)


def summary(estimate: Estimate, picture: Sequence[str] = ()) -> str:
    """Return what `memcore estimate` prints; a picture comes after the verdict."""
    found: Verdict = verdict(estimate)
    warnings = [say("cli-warning", said=translated(each)) for each in estimate.job.model.warnings]
    lines = [title(estimate.job), "", found.headline, found.reason, *warnings, "", *picture]
    lines += section("At the peak", table(_breakdown(estimate), right=(1, 2)))
    lines += section("Readings", [*table(readings(estimate), right=(1,)), *_narrower(estimate)])
    lines += section("One step", table(_phases(estimate), right=(1,)))
    lines += section("From start to end", table(_whole(estimate), right=(1,)))
    if len(estimate.ranks) > 1:
        lines += section("Stages", table(_stages(estimate), right=(1,)))
    lines += _host(estimate)
    rows = list(assumed(estimate, say("cli-more-engine")))
    if rows:
        lines += section("Assumed", table(rows))
    return "\n".join(lines).rstrip() + "\n"


def _host(estimate: Estimate) -> Iterator[str]:
    """Memory of the host: of a node from loading to saving, and what each process keeps there."""
    rows = [
        (
            translated(each.title),
            format_bytes(each.bytes),
            say("cli-host-each", because=translated(each.because), size=format_bytes(each.each)),
        )
        for each in host_phases(estimate.rank)
        if each.bytes
    ]
    if rows:
        count = processes(estimate.job)
        heading = say("cli-host") if count == 1 else say("cli-host-many", count=count)
        yield from section(heading, table(rows, right=(1,)))
    on_host: Counter[str] = Counter()
    for each in estimate.rank.host:
        on_host[RULES[each.rule].title] += each.bytes
    held = [(translated(name), format_bytes(size)) for name, size in on_host.items()]
    if held:
        yield from section("Kept by each process", table(held, right=(1,)))


def _whole(estimate: Estimate) -> Iterator[Sequence[str]]:
    """Yield the phases of the whole job."""
    for each in phases(estimate.rank):
        yield translated(each.title), format_bytes(each.bytes), translated(each.because)


def _stages(estimate: Estimate) -> Iterator[Sequence[str]]:
    """Yield every class of ranks, with where its peak is and why."""
    for rank in estimate.ranks:
        words = [
            say("moment", phase=translated(PHASES[rank.peak.phase]), where=place_in_words(rank.peak, rank)),
            translated(rank.because),
            say("rank-binds") if rank is estimate.rank else "",
        ]
        yield translated(rank.name), format_bytes(rank.peak.peak), say("and-also").join(filter(None, words))


def section(heading: str, lines: Sequence[str]) -> list[str]:
    """Return a heading over indented lines."""
    return [translated(heading), *(f"  {line}" for line in lines), ""]


def _breakdown(estimate: Estimate) -> Iterator[Sequence[str]]:
    total = estimate.ledger.total
    for name, size in estimate.ledger.by_category.items():
        yield translated(name), format_bytes(size), f"{100 * size / total:.0f}%"
    yield say("cli-allocated"), format_bytes(total), "100%"


def readings(found: Answer) -> Iterator[Sequence[str]]:
    """Readings with their ranges, and what the GPU has."""
    for each in found.readings:
        between = say("between", low=format_bytes(each.low), high=format_bytes(each.high))
        yield each.name, format_bytes(each.expected), between, each.instrument
    if found.capacity is not None and found.job.accelerator is not None:
        yield say("cli-capacity"), format_bytes(found.capacity), "", found.job.accelerator.name


def _narrower(estimate: Estimate) -> Iterator[str]:
    """Yield the flags that narrow the device's range most, of settings that the config leaves open."""
    config = estimate.job.config
    found = narrowing(tuple(each for each in estimate.device.parts if config.get(each.settled_by) is None))
    if found is not None:
        paths = [found.settled_by, *_TOGETHER.get(found.settled_by, ())]
        flags = joined(" and ", [f"--{SETTINGS[path].flag}" for path in paths])
        yield say("cli-narrower", flags=translated(flags), because=translated(found.title))


_TOGETHER: Mapping[str, Sequence[str]] = {EngineSettings.framework: (EngineSettings.framework_version,)}
"""Settings without which another one only widens a range."""


def _phases(estimate: Estimate) -> Iterator[Sequence[str]]:
    rank = estimate.rank
    if rank.while_built > rank.after_init:
        built = translated("parameters and flat buffers side by side")
        yield translated("initialization"), format_bytes(rank.while_built), built
    yield translated("after init"), format_bytes(rank.after_init), translated("before the first step")
    for phase, words in PHASES.items():
        moments = [moment for moment in estimate.moments if moment.phase == phase]
        if moments:
            highest = max(moments, key=lambda moment: moment.peak)
            yield translated(words), format_bytes(highest.peak), say("cli-highest", when=when(highest, estimate))


def assumed(found: Answer, usual: str) -> Iterator[Sequence[str]]:
    """Yield what was taken that somebody should look at, and how much else; `usual` says what that is."""
    for each in found.assumptions:
        if each.notable:
            yield each.path, spelled(each.path, each.value), translated(each.reason)
    count = sum(not each.notable for each in found.assumptions)
    if count:
        yield say("cli-more", count=count), "", usual


def explanation(estimate: Estimate, moment: Moment) -> str:
    """Return what `memcore explain` prints: every entry of a moment in symbols, in numbers, and with its source."""
    ledger = estimate.rank.ledger(moment)
    lines = [title(estimate.job), "", say("cli-at", when=when(moment, estimate), size=format_bytes(ledger.total)), ""]
    lines += section(
        "Symbols", table([(each.name, format_count(each.value), each.meaning) for each in symbols(estimate)])
    )
    for category, size in ledger.by_category.items():
        lines.append(say("cli-part", category=translated(category), size=format_bytes(size)))
        for entry in ledger.of(category):
            lines += [
                f"  {format_bytes(entry.bytes)}  {name_of(entry)}",
                f"      {entry.formula}",
                f"      {entry.numbers(estimate.rank.job.sizes)}",
                f"      {translated(entry.why)}",
                f"      {say('cli-source', said=named(entry.source))}",
            ]
        lines.append("")
    lines.append(say("cli-outside"))
    for each in outside_allocator(estimate.rank):
        over = each.overhead
        lines += [
            f"  {format_bytes(over.expected)}  {_observed(translated(each.name), over.low, over.high)}",
            f"      {say('cli-source', said=named(over.source))}",
        ]
    return "\n".join(lines) + "\n"


def _observed(name: str, low: int, high: int) -> str:
    return say("cli-observed", name=name, low=format_bytes(low), high=format_bytes(high))
