"""What to change of a server: every knob that applies, with the room that it makes and what it costs.

A server that sets memory aside for all sequences together always fills it; so what a change saves is what it adds to
the bytes that are left after the requested sequences. Time is GPU-seconds for a generated token, where memory is what
limits: a step reads the weights and the cached tokens of all its sequences once.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from memcore.config.settings import Config
from memcore.estimation import changed
from memcore.messages import Message, joined
from memcore.questions.advising.native import native
from memcore.questions.advising.server_changes import made
from memcore.records import dataclass
from memcore.serving.changes import ServerChange
from memcore.serving.estimate import ServingEstimate
from memcore.trace.changes import Changes
from memcore.units import format_bytes, format_count


@dataclass(frozen=True)
class ServerAdvice:
    """A change, and the estimate of the server with it."""

    title: str
    kind: str
    """A key of `memcore.trace.changes.KINDS`."""
    note: str
    changes: Changes
    """Settings that change, by path; None leaves one out."""
    before: ServingEstimate
    after: ServingEstimate

    @property
    def config(self) -> Config:
        """Return the config with the change."""
        return self.after.job.config

    @cached_property
    def saves(self) -> int:
        """Return bytes of a GPU that it makes room for; negative if it takes some."""
        before, after = self.before.headroom, self.after.headroom
        if before is None or after is None:
            return _least(self.before) - _least(self.after)
        return after - before

    @property
    def fits(self) -> bool | None:
        """Return whether the server takes what is asked with it; None where no accelerator is named."""
        return self.after.fits

    @cached_property
    def slowdown(self) -> float:
        """Return by what fraction GPU-seconds per token grow where memory limits; launches are not counted."""
        return _read(self.after) / _read(self.before) - 1

    @property
    def flags(self) -> tuple[str, ...]:
        """Return the change in the server's words."""
        return tuple(native(self.after.job.server.name, self.changes))

    @property
    def reason(self) -> str:
        """Why it is of its class of cost, and the sequences that there is room for."""
        return joined("; ", filter(None, (self.note, _room(self.before, self.after))))

    @property
    def because(self) -> str | None:
        """Why it makes no room, if so."""
        if self.saves > 0:
            return None
        before, after = self.before.ledger.by_category, self.after.ledger.by_category
        lower = [
            Message("{} fall by {}", name, format_bytes(size - after.get(name, 0)))
            for name, size in before.items()
            if size - after.get(name, 0) > size // 1000 and name != "KV cache"
        ]
        return joined("; ", ("the KV cache does not grow", *lower))


def _least(found: ServingEstimate) -> int:
    """Return bytes of a GPU where none is named: what is held, and what is asked of the pool."""
    return found.ledger.total + (found.needed * found.pool.bytes_each if found.pool else 0)


def _read(found: ServingEstimate) -> float:
    """Return bytes that all GPUs read for a token."""
    weights = found.ledger.sum("weights", "draft model", "adapters")
    pool = found.pool
    cached = found.needed * pool.bytes_each if pool else found.ledger.sum("KV cache", "recurrent states")
    return (weights + cached) * found.job.num_gpus / found.users


def _room(before: ServingEstimate, after: ServingEstimate) -> str:
    """Return how many of the longest sequences there is room for, before and after."""
    counts = [each.pool.users(each.job.basics.max_model_len) if each.pool else None for each in (before, after)]
    if None in counts:
        return ""
    had, has = (format_count(count or 0) for count in counts)
    lengths = format_count(after.job.basics.max_model_len)
    if has == had:
        return Message("sequences of {} tokens that fit: still {}", lengths, has)
    return Message("sequences of {} tokens that fit: {} instead of {}", lengths, has, had)


def advised(found: ServingEstimate) -> Iterator[ServerAdvice]:
    """Yield every change that applies."""
    for row in found.job.server.changes:
        yield from _changed(found, row)


def ladder(first: ServingEstimate) -> Iterator[ServerAdvice]:
    """Yield changes in order of harm, one on top of another, until the server takes what is asked."""
    found = first
    for row in first.job.server.changes:
        for rung in _changed(found, row) if row.ladder and not found.fits else ():
            if rung.saves > 0:
                yield rung
                found = rung.after


def _changed(before: ServingEstimate, row: ServerChange) -> Iterator[ServerAdvice]:
    for changes in made(row, before):
        after = changed(before.job.config, changes)
        if isinstance(after, ServingEstimate) and any(native(before.job.server.name, changes)):
            yield ServerAdvice(row.title, row.kind, row.note, changes, before, after)
