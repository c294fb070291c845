"""An estimate as plain data for JSON; sizes are bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcore.errors import UnsupportedError
from memcore.memory.answer import Answer
from memcore.memory.estimate import Estimate
from memcore.memory.host_phases import host_phases
from memcore.memory.ledger import Entry
from memcore.memory.phases import phases
from memcore.memory.places import PHASES, place
from memcore.memory.rank import outside_allocator
from memcore.memory.readings import Reading
from memcore.questions.describe import Verdict, symbols, verdict, when
from memcore.trace.program import Moment
from memcore.version import __version__


def summary(estimate: Estimate) -> dict[str, Any]:
    """Return what `memcore estimate --json` prints."""
    return {
        **answered(estimate, verdict(estimate)),
        "peak": _moment(estimate.peak, estimate),
        "breakdown": dict(estimate.ledger.by_category),
        "host_bytes": sum(entry.bytes for entry in estimate.rank.host),
        "host_phases": [
            {"name": each.name, "node_bytes": each.bytes, "process_bytes": each.each, "because": each.because}
            for each in host_phases(estimate.rank)
        ],
        "initialization_bytes": estimate.rank.while_built,
        "after_init_bytes": estimate.rank.after_init,
        "first_step_bytes": estimate.rank.first_step,
        "end_of_forward_bytes": _end_of_forward(estimate),
        "phases": [
            {"name": each.name, "bytes": each.bytes, "because": each.because, "source": each.source}
            for each in phases(estimate.rank)
        ],
        "moments": [_moment(moment, estimate) for moment in estimate.moments],
        "ranks": [
            {"name": rank.name, "count": rank.count, "allocated_bytes": rank.peak.peak, "because": rank.because}
            for rank in estimate.ranks
        ],
    }


def answered(found: Answer, said: Verdict) -> dict[str, Any]:
    """Return what is the same of a training job and of a server."""
    return {
        "memcore": __version__,
        "config": found.job.config.to_dict(),
        "fits": found.fits,
        "level": said.level,
        "verdict": said.headline,
        "reason": said.reason,
        **{f"{reading.name}_bytes": reading.expected for reading in found.readings},
        "capacity_bytes": found.capacity,
        "headroom_bytes": found.headroom,
        "readings": {reading.name: _reading(reading) for reading in found.readings},
        "parameters": found.job.model.parameters,
        "warnings": list(found.job.model.warnings),
        "taken_otherwise": list(found.job.config.notes),
        "assumptions": [
            {"path": each.path, "value": each.value, "reason": each.reason, "notable": each.notable}
            for each in found.assumptions
        ],
    }


def explanation(estimate: Estimate, moment: Moment) -> dict[str, Any]:
    """Return what `memcore explain --json` prints: every entry of a moment with its formula and source."""
    ledger = estimate.rank.ledger(moment)
    return {
        "memcore": __version__,
        "config": estimate.job.config.to_dict(),
        "moment": _moment(moment, estimate),
        "bytes": ledger.total,
        "symbols": {each.name: {"value": each.value, "meaning": each.meaning} for each in symbols(estimate)},
        "breakdown": dict(ledger.by_category),
        "entries": [_entry(entry, estimate) for entry in ledger.entries],
        "outside_allocator": [
            {
                "name": each.name,
                "low_bytes": each.overhead.low,
                "bytes": each.overhead.expected,
                "high_bytes": each.overhead.high,
                "source": each.overhead.source,
            }
            for each in outside_allocator(estimate.rank)
        ],
    }


def _reading(reading: Reading) -> dict[str, Any]:
    """Return a reading with its range."""
    return {
        "instrument": reading.instrument,
        "low_bytes": reading.low,
        "bytes": reading.expected,
        "high_bytes": reading.high,
        "range_because": reading.range_because,
        "parts": [
            {"title": each.title, "low_bytes": each.low, "high_bytes": each.high, "settled_by": each.settled_by or None}
            for each in reading.parts
        ],
    }


def _end_of_forward(estimate: Estimate) -> int | None:
    """Return bytes at the end of all forward passes; None for a stage of a pipeline that takes turns."""
    try:
        return estimate.rank.end_of_forward
    except UnsupportedError:
        return None


def _moment(moment: Moment, estimate: Estimate) -> dict[str, Any]:
    return {
        "phase": moment.phase,
        "phase_title": PHASES[moment.phase],
        "place": place(moment.place, estimate.rank.job.model),
        "title": when(moment, estimate),
        "micro_batch": moment.turn[1] + 1,
        "repeats": moment.repeats,
        "bytes": moment.peak,
        "end_bytes": moment.end,
    }


def _entry(entry: Entry, estimate: Estimate) -> dict[str, Any]:
    own = {"rule": entry.rule, "dtype": entry.dtype, "divided_by": list(entry.divided_by)}
    return {**entry_data(entry, estimate.rank.job.sizes), **own}


def entry_data(entry: Entry, sizes: Mapping[str, int] | None = None) -> dict[str, Any]:
    """Return a row of a ledger."""
    return {
        "name": entry.title,
        "category": entry.category,
        "module": entry.module,
        "copies": entry.copies,
        "bytes": entry.bytes,
        "formula": entry.formula,
        "numbers": entry.numbers(sizes),
        "why": entry.why,
        "source": entry.source,
    }
