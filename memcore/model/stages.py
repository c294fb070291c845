"""One stage of a pipeline: some of a model's layers; the first has the embedding, the last the head."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from memcore.model.network import Layer, Model


def layers_of(count: int, stages: int) -> tuple[int, ...]:
    """How many layers each stage has: those that are left over go to the first stages."""
    return tuple(count // stages + (number < count % stages) for number in range(stages))


def stage_of(model: Model, number: int, stages: int) -> Model:
    """The part of a model that stage `number` of `stages` has."""
    shares = layers_of(model.num_layers, stages)
    start = sum(shares[:number])
    found = list(cut(model, start, start + shares[number]))
    first, last = number == 0, number == stages - 1
    ends = model.network.ends
    ends = replace(ends, reads_tokens=first, predicts=last, final_norm=ends.final_norm if last else None)
    network = replace(model.network, ends=ends, runs=tuple(pattern for pattern, _ in found))
    return replace(model, network=network, repeats=tuple(repeats for _, repeats in found), first_layer=start)


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
