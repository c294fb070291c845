"""An estimate in words: where its peak is, whether it fits, and what its symbols mean. All faces share these."""

from __future__ import annotations

import re

from memcore.config.settings import SETTINGS
from memcore.i18n.page import say, translated
from memcore.memory.estimate import Estimate
from memcore.memory.ledger import Entry
from memcore.memory.places import PHASES, layers_of
from memcore.memory.rank import Rank
from memcore.networks.glossary import SYMBOLS, meaning
from memcore.records import dataclass
from memcore.trace.program import Moment
from memcore.units import format_bytes, format_count

_NAMED = re.compile(r"[A-Za-z]+\([^)]*\)|[A-Za-z]+′*")


def when(moment: Moment, estimate: Estimate, rank: Rank | None = None) -> str:
    """Return a moment in words, of the rank that needs most if none is given: `backward pass, layers 2 to 29`."""
    where = place_in_words(moment, rank or estimate.rank)
    # A place of the loss says so itself.
    key = "moment-end" if moment.place == "end" else "moment"
    named = where if moment.phase == "loss" else say(key, phase=translated(PHASES[moment.phase]), where=where)
    count = estimate.job.micro_batches
    if count == 1 or moment.segment is None or not moment.of_micro_batch:
        return named
    rest = say("micro-batch", first=2) if count == 2 else say("micro-batches", first=2, last=count)
    return say("moment", phase=named, where=rest if moment.turn[1] else say("micro-batch", first=1))


def place_in_words(moment: Moment, rank: Rank) -> str:
    """Return a moment's place of the timeline in the language that is spoken: `layers 2 to 29`."""
    found = layers_of(moment.place, rank.job.model)
    if found is None:
        return translated(moment.place)
    kind, first, last, step = found
    key = "layer" if first == last else "layers" if step == 1 else "some-layers"
    return say(key, kind=kind, first=first, next=first + step, last=last)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer in sentences."""

    level: str
    """fits, tight (only the expected value fits), over (only the low end fits), no or unknown."""
    headline: str
    reason: str


def verdict(estimate: Estimate) -> Verdict:
    """Return whether the job fits, by how much, and what its peak is made of."""
    device, capacity = estimate.device, estimate.capacity
    gpus = _gpus(estimate)
    gpus = f"{gpus[0].upper()}{gpus[1:]}"
    if capacity is None:
        headline = say("verdict-unknown", need=format_bytes(device.expected), gpus=gpus)
        return Verdict("unknown", headline, reason(estimate))
    found = level(device.low, device.expected, device.high, capacity)
    left = capacity - device.expected
    headline = say(
        "verdict-left" if left >= 0 else "verdict-missing",
        level=say(f"verdict-{found}"),
        need=format_bytes(device.expected),
        capacity=format_bytes(capacity),
        gpus=gpus,
        size=format_bytes(abs(left)),
        share=f"{100 * left / capacity:.0f}",
    )
    because = reason(estimate)
    if found in UNSURE:
        spread = say("verdict-range", low=format_bytes(device.low), high=format_bytes(device.high))
        because = say("two-sentences", first=spread, second=because)
    return Verdict(found, headline, because)


UNSURE = ("tight", "over")
"""Levels at which the range of what may be needed decides."""


def _gpus(estimate: Estimate) -> str:
    """Return the GPUs that need most."""
    rank = estimate.rank
    if len(estimate.ranks) > 1:
        if rank.count == 1:
            return say("one-gpu-of", name=translated(rank.name))
        return say("many-gpus-of", count=rank.count, name=translated(rank.name))
    count = estimate.job.num_gpus
    return say("one-gpu") if count == 1 else say("many-gpus", count=count)


def level(low: int, expected: int, high: int, capacity: int) -> str:
    """Return whether a range of bytes fits: the `level` of a verdict."""
    if high <= capacity:
        return "fits"
    if expected <= capacity:
        return "tight"
    return "over" if low <= capacity else "no"


def reason(estimate: Estimate) -> str:
    """Return when the peak is and what dominates it: allocated memory, which need no look at the allocator."""
    sums = estimate.ledger.by_category
    category = max(sums, key=lambda name: sums[name])
    share = 100 * sums[category] / estimate.ledger.total
    return say(
        "verdict-reason-loss" if estimate.peak.phase == "loss" else "verdict-reason",
        when=when(estimate.peak, estimate),
        total=format_bytes(estimate.ledger.total),
        category=translated(category),
        size=format_bytes(sums[category]),
        share=f"{share:.0f}",
    )


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbol of a formula."""

    name: str
    value: int
    meaning: str


def symbols(estimate: Estimate) -> tuple[Symbol, ...]:
    """Return every symbol that the formulas of an estimate use, with its value."""
    sizes = estimate.rank.job.sizes
    used = {axis for entry in estimate.ledger.entries for axis in _NAMED.findall(entry.formula.partition(" ×")[0])}
    order = list(SYMBOLS)
    found = sorted(used & set(sizes), key=lambda name: (order.index(name.rstrip("′")), name))
    return tuple(Symbol(name, sizes[name], _meaning(name)) for name in found)


def _meaning(name: str) -> str:
    """Return what a symbol means; other layers have one with a mark."""
    plain = translated(meaning(name.rstrip("′")))
    return say("other-layers", meaning=plain) if name.endswith("′") else plain


def spelled(path: str, value: object) -> str:
    """Return the value of a setting as its file, form or flag would spell it; of a model's own key, as text."""
    return SETTINGS[path].kind.spell(value) if path in SETTINGS else str(value)


def readable(path: str, value: object) -> str:
    """Return the value of a setting for reading: counts have their thousands apart."""
    if isinstance(value, int) and not isinstance(value, bool):
        return format_count(value)
    return spelled(path, value)


def why(entry: Entry) -> str:
    """Why an entry is there at this moment, in the language that is spoken."""
    lifetime = translated(entry.because)
    return say("saved-by", lifetime=lifetime, rules=", ".join(entry.savers)) if entry.savers else lifetime


def name_of(entry: Entry) -> str:
    """Return an entry's tensor: what it is, and whose."""
    title = translated(entry.title)
    return f"{title} ({entry.module})" if entry.module else title
