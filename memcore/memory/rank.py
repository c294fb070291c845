"""One rank over one step: the moments it goes through, the ledger of each, and what its allocator reserves.

Ranks that must hold the same bytes are one class. Data parallelism makes all ranks alike.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Protocol

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.config.training import Training
from memcore.errors import UnsupportedError
from memcore.hardware import Overhead, context
from memcore.memory import pipeline_replay
from memcore.memory.allocator import BlocksAroundStep, DeviceMemory, InVainError, Knobs, reserved
from memcore.memory.communicators import deep_ep, hybrid_ep, node
from memcore.memory.host import host_entries
from memcore.memory.ledger import CATEGORIES, Entry, Ledger, block_entries, category_of, ledger
from memcore.memory.loading import kept_of_loading
from memcore.memory.persistent import persistent
from memcore.memory.pipeline import stage_jobs, stages_of_rank
from memcore.messages import Message, joined
from memcore.records import dataclass
from memcore.trace.job import Job
from memcore.trace.program import Moment, Program, Sample
from memcore.trace.record import StoppedError, program_of, stopping
from memcore.units import GiB, MiB


class PersistentMemory(Protocol):
    """What a rank keeps over steps, as bytes and as entries."""

    @property
    def parameters(self) -> int:
        """Return bytes of parameters."""

    @property
    def buffers(self) -> int:
        """Return bytes of what else is there before the first step."""

    @property
    def states(self) -> int:
        """Return bytes of optimizer states."""

    @property
    def workspaces(self) -> int:
        """Return bytes of library workspaces, from the first step on."""

    @property
    def paged(self) -> int:
        """Return bytes of optimizer states that may move to the host."""

    @property
    def before_step(self) -> int:
        """Return what is there before every step but the first."""

    @property
    def clipping(self) -> int:
        """Return what clipping gradients needs for a moment."""

    @property
    def stepping(self) -> int:
        """Return what the optimizer's step needs for a moment."""

    def resident(self) -> Iterator[Entry]:
        """Return what is there before the first step."""

    def optimizer_states(self) -> Iterator[Entry]:
        """Return what the first optimizer step adds."""

    def workspace_entries(self) -> Iterator[Entry]:
        """Workspaces."""

    def receive_buffers(self) -> Iterator[Entry]:
        """Return what a pipeline's stage keeps of its neighbours' results."""

    def clipping_entries(self) -> Iterator[Entry]:
        """Temporaries of clipping."""

    def step_entries(self) -> Iterator[Entry]:
        """Temporaries of the optimizer's step."""

    def blocks_around_step(self) -> BlocksAroundStep:
        """Return sizes of the persistent tensors as the allocator's replay needs them."""


@dataclass(frozen=True, slots=True)
class OutsideAllocator:
    """Memory of the GPU that is not in the allocator."""

    name: str
    overhead: Overhead


@dataclass(frozen=True)
class Rank:
    """A class of ranks."""

    name: str
    count: int
    job: Job

    @cached_property
    def persistent(self) -> PersistentMemory:
        """Return what the rank keeps from step to step."""
        return persistent(self.job)

    @cached_property
    def program(self) -> Program:
        """Return the recorded step."""
        return program_of(self.job.recipe)

    @property
    def micro_batch(self) -> tuple[Program, Mapping[str, int]] | None:
        """Return a micro-batch's passes and their sizes, where these are recorded alone."""
        return None

    @cached_property
    def _steps(self) -> Sequence[tuple[Moment, ...]]:
        found = self.program.moments(self.job.sizes, self.persistent.before_step)
        last = found[-1].turn[0]
        return [
            _with_ending([moment for moment in found if moment.turn[0] == step], self) for step in sorted({0, last})
        ]

    @property
    def first_step_moments(self) -> tuple[Moment, ...]:
        """Return the first step, as if the optimizer's states were there already."""
        return self._steps[0]

    @cached_property
    def moments(self) -> tuple[Moment, ...]:
        """Any later step."""
        return self._steps[-1]

    @cached_property
    def peak(self) -> Moment:
        """Return the moment that needs most."""
        return max(self.moments, key=lambda moment: moment.peak)

    @property
    def most(self) -> int:
        """Return bytes of the peak."""
        return self.peak.peak

    @property
    def least(self) -> int:
        """Return bytes that the peak surely has, without a recorded step: what the rank keeps from step to step."""
        return self.persistent.before_step

    def exceeds(self, room: float) -> bool:
        """Return whether the peak needs more than this; the forward pass alone may show it, before all is recorded."""
        try:
            with stopping(lambda program: self._height(program) > room):
                return self.most > room
        except StoppedError:
            return True

    def _height(self, program: Program) -> int:
        return max(each.peak for each in program.heights(self.job.sizes, self.persistent.before_step))

    @property
    def because(self) -> str:
        """Return what is in flight at the peak, where several micro-batches can be."""
        return ""

    @property
    def after_init(self) -> int:
        """Return bytes before the first step."""
        early = self.persistent.states if self.job.optimizer.from_start else 0
        return self.persistent.parameters + self.persistent.buffers + early

    @property
    def while_built(self) -> int:
        """Return the most that the job holds before the first step."""
        return self.after_init

    @property
    def first_step(self) -> int:
        """Return the peak of the first step; the optimizer's states come only with its end."""
        *before, step = self.first_step_moments
        late = 0 if self.job.optimizer.from_start else self.persistent.states
        return max(max(moment.peak for moment in before) - late, step.peak)

    @property
    def end_of_forward(self) -> int:
        """Return bytes when the loss is known and no gradient is."""
        ends = ("gradient of the loss", "received gradient")
        found = [number for number, moment in enumerate(self.moments) if moment.place in ends]
        if not found:
            raise UnsupportedError(
                Parallelism.pipeline_parallel_size,
                "a {} pipeline alternates forward and backward passes, "
                "so its forward passes do not all end at one moment",
                self.name,
            )
        return self.moments[found[-1] - 1].end

    @property
    def end_of_backward(self) -> int:
        """Return bytes when all gradients are complete."""
        return next(moment for moment in reversed(self.moments) if moment.phase == "backward").end

    @property
    def between_steps(self) -> int:
        """Return bytes after an optimizer step: gradients only if they are kept, outputs if a pipeline returns them."""
        if self.job.recipe.keeps_gradients:
            return self.end_of_backward
        return self.persistent.before_step + self._returned

    @property
    def _returned(self) -> int:
        """Return bytes of the outputs that a pipeline's last stage keeps until its next step begins."""
        plan = self.job.recipe.pipeline
        if plan is None or not plan.returns_outputs:
            return 0
        held, sizes = self.program.held_at_end(self.job.sizes), self.program.block_sizes(self.job.sizes)
        return sum(copies * sizes[index] for index, copies in held.items() if index not in self.program.gradients)

    def peak_of(self, phase: str) -> int:
        """Return the most that a phase of the step needs."""
        return max((moment.peak for moment in self.moments if moment.phase == phase), default=0)

    @cached_property
    def host(self) -> tuple[Entry, ...]:
        """Return what one process keeps in host memory."""
        return tuple(host_entries(self.job))

    @cached_property
    def initial(self) -> Ledger:
        """Return everything in memory before the first step."""
        return ledger(self.persistent.resident())

    def kept_entries(self) -> Iterator[Entry]:
        """Yield what stays from one step to the next."""
        keeps = self.persistent
        yield from keeps.resident()
        yield from keeps.optimizer_states()
        yield from keeps.workspace_entries()
        yield from keeps.receive_buffers()

    def ledger(self, moment: Moment, done: int | None = None) -> Ledger:
        """Return everything in memory at a moment's peak, or after `done` of its repetitions (`Program.held`)."""
        keeps, values = self.persistent, self.job.sizes
        entries = [*self.kept_entries()]
        if moment.phase == "gradient_clipping":
            entries += keeps.clipping_entries()
        if moment.phase == "optimizer_step":
            entries += keeps.step_entries()
        return ledger([*entries, *block_entries(self.program, self.program.held(moment, values, done), values)])

    @cached_property
    def profile(self) -> tuple[Sample, ...]:
        """Return the step as stretches, each with its highest point by category, in the order of `CATEGORIES`."""
        names = list(CATEGORIES)
        categories = [names.index(category_of(self.program, index)) for index in range(len(self.program.blocks))]
        base = levels_of(ledger(self.kept_entries()))
        found = [
            replace(sample, levels=plus(base, sample.levels))
            for sample in self.program.profile(self.job.sizes, categories, len(names))
            if sample.turn[0] == self.moments[0].turn[0]
        ]
        for moment in self.moments:
            if moment.segment is None:
                levels = levels_of(self.ledger(moment))
                found.append(Sample(moment.phase, moment.place, moment.turn, 1, levels))
        return tuple(found)

    @cached_property
    def reserved(self) -> int:
        """Bytes that the caching allocator holds after some steps, where it may still keep what loading needed."""
        return max(self.reserved_by_steps, kept_of_loading(self.job, self.after_init))

    @cached_property
    def reserved_by_steps(self) -> int:
        """Bytes that the caching allocator holds after some steps; the mean where it is open whether hosts wait."""
        held = max(round(sum(share * held for share, held in self._ways)), min(held for _, held in self._ways))
        return held + self._gathered_ahead

    @property
    def _gathered_ahead(self) -> int:
        """Return parameters that the host has freed, and the GPU not read, where FSDP1 does not limit its all-gathers.

        Their blocks wait for events of the GPU (`recordStream`; torch/distributed/fsdp/_limiter_utils.py). The host is
        ahead by what the driver queues; each result is taken for a launch.
        """
        if self.job.recipe.sharding.limits_gathers:
            return 0
        program, sizes, left, found = self.program, self.program.block_sizes(self.job.sizes), pipeline_replay.AHEAD, 0
        for segment in program.segments:
            made = [event for event in program.events[segment.start : segment.end] if event >= 0]
            if segment.phase == "forward" and made:
                repeats = 1 if segment.repeats is None else self.job.sizes[segment.repeats]
                times = min(repeats, left // len(made))
                gathered = sum(sizes[event] for event in made if program.blocks[event].rule == "unsharded_parameter")
                found, left = found + times * gathered, left - times * len(made)
                if times < repeats:
                    break
        return found

    @cached_property
    def _ways(self) -> Sequence[tuple[float, int]]:
        """Return what it holds if hosts wait and if not, each with its share.

        Where the GPU has not as much, it gives segments that are free as a whole back, and asks again.
        """
        around = self.persistent.blocks_around_step()
        if not pipeline_replay.apply(self.job):  # Turns have the workspaces come with the first products.
            workspaces = [entry.each for entry in self.persistent.workspace_entries() for _ in range(entry.copies)]
            around = replace(around, resident=[*around.resident, *workspaces])
            return ((1.0, self._holds(around)),)
        waiting = self._holds(around)
        # Where there is no room, the host waits for other streams too (`synchronize_and_free_events`).
        most = max(waiting, self._room or sys.maxsize)
        return [
            (share, waiting if hosts_wait else min(self._holds(around, hosts_wait=False), most))
            for share, hosts_wait in pipeline_replay.hosts(self.job)
        ]

    @property
    def _room(self) -> int | None:
        """Return what the GPU has for the allocator."""
        capacity = None if self.job.recipe.fake else self.job.capacity
        return None if capacity is None else capacity - sum(each.overhead.expected for each in beside_allocator(self))

    def _holds(self, around: BlocksAroundStep, *, hosts_wait: bool = True) -> int:
        """Return what it holds in the room that the GPU has."""
        room = DeviceMemory(self._room, knobs_of(self.job).collects)
        try:
            found = self._held(around, room, hosts_wait=hosts_wait)
        except InVainError:
            found = self._held(around, DeviceMemory(), hosts_wait=hosts_wait)
        return max(found, self.peak.peak)

    def _held(self, around: BlocksAroundStep, room: DeviceMemory, *, hosts_wait: bool) -> int:
        if pipeline_replay.apply(self.job):
            return pipeline_replay.reserved(self.job, around, room, hosts_wait=hosts_wait, knobs=knobs_of(self.job))
        pending = {} if self.job.recipe.fake else self.job.engine.runtime.pending
        return reserved(self.program, self.job.sizes, around, knobs=knobs_of(self.job), room=room, pending=pending)

    @property
    def most_reserved(self) -> int:
        """Return the bytes reserved at most, whichever way the job runs that its config leaves open."""
        return max(held for _, held in self._ways)

    @property
    def spared_by_order(self) -> int:
        """Return bytes that another order of allocations may spare where the GPU has room for all tensors alone.

        Whether giving segments back suffices does not follow from the room alone: replays of FSDP2 succeed in 42 GiB
        and fail in 45, since what is given back decides which blocks later requests find.
        """
        room, held = self._room, self.reserved_by_steps
        return held - self.peak.peak if room is not None and self.peak.peak <= room < held else 0

    @cached_property
    def least_reserved(self) -> int:
        """Return bytes that no order of allocations could avoid reserving: streams do not share memory."""
        program, values = self.program, self.job.sizes
        sizes, homes = program.block_sizes(values), [block.pool for block in program.blocks]
        highest = (
            program.high_water([size if home == pool else 0 for size, home in zip(sizes, homes, strict=True)], values)
            for pool in set(homes)
        )
        return max(self.peak.peak, self.persistent.before_step + sum(highest))


def knobs_of(job: Job) -> Knobs:
    """Return what the allocator was asked for."""
    given = job.config
    return Knobs(
        expandable=bool(given[EngineSettings.expandable_segments]),
        unsplit=(given[EngineSettings.max_split_size_mb] or 0) * MiB,
        divisions=given[EngineSettings.roundup_power2_divisions] or 0,
        collects=given[EngineSettings.garbage_collection_threshold] or 0.0,
        emptied=given[EngineSettings.torch_empty_cache_steps] or 0,
    )


def outside_allocator(rank: Rank) -> tuple[OutsideAllocator, ...]:
    """Return what the driver shows beyond the allocator."""
    found = beside_allocator(rank)
    if not (paged := rank.persistent.paged) or rank.job.config[Hardware.outside_gb] is not None:
        return found
    if rank.job.capacity is not None:
        taken = rank.reserved + sum(each.overhead.expected for each in found)
        paged = min(paged, max(rank.job.capacity - taken, 0))
    source = "bitsandbytes/optim/optimizer.py, prefetch_state: managed memory, evicted where the GPU is full"
    return (*found, OutsideAllocator("paged optimizer states", Overhead(0, paged, paged, source)))


def beside_allocator(rank: Rank) -> tuple[OutsideAllocator, ...]:
    """Return what the driver shows beyond the allocator and does not move to the host where the GPU is full."""
    job = rank.job
    given = job.config[Hardware.outside_gb]
    if given is not None:
        size = round(given * GiB)
        return (OutsideAllocator("memory outside the allocator", Overhead(size, size, size, Hardware.outside_gb)),)
    found = [OutsideAllocator("CUDA context and kernels", context(job.accelerator))]
    if job.num_gpus > 1:
        found.append(OutsideAllocator("NCCL buffers", job.nccl))
    if job.recipe.dispatcher == "deepep":
        found.append(OutsideAllocator("DeepEP buffers", _deep_ep(job)))
    if job.recipe.dispatcher == "hybridep":
        found.append(OutsideAllocator("HybridEP buffers", _hybrid_ep(job)))
    share = job.config[Training.method.rollout_share]
    if share and job.capacity is not None:
        size = round(share * job.capacity)
        source = "vllm, config/cache.py: gpu_memory_utilization"
        found.append(OutsideAllocator("inference engine", Overhead(0, size, size, source)))
    if job.config[Training.method.critic]:
        kept = rank.persistent.parameters + rank.persistent.states
        found.append(OutsideAllocator("critic", Overhead(0, kept, kept, "verl, workers/fsdp_workers.py: CriticWorker")))
    return tuple(found)


def _deep_ep(job: Job) -> Overhead:
    """Return what DeepEP sends through; its first version had less."""
    sizes = job.sizes
    near = node(job.accelerator, job.config[Hardware.gpus_per_node])
    size = deep_ep(sizes["b"] * sizes["s"], sizes["h"], sizes["e"], sizes["ep"], near)
    return Overhead(0, size, size, "DeepEP 2, csrc/elastic/buffer.hpp: calculate_buffer_size")


def _hybrid_ep(job: Job) -> Overhead:
    """Return what HybridEP sends through; releases differ in whether it serves both ways."""
    sizes = job.sizes
    near = node(job.accelerator, job.config[Hardware.gpus_per_node])
    experts = sizes["E"] // sizes["ep"]
    once, twice = (
        hybrid_ep(sizes["b"] * sizes["s"], sizes["h"], experts, sizes["ep"], near, shared) for shared in (True, False)
    )
    return Overhead(once, once, twice, "DeepEP, csrc/hybrid_ep/buffer/intranode.cu: allocate_combine_buffers")


def ranks_of(job: Job) -> tuple[Rank, ...]:
    """Return every class of ranks of a job: one for each stage of a pipeline, which data parallelism makes alike."""
    each = job.num_gpus // job.stages
    if job.recipe.pipeline is None:
        return (_rank_of(job, "the GPU" if each == 1 else Message("all {} GPUs", each), each),)
    return tuple(_rank_of(stage, _named(job, number), each) for number, stage in enumerate(stage_jobs(job)))


def _named(job: Job, rank: int) -> str:
    """Return a rank of a pipeline by its stages."""
    return (
        Message("stage {}", rank)
        if job.stages_each == 1
        else Message("stages {}", joined(" and ", map(str, stages_of_rank(job, rank))))
    )


def _rank_of(job: Job, name: str, count: int) -> Rank:
    """Return one class of ranks."""
    return Rank(name, count, job)


def _with_ending(moments: list[Moment], rank: Rank) -> tuple[Moment, ...]:
    """Return a step's moments and what comes after its backward pass."""
    keeps = rank.persistent
    end, turn = moments[-1].end, moments[-1].turn
    clipping, stepping = end + keeps.clipping, end + keeps.stepping
    clipped = Moment("gradient_clipping", "gradient norms", clipping, end, clipping, 1, None, turn)
    stepped = Moment("optimizer_step", rank.job.optimizer.title, stepping, end, stepping, 1, None, turn)
    return (*moments, clipped, stepped)


def levels_of(found: Ledger) -> tuple[int, ...]:
    """Return bytes of each category, in the order of `CATEGORIES`."""
    return tuple(found.by_category.get(name, 0) for name in CATEGORIES)


def plus(first: Sequence[int], second: Sequence[int]) -> tuple[int, ...]:
    """Return the sums of two rows of levels."""
    return tuple(a + b for a, b in zip(first, second, strict=True))
