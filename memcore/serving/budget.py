"""What a server does with each GPU: a ledger for every class of ranks, and the pool in which sequences live."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace

from memcore.memory.ledger import Ledger, Range
from memcore.messages import Message, joined
from memcore.records import dataclass
from memcore.serving.stages import Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class RankBudget:
    """A class of ranks that hold the same."""

    name: str
    count: int
    ledger: Ledger
    available: int | None = None
    """Bytes that the server leaves for the cache, of which it takes whole blocks; None where no GPU is named."""
    uncertain: tuple[int, int] = (0, 0)
    """How much less and how much more that can be."""
    spread: tuple[int, int] = (0, 0)
    """How much less and how much more the driver may show; what the cache makes up for is not in it."""
    printed: Range | None = None
    """Bytes that the server's log calls peak activation, where that is not the ledger's activations and workspaces."""
    graphs_estimated: Range | None = None
    """What the server estimates graphs to take before it captures them, where it says so."""


def of_stages(
    groups: Sequence[Sequence[Stage]], ranks: Sequence[RankBudget], what: str = "stage", alone: str = "every rank"
) -> tuple[RankBudget, ...]:
    """Return the ranks of every stage in their order, given those of the first stage of each group.

    Names of these are what follows a stage's name.
    """
    found = [(stage, rank) for group, rank in zip(groups, ranks, strict=True) for stage in group]
    return tuple(
        replace(
            rank,
            name=joined("", (alone if stage.count == 1 else stage.named(what), rank.name)),
            count=rank.count * stage.times,
        )
        for stage, rank in sorted(found, key=lambda each: each[0].number)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Room for sequences on one GPU; its sequences are those of one data-parallel replica."""

    capacity: int | None
    """Blocks, tokens or bytes; None where no GPU is named."""
    needed: Callable[[int], int] = field(compare=False)
    """Return what a sequence of a number of tokens takes of it."""
    unit: str
    tokens: int | None = None
    """Tokens that fit, as the server reports them."""
    bytes_each: int = 1
    """Bytes of a unit, on the rank with most of them."""
    tokens_otherwise: int | None = None
    """Tokens as other releases report them, where the release is not known."""
    least: int = 0
    """Units without which the server does not start."""
    replicas: int = 1
    """Pools of the whole job: data-parallel ranks have one each."""
    capacity_low: int = 0
    capacity_high: int = 0

    def users(self, length: int) -> int | None:
        """Return the sequences of `length` tokens that fit into all pools."""
        return self._users(length, self.capacity)

    def certain_users(self, length: int) -> int | None:
        """Return the sequences of `length` tokens that fit at the low end of the range."""
        return None if self.capacity is None else self._users(length, self.capacity_low)

    def _users(self, length: int, capacity: int | None) -> int | None:
        need = self.needed(length)
        return None if capacity is None or need < 1 else self.replicas * (capacity // need)

    def longest(self, users: int, limit: int) -> int | None:
        """Return the longest sequence of which `users` fit, up to a limit; 0 if none does."""
        if self.capacity is None:
            return None
        each = -(-users // self.replicas)
        low, high = 0, limit
        while low < high:
            middle = (low + high + 1) // 2
            if each * self.needed(middle) <= self.capacity:
                low = middle
            else:
                high = middle - 1
        return low

    @property
    def concurrency(self) -> Callable[[int], float]:
        """Return a function of a sequence's length: how many fit, not rounded, as servers print it."""

        def found(length: int) -> float:
            return 0.0 if self.capacity is None else self.capacity / max(self.needed(length), 1)

        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The answer of one server."""

    ranks: tuple[RankBudget, ...]
    pool: Pool | None
    host: Ledger | None = None
    """What the host holds, where the server puts a part of the model there."""
    line: int | None = None
    """Bytes up to which the server plans, on each GPU."""
    line_title: str = ""
    inside: frozenset[str] = frozenset()
    """Titles of categories that the line holds."""
    notes: tuple[str, ...] = ()
    refused: Message | None = None
    """Why the server does not start, however much memory there is."""
    doubted: bool = False
    """Whether it starts is decided by what the config does not say; a note names it."""
