"""What Megatron-Core's schedules keep of micro-batches in flight."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.symbols import split_over
from memcore.tensors.basics import new
from memcore.tensors.tensor import Tensor
from memcore.trace.pipelined import SENT, Flight, Runtime
from memcore.trace.step import Step
from memcore.trainers.megatron.step_plan import MegatronPlan


class MegatronRuntime(Runtime):
    """Megatron-Core: an output goes as soon as it is sent (`deallocate_output_tensor`)."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        plan = step.recipe.plan(MegatronPlan)
        divided = plan is not None and plan.sequence
        self.shape = (split_over("s") if divided else "s", "b", "h")

    def flew(self, output: Tensor, kept: object, *, final: bool) -> None:
        """Free what was sent: only a scalar of it stays."""
        if not self.last:
            self.step.tape.enter("forward", SENT)
            output.storage = None

    def received_gradient(self, flight: Flight) -> Tensor:
        """From the stage after."""
        return new(self.step.tape, flight.output.shape, flight.output.dtype, "received_gradient")


RUNTIMES: Mapping[str, type[Runtime]] = {"megatron": MegatronRuntime}
