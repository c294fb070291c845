"""What a run's log says about memory, compared with the prediction for its config.

A difference is explained only by what the ledger has: tensors of just that size. Nothing is claimed of them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from memcore.config.settings import Config
from memcore.errors import ConfigError, MemcoreError
from memcore.estimation import estimate
from memcore.memory.estimate import Estimate
from memcore.memory.rank import outside_allocator
from memcore.messages import Message, joined
from memcore.questions.accuracy import Prediction, prediction
from memcore.questions.reconciling.logs import LARGEST, Sighting, sightings
from memcore.records import dataclass
from memcore.serving.estimate import ServingEstimate
from memcore.symbols import round_up
from memcore.units import MiB

READINGS: Mapping[str, str] = {"max_allocated": "allocated", "max_reserved": "reserved", "device_used": "device"}
"""What a number without a name may be, as a truth case calls it, and the reading that it is compared with."""
BYTES = frozenset({"max_allocated", "max_reserved", "device_used", "allocated", "weights", "activations", "kv_cache"})
CASES = frozenset({*BYTES, "kv_cache_tokens", "fits"})
"""Quantities that a truth case may have."""
BELOW, INSIDE, ABOVE = "below", "inside", "above"
_WORTH = 12
"""How many times larger than the log's rounding a tensor must be to be named: smaller ones match by chance."""
_LEAST = 8 * MiB
_SEGMENT, _ROUNDED = 10 * MiB, 2 * MiB
"""What PyTorch asks the driver for is rounded up to 2 MiB from 10 MiB on (c10/cuda/CUDACachingAllocator.h)."""
_SHOWN = 3


class LedgerEntry(Protocol):
    """An entry of a ledger."""

    @property
    def title(self) -> str:
        """Return what it is."""

    @property
    def module(self) -> str:
        """Return where it belongs."""

    @property
    def bytes(self) -> int:
        """Of all copies."""

    @property
    def each(self) -> int:
        """Of one copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Tensors whose size is as much as a difference, or as an allocation that failed."""

    title: str
    module: str
    bytes: int
    copies: int
    """How many blocks the bytes are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One quantity of the log with its prediction."""

    seen: Sighting
    """The line of the log, and the bytes it states."""
    quantity: str
    """The quantity predicted; a number without a name has one row for each reading."""
    predicted: int | None = None
    """The prediction in bytes; None if there is none."""
    range: tuple[float, float] | None = None
    """The range of the prediction in bytes."""
    reason: str | None = None
    """Why there is no prediction."""
    matches: tuple[Match, ...] = ()
    """Tensors exactly as large as the difference."""
    least: bool = False
    """True if the log states a lower bound only."""

    @property
    def difference(self) -> int | None:
        """Return predicted minus measured bytes."""
        return None if self.predicted is None else self.predicted - self.seen.value

    @property
    def share(self) -> float | None:
        """Return the difference relative to the measured value."""
        return self.difference / self.seen.value if self.difference is not None and self.seen.value else None

    @property
    def verdict(self) -> str | None:
        """Return where the measured value lies: inside the range, below or above it; None without a range."""
        if self.range is None:
            return None
        if self.seen.high < self.range[0] and not self.least:
            return BELOW
        return ABOVE if self.seen.low > self.range[1] else INSIDE


@dataclass(frozen=True, slots=True)
class Reconciled:
    """A log compared with a prediction; `reconcile` returns it."""

    found: Estimate | ServingEstimate
    """The prediction."""
    rows: tuple[Row, ...]
    """One row for each quantity that the log states."""
    cut: bool
    """True if the log is too long and only its beginning was read."""

    def cases(self, where: str = "pasted") -> list[dict[str, Any]]:
        """Return the measurements as `memcore accuracy` reads them; a run out of memory only says that it failed."""
        config = self.found.job.config.to_dict()
        name, chosen = name_of(config), list(_measured(self.rows))
        return [
            {
                "id": name if number == 0 else f"{name}@{_suffix(row)}",
                "config": config,
                "measured": _quantity(row),
                "source": {
                    "kind": "hardware",
                    "title": Message("log of {}", row.seen.tool) if row.seen.tool else "a number given without a log",
                    "where": Message("{}, line {}", where, row.seen.line),
                    "stated_as": row.seen.stated,
                },
                "confidence": "medium",
                **({"same_run_as": name} if number else {}),
            }
            for number, row in enumerate(chosen)
        ]


def _suffix(row: Row) -> str:
    return str(row.seen.moment) if row.quantity in {"max_allocated", "allocated"} else row.quantity


def name_of(config: Mapping[str, Any]) -> str:
    """Return an id that is the same for the same config: the given one, or a hash."""
    given = config.get("_id")
    if isinstance(given, str):
        return given
    return "run-" + hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:12]


def _measured(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield rows that are cases: each quantity at a moment once, the peak in tensors first."""
    failed = [row for row in rows if row.quantity == "fits"]
    if failed:
        yield failed[0]
        return
    known: dict[tuple[str, str | None], Row] = {}
    for row in rows:
        if row.quantity in CASES and row.seen.moment is not None:
            known.setdefault((row.quantity, row.seen.moment), row)
    yield from sorted(known.values(), key=lambda row: (row.quantity, row.seen.moment) != ("max_allocated", "peak"))


def _quantity(row: Row) -> dict[str, Any]:
    size: dict[str, Any] = {"bytes": row.seen.value} if row.quantity in BYTES else {"value": row.seen.value}
    if row.quantity == "fits":
        size = {"value": False}
    return {"quantity": row.quantity, **size, "rank": row.seen.rank, "moment": row.seen.moment}


def reconcile(config: Config | Mapping[str, object], text: str, *, reading: str | None = None) -> Reconciled:
    """Compare what a run's log says about memory with the prediction for its config.

    Args:
        config: The job that was run, as in `estimate`.
        text: The log, or a part of it: a line that a tool printed, or a bare number such as `71.3 GiB`.
        reading: What a bare number is: `max_allocated`, `max_reserved` or `device_used`; by default it is compared
            with all three.

    Returns:
        A `Reconciled` with one row for each quantity: measured and predicted bytes, range, verdict.

    Raises:
        ConfigError: If the config is wrong, or no line of the log is understood as GPU memory.
        UnsupportedError: As in `estimate`.

    Sources: [measuring](measuring.md) lists the lines that are read, by tool.

    Examples:
        >>> job = {"model": "gpt2", "training": {"sequence_length": 1024}, "hardware": {"accelerator": "l4"}}
        >>> row = reconcile(job, "max_memory_allocated: 1.85 GiB").rows[0]
        >>> row.quantity, row.verdict
        ('max_allocated', 'inside')
    """
    return reconciled(estimate(config), text, reading=reading)


_NOTHING_READ = (
    "found no GPU memory value that memcore can read; print torch.cuda.max_memory_allocated(), or what nvidia-smi shows"
)


def reconciled(found: Estimate | ServingEstimate, text: str, *, reading: str | None = None) -> Reconciled:
    """Compare a log with an estimate that is already made."""
    if reading is not None and reading not in READINGS:
        raise ConfigError.at("reading", "found {!r}; one of {}", reading, joined(", ", READINGS))
    seen = sightings(text)
    if not seen:
        raise ConfigError.at("log", _NOTHING_READ)
    rows = [row for each in seen for row in _rows(found, each, reading)]
    return Reconciled(found, tuple(rows), len(text) > LARGEST)


def _rows(found: Estimate | ServingEstimate, seen: Sighting, reading: str | None) -> Iterator[Row]:
    """Yield a quantity with its prediction; a number without a name with each that it may be."""
    if seen.quantity != "number":
        yield _row(found, seen, seen.quantity, seen.moment)
    elif reading is not None:
        yield _row(found, replace(seen, quantity=reading, moment="peak"), reading, "peak")
    else:
        rows = [_row(found, seen, name, "peak") for name in READINGS]
        yield from (row for row in rows if row.predicted is not None)


def _row(found: Estimate | ServingEstimate, seen: Sighting, quantity: str, moment: str | None) -> Row:
    if quantity == "request":
        return Row(seen=seen, quantity=quantity, matches=tuple(_requested(found, seen))[:_SHOWN])
    try:
        known = _predicted(found, quantity, moment, seen.rank)
    except MemcoreError as error:
        known = Prediction(reason=str(error))
    matches: Iterator[Match] = iter(())
    if known.predicted is not None and quantity in BYTES:
        matches = _matches(found.ledger.entries, abs(known.predicted - seen.value), seen.rounding)
    return Row(
        seen=seen,
        quantity=quantity,
        predicted=known.predicted,
        range=known.range,
        reason=_absent(found) if known.absent else known.reason,
        matches=tuple(matches)[:_SHOWN],
        least=quantity == "needed",
    )


def _absent(found: Estimate | ServingEstimate) -> Message:
    """Return why a job has no prediction for a quantity that the line before names."""
    if isinstance(found, ServingEstimate):
        return Message("not predicted for {}", found.job.server.title)
    return Message("not predicted for a training job")


def _predicted(found: Estimate | ServingEstimate, quantity: str, moment: str | None, rank: object) -> Prediction:
    """Return what is predicted, with its range where it is a reading."""
    if quantity in _FURTHER:
        return _FURTHER[quantity](found)
    if isinstance(found, ServingEstimate) and quantity in OF_SERVERS:
        return prediction(found, quantity, "steady", rank)
    if moment is None or moment == "out_of_memory" or quantity not in CASES:
        return Prediction()
    return prediction(found, quantity, moment, rank)


def _needed(found: Estimate | ServingEstimate) -> Prediction:
    return Prediction(predicted=found.allocated.expected, range=(found.allocated.low, found.allocated.high))


def _outside(found: Estimate | ServingEstimate) -> Prediction:
    """Return what is not in PyTorch's allocator."""
    if isinstance(found, ServingEstimate):
        return prediction(found, "non_torch", "steady")
    parts = [each.overhead for each in outside_allocator(found.rank)]
    low, expected, high = (sum(getattr(part, name) for part in parts) for name in ("low", "expected", "high"))
    return Prediction(predicted=expected, range=(low, high))


_FURTHER: Mapping[str, Callable[[Estimate | ServingEstimate], Prediction]] = {
    "capacity": lambda found: Prediction(predicted=found.capacity),
    "needed": _needed,
    "non_torch": _outside,
}
"""What is predicted for quantities that no truth case has."""
OF_SERVERS = frozenset({"cuda_graphs", "cuda_graphs_estimated", "kv_cache_blocks"})
"""The same, of servers only."""


def _matches(entries: Sequence[LedgerEntry], size: int, rounding: int) -> Iterator[Match]:
    """Tensors of the peak that are as large as a difference, all copies or one, as exactly as the log says."""
    allowed = max(rounding, 512)
    if size < max(_LEAST, _WORTH * allowed):
        return
    for entry in entries:
        if abs(entry.bytes - size) <= allowed:
            copies = entry.bytes // entry.each if entry.each else 1
            yield Match(title=entry.title, module=entry.module, bytes=entry.bytes, copies=copies)
        elif abs(entry.each - size) <= allowed:
            yield Match(title=entry.title, module=entry.module, bytes=entry.each, copies=1)


def _requested(found: Estimate | ServingEstimate, seen: Sighting) -> Iterator[Match]:
    """Tensors of any moment whose allocation would ask for just what there was no room for."""
    if isinstance(found, ServingEstimate) or seen.value < _SEGMENT or seen.value < _WORTH * seen.rounding:
        return
    known = set()
    for moment in found.moments:
        for entry in found.rank.ledger(moment).entries:
            asked = round_up(entry.each, _ROUNDED)
            key = entry.title, entry.module
            if seen.low <= asked <= seen.high and key not in known:
                known.add(key)
                yield Match(title=entry.title, module=entry.module, bytes=entry.each, copies=1)
