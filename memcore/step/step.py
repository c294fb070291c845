"""Recording a step: the implementation's forward pass, the loss and the backward pass under the engine's hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product

from memcore.eager.autograd import backward, checkpoint
from memcore.eager.basics import new
from memcore.eager.tape import Held, Tape
from memcore.eager.tensor import Parameter, Tensor
from memcore.engines.base import Runtime
from memcore.model.network import Layer
from memcore.step.recipe import HEAD, TAIL, Recipe

Forward = Callable[["Step", "Batch"], "tuple[Tensor, Tensor | None]"]
"""A model's forward pass: the loss, and the logits if the model's output object still holds them."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The inputs of one micro-batch."""

    tokens: Tensor
    labels: Tensor
    mask: Tensor | None


@dataclass(frozen=True, slots=True)
class Slot:
    """One recorded layer; `repeats` names how many it stands for."""

    layer: Layer
    unit: str
    """`run.repetition.position`, counting the recorded repetitions."""
    weights: Mapping[str, Parameter]
    repeats: str | None


class Step:
    """A step in the making: what an implementation's forward pass asks for while it runs."""

    def __init__(self, recipe: Recipe, runtime: Callable[[Tape, Recipe], Runtime]) -> None:
        self.recipe = recipe
        self.tape = Tape(units=recipe.units, fake=recipe.fake)
        self.runtime = runtime(self.tape, recipe)
        self.weights = dict(self.runtime.ends(recipe.network.ends.weights()))
        if recipe.network.ends.tied:
            self.weights[f"{recipe.network.ends.head.name}.weight"] = self.weights[recipe.network.ends.embedding.name]
        self.slots = list(self._slots())
        self.cache: Held[list[Tensor]] = {}
        """Keys and values, if `use_cache` was left on."""

    def _slots(self) -> Iterator[Slot]:
        for run, pattern in enumerate(self.recipe.network.runs):
            for index, repeats in enumerate(repetitions(run, self.recipe.repeats[run])):
                for position, layer in enumerate(pattern):
                    unit = f"{run}.{index}.{position}"
                    yield Slot(layer, unit, self.runtime.layer(unit, layer, repeats), repeats)

    def record(self, forward: Forward) -> None:
        """Run the micro-batches of a step; and of a second one, if gradients are kept between steps."""
        for turn in product(range(2 if self.recipe.keeps_gradients else 1), range(self.recipe.micro_batches)):
            self.tape.turn = turn
            self.runtime.begin_micro_batch(last=turn[1] == self.recipe.micro_batches - 1)
            self.tape.enter("forward", "inputs")
            self._micro_batch(forward, self._batch())
        self.tape.finish()

    def _micro_batch(self, forward: Forward, batch: Batch) -> None:
        if self.recipe.precision.autocast:
            with self.tape.autocasting(self.recipe.precision.autocast):
                loss, outputs = forward(self, batch)
        else:
            loss, outputs = forward(self, batch)
        if not self.recipe.loss.keeps_outputs:
            outputs = None
            self.forget_cache()
        self.tape.enter("loss", "gradient of the loss")
        backward(loss)
        self.tape.enter("backward", "end")
        self.runtime.end_backward()
        del outputs
        self.forget_cache()

    def forget_cache(self) -> None:
        """The model's outputs go, and with them the keys and values that nobody read."""
        self.tape.let_go(self.cache, "end of the cache")

    def _batch(self) -> Batch:
        with self.tape.at("inputs"):
            tokens, labels = (new(self.tape, ("b", "s"), "int64", "inputs") for _ in range(2))
            mask = new(self.tape, ("b", "s"), "int64", "inputs") if self.recipe.padded else None
            return Batch(tokens, labels, mask)

    def enter(self, unit: str, x: Tensor) -> Tensor:
        """Before a unit that an engine may treat as one: `root`, `embedding` or `head`."""
        return self.runtime.enter(unit, x)

    def leave(self, unit: str, y: Tensor) -> Tensor:
        """After such a unit."""
        return self.runtime.leave(unit, y)

    def layer(self, slot: Slot, forward: Callable[[Slot, Tensor], Tensor], x: Tensor) -> Tensor:
        """Run a layer: a unit of the engine, checkpointed if the recipe says so."""
        self.tape.enter("forward", slot.unit, slot.repeats)
        with self.tape.at(f"{self.recipe.network.path}.*"):
            x = self.runtime.enter(slot.unit, x)
            run = partial(forward, slot)
            y = checkpoint(run, x, early_stop=self.recipe.early_stop) if self.recipe.checkpointed else run(x)
            y = self.runtime.leave(slot.unit, y)
        self._backward_begins(y, "backward", slot.unit, slot.repeats)
        return y

    def after_layers(self) -> None:
        """The forward pass leaves the layers."""
        self.tape.enter("forward", "final norm")

    def embedded(self, x: Tensor) -> None:
        """The embedding's output exists."""
        self._backward_begins(x, "backward", "embedding")

    def loss_begins(self, hidden_states: Tensor) -> None:
        """The head comes next: from here until the hidden states' gradient exists it is the loss's turn."""
        self.tape.enter("loss", "head and loss")
        self._backward_begins(hidden_states, "backward", "final norm")

    def _backward_begins(self, x: Tensor, phase: str, place: str, repeats: str | None = None) -> None:
        tape = self.tape
        if x.node is not None:
            x.node.before.insert(0, lambda: tape.enter(phase, place, repeats))


def repetitions(run: int, count: int) -> list[str | None]:
    """For each recorded repetition of a run's pattern, the name of how many it stands for."""
    if count <= HEAD + TAIL:
        return [None] * count
    return [None] * HEAD + [f"run {run}"] + [None] * TAIL
