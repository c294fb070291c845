"""What stands around a step: parameters, optimizer states, buffers and workspaces, and what the step's end needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from memcore.dtypes import ITEMSIZE
from memcore.hardware import matmul_workspaces
from memcore.memory.allocator import BlocksAroundStep, Wrapped, broadcast
from memcore.memory.ledger import Entry, entry_of
from memcore.memory.stepping import sharded_newton_schulz, sharded_projections, shared_of, states_of, temporaries
from memcore.networks.adapters import frozen_beside, frozen_rows, learns, shared_matrices
from memcore.networks.network import Layer, Model, Network
from memcore.networks.quantized import quantization_states
from memcore.networks.weights import Weight
from memcore.optimizers.states import Implementation, State
from memcore.records import dataclass
from memcore.symbols import Shape, measure, product, split_over
from memcore.trace.code import code_of
from memcore.trace.job import Job
from memcore.trace.program import aligned
from memcore.trace.recipe import Buffer, Recipe
from memcore.trace.recurrence import constants

_ALWAYS = "during the whole job"
_FROM_FIRST_STEP = "allocated in the first optimizer step and kept"
_FROM_FIRST_PRODUCT = "allocated at a thread's first matrix product and kept"
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
    learning: int
    """Of how many there are gradients."""
    axes: tuple[Shape, ...]
    """What the optimizer updates, axis by axis."""
    dtype: str
    updated: str
    """The dtype of what the optimizer updates."""


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
    received: tuple[Shape, ...]
    """Buffers that a pipeline's stage has for each micro-batch."""

    @property
    def before_step(self) -> int:
        """Return what is there before every step but the first."""
        received = sum(entry.bytes for entry in self.receive_buffers())
        return self.parameters + self.buffers + self.states + self.workspaces + received

    @property
    def clipping(self) -> int:
        """Return what clipping gradients needs for a moment."""
        return sum(entry.bytes for entry in self.clipping_entries())

    @property
    def stepping(self) -> int:
        """Return what the optimizer's step needs for a moment."""
        return sum(entry.bytes for entry in self.step_entries())

    def resident(self) -> Iterator[Entry]:
        """Yield what is there before the first step."""
        if self.job.optimizer.from_start and not self.job.optimizer.fetched:
            yield from self._state_entries(_ALWAYS)
        for each in (each for each in self.stored if each.size):
            yield self._entry("parameter", each.path, each.shape, each.dtype, each.count, _ALWAYS)
        for buffer in self.tensors:
            copies = _copies(buffer, self.job)
            yield self._entry(buffer.rule, buffer.module, buffer.shape, buffer.dtype, copies, _ALWAYS)

    def optimizer_states(self) -> Iterator[Entry]:
        """Yield what the first optimizer step adds."""
        if not self.job.optimizer.fetched:
            yield from self._late_entries(_FROM_FIRST_STEP)

    def _late_entries(self, lifetime: str) -> Iterator[Entry]:
        """Yield the optimizer's states that are not there from the start, and counts of steps."""
        if not self.job.optimizer.from_start or self.job.optimizer.fetched:
            yield from self._state_entries(lifetime)
        if self.job.implementation.step_on_device and self.stored:
            yield self._entry("step_count", "optimizer", (), "fp32", self._tensors, lifetime)

    def _state_entries(self, lifetime: str) -> Iterator[Entry]:
        """Yield the optimizer's states, and what they share."""
        for each in self.stored:
            found = states_of(self.job, each) if each.learning else ()
            for rule, shape, dtype in found:
                yield self._entry(rule, each.path, shape, dtype or each.updated, each.learning, lifetime)
        for one in shared_of(self.job.optimizer, self.stored, self.job.sizes):
            yield self._entry(one.rule, one.path, one.shape, one.dtype, one.copies, lifetime)

    def workspace_entries(self) -> Iterator[Entry]:
        """Yield what libraries take from PyTorch's pool once they run: for the forward and for the backward thread."""
        if self.workspaces:
            for rule, size in matmul_workspaces(self.job.accelerator):
                yield self._entry(rule, "", (size // ITEMSIZE["fp32"],), "fp32", 2, _FROM_FIRST_PRODUCT)

    def receive_buffers(self) -> Iterator[Entry]:
        """Yield what a pipeline's stage gets from its neighbours lies in buffers of its own for each micro-batch."""
        for shape in self.received:
            dtype = self.job.recipe.precision.compute
            yield self._entry(
                "receive_buffer", "", shape, dtype, self.job.micro_batches, "allocated in the first step and kept"
            )

    @property
    def hosted(self) -> int:
        """Return bytes of optimizer states in CUDA's managed memory, which moves, or on the host."""
        return sum(
            each.learning * product(shape, self.job.sizes) * ITEMSIZE[dtype or each.updated]
            for each in self.stored
            for shape, dtype in self.job.optimizer.hosted_of(
                each.axes, self.job.sizes, each.weight.kind, each.weight.name
            )
        )

    @property
    def paged(self) -> int:
        """Return those of them that move to the GPU when they are used."""
        return 0 if self.job.optimizer.on_host else self.hosted

    @property
    def _counted(self) -> list[tuple[Weight, int]]:
        return [(weight, count) for weight, _, count in self.job.share.tensors]

    def clipping_entries(self) -> Iterator[Entry]:
        """Yield a norm for each gradient, and all of them in one tensor."""
        if self.job.clips and self.stored:
            yield self._entry("gradient_norm", "optimizer", (), "fp32", self._tensors, _CLIPPING)
            yield self._entry("gradient_norm", "optimizer", (self._tensors,), "fp32", 1, _CLIPPING)

    def step_entries(self) -> Iterator[Entry]:
        """Yield what the optimizer's step needs when there is most: temporaries, and states that come for it."""
        if self.job.optimizer.fetched:
            yield from self._late_entries(_OPTIMIZING)
        yield from self._temporaries()

    def _temporaries(self) -> Iterator[Entry]:
        """Yield temporaries of the step, when there is most."""
        how = self.job.implementation
        alone = self._one_by_one(Implementation(times=how.alone)) if how.alone else ()
        yield from max(list(alone), list(self._at_once(how)), key=lambda found: sum(each.bytes for each in found))

    def _at_once(self, how: Implementation) -> Iterator[Entry]:
        """Yield those of all parameters, and of one that is updated meanwhile."""
        for each in self.stored if how.temporaries else ():
            yield from self._like(each, "optimizer_temporary", _OPTIMIZING, how.temporaries)
        ordered = list(self._in_order(most=2, learning=True)) if how.own else []
        if ordered:
            pairs = zip([None, *ordered[:-1]], ordered, strict=True)
            before, at_hand = max(pairs, key=partial(_one_by_one, how))
            for one, copies in ((at_hand, how.own), (before, how.before)):
                if one is not None and copies:
                    yield self._entry("optimizer_temporary", one.path, one.shape, one.dtype, copies, _OPTIMIZING)
        elif how.times or how.matrix or how.upcasts:
            yield from self._one_by_one(how)
        elif not how.temporaries:
            yield from self._redistributed()
        for buffer in self._stepping():
            copies = _copies(buffer, self.job)
            yield self._entry(buffer.rule, buffer.module, buffer.shape, buffer.dtype, copies, _OPTIMIZING)

    def _one_by_one(self, how: Implementation) -> Iterator[Entry]:
        """Yield what one parameter needs while it is updated on its own, for the one that needs most."""
        row, sizes = self.job.optimizer, self.job.sizes
        if how.times:
            needed = sharded_projections if row.rank and self.job.engine.shards else temporaries
            found = needed(row, how, self._in_order(most=2, learning=True), sizes)
        elif how.matrix and self.job.engine.shards:
            found = sharded_newton_schulz(row, [each for each in self.stored if each.learning], sizes)
        else:
            yield from self._one_matrix(how)
            return
        for each in found:
            yield self._entry(each.rule, each.path, each.shape, each.dtype, each.copies, _OPTIMIZING)

    def _one_matrix(self, how: Implementation) -> Iterator[Entry]:
        """Yield what the largest parameter needs while it is updated on its own."""
        row, learning = self.job.optimizer, [each for each in self.stored if each.learning]
        if how.upcasts:
            learning = [each for each in learning if each.dtype != "fp32"]
        else:
            learning = [each for each in learning if row.is_matrix(len(each.axes), each.weight.kind)]
        if not learning:
            return
        one = max(learning, key=lambda each: each.size)
        for state in how.matrix or (State("optimizer_temporary", dtype="fp32"),):
            shape, dtype = row.shape_of(state, one.axes), state.dtype or one.dtype
            yield self._entry(state.rule, one.path, shape, dtype, 1, _OPTIMIZING)

    def _stepping(self) -> Sequence[Buffer]:
        """Return what the engine needs when the optimizer's step ends."""
        return self.job.engine.stepping(self._counted, self.job.recipe)

    def _redistributed(self) -> Iterator[Entry]:
        """Yield gradients as tensor parallelism shards their parameters, which FSDP has made so before.

        Kernels that update all parameters at once are given them: of the embedding a part, of norms sums over ranks.
        Momentum takes the sums first, and the part of its own buffer when they are gone.
        """
        tensor = self.job.recipe.tensor
        if tensor is not None and not self.job.engine.distributed:
            kinds = ("embedding", "norm") if tensor.sequence else ("embedding",)
            once = [(kind,) for kind in kinds] if any(each.cloned for each in self.job.optimizer.states) else [kinds]
            found = [[each for each in self.stored if each.weight.kind in among] for among in once]
            for each in max(found, key=lambda group: sum(each.learning * each.size for each in group)):
                yield from self._like(each, "optimizer_temporary", _OPTIMIZING)

    def blocks_around_step(self) -> BlocksAroundStep:
        """Return sizes of the persistent tensors as the allocator's replay needs them."""
        each = [stored.size for stored in self._in_order() if stored.size]
        learning = list(self._in_order(learning=True))
        states = {id(stored): _state_sizes(self.job, stored) for stored in self.stored if stored.learning}
        made, fetched = [size for one in learning for size in states[id(one)]], self.job.optimizer.fetched
        buffers = self._blocks(self.tensors)
        received = [entry.each for entry in self.receive_buffers() for _ in range(entry.copies)]
        wrapped = list(self._wrapped()) if self.job.engine.flat and not self.job.recipe.fake else []
        return BlocksAroundStep(
            resident=[*(() if wrapped else each), *buffers, *received],
            wrapped=wrapped,
            states=[] if fetched else made,
            temporaries=[*(made if fetched else ()), *self._passing(learning)],
            keeps_gradients=self.job.recipe.keeps_gradients,
        )

    def _wrapped(self) -> Iterator[Wrapped]:
        """Yield the units of flat parameters in the order in which they are made: layers, then all that is around them.

        Source: torch/distributed/fsdp/_init_utils.py (`_init_param_handle_from_module`): parameters are moved to the
        GPU, broadcast (`_sync_module_params_and_buffers`), concatenated (`flatten_tensors`), and a part is cloned
        (`shard`); only then are they freed.
        """
        sizes = {(each.path, each.weight): each.size for each in self.stored}
        around: list[int] = []
        for tensors, times in _made(self.job.share, None):
            parts = [sizes[tensor] for tensor in tensors if tensor in sizes]
            if times > 1:
                yield self._unit(parts, times)
            else:
                around += parts
        yield self._unit(around, 1)

    def _unit(self, parts: Sequence[int], times: int) -> Wrapped:
        whole = [size * self.job.sizes["z"] for size in parts]
        sent = broadcast(whole) if self.job.recipe.sharding.broadcasts else []
        return Wrapped(parameters=whole, sent=sent, part=sum(parts), count=times)

    def _passing(self, learning: Sequence[Stored]) -> Iterator[int]:
        """Yield the blocks that the optimizer's step needs for a moment."""
        count = self.job.implementation.temporaries
        if count:
            yield from [stored.size for stored in learning] * count
            yield from self._blocks(self._stepping())
        else:
            for entry in self._temporaries():
                yield from [entry.each] * entry.copies

    def _blocks(self, buffers: Sequence[Buffer]) -> Iterator[int]:
        for buffer in buffers:
            yield from [_size(buffer.shape, buffer.dtype, self.job)] * _copies(buffer, self.job)

    def _in_order(self, most: int | None = None, *, learning: bool = False) -> Iterator[Stored]:
        """Yield every parameter in the order in which modules are made, of layers `most` of a kind.

        `learning`: only those that gradients reach.
        """
        places: dict[tuple[str, Weight], int] = {}
        found, left = list(self.stored), [0] * len(self.stored)
        for each in self.stored:
            # Kinds of layers may share a tensor's name and shape.
            place = places.setdefault((each.path, each.weight), len(places))
            if each.learning or not learning:
                found[place] = each
            left[place] += each.learning if learning else each.count
        for tensors, times in _made(self.job.share, most) if found else ():
            once = [places[tensor] for tensor in tensors if tensor in places]
            for place in once * times:
                if left[place]:
                    left[place] -= 1
                    yield found[place]

    @property
    def _tensors(self) -> int:
        return sum(each.learning for each in self.stored)

    def _like(self, each: Stored, rule: str, lifetime: str, times: int = 1) -> Iterator[Entry]:
        """Something for each parameter that has a gradient."""
        if each.learning:
            shape = tuple(symbol for axis in each.axes for symbol in axis)
            yield self._entry(rule, each.path, shape, each.updated, each.learning * times, lifetime)

    def _entry(self, rule: str, module: str, shape: Shape, dtype: str, copies: int, lifetime: str) -> Entry:
        return entry_of(rule, module, shape, dtype, copies, _size(shape, dtype, self.job), lifetime)


_Made = tuple[list[tuple[str, Weight]], int]
"""Parameters with their full names, and how often they are made in turn."""


def _made(model: Model, most: int | None) -> Iterator[_Made]:
    """Yield every parameter in the order in which modules are made."""
    network = model.network
    for tower, repeats in zip(network.towers, model.tower_repeats, strict=True):
        projector = [weight for weight in tower.outer_weights if weight.kind == "projector"]
        yield [(weight.name, weight) for weight in tower.outer_weights if weight not in projector], 1
        yield from _made_layers(tower.path, tower.runs, repeats, most)
        yield [(weight.name, weight) for weight in projector], 1
    embedding_and_head = network.embedding_and_head.weights()
    first = [weight for weight in embedding_and_head if weight.kind in ("embedding", "position")]
    yield [(weight.name, weight) for weight in first], 1
    yield from _made_layers(network.path, network.runs, model.repeats, most)
    yield [(weight.name, weight) for weight in embedding_and_head if weight not in first], 1


def _made_layers(
    path: str, runs: Sequence[Sequence[Layer]], repeats: Sequence[int], most: int | None
) -> Iterator[_Made]:
    for pattern, times in zip(runs, repeats, strict=True):
        once = [(f"{path}.*.{weight.name}", weight) for layer in pattern for weight in layer.weights()]
        yield once, times if most is None else min(times, most)


def bytes_of(buffers: Sequence[Buffer], job: Job) -> int:
    """Return bytes of all buffers of a job."""
    return sum(_size(buffer.shape, buffer.dtype, job) * _copies(buffer, job) for buffer in buffers)


def _copies(buffer: Buffer, job: Job) -> int:
    """Return how often a buffer is there."""
    times = measure(buffer.times, job.sizes)
    return times if buffer.layer is None else times * job.share.counts[buffer.layer]


def _one_by_one(how: Implementation, pair: tuple[Stored | None, Stored]) -> int:
    """Return bytes of temporaries while a parameter is updated, given the one before it."""
    before, at_hand = pair
    return (how.before * before.size if before else 0) + how.own * at_hand.size


def _state_sizes(job: Job, stored: Stored) -> list[int]:
    """Return bytes of each state of a parameter."""
    return [_size(shape, dtype or stored.updated, job) for _, shape, dtype in states_of(job, stored)]


def _buffers(network: Network, recipe: Recipe) -> Iterator[Buffer]:
    """Yield the buffers of a network's code, with its release's rotary frequencies and causal masks."""
    for each in code_of(recipe.implementation).buffers(network):
        if recipe.frequencies_once and each.module.endswith("original_inv_freq"):
            continue  # another name of one that is counted
        yield each
        if recipe.frequencies_each and each.layer is None and each.module.endswith(".rotary_emb.inv_freq"):
            for layer in network.kinds:
                for mixer in layer.mixers:
                    yield replace(each, module=f"{network.path}.*.{mixer.module}.rotary_emb.inv_freq", layer=layer)
    for layer in network.kinds if recipe.masks_each else ():
        yield from _masks(layer, network.path, recipe.masks_each)


def _masks(layer: Layer, path: str, names: Sequence[str]) -> Iterator[Buffer]:
    """Yield the masks that the attention of a layer holds by these names."""
    for mixer in layer.mixers:
        for name in names:
            module, whole = f"{path}.*.{mixer.module}.{name}", name == "bias"
            shape, dtype = (("P", "P"), "bool") if whole else ((), "fp32")
            yield Buffer(rule="causal_buffer", module=module, shape=shape, dtype=dtype, layer=layer)


def persistent(job: Job) -> Persistent:
    """Return what one rank of a job keeps."""
    network, recipe = job.share.network, job.recipe
    weights = list(job.share.tensors)
    tensors = [
        *job.engine.buffers([(weight, count) for weight, _, count in weights], recipe),
        *_buffers(network, recipe),
        *constants(job.share, recipe.precision.parameter),
        *_beside_quantized(job.share),
        *_copied(job),
    ]
    idle = job.share.idle(images=recipe.pictures is not None)
    stored = () if recipe.sharding.offloaded else tuple(_stored(job, *each, idle[each[1]]) for each in weights)
    states = sum(each.learning * sum(_state_sizes(job, each)) for each in stored)
    shared = sum(each.size(job.sizes) for each in shared_of(job.optimizer, stored, job.sizes))
    steps = sum(each.learning for each in stored) if job.implementation.step_on_device else 0
    return Persistent(
        job=job,
        stored=stored,
        tensors=tuple(tensors),
        parameters=sum(each.count * each.size for each in stored),
        states=0 if job.optimizer.fetched else states + shared + aligned(ITEMSIZE["fp32"]) * steps,
        buffers=bytes_of(tensors, job),
        received=_received(job),
        workspaces=0 if recipe.fake else 2 * sum(aligned(size) for _, size in matmul_workspaces(job.accelerator)),
    )


def _copied(job: Job) -> Iterator[Buffer]:
    """The frozen copy of the model that a preference trainer compares with, which an engine shards like the model.

    DeepSpeed partitions it at stage 3 alone (trl, models/utils.py: `prepare_deepspeed`, `prepare_fsdp`). A reward model
    as large as the model is kept as its copy is.
    """
    objective = job.recipe.objective
    if objective is None:
        return
    if objective.distills:
        yield Buffer(rule="teacher_parameter", module="teacher", shape=("tw",), dtype="bool")
    rules = {"reference_parameter": objective.copies, "reward_parameter": objective.rewards}
    for rule in (name for name, there in rules.items() if there):
        for weight, path, count in job.share.tensors:
            shape = tuple(symbol for axis in job.engine.stored(weight) for symbol in axis)
            dtype = weight.dtype or job.recipe.precision.parameter
            yield Buffer(rule=rule, module=path, shape=shape, dtype=dtype, times=count)


def _beside_quantized(model: Model) -> Iterator[Buffer]:
    """Return what quantized weights keep with their numbers, and what adapters have in common."""
    network = model.network
    for layer in network.kinds:
        for weight in layer.weights():
            for each in quantization_states(weight):
                yield Buffer(
                    rule=each.rule,
                    module=f"{network.path}.*.{weight.name}",
                    shape=each.shape,
                    dtype=each.dtype,
                    layer=layer,
                )
        for name, shape, dtype in frozen_beside(layer, model.sizes) if network.adapted else ():
            path = f"{network.path}.*.{name}"
            yield Buffer(rule="frozen_adapter", module=path, shape=shape, dtype=dtype, layer=layer)
    for name, shape, dtype in frozen_rows(model) if network.adapted else ():
        yield Buffer(rule="frozen_adapter", module=name, shape=shape, dtype=dtype)
    for name, shape, dtype in shared_matrices(model) if network.adapted else ():
        yield Buffer(rule="shared_adapter", module=name, shape=shape, dtype=dtype)
    for weight in network.embedding_and_head.weights():
        for each in quantization_states(weight):
            yield Buffer(rule=each.rule, module=weight.name, shape=each.shape, dtype=each.dtype)


def _received(job: Job) -> tuple[Shape, ...]:
    """Hidden states from the stage before, and gradients from the stage after, for each stage of the rank."""
    plan = job.recipe.pipeline
    if plan is None or plan.runtime != "torch":
        return ()
    tensor = job.recipe.tensor
    tokens = split_over("s") if tensor is not None and tensor.sequence else "s"
    embedding_and_head = [recipe.network.embedding_and_head for recipe in (job.recipe, *plan.others)]
    return (("b", tokens, "h"),) * sum((not each.reads_tokens) + (not each.predicts) for each in embedding_and_head)


def _stored(job: Job, weight: Weight, path: str, count: int, idle: int) -> Stored:
    axes = job.engine.stored(weight)
    shape = tuple(symbol for axis in axes for symbol in axis)
    dtype = weight.dtype or job.recipe.precision.parameter
    learning = max(count - idle, 0) if learns(weight, job.share.network) else 0
    axes, updated = (axes, dtype) if job.engine.optimized is None else job.engine.optimized(weight, job.recipe)
    return Stored(weight, path, count, shape, _size(shape, dtype, job), learning, axes, dtype, updated)


def _size(shape: Shape, dtype: str, job: Job) -> int:
    return aligned(product(shape, job.sizes) * ITEMSIZE[dtype])
