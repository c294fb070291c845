"""FSDP2 (`fully_shard`): a unit's parameters are gathered before it runs, its gradients reduced and sharded after.

Follows torch 2.13, torch/distributed/fsdp/_fully_shard: `_fsdp_param_group.py` (FSDPParamGroup), `_fsdp_collectives.py`
(foreach_all_gather, foreach_reduce) and `_fsdp_state.py` (the hooks).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memcore.dtypes import FLOATING
from memcore.eager.basics import identity, to
from memcore.eager.tape import Storage, Tape
from memcore.eager.tensor import Parameter, Tensor
from memcore.engines.base import Engine, Runtime, precision
from memcore.model.adapters import learns
from memcore.model.weights import Weight
from memcore.step.recipe import Recipe
from memcore.symbols import Axis, Quotient, Shape, Total

GATHER, REDUCE = "all-gather", "reduce-scatter"
"""Streams that allocate from pools of their own."""


def shard(weight: Weight) -> Shape:
    """One rank's part of a parameter: rows of its first axis, rounded up."""
    axes = weight.stored_axes
    return (Quotient(axes[0], "z"), *(symbol for axis in axes[1:] for symbol in axis))


class Group:
    """The parameters that are communicated at once (FSDPParamGroup)."""

    def __init__(self, runtime: Fsdp, name: str, path: str, weights: Sequence[Weight], reshard: bool | int) -> None:
        self._runtime = runtime
        self._path = path
        """Its module; weights are named relative to it."""
        self._tape = runtime.tape
        self._precision = runtime.recipe.precision
        self._sharding = runtime.recipe.sharding
        self._weights = tuple(weights)
        self._shards = Total(f"S({name})", tuple(shard(weight) for weight in weights))
        self._reshard = reshard
        compute = self._precision.compute
        self.parameters = {
            w.name: Parameter(
                self._tape, w.name, w.outer, w.inner, compute, trainable=learns(w, runtime.recipe.network)
            )
            for w in weights
        }
        for w in weights:
            if w.quantized is not None:
                self.parameters[w.name].quantization = runtime.recipe.quantization
        self._gathered: Storage | None = None
        """The output of an all-gather that has not been copied out yet."""
        self._unsharded: list[Storage] = []
        self._partly_sharded: list[Storage] = []
        """What stays after the forward pass when it reshards to a smaller group of ranks."""
        self._accumulated: dict[str, Tensor] = {}
        """Unsharded gradients in the reduce dtype, while they accumulate without communication."""
        self._gradients: Storage | None = None
        """This rank's part of the gradients."""
        self._all_reduced: Storage | None = None
        """With hybrid sharding, the gradients in the reduce dtype, kept until the backward pass ends."""
        self.uses: list[int] = []
        """Its places in the order of the forward pass."""
        self.finished = False
        """Its post-backward hook has run in this backward pass."""

    def gather(self) -> None:
        """Start an all-gather, unless the parameters are there or on their way (`unshard`)."""
        if self._unsharded or self._gathered is not None or not self._sharding.gathers:
            return
        with self._tape.stream(GATHER):
            copies = self._copy_in()
            self._gathered = self._allocate(("z", self._shards), self._precision.compute, "all_gather_output")
            del copies

    def _copy_in(self) -> list[Storage]:
        """What the all-gather reads: the shards in the compute dtype, unless they can be read where they are."""
        stored, compute = self._precision.parameter, self._precision.compute
        if self._partly_sharded:
            return [self._allocate(self._part(("z", self._shards)), compute, "all_gather_input")]
        if not self._sharding.offloaded:
            return [] if stored == compute else [self._allocate((self._shards,), compute, "all_gather_input")]
        copies = []
        for weight in self._weights:
            copied = self._allocate(shard(weight), stored, "all_gather_input", weight.name)
            if stored != compute:
                copied = self._allocate(shard(weight), compute, "all_gather_input", weight.name)
            copies.append(copied)
        return copies

    def wait(self) -> Storage | None:
        """Copy the all-gather's output out into the parameters, and return it (`wait_for_unshard`)."""
        if self._unsharded or (self._gathered is None and self._sharding.gathers):
            return None
        compute = self._precision.compute
        self._unsharded = [
            self._allocate(("z", *shard(w)), compute, "unsharded_parameter", w.name) for w in self._weights
        ]
        self._partly_sharded = []
        output, self._gathered = self._gathered, None
        return output

    def reshard_after_forward(self) -> None:
        """Free the parameters, or keep them, or keep the part of a smaller group of ranks."""
        if self._reshard is not False and self._reshard is not True:
            for index, weight in enumerate(self._weights):
                shape = self._part(("z", *shard(weight)))
                self._partly_sharded.append(
                    self._allocate(shape, self._precision.compute, "resharded_parameter", weight.name)
                )
                self._unsharded[index] = self._partly_sharded[index]
        if self._reshard is not False:
            self._unsharded = []

    def _part(self, shape: Shape) -> Shape:
        return (Quotient(shape, int(self._reshard)),)

    def _redistribute(self) -> None:
        """Gradients as tensor parallelism shards their parameters (`unsharded_grad_data`).

        Each rank has its part of the sum for a replicated norm, and all rows for its part of the embedding.
        """
        for name, parameter in self.parameters.items():
            rule = "tensor_all_reduce" if parameter.partial else "clone"
            gradient = self._accumulated.get(name, parameter.grad)
            if gradient is None or (gradient.shape == parameter.shape and not parameter.partial):
                continue
            storage = self._allocate(parameter.shape, gradient.dtype, rule, name)
            gradient = Tensor(self._tape, storage, parameter.shape, gradient.dtype)
            if name in self._accumulated:
                self._accumulated[name] = gradient
            else:
                parameter.grad = gradient

    def post_backward(self) -> None:
        """Free the parameters; reduce the gradients, or keep them unsharded until the last micro-batch."""
        self.finished = True
        for name in self._accumulated:
            self.parameters[name].grad = None
        if not self._runtime.syncs:
            if self._runtime.ends_step:
                self._unsharded = []
            self._accumulate()
            return
        if self._tape.parallel is not None:
            self._redistribute()
        gradients = list(self._accumulated.values())
        gradients += [parameter.grad for parameter in self.parameters.values() if parameter.grad is not None]
        shards = self._reached()
        self._accumulated.clear()
        for parameter in self.parameters.values():
            parameter.grad = None
        self._unsharded = []
        self._runtime.reduce_input = None
        if gradients:
            self._reduce(gradients, shards)

    def _reached(self) -> Axis:
        """The size of a rank's part of those parameters that have gradients."""
        reached = [w for w in self._weights if w.name in self._accumulated or self.parameters[w.name].grad is not None]
        if len(reached) == len(self._weights):
            return self._shards
        return Total(f"{self._shards.name[:-1]}, reached)", tuple(shard(weight) for weight in reached))

    def _accumulate(self) -> None:
        """Keep each gradient in the reduce dtype (`to_accumulated_grad_if_needed`)."""
        reduce = self._precision.reduce
        gradient: Tensor | None = None
        for name, parameter in self.parameters.items():
            if parameter.grad is not None and reduce != self._precision.compute:
                gradient, parameter.grad = parameter.grad, None
                storage = self._allocate(gradient.shape, reduce, "accumulated_gradient", name)
                self._accumulated[name] = Tensor(self._tape, storage, gradient.shape, reduce)

    def _reduce(self, gradients: list[Tensor], shards: Axis) -> None:
        """Copy in, reduce-scatter, cast, and keep this rank's part (`foreach_reduce`)."""
        reduce, stored = self._precision.reduce, self._precision.parameter
        self._runtime.reduce_input = self._allocate(("z", shards), reduce, "reduce_scatter_input")
        last = gradients[-1]  # its loop variable keeps the last gradient until the function ends
        gradients.clear()
        with self._tape.stream(REDUCE):
            rule = "sharded_gradient" if reduce == stored else "reduce_scatter_output"
            output = self._allocate((shards,), reduce, rule)
            if self._sharding.replicated:
                self._all_reduced = output
            if reduce != stored:
                output = self._allocate((shards,), stored, "sharded_gradient")
        if self._gradients is None and not self._sharding.offloaded:
            self._gradients = output
        del last

    def _allocate(self, shape: Shape, dtype: str, rule: str, weight: str = "") -> Storage:
        with self._tape.at(".".join(filter(None, (self._path, weight)))):
            return self._tape.allocate(shape, dtype, rule)

    def finalize_backward(self) -> None:
        """Let go of what the backward pass leaves behind."""
        self._gathered = None
        self._all_reduced = None
        self.uses.clear()


class Fsdp(Runtime):
    """The hooks of FSDP2 around the units of a model."""

    def __init__(self, tape: Tape, recipe: Recipe) -> None:
        super().__init__(tape, recipe)
        self._groups: dict[str, Group] = {}
        self._order: list[Group] = []
        """Groups in the order of the forward pass."""
        self._previous: Storage | None = None
        """The last all-gather's output: in the forward pass it stays until the next one has been copied out."""
        self.reduce_input: Storage | None = None
        """The last reduce-scatter's input: it stays until the next one starts."""
        self._repeats: dict[str, str | None] = {}
        self.syncs = True
        self.ends_step = True
        """Parameters are freed after the backward pass; in a pipeline, after that of the last micro-batch."""

    def ends(self, weights: Sequence[Weight], beside: Sequence[Weight] = ()) -> Mapping[str, Parameter]:
        """By wrap policy the root holds what is outside the layers, or embedding and norm-with-head are units."""
        sharding = self.recipe.sharding
        if sharding.wrap == "torchtitan":
            ends, left = self.recipe.network.ends, tuple(weights)
            if ends.reads_tokens:
                self._groups["embedding"] = Group(self, "embedding", "", left[:1], sharding.reshard_after_forward)
                left = left[1:]
            if ends.predicts:
                self._groups["head"] = Group(self, "head", "", left, False)
            rest = beside
        else:
            rest = (*beside, *weights)
        if rest:
            self._groups["root"] = Group(self, "root", "", rest, sharding.root_reshards)
        return {name: found for group in self._groups.values() for name, found in group.parameters.items()}

    def unit(
        self, unit: str, label: str, path: str, weights: Sequence[Weight], repeats: str | None = None
    ) -> Mapping[str, Parameter]:
        """A unit communicates its parameters at once."""
        self._repeats[unit] = repeats
        sharding = self.recipe.sharding
        reshard = sharding.reshard_after_forward
        if sharding.wrap == "torchtitan-2024" and unit == self.recipe.last_unit and reshard is True:
            reshard = False
        self._groups[unit] = Group(self, label, path, weights, reshard)
        return self._groups[unit].parameters

    def cast(self, x: Tensor) -> Tensor:
        """A mixed-precision policy casts inputs of every unit to the compute dtype (`FSDPState._pre_forward`)."""
        stored, compute = self.recipe.precision.parameter, self.recipe.precision.compute
        return to(x, compute) if compute != stored and x.dtype in FLOATING else x

    def begin_micro_batch(self, *, last: bool) -> None:
        """Without communication for every micro-batch, only the last one reduces gradients."""
        self.syncs = last or self.recipe.sharding.syncs_every_micro_batch
        for group in self._groups.values():
            group.finished = False

    def begin_backward(self, *, last: bool) -> None:
        """In a pipeline only the last backward pass frees parameters and reduces gradients (pipelining/stage.py)."""
        self.syncs = self.ends_step = last
        for group in self._groups.values():
            group.finished = False

    def enter(self, unit: str, x: Tensor) -> Tensor:
        """Cast its input and gather the unit's parameters; hang the post-backward hook on its input."""
        group = self._groups.get(unit)
        if group is None:
            return x
        if x.dtype in FLOATING:
            x = to(x, self.recipe.precision.compute)
        group.gather()
        output = group.wait()
        if output is not None:
            self._previous = output
        if not x.requires_grad:
            return x
        x = identity(x)
        if x.node is not None:
            x.node.before.append(group.post_backward)
        return x

    def leave(self, unit: str, y: Tensor) -> Tensor:
        """Free the unit's parameters; hang the pre-backward hook on its output."""
        group = self._groups.get(unit)
        if group is not None:
            group.reshard_after_forward()
            group.uses.append(len(self._order))
            self._order.append(group)
            if y.node is not None:
                y.node.before.append(lambda: self._pre_backward(group))
        if unit == "root":
            self._previous = None
        return y

    def _pre_backward(self, group: Group) -> None:
        """Gather the unit's parameters, then start to gather those of the unit before it."""
        group.gather()
        group.wait()
        if group.uses:
            place = group.uses.pop()
            if place:
                self._order[place - 1].gather()

    def end_backward(self) -> None:
        """Reduce what no hook has reached, such as the root's gradients, and let go of all buffers."""
        for unit, group in self._groups.items():
            if not group.finished:
                if self.recipe.pipeline is not None:
                    self.tape.enter("backward", "end", self._repeats.get(unit))
                group.post_backward()
        if not self.ends_step:
            return
        for unit, group in self._groups.items():
            if self.recipe.sharding.replicated:
                self.tape.enter("backward", "end", self._repeats.get(unit))
            group.finalize_backward()
        self._order.clear()
        self.reduce_input = None


ENGINE = Engine(
    name="fsdp",
    title="FSDP2",
    runtime=Fsdp,
    presets={
        "fp32": precision("fp32"),
        "bf16": precision("bf16"),
        "fp16": precision("fp16"),
        "bf16-mixed": precision("fp32", "bf16", "fp32"),
        "fp16-mixed": precision("fp32", "fp16", "fp32"),
        "bf16-autocast": precision("fp32", autocast="bf16"),
    },
    default_preset="bf16-mixed",
    stored=shard,
)
