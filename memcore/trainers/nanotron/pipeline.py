"""What nanotron's pipelines keep of micro-batches in flight."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.symbols import Axis, split_over
from memcore.tensors.tensor import Tensor
from memcore.trace.pipelined import SENT, Flight, Runtime
from memcore.trace.step import Step
from memcore.trainers.nanotron.step_plan import NanotronPlan


class NanotronRuntime(Runtime):
    """nanotron keeps no outputs: they go when they are sent. Sequences come first (parallel/pipeline_parallel)."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        embedding_and_head, plan = step.recipe.network.embedding_and_head, step.recipe.plan(NanotronPlan)
        words: Axis = "V"
        if plan is not None and plan.tensor:
            words = split_over("V")
        tokens: Axis = split_over("s") if plan is not None and plan.scatters else "s"
        self.last = embedding_and_head.finish.endswith("loss") or (
            embedding_and_head.predicts and embedding_and_head.finish != "logits"
        )
        logits = embedding_and_head.finish in ("cast", "loss", "cast loss")
        self.shape = ("s", "b", words) if logits else (tokens, "b", "h")
        self.dtype = "fp32" if embedding_and_head.finish == "cast loss" else self.dtype

    def flew(self, output: Tensor, kept: object, *, final: bool) -> None:
        """The graph goes on from what was sent, whose memory is free when NCCL has sent it (`recordStream`)."""
        tape = self.step.tape
        if not self.last and output.storage is not None:
            tape.enter("forward", SENT)
            self._communicated(output)
            output.storage = None

    def _communicated(self, tensor: Tensor) -> None:
        """NCCL sends or receives it."""
        tape = self.step.tape
        if tensor.storage is not None:
            tape.collectives.append((len(tape.events), {tensor.storage.block}))

    def received_gradient(self, flight: Flight) -> Tensor:
        """It is a view of the bytes that were received (`P2PTensorMetaData.create_empty_storage`)."""
        found = super().received_gradient(flight)
        found.viewed = True
        self._communicated(found)
        return found

    def received(self) -> Tensor:
        """Return bytes that NCCL writes on a stream of its own (`recordStream`)."""
        found = super().received()
        self._communicated(found)
        return found


RUNTIMES: Mapping[str, type[Runtime]] = {"nanotron": NanotronRuntime}
