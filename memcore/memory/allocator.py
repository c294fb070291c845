"""The caching allocator: how much it reserves to serve a step's allocations in their order.

Replays a step against the rules of c10/cuda/CUDACachingAllocator.cpp (PyTorch 2.13): best fit, blocks split when more
than 1 MiB is left, neighbours merged when freed, segments of 20 MiB or of the size asked for, and no memory shared
between streams. Requests of at most 1 MiB live in segments of 2 MiB that hardly fragment; they are counted by their
high-water mark.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import groupby, pairwise
from types import MappingProxyType

from memcore.records import dataclass
from memcore.symbols import round_up
from memcore.tensors.tape import ALIGNMENT, Block
from memcore.trace.program import Program
from memcore.units import MiB

SMALL = MiB
"""The largest request that is served from small segments (kSmallSize)."""
SMALL_SEGMENT, LARGE_SEGMENT, ROUNDING = 2 * MiB, 20 * MiB, 2 * MiB
"""Sizes of segments: for small blocks (kSmallBuffer), for large ones (kLargeBuffer), and the multiple that segments for
requests from 10 MiB on are rounded to (kRoundLarge)."""
_PAGE = LARGE_SEGMENT // ALIGNMENT
"""What an expandable segment maps at a time, in units of `ALIGNMENT`."""
_SIZE = 256
"""The bits of an address, above which a free block's number has its size: more than any job names."""
_ADDRESS = (1 << _SIZE) - 1
_FEW = 3
"""Equal blocks that are as quickly served one by one."""
Place = tuple[int, int]
"""A block in use: its size and its address, in units of `ALIGNMENT`, which all are multiples of: Python is quickest
with small numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """What PYTORCH_CUDA_ALLOC_CONF asks for (c10/core/AllocatorConfig.cpp)."""

    expandable: bool = False
    """`expandable_segments`: segments grow."""
    unsplit: int = 0
    """`max_split_size_mb` in bytes: larger blocks are not split, nor given to smaller requests; 0: all are."""
    divisions: int = 0
    """`roundup_power2_divisions`: requests are rounded up to this many steps between powers of two; 0: to 512 bytes."""
    collects: float = 0.0
    """`garbage_collection_threshold`: the part of the memory beyond which unused segments go back before new ones
    come. PyTorch collects only where `set_per_process_memory_fraction` gave a limit."""

    def rounded(self, size: int) -> int:
        """Return a request's bytes (`roundup_power2_next_division`)."""
        if self.divisions < 2 or size <= ALIGNMENT * self.divisions or not size & (size - 1):
            return size
        step = (1 << (size.bit_length() - 1)) // self.divisions
        return -(-size // step) * step if step else size

    emptied: int = 0
    """Steps between two in which the loop empties the cache when the loss is there (`torch.cuda.empty_cache`); 0: none
    (transformers/trainer.py, `torch_empty_cache_steps`)."""


USUAL = Knobs()
BEGINS = "gradient of the loss"
"""The place at which a backward pass begins."""


class InVainError(Exception):
    """What went back to the GPU was not enough."""


class DeviceMemory:
    """What the GPU has for the pools of all streams.

    Where unused segments went back in vain, InVainError ends the replay: a job that does not fit is replayed without
    a limit.
    """

    def __init__(self, limit: int | None = None, collects: float = 0.0) -> None:
        self.limit = limit
        """Bytes; None: whatever is asked for."""
        self._collected_from = None if limit is None or not collects else int(limit * collects)
        self.reserved = 0
        self.highest = 0
        self.short = False
        """There was not enough; from then on there is whatever is asked for."""
        self.trimmed = False
        """Unused segments went back."""
        self._pools: list[Pool] = []

    def enter(self, pool: Pool) -> None:
        """A pool takes from here."""
        self._pools.append(pool)

    def empty(self) -> None:
        """Unused segments of all pools go back."""
        self.reserved -= sum(pool.trim() for pool in self._pools)

    def relieve(self) -> None:
        """Unused segments and pages go back where there is no room (`release_cached_blocks`)."""
        given = sum(pool.trim() for pool in self._pools) if not self.short else 0
        self.reserved -= given
        self.trimmed = self.trimmed or given > 0

    def has(self, size: int) -> bool:
        """Return whether so much is left."""
        return self.limit is None or self.reserved + size <= self.limit

    def take(self, size: int) -> None:
        """A new segment; where there is no room, unused ones go back first.

        Expandable ones are not collected (`garbage_collect_cached_blocks`).
        """
        if self._collected_from is not None and self.reserved + size > self._collected_from:
            self.reserved -= sum(pool.trim() for pool in self._pools if not pool.knobs.expandable)
        if not self.has(size):
            self.relieve()
            self.short = self.short or not self.has(size)
            if self.short and self.trimmed:
                raise InVainError
        self.reserved += size
        self.highest = max(self.highest, self.reserved)


Move = tuple[int, int, int]
"""A block's index when it comes, with its size and the least size that is split to serve it; the index's complement
when it goes."""


def comes(block: int, size: int, knobs: Knobs = USUAL) -> Move:
    """Return a request of a block; only those above `SMALL` are of a pool."""
    units = -(-knobs.rounded(size) // ALIGNMENT)
    if knobs.unsplit and units * ALIGNMENT >= knobs.unsplit:
        return block, units, sys.maxsize
    return block, units, units + SMALL // ALIGNMENT + 1


def goes(block: int) -> Move:
    """A block is freed."""
    return ~block, 0, 0


class Pool:
    """The large blocks of one stream.

    Free blocks never touch: neighbours are merged when the second one is freed. So whether a neighbour is free is read
    from where free blocks start and end.
    """

    def __init__(self, room: DeviceMemory | None = None, knobs: Knobs = USUAL) -> None:
        self.room = room or DeviceMemory()
        self.room.enter(self)
        self.knobs = knobs
        self._take = self._grow if knobs.expandable else self._open
        self._bounds = knobs.unsplit // ALIGNMENT
        """Blocks of at least this many units serve requests of at least as many alone; 0: there are none."""
        self._free: list[int] = []
        """Free blocks in the order in which they serve requests: by size, then by address, both in one number."""
        self._starts: dict[int, int] = {}
        """The size of each free block by its address."""
        self._ends: dict[int, int] = {}
        """The size of each free block by where it ends."""
        self._segments: dict[int, int] = {}
        """The size of each segment by its address."""
        self._unmapped: dict[int, int] = {}
        """The pages that an expandable segment gave back before its end, by their address."""
        self._held: dict[int, Place] = {}
        """Blocks of `allocate` by their address."""
        self._top = 0

    @property
    def reserved(self) -> int:
        """Return bytes of segments of all pools that share the room."""
        return self.room.reserved

    def allocate(self, size: int) -> int:
        """Return the address of a block of at least `size` bytes."""
        (place,) = self.allocate_all((size,))
        address = place[1] * ALIGNMENT
        self._held[address] = place
        return address

    def release(self, address: int) -> None:
        """Free a block and merge it with free neighbours."""
        self.release_all([self._held.pop(address)])

    def allocate_all(self, sizes: Iterable[int]) -> list[Place]:
        """Blocks of these sizes."""
        found: list[Place] = []
        moves: list[Move] = []
        for size, same in groupby(sizes):
            move, count = comes(0, size, self.knobs), len(list(same))
            if count > _FEW:
                self.serve(moves, [found])
                opened, moves = self._open_all(move, count), []
                found += opened
                count -= len(opened)
            moves += [move] * count
        self.serve(moves, [found])
        return found

    def _open_all(self, move: Move, count: int) -> list[Place]:
        """Allocate blocks in segments of their own, if that is where they go: nothing that is free is as large."""
        _, wanted, split = move
        size = _segment(wanted)
        total = count * size * ALIGNMENT
        if wanted * ALIGNMENT < LARGE_SEGMENT // 2 or self.knobs.expandable or not self.room.has(total):
            return []
        if self._free and self._free[-1] >= wanted << _SIZE:
            return []
        self.room.take(total)
        step = size + ROUNDING // ALIGNMENT
        addresses = range(self._top, self._top + count * step, step)
        self._top += count * step
        self._segments.update(dict.fromkeys(addresses, size))
        if size < split:
            return [(size, address) for address in addresses]
        for address in addresses:
            self._put(size - wanted, address + wanted)
        return [(wanted, address) for address in addresses]

    def release_all(self, blocks: list[Place]) -> None:
        """Free blocks, the last one first."""
        self.serve([goes(0)] * len(blocks), [blocks])

    def serve(
        self,
        moves: Iterable[Move],
        live: Sequence[list[Place]],
        handed_on: Callable[[int], Place] | None = None,
    ) -> None:
        """Serve moves in their order; `live` has what is in use of each index, `handed_on` where it has nothing.

        This loop is most of the time that an answer takes, so it calls little that it can do itself.
        """
        free, starts, ends = self._free, self._starts, self._ends
        bounds, top = self._bounds, self._top
        expandable = self.knobs.expandable and not bounds
        for block, wanted, split in moves:
            if block >= 0:
                index = self._choose(wanted) if bounds else bisect_left(free, wanted << _SIZE)
                if index < len(free):
                    found = free.pop(index)
                    size, address = found >> _SIZE, found & _ADDRESS
                    if expandable and address + size == top and index < len(free):
                        free[index], found = found, free[index]  # the segment's end goes last, as in `_choose`
                        size, address = found >> _SIZE, found & _ADDRESS
                    del starts[address]
                else:
                    size, address = self._take(wanted)
                    top = self._top
                if size < split:  # as asked for, or up to 1 MiB more
                    ends.pop(address + size, None)
                    live[block].append((size, address))
                    continue
                live[block].append((wanted, address))
                size -= wanted
                address += wanted
                end = address + size
            else:
                stack = live[~block]
                size, address = stack.pop() if stack or handed_on is None else handed_on(~block)
                end = address + size
                if end in starts:
                    after = starts.pop(end)
                    del free[bisect_left(free, after << _SIZE | end)]
                    end += after
                if address in ends:
                    before = ends.pop(address)
                    address -= before
                    del free[bisect_left(free, before << _SIZE | address)]
                size = end - address
            starts[address] = ends[end] = size
            insort(free, size << _SIZE | address)

    def _choose(self, wanted: int) -> int:
        """Return the place of the free block that serves a request, where it is not simply the first that is as large.

        What is free at an expandable segment's end counts as all that the segment may grow to: whatever is larger goes
        first. Blocks that are not split serve small requests never, and large ones with at most 20 MiB to spare
        (`get_free_block`).
        """
        free = self._free
        index = bisect_left(free, wanted << _SIZE)
        if index == len(free):
            return index
        size, address = free[index] >> _SIZE, free[index] & _ADDRESS
        if self.knobs.expandable and address + size == self._top:
            return min(index + 1, len(free) - 1)
        if self._bounds and size >= self._bounds:
            spare = LARGE_SEGMENT // ALIGNMENT
            if wanted < self._bounds or size >= wanted + spare:
                return len(free)
        return index

    def _put(self, size: int, address: int) -> None:
        """A block is free."""
        self._starts[address] = self._ends[address + size] = size
        insort(self._free, size << _SIZE | address)

    def _pull(self, size: int, address: int) -> None:
        """A free block goes."""
        del self._starts[address], self._ends[address + size]
        del self._free[bisect_left(self._free, size << _SIZE | address)]

    def _open(self, size: int) -> Place:
        """Return a new segment; segments never touch."""
        place = _segment(size), self._top
        self.room.take(place[0] * ALIGNMENT)
        self._top += place[0] + ROUNDING // ALIGNMENT
        self._segments[place[1]] = place[0]
        return place

    def _grow(self, size: int) -> Place:
        """More pages of the one expandable segment, together with what is free next to them."""
        if not self.room.has(sum(pages for _, pages in self._space(size)[2]) * ALIGNMENT):
            self.room.relieve()
        start, end, mapped = self._space(size)
        self.room.take(sum(pages for _, pages in mapped) * ALIGNMENT)
        for address in [each for each in self._starts if start <= each < end]:
            self._pull(self._starts[address], address)
        for address, pages in mapped:
            if address == self._top:
                self._top += pages
            elif (left := self._unmapped.pop(address) - pages) > 0:
                self._unmapped[address + pages] = left
        return end - start, start

    def _space(self, size: int) -> tuple[int, int, list[Place]]:
        """Where the lowest space for a request starts and ends, and the pages that it needs (`find_expandable_block`).

        What is unmapped counts with what is free on both of its sides.
        """
        for hole in (*sorted(self._unmapped), self._top):
            start = hole - self._ends.get(hole, 0)
            end, mapped = start, list[Place]()
            while end - start < size or end in self._starts:
                if end in self._starts:
                    end += self._starts[end]
                    continue
                pages = -(-(size - end + start) // _PAGE) * _PAGE
                pages = pages if end == self._top else min(pages, self._unmapped.get(end, 0))
                if not pages:
                    break
                mapped.append((end, pages))
                end += pages
            if end - start >= size:
                break
        return start, end, mapped

    def trim(self) -> int:
        """Give up segments that are free as a whole, and of expandable ones what pages are; the bytes of them."""
        if self.knobs.expandable:
            return self._unmap()
        whole = [(size, address) for address, size in self._segments.items()]
        whole = [(size, address) for size, address in whole if self._starts.get(address) == size]
        for size, address in whole:
            del self._segments[address]
            self._pull(size, address)
        return sum(size for size, _ in whole) * ALIGNMENT

    def _unmap(self) -> int:
        """Pages that are free go back; their addresses stay, to be mapped again (`unmap_block`)."""
        given = 0
        for address, size in list(self._starts.items()):
            first, last = -(-address // _PAGE) * _PAGE, (address + size) // _PAGE * _PAGE
            if first < last:
                self._pull(size, address)
                if address < first:
                    self._put(first - address, address)
                if last < address + size:
                    self._put(address + size - last, last)
                self._unmapped[first] = last - first
                given += last - first
        for address in sorted(self._unmapped, reverse=True):
            end = address + self._unmapped[address]
            if end == self._top:
                self._top = address
                del self._unmapped[address]
            elif end in self._unmapped:
                self._unmapped[address] += self._unmapped.pop(end)
        return given * ALIGNMENT


def _segment(wanted: int) -> int:
    """Return the size of the segment that is opened for a request; both in units of `ALIGNMENT`."""
    size = wanted * ALIGNMENT
    return (LARGE_SEGMENT if size < LARGE_SEGMENT // 2 else -(-size // ROUNDING) * ROUNDING) // ALIGNMENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapped:
    """A unit of parameters that is there whole before a rank has its part of it; sizes in bytes."""

    parameters: Sequence[int]
    """All of them, whole."""
    sent: Sequence[int]
    """Copies in which they are broadcast, as many as are in flight at once."""
    part: int
    """What the rank keeps."""
    count: int
    """How many such units come in turn."""

    def wrap(self, pool: Pool) -> None:
        """Broadcast the parameters, concatenate them and clone a part."""
        whole = pool.allocate_all(large(self.parameters))
        pool.release_all(pool.allocate_all(large(self.sent)))
        whole += pool.allocate_all(large((sum(self.parameters),)))
        pool.allocate_all(large((self.part,)))
        pool.release_all(whole)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlocksAroundStep:
    """The blocks around the step, in bytes and in the order in which they come."""

    resident: Sequence[int]
    """There before the first step: parameters and buffers."""
    states: Sequence[int]
    """What the first step's optimizer adds."""
    temporaries: Sequence[int]
    """What the optimizer needs in every step."""
    keeps_gradients: bool = False
    wrapped: Sequence[Wrapped] = ()
    """Units that an engine makes of whole parameters before the first step, in their order."""


def reserved(
    program: Program,
    values: Mapping[str, int],
    around: BlocksAroundStep,
    *,
    knobs: Knobs = USUAL,
    room: DeviceMemory | None = None,
    pending: Mapping[str, int] = MappingProxyType({}),
) -> int:
    """Return bytes that the allocator holds after two steps; later ones find what they need.

    `pending`: of which rules how many freed blocks still wait for another stream when the next one is freed.
    """
    room = room or DeviceMemory()
    pools = {name: Pool(room, knobs) for name in {"default", *(block.pool for block in program.blocks)}}
    replay = _Replay(program, values, pools, knobs, pending)
    default = pools["default"]
    default.allocate_all(large(around.resident))
    for unit in around.wrapped:
        for _ in range(unit.count):
            unit.wrap(default)
    # A cache is emptied in the first step, perhaps not in the second, and again in a third.
    empties = {0: (False, False), 1: (True, True)}.get(knobs.emptied, (True, False, True))
    for step, emptied in enumerate(empties):
        replay.run(min(step, 1) if around.keeps_gradients else 0, room if emptied else None)
        replay.settle()
        end_step(default, () if step else around.states, around.temporaries)
        if not around.keeps_gradients:
            replay.release_rest()
    small = sum([size for each in (around.resident, around.states) for size in each if size <= SMALL])
    small += program.high_water([size if size <= SMALL else 0 for size in program.block_sizes(values)], values)
    return room.highest + small_segments(small)


_BUCKET = 250 * MiB
"""Tensors are broadcast together until they have as many bytes (torch/distributed/utils.py,
`PARAM_BROADCAST_BUCKET_SIZE`)."""


def broadcast(sizes: Iterable[int]) -> Sequence[int]:
    """Return bytes of the copies in which tensors are broadcast, of which two are in flight; one alone is not copied.

    Source: torch/csrc/distributed/c10d/comm.cpp (`broadcast_coalesced`).
    """
    buckets: list[list[int]] = [[]]
    for size in sizes:
        if sum(buckets[-1]) >= _BUCKET:
            buckets.append([])
        buckets[-1].append(size)
    copies = [sum(each) if len(each) > 1 else 0 for each in buckets]
    return max(pairwise([0, *copies]), key=sum)


def end_step(pool: Pool, states: Sequence[int], temporaries: Sequence[int]) -> None:
    """The optimizer's step: what it adds, and what it needs for a moment."""
    pool.allocate_all(large(states))
    pool.release_all(pool.allocate_all(large(temporaries))[::-1])


def small_segments(size: int) -> int:
    """Return the bytes of the segments that a number of bytes in small blocks needs."""
    return round_up(size, SMALL_SEGMENT)


def large(sizes: Iterable[int]) -> Iterable[int]:
    """Return those that are not served from small segments."""
    return (size for size in sizes if size > SMALL)


def alike(blocks: Sequence[Block]) -> Sequence[Sequence[int]]:
    """For each block, those that differ in nothing but their number."""
    found: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    plain = [(b.rule, b.module, b.shape, b.dtype, b.phase, b.pool, b.recomputed) for b in blocks]
    for number, block in enumerate(plain):
        found[block].append(number)
    return [found[block] for block in plain]


def oldest(live: Sequence[list[Place]], like: Sequence[int]) -> Place:
    """Return the oldest place of blocks that are alike: a repeated layer frees what the one before it made."""
    return next(live[each] for each in like if live[each]).pop(0)


_Batch = tuple[list[Move], int | None]
"""Moves, and the block that is freed after them while another stream reads it, if one is."""


class _Replay:
    """A program's large blocks with every repetition of a layer run out."""

    def __init__(
        self,
        program: Program,
        values: Mapping[str, int],
        pools: Mapping[str, Pool],
        knobs: Knobs,
        pending: Mapping[str, int],
    ) -> None:
        sizes = program.block_sizes(values)
        self._blocks = program.blocks
        self._pools = [pools[block.pool] for block in program.blocks]
        self._live: list[list[Place]] = [[] for _ in program.blocks]
        self._pending = pending
        self._waiting: dict[tuple[str, Pool], list[Place]] = defaultdict(list)
        """Freed blocks that another stream still reads, by rule and pool, the oldest first."""
        come = [comes(block, size, knobs) if size > SMALL else None for block, size in enumerate(sizes)]
        go = [goes(block) if size > SMALL else None for block, size in enumerate(sizes)]
        moves = [*come, *reversed(go)]  # the complement of an index counts from the end
        self._stretches = [
            (
                1 if span.repeats is None else values[span.repeats],
                program.segments[span.segments[0]].turn[0],
                program.segments[span.segments[0]].place == BEGINS,
                self._by_pool([move for event in program.events[span.start : span.end] if (move := moves[event])]),
            )
            for span in program.spans
        ]

    def _by_pool(self, moves: Iterable[Move]) -> Mapping[Pool, Sequence[_Batch]]:
        """The moves of each pool: pools share nothing but the room, of which only the sum counts until a step ends."""
        found: dict[Pool, list[_Batch]] = {}
        for move in moves:
            block = move[0] if move[0] >= 0 else ~move[0]
            batches = found.setdefault(self._pools[block], [([], None)])
            if move[0] < 0 and self._blocks[block].rule in self._pending:
                batches[-1] = batches[-1][0], block
                batches.append(([], None))
            else:
                batches[-1][0].append(move)
        return found

    def run(self, step: int, emptied: DeviceMemory | None = None) -> None:
        """The micro-batches of a step; `emptied`: whose unused segments go back when the backward pass begins."""
        for repeats, recorded, begins, by_pool in self._stretches:
            if begins and emptied is not None and recorded == step:
                emptied.empty()
            for _ in range(repeats if recorded == step else 0):
                for pool, batches in by_pool.items():
                    for moves, read in batches:
                        pool.serve(moves, self._live, self._handed_on)
                        if read is not None:
                            self._wait(pool, read)

    def _wait(self, pool: Pool, block: int) -> None:
        """A block is freed that another stream reads; the one that has waited longest is free."""
        rule = self._blocks[block].rule
        waiting = self._waiting[rule, pool]
        waiting.append(self._live[block].pop() if self._live[block] else self._handed_on(block))
        if len(waiting) > self._pending[rule]:
            pool.release_all([waiting.pop(0)])

    def settle(self) -> None:
        """The step ends, and with it all that streams wait for."""
        for (_, pool), places in self._waiting.items():
            pool.release_all(places)

    @cached_property
    def _alike(self) -> Sequence[Sequence[int]]:
        return alike(self._blocks)

    def _handed_on(self, block: int) -> Place:
        return oldest(self._live, self._alike[block])

    def release_rest(self) -> None:
        """The gradients go."""
        for pool, blocks in zip(self._pools, self._live, strict=True):
            if blocks:
                pool.release_all(blocks)
