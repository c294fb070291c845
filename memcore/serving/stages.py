"""How a server shares a model out: over pipeline stages, tensor-parallel and expert-parallel ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property, lru_cache

from memcore.messages import Message
from memcore.networks.network import Layer, Model
from memcore.networks.table import layer_order
from memcore.records import dataclass
from memcore.serving.checkpoint import Stored


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Counts of ranks."""

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    context: int = 1
    """Ranks over which the tokens of a sequence's cache are shared out while decoding."""
    expert_parallel: bool = False
    """Whole experts are shared out over all tensor- and data-parallel ranks."""
    experts: int | None = None
    """Ranks that share experts out or split each of them, where they are others than these."""
    others: tuple[tuple[str, int], ...] = ()
    """Kinds of tensors that are split over another number of ranks than attention is."""

    @property
    def gpus(self) -> int:
        """Return how many there are in all."""
        return self.tensor * self.pipeline * self.data

    @property
    def symbols(self) -> Mapping[str, int]:
        """Values of the symbols by which shapes are divided."""
        if not self.expert_parallel:
            return {"TP": self.tensor, "EP": 1, "ETP": self.experts or self.tensor}
        return {"TP": self.tensor, "EP": self.experts or self.tensor * self.data, "ETP": 1}


def vllm_partition(layers: int, stages: int) -> tuple[int, ...]:
    """Layers of each stage; what is left goes to stages from the last but one backwards.

    Source: vllm, distributed/utils.py, get_pp_indices.

    >>> vllm_partition(30, 4)
    (7, 8, 8, 7)
    """
    counts = [layers // stages] * stages
    for number in range(2, layers % stages + 2):
        counts[-number] += 1
    return tuple(counts)


@dataclass(frozen=True)
class Stage:
    """The part of a model on the ranks of one pipeline stage."""

    number: int
    count: int
    """How many stages there are."""
    first_layer: int
    layers: tuple[Layer, ...] = field(repr=False)
    times: int = 1
    """How many stages without layers it stands for, of which it is the first."""

    def named(self, what: str) -> str:
        """`stage 3`, or `stages 3-8`."""
        if self.times == 1:
            return Message(f"{what} {{}}", self.number)
        last = self.number + self.times - 1
        return Message(f"{what}s {{}}", f"{self.number}-{last}")

    def part_of(self, listed: Sequence[object]) -> Sequence[object]:
        """Return its layers' entries of a list that has one for every layer."""
        return listed[self.first_layer : self.first_layer + len(self.layers)]

    @property
    def embeds(self) -> bool:
        """It holds the embedding."""
        return self.number == 0

    @property
    def samples(self) -> bool:
        """It holds the head."""
        return self.number == self.count - 1

    @cached_property
    def kinds(self) -> Mapping[Layer, tuple[int, ...]]:
        """Return the numbers of its layers, by kind."""
        found: dict[int, list[int]] = {}
        known: dict[int, Layer] = {}
        for number, layer in enumerate(self.layers, self.first_layer):
            known[id(layer)] = layer
            found.setdefault(id(layer), []).append(number)
        merged: dict[Layer, tuple[int, ...]] = {}
        for key, numbers in found.items():
            merged[known[key]] = (*merged.get(known[key], ()), *numbers)
        return merged


@lru_cache(maxsize=128)
def stages(model: Model, count: int) -> tuple[Stage, ...]:
    """The stages of a pipeline; those without layers, of which the second is the first that is nothing else, as one."""
    order, start, found = layer_order(model), 0, []
    further = max(count - len(order) - 3, 0)  # the first and the last have none either where there are so many
    for number, length in enumerate(vllm_partition(len(order), count - further)):
        times = 1 + further if number == 1 else 1
        layers = tuple(order[start : start + length])
        found.append(Stage(number + further if number > 1 else number, count, start, layers, times))
        start += length
    return tuple(found)


def merged_stages(model: Model, count: int, stored: Stored | None = None) -> list[tuple[Stage, ...]]:
    """Merge stages that hold the same: equal layers, none of which the checkpoint leaves unquantized."""
    found: dict[object, list[Stage]] = {}
    for stage in stages(model, count):
        own = stage.number if stored is not None and stored.numbers != frozenset() else None
        found.setdefault((stage.embeds, stage.samples, own, *map(id, stage.layers)), []).append(stage)
    return [tuple(each) for each in found.values()]
