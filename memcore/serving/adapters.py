"""LoRA in servers: pairs of low-rank matrices of as many adapters as the GPU holds, whether they are used or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memcore.memory.ledger import Entry
from memcore.serving.entries import tensor
from memcore.serving.formats import BYTES
from memcore.serving.job import ServingJob
from memcore.serving.slots import Slot

ADAPTERS = "adapters"
DENSE = ("attention", "feed-forward", "shared-expert")
"""Kinds of matrices that get a pair."""


def sizes_of(job: ServingJob, slots: int, rank: int) -> Mapping[str, int]:
    """Return the sizes of a job's matrices, and of the pairs next to them."""
    return {**job.basics.sizes, "slots": slots, "rank": rank}


def pairs(
    job: ServingJob, slot: Slot, sizes: Mapping[str, int], layers: int, source: str, *, merged: bool = False
) -> Iterator[Entry]:
    """Yield both matrices of a layer's pairs: ranks of its columns keep A whole and split B, those of its rows split A.

    Each part of a merged matrix has an A of its own; `merged`: the matrix has two parts under one name.
    """
    each, leading = BYTES[job.basics.dtype], slot.leading
    copies = layers * (2 if merged else len(slot.rows))
    fields = {"module": slot.name, "copies": copies}
    yield tensor("A", ADAPTERS, ("slots", *leading, "rank", *slot.columns), each, sizes, source, **fields)
    for row in slot.rows:
        own = {"module": slot.name, "copies": layers}
        yield tensor("B", ADAPTERS, ("slots", *leading, *row, "rank"), each, sizes, source, **own)
