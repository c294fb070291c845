"""The caching allocator where every micro-batch is like the others: each of those in flight is replayed on its own.

What a collective reads or writes on a stream of its own is free only when the GPU has got there (`recordStream`,
`insert_events` and `process_events` of c10/cuda/CUDACachingAllocator.cpp). The host is ahead of the GPU, here by a pass
of a micro-batch at most: what collectives use of the blocks that a pass frees serves the next one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from memcore.allocator import SMALL, Pool, Room, Surroundings, end_step, small_segments
from memcore.job import Job
from memcore.step.pipelined import IN_FLIGHT
from memcore.step.recipe import Pipeline
from memcore.step.record import program_of
from memcore.timeline import Program, Span

STEPS = 3
"""The first is without optimizer states, the second has them, the third finds what the second left."""
STEADY = 3
"""Forward and backward passes in turn, of any number that all find the same."""
_BACKWARD = ("gradient of the loss", "received gradient")
"""Where a backward pass begins."""


@dataclass(slots=True)
class _Pass:
    """The forward or the backward pass of a micro-batch: blocks by index when they come, by complement when they go."""

    large: list[int]
    small: int = 0
    """Bytes in small blocks when it ends, over those when it begins."""
    highest: int = 0
    """The most of them while it lasts."""


class _Flights:
    """The micro-batches of a rank."""

    def __init__(self, program: Program, values: Mapping[str, int], pool: Pool) -> None:
        self._pool, self._values, self._program = pool, values, program
        self._sizes = program.block_sizes(values)
        place = [program.segments[span.segments[0]].place for span in program.spans]
        begins = next(number for number, name in enumerate(place) if name in _BACKWARD)
        self._forward, self._backward = self._pass(program.spans[:begins]), self._pass(program.spans[begins:])
        self._alike = _alike(program)
        self._live: list[dict[int, list[int]]] = []
        """Addresses by block, for each micro-batch in flight."""
        self._waiting: list[int] = []
        """What collectives of this pass still use."""
        self._small = 0
        self.highest = 0
        """The most bytes in small blocks."""

    def fly(self) -> None:
        """The forward pass of the next micro-batch."""
        self._live.append(defaultdict(list))
        self._run(self._forward, self._live[-1])

    def land(self) -> None:
        """The backward pass of the first micro-batch in flight."""
        self._run(self._backward, self._live.pop(0))

    def _pass(self, spans: Sequence[Span]) -> _Pass:
        found = _Pass([])
        for event in self._events(spans):
            size = self._sizes[max(event, ~event)]
            if size > SMALL:
                found.large.append(event)
            else:
                found.small += size if event >= 0 else -size
                found.highest = max(found.highest, found.small)
        return found

    def _events(self, spans: Sequence[Span]) -> Iterator[int]:
        for span in spans:
            for _ in range(1 if span.repeats is None else self._values[span.repeats]):
                yield from self._program.events[span.start : span.end]

    def _run(self, events: _Pass, live: dict[int, list[int]]) -> None:
        allocate, release, sizes = self._pool.allocate, self._pool.release, self._sizes
        for event in events.large:
            if event >= 0:
                live[event].append(allocate(sizes[event]))
                continue
            address = live[~event].pop() if live[~event] else self._handed_on(live, ~event)
            if ~event in self._program.communicated:
                self._waiting.append(address)
            else:
                release(address)
        for address in self._waiting:
            release(address)
        self._waiting.clear()
        self.highest = max(self.highest, self._small + events.highest)
        self._small += events.small

    def _handed_on(self, live: dict[int, list[int]], block: int) -> int:
        """The oldest address of a block like this one: a repeated layer frees what the one before it made."""
        return next(live[each] for each in self._alike[block] if live[each]).pop(0)


def _alike(program: Program) -> list[list[int]]:
    """For each block, those that differ in nothing but their number."""
    found = defaultdict(list)
    for number, block in enumerate(program.blocks):
        found[replace(block, number=0)].append(number)
    return [found[replace(block, number=0)] for block in program.blocks]


def apply(job: Job) -> bool:
    """Whether micro-batches are all alike: nanotron's leave no gradients but in a buffer that is there."""
    return job.recipe.nanotron is not None and job.recipe.nanotron.fp32_gradients


def reserved(job: Job, around: Surroundings, room: Room, *, expandable: bool = False) -> int:
    """The most bytes that the allocator holds during a later step."""
    recipe, plan = job.recipe, job.recipe.pipeline
    warm = plan.warm + job.sizes.get(IN_FLIGHT, 0) if plan is not None else 0
    alone = Pipeline(warm=0, stands=False, runs=1, skips=False, runtime=job.engine.name, returns_outputs=False)
    pool = Pool(room, expandable=expandable)
    for size in around.resident:
        if size > SMALL:
            pool.allocate(size)
    flights = _Flights(program_of(replace(recipe, pipeline=alone)), job.sizes, pool)
    turns = min(max(job.micro_batches - warm, 0), STEADY)
    for step in range(STEPS):
        room.highest = room.reserved
        for _ in range(warm):
            flights.fly()
        for _ in range(turns):
            flights.fly()
            flights.land()
        for _ in range(warm):
            flights.land()
        end_step(pool, around.states if step == 0 else (), around.temporaries)
    small = sum(size for each in (around.resident, around.states) for size in each if size <= SMALL)
    return room.highest + small_segments(small + flights.highest)
