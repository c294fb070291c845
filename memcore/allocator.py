"""The caching allocator: how much it reserves to serve a step's allocations in their order.

Replays a step against the rules of c10/cuda/CUDACachingAllocator.cpp (PyTorch 2.13): best fit, blocks split when more
than 1 MiB is left, neighbours merged when freed, segments of 20 MiB or of the size asked for, and no memory shared
between streams. Requests of at most 1 MiB live in segments of 2 MiB that hardly fragment; they are counted by their
high-water mark.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from memcore.timeline import Program
from memcore.units import MiB

SMALL = MiB
"""The largest request that is served from small segments (kSmallSize)."""
SMALL_SEGMENT, LARGE_SEGMENT, ROUNDING = 2 * MiB, 20 * MiB, 2 * MiB
"""Sizes of segments: for small blocks (kSmallBuffer), for large ones (kLargeBuffer), and the multiple that segments for
requests from 10 MiB on are rounded to (kRoundLarge)."""
_ADDRESS = 256
"""Bits of an address, more than any config needs. A free block's key is its size, then its address, so that the best
fit is the next key."""
_PLACE = (1 << _ADDRESS) - 1
"""The address in a key."""


class Room:
    """What the GPU has for the pools of all streams."""

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit
        """Bytes; None: whatever is asked for."""
        self.reserved = 0
        self.highest = 0
        self.short = False
        """There was not enough."""
        self.stepping = False
        """The optimizer steps: unused segments go back where there is no room (`release_cached_blocks`).

        They would in passes too, but in each of them again, and be asked for again: that is taken as too little.
        """
        self._pools: list[Pool] = []

    def enter(self, pool: Pool) -> None:
        """A pool takes from here."""
        self._pools.append(pool)

    def take(self, size: int) -> None:
        """A new segment."""
        if self.limit is not None and self.reserved + size > self.limit:
            for pool in self._pools if self.stepping else ():
                self.reserved -= pool.trim()
            self.short = self.short or self.reserved + size > self.limit
        self.reserved += size
        self.highest = max(self.highest, self.reserved)


class Pool:
    """The large blocks of one stream.

    Free blocks never touch: neighbours are merged when the second one is freed. So whether a neighbour is free is read
    from where free blocks start and end.
    """

    def __init__(self, room: Room | None = None, *, expandable: bool = False) -> None:
        self.room = room or Room()
        self.room.enter(self)
        self._take = self._grow if expandable else self._open
        self._free: list[int] = []
        """Keys of free blocks in order."""
        self._starts: dict[int, int] = {}
        """The size of each free block by its address."""
        self._ends: dict[int, int] = {}
        """The address of each free block by where it ends."""
        self._held: dict[int, int] = {}
        """The size of each block in use by its address: as asked for, or up to 1 MiB more."""
        self._segments: dict[int, int] = {}
        """The size of each segment by its address."""
        self._top = 0

    @property
    def reserved(self) -> int:
        """Bytes of segments of all pools that share the room."""
        return self.room.reserved

    def allocate(self, size: int) -> int:
        """The address of a block of at least `size` bytes."""
        free = self._free
        index = bisect_left(free, size << _ADDRESS)
        if index < len(free):
            key = free.pop(index)
            address, have = key & _PLACE, key >> _ADDRESS
            del self._starts[address]
        else:
            address, have = self._take(size)
        rest = have - size
        if rest > SMALL:
            other = address + size
            self._starts[other], self._ends[address + have], self._held[address] = rest, other, size
            insort(free, rest << _ADDRESS | other)
        else:
            self._held[address] = have
            self._ends.pop(address + have, None)
        return address

    def release(self, address: int) -> None:
        """Free a block and merge it with free neighbours."""
        free, starts, ends = self._free, self._starts, self._ends
        size = self._held.pop(address)
        more = starts.pop(address + size, 0)
        if more:
            del free[bisect_left(free, more << _ADDRESS | address + size)]
            size += more
        before = ends.pop(address, None)
        if before is not None:
            more = starts[before]
            del free[bisect_left(free, more << _ADDRESS | before)]
            address, size = before, size + more
        starts[address], ends[address + size] = size, address
        insort(free, size << _ADDRESS | address)

    def _open(self, size: int) -> tuple[int, int]:
        """A new segment; segments never touch."""
        have = LARGE_SEGMENT if size < LARGE_SEGMENT // 2 else -(-size // ROUNDING) * ROUNDING
        self.room.take(have)
        address = self._top
        self._top += have + ROUNDING
        self._segments[address] = have
        return address, have

    def _grow(self, size: int) -> tuple[int, int]:
        """More pages at the end of the one expandable segment, after what is free there."""
        address, have = self._ends.pop(self._top, self._top), 0
        if address != self._top:
            have = self._starts.pop(address)
            del self._free[bisect_left(self._free, have << _ADDRESS | address)]
        more = -(-(size - have) // LARGE_SEGMENT) * LARGE_SEGMENT
        self._top += more
        self.room.take(more)
        return address, have + more

    def trim(self) -> int:
        """Give up segments that are free as a whole; the bytes of them. Expandable ones stay."""
        whole = [each for each in self._segments.items() if self._starts.get(each[0]) == each[1]]
        for address, size in whole:
            del self._segments[address], self._starts[address], self._ends[address + size]
            del self._free[bisect_left(self._free, size << _ADDRESS | address)]
        return sum(size for _, size in whole)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The blocks around the step, in bytes and in the order in which they come."""

    resident: Sequence[int]
    """There before the first step: parameters and buffers."""
    states: Sequence[int]
    """What the first step's optimizer adds."""
    temporaries: Sequence[int]
    """What the optimizer needs in every step."""
    keeps_gradients: bool = False


def reserved(
    program: Program,
    values: Mapping[str, int],
    around: Surroundings,
    *,
    expandable: bool = False,
    room: Room | None = None,
) -> int:
    """Bytes that the allocator holds after two steps; later ones find what they need."""
    room = room or Room()
    pools = {name: Pool(room, expandable=expandable) for name in {"default", *(block.pool for block in program.blocks)}}
    replay = _Replay(program, values, pools)
    default = pools["default"]
    for size in large(around.resident):
        default.allocate(size)
    for step, states in enumerate((around.states, ())):
        replay.run(step if around.keeps_gradients else 0)
        end_step(default, states, around.temporaries)
        if not around.keeps_gradients:
            replay.release_rest()
    small = sum(size for each in (around.resident, around.states) for size in each if size <= SMALL)
    small += program.high_water([size if size <= SMALL else 0 for size in program.block_sizes(values)], values)
    return room.highest + small_segments(small)


def end_step(pool: Pool, states: Sequence[int], temporaries: Sequence[int]) -> None:
    """The optimizer's step: what it adds, and what it needs for a moment."""
    pool.room.stepping = True
    for size in large(states):
        pool.allocate(size)
    for address in [pool.allocate(size) for size in large(temporaries)]:
        pool.release(address)
    pool.room.stepping = False


def small_segments(size: int) -> int:
    """Bytes of the segments for so many bytes in small blocks."""
    return -(-size // SMALL_SEGMENT) * SMALL_SEGMENT


def large(sizes: Iterable[int]) -> Iterable[int]:
    """Those that are not served from small segments."""
    return (size for size in sizes if size > SMALL)


class _Replay:
    """A program's large blocks with every repetition of a layer run out."""

    def __init__(self, program: Program, values: Mapping[str, int], pools: Mapping[str, Pool]) -> None:
        sizes = program.block_sizes(values)
        homes = [pools[block.pool] for block in program.blocks]
        self._homes = homes
        self._live: list[list[int]] = [[] for _ in program.blocks]
        self._blocks = program.blocks
        self._stretches = [
            (
                1 if span.repeats is None else values[span.repeats],
                program.segments[span.segments[0]].turn[0],
                [
                    (event, homes[block], sizes[block])
                    for event in program.events[span.start : span.end]
                    if sizes[block := event if event >= 0 else ~event] > SMALL
                ],
            )
            for span in program.spans
        ]

    def run(self, step: int) -> None:
        """The micro-batches of a step."""
        for repeats, recorded, events in self._stretches:
            for _ in range(repeats if recorded == step else 0):
                self._serve(events)

    def _serve(self, events: Sequence[tuple[int, Pool, int]]) -> None:
        live = self._live
        for event, pool, size in events:
            if event >= 0:
                live[event].append(pool.allocate(size))
            else:
                pool.release(live[~event].pop() if live[~event] else self._handed_on(~event))

    def _handed_on(self, block: int) -> int:
        """The oldest address of a block like this one: a repeated layer frees what the one before it made."""
        wanted = replace(self._blocks[block], number=0)
        pairs = zip(self._blocks, self._live, strict=True)
        return next(live for each, live in pairs if live and replace(each, number=0) == wanted).pop(0)

    def release_rest(self) -> None:
        """The gradients go."""
        for home, addresses in zip(self._homes, self._live, strict=True):
            while addresses:
                home.release(addresses.pop())
