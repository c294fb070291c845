"""nanotron: gradients accumulate in one fp32 buffer, and the optimizer updates an fp32 copy of the parameters.

Source: huggingface/nanotron, optim/gradient_accumulator.py (FP32GradientAccumulator), optim/zero.py
(ZeroDistributedOptimizer), distributed.py (all_gather_coalesced), trainer.py. A backward pass leaves 16-bit gradients,
which are added to the buffer when it has ended. ZeRO-1 shares the copy and Adam's states among data-parallel ranks;
every rank keeps the whole gradient buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from memcore.networks.weights import Weight
from memcore.symbols import Axis, Quotient, Shape, Total
from memcore.trace.engine import Engine, Holding, precision
from memcore.trace.recipe import Buffer, Recipe
from memcore.trainers.nanotron.network import stage_of, waits
from memcore.trainers.nanotron.step_plan import NanotronPlan


class Nanotron(Holding):
    """16-bit gradients live until the backward pass of their micro-batch has ended."""

    def end_backward(self) -> None:
        """Add gradients to the buffer, and free them (`FP32GradientAccumulator.backward`)."""
        if not plan_of(self.recipe).fp32_gradients:
            return
        for repeats, parameters in self.held:
            self.tape.enter("backward", "accumulation in fp32", repeats)
            for parameter in parameters:
                parameter.grad = None
        self.tape.enter("backward", "end")


def plan_of(recipe: Recipe) -> NanotronPlan:
    """Return what nanotron was told."""
    plan = recipe.plan(NanotronPlan)
    if plan is None:
        raise TypeError(recipe)
    return plan


def _part(weight: Weight) -> Shape:
    """Return a data-parallel rank's part of a parameter under ZeRO-1: of all elements, rounded up."""
    return (Quotient(weight.shape, "z"),)


def optimized(weight: Weight, recipe: Recipe) -> tuple[tuple[Shape, ...], str]:
    """Return what the optimizer is given: a part of a parameter, or of its fp32 copy."""
    plan = plan_of(recipe)
    axes = (_part(weight),) if plan.zero_stage else weight.axes
    return axes, "fp32" if plan.fp32_gradients else recipe.precision.parameter


def buffers(weights: Sequence[tuple[Weight, int]], recipe: Recipe) -> Sequence[Buffer]:
    """Flat buffers of all parameters of a rank, and those that collectives gather sequences in."""
    plan = plan_of(recipe)
    shapes = tuple((count, *weight.shape) for weight, count in weights)
    parts = tuple((count, *_part(weight)) for weight, count in weights) if plan.zero_stage else shapes
    found = []
    if plan.fp32_gradients and shapes:
        found.append(_flat("fp32_gradients", "grad_accumulator", Total("N", shapes), "fp32"))
        found.append(
            _flat("master_parameter", "grad_accumulator", Total("N/z" if plan.zero_stage else "N", parts), "fp32")
        )
    if recipe.sharding.gathers and not (plan.fp32_gradients and plan.zero_stage) and shapes:
        found.append(_flat("ddp_buckets", "reducer", Total("N", shapes), recipe.precision.parameter))
    return [*found, *_gathering(recipe, plan)]


def _flat(rule: str, module: str, elements: Total, dtype: str) -> Buffer:
    return Buffer(rule=rule, module=module, shape=(elements,), dtype=dtype)


def _gathering(recipe: Recipe, plan: NanotronPlan) -> Iterator[Buffer]:
    """`MemoryBuffer`: a singleton that stays, one buffer for inputs and one for gradients of outputs."""
    embedding_and_head = recipe.network.embedding_and_head
    if not (plan.tensor and plan.scatters) or not (recipe.network.runs or embedding_and_head.predicts):
        return
    names = ["allgather"] * plan.gathers_again + ["allgather2"] * (plan.overlaps and bool(recipe.network.runs))
    for name in names:
        yield Buffer(rule="gather_buffer", module=name, shape=("s", "b", "h"), dtype=recipe.precision.compute)


def stepping(weights: Sequence[tuple[Weight, int]], recipe: Recipe) -> Sequence[Buffer]:
    """ZeRO-1's all-gather of the parameters: flat copies of this rank's part, of each rank's, NCCL's of all."""
    plan = plan_of(recipe)
    if not (plan.zero_stage and recipe.sharding.gathers) or not weights:
        return ()
    part = Total("N/z", tuple((count, *_part(weight)) for weight, count in weights))
    gathered: Sequence[tuple[Shape, Axis]] = (((part,), 1), ((part,), "z"), (("z", part), 1))
    return [
        Buffer(
            rule="gathered_parameters",
            module="optimizer",
            shape=shape,
            dtype=recipe.precision.parameter,
            times=times,
        )
        for shape, times in gathered
    ]


ENGINE = Engine(
    name="nanotron",
    title="nanotron",
    runtime=Nanotron,
    presets={"bf16-mixed": precision("bf16", reduce="fp32"), "bf16": precision("bf16")},
    default_preset="bf16-mixed",
    stored=lambda weight: weight.stored_axes,
    buffers=buffers,
    optimized=optimized,
    stepping=stepping,
    stage=stage_of,
    waits=waits,
    alike=lambda recipe: plan_of(recipe).fp32_gradients,
    overlaps=lambda recipe: plan_of(recipe).tensor,
)
ENGINES: Mapping[str, Engine] = {ENGINE.name: ENGINE}
