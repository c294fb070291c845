"""A stage whose layers run in CUDA graphs: steps before, the capture, and steps that replay what was captured.

Every micro-batch in flight has graphs of its own, which share one pool. When they are captured, what they hold is
allocated like that of any step; once they are, PyTorch counts it as free, yet nothing else can have it. All passes run
once before TransformerEngine captures them: since July 2026 in their order, so that as much again is reserved until
then, before that one by one. Megatron-Core's own graphs and one of the whole iteration are captured with the
pools of earlier steps in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from operator import mul

from memcore.memory.ledger import Entry, Ledger, block_entries, ledger
from memcore.memory.rank import levels_of
from memcore.records import dataclass
from memcore.symbols import split_over
from memcore.tensors.tape import CAPTURED, Block
from memcore.trace.program import Moment, Sample
from memcore.trainers.megatron.graphs import Capture
from memcore.trainers.megatron.layers.graphs import captured, covers, module_of, routes
from memcore.trainers.megatron.persistent import MegatronPersistent
from memcore.trainers.megatron.rank import MegatronRank, Recorded, recorded
from memcore.trainers.megatron.resolve import ChunkJob
from memcore.trainers.megatron.step_plan import MegatronPlan
from memcore.trainers.megatron.workspaces import total

_FROM_CAPTURE = "since CUDA Graph capture"
CAPTURE = "capture of CUDA graphs"
"""The moment in which they are captured."""


@dataclass(frozen=True)
class Parts:
    """A chunk's passes, as far as they are in graphs and as far as they are not."""

    inside: Recorded
    outside: Recorded


def parts_of(job: ChunkJob, capture: Capture) -> Parts:
    """Return the parts of one kind of chunk."""
    plan = job.recipe.plan(MegatronPlan)
    if capture.impl == "full_iteration" or plan is None:
        whole = recorded(job)
        return Parts(whole, whole)
    plan = replace(plan, graphs=capture.graphs)
    both = recorded(replace(job, recipe=job.recipe.planned(plan)))
    parts = [both.program.part(keep) for keep in (_inside, _outside)]
    return Parts(*(replace(both, program=part, heights=part.heights(job.sizes)) for part in parts))


def _inside(block: Block) -> bool:
    return block.pool == CAPTURED


def _outside(block: Block) -> bool:
    return block.pool != CAPTURED


@dataclass(frozen=True)
class KeepsInputs(MegatronPersistent):
    """What a rank keeps, with the inputs of its graphs."""

    inputs: tuple[Entry, ...]

    def receive_buffers(self) -> Iterator[Entry]:
        """Yield the receive buffers of pipelines and of graphs."""
        yield from super().receive_buffers()
        yield from self.inputs


@dataclass(frozen=True)
class CapturedRank(MegatronRank):
    """One stage; as a `MegatronRank` it is what it would be without graphs, as it is in the steps before."""

    capture: Capture
    parts: dict[int, Parts]
    """Of chunks that are recorded, which stages share."""

    @cached_property
    def _parts(self) -> tuple[Parts, ...]:
        for chunk in self.kinds:
            if id(chunk) not in self.parts:
                self.parts[id(chunk)] = parts_of(chunk, self.capture)
        return tuple(self.parts[id(chunk)] for chunk in self.kinds)

    def _within(self, persistent: MegatronPersistent, *, inside: bool) -> MegatronRank:
        found = {
            id(chunk): each.inside if inside else each.outside
            for chunk, each in zip(self.kinds, self._parts, strict=True)
        }
        return MegatronRank(self.name, self.count, self.job, persistent, found)

    @cached_property
    def _pooled(self) -> MegatronRank:
        """Return what is in graphs."""
        return self._within(self.persistent, inside=True)

    @cached_property
    def _replaying(self) -> MegatronRank:
        """Steps in which graphs are replayed."""
        if self.capture.impl == "full_iteration":
            return self._plain
        return self._within(KeepsInputs(self.job, self._inputs), inside=False)

    @cached_property
    def _plain(self) -> MegatronRank:
        return MegatronRank(self.name, self.count, self.job, self.persistent, self.others)

    @property
    def steps(self) -> MegatronRank:
        """Return the steps that need most: those before the capture, if there are any."""
        return self._plain if self.capture.warm or self.capture.impl == "full_iteration" else self._replaying

    @cached_property
    def _inputs(self) -> tuple[Entry, ...]:
        """Static inputs and masks of all captured layers in flight, and gradients of outputs, which layers share."""
        graphs = self.capture.graphs
        if not graphs.own_inputs:
            return ()
        layers = [[each for each in kind.share.layers if captured(graphs, each[0])] for kind in self.kinds]
        most = self._in_flight([sum(count for _, count in own) for own in layers])
        attends = [sum(count for each, count in own if module_of(each)[0] == "attn") for own in layers]
        masked = self._in_flight(attends) if covers(graphs, "attn") else 0
        outputs = 3 if any(routes(graphs, layer) for own in layers for layer, _ in own) else 1
        plan = self.job.recipe.plan(MegatronPlan)
        tokens = split_over("s") if plan is not None and plan.sequence else "s"
        rows = [
            ("graph_input", (tokens, "b", "h"), "bf16", most),
            ("graph_mask", ("b", 1, "s", "cp", "s"), "bool", masked),
            ("graph_gradient", (tokens, "b", "h"), "bf16", outputs if most else 0),
        ]
        return tuple(
            self.persistent.entry(rule, "decoder.layers.*", shape, dtype, copies, _FROM_CAPTURE)
            for rule, shape, dtype, copies in rows
            if copies
        )

    def _in_flight(self, each: Sequence[int]) -> int:
        """Return the most in flight, weighted by how many each kind of chunk has."""
        found: list[int] = [sum(map(mul, live, each)) for chunk in self.schedule.backward for live in chunk]
        return max(found)

    @cached_property
    def pool(self) -> int:
        """Return bytes that the graphs of all micro-batches in flight need."""
        return max(self._pooled.height(flight) for flight in self.schedule.highest)

    @cached_property
    def _captured(self) -> Moment:
        base = self.persistent.before_step + total(self._inputs)
        base -= 0 if self.capture.warm else self.persistent.states
        top = base + self.pool
        return Moment("forward", CAPTURE, top, base, top, 1, None, (0, 0))

    @cached_property
    def moments(self) -> tuple[Moment, ...]:
        """Return a step, and before it the capture."""
        return (self._captured, *self.steps.moments)

    @cached_property
    def most(self) -> int:
        """Return bytes of the peak."""
        return max(self._captured.peak, self.steps.most)

    @cached_property
    def peak(self) -> Moment:
        """Return the moment that needs most."""
        return max((self.steps.peak, self._captured), key=lambda moment: moment.peak)

    @property
    def because(self) -> str:
        """Return what is in flight at the peak."""
        return "once all graphs in flight are captured" if self.peak.place == CAPTURE else self.steps.because

    @property
    def between_steps(self) -> int:
        """Return bytes after an optimizer step."""
        return self._plain.between_steps + total(self._inputs)

    @property
    def end_of_forward(self) -> int:
        """Return bytes when a micro-batch's forward pass ends, with the most in flight."""
        return self.steps.end_of_forward

    def ledger(self, moment: Moment, done: int | None = None) -> Ledger:
        """Everything in memory at a moment's peak, or after `done` of its repetitions (`Program.held`)."""
        if moment.place != CAPTURE:
            return self.steps.ledger(moment, done)
        keeps = self.persistent
        entries = [*keeps.resident(), *keeps.workspace_entries(), *keeps.receive_buffers(), *self._inputs]
        entries += keeps.optimizer_states() if self.capture.warm else ()
        number, forward, live = max(self.schedule.highest, key=self._pooled.height)
        chunk = self._pooled.recorded[self._pooled.kind_of(number)]
        passing = chunk.moments[: chunk.turn] if forward else chunk.moments[chunk.turn :]
        held = chunk.program.held(max(passing, key=lambda each: each.peak), chunk.job.sizes)
        entries += block_entries(chunk.program, held, chunk.job.sizes)
        entries += self._pooled.flying(live, None)
        return ledger(entries)

    @cached_property
    def profile(self) -> tuple[Sample, ...]:
        """Return the capture, and a step."""
        levels = levels_of(self.ledger(self._captured))
        return (Sample("forward", CAPTURE, (0, 0), 1, levels), *self.steps.profile)

    @cached_property
    def reserved(self) -> int:
        """Return bytes that the caching allocator holds."""
        if self.capture.impl != "transformer_engine":
            return self._plain.reserved + self.pool + total(self._inputs)
        before = self._plain.reserved if self.capture.warm else 0
        return max(before, self._captured.peak, self._replaying.reserved + self.pool)

    @property
    def most_reserved(self) -> int:
        """Return the bytes reserved at most, as when passes have run in order before the capture."""
        return max(self.reserved, self._captured.peak + self.pool)

    @cached_property
    def least_reserved(self) -> int:
        """Return bytes that no order of allocations could avoid reserving."""
        return max(self.peak.peak, self._replaying.peak.peak + self.pool)
