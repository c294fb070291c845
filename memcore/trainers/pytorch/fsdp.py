"""FSDP2 (`fully_shard`): a unit's parameters are gathered before it runs, its gradients reduced and sharded after.

Follows torch 2.13, torch/distributed/fsdp/_fully_shard/_fsdp_state.py (the hooks).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memcore.dtypes import FLOATING
from memcore.networks.weights import Weight
from memcore.tensors.basics import identity, to
from memcore.tensors.tape import Storage
from memcore.tensors.tensor import Parameter, Tape, Tensor
from memcore.trace.engine import Engine, Runtime, precision
from memcore.trace.recipe import Recipe
from memcore.trainers.pytorch.fsdp_group import CommContext, Group, sharded

_EXPERTS = "/experts"


def _experts(unit: str) -> str:
    """Return the name of a unit's routed experts, where they are communicated over ranks of their own."""
    return unit + _EXPERTS


class Fsdp(Runtime):
    """The hooks of FSDP2 around the units of a model."""

    steps_itself = True
    """After gradients are reduced (`fsdp_group.py`)."""

    def __init__(self, tape: Tape, recipe: Recipe) -> None:
        super().__init__(tape, recipe)
        self._context = CommContext()
        self._groups: dict[str, Group] = {}
        self._order: list[Group] = []
        """Groups in the order of the forward pass."""
        self._previous: Storage | None = None
        """The last all-gather's output: in the forward pass it stays until the next one has been copied out."""
        self._repeats: dict[str, str | None] = {}

    def outer_parameters(
        self, weights: Sequence[Weight], tower_weights: Sequence[Weight] = ()
    ) -> Mapping[str, Parameter]:
        """By wrap policy the root holds what is outside the layers, or embedding and norm-with-head are units.

        With a tied head torchtitan makes one unit of them (distributed/fsdp.py, `enable_weight_tying`), which is
        gathered first and kept to the end, as the root is.
        """
        sharding, embedding_and_head = self.recipe.sharding, self.recipe.network.embedding_and_head
        if sharding.wrap == "torchtitan" and not embedding_and_head.tied:
            left = tuple(weights)
            if embedding_and_head.reads_tokens:
                self._groups["embedding"] = Group(
                    self, self._context, "embedding", "", left[:1], sharding.reshard_after_forward
                )
                left = left[1:]
            if embedding_and_head.predicts:
                self._groups["head"] = Group(self, self._context, "head", "", left, False)
            rest = tower_weights
        else:
            rest = (*tower_weights, *weights)
        whole = self._ignored("root", "", rest)
        rest = [weight for weight in rest if weight.ranks]
        if rest:
            self._groups["root"] = Group(self, self._context, "root", "", rest, sharding.root_reshards)
        return {**whole, **{name: found for group in self._groups.values() for name, found in group.parameters.items()}}

    def unit(
        self, unit: str, label: str, path: str, weights: Sequence[Weight], repeats: str | None = None
    ) -> Mapping[str, Parameter]:
        """A unit communicates its parameters at once."""
        self._repeats[unit] = repeats
        sharding = self.recipe.sharding
        reshard = sharding.reshard_after_forward
        if sharding.wrap == "torchtitan-2024" and unit == self.recipe.last_unit and reshard is True:
            reshard = False
        dense = [weight for weight in weights if weight.ranks == "z"]
        routed = [weight for weight in weights if weight.ranks not in ("z", "")]
        found: dict[str, Parameter] = {}
        for name, said, part in ((unit, label, dense), (_experts(unit), f"{label}'s experts", routed)):
            if part:  # an activation between convolutions has no weights
                self._groups[name] = Group(self, self._context, said, path, part, reshard)
                self._repeats[name] = repeats
                found |= self._groups[name].parameters
        return {**found, **self._ignored(label, path, weights)}

    def _ignored(self, label: str, path: str, weights: Sequence[Weight]) -> Mapping[str, Parameter]:
        """Return the parameters that no hook knows, since every rank has all of them (`ignored_params`)."""
        whole = [weight for weight in weights if not weight.ranks]
        return Group(self, self._context, label, path, whole, False).parameters if whole else {}

    def cast(self, x: Tensor) -> Tensor:
        """A mixed-precision policy casts inputs of every unit to the compute dtype (`FSDPState._pre_forward`)."""
        stored, compute = self.recipe.precision.parameter, self.recipe.precision.compute
        return to(x, compute) if compute != stored and x.dtype in FLOATING else x

    def gather_all(self) -> None:
        """The schedule gathers all parameters of a stage before it runs (schedules.py, UNSHARD)."""
        for does in (Group.gather, Group.wait):
            for unit, group in self._groups.items():
                self.tape.enter("forward", "parameters of all stages", self._repeats.get(unit))
                does(group)

    def chunk_ended(self, *, last: bool) -> None:
        """The head's gradient stays unsharded until the last part; then it is reduced, and the head resharded."""
        group = self._groups.get("head") or self._groups.get("root")
        if group is None:
            return
        if last and self._context.syncs:
            group.post_backward()
            group.finished = False
        else:
            group.accumulate()

    def begin_micro_batch(self, *, last: bool) -> None:
        """Without communication for every micro-batch, only the last one reduces gradients."""
        self._context.syncs = last or self.recipe.sharding.syncs_every_micro_batch
        for group in self._groups.values():
            group.finished = False

    def begin_backward(self, *, last: bool) -> None:
        """In a pipeline only the last backward pass frees parameters and reduces gradients (pipelining/stage.py)."""
        self._context.syncs = self._context.ends_step = last
        for group in self._groups.values():
            group.finished = False

    def _groups_of(self, unit: str) -> list[Group]:
        """Return a unit's parameters, and those of its routed experts, which other ranks share."""
        return [self._groups[name] for name in (unit, _experts(unit)) if name in self._groups]

    def enter(self, unit: str, x: Tensor) -> Tensor:
        """Cast its input and gather the unit's parameters; hang the post-backward hook on its input."""
        groups = self._groups_of(unit)
        if not groups:
            return x
        if x.dtype in FLOATING:
            x = to(x, self.recipe.precision.compute)
        for group in groups:
            group.gather()
            output = group.wait()
            if output is not None:
                self._previous = output
            del output
        self._gather_next(unit)
        if not x.requires_grad:
            return x
        for group in groups:
            x = identity(x)
            if x.node is not None:
                x.node.before.append(group.post_backward)
        return x

    def _gather_next(self, unit: str) -> None:
        """With expert parallelism each unit starts to gather the next one's parameters (torchtitan)."""
        if self.recipe.sharding.prefetches:
            for group in self._groups_of(self._after(unit, 1)):
                group.gather()

    def _after(self, unit: str, steps: int) -> str:
        """Return the unit that runs `steps` units later, or an empty name."""
        units = [name for name in self._sequence() if not name.endswith(_EXPERTS)]
        place = units.index(unit) + steps if unit in units else -1
        return units[place] if 0 <= place < len(units) else ""

    def _sequence(self) -> list[str]:
        """Units that gather others ahead of time, in the order of the forward pass."""
        layers = [name for name in self._groups if name not in ("embedding", "head", "root")]
        return [name for name in ("embedding", *layers, "head") if name in self._groups]

    def leave(self, unit: str, y: Tensor) -> Tensor:
        """Free the unit's parameters; hang the pre-backward hook on its output."""
        groups = self._groups_of(unit)
        for group in groups:
            group.reshard_after_forward()
            group.uses.append(len(self._order))
            self._order.append(group)
        if groups and y.node is not None:
            y.node.before.append(lambda: self._pre_backward(unit, groups))
        if unit == "root":
            self._previous = None
        return y

    def _pre_backward(self, unit: str, groups: list[Group]) -> None:
        """Gather the unit's parameters, then start to gather those of the unit before it."""
        for group in groups:
            group.gather()
            group.wait()
        if self.recipe.sharding.prefetches and unit != "root":
            for group in reversed(self._groups_of(self._after(unit, -1))):
                group.gather()
        elif groups[0].uses:
            place = groups[0].uses.pop()
            if place:
                self._order[place - 1].gather()

    def end_backward(self) -> None:
        """Reduce what no hook has reached, such as the root's gradients, and free all buffers."""
        for unit, group in self._groups.items():
            if not group.finished:
                if self.recipe.pipeline is not None:
                    self.tape.enter("backward", "end", self._repeats.get(unit))
                group.post_backward()
        if not self._context.ends_step:
            return
        for unit, group in self._groups.items():
            if self.recipe.sharding.replicated:
                self.tape.enter("backward", "end", self._repeats.get(unit))
            group.finalize_backward()
        self._order.clear()
        self._context.reduce_input = None


ENGINE = Engine(
    name="fsdp",
    title="FSDP2",
    runtime=Fsdp,
    presets={
        "fp32": precision("fp32"),
        "tf32": precision("fp32"),
        "bf16": precision("bf16"),
        "fp16": precision("fp16"),
        "bf16-mixed": precision("fp32", "bf16", "fp32"),
        "fp8-mixed": precision("fp32", "bf16", "fp32"),
        "fp16-mixed": precision("fp32", "fp16", "fp32"),
        "bf16-autocast": precision("fp32", autocast="bf16"),
    },
    default_preset="bf16-mixed",
    stored=sharded,
    native=True,
    composes=True,
    shards=True,
)
