"""What stands around a step: parameters, optimizer states, buffers and workspaces, and what the step's end needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from memcore.allocator import Surroundings
from memcore.dtypes import ITEMSIZE
from memcore.hardware import matmul_workspaces
from memcore.job import Job
from memcore.layers import IMPLEMENTATIONS
from memcore.ledger import Entry
from memcore.model.parts import Weight
from memcore.rules import RULES
from memcore.step.recipe import Buffer
from memcore.symbols import Shape, product
from memcore.timeline import aligned

_ALWAYS = "the whole job"
_FROM_FIRST_STEP = "from the first optimizer step on"
_FROM_FIRST_PRODUCT = "from the first matrix product of a thread on"
_OPTIMIZING = "during the optimizer's step"
_CLIPPING = "while gradients are clipped"


@dataclass(frozen=True, slots=True)
class Stored:
    """A parameter tensor as a rank keeps it."""

    weight: Weight
    path: str
    count: int
    shape: Shape
    size: int
    """Bytes of one, rounded up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Persistent:
    """What one rank keeps over steps; all numbers are bytes."""

    job: Job
    stored: tuple[Stored, ...]
    """The parameters on the GPU; none where they live on the host."""
    tensors: tuple[Buffer, ...]
    parameters: int
    states: int
    buffers: int
    workspaces: int
    """Library workspaces, from the first step on."""

    @property
    def before_step(self) -> int:
        """What is there before every step but the first."""
        return self.parameters + self.buffers + self.states + self.workspaces

    @property
    def clipping(self) -> int:
        """What clipping gradients needs for a moment."""
        return sum(entry.bytes for entry in self.clipping_entries())

    @property
    def stepping(self) -> int:
        """What the optimizer's step needs for a moment."""
        return sum(entry.bytes for entry in self.step_entries())

    def resident(self) -> Iterator[Entry]:
        """What is there before the first step."""
        for each in self.stored:
            yield self._like(each, "parameter", _ALWAYS)
        for buffer in self.tensors:
            yield self._entry(buffer.rule, buffer.module, buffer.shape, buffer.dtype, 1, _ALWAYS)

    def optimizer_states(self) -> Iterator[Entry]:
        """What the first optimizer step adds."""
        for state in self.job.optimizer.states:
            for each in self.stored:
                yield self._like(each, state, _FROM_FIRST_STEP)
        if self.job.implementation.step_on_device and self.stored:
            yield self._entry("step_count", "optimizer", (), "fp32", self._tensors, _FROM_FIRST_STEP)

    def workspace_entries(self) -> Iterator[Entry]:
        """What libraries take from PyTorch's pool once they run: for the forward and for the backward thread."""
        if self.workspaces:
            for rule, size in matmul_workspaces(self.job.accelerator):
                yield self._entry(rule, "", (size // ITEMSIZE["fp32"],), "fp32", 2, _FROM_FIRST_PRODUCT)

    def clipping_entries(self) -> Iterator[Entry]:
        """A norm for each gradient, and all of them in one tensor."""
        if self.job.clips and self.stored:
            yield self._entry("gradient_norm", "optimizer", (), "fp32", self._tensors, _CLIPPING)
            yield self._entry("gradient_norm", "optimizer", (self._tensors,), "fp32", 1, _CLIPPING)

    def step_entries(self) -> Iterator[Entry]:
        """Temporaries of the optimizer's step."""
        how, dtype = self.job.implementation, self.job.recipe.precision.parameter
        for each in self.stored if how.temporaries else ():
            yield self._like(each, "optimizer_temporary", _OPTIMIZING, how.temporaries)
        if how.one_by_one and self.stored:
            ordered = list(self._in_order(most=2))
            before, at_hand = max(zip([None, *ordered[:-1]], ordered, strict=True), key=_one_by_one)
            for one, copies in ((at_hand, 2), (before, 1)):
                if one is not None:
                    yield self._entry("optimizer_temporary", one.path, one.shape, dtype, copies, _OPTIMIZING)

    def surroundings(self) -> Surroundings:
        """The same as blocks, for the allocator."""
        each = [stored.size for stored in self._in_order()]
        buffers = [_size(buffer.shape, buffer.dtype, self.job) for buffer in self.tensors]
        return Surroundings(
            resident=[*each, *buffers],
            states=[size for size in each for _ in self.job.optimizer.states],
            temporaries=each * self.job.implementation.temporaries,
            keeps_gradients=self.job.recipe.keeps_gradients,
        )

    def _in_order(self, most: int | None = None) -> Iterator[Stored]:
        """Every parameter in the order in which modules are made: embeddings, layers (`most` of a kind), norm, head."""
        model, found = self.job.model, {each.weight: each for each in self.stored}
        if not found:
            return
        ends = model.network.ends.weights()
        first = [weight for weight in ends if weight.kind in ("embedding", "position")]
        yield from (found[weight] for weight in first)
        for pattern, repeats in zip(model.network.runs, model.repeats, strict=True):
            once = [found[weight] for layer in pattern for weight in layer.weights()]
            yield from once * (repeats if most is None else min(repeats, most))
        yield from (found[weight] for weight in ends if weight not in first)

    @property
    def _tensors(self) -> int:
        return sum(each.count for each in self.stored)

    def _like(self, each: Stored, rule: str, lifetime: str, times: int = 1) -> Entry:
        dtype = self.job.recipe.precision.parameter
        return self._entry(rule, each.path, each.shape, dtype, each.count * times, lifetime)

    def _entry(self, rule: str, module: str, shape: Shape, dtype: str, copies: int, lifetime: str) -> Entry:
        return Entry(
            rule=rule,
            category=RULES[rule].category or "temporaries",
            module=module,
            shape=shape,
            dtype=dtype,
            copies=copies,
            each=_size(shape, dtype, self.job),
            lifetime=lifetime,
        )


def _one_by_one(pair: tuple[Stored | None, Stored]) -> int:
    """Bytes of temporaries while a parameter is updated, given the one before it."""
    before, at_hand = pair
    return (before.size if before else 0) + 2 * at_hand.size


def persistent(job: Job) -> Persistent:
    """What one rank of a job keeps."""
    network, recipe = job.model.network, job.recipe
    weights = list(job.model.tensors)
    tensors = [
        *job.engine.buffers([(weight, count) for weight, _, count in weights], recipe),
        *IMPLEMENTATIONS[recipe.implementation].buffers(network),
    ]
    stored = () if recipe.sharding.offloaded else tuple(_stored(job, *each) for each in weights)
    parameters = sum(each.count * each.size for each in stored)
    steps = sum(each.count for each in stored) if job.implementation.step_on_device else 0
    return Persistent(
        job=job,
        stored=stored,
        tensors=tuple(tensors),
        parameters=parameters,
        states=len(job.optimizer.states) * parameters + aligned(ITEMSIZE["fp32"]) * steps,
        buffers=sum(_size(buffer.shape, buffer.dtype, job) for buffer in tensors),
        workspaces=0 if recipe.fake else 2 * sum(aligned(size) for _, size in matmul_workspaces(job.accelerator)),
    )


def _stored(job: Job, weight: Weight, path: str, count: int) -> Stored:
    shape = job.engine.stored(weight)
    return Stored(weight, path, count, shape, _size(shape, job.recipe.precision.parameter, job))


def _size(shape: Shape, dtype: str, job: Job) -> int:
    return aligned(product(shape, job.sizes) * ITEMSIZE[dtype])
