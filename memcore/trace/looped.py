"""Recording a step on a rank that has several stages of a pipeline: its fullest moment, for every stage.

How many micro-batches are in flight follows from the schedule (`schedules.py`). As many as there are before the forward
pass after which there is most of them are recorded as one for each stage; then each stage runs a forward and a backward
pass on top of them, twice, so that gradients are there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memcore.tensors.basics import new
from memcore.tensors.tensor import Tensor
from memcore.trace.pipelined import IN_FLIGHT, SENT, Flight, PipeliningRuntime, Runtime, fly, land, runtime_of, standing
from memcore.trace.recipe import Pipeline
from memcore.trace.schedules import BOTH_WAYS
from memcore.trace.step import Forward, Step

TURNS = 2
"""Times that every stage runs at the fullest moment."""


def in_flight(chunk: int) -> str:
    """The symbol of how many micro-batches one stands for, on a stage of the rank."""
    return IN_FLIGHT + "′" * chunk


class LoopedRuntime(PipeliningRuntime):
    """`_PipelineScheduleRuntime`: actions are functions, which keep nothing when they are done."""

    def flew(self, output: Tensor, kept: object, *, final: bool) -> None:
        """Outputs are in the cache of the stage alone, those for the caller in a list."""
        super().flew(output, kept, final=final)
        self._output = None

    def landed(self, flight: Flight) -> None:
        """The gradient is sent at once."""


class BothWaysRuntime(LoopedRuntime):
    """DeepSeek's DualPipe: what comes is received when its turn is, and outputs are empty once they are sent.

    Source: dualpipe/dualpipe.py (`scatter` of a direction's inputs, `_recv_forward`, `to_free`) and dualpipe/comm.py.
    """

    def flew(self, output: Tensor, kept: object, *, final: bool) -> None:
        """`_free_tensors` before the next chunk."""
        super().flew(output, kept, final=final)
        if not self.last:
            self.step.tape.enter("forward", SENT)
            output.storage = None

    def holds(self, kept: object) -> object:
        """The last stage frees its outputs as soon as the loss exists."""
        return None

    def received(self) -> Tensor:
        """`append_irecv` makes a tensor for it."""
        return Runtime.received(self)

    def received_gradient(self, flight: Flight) -> Tensor:
        """And for its gradient."""
        return new(self.step.tape, flight.output.shape, flight.output.dtype, "received_gradient")


_RUNTIMES = {"torch": LoopedRuntime, BOTH_WAYS: BothWaysRuntime}


def record_rank(steps: Sequence[Step], forward: Forward, plan: Pipeline) -> Sequence[Runtime]:
    """Run the micro-batches of a step on the stages of a rank; the runtimes keep what outlives the step."""
    tape = steps[0].tape
    runtimes = [(_RUNTIMES.get(plan.runtime) or runtime_of(plan.runtime))(step) for step in steps]
    tape.enter("forward", "inputs")
    for runtime in runtimes:
        runtime.begin()
    tape.enter("forward", "parameters of all stages")
    for step in steps:
        step.runtime.gather_all()
    waiting = dict(_waiting(runtimes, forward, plan))
    for turn in range(TURNS):
        tape.turn = (0, min(turn, 1))
        for chunk, runtime in enumerate(runtimes):
            last = turn == TURNS - 1
            flight = fly(runtime, forward, final=last)
            land(runtime, flight, turn, final=last and chunk not in waiting)
            del flight
    for chunk in list(waiting):
        land(runtimes[chunk], waiting.pop(chunk), TURNS, final=True)
    for runtime in runtimes:
        runtime.end()
    tape.finish()
    return runtimes


def _waiting(runtimes: Sequence[Runtime], forward: Forward, plan: Pipeline) -> Iterator[tuple[int, Flight]]:
    """Yield one micro-batch of each stage that has any in flight."""
    for chunk, (runtime, count) in enumerate(zip(runtimes, plan.waiting, strict=True)):
        if count:
            several = standing(runtime, forward, in_flight(chunk), final=False) if count > 1 else None
            yield chunk, several or fly(runtime, forward, final=False)
            del several
