"""One stage of a pipeline: some of a model's layers; the first has the embedding, the last the head."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TypeAlias

from memcore.networks.network import Layer, Model
from memcore.records import dataclass

Partition: TypeAlias = Callable[[int, int], tuple[int, ...]]
"""How many layers each stage has, given how many there are of layers and of stages."""


def layers_of(count: int, stages: int) -> tuple[int, ...]:
    """Layers that are left over go to the first stages.

    >>> layers_of(10, 4)
    (3, 3, 2, 2)
    """
    return tuple(count // stages + (number < count % stages) for number in range(stages))


def weighing_ends(count: int, stages: int) -> tuple[int, ...]:
    """torchtitan since April 2025: embedding and head count as a layer each.

    Source: torchtitan/distributed/pipeline_parallel.py, `_generate_llm_fqn_per_model_part`.

    >>> weighing_ends(10, 4)
    (2, 3, 3, 2)
    """
    shares = list(layers_of(count + 2, stages))
    shares[0] -= 1
    shares[-1] -= 1
    return tuple(shares)


def sparing_the_first(count: int, stages: int) -> tuple[int, ...]:
    """torchtitan until April 2025: layers that are left over go to the stages after the first, the last gets the rest.

    Source: torchtitan/distributed/pipeline.py before 8b737fe, `generate_split_points`.

    >>> sparing_the_first(10, 4)
    (2, 3, 3, 2)
    """
    base, extra = divmod(count, stages)
    shares = [base + (1 <= number <= extra) for number in range(stages - 1)]
    return (*shares, count - sum(shares))


def sparing_ends(count: int, stages: int) -> tuple[int, ...]:
    """PithTrain: what is left over goes to the stages between the ends first, then to the first.

    Source: pithtrain/dualpipe/layer_partition.py.

    >>> sparing_ends(27, 4), sparing_ends(27, 2)
    ((7, 7, 7, 6), (14, 13))
    """
    base, extra = divmod(count, stages)
    order = [*range(1, stages - 1), 0, stages - 1] if stages > 1 else [0]
    favoured = order[:extra]
    return tuple(base + (number in favoured) for number in range(stages))


@dataclass(frozen=True, slots=True)
class Listed:
    """As a job lists them."""

    shares: tuple[int, ...]

    def __call__(self, count: int, stages: int) -> tuple[int, ...]:
        """Return what each stage has, whatever there is."""
        return self.shares


@lru_cache(maxsize=256)
def stage_of(model: Model, number: int, stages: int, partition: Partition = layers_of) -> Model:
    """Return the part of a model that stage `number` of `stages` has."""
    shares = partition(model.num_layers, stages)
    start = sum(shares[:number])
    found = list(cut(model, start, start + shares[number]))
    first, last = number == 0, number == stages - 1
    embedding_and_head = model.network.embedding_and_head
    embedding_and_head = replace(
        embedding_and_head,
        reads_tokens=first,
        predicts=last,
        final_norm=embedding_and_head.final_norm if last else None,
    )
    network = replace(model.network, embedding_and_head=embedding_and_head, runs=tuple(pattern for pattern, _ in found))
    return replace(model, network=network, repeats=tuple(repeats for _, repeats in found), first_layer=start)


def joined(stages: Sequence[Model]) -> Model:
    """Several stages of one rank as a model: the layers of one after those of the other."""
    embedding_and_head = [stage.network.embedding_and_head for stage in stages]
    norm = next((each.final_norm for each in embedding_and_head if each.final_norm is not None), None)
    reads, predicts = (
        any(each.reads_tokens for each in embedding_and_head),
        any(each.predicts for each in embedding_and_head),
    )
    network = replace(
        stages[0].network,
        embedding_and_head=replace(embedding_and_head[0], reads_tokens=reads, predicts=predicts, final_norm=norm),
        runs=tuple(pattern for stage in stages for pattern in stage.network.runs),
    )
    repeats = tuple(times for stage in stages for times in stage.repeats)
    return replace(stages[0], network=network, repeats=repeats, starts=tuple(_starts(stages)))


def _starts(stages: Sequence[Model]) -> Iterator[int]:
    for stage in stages:
        start = stage.first_layer
        for pattern, repeats in zip(stage.network.runs, stage.repeats, strict=True):
            yield start
            start += len(pattern) * repeats


def cut(model: Model, start: int, stop: int) -> Iterator[tuple[tuple[Layer, ...], int]]:
    """The runs between two layers: whole patterns, and what is cut off before and after them."""
    before = 0
    for pattern, repeats in zip(model.network.runs, model.repeats, strict=True):
        width = len(pattern)
        low, high = max(start - before, 0), min(stop - before, width * repeats)
        before += width * repeats
        if low >= high:
            continue
        whole_low, whole_high = -(-low // width), high // width
        if whole_low >= whole_high:
            yield tuple(pattern[place % width] for place in range(low, high)), 1
            continue
        if low % width:
            yield pattern[low % width :], 1
        yield pattern, whole_high - whole_low
        if high % width:
            yield pattern[: high % width], 1
