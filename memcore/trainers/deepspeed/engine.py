"""DeepSpeed: ZeRO's stages share optimizer, gradients and parameters among data-parallel ranks.

Source: deepspeed 0.19.6, runtime/zero/stage_1_and_2.py (DeepSpeedZeroOptimizer), stage3.py, parameter_offload.py,
partitioned_param_coordinator.py; without ZeRO runtime/fp16/fused_optimizer.py (FP16_Optimizer). Parameters are 16-bit,
the optimizer updates an fp32 copy. A gradient is copied into a bucket as soon as it is there, and freed; stage 1
does so after the last backward pass. Stage 3 gathers parameters module by module and some ahead, and does not release
what is used again within `stage3_max_reuse_distance` elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from memcore.networks.adapters import learns
from memcore.networks.network import Model
from memcore.networks.weights import Weight
from memcore.symbols import Axis, Quotient, Shape, Smaller, Total, product
from memcore.tensors.tape import Storage
from memcore.tensors.tensor import Parameter, Tape, Tensor
from memcore.trace.engine import Engine, Holding, precision
from memcore.trace.recipe import Buffer, Recipe
from memcore.trainers.deepspeed.step_plan import ZeroPlan
from memcore.trainers.pytorch.fsdp_group import GATHER, REDUCE

Weights = Sequence[tuple[Weight, int]]
_NORMED = 250_000_000
"""Elements of which a norm is computed at a time (`_constant_buffered_norm2`)."""


def plan_of(recipe: Recipe) -> ZeroPlan:
    """Return what ZeRO was told."""
    plan = recipe.plan(ZeroPlan)
    if plan is None:
        raise TypeError(recipe)
    return plan


class DeepSpeed(Holding):
    """Buckets while a backward pass runs, and this rank's part of the gradients."""

    def __init__(self, tape: Tape, recipe: Recipe) -> None:
        super().__init__(tape, recipe)
        self._plan = plan_of(recipe)
        self._dtype = recipe.precision.compute
        self._weights: list[tuple[Weight, int | str]] = []
        self._buckets: list[Storage] = []
        self._partition: Storage | None = None
        """Stages 1 and 2: gradients of the parameters that this rank updates."""
        self._last = True
        self._repeats: dict[str, str | None] = {}

    def parameter(self, weight: Weight) -> Parameter:
        """From stage 2 on gradients leave nothing behind but what lies in buckets and partitions."""
        found = super().parameter(weight)
        found.bucketed = self._plan.stage >= 2 and self._plan.contiguous
        return found

    def unit(
        self, unit: str, label: str, path: str, weights: Sequence[Weight], repeats: str | None = None
    ) -> Mapping[str, Parameter]:
        """Return the parameters of a layer."""
        found = super().unit(unit, label, path, weights, repeats)
        self._repeats[unit] = repeats
        return found

    @classmethod
    def uniform(cls, recipe: Recipe) -> bool:
        """Return whether all micro-batches are alike: stage 1 alone asks which one is the last."""
        return plan_of(recipe).stage != 1

    def begin_micro_batch(self, *, last: bool) -> None:
        """Stage 1 reduces after the last one."""
        self._last = last

    def begin_backward(self, *, last: bool) -> None:
        """The same in a pipeline."""
        self._last = last

    def leave(self, unit: str, y: Tensor) -> Tensor:
        """The first gradients, those of the head, arrive when the backward pass reaches the last layer."""
        if unit == self.recipe.last_unit and y.node is not None:
            y.node.before.append(self._first_gradients)
        elif unit in self._repeats and self._repeats[unit] is not None and y.node is not None:
            y.node.before.append(self._reduce)
        return y

    def _first_gradients(self) -> None:
        """`setup_buckets`."""
        if self._plan.stage in (1, 2) and self._plan.contiguous and not self._plan.fp32_gradients:
            self._buckets = [self._allocate(("zr",), "reduce_bucket") for _ in range(1 + self._plan.overlaps)]
        if self._plan.stage == 2:
            self._part()

    def _part(self) -> None:
        """`grads_in_partition`; after the first micro-batch it is added to the one that is there."""
        if self._plan.offloads_optimizer == "none":
            fresh = self._allocate(_parts_of(self.recipe), "partitioned_gradients")
            self._partition = self._partition or fresh

    def _reduce(self) -> None:
        """A bucket's gradients, copied by destination (`flatten`, `reduce_scatter_coalesced`)."""
        if self._plan.quantized_gradients:
            exchanged = self._allocate(("zy",), "quantized_gradient", "int8")
            del exchanged
        elif self._plan.stage >= 2 and self._plan.contiguous:
            self._copy_bucket()

    def _copy_bucket(self) -> None:
        """A bucket made flat by destination, and cast to be reduced."""
        copied = self._allocate(("zf",), "reduced_copy")
        cast = self._allocate(("zf",), "reduced_copy", "fp32") if self._plan.upcasts_reduction else None
        del copied, cast

    def end_backward(self) -> None:
        """Reduce what is left in a bucket, or what stage 1 has kept until now."""
        plan = self._plan
        if plan.fp32_gradients:
            upcast = self._allocate(("zx",), "fp32_gradient", "fp32")
            del upcast
            self._forget_gradients()
        elif plan.stage == 1 and self._last:
            copied = self._allocate(("zf",), "reduced_copy") if plan.contiguous else None
            self._part()
            del copied
            self._forget_gradients()
        elif plan.stage >= 2:
            self._reduce()
        self._buckets.clear()

    def _forget_gradients(self) -> None:
        """Those of all parameters have gone elsewhere."""
        for repeats, parameters in self.held:
            self.tape.enter("backward", "reduced gradients", repeats)
            for parameter in parameters:
                parameter.grad = None
        self.tape.enter("backward", "end")

    def _allocate(self, shape: Shape, rule: str, dtype: str | None = None) -> Storage:
        with self.tape.at("optimizer"):
            return self.tape.allocate(shape, dtype or self._dtype, rule)


class DeepSpeed3(DeepSpeed):
    """Stage 3 besides gathers parameters, and keeps some."""

    def __init__(self, tape: Tape, recipe: Recipe) -> None:
        super().__init__(tape, recipe)
        self._gathered: Storage | None = None
        self._quantized: Storage | None = None
        """What gathers in 8 bits need in addition."""

    def evaluated(self) -> None:
        """Every module's parameters are released after it."""
        self._gathered = self._quantized = None

    def enter(self, unit: str, x: Tensor) -> Tensor:
        """Parameters of the module at hand and of those fetched ahead are there throughout."""
        if self._gathered is None:
            self._gather("zm")
            if self._plan.quantized_weights:
                self._quantized = self._allocate(("zq",), "quantized_parameter", "int8")
        return x

    def _gather(self, elements: Axis) -> None:
        """On a stream of its own (`__allgather_stream`)."""
        self._gathered = None
        with self.tape.stream(GATHER):
            self._gathered = self._allocate((elements,), "gathered_parameter")

    def _copy_bucket(self) -> None:
        """On a stream of its own (`reduce_and_partition_stream`), where gradients also leave for the host.

        There a rank's part comes back to the GPU, is cast to fp64 for its norm and to fp32 for the optimizer
        (`partition_grads`, `_offload_grad_partition_at_boundary`).
        """
        dtype = "fp32" if self._plan.upcasts_reduction else None
        with self.tape.stream(REDUCE):
            cast = self._allocate(("zf",), "reduced_copy", dtype) if dtype else None
            copied = self._allocate(("zf",), "reduced_copy", dtype)
            if self._plan.fp32_partitions and not dtype:
                upcast = self._allocate((Quotient(("zf",), "z"),), "fp32_gradient", "fp32")
                del upcast
            if self._plan.offloads_optimizer != "none":
                part: Axis = Quotient(("zf",), "z")
                back = self._allocate((part,), "reduced_copy")
                norm = self._allocate((Smaller(part, _NORMED),), "fp64_gradient", "fp64")
                del norm
                upcast = self._allocate((part,), "fp32_gradient", "fp32")
                del back, upcast
            del copied, cast

    def leave(self, unit: str, y: Tensor) -> Tensor:
        """Those of the last modules stay for the backward pass (`__params_to_release`)."""
        if unit == self.recipe.last_unit:
            self._gather("zl")
        repeats = self._repeats.get(unit)
        if repeats is not None and y.node is not None:
            y.node.before.append(lambda: self._released(unit, repeats))
        return super().leave(unit, y)

    def _released(self, unit: str, repeats: str) -> None:
        """The backward pass is beyond the last modules."""
        self.tape.enter("backward", "released parameters")
        self._gather("zm")
        self.tape.enter("backward", unit, repeats)

    def end_backward(self) -> None:
        """All parameters are released (`reset_step`)."""
        super().end_backward()
        self._gathered = self._quantized = None


def _parts_of(recipe: Recipe) -> Shape:
    """This rank's part of all gradients, of a symbol that is their number."""
    return ("zw",) if plan_of(recipe).experts else (Quotient(("zp",), "z"),)


def _learned(weights: Weights, recipe: Recipe) -> list[tuple[Shape, str]]:
    """Return parameters that learn, and the ranks that share them."""
    plan = plan_of(recipe)
    return [
        ((count, *weight.stored_shape), shared_by(weight) if plan.experts else "z")
        for weight, count in weights
        if learns(weight, recipe.network)
    ]


def shared_by(weight: Weight) -> str:
    """Return the symbol of the ranks that share a parameter, where experts have groups of their own."""
    return "ze" if weight.kind == "routed-expert" else "z"


def part_of(weight: Weight, ranks: str = "z") -> tuple[Shape, ...]:
    """Return a rank's part of a parameter: of all elements, rounded up."""
    return ((Quotient(weight.stored_shape, ranks),),)


def optimized(weight: Weight, recipe: Recipe) -> tuple[tuple[Shape, ...], str]:
    """The optimizer updates a flat fp32 copy of this rank's part; on the host, if it is offloaded."""
    plan = plan_of(recipe)
    if plan.offloads_optimizer != "none":
        return ((0,),), "fp32"
    own = part_of(weight, shared_by(weight) if plan.experts else "z")
    return (own if plan.stage else weight.stored_axes), plan.copies


def _total(weights: Weights, recipe: Recipe, *, shared: bool) -> Axis:
    learned = _learned(weights, recipe)
    if shared:
        return Total("N/z", tuple((shape[0], Quotient(shape[1:], ranks)) for shape, ranks in learned))
    return Total("N", tuple(shape for shape, _ in learned))


def buffers(weights: Weights, recipe: Recipe) -> Sequence[Buffer]:
    """Flat partitions, and what stage 3 keeps in addition."""
    plan = plan_of(recipe)
    if not _learned(weights, recipe):
        return ()
    return list(_buffers(weights, recipe, plan))


def _buffers(weights: Weights, recipe: Recipe, plan: ZeroPlan) -> Iterator[Buffer]:
    dtype = recipe.precision.parameter
    part = _total(weights, recipe, shared=plan.stage > 0)
    if plan.offloads_optimizer == "none":
        yield _flat(f"{plan.copies}_partition", (part,), plan.copies)
    elif plan.stage < 3:
        yield _flat("offload_buffer", ("zx",), dtype)
    if plan.fp32_gradients:
        yield _flat("accumulated_gradients", (_total(weights, recipe, shared=False),), "fp32")
    if plan.stage == 3:
        if plan.offloads_optimizer == "none":
            yield _flat("partitioned_gradients", (part,), "fp32" if plan.fp32_partitions else dtype)
        if plan.contiguous:
            yield _flat("reduce_bucket", ("zr",), dtype)
        yield _flat("kept_parameters", ("zk",), dtype)
        if plan.secondary:
            yield _flat("secondary_partition", (Quotient((_total(weights, recipe, shared=False),), "zh"),), dtype)


def _flat(rule: str, shape: Shape, dtype: str) -> Buffer:
    return Buffer(rule=rule, module="optimizer", shape=shape, dtype=dtype)


def stepping(weights: Weights, recipe: Recipe) -> Sequence[Buffer]:
    """Gradients made flat and cast to fp32, of stage 3 one sub-group at a time; without ZeRO cast one by one first.

    A cast to the dtype that they have is none.
    """
    plan = plan_of(recipe)
    if plan.offloads_optimizer != "none" or plan.fp32_gradients or not _learned(weights, recipe):
        return ()
    dtype = recipe.precision.parameter
    if plan.stage == 0:
        shape: Shape = (_total(weights, recipe, shared=False),)
        return [_flat("fp32_gradient", shape, "fp32") for _ in range(2)]
    if plan.fp32_partitions:
        return [_flat("fp32_gradient", ("zg",), "fp32")]  # made flat, which is all
    if plan.copies == dtype:
        return [_flat("flat_gradient", ("zg",), dtype)]
    shape = ("zg",) if plan.stage == 3 else (_total(weights, recipe, shared=True),)
    return [_flat("fp32_gradient", shape, "fp32"), _flat("flat_gradient", shape, dtype)]


def host(weights: Weights, recipe: Recipe) -> Sequence[Buffer]:
    """Return what one process keeps in host memory, pinned; states on NVMe are read in parts."""
    plan = plan_of(recipe)
    part: Shape = (_total(weights, recipe, shared=True),)
    dtype, found = recipe.precision.parameter, []
    if plan.offloads_optimizer == "cpu":
        rules = ("fp32_partition", "fp32_gradient", "exp_avg", "exp_avg_sq")
        found += [_flat(rule, part, "fp32") for rule in rules]
        found.append(_flat("partitioned_gradients" if plan.stage == 3 else "flat_parameters", part, dtype))
        if plan.stage < 3:
            found.append(_flat("offload_buffer", ("zx",), dtype))
            if recipe.micro_batches > 1:
                found.append(_flat("partitioned_gradients", part, dtype))
    if plan.offloads_parameters == "cpu":
        found.append(_flat("parameter", part, dtype))
    if "nvme" in (plan.offloads_optimizer, plan.offloads_parameters):
        found.append(_flat("swap_buffer", ("zs",), dtype))
    return found


_PRESETS = {
    "fp32": precision("fp32"),
    "tf32": precision("fp32"),
    "bf16-mixed": precision("bf16"),
    "fp16-mixed": precision("fp16"),
}


def of_stage(share: Model, sizes: Mapping[str, int]) -> Mapping[str, int]:
    """Return the numbers of elements of one stage of a pipeline, under ZeRO-1."""
    counted = [(product(weight.shape, sizes), count) for weight, _, count in share.tensors]
    learned = sum(size * count for size, count in counted)
    return {"zp": learned, "zf": min(sizes["zr"], learned), "zx": max(size for size, _ in counted)}


ENGINE = Engine(
    name="deepspeed",
    title="DeepSpeed",
    runtime=DeepSpeed,
    presets=_PRESETS,
    default_preset="bf16-mixed",
    stored=lambda weight: weight.stored_axes,
    buffers=buffers,
    optimized=optimized,
    stepping=stepping,
    host=host,
    stage_sizes=of_stage,
    offloads=lambda recipe: recipe.sharding.offloaded or plan_of(recipe).offloads_optimizer != "none",
)
STAGE_3 = replace(ENGINE, runtime=DeepSpeed3, stored=part_of, key="deepspeed3")
"""ZeRO-3 also shares the parameters."""
OFFLOADED = replace(STAGE_3, stored=lambda weight: ((0,),), key="deepspeed3-offload")
"""It may keep its part on the host."""


ENGINES: Mapping[str, Engine] = {each.key or each.name: each for each in (ENGINE, STAGE_3, OFFLOADED)}
