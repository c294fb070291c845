"""What an engine is: its presets, what it stores on each rank, and its hooks while a step runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import ClassVar

from memcore import registry
from memcore.networks.adapters import learns
from memcore.networks.network import Model
from memcore.networks.stages import stage_of
from memcore.networks.weights import Weight
from memcore.records import dataclass
from memcore.symbols import Shape
from memcore.tensors.tensor import Parameter, Tape, Tensor
from memcore.trace.recipe import Buffer, Precision, Recipe


class Runtime:
    """An engine's hooks around the units of a model, during the recording of one step.

    The base class is one GPU with nothing to share.
    """

    steps_itself = False
    """An optimizer in the backward pass steps in these hooks, not where a gradient is complete."""
    pending: ClassVar[Mapping[str, int]] = MappingProxyType({})
    """By rule, how many freed blocks another stream still reads when the next one is freed (`record_stream`)."""

    def __init__(self, tape: Tape, recipe: Recipe) -> None:
        self.tape = tape
        self.recipe = recipe

    def outer_parameters(
        self, weights: Sequence[Weight], tower_weights: Sequence[Weight] = ()
    ) -> Mapping[str, Parameter]:
        """Return the parameters outside the layers as the model sees them, and those of towers."""
        return {weight.name: self.parameter(weight) for weight in (*weights, *tower_weights)}

    def unit(
        self, unit: str, label: str, path: str, weights: Sequence[Weight], repeats: str | None = None
    ) -> Mapping[str, Parameter]:
        """Return the parameters of a unit, such as a layer, as the model sees them.

        They are named relative to `path`; `label` names the kind, and `repeats` how many units it stands for.
        """
        return {weight.name: self.parameter(weight) for weight in weights}

    def parameter(self, weight: Weight) -> Parameter:
        """Return one parameter as the model sees it."""
        dtype = weight.dtype or self.recipe.precision.compute
        learned = learns(weight, self.recipe.network)
        found = Parameter(self.tape, weight.name, weight.outer, weight.inner, dtype, trainable=learned)
        if weight.quantized is not None:
            found.quantization = self.recipe.quantization
        return found

    def enter(self, unit: str, x: Tensor) -> Tensor:
        """Before a unit's forward pass; units are `root`, `embedding`, `head` and each layer."""
        return x

    def leave(self, unit: str, y: Tensor) -> Tensor:
        """After a unit's forward pass."""
        return y

    def cast(self, x: Tensor) -> Tensor:
        """Return an input of a unit as the unit sees it."""
        return x

    def gather_all(self) -> None:
        """Before the first micro-batch of a schedule with several stages on a rank."""

    def chunk_ended(self, *, last: bool) -> None:
        """After head, loss and backward pass of a part of the tokens; the `last` one ends them."""

    @classmethod
    def uniform(cls, recipe: Recipe) -> bool:
        """Its hooks do the same in every micro-batch, given what is left in memory: none asks which is the last."""
        return cls.begin_micro_batch is Runtime.begin_micro_batch

    def begin_micro_batch(self, *, last: bool) -> None:
        """Before the forward pass of a micro-batch; the last one ends the step."""

    def begin_backward(self, *, last: bool) -> None:
        """Before the backward pass of a micro-batch in a pipeline, where several are in flight."""

    def end_reentrant(self, unit: str) -> None:
        """After the backward pass within a unit's reentrant checkpoint, whose result is still there."""

    def end_backward(self) -> None:
        """After the backward pass of a micro-batch."""

    def evaluated(self) -> None:
        """After a forward pass of a frozen copy of the model, which no backward pass follows."""


class Holding(Runtime):
    """An engine that goes through all parameters when a backward pass ends."""

    def __init__(self, tape: Tape, recipe: Recipe) -> None:
        super().__init__(tape, recipe)
        self.held: list[tuple[str | None, list[Parameter]]] = []
        """Parameters by unit, and the name of how many units each stands for."""

    def outer_parameters(
        self, weights: Sequence[Weight], tower_weights: Sequence[Weight] = ()
    ) -> Mapping[str, Parameter]:
        """Return the parameters outside the layers."""
        found = super().outer_parameters(weights, tower_weights)
        self.held.append((None, list(found.values())))
        return found

    def unit(
        self, unit: str, label: str, path: str, weights: Sequence[Weight], repeats: str | None = None
    ) -> Mapping[str, Parameter]:
        """Return the parameters of a layer."""
        found = super().unit(unit, label, path, weights, repeats)
        self.held.append((repeats, list(found.values())))
        return found


def _nothing_more(model: Model, sizes: Mapping[str, int]) -> Mapping[str, int]:
    return {}


def _never(model: Model, number: int, stages: int) -> bool:
    return False


def _nothing(weights: Sequence[tuple[Weight, int]], recipe: Recipe) -> Sequence[Buffer]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The answers of one engine; nothing else knows its name."""

    name: str
    title: str
    runtime: type[Runtime]
    presets: Mapping[str, Precision]
    """Dtypes by the name of a precision preset."""
    default_preset: str
    stored: Callable[[Weight], tuple[Shape, ...]]
    """The part of a parameter that a rank keeps, axis by axis."""
    buffers: Callable[[Sequence[tuple[Weight, int]], Recipe], Sequence[Buffer]] = _nothing
    """What it holds besides, given all parameters with their counts."""
    optimized: Callable[[Weight, Recipe], tuple[tuple[Shape, ...], str]] | None = None
    """What the optimizer is given for a parameter, axis by axis, and its dtype; None: the part that is stored."""
    stepping: Callable[[Sequence[tuple[Weight, int]], Recipe], Sequence[Buffer]] = _nothing
    """What the end of the optimizer's step needs for a moment."""
    stage: Callable[[Model, int, int], Model] = stage_of
    """The part of a model that a stage of a pipeline has, given its number and how many there are."""
    host: Callable[[Sequence[tuple[Weight, int]], Recipe], Sequence[Buffer]] = _nothing
    """What one process keeps in host memory."""
    stage_sizes: Callable[[Model, Mapping[str, int]], Mapping[str, int]] = _nothing_more
    """Sizes that follow from what a stage has, given that and the job's sizes."""
    waits: Callable[[Model, int, int], bool] = _never
    """Whether a stage's host waits for what the stage receives, given its number and how many there are."""
    alike: Callable[[Recipe], bool] = lambda recipe: False
    """Every micro-batch leaves as much as the others: gradients go into a buffer that is there."""
    overlaps: Callable[[Recipe], bool] = lambda recipe: False
    """Collectives run on a stream of their own, in parallel to matrix products."""
    offloads: Callable[[Recipe], bool] = lambda recipe: recipe.sharding.offloaded
    """The optimizer's states are on the host."""
    distributed: bool = True
    """Runs on several GPUs."""
    native: bool = False
    """PyTorch's own: how it loads, saves and fills host memory is known."""
    shards: bool = False
    """Parameters are sharded module by module (FSDP), and gathered to be read as a whole."""
    composes: bool = False
    """PyTorch's tensor parallelism and its pipelines run with it."""
    flat: bool = False
    """What is sharded is one flat parameter for each unit."""
    key: str = ""
    """Where several versions share a name: the version's own."""

    @property
    def copies(self) -> bool:
        """PyTorch's own, with a whole copy of the parameters on each GPU."""
        return self.native and not self.shards


def precision(
    stored: str, compute: str | None = None, reduce: str | None = None, autocast: str | None = None
) -> Precision:
    """Return a precision with the usual defaults: computed and reduced as stored."""
    compute = compute or stored
    return Precision(parameter=stored, compute=compute, reduce=reduce or compute, autocast=autocast)


AUTOCAST_PRESETS: Mapping[str, Precision] = {
    "fp32": precision("fp32"),
    "tf32": precision("fp32"),
    "bf16": precision("bf16"),
    "fp16": precision("fp16"),
    "bf16-mixed": precision("fp32", autocast="bf16"),
    "fp16-mixed": precision("fp32", autocast="fp16"),
    "bf16-autocast": precision("fp32", autocast="bf16"),
}
"""Engines without a mixed-precision policy of their own use torch.autocast."""


@lru_cache(maxsize=64)
def engine_of(key: str) -> Engine:
    """Return an engine by its name, or by its own key where several versions share a name, such as `fsdp1`."""
    name = next(each for each in sorted(registry.TRAINERS, key=len, reverse=True) if key.startswith(each))
    found: Mapping[str, Engine] = registry.engine_module(name, "engine").ENGINES
    return found[key]
