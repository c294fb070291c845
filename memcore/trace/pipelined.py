"""Recording a step on one stage of a pipeline: several micro-batches are in flight before the first backward pass.

Follows torch/distributed/pipelining/schedules.py and stage.py: a stage runs its warm-up forward passes, then one
forward and one backward pass in turn, then what is left; backward passes come in the order of the forward passes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import field

from memcore import registry
from memcore.records import dataclass
from memcore.symbols import Shape, split_over
from memcore.tensors.autograd import Gradient, attach, backward
from memcore.tensors.basics import like, new
from memcore.tensors.tape import Storage
from memcore.tensors.tensor import Tensor
from memcore.trace.recipe import Pipeline
from memcore.trace.step import Batch, Forward, Step

IN_FLIGHT, MICRO_BATCHES, UNRECORDED = "mf", "mb", "mu"
"""Symbols: micro-batches in flight that one stands for, of the step, and of the step that are not recorded."""


SENT = "sent"
"""When a stage frees what it has sent to the next."""


@dataclass(slots=True)
class Flight:
    """A micro-batch between its forward and its backward pass."""

    output: Tensor
    source: Tensor
    """What the stage was given; for the first stage, tokens."""
    given: list[Gradient] = field(default_factory=list)
    """The gradient of the source, for the stage before."""
    held: object = None
    """What the schedule keeps of it until its backward pass has ended."""


class Runtime:
    """What a schedule keeps at least: inputs and outputs of the micro-batches in flight, and nothing else."""

    def __init__(self, step: Step) -> None:
        self.step = step
        embedding_and_head = step.recipe.network.embedding_and_head
        self.first, self.last = embedding_and_head.reads_tokens, embedding_and_head.predicts
        self.dtype = step.recipe.precision.compute
        divided = step.recipe.tensor is not None and step.recipe.tensor.sequence
        self.shape: Shape = ("b", split_over("s") if divided else "s", "h")

    def begin(self) -> None:
        """Before the first micro-batch."""

    def tokens_and_labels(self) -> tuple[Tensor, Tensor]:
        """Of one micro-batch."""
        first, second = (new(self.step.tape, ("b", "s"), "int64", "inputs") for _ in range(2))
        return first, second

    def received(self) -> Tensor:
        """Hidden states of the stage before."""
        return new(self.step.tape, self.shape, self.dtype, "received_activation")

    def received_gradient(self, flight: Flight) -> Tensor:
        """Return the gradient from the stage after."""
        return like(flight.output, "received_gradient")

    def flew(self, output: Tensor, kept: object, *, final: bool) -> None:
        """After a forward pass; `final`: it is the last one that is recorded."""

    def holds(self, kept: object) -> object:
        """Return what of the model's outputs stays until the backward pass."""

    def landed(self, flight: Flight) -> None:
        """After a backward pass."""

    def reduces_with(self, *, final: bool) -> bool:
        """Return whether a backward pass also ends the data-parallel engine's step."""
        return final

    def end(self) -> None:
        """After the last micro-batch."""


class PipeliningRuntime(Runtime):
    """torch.distributed.pipelining: local variables, lists and buffers of its schedules keep more."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        plan = step.recipe.pipeline
        self._returns = plan is not None and plan.returns_outputs
        self._skips = plan is not None and plan.skips
        self._whole: Tensor | None = None
        """The token ids or labels of all micro-batches."""
        self._output: object = None
        """`output` of the schedule, until the next forward pass has ended."""
        self._sends: list[Gradient] = []
        """`bwd_sends` of the schedule, until the next backward pass has ended."""
        self._losses: list[Tensor] = []
        """`_internal_losses` of the schedule, until the step ends."""
        self.returned: list[Tensor] = []
        """`output_chunks` of the last stage, which stay until the next step begins."""

    def begin(self) -> None:
        """The inputs of all micro-batches come as one tensor."""
        if self.first or self.last:
            self._whole = new(self.step.tape, (MICRO_BATCHES, "b", "s"), "int64", "inputs")

    def tokens_and_labels(self) -> tuple[Tensor, Tensor]:
        """Parts of it."""
        storage = None if self._whole is None else self._whole.storage
        first, second = (Tensor(self.step.tape, storage, ("b", "s"), "int64") for _ in range(2))
        return first, second

    def received(self) -> Tensor:
        """They lie in a buffer that stays from step to step."""
        return Tensor(self.step.tape, None, self.shape, self.dtype)

    def received_gradient(self, flight: Flight) -> Tensor:
        """It lies in such a buffer too."""
        return Tensor(self.step.tape, None, flight.output.shape, flight.output.dtype)

    def flew(self, output: Tensor, kept: object, *, final: bool) -> None:
        """The last stage may keep its outputs, those of micro-batches that are not recorded included."""
        self._output = output
        if not self.last:
            return
        self._losses.append(output.detach())
        if final and self._skips and output.storage is not None:
            self.step.tape.enter("forward", "losses of other micro-batches")
            self.step.tape.multiply(output.storage, UNRECORDED)
        self._output = logits = kept[0] if isinstance(kept, tuple) else kept
        if not (self._returns and isinstance(logits, Tensor)):
            return
        self.returned.append(logits.detach())
        if final and self._skips:
            self.step.tape.enter("forward", "outputs of other micro-batches", UNRECORDED)
            self.returned.append(new(self.step.tape, logits.shape, logits.dtype, "returned_output"))

    def holds(self, kept: object) -> object:
        """Return the last stage's logits, in `fwd_cache`."""
        return (kept[0] if isinstance(kept, tuple) else kept) if self.last else None

    def landed(self, flight: Flight) -> None:
        """The gradient is sent after the next forward pass."""
        self._sends = list(flight.given)

    def reduces_with(self, *, final: bool) -> bool:
        """Return whether gradients are reduced after all backward passes (`perform_reduce_grad`)."""
        return False

    def end(self) -> None:
        """Reduce gradients, and merge the outputs for the caller."""
        step = self.step
        step.tape.enter("backward", "end")
        step.runtime.begin_backward(last=True)
        step.runtime.end_backward()
        self._sends, self._losses = [], []
        if self.returned:
            step.tape.enter("backward", "outputs of the last stage")
            shape = (MICRO_BATCHES, *self.returned[0].shape)
            merged = new(step.tape, shape, self.returned[0].dtype, "returned_output")
            del merged
        self._output = self._whole = None


RUNTIMES: Mapping[str, type[Runtime]] = {
    "ideal": Runtime,
    "torch": PipeliningRuntime,
}
"""PyTorch's own, by name."""


def runtime_of(name: str) -> type[Runtime]:
    """Return the runtime of a pipeline: PyTorch's own, or a trainer's."""
    found: type[Runtime] = RUNTIMES.get(name) or registry.row("pipeline", "RUNTIMES", name)
    return found


def record_stage(step: Step, forward: Forward, plan: Pipeline) -> Runtime:
    """Run the micro-batches of a step on one stage; the runtime keeps what outlives the step."""
    runtime = runtime_of(plan.runtime)(step)
    live: deque[Flight] = deque()
    done = 0
    step.tape.enter("forward", "inputs")
    runtime.begin()
    for number in range(plan.runs):
        step.tape.turn = (0, min(number, 1))
        final = number == plan.runs - 1
        stands = plan.stands and number == plan.warm - 1
        live.append((standing if stands else fly)(runtime, forward, final=final))
        if number >= plan.warm:
            land(runtime, live.popleft(), done, final=done == plan.runs - 1)
            done += 1
    while live:
        land(runtime, live.popleft(), done, final=done == plan.runs - 1)
        done += 1
    runtime.end()
    step.tape.finish()
    return runtime


def fly(runtime: Runtime, forward: Forward, *, final: bool) -> Flight:
    """Return the forward pass of a micro-batch."""
    step = runtime.step
    step.tape.enter("forward", "inputs")
    given: list[Gradient] = []
    if runtime.first or runtime.last:
        tokens, labels = runtime.tokens_and_labels()
        source = tokens if runtime.first else _received(runtime, given)
        batch = Batch(source, labels, None, {})
        del tokens, labels
    else:
        source = _received(runtime, given)
        batch = Batch(source, source, None, {})
    autocast = step.recipe.precision.autocast
    with step.tape.autocasting(autocast) if autocast else nullcontext():
        output, kept = forward(step, batch)
    runtime.flew(output, kept, final=final)
    return Flight(output, source, given, runtime.holds(kept))


def _received(runtime: Runtime, given: list[Gradient]) -> Tensor:
    """Hidden states of the stage before, whose gradient it gets back."""

    def keep(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        given.extend(gradients)
        return []

    hidden_states = runtime.received()
    attach([hidden_states], [], [], keep)
    return hidden_states


def standing(runtime: Runtime, forward: Forward, times: str = IN_FLIGHT, *, final: bool) -> Flight:
    """Return the forward pass of a micro-batch that stands for several: what it leaves behind is there as often."""
    tape = runtime.step.tape
    tape.flight = []
    found = fly(runtime, forward, final=final)
    allocated, tape.flight = tape.flight, None
    places: dict[tuple[str, str | None], list[Storage]] = {}
    for reference, place, repeats in allocated:
        storage = reference()
        if storage is not None:
            places.setdefault((place, repeats), []).append(storage)
    del storage
    for (_, repeats), storages in places.items():
        tape.enter("forward", "more micro-batches", repeats)
        while storages:
            tape.multiply(storages.pop(), times)
    tape.enter("forward", "more micro-batches")
    return found


def land(runtime: Runtime, flight: Flight, number: int, *, final: bool) -> None:
    """The backward pass of a micro-batch."""
    step = runtime.step
    step.tape.turn = (0, min(number, 1))
    step.runtime.begin_backward(last=runtime.reduces_with(final=final))
    gradient = None
    if runtime.last:
        step.tape.enter("loss", "gradient of the loss")
    else:
        step.tape.enter("backward", "received gradient")
        gradient = runtime.received_gradient(flight)
    backward(flight.output, gradient)
    step.tape.enter("backward", "end")
    step.runtime.end_backward()  # autograd's last callback: whoever called the backward pass still has the gradient
    del gradient
    runtime.landed(flight)
