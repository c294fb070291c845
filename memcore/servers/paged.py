"""Servers that give the cache a part of what is left, in blocks that every rank has as many of."""

from __future__ import annotations

from collections.abc import Sequence

from memcore.memory.ledger import Entry
from memcore.records import dataclass
from memcore.servers.vllm.paging import Paging
from memcore.serving.budget import Pool, RankBudget
from memcore.serving.entries import ledger, spread, tensor
from memcore.serving.job import ServingJob
from memcore.serving.outside_allocator import uncertainty


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a rank holds besides the cache, and the room that its server leaves for that."""

    entries: tuple[Entry, ...]
    paging: Paging
    available: int | None
    """None where no GPU is named."""
    share: float
    """Of what is left, which the cache gets."""
    uncertain: tuple[int, int] = (0, 0)
    """How much less and how much more room there can be."""


def held(job: ServingJob, entries: Sequence[Entry], paging: Paging, line: float, share: float = 1) -> Held:
    """Return a rank whose cache gets a `share` of what its entries leave of a `line` up to which its server plans."""
    room = None if job.capacity is None else int(share * (line - sum(entry.bytes for entry in entries)))
    less, more = uncertainty(entries, job.capacity)
    uncertain = int(share * more), int(share * less)
    return Held(entries=tuple(entries), paging=paging, available=room, share=share, uncertain=uncertain)


def blocks_of(found: Sequence[Held]) -> int | None:
    """Blocks of every rank: as many as the one with the least room has."""
    return min((each.paging.count(each.available) for each in found if each.available is not None), default=None)


def with_cache(
    job: ServingJob, found: Held, blocks: int | None, source: str, later: Sequence[Entry] = ()
) -> RankBudget:
    """Return the rank with its blocks, and with what is allocated after them."""
    entries = [*found.entries, *later]
    if blocks:
        sizes = {"blocks": blocks, "block bytes": found.paging.block}
        entries.append(tensor("pool of blocks", "KV cache", ("blocks", "block bytes"), 1, sizes, source))
    low, high = spread(found.entries)
    uncovered, (later_low, later_high) = 1 - found.share, spread(later)  # the cache makes up for its share
    return RankBudget(
        name="",
        count=job.basics.layout.tensor,
        ledger=ledger(entries),
        available=found.available,
        uncertain=found.uncertain,
        spread=(int(uncovered * low) + later_low, int(uncovered * high) + later_high),
    )


def pool(job: ServingJob, found: Sequence[Held], blocks: int | None, *, starts_with: int = 1) -> Pool | None:
    """Return the blocks of all sequences; the server does not start where they hold no `starts_with` tokens of one."""
    paging = max((each.paging for each in found), key=lambda each: each.block)
    if not paging.groups:
        return None
    longest = job.basics.max_model_len
    sides = [(each.available, *each.uncertain, each.paging) for each in found if each.available is not None]
    return Pool(
        capacity=blocks,
        needed=paging.needed,
        unit="blocks",
        tokens=None if blocks is None else int(blocks / max(paging.needed(longest), 1) * longest),
        bytes_each=paging.block,
        least=paging.needed(starts_with),
        capacity_low=min((each.count(room - less) for room, less, _, each in sides), default=0),
        capacity_high=min((each.count(room + more) for room, _, more, each in sides), default=0),
    )
