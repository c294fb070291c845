"""FSDP1 (`FullyShardedDataParallel`): one flat parameter for each unit, gathered where it lies, reduced as a whole.

Follows torch 2.13, torch/distributed/fsdp: `_flat_param.py` (FlatParamHandle) and `_runtime_utils.py` (the hooks). A
unit's parameters are views of the flat one (`torch.split`): when the last of their gradients is there, all are
concatenated into the flat gradient, with zeros for those that have none.

With `use_orig_params` frozen and trained parameters may share a unit, whose frozen ones then get gradients like the
rest ("Frozen parameters" of FSDP's documentation). Without, units are uniform, and adapters are units of their own, as
PEFT's `fsdp_auto_wrap_policy` makes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from types import MappingProxyType
from typing import ClassVar

from memcore.dtypes import FLOATING
from memcore.messages import Message
from memcore.networks.adapters import learns
from memcore.networks.weights import Weight
from memcore.symbols import Axis, Quotient, Shape, Total
from memcore.tensors.basics import identity, to
from memcore.tensors.tape import Held, Storage
from memcore.tensors.tensor import Parameter, Tape, Tensor
from memcore.trace.engine import Engine, Runtime
from memcore.trace.recipe import Recipe
from memcore.trainers.pytorch.fsdp import ENGINE as FSDP2
from memcore.trainers.pytorch.fsdp_group import GATHER, REDUCE

COPY_IN = "all-gather copy-in"
"""The stream on which low-precision and host copies of shards are made."""


def flat(weight: Weight) -> tuple[Shape, ...]:
    """Return one rank's part of a parameter, as a part of the flat one: a vector."""
    return ((Quotient(weight.stored_shape, "z"),),)


class Unit:
    """A flat parameter (FlatParamHandle)."""

    def __init__(self, runtime: Fsdp1, name: str, path: str, weights: Sequence[Weight]) -> None:
        self._runtime = runtime
        self._path = path
        self._tape = runtime.tape
        self._precision = runtime.recipe.precision
        self._sharding = runtime.recipe.sharding
        self._weights = tuple(weights)
        self._flat: Axis = Total(f"flat({name})", tuple(weight.stored_shape for weight in weights))
        self._shard: Axis = Quotient((self._flat,), "z")
        self.trains = any(learns(weight, runtime.recipe.network) for weight in weights)
        self.parameters = {weight.name: self._parameter(weight) for weight in weights}
        self._gathered: Storage | None = None
        self._unsharded: Storage | None = None
        """The flat gradient of all ranks, while it accumulates without communication."""
        self._gradient: Storage | None = None
        """This rank's part of it."""
        self.finished = False
        """It is resharded in this backward pass."""
        self.awaited = False
        """A backward pass through its result is to come (`_needs_pre_backward_unshard`)."""

    def _parameter(self, weight: Weight) -> Parameter:
        precision, quantized = self._precision, weight.quantized is not None
        found = Parameter(
            self._tape,
            weight.name,
            weight.outer,
            weight.inner,
            precision.compute,
            trainable=self.trains and not quantized,
        )
        if quantized:
            found.quantization = self._runtime.recipe.quantization
        return found

    def gather(self) -> None:
        """All-gather the flat parameter into its own memory; shards that are elsewhere or of another dtype first."""
        if self._gathered is not None or not self._sharding.gathers:
            return
        compute, stored = self._precision.compute, self._precision.parameter
        copies: list[Storage] = []
        with self._tape.stream(COPY_IN):
            if self._sharding.offloaded:
                copies.append(self._allocate((self._shard,), stored, "all_gather_input"))
            if stored != compute:
                copies.append(self._allocate((self._shard,), compute, "all_gather_input"))
        with self._tape.stream(GATHER):
            self._gathered = self._allocate(("z", self._shard), compute, "unsharded_parameter")
        copies.clear()

    def reshard(self) -> None:
        """Free the flat parameter."""
        self._gathered = None

    def post_backward(self) -> None:
        """Concatenate the gradients; free the parameter; reduce the flat gradient, or keep it until the last pass."""
        self.finished, self.awaited = True, False
        gradient = self._flatten()
        if self._runtime.frees:
            self.reshard()
        if gradient is None:
            return
        if not self._runtime.syncs:
            self._unsharded = self._unsharded or gradient
            return
        if self._unsharded is not None:
            gradient, self._unsharded = self._unsharded, None
        self._reduce(gradient)

    def _flatten(self) -> Storage | None:
        """Return what the backward pass of `torch.split` makes of the views' gradients."""
        gradients: list[Tensor | None] = [each.grad for each in self.parameters.values()]
        if all(each is None for each in gradients):
            return None
        compute = self._precision.compute
        missing = [w for w in self._weights if self.parameters[w.name].grad is None]
        zeros = [self._allocate(w.stored_shape, compute, "zeros", w.name) for w in missing]
        found = self._allocate((self._flat,), compute, "flat_gradient")
        zeros.clear()
        gradients.clear()
        for parameter in self.parameters.values():
            parameter.grad = None
        return found

    def _reduce(self, gradient: Storage) -> None:
        """Cast, reduce-scatter and cast back (`_post_backward_hook`, `_reduce_grad`)."""
        precision, sharding = self._precision, self._sharding
        with self._tape.stream(REDUCE):
            reduced = gradient
            if precision.reduce != precision.compute:
                reduced = self._allocate((self._flat,), precision.reduce, "reduce_scatter_input")
            part = reduced
            if sharding.gathers:
                rule = "sharded_gradient" if precision.reduce == precision.parameter else "reduce_scatter_output"
                part = self._allocate((self._shard,), precision.reduce, rule)
            if precision.reduce != precision.parameter:
                part = self._allocate((self._shard,), precision.parameter, "sharded_gradient")
        if self._gradient is None and not sharding.offloaded:
            self._gradient = part
        del reduced, gradient

    def _allocate(self, shape: Shape, dtype: str, rule: str, weight: str = "") -> Storage:
        with self._tape.at(".".join(filter(None, (self._path, weight)))):
            return self._tape.allocate(shape, dtype, rule)


class Fsdp1(Runtime):
    """The hooks of FSDP1 around the units of a model."""

    pending: ClassVar[Mapping[str, int]] = MappingProxyType({"unsharded_parameter": 1, "flat_gradient": 2})
    """The host waits for the unit two before, then gathers (`_FreeEventQueue`): of freed parameters one is in use, and
    of flat gradients, which `_post_backward_hook` records on the stream that reduces them, that unit's and the next."""

    def __init__(self, tape: Tape, recipe: Recipe) -> None:
        super().__init__(tape, recipe)
        self._units: dict[str, list[Unit]] = {}
        self._order: list[list[Unit]] = []
        self._hooked: Held[list[Parameter]] = {}
        """Leaves with a hook that a frozen unit waits for: each is in a cycle with it until the hook is removed."""
        self.syncs = True

    def outer_parameters(
        self, weights: Sequence[Weight], tower_weights: Sequence[Weight] = ()
    ) -> Mapping[str, Parameter]:
        """The root holds what is outside the layers."""
        return self._wrapped("root", "root", "", [*tower_weights, *weights])

    def unit(
        self, unit: str, label: str, path: str, weights: Sequence[Weight], repeats: str | None = None
    ) -> Mapping[str, Parameter]:
        """A layer is a unit; without `use_orig_params` its adapters are one of their own."""
        return self._wrapped(unit, label, path, weights)

    def _wrapped(self, unit: str, label: str, path: str, weights: Sequence[Weight]) -> Mapping[str, Parameter]:
        groups = {label: list(weights)}
        if not self.recipe.sharding.original_parameters:
            groups = {label: [], Message("{} adapters", label): []}
            for weight in weights:
                groups[Message("{} adapters", label) if weight.kind == "adapter" else label].append(weight)
        self._units[unit] = [Unit(self, name, path, found) for name, found in groups.items() if found]
        return {name: found for each in self._units[unit] for name, found in each.parameters.items()}

    @property
    def _reshards(self) -> bool:
        """Return whether parameters are freed after the forward pass (`FULL_SHARD`, not `SHARD_GRAD_OP`)."""
        return self.recipe.sharding.reshard_after_forward is not False

    @property
    def frees(self) -> bool:
        """Return whether parameters are freed in this backward pass (`_should_free_in_backward`)."""
        return self.syncs or self._reshards

    def cast(self, x: Tensor) -> Tensor:
        """A mixed-precision policy casts inputs of the root, and with it those of all units."""
        stored, compute = self.recipe.precision.parameter, self.recipe.precision.compute
        return to(x, compute) if compute != stored and x.dtype in FLOATING else x

    def begin_micro_batch(self, *, last: bool) -> None:
        """Under `no_sync` only the last micro-batch reduces gradients."""
        self.syncs = last or self.recipe.sharding.syncs_every_micro_batch
        for units in self._units.values():
            for each in units:
                each.finished = False

    def enter(self, unit: str, x: Tensor) -> Tensor:
        """Gather; the unit is done when its input's gradient is there."""
        units = self._units.get(unit)
        if units is None:
            return x
        if x.dtype in FLOATING:
            x = to(x, self.recipe.precision.compute)
        for each in units:
            each.gather()
        if not x.requires_grad:
            return x
        self._register_reshard_only_hook(units, x)
        x = identity(x)
        if x.node is not None:
            x.node.before.extend(each.post_backward for each in units)
        return x

    def _register_reshard_only_hook(self, units: Sequence[Unit], x: Tensor) -> None:
        """Have frozen units wait for the gradient of their input (`_register_post_backward_reshard_only_hook`).

        The hook (torch/autograd/graph.py, `register_multi_grad_hook`) knows the node of its tensor. That of a leaf,
        such as the input of a reentrant checkpoint's second run, is `AccumulateGrad`, which holds the leaf with its
        gradient: both stay until the end of the backward pass removes the hooks (`_finalize_params`).
        """
        if self.tape.grad_enabled and isinstance(x, Parameter) and not all(each.trains for each in units):
            self._hooked.setdefault(self.tape.repeats, []).append(x)

    def leave(self, unit: str, y: Tensor) -> Tensor:
        """Free the parameters, but not the root's; hang the pre-backward hook on the output."""
        units = self._units.get(unit)
        if units is None:
            return y
        if unit != "root" and self._reshards:
            for each in units:
                each.reshard()
        place = len(self._order)
        self._order.append(units)
        if y.node is not None:
            for each in units:
                each.awaited = True
            y.node.before.append(lambda: self._pre_backward(place))
        return y

    def end_reentrant(self, unit: str) -> None:
        """The flat parameter's gradient ends the checkpoint's own backward pass (`AccumulateGrad`'s hook).

        A leaf that its hook keeps refers to the gradient too: what is added to that is a tensor of its own.
        """
        for leaf in chain(*self._hooked.values()):
            if leaf.grad is not None:
                leaf.grad.viewed = True
        for each in self._units[unit]:
            if each.trains:
                each.post_backward()

    def _pre_backward(self, place: int) -> None:
        """Gather the unit, and at once the one before it (`BackwardPrefetch.BACKWARD_PRE`)."""
        for each in self._order[place]:
            each.awaited = False
            each.gather()
        if place and self.recipe.sharding.prefetches_backward:
            for each in self._order[place - 1]:
                if each.awaited:
                    each.gather()

    def end_backward(self) -> None:
        """Reduce and free what no hook has reached, such as the root."""
        for units in self._units.values():
            for each in units:
                if not each.finished:
                    each.post_backward()
                if self.frees:
                    each.reshard()
        self._order.clear()
        self.tape.let_go(self._hooked, "end")


ENGINE: Engine = replace(FSDP2, key="fsdp1", title="FSDP1", runtime=Fsdp1, stored=flat, flat=True)
