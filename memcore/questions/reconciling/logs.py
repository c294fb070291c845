"""What a run says of its memory, found in the lines that it prints.

A log is somebody else's text: it is cut to a size, its lines to a length, and patterns have no nested repetition, so
that reading takes time proportional to its length. Nothing is understood but numbers next to words of `LINES`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache

from memcore.errors import MemcoreError, problems_of
from memcore.formats.notebooks import code_of
from memcore.questions.reconciling.lines import FIRST, LEAST, LINES, STARTS, SUM, UNITS, Line, Meaning
from memcore.records import dataclass
from memcore.units import GB, GiB, MiB

LARGEST, LONGEST = 2**22, 1500
"""Characters of a log, and of a line, that are read."""
_ABSURD = 2**52
"""Sizes from here on are a driver's nonsense, such as 17179869184.00 GiB."""
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,16}m")
_SIZE = re.compile(r"([0-9][0-9,]{0,25}(?:\.[0-9]{1,15})?) ?([A-Za-z]{0,5})")
_NUMBER = re.compile(r"(?<![\w.,])([0-9]{1,15}(?:\.[0-9]{1,9})? ?[KMGT]i?B)(?![\w])")
_UNNAMED = 8
"""The most numbers without a pattern that are shown, if nothing else is found."""
_WRAPPED = 6
"""Lines over which terminals wrap a message about memory that is out."""
_OUT = "out of memory"
_NAMES = {GiB: "GiB", MiB: "MiB", GB: "GB"}


_Key = tuple[str, str, str | None]
"""Tool, quantity and moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """A quantity that a log states."""

    tool: str
    """Whose line it is."""
    quantity: str
    """As in a truth case, or one that only logs have (`log_lines`)."""
    moment: str | None
    """As in a truth case; None if the line does not say."""
    value: int
    """Bytes, or a count; 0 where memory was out."""
    low: int
    high: int
    """Between which bounds what was printed so can be."""
    stated: str
    """The number as the log has it."""
    line: int
    """Counted from 1."""
    times: int = 1
    """How many lines state this quantity; the value is that of the one that counts."""
    rank: int | str = "max"
    source: str = ""
    """Where the pattern of the line comes from."""

    @property
    def rounding(self) -> int:
        """Return how far off what was printed can be."""
        return max(self.high - self.value, self.value - self.low)


@lru_cache(maxsize=1)  # the page compares the same log with every edit
def sightings(text: str) -> tuple[Sighting, ...]:
    """Return everything that a log says about memory, in its order; the worst, first or smallest where a line repeats.

    >>> [(each.tool, each.quantity, each.value) for each in sightings("step: 10  memory: 42.00GiB(53.03%)")]
    [('torchtitan', 'max_reserved', 45097156608)]
    """
    plain = text[:LARGEST].replace("\r\n", "\n").replace("\r", "\n")
    plain = _COLOUR.sub("", plain) if "\x1b" in plain else plain
    plain = _of_one_start(plain)
    kept = _Kept()
    for number, before, line, wanted in _hinted(plain):
        for index in wanted:
            if LINES[index].follows(before):
                kept.read(index, line, number)
    named = tuple(_combined(kept.sightings()))
    return named or tuple(_unnamed(plain))


def is_log(text: str, error: MemcoreError) -> bool:
    """Return whether a text that no reader of configs takes, for this error, is what a run printed.

    A document may show commands and errors of runs too, and so may code.
    """
    commands = any(each.path == "the command" for each in problems_of(error))
    return not commands and code_of(text) is None and any(each.tool for each in sightings(text))


def _of_one_start(plain: str) -> str:
    """Return a log up to the second start of a server in it: its numbers are not added to those of the first."""
    again = [plain.find(start, plain.find(start) + 1) for start in STARTS if start in plain]
    return plain[: min((at for at in again if at > 0), default=len(plain))]


@cache
def _by_hint() -> Mapping[str, Sequence[int]]:
    """Return kinds of lines, by where they stand in `LINES`, for each text that tells them."""
    found: dict[str, list[int]] = {}
    for index, each in enumerate(LINES):
        found.setdefault(each.hint, []).append(index)
    return found


def _hinted(plain: str) -> Iterator[tuple[int, str, str, Sequence[int]]]:
    """Yield the lines that may state something: their number, the line before, their text, and what they may be.

    Texts are searched for in the log as a whole, because most lines of most logs have none of them.
    """
    wanted: dict[int, list[int]] = {}
    for hint, kinds in _by_hint().items():
        end, at = 0, plain.find(hint)
        while at >= 0:
            start = plain.rfind("\n", end, at) + 1
            end = plain.find("\n", at)
            if at + len(hint) <= start + LONGEST:
                wanted.setdefault(start, []).extend(kinds)
            at = plain.find(hint, end) if end >= 0 else -1
    number, before = 1, 0
    for start in sorted(wanted):
        number, before = number + plain.count("\n", before, start), start
        lines = plain[start : start + LONGEST].split("\n", _WRAPPED)[:_WRAPPED]
        earlier = plain[max(0, start - LONGEST) : max(0, start - 1)].rpartition("\n")[2]
        yield number, earlier, " ".join(lines) if _OUT in lines[0] else lines[0], sorted(wanted[start])


class _Kept:
    """Of several lines that state a quantity, what counts."""

    def __init__(self) -> None:
        self.found: dict[_Key, Sighting] = {}
        self.times: dict[_Key, int] = {}
        self.again: dict[tuple[int, Sequence[str]], Sequence[_Key]] = {}
        """What lines of one kind with the same numbers state: they count, but change nothing."""

    def read(self, index: int, line: str, number: int) -> None:
        """Return what a line states, if it is of this kind."""
        kind = LINES[index]
        match = kind.text.search(line) if kind.also in line else None
        if match is None:
            return
        same = index, match.groups() or (match[0],)
        if same not in self.again:
            stated = list(_seen(kind, match, number))
            for seen, meaning in stated:
                self._keep(seen, meaning)
            if all(meaning.take != SUM and (meaning.take != FIRST or seen.value) for seen, meaning in stated):
                self.again[same] = [_key(seen) for seen, _ in stated]
            return
        for key in self.again[same]:
            self.times[key] += 1

    def _keep(self, seen: Sighting, meaning: Meaning) -> None:
        key = _key(seen)
        before = self.found.get(key)
        if before is None or (meaning.take == FIRST and not before.value):
            self.found[key], self.times[key] = seen, 1
            return
        self.times[key] += 1
        if meaning.take == SUM:
            low, value, high = before.low + seen.low, before.value + seen.value, before.high + seen.high
            stated = f"{before.stated} + {seen.stated}"[:200]
            self.found[key] = replace(before, low=low, value=value, high=high, stated=stated)
        elif meaning.take != FIRST and (
            seen.value < before.value if meaning.take == LEAST else seen.value > before.value
        ):
            self.found[key] = seen

    def sightings(self) -> Iterator[Sighting]:
        """Yield everything that counts."""
        for key, seen in self.found.items():
            yield replace(seen, times=self.times[key])


def _key(seen: Sighting) -> _Key:
    return seen.tool, seen.quantity, seen.moment


def _seen(pattern: Line, match: re.Match[str], number: int) -> Iterator[tuple[Sighting, Meaning]]:
    """Yield what one line states; parts of one quantity are added."""
    stated: dict[tuple[str, str | None], tuple[Sighting, Meaning]] = {}
    for meaning, group in zip(pattern.meanings, match.groups() or ("",), strict=True):
        if group is None:
            continue
        size = _size(group, meaning)
        if size is None:
            continue
        low, value, high = size
        key = meaning.quantity, meaning.moment
        before = stated[key][0] if key in stated else None
        seen = Sighting(
            tool=pattern.tool,
            quantity=meaning.quantity,
            moment=meaning.moment,
            value=value + (before.value if before else 0),
            low=low + (before.low if before else 0),
            high=high + (before.high if before else 0),
            stated=f"{before.stated} + {_stated(group, meaning)}" if before else _stated(group, meaning) or match[0],
            line=number,
            rank=meaning.rank,
            source=pattern.source,
        )
        stated[key] = seen, meaning
    yield from stated.values()


def _stated(number: str, meaning: Meaning) -> str:
    """Return a number as the log has it, with the unit that its line names elsewhere."""
    return f"{number.strip()} {_NAMES.get(meaning.unit or 0, '')}".strip()


def _size(text: str, meaning: Meaning) -> tuple[int, int, int] | None:
    """Between which bounds a printed number is, and itself; None for nonsense."""
    if not text:
        return 0, 0, 0
    match = _SIZE.match(text)
    if match is None:
        return None
    digits = match[1].replace(",", "")
    unit = meaning.unit or UNITS.get(match[2].lower(), 1)
    value = float(digits) * unit if "." in digits else int(digits) * unit
    if value >= _ABSURD:
        return None
    step = unit / 10 ** len(digits.partition(".")[2])
    if step <= 1:
        return round(value), round(value), round(value)
    if meaning.cut:
        return round(value), round(value), round(value + step)
    return max(0, round(value - step / 2)), round(value), round(value + step / 2)


_COMBINED: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("max_allocated", "peak"): (
        "before_init_mem_gpu",
        "init_mem_gpu_alloc_delta",
        "train_mem_gpu_alloc_delta",
        "train_mem_gpu_peaked_delta",
    ),
    ("allocated", "after_init"): ("before_init_mem_gpu", "init_mem_gpu_alloc_delta"),
    ("needed", "out_of_memory"): ("allocated at out_of_memory", "request at out_of_memory"),
    ("non_torch", "out_of_memory"): (
        "process at out_of_memory",
        "-allocated at out_of_memory",
        "-unallocated at out_of_memory",
    ),
    ("others", "out_of_memory"): ("capacity", "-free at out_of_memory", "-process at out_of_memory"),
}
"""Quantities that follow from several, added or taken away: the Trainer prints differences (TrainerMemoryTracker of
transformers/trainer_utils.py); where memory was out the job needed what it had and what it asked for, and what is
neither in tensors nor free is the context's, libraries' or other processes'."""


def _combined(found: Iterable[Sighting]) -> Iterator[Sighting]:
    """Yield what was found, and what follows from it."""
    seen = list(found)
    yield from seen
    for tool in dict.fromkeys(each.tool for each in seen):
        yield from _following([each for each in seen if each.tool == tool])


def _following(seen: Sequence[Sighting]) -> Iterator[Sighting]:
    """Yield what follows from the lines of one tool."""
    by_name = {f"{each.quantity} at {each.moment}" if each.moment else each.quantity: each for each in seen}
    for (quantity, moment), names in _COMBINED.items():
        plus = [by_name.get(name) for name in names if name[0] != "-"]
        minus = [by_name.get(name[1:]) for name in names if name[0] == "-"]
        more, less = [each for each in plus if each], [each for each in minus if each]
        value = sum(each.value for each in more) - sum(each.value for each in less)
        if len(more) + len(less) < len(names) or value < 0:
            continue
        yield replace(
            more[0],
            quantity=quantity,
            moment=moment,
            value=value,
            low=max(0, sum(each.low for each in more) - sum(each.high for each in less)),
            high=sum(each.high for each in more) - sum(each.low for each in less),
            stated=" - ".join([" + ".join(each.stated for each in more), *(each.stated for each in less)]),
        )


def _unnamed(plain: str) -> Iterator[Sighting]:
    """Yield the first numbers with a unit, where nothing says what they are."""
    start, number, count = 0, 1, 0
    for match in _NUMBER.finditer(plain):
        line = plain.rfind("\n", start, match.start()) + 1 or start
        number, start = number + plain.count("\n", start, line), line
        size = _size(match[1], Meaning("number"))
        if size is None or match.end() > line + LONGEST:
            continue
        count += 1
        low, value, high = size
        yield Sighting(
            tool="", quantity="number", moment=None, value=value, low=low, high=high, stated=match[1], line=number
        )
        if count == _UNNAMED:
            return
