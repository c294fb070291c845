"""What DeepSpeed's pipelines keep of micro-batches in flight."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from memcore.symbols import split_over
from memcore.tensors.basics import like, new
from memcore.tensors.tensor import Tensor
from memcore.trace.pipelined import SENT, Flight, Runtime
from memcore.trace.step import Step
from memcore.trainers.megatron.step_plan import MegatronPlan


class DeepSpeedRuntime(Runtime):
    """DeepSpeed's PipelineEngine: a stage keeps what came, the copy of it that it computes with, and its output.

    Tensor-parallel ranks send a part each, and keep that of an output alone until its backward pass.
    """

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        plan = step.recipe.plan(MegatronPlan)
        self._partitioned = plan is not None and plan.tensor
        divided = plan is not None and plan.sequence
        self.shape = (split_over("s") if divided else "s", "b", "h")
        self._kept: deque[Tensor] = deque()
        """`pipe_buffers` of the micro-batches in flight: inputs, or parts of outputs."""

    def received(self) -> Tensor:
        """Cloned out of a buffer that stays, and once more before the forward pass; parts are gathered instead."""
        if not self._partitioned:
            self._kept.append(new(self.step.tape, self.shape, self.dtype, "received_activation"))
        return new(self.step.tape, self.shape, self.dtype, "received_activation")

    def flew(self, output: Tensor, kept: object, *, final: bool) -> None:
        """Of an output that was sent in parts, its own part stays."""
        if self._partitioned and not self.last:
            self.step.tape.enter("forward", SENT)
            part = (split_over(self.shape[0]), *self.shape[1:])
            self._kept.append(new(self.step.tape, part, self.dtype, "partitioned_activation"))
            output.storage = None

    def received_gradient(self, flight: Flight) -> Tensor:
        """It lies in a buffer that stays; parts are gathered, and those of the output too."""
        output, tape = flight.output, self.step.tape
        if not self._partitioned:
            return Tensor(tape, None, output.shape, output.dtype)
        output.storage = tape.allocate(output.shape, output.dtype, "gathered_activation")
        return like(output, "received_gradient")

    def landed(self, flight: Flight) -> None:
        """The buffers of a micro-batch are free."""
        if self._kept:
            self._kept.popleft()


RUNTIMES: Mapping[str, type[Runtime]] = {"deepspeed": DeepSpeedRuntime}
