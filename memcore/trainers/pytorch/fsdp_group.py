"""What FSDP2 communicates at once: a group of parameters that is gathered, freed, reduced and sharded together.

Follows torch 2.13, torch/distributed/fsdp/_fully_shard: `_fsdp_param_group.py` (FSDPParamGroup) and
`_fsdp_collectives.py` (foreach_all_gather, foreach_reduce).
"""

from __future__ import annotations

from collections.abc import Sequence

from memcore.dtypes import ITEMSIZE
from memcore.networks.adapters import learns
from memcore.networks.weights import Weight
from memcore.records import dataclass
from memcore.symbols import Axis, Quotient, Shape, Total
from memcore.tensors.tape import Storage
from memcore.tensors.tensor import Parameter, Tensor
from memcore.trace.engine import Runtime

GATHER, REDUCE = "all-gather", "reduce-scatter"
"""Streams that allocate from pools of their own."""


def sharded(weight: Weight) -> tuple[Shape, ...]:
    """Return one rank's part of a parameter: of its first axis, or of the one that its placement names, rounded up."""
    axes, cut = weight.stored_axes, weight.cut
    if not weight.ranks:
        return axes
    part: Shape = (Quotient(axes[cut], weight.ranks),)
    return (*axes[:cut], part, *axes[cut + 1 :])


def shard(weight: Weight) -> Shape:
    """Return the shard as one row of symbols."""
    return tuple(symbol for axis in sharded(weight) for symbol in axis)


def in_blocks(weight: Weight) -> bool:
    """Return whether torchao replaces the linear layer that a weight belongs to.

    Those of blocks, but not of routers.
    """
    return len(weight.axes) == 2 and weight.kind in ("attention", "feed-forward", "shared-expert")


@dataclass(slots=True)
class CommContext:
    """What all groups of a model share (FSDPCommContext)."""

    reduce_input: Storage | None = None
    """The last reduce-scatter's input: it stays until the next one starts."""
    syncs: bool = True
    """This backward pass reduces gradients (`set_requires_gradient_sync`)."""
    ends_step: bool = True
    """Parameters are freed after the backward pass; in a pipeline, after that of the last micro-batch."""


class Group:
    """The parameters that are communicated at once (FSDPParamGroup)."""

    def __init__(
        self,
        runtime: Runtime,
        context: CommContext,
        name: str,
        path: str,
        weights: Sequence[Weight],
        reshard: bool | int,
    ) -> None:
        self._context = context
        self._recipe = runtime.recipe
        self._path = path
        """Its module; weights are named relative to it."""
        self._tape = runtime.tape
        self._precision = runtime.recipe.precision
        self._sharding = runtime.recipe.sharding
        self._weights = tuple(weights)
        self._ranks = weights[0].ranks
        self._gathers = self._sharding.gathers if self._ranks == "z" else self._sharding.gathers_experts
        self._alone = self._ranks != "z" and self._sharding.leaves_experts
        """No other rank has its parameters, and the engine is told to ignore them."""
        self._delayed = self._sharding.delays_experts and self._ranks != "z"
        """Its gradients come after the hooks that would cast them: they add up in the compute dtype."""
        self._shards = Total(f"S({name})", tuple(shard(weight) for weight in weights))
        self._reshard = reshard
        learned = {w.name: learns(w, runtime.recipe.network) for w in weights}
        self.parameters = {
            w.name: Parameter(self._tape, w.name, w.outer, w.inner, self._computed(w), trainable=learned[w.name])
            for w in weights
        }
        for w in weights:
            if w.quantized is not None:
                self.parameters[w.name].quantization = runtime.recipe.quantization
        float8 = runtime.recipe.float8
        self._in_float8 = frozenset(w.name for w in weights if float8 and float8.gathers and in_blocks(w))
        """Parameters that are gathered in float8; a group that has any is gathered as bytes."""
        computed = {self._computed(w) for w in weights}
        self._sent: tuple[Axis, str] = (self._shards, min(computed))
        if self._in_float8 or len(computed) > 1:
            parts = tuple(self._bytes_of(w) for w in weights)
            self._sent = Total(f"S({name}) in bytes", parts), "uint8"
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
        if self._unsharded or self._gathered is not None or not self._gathers:
            return
        with self._tape.stream(GATHER):
            copies = self._copy_in()
            sent, dtype = self._sent
            self._gathered = self._allocate((self._ranks, sent), dtype, "all_gather_output")
            del copies

    def _bytes_of(self, weight: Weight) -> Shape:
        """Return one rank's part of a parameter in bytes."""
        return shard(weight) if weight.name in self._in_float8 else (ITEMSIZE[self._computed(weight)], *shard(weight))

    def _stored(self, weight: Weight) -> str:
        """Return the dtype of a rank's part of a parameter."""
        return (weight.kind == "adapter" and weight.dtype) or self._precision.parameter

    def _computed(self, weight: Weight) -> str:
        """Return the dtype in which a parameter is gathered: as it is stored, unless the policy names one."""
        casts = self._precision.compute != self._precision.parameter
        return self._precision.compute if casts else self._stored(weight)

    def _copy_in(self) -> list[Storage]:
        """Return what the all-gather reads: the shards in the compute dtype, unless they can be read where they are."""
        sent, dtype = self._sent
        if self._partly_sharded:
            return [self._allocate(self._part((self._ranks, sent)), dtype, "all_gather_input")]
        cast = [weight for weight in self._weights if self._stored(weight) != self._computed(weight)]
        if not self._sharding.offloaded:
            if not cast and not self._in_float8:
                return []
            everything = self._in_float8 or len(cast) == len(self._weights)
            read = sent if everything else Total(f"{self._shards.name[:-1]}, cast)", tuple(shard(w) for w in cast))
            return [self._allocate((read,), dtype, "all_gather_input")]
        copies = []
        for weight in self._weights:
            stored, compute = self._stored(weight), self._computed(weight)
            copied = self._allocate(shard(weight), stored, "all_gather_input", weight.name)
            if stored != compute:
                copied = self._allocate(shard(weight), compute, "all_gather_input", weight.name)
            copies.append(copied)
        return copies

    def wait(self) -> Storage | None:
        """Copy the all-gather's output out into the parameters, and return it (`wait_for_unshard`)."""
        if self._alone or self._unsharded or (self._gathered is None and self._gathers):
            return None
        dtypes = ["fp8" if w.name in self._in_float8 else self._computed(w) for w in self._weights]
        self._unsharded = [
            self._allocate((self._ranks, *shard(w)), dtype, "unsharded_parameter", w.name)
            for w, dtype in zip(self._weights, dtypes, strict=True)
        ]
        ordered = [
            self._allocate((self._ranks, *shard(w)), self._computed(w), "copied_shards", w.name)
            for w in self._weights
            if w.cut
        ]
        self._partly_sharded = []
        output, self._gathered = self._gathered, None
        del ordered
        return output

    def reshard_after_forward(self) -> None:
        """Free the parameters, or keep them, or keep the part of a smaller group of ranks."""
        if self._alone:
            return
        if self._reshard is not False and self._reshard is not True:
            for index, weight in enumerate(self._weights):
                shape = self._part((self._ranks, *shard(weight)))
                self._partly_sharded.append(
                    self._allocate(shape, self._computed(weight), "resharded_parameter", weight.name)
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
        if self._alone:
            return
        if not self._context.syncs:
            if self._context.ends_step:
                self._unsharded = []
            self.accumulate()
            return
        self._add_up()
        if self._tape.parallel is not None:
            self._redistribute()
        gradients = list(self._accumulated.values())
        gradients += [parameter.grad for parameter in self.parameters.values() if parameter.grad is not None]
        shards, cut = self._reached(), self._weights[-1].cut
        self._accumulated.clear()
        for parameter in self.parameters.values():
            parameter.grad = None
        self._unsharded = []
        self._context.reduce_input = None
        if gradients:
            held = self._in_rows(gradients) if cut else None
            self._reduce(gradients, shards)
            del held

    def _reached(self) -> Axis:
        """Return the size of a rank's part of those parameters that have gradients."""
        reached = [w for w in self._weights if w.name in self._accumulated or self.parameters[w.name].grad is not None]
        if len(reached) == len(self._weights):
            return self._shards
        return Total(f"{self._shards.name[:-1]}, reached)", tuple(shard(weight) for weight in reached))

    def _in_rows(self, gradients: list[Tensor]) -> Tensor:
        """Gradients of parameters that are sharded along another axis, in the order of ranks; the last stays."""
        before = gradients[-1]
        for index, gradient in enumerate(gradients):
            storage = self._allocate(gradient.shape, gradient.dtype, "cat", self._weights[index].name)
            before = gradients[index]
            gradients[index] = Tensor(self._tape, storage, gradient.shape, gradient.dtype)
        return before

    def _add_up(self) -> None:
        """Gradients are added to those that are there."""
        for name in self._accumulated:
            self.parameters[name].grad = None

    def accumulate(self) -> None:
        """Keep each gradient in the reduce dtype (`to_accumulated_grad_if_needed`)."""
        if self._alone:
            return
        self._add_up()
        if self._delayed:
            return
        reduce = self._precision.reduce
        gradient: Tensor | None = None
        for name, parameter in self.parameters.items():
            if parameter.grad is not None and self._precision.compute != reduce != parameter.grad.dtype:
                gradient, parameter.grad = parameter.grad, None
                storage = self._allocate(gradient.shape, reduce, "accumulated_gradient", name)
                self._accumulated[name] = Tensor(self._tape, storage, gradient.shape, reduce)

    def _reduce(self, gradients: list[Tensor], shards: Axis) -> None:
        """Copy in, reduce-scatter, cast, and keep this rank's part (`foreach_reduce`)."""
        named = self._precision.reduce != self._precision.compute
        reduce = self._precision.reduce if named else gradients[-1].dtype
        stored = next(self._stored(w) for w in self._weights if self.parameters[w.name].requires_grad)
        self._context.reduce_input = self._allocate((self._ranks, shards), reduce, "reduce_scatter_input")
        last = gradients[-1]  # its loop variable keeps the last gradient until the function ends
        gradients.clear()
        with self._tape.stream(REDUCE):
            rule = "sharded_gradient" if reduce == stored else "reduce_scatter_output"
            output = self._allocate((shards,), reduce, rule)
            if self._sharding.replicated:
                self._all_reduced = output
            if reduce != stored:
                output = self._allocate((shards,), stored, "sharded_gradient")
            if self._recipe.steps_in_backward is not None:
                self._step(self._recipe.steps_in_backward)
                return
        if self._gradients is None and not self._sharding.offloaded:
            self._gradients = output
        del last

    def _step(self, temporaries: int) -> None:
        """The optimizer steps for each parameter; all gradients are parts of one tensor, which goes with the last."""
        for weight in self._weights:
            names = ["optimizer_temporary"] * temporaries
            held = [self._allocate(shard(weight), self._precision.parameter, rule, weight.name) for rule in names]
            del held

    def _allocate(self, shape: Shape, dtype: str, rule: str, weight: str = "") -> Storage:
        with self._tape.at(".".join(filter(None, (self._path, weight)))):
            return self._tape.allocate(shape, dtype, rule)

    def finalize_backward(self) -> None:
        """Free what the backward pass leaves behind."""
        self._gathered = None
        self._all_reduced = None
        self.uses.clear()
