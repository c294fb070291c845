"""The caching allocator where every micro-batch is like the others: each of those in flight is replayed on its own.

What a collective reads or writes on a stream of its own is free only when the GPU has got there (`recordStream`,
`insert_events` and `process_events` of c10/cuda/CUDACachingAllocator.cpp). The host is ahead of the GPU by what the
driver queues. In a pipeline it waits for the GPU where a stage sends or receives, or it does not: `HOSTS`. If it does,
it gets ahead in between where products take the GPU longer than launches take the host.

Nobody documents how much a driver queues or how long a launch takes: `AHEAD` and `LAUNCH` are what a user of CUDA
measured once, taken for every driver and host.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from memcore.hardware import TERA, matmul_workspaces
from memcore.memory.allocator import (
    SMALL,
    USUAL,
    BlocksAroundStep,
    DeviceMemory,
    Knobs,
    Move,
    Place,
    Pool,
    alike,
    comes,
    end_step,
    goes,
    oldest,
    small_segments,
)
from memcore.messages import Message, joined
from memcore.records import dataclass
from memcore.symbols import product
from memcore.trace.job import Job
from memcore.trace.pipelined import IN_FLIGHT, SENT
from memcore.trace.program import Program, Span
from memcore.trace.recipe import Pipeline
from memcore.trace.record import program_of

STEPS = 3
"""The first is without optimizer states, the second has them, the third finds what the second left."""
STEADY = 3
"""Forward and backward passes in turn that are replayed at the most: later ones are taken to find what these have
left, and to need no more (tests/test_nanotron.py replays eight: up to 2% more where hosts do not wait)."""
AHEAD = 1000
"""How much the driver is taken to queue before the host waits: about a thousand launches (measured in NVIDIA's
developer forum, 68937: CUDA streams are blocked when launching lots of kernels). nanotron has all streams in one queue
(`CUDA_DEVICE_MAX_CONNECTIONS=1`, parallel/utils.py), in which events and waits for them have their places too."""
LAUNCH = 5e-6
"""Seconds that the host is assumed to need for a launch (measured there too: four to five microseconds). What Python
does between launches does not count."""
HOSTS: Sequence[tuple[float, bool]] = ((0.38, True), (0.62, False))
"""Whether hosts wait for the GPU where a stage sends or receives, and the share of the Ultra-Scale Playbook's sweep of
nanotron that says so: two versions were measured, and no config says which. In the published code they do: shapes are
copied to the GPU and read from it (parallel/pipeline_parallel/p2p.py). In branch nouamane/bench2 they also ask every
0.1 seconds whether a message has come, so that a turn takes half a second. It does, by the published tokens per second,
in 121 of the sweep's 319 pipelines of four stages or more with one sequence in a micro-batch. The code of the other
version is not published; it reserves what hosts do that never wait (tests/test_nanotron.py)."""
COLLECTIVE = 5
"""Places of a collective: an event and a wait before its kernel and after it (ProcessGroupNCCL.cpp, `syncStreams`)."""
_BACKWARD = ("gradient of the loss", "received gradient")
"""Where a backward pass begins."""
_PRODUCTS = frozenset({"linear", "input_gradient", "weight_gradient"})
"""Rules of products of matrices: the first of a thread asks for its workspace when its result is there
(CUDABlas.cpp; CublasHandlePool.cpp, `getCurrentCUDABlasHandle`)."""
_TUNED = frozenset({"rms_norm", "rms_norm_backward"})
"""Rules of Triton's kernels that are timed with several numbers of warps when they run for the first time
(flash-attn, ops/triton/layer_norm.py, `triton.autotune`)."""
FLUSH = 256_000_000
"""Bytes of the buffer with which caches are cleared between those runs (triton, testing.py, `do_bench`)."""


@dataclass(slots=True)
class _Pass:
    """The forward or the backward pass of a micro-batch."""

    large: list[tuple[Move, int, bool]]
    """What comes and goes, what is queued up to it since the one before, and whether a collective uses it."""
    queued: int = 0
    """What is queued after the last of them."""
    small: int = 0
    """Bytes in small blocks when it ends, over those when it begins."""
    highest: int = 0
    """The most of them while it lasts."""
    seconds: float = AHEAD * LAUNCH
    """What the GPU takes for each that is queued; by default so long that the queue is always full."""
    workspaces: Sequence[int] = ()
    """What the thread that runs it keeps from its first product on; nothing once it has it."""
    tuned: bool = False
    """Its kernels have been timed."""


class _InFlight:
    """The micro-batches of a rank."""

    def __init__(
        self,
        program: Program,
        values: Mapping[str, int],
        pool: Pool,
        workspaces: Sequence[int] = (),
        *,
        receives: bool = False,
        hosts_wait: bool = True,
    ) -> None:
        self._pool, self._values, self._program = pool, values, program
        self._sizes = program.block_sizes(values)
        place = [program.segments[span.segments[0]].place for span in program.spans]
        begins = next(number for number, name in enumerate(place) if name in _BACKWARD)
        sent = place.index(SENT) if SENT in place else begins
        self._sends = sent < begins
        self._receives, self._hosts_wait = receives, hosts_wait
        received = begins + self._sends
        cuts = (0, sent, begins, received, len(program.spans))
        parts = [self._pass(program.spans[start:end]) for start, end in pairwise(cuts)]
        self._forward, self._sent, self._received, self._backward = parts
        self._sent.seconds = self._received.seconds = 0
        self._forward.workspaces = self._backward.workspaces = workspaces
        self._alike = alike(program.blocks)
        self._live: list[list[list[Place]]] = []
        """What is in use of each block, for each micro-batch in flight; at the end, what is freed for others."""
        self._waiting: deque[tuple[int, float, Place]] = deque()
        """What collectives still use: until so much is queued, or so late by the host's clock, and where it is."""
        self._queued = 0
        self._host = self._gpu = 0.0
        """Their clocks, in seconds."""
        self._small = 0
        self.highest = 0
        """The most bytes in small blocks."""

    def pace(self, seconds: float) -> None:
        """Products take the GPU so long in a forward pass, and twice in a backward pass."""
        for events, times in ((self._forward, 1), (self._backward, 2)):
            queued = sum(each for _, each, _ in events.large) + events.queued
            events.seconds = times * seconds / max(queued, 1)

    def fly(self) -> None:
        """The forward pass of the next micro-batch, whose result is sent."""
        self._begin_flight()
        self._run(self._sent, self._live[-1])

    def turn(self) -> None:
        """A forward pass, then a backward pass: the result is sent and the gradient received in one."""
        self._begin_flight()
        if self._sends:
            self._receive()
        self._run(self._received, self._live[0])
        self._run(self._sent, self._live[-1])
        self._run(self._backward, self._live.pop(0))

    def land(self) -> None:
        """The backward pass of the first micro-batch in flight."""
        if self._sends:
            self._receive()
        self._run(self._received, self._live[0])
        self._run(self._backward, self._live.pop(0))

    def _receive(self) -> None:
        """The host waits for the GPU to learn a shape, and goes on."""
        if self._hosts_wait:
            self.synchronize()

    def _begin_flight(self) -> None:
        """A forward pass. What is received before, and what is sent after it: the host copies their shapes.

        It waits for the GPU to do so (parallel/pipeline_parallel/p2p.py, `_send_meta` and `_recv_meta`).
        """
        if self._receives:
            self._receive()
        self._live.append([[] for _ in range(len(self._sizes) + 1)])
        self._run(self._forward, self._live[-1])
        if self._sends and self._hosts_wait:
            self.synchronize()

    def synchronize(self) -> None:
        """The host waits for the GPU."""
        self._queued += AHEAD
        self._host = self._gpu = max(self._host, self._gpu)
        self._pool.release_all([key for _, _, key in reversed(self._waiting)])
        self._waiting.clear()

    def _pass(self, spans: Sequence[Span]) -> _Pass:
        found = _Pass([])
        for event, queued in self._events(spans):
            size = self._sizes[max(event, ~event)]
            found.queued += queued
            if size > SMALL:
                move = comes(event, size, self._pool.knobs) if event >= 0 else goes(~event)
                found.large.append((move, found.queued, event < 0 and ~event in self._program.communicated))
                found.queued = 0
            else:
                found.small += size if event >= 0 else -size
                found.highest = max(found.highest, found.small)
        return found

    def _events(self, spans: Sequence[Span]) -> Iterator[tuple[int, int]]:
        for span in spans:
            stretch = [(self._program.events[place], self._places(place)) for place in range(span.start, span.end)]
            for _ in range(1 if span.repeats is None else self._values[span.repeats]):
                yield from stretch

    def _places(self, place: int) -> int:
        """Return what is queued up to an event.

        Collectives before it, a kernel for what comes, an event for what goes.
        """
        program, event = self._program, self._program.events[place]
        own = event >= 0 or ~event in program.communicated or ~event in program.gradients
        return COLLECTIVE * program.collectives[place] + own

    def _run(self, events: _Pass, live: list[list[Place]]) -> None:
        self._pool.serve(self._moves(events, live), live, lambda block: oldest(live, self._alike[block]))
        self._queued += events.queued
        self.highest = max(self.highest, self._small + events.highest)
        self._small += events.small

    def _moves(self, events: _Pass, live: list[list[Place]]) -> Iterator[Move]:
        """Yield the moves of a pass; before something comes, what collectives are done with goes."""
        waiting, freed = self._waiting, live[-1]
        free = goes(len(live) - 1)
        for move, queued, collective in events.large:
            self._queued += queued
            self._host += queued * LAUNCH
            self._gpu = max(self._host, self._gpu + queued * events.seconds)
            block = move[0]
            if block >= 0:
                while waiting and (waiting[0][0] <= self._queued or waiting[0][1] <= self._host):
                    freed.append(waiting.popleft()[2])
                    yield free
                yield move
                if events.workspaces or not events.tuned:
                    self._begin(events, self._program.blocks[block].rule)
            elif collective:
                key = live[~block].pop() if live[~block] else oldest(live, self._alike[~block])
                waiting.append((self._queued + AHEAD, self._gpu, key))
            else:
                yield move

    def _begin(self, events: _Pass, rule: str) -> None:
        """Allocate what an operation asks for when it is the first of its kind."""
        if rule in _PRODUCTS:
            self._pool.allocate_all(events.workspaces)
            events.workspaces = ()
        if rule in _TUNED and not events.tuned:
            self._pool.release_all(self._pool.allocate_all((FLUSH,)))
            events.tuned = True


def _products(job: Job) -> float | None:
    """Return seconds of a forward pass's products with weights, at the vendor's peak; None if that is not known."""
    if job.accelerator is None:
        return None
    tokens = job.sizes["b"] * job.sizes["s"]
    matrices = (each for each in job.share.tensors if each[0].kind not in ("embedding", "norm"))
    weights = sum(count * product(weight.shape, job.sizes) for weight, _, count in matrices)
    return 2 * tokens * weights / (job.accelerator.speed.tflops * TERA)


def apply(job: Job) -> bool:
    """Return whether micro-batches are all alike."""
    return job.engine.alike(job.recipe)


def hosts(job: Job) -> Sequence[tuple[float, bool]]:
    """Return whether this rank's host waits for the GPU in a pipeline, each with its share.

    One that does not gets ahead by a full queue where its GPU waits for other stages; where it does not, this is left.
    """
    plan = job.recipe.pipeline
    return HOSTS if plan is not None and plan.waits else ((1.0, True),)


def assumed(job: Job) -> str | None:
    """Return what the replay takes for granted.

    Where collectives keep blocks, and of which version of nanotron it is.
    """
    if not apply(job):
        return None
    said = []
    if job.engine.overlaps(job.recipe):
        time = LAUNCH * 1e6
        said.append(
            Message(
                "assumes a driver queue of {:,} launches and {:g} µs of host time per launch",
                AHEAD,
                time,
            )
        )
    if len(hosts(job)) > 1:
        said.append(Message("the expected value is the mean of two measured versions of {}", job.engine.title))
    return joined("; ", said) or None


def reserved(
    job: Job, around: BlocksAroundStep, room: DeviceMemory, *, hosts_wait: bool = True, knobs: Knobs = USUAL
) -> int:
    """Return the most bytes that the allocator holds during a later step."""
    recipe, plan = job.recipe, job.recipe.pipeline
    warm = plan.warm + job.sizes.get(IN_FLIGHT, 0) if plan is not None else 0
    alone = Pipeline(warm=0, stands=False, runs=1, skips=False, runtime=job.engine.name, returns_outputs=False)
    pool = Pool(room, knobs)
    for size in around.resident:
        if size > SMALL:
            pool.allocate(size)
    workspaces = [size for _, size in matmul_workspaces(job.accelerator) if size > SMALL]
    receives = plan is not None and not recipe.network.embedding_and_head.reads_tokens
    program = program_of(replace(recipe, pipeline=alone))
    flights = _InFlight(program, job.sizes, pool, workspaces, receives=receives, hosts_wait=hosts_wait)
    seconds = None if plan is None or not hosts_wait else _products(job)
    if seconds is not None:
        flights.pace(seconds)
    turns = min(max(job.micro_batches - warm, 0), STEADY)
    for step in range(STEPS):
        room.highest = room.reserved
        for _ in range(warm):
            flights.fly()
        for _ in range(turns):
            flights.turn()
        for _ in range(warm):
            flights.land()
        flights.synchronize()
        end_step(pool, around.states if step == 0 else (), around.temporaries)
    small = sum(size for each in (around.resident, around.states) for size in each if size <= SMALL)
    return room.highest + small_segments(small + flights.highest)
