"""What decides which tensors Ulysses exchanges on a rank."""

from __future__ import annotations

from memcore.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Ulysses:
    """Ranks share a sequence, and in attention heads instead. Sizes in symbols: `cp` ranks, `sq` their tokens."""

    replicated: bool = False
    """There are fewer key heads than ranks: each is repeated, so that every rank has one."""
    shared: bool = False
    """Several query heads of a rank share a key head."""
