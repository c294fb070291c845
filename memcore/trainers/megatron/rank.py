"""One pipeline stage of a Megatron job over one step.

Every chunk is recorded by itself: the forward and the backward pass of one micro-batch. What others in flight have left
is added as often as the schedule has them there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from operator import mul
from typing import ClassVar

from memcore import registry
from memcore.config.training import Training
from memcore.errors import UnsupportedError
from memcore.memory.allocator import reserved
from memcore.memory.ledger import CATEGORIES, Entry, Ledger, block_entries, category_of, ledger
from memcore.memory.places import place
from memcore.memory.rank import Rank, knobs_of, levels_of, plus
from memcore.messages import Message
from memcore.records import dataclass
from memcore.trace.code import code_of
from memcore.trace.program import Height, Moment, Program, Sample
from memcore.trace.record import program_of
from memcore.trainers.megatron.layers.offloading import RETURN
from memcore.trainers.megatron.persistent import MegatronPersistent
from memcore.trainers.megatron.resolve import ChunkJob, MegatronJob
from memcore.trainers.megatron.schedule import Live, Schedule, schedule, without
from memcore.trainers.megatron.settings import MegatronSettings
from memcore.trainers.megatron.step_plan import MegatronPlan
from memcore.trainers.megatron.workspaces import total

_PLURALS = {"micro-batch": "micro-batches", "chunk of layers": "chunks of layers"}


@dataclass(frozen=True, slots=True)
class StageMoment(Moment):
    """A moment of one chunk, with what is in flight of all of them besides."""

    of_micro_batch: ClassVar[bool] = False
    chunk: int
    kind: int
    """Of the kinds of chunks of the stage."""
    live: Live
    front: int | None
    """The kind of chunk of which one micro-batch has its last offloaded groups back already."""


@dataclass(frozen=True)
class Recorded:
    """One chunk's pass forward and back."""

    job: ChunkJob
    program: Program
    heights: Sequence[Height]
    """On top of nothing."""
    turn: int
    """How many of them are the forward pass."""
    behind: Recorded | None
    """The same while other backward passes come first, if that makes a difference: all its groups are on the host."""

    @cached_property
    def moments(self) -> tuple[Moment, ...]:
        """On top of nothing."""
        return tuple(self.program.placed(self.heights))

    @cached_property
    def kept(self) -> int:
        """Return bytes from the forward to the backward pass."""
        return self.heights[self.turn - 1].end

    @cached_property
    def peaks(self) -> dict[bool, dict[str, int]]:
        """Return the most that the forward and the backward pass hold, by phase; what is kept in between included."""
        found: dict[bool, dict[str, int]] = {True: {}, False: {}}
        for number, (segment, height) in enumerate(zip(self.program.segments, self.heights, strict=True)):
            highest = found[number < self.turn]
            highest[segment.phase] = max(highest.get(segment.phase, 0), height.peak)
        return found

    @cached_property
    def held(self) -> Counter[int]:
        """Return how many of each block the forward pass keeps."""
        last = self.program.segments[self.turn - 1].end
        found: Counter[int] = Counter()
        for span in self.program.spans:
            if span.start < last:
                times = self.job.sizes[span.repeats] if span.repeats else 1
                for event in self.program.events[span.start : span.end]:
                    found[event if event >= 0 else ~event] += times if event >= 0 else -times
        return found

    @cached_property
    def back(self) -> Counter[int]:
        """Blocks of groups that are back from the host before the backward pass begins."""
        segments = (each for each in self.program.segments if each.place == RETURN)
        return Counter(event for each in segments for event in self.program.events[each.start : each.end])

    @cached_property
    def returned(self) -> int:
        """Their bytes."""
        sizes = self.program.block_sizes(self.job.sizes) if self.back else ()
        return sum(count * sizes[block] for block, count in self.back.items())

    @cached_property
    def hosted(self) -> int:
        """Return bytes that go to the host; what comes back ahead for the next pass belongs to that."""
        return self.program.allocated("reloaded_activation", self.job.sizes) - self.returned

    @property
    def waiting(self) -> Recorded:
        """Return the pass as it leaves things when other backward passes come first."""
        return self.behind or self


def recorded(job: ChunkJob) -> Recorded:
    """Return a chunk's pass, with its sizes put in."""
    if job.recipe.implementation not in registry.IMPLEMENTATIONS:
        raise UnsupportedError(
            Training.implementation, "training with {!r} is not supported yet", job.recipe.implementation
        )
    code_of(job.recipe.implementation).check(job.recipe.network)
    program = program_of(job.recipe)
    turn = next(
        number
        for number, segment in enumerate(program.segments)
        if segment.phase == "backward" or segment.place in ("gradient of the loss", "received gradient")
    )
    plan = job.recipe.plan(MegatronPlan)
    behind = None
    if plan is not None and plan.offload is not None and plan.offload.stays:
        without_last = replace(plan, offload=replace(plan.offload, stays=False))
        behind = recorded(replace(job, recipe=job.recipe.planned(without_last)))
    return Recorded(job, program, program.heights(job.sizes), turn, behind)


@dataclass(frozen=True)
class MegatronRank(Rank):
    """One stage."""

    job: MegatronJob
    keeps: MegatronPersistent
    others: dict[int, Recorded]
    """Chunks that are recorded, which stages share."""

    @property
    def persistent(self) -> MegatronPersistent:
        """Return what the stage keeps from step to step."""
        return self.keeps

    def exceeds(self, room: float) -> bool:
        """Return whether the peak needs more than this: several chunks and turns are at it, not one recording."""
        return self.most > room

    @cached_property
    def kinds(self) -> tuple[ChunkJob, ...]:
        """Each kind of chunk of this stage once."""
        return tuple({id(chunk): chunk for chunk in self.job.chunks}.values())

    @cached_property
    def _kinds(self) -> tuple[int, ...]:
        """Return the kind of each chunk."""
        numbers = {id(chunk): number for number, chunk in enumerate(self.kinds)}
        return tuple(numbers[id(chunk)] for chunk in self.job.chunks)

    def kind_of(self, number: int) -> int:
        """Return the kind of a chunk."""
        return self._kinds[number]

    @cached_property
    def schedule(self) -> Schedule:
        """Return what is in flight when."""
        job = self.job
        return schedule(job.stage, job.stages, self._kinds, job.micro_batches, job.group, overlapped=self._overlapped)

    @property
    def _overlapped(self) -> bool:
        """Return whether forward and backward passes run side by side."""
        return bool(self.job.config[MegatronSettings.overlap_moe_expert_parallel_comm]) and len(self.job.chunks) > 1

    @cached_property
    def recorded(self) -> tuple[Recorded, ...]:
        """Return the kinds of chunks, recorded."""
        for chunk in self.kinds:
            if id(chunk) not in self.others:
                self.others[id(chunk)] = recorded(chunk)
        return tuple(self.others[id(chunk)] for chunk in self.kinds)

    @property
    def micro_batch(self) -> tuple[Program, Mapping[str, int]]:
        """Return the passes of the first chunk."""
        chunk = self.recorded[0]
        return chunk.program, chunk.job.sizes

    def _bytes(self, live: Live, front: int | None = None) -> int:
        found = sum([count * chunk.waiting.kept for count, chunk in zip(live, self.recorded, strict=True)])
        return found + (0 if front is None else self._ahead(front))

    def _ahead(self, kind: int) -> int:
        """Return what the last offloaded groups of a chunk take once they are back."""
        return self.recorded[kind].waiting.returned

    def _next_backward(self, number: int, forward: bool, live: Live) -> int | None:
        """The kind of chunk whose backward pass comes next while a forward pass runs, if something of it is back."""
        flying = [kind for kind, count in enumerate(live) if count and self._ahead(kind)] if forward else []
        at_once = flying and self._at_once(number) and self._ahead(self._kinds[number])
        return max(flying, key=self._ahead) if flying and not at_once else None

    def _at_once(self, number: int) -> bool:
        """Return whether the backward pass of a chunk follows its forward pass."""
        last = self.job.stage == self.job.stages - 1 and number == len(self._kinds) - 1
        return last and not self._overlapped

    def _pass(self, number: int, live: Live) -> Recorded:
        """Return a pass of a chunk."""
        found = self.recorded[self._kinds[number]]
        return found.waiting if sum(live) and not self._at_once(number) else found

    def _flights(self) -> Iterator[tuple[int, bool, Live]]:
        """Yield every pass of a chunk, with the most that is in flight meanwhile: forward ones, then backward ones."""
        for number, lives in enumerate(self.schedule.forward):
            yield number, True, max(lives, key=self._bytes)
        for number, lives in reversed(list(enumerate(self.schedule.backward))):
            yield number, False, without(max(lives, key=self._bytes), self._kinds[number])

    @cached_property
    def moments(self) -> tuple[Moment, ...]:
        """Return a step: every chunk's forward and backward pass when most is in flight, and the optimizer's step."""
        found = [moment for each in self._flights() for moment in self._placed(*each)]
        return (*found, *self._ending(found[-1].turn))

    def _ending(self, turn: tuple[int, int]) -> tuple[Moment, Moment]:
        base, title = self.persistent.before_step, self.job.optimizer.title
        stepping = base + self.persistent.stepping
        return (
            Moment("gradient_clipping", "gradient norms", base, base, base, 1, None, turn),
            Moment("optimizer_step", title, stepping, base, stepping, 1, None, turn),
        )

    def height(self, flight: tuple[int, bool, Live]) -> int:
        """Return the most that a pass of a chunk holds, in addition to what stays."""
        number, forward, live = flight
        peaks = self._pass(number, live).peaks[forward]
        around = self._bytes(live, self._next_backward(*flight))
        return around + max([peak + self.persistent.passing_bytes(phase) for phase, peak in peaks.items()])

    @cached_property
    def most(self) -> int:
        """Return bytes of the peak."""
        flying = max(map(self.height, self.schedule.highest))
        return self.persistent.before_step + max(flying, self.persistent.stepping)

    @cached_property
    def peak(self) -> Moment:
        """Return the moment that needs most."""
        worst = list(self._placed(*max(self.schedule.highest, key=self.height)))
        return max((*worst, *self._ending(worst[-1].turn)), key=lambda moment: moment.peak)

    @property
    def because(self) -> str:
        """Return what is in flight at the peak."""
        if not isinstance(self.peak, StageMoment):
            return "no micro-batch is in flight"
        flying = sum(self.peak.live) + 1
        what = "micro-batch" if len(self._kinds) == 1 else "chunk of layers"
        return (
            Message("{} {} in flight", 1, what) if flying == 1 else Message("{} {} in flight", flying, _PLURALS[what])
        )

    def _placed(self, number: int, forward: bool, live: Live) -> Iterator[Moment]:
        """Yield the moments of a pass of a chunk, on top of what is held meanwhile."""
        kind = self._kinds[number]
        front = self._next_backward(number, forward, live)
        around = self.persistent.before_step + self._bytes(live, front)
        chunk = self._pass(number, live)
        share = replace(chunk.job.share, first_layer=self.job.layout[self.job.stage][number].start)
        for each in chunk.moments[: chunk.turn] if forward else chunk.moments[chunk.turn :]:
            where, base = each.place, around + self.persistent.passing_bytes(each.phase)
            if len(self._kinds) > 1:
                where = Message("{}, chunk {}", place(where, share), number)
            yield StageMoment(
                each.phase, where, each.peak + base, each.end + base, each.first + base, each.repeats, each.segment,
                each.turn, number, kind, live, front,
            )  # fmt: skip

    @cached_property
    def host(self) -> tuple[Entry, ...]:
        """Return what one process keeps in host memory.

        Its part of the optimizer, and what is offloaded of most in flight.
        """
        lives = [live for chunk in self.schedule.backward for live in chunk]
        each = [chunk.waiting.hosted for chunk in self.recorded]
        most = max(sum(map(mul, live, each)) for live in lives)
        return tuple(self.persistent.host_entries(most))

    @property
    def first_step_moments(self) -> tuple[Moment, ...]:
        """Return the first step, as if the optimizer's states were there already."""
        return self.moments

    @property
    def while_built(self) -> int:
        """Flat buffers are filled from the model's own parameters, which go before there are master weights."""
        return max(self.after_init, self.persistent.initialization)

    @property
    def between_steps(self) -> int:
        """Return bytes after an optimizer step; its copy of gradients goes when the next one begins."""
        left = self.persistent.copies + total(self.persistent.left_entries())
        return self.persistent.before_step + left - self.persistent.released

    @property
    def end_of_backward(self) -> int:
        """Gradients are in buffers that stay."""
        return self.persistent.before_step

    @property
    def end_of_forward(self) -> int:
        """Return bytes when a micro-batch's forward pass ends, with the most in flight."""
        return max(moment.end for moment in self.moments if moment.phase in ("forward", "loss"))

    def ledger(self, moment: Moment, done: int | None = None) -> Ledger:
        """Everything in memory at a moment's peak, or after `done` of its repetitions (`Program.held`)."""
        entries = [*self.kept_entries()]
        if isinstance(moment, StageMoment):
            chunk = self._pass(moment.chunk, moment.live)
            within = next(each for each in chunk.moments if each.segment == moment.segment)
            held = chunk.program.held(within, chunk.job.sizes, done)
            entries += block_entries(chunk.program, held, chunk.job.sizes)
            entries += [*self.flying(moment.live, moment.front), *self.persistent.passing(moment.phase)]
        elif moment.phase == "optimizer_step":
            entries += self.persistent.step_entries()
        return ledger(entries)

    def flying(self, live: Live, front: int | None) -> Iterator[Entry]:
        """Yield what other micro-batches in flight have left."""
        for count, chunk in zip(live, self.recorded, strict=True):
            waiting = chunk.waiting
            held = {block: copies * count for block, copies in waiting.held.items() if copies * count}
            yield from block_entries(waiting.program, held, waiting.job.sizes)
        if front is not None:
            waiting = self.recorded[front].waiting
            yield from block_entries(waiting.program, waiting.back, waiting.job.sizes)

    @cached_property
    def profile(self) -> tuple[Sample, ...]:
        """Return the step as stretches, each with its highest point by category."""
        base = levels_of(ledger(self.kept_entries()))
        found: list[Sample] = []
        for number, forward, live in self._flights():
            chunk = self._pass(number, live)
            flying = plus(base, levels_of(ledger(self.flying(live, self._next_backward(number, forward, live)))))
            for sample in _samples(chunk, forward=forward):
                passing = levels_of(ledger(self.persistent.passing(sample.phase)))
                found.append(replace(sample, levels=plus(plus(flying, passing), sample.levels)))
        found += [
            Sample(moment.phase, moment.place, moment.turn, 1, levels_of(self.ledger(moment)))
            for moment in self.moments
            if moment.segment is None
        ]
        return tuple(found)

    @cached_property
    def reserved(self) -> int:
        """Return bytes that the caching allocator holds after some steps."""
        peak = self.peak
        if not isinstance(peak, StageMoment):
            peak = next(moment for moment in self.moments if isinstance(moment, StageMoment))
        chunk = self._pass(peak.chunk, peak.live)
        around = self.persistent.blocks_around_step()
        flying = [entry.each for entry in self.flying(peak.live, peak.front) for _ in range(entry.copies)]
        around = replace(around, resident=[*around.resident, *flying])
        return max(reserved(chunk.program, chunk.job.sizes, around, knobs=knobs_of(self.job)), self.peak.peak)

    @property
    def most_reserved(self) -> int:
        """Return the bytes reserved at most, whatever is left open."""
        return self.reserved

    @cached_property
    def least_reserved(self) -> int:
        """Return bytes that no order of allocations could avoid reserving."""
        return self.peak.peak


def _samples(chunk: Recorded, *, forward: bool) -> Iterator[Sample]:
    """Yield the stretches of one pass of a chunk."""
    names = list(CATEGORIES)
    program = chunk.program
    categories = [names.index(category_of(program, index)) for index in range(len(program.blocks))]
    samples = program.profile(chunk.job.sizes, categories, len(names))
    turn, number = chunk.turn, 0
    for span in program.spans:
        count = 1 if span.repeats is None or chunk.job.sizes[span.repeats] <= 1 else 2
        if (span.segments[0] < turn) == forward:
            yield from samples[number : number + count]
        number += count
