"""Recording a step: the implementation's forward pass, the loss and the backward pass under the engine's hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import groupby, product

from memcore.messages import Message
from memcore.networks.network import Layer
from memcore.networks.weights import Weight
from memcore.records import dataclass
from memcore.tensors.autograd import SavedTensor, attach, backward, checkpoint, memory_of
from memcore.tensors.basics import new
from memcore.tensors.dividing import checkpoint_divided
from memcore.tensors.offloading import Offload
from memcore.tensors.partitioned import Hosted, partitioned
from memcore.tensors.reentrant import checkpoint_reentrant
from memcore.tensors.tape import Held
from memcore.tensors.tensor import Parameter, Saved, Tape, Tensor
from memcore.trace.engine import Runtime
from memcore.trace.recipe import HEAD, TAIL, Checkpoints, Recipe
from memcore.trace.shared_blocks import SharedBlocks, repetition

Forward = Callable[["Step", "Batch"], "tuple[Tensor, object]"]
"""A model's forward pass: the loss, and what the model's output object still holds, such as the logits."""
Inputs = Callable[["Step"], "Mapping[str, Tensor]"]
"""What a model is given of the images of a micro-batch, by name."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The inputs of one micro-batch."""

    tokens: Tensor
    labels: Tensor
    mask: Tensor | None
    images: Mapping[str, Tensor]
    positions: Tensor | None = None
    """Position ids, where the trainer makes them."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One recorded layer; `repeats` names how many it stands for."""

    layer: Layer
    unit: str
    """`run.repetition.position`, counting the recorded repetitions; a tower's begins with its number and a colon."""
    path: str
    """The module, with `*` for the layer's number."""
    weights: Mapping[str, Parameter]
    repeats: str | None
    checkpointed: bool


class Step:
    """A step in the making: what an implementation's forward pass asks for while it runs."""

    def __init__(self, recipe: Recipe, runtime: Callable[[Tape, Recipe], Runtime], tape: Tape | None = None) -> None:
        self.recipe = recipe
        self.tape = tape or Tape(units=recipe.units, fake=recipe.fake, parallel=recipe.tensor)
        self.runtime = runtime(self.tape, recipe)
        self.tape.tiles = recipe.tiles
        self.tape.rounds = recipe.rounds
        self.tape.before_ampere = recipe.before_ampere
        self.tape.whole = recipe.loss.whole
        self.tape.steps = None if self.runtime.steps_itself else recipe.steps_in_backward
        self.weights = dict(
            self.runtime.outer_parameters(recipe.network.embedding_and_head.weights(), self._tower_weights())
        )
        for tower in recipe.network.towers if recipe.pictures else ():
            for unit in tower.units:
                self.weights |= self.runtime.unit(unit, unit, "", _below(unit, tower.outer_weights))
        embedding_and_head = recipe.network.embedding_and_head
        if (
            embedding_and_head.tied and embedding_and_head.embedding.name in self.weights
        ):  # not where a stage has only layers, or only the loss
            self.weights[f"{embedding_and_head.head.name}.weight"] = self.weights[embedding_and_head.embedding.name]
        self.slots = [slot for run in self._stack(None) for slot in run]
        towers = range(len(recipe.network.towers) if recipe.pictures else 0)
        self.towers = [list(self._stack(tower)) for tower in towers]
        """The layers of each run of each tower."""
        self._hosted = Hosted()
        """What checkpoints keep on the host."""
        self.reference: Step | None = None
        """The frozen copy of the model that an objective compares with, once it has run."""
        self.values: Tensor | None = None
        """What a value head says of each token, until the loss has it."""
        self.passed: Callable[[], None] | None = None
        """Asked when the first forward pass is over; what it raises ends the recording."""
        self.cache: Held[list[Tensor]] = {}
        """Keys and values, if `use_cache` was left on."""

    def _tower_weights(self) -> list[Weight]:
        """Return the towers' parameters outside their layers and units."""
        towers = self.recipe.network.towers
        own = [weight for tower in towers for unit in tower.units for weight in _below(unit, tower.outer_weights)]
        return [weight for tower in towers for weight in tower.outer_weights if weight not in own]

    def _stack(self, tower: int | None) -> Iterator[list[Slot]]:
        """The layers of each run of the decoder, or of a tower."""
        recipe = self.recipe
        stack = recipe.network if tower is None else recipe.network.towers[tower]
        counts = recipe.repeats if tower is None else recipe.tower_repeats[tower]
        checkpoints = recipe.checkpoints if tower is None or recipe.network.towers[tower].checkpointed else None
        labels = recipe.labels(tower)
        blocks = SharedBlocks()
        first = recipe.first_run if tower is None else 0
        for run, (pattern, count) in enumerate(zip(stack.runs, counts, strict=True), first):
            learns = tower is None or run <= max(recipe.network.towers[tower].taps)
            found = []
            recorded = repetitions(run_name(run, tower), count) if learns else [None] * count
            for index, repeats in enumerate(recorded):
                for position, layer in enumerate(pattern):
                    unit, path = f"{run}.{index}.{position}", f"{stack.path}.*"
                    unit = unit if tower is None else f"{tower}:{unit}"
                    weights = self.runtime.unit(unit, labels[layer], path, layer.weights(), repeats)
                    actual = repetition(index, len(recorded), count)
                    weights = blocks.weights(pattern, actual, position, weights)
                    skipped = checkpoints is None or (tower is None and (run, position) in checkpoints.skipped)
                    found.append(Slot(layer, unit, path, weights, repeats, checkpointed=not skipped))
            blocks.complete(pattern, count)
            yield found

    def record(self, forward: Forward, inputs: Inputs) -> None:
        """Run the micro-batches of a step; and of a second one, if gradients are kept between steps."""
        for turn in turns(self.recipe):
            self.tape.turn = turn
            self.runtime.begin_micro_batch(last=turn[1] == self.recipe.micro_batches - 1)
            self.tape.enter("forward", "inputs")
            self._micro_batch(forward, inputs)
        self.tape.finish()

    def ahead(self, forward: Forward, inputs: Inputs) -> object:
        """Run the forward pass of a micro-batch, and return what must live while the tape is read."""
        self.runtime.begin_micro_batch(last=True)
        self.tape.enter("forward", "inputs")
        kept = self._forward(forward, self._batch(inputs))
        self.tape.enter("loss", "end")
        self.tape.finish()
        return kept

    def evaluate(self, forward: Forward, inputs: Inputs) -> None:
        """Run a forward pass in evaluation mode; its outputs are there when it returns."""
        self.tape.evaluating = True
        self.runtime.begin_micro_batch(last=True)
        self.tape.enter("forward", "inputs")
        with self.tape.no_grad(), self.tape.autocasting(self.recipe.precision.autocast):
            kept = forward(self, self._batch(inputs))
        self.tape.enter("loss", "end")
        del kept
        self.forget_cache()
        self.tape.finish()

    def _micro_batch(self, forward: Forward, inputs: Inputs) -> None:
        batch = self._batch(inputs)
        loss, outputs = self._forward(forward, batch)
        if self.passed is not None:
            self.passed()
            self.passed = None
        if not self.recipe.loss.keeps_outputs and self.recipe.objective is None:
            outputs = None
            self.forget_cache()
        self.tape.enter("loss", "gradient of the loss")
        backward(loss)
        self.tape.arguments.clear()
        self.tape.enter("backward", "end")
        self.runtime.end_backward()
        self._hosted = Hosted()
        del outputs
        self.forget_cache()
        del batch, loss  # in this order, which releases of Python differ in where a function returns

    def _forward(self, forward: Forward, batch: Batch) -> tuple[Tensor, object]:
        if not self.recipe.precision.autocast or self.recipe.objective:  # an objective's loss is outside of autocast
            return forward(self, batch)
        with self.tape.autocasting(self.recipe.precision.autocast):
            return forward(self, batch)

    def forget_cache(self) -> None:
        """The model's outputs go, and with them the keys and values that nobody read."""
        self.tape.let_go(self.cache, "end of the cache")

    def _batch(self, inputs: Inputs) -> Batch:
        with self.tape.at("inputs"):
            tokens, labels = (new(self.tape, ("b", "s"), "int64", "inputs") for _ in range(2))
            mask = new(self.tape, ("b", "s"), "int64", "inputs") if self.recipe.padded else None
            positions = new(self.tape, ("s",), "int64", "inputs") if self.recipe.positioned else None
            return Batch(tokens, labels, mask, inputs(self) if self.recipe.pictures else {}, positions)

    def enter(self, unit: str, x: Tensor) -> Tensor:
        """Before a unit that an engine may treat as one: `root`, `embedding` or `head`."""
        return self.runtime.enter(unit, x)

    def leave(self, unit: str, y: Tensor) -> Tensor:
        """After such a unit."""
        return self.runtime.leave(unit, y)

    def cast(self, x: Tensor) -> Tensor:
        """Return an input as a unit of the engine sees it."""
        return self.runtime.cast(x)

    def layer(self, slot: Slot, forward: Callable[..., Tensor], x: Tensor, *more: Tensor) -> Tensor:
        """Run a layer, given the slot and tensors: a unit of the engine, checkpointed if the recipe says so."""
        self.tape.enter("forward", slot.unit, slot.repeats)
        with self.tape.at(slot.path):
            seen = [self.runtime.cast(each) for each in more]
            checkpoints = self.recipe.checkpoints
            around = slot.checkpointed and checkpoints is not None and checkpoints.around_units
            x = x if around else self.runtime.enter(slot.unit, x)
            run = partial(self._wrapped, slot, forward) if around else partial(forward, slot)
            with self._offloading():
                y = self._checkpoint(slot.unit, run, x, *seen) if slot.checkpointed else run(x, *seen)
            del seen
            self._hosted.settle()
            y = y if around else self.runtime.leave(slot.unit, y)
        self._backward_begins(y, slot.unit, slot.repeats)
        return y

    def _wrapped(self, slot: Slot, forward: Callable[..., Tensor], x: Tensor, *more: Tensor) -> Tensor:
        """Return a layer between the engine's hooks."""
        return self.runtime.leave(slot.unit, forward(slot, self.runtime.enter(slot.unit, x), *more))

    @contextmanager
    def _offloading(self) -> Iterator[None]:
        if not self.recipe.offloads_activations or self.tape.recomputing or self.tape.evaluating:
            yield
            return
        offload = Offload()
        self.tape.offload = offload.pack
        with self.tape.packing(offload.pack):
            yield
        self.tape.offload = None
        offload.finish()

    def layers(self, slots: Sequence[Slot], forward: Callable[..., Tensor], x: Tensor, *more: Tensor) -> Tensor:
        """Run layers one after another, given the slot and tensors; those within one checkpoint are one place."""
        checkpoints = self.recipe.checkpoints
        if checkpoints is None or not checkpoints.around_patterns:
            for slot in slots:
                x = self.layer(slot, forward, x, *more)
            return x
        for _, found in groupby(slots, lambda slot: slot.unit.rpartition(".")[0]):
            x = self._pattern(list(found), forward, x, *more)
        return x

    def _pattern(self, slots: Sequence[Slot], forward: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
        first = slots[0]

        def run(x: Tensor, *more: Tensor) -> Tensor:
            for slot in slots:
                with self.tape.at(slot.path):
                    x = self._wrapped(slot, forward, x, *more)
            return x

        self.tape.enter("forward", first.unit, first.repeats)
        y = self._checkpoint(first.unit, run, *inputs)
        self._backward_begins(y, first.unit, first.repeats)
        return y

    def _checkpoint(self, unit: str, run: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
        checkpoints = self.recipe.checkpoints
        if checkpoints is None or self.tape.evaluating:
            return run(*inputs)
        if checkpoints.reentrant:
            ended = partial(self.runtime.end_reentrant, unit)
            return checkpoint_reentrant(run, *inputs, keep=self._keep(checkpoints), ended=ended)
        if checkpoints.divided:
            return checkpoint_divided(run, *inputs)
        around = partial(checkpoint, early_stop=checkpoints.early_stop, selection=checkpoints.selection)
        if checkpoints.apart:
            with self.tape.apart(around):
                return run(*inputs)
        return around(run, *inputs)

    def _keep(self, checkpoints: Checkpoints) -> Callable[[Tensor], Saved] | None:
        """Return how a checkpoint keeps its inputs; None: as they are."""
        if checkpoints.partitioned:
            return partial(partitioned, hosted=checkpoints.hosted)
        return self._hosted.keep if checkpoints.hosted else None

    def begin(self, place: str) -> None:
        """The forward pass goes on at another place outside the layers."""
        self.tape.enter("forward", place)

    def ended(self, x: Tensor, place: str) -> Tensor:
        """Return the result of a place outside the layers: when its gradient exists, the backward pass is there."""
        self._backward_begins(x, place)
        return x

    def after_layers(self) -> None:
        """The forward pass leaves the layers."""
        self.tape.enter("forward", "final norm")

    def embedded(self, x: Tensor) -> None:
        """The embedding's output exists; with checkpoints it may require a gradient (`enable_input_require_grads`)."""
        if self.recipe.checkpoints is not None and self.recipe.checkpoints.inputs_learn and not x.requires_grad:
            attach([x], [], [SavedTensor(memory_of(x))], lambda g, s: [])  # a leaf, which its node refers to
        learned = [each for each in self.weights.values() if each.name.startswith("prompt_encoder.")]
        if learned and self.tape.grad_enabled:
            # Learned tokens stand before it: their gradients come with its own.
            attach(
                [x], learned, [], lambda g, s: [new(self.tape, p.shape, p.dtype, "weight_gradient") for p in learned]
            )
        self._backward_begins(x, "embedding")

    def loss_begins(self, hidden_states: Tensor) -> None:
        """The head comes next: from here until the hidden states' gradient exists it is the loss's turn."""
        self.tape.enter("loss", "head and loss")
        self._backward_begins(hidden_states, "final norm")

    def _backward_begins(self, x: Tensor, place: str, repeats: str | None = None) -> None:
        """Have the backward pass name its place when it comes to a tensor."""
        tape = self.tape
        if x.node is not None:
            x.node.before.insert(0, lambda: tape.enter("backward", place, repeats))


def turns(recipe: Recipe) -> list[tuple[int, int]]:
    """Steps and micro-batches that a tape has, as far as they differ."""
    return list(product(range(2 if recipe.keeps_gradients else 1), range(recipe.micro_batches)))


def _below(module: str, weights: Sequence[Weight]) -> list[Weight]:
    return [weight for weight in weights if weight.name.startswith(f"{module}.")]


def run_name(run: int, tower: int | None = None) -> str:
    """Return the symbol of how often a run's pattern repeats between those repetitions that are recorded one by one."""
    return Message("run {}", run) if tower is None else Message("run {}:{}", tower, run)


def repetitions(name: str, count: int) -> list[str | None]:
    """For each recorded repetition of a run's pattern, the name of how many it stands for."""
    if count <= HEAD + TAIL:
        return [None] * count
    return [None] * HEAD + [name] + [None] * TAIL
