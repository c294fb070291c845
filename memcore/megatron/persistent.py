"""What a Megatron rank keeps over steps: parameters, gradient buffers, optimizer states, workspaces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import lcm

from memcore.allocator import Surroundings
from memcore.dtypes import ITEMSIZE
from memcore.hardware import matmul_workspaces
from memcore.layers import IMPLEMENTATIONS
from memcore.ledger import Entry
from memcore.megatron.job import MegatronJob
from memcore.model.megatron.parts import PATH
from memcore.model.weights import Weight
from memcore.rules import RULES
from memcore.symbols import Quotient, Shape, Total, product, split_over
from memcore.timeline import aligned
from memcore.units import MiB

_ALWAYS = "the whole job"
_FROM_FIRST_STEP = "from the first optimizer step on"
_FROM_FIRST_USE = "from the first use on"
_DEFERRED = "from a micro-batch's backward pass until the pipeline is empty"
_PASSING = "while layers run"
_OPTIMIZING = "during the optimizer's step"
_UNTIL_NEXT = "from the optimizer's step until the next step begins"
_MOMENTS = ("moment_1", "moment_2")
_START = 64
"""Elements that the beginning of a parameter is aligned to in a flat buffer."""
_END = 128
"""Elements that the end of a bucket is aligned to, beside the ranks that share it."""
_AHEAD, _QUEUED = 500_000_000, 1_000_000_000
"""Elements that Megatron-FSDP gathers ahead, and whose gradients it lets wait (`suggested_communication_unit_size`)."""
_STREAMS = 4
"""Streams of grouped products, each with a workspace."""

_BUFFER_STREAMS = 3
"""Streams of user buffers, each with a workspace (`_NUM_MAX_UB_STREAMS`)."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A parameter of this rank."""

    weight: Weight
    path: str
    count: int
    expert: bool
    """It is in the buffers of experts."""


@dataclass(frozen=True)
class MegatronPersistent:
    """What one rank keeps; all numbers are bytes."""

    job: MegatronJob

    @cached_property
    def stored(self) -> tuple[Stored, ...]:
        """The parameters of all chunks."""
        apart = self.job.ranks.experts_apart
        found: dict[tuple[Weight, str], int] = {}
        for chunk in self.job.chunks:
            for weight, path, count in chunk.share.tensors:
                found[weight, path] = found.get((weight, path), 0) + count
        return tuple(
            Stored(weight, path, count, apart and weight.kind == "routed-expert")
            for (weight, path), count in found.items()
        )

    @cached_property
    def parameters(self) -> int:
        """Parameters as the layers see them."""
        return _sum(self._parameters())

    @cached_property
    def buffers(self) -> int:
        """Gradient buffers and master weights, which are there from the start."""
        return _sum(self._held())

    @cached_property
    def states(self) -> int:
        """Adam's moments, from the first step on."""
        return _sum(self.optimizer_states())

    @cached_property
    def workspaces(self) -> int:
        """What PyTorch's matrix products take."""
        return _sum(self._matmul_workspaces())

    @property
    def paged(self) -> int:
        """No optimizer state moves."""
        return 0

    @cached_property
    def before_step(self) -> int:
        """What is there before every step but the first."""
        own = _sum(self._own_workspaces()) + _sum(self.receive_buffers())
        return self.parameters + self.buffers + self.states + self.workspaces + own

    @property
    def clipping(self) -> int:
        """Norms of gradients need next to nothing."""
        return 0

    @cached_property
    def stepping(self) -> int:
        """What the optimizer's step adds."""
        return _sum(self.step_entries())

    @cached_property
    def copies(self) -> int:
        """fp32 gradients that stay until the next step begins."""
        return _sum(self._copies())

    @cached_property
    def initialization(self) -> int:
        """The peak while buffers are built: the model's own parameters are there too."""
        gradients = _sum(entry for entry in self._held() if entry.rule == "main_gradient")
        return 2 * self.parameters + gradients

    def resident(self) -> Iterator[Entry]:
        """What is there before the first step."""
        yield from self._parameters()
        yield from self._held()

    def _parameters(self) -> Iterator[Entry]:
        states = self.job.states
        for each in self.stored:
            shape = self._shared(each) if states.shares_parameters else each.weight.shape
            yield self._entry("parameter", each.path, shape, states.parameter, each.count, _ALWAYS)
            if self._cached_in_fp8(each.weight):
                copies = 2 * each.count
                yield self._entry("fp8_weight", each.path, each.weight.shape, "fp8", copies, _FROM_FIRST_USE)

    def _cached_in_fp8(self, weight: Weight) -> bool:
        plan = self.job.recipe.megatron
        gathered = bool(self.job.config.get("engine.fp8_param_gather"))
        if plan is None or plan.fp8 is None or gathered:
            return False
        return weight.split is not None and len(weight.axes) > 1 and weight.kind not in ("embedding", "head")

    def _held(self) -> Iterator[Entry]:
        states = self.job.states
        for expert in (False, True):
            shapes = tuple((each.count, *each.weight.shape) for each in self.stored if each.expert == expert)
            if shapes:
                name = "expert gradients" if expert else "gradients"
                whole: Shape = (Total("N", shapes),)
                if states.shares_gradients:
                    whole = (Quotient(whole, "ze" if expert else "z"),)
                yield self._entry("main_gradient", name, whole, states.gradient, 1, _ALWAYS)
                yield from self._padding(expert)
        if states.master is not None:
            yield from self._sharded("master_weight", states.master, _ALWAYS, stays=states.master_stays)
        code = IMPLEMENTATIONS.get(self.job.recipe.implementation)
        for buffer in code.buffers(self.job.recipe.network) if code is not None else ():
            yield self._entry(buffer.rule, buffer.module, buffer.shape, buffer.dtype, 1, _ALWAYS)
        for chunk in self.job.chunks:
            for layer, count in chunk.share.layers:
                for feed in layer.feeds:
                    if getattr(feed, "correction", None) is not None:
                        yield self._entry("expert_counts", "mlp.router", ("E",), "fp32", 2 * count, _ALWAYS)

    def _padding(self, expert: bool) -> Iterator[Entry]:
        """Flat buffers of the distributed optimizer align parameters and ends."""
        if not self.job.states.sharded or self.job.engine.name == "megatron-fsdp":
            return
        rows = [each for each in self.stored if each.expert == expert]
        exact = [product(each.weight.shape, self.job.sizes) for each in rows]
        starts = [-size % _START * each.count for each, size in zip(rows, exact, strict=True)]
        total = sum(size * each.count for each, size in zip(rows, exact, strict=True)) + sum(starts)
        padding = sum(starts) + -total % lcm(self.job.sizes["ze" if expert else "z"], _END)
        for dtype in (self.job.states.parameter, self.job.states.gradient) if padding else ():
            yield self._entry("bucket_padding", "", (padding,), dtype, 1, _ALWAYS)

    def optimizer_states(self) -> Iterator[Entry]:
        """What the first optimizer step adds."""
        for rule, dtype in zip(_MOMENTS, self.job.states.moments, strict=False):
            yield from self._sharded(rule, dtype, _FROM_FIRST_STEP)

    def _shared(self, each: Stored) -> Shape:
        """This rank's part of a parameter."""
        return (Quotient(each.weight.shape, "ze" if each.expert else "z"),)

    def passing_bytes(self, phase: str) -> int:
        """The same as bytes."""
        return _sum(self.passing(phase))

    def passing(self, phase: str) -> Sequence[Entry]:
        """What is there while micro-batches run, beside their activations: nothing that stays over the step."""
        if phase not in self._passing:
            self._passing[phase] = (*self.deferred_entries(), *self._gathered(phase))
        return self._passing[phase]

    @cached_property
    def _passing(self) -> dict[str, Sequence[Entry]]:
        return {}

    def _gathered(self, phase: str) -> Iterator[Entry]:
        """Layers that Megatron-FSDP has gathered ahead, and gradients that it has yet to scatter.

        The backward pass of the head, which belongs to the loss, already gathers the last layers.
        """
        if not self.job.states.shares_gradients:
            return
        layers = [
            sum(product(weight.shape, self.job.sizes) for weight in layer.weights())
            for chunk in self.job.chunks
            for layer, count in chunk.share.layers
            for _ in range(count)
        ]
        others = [each for each in self.stored if not each.path.startswith(f"{PATH}.")]
        if phase == "loss":
            tied = self.job.chunks[-1].share.network.ends.tied
            others = [each for each in others if each.weight.kind == ("embedding" if tied else "head")]
        beside = sum(product(each.weight.shape, self.job.sizes) * each.count for each in others)
        states, largest = self.job.states, max(layers, default=0)
        if states.shares_parameters and layers:
            ahead = min(sum(layers), largest + _AHEAD)
            yield self._entry("fsdp_gathered", "decoder.layers", (ahead,), states.parameter, 1, _PASSING)
        if phase != "forward":
            waiting = beside + (sum(layers) if phase == "backward" else 0)
            queued = min(waiting, max(_QUEUED, 2 * largest))
            yield self._entry("fsdp_gradients", "decoder.layers", (queued,), states.gradient, 1, _PASSING)

    def _stays_gathered(self) -> Iterator[Entry]:
        """What is no layer is gathered once."""
        for each in self.stored if self.job.states.shares_parameters else ():
            if not each.path.startswith(f"{PATH}."):
                dtype = self.job.states.parameter
                yield self._entry("fsdp_gathered", each.path, each.weight.shape, dtype, each.count, _FROM_FIRST_USE)

    def _sharded(self, rule: str, dtype: str, lifetime: str, *, stays: bool = False) -> Iterator[Entry]:
        """Something for each parameter whose optimizer is on this rank's GPU."""
        states = self.job.states
        kept = Fraction(1) if stays else 1 - Fraction(states.offloaded).limit_denominator(1000)
        for each in self.stored if kept else ():
            shape = each.weight.shape
            ranks = self.job.sizes["ze" if each.expert else "z"] if states.sharded else 1
            if ranks * kept.denominator > 1:
                over = "ze" if each.expert else "z"
                divisor: str | int = over if kept == 1 else ranks * kept.denominator
                whole: Shape = shape if kept == 1 else (kept.numerator, *shape)
                shape = (Quotient(whole, divisor),)
            yield self._entry(rule, each.path, shape, dtype, each.count, lifetime)

    def workspace_entries(self) -> Iterator[Entry]:
        """What libraries and modules keep once they have run."""
        yield from self._matmul_workspaces()
        yield from self._own_workspaces()

    def _matmul_workspaces(self) -> Iterator[Entry]:
        """PyTorch's, for the forward and for the backward thread."""
        (rule, size), *_ = matmul_workspaces(self.job.accelerator)
        if self.job.config.get("engine.deterministic_mode"):
            size = 32 * MiB
        yield self._entry(rule, "", (size // ITEMSIZE["fp32"],), "fp32", 2, _FROM_FIRST_USE)

    def _own_workspaces(self) -> Iterator[Entry]:
        plan = self.job.recipe.megatron
        if self.job.recipe.implementation == "transformer-engine":
            major = self.job.accelerator.major if self.job.accelerator else 9
            size = 32 * MiB if major is None or major >= 9 else 4 * MiB
            grouped = plan is not None and plan.experts is not None and plan.experts.grouped
            experts = any(each.weight.kind == "routed-expert" for each in self.stored)
            streams = 1 + (_STREAMS if grouped and experts else 0)
            streams += _BUFFER_STREAMS if self.job.config.engine.tp_comm_overlap else 0
            yield self._entry("te_workspace", "", (size,), "uint8", streams, _FROM_FIRST_USE)
            if plan is not None and plan.fuses_weight_gradients:
                yield from self._dummies()
        yield from self._memory_buffer()
        yield from self._stays_gathered()

    def _dummies(self) -> Iterator[Entry]:
        """One for each shape of a matrix that TransformerEngine multiplies."""
        seen: dict[tuple[int, ...], Entry] = {}
        for each in self.stored:
            weight = each.weight
            axes = weight.axes[1:] if weight.kind == "routed-expert" else weight.axes
            if weight.split is None or len(axes) < 2 or weight.kind in ("embedding", "head", "other"):
                continue
            extents = tuple(product(axis, self.job.sizes) for axis in axes)
            shape = tuple(axis for axes_ in axes for axis in axes_)
            dtype = self.job.states.parameter
            seen.setdefault(extents, self._entry("dummy_gradient", each.path, shape, dtype, 1, _FROM_FIRST_USE))
        yield from seen.values()

    def _memory_buffer(self) -> Iterator[Entry]:
        """Megatron's own buffer, as large as its largest use."""
        plan, recipe, sizes = self.job.recipe.megatron, self.job.recipe, self.job.sizes
        uses: list[Entry] = []
        local = recipe.implementation == "megatron-local"
        dtype = recipe.precision.compute
        if plan is not None and plan.sequence and (local or self.job.chunks[-1].share.network.ends.predicts):
            uses.append(self._entry("gather_buffer", "", ("s", "b", "h"), dtype, 1, _FROM_FIRST_USE))
        heads = [
            mixer.heads.query for layer in recipe.network.kinds for mixer in layer.mixers if hasattr(mixer, "heads")
        ]
        if local and recipe.attention == "math" and heads:
            uses.append(self._entry("score_buffer", "", ("b", heads[0], "s", "s"), dtype, 1, _FROM_FIRST_USE))
        if uses:
            yield max(uses, key=lambda entry: product(entry.shape, sizes))

    def receive_buffers(self) -> Iterator[Entry]:
        """Each chunk's model refers to its last input, whose gradient stays with it."""
        plan = self.job.recipe.megatron
        tokens = split_over("s") if plan is not None and plan.sequence else "s"
        count = sum(not chunk.share.network.ends.reads_tokens for chunk in self.job.chunks)
        if count:
            dtype = self.job.recipe.precision.compute
            yield self._entry("last_input", "", (tokens, "b", "h"), dtype, 2 * count, _FROM_FIRST_USE)

    def deferred_entries(self) -> Iterator[Entry]:
        """What earlier micro-batches have left for the head's weight gradient, when the last one runs."""
        plan = self.job.recipe.megatron
        if plan is None or not plan.defers_head_gradient or not self.job.chunks[-1].share.network.ends.predicts:
            return
        limit = self.job.config.engine.wgrad_deferral_limit or self.job.micro_batches
        count, dtype = min(limit, self.job.micro_batches - 1), self.job.recipe.precision.compute
        tokens = split_over("s") if plan.sequence else "s"
        for shape in ((tokens, "b", "h"), ("s", "b", split_over("V"))) if count else ():
            yield self._entry("deferred_gradient", "output_layer", shape, dtype, count, _DEFERRED)

    def clipping_entries(self) -> Iterator[Entry]:
        """Nothing to speak of."""
        return iter(())

    def step_entries(self) -> Iterator[Entry]:
        """Temporaries of the optimizer's step."""
        yield from self._copies()
        for entry in self._sharded("state_scratch", "fp32", _OPTIMIZING) if self.job.states.scratch else ():
            yield replace(entry, copies=entry.copies * self.job.states.scratch)

    def _copies(self) -> Iterator[Entry]:
        if self.job.states.copied:
            yield from self._sharded("gradient_copy", "fp32", _UNTIL_NEXT)

    def surroundings(self) -> Surroundings:
        """The same as blocks, for the allocator."""
        around = [*self.resident(), *self._own_workspaces(), *self.receive_buffers()]
        return Surroundings(
            resident=[entry.each for entry in around for _ in range(entry.copies)],
            states=[entry.each for entry in self.optimizer_states() for _ in range(entry.copies)],
            temporaries=[entry.each for entry in self.step_entries() for _ in range(entry.copies)],
        )

    def _entry(self, rule: str, module: str, shape: Shape, dtype: str, copies: int, lifetime: str) -> Entry:
        return Entry(
            rule=rule,
            category=RULES[rule].category or "temporaries",
            module=module,
            shape=shape,
            dtype=dtype,
            copies=copies,
            each=_size(shape, dtype, self.job.sizes),
            lifetime=lifetime,
        )


def _size(shape: Shape, dtype: str, sizes: Mapping[str, int]) -> int:
    return aligned(product(shape, sizes) * ITEMSIZE[dtype])


def _sum(entries: Iterable[Entry]) -> int:
    return sum(entry.bytes for entry in entries)
