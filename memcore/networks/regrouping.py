"""Layers of a model in other runs: by a period, or as they differ after a change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from math import lcm

from memcore.networks.network import Layer, Model
from memcore.networks.patterns import compress


@lru_cache(maxsize=64)
def regrouped(model: Model, every: int) -> Model:
    """Regroup layers into runs in which the checkpoints of every n-th layer stand at the same positions."""
    groups = list(_groups(model, every))
    network = replace(model.network, runs=tuple(pattern for pattern, _ in groups))
    return replace(model, network=network, repeats=tuple(repeats for _, repeats in groups))


def _groups(model: Model, every: int) -> Iterator[tuple[tuple[Layer, ...], int]]:
    for pattern, repeats in zip(model.network.runs, model.repeats, strict=True):
        times = lcm(len(pattern), every) // len(pattern)
        whole, rest = divmod(repeats, times)
        if whole:
            yield pattern * times, whole
        if rest:
            yield pattern * rest, 1


def changed_at_ends(model: Model, first: int, last: int, change: Callable[[Layer], Layer]) -> Model:
    """Change some of the first and some of the last layers; runs stay runs between them."""
    network = model.network
    total = sum(len(pattern) * repeats for pattern, repeats in zip(network.runs, model.repeats, strict=True))
    groups: list[tuple[tuple[Layer, ...], int]] = []
    at = 0
    for pattern, repeats in zip(network.runs, model.repeats, strict=True):
        start, end = at, at + len(pattern) * repeats
        before = -(-min(max(first - start, 0), end - start) // len(pattern))
        behind = min(-(-min(max(last - (total - end), 0), end - start) // len(pattern)), repeats - before)
        for number in range(repeats):
            if number == before and repeats > before + behind:
                groups.append((pattern, repeats - before - behind))
            if before <= number < repeats - behind:
                continue
            places = enumerate(pattern, start + number * len(pattern))
            changed = (one if first <= place < total - last else change(one) for place, one in places)
            groups.append((tuple(changed), 1))
        at = end
    network = replace(network, runs=tuple(pattern for pattern, _ in groups))
    return replace(model, network=network, repeats=tuple(repeats for _, repeats in groups))


def changed_by_number(model: Model, change: Callable[[int, Layer], Layer]) -> Model:
    """Change layers by their numbers; equal ones are runs again."""
    order = [layer for run, times in zip(model.network.runs, model.repeats, strict=True) for layer in run * times]
    kinds: dict[Layer, int] = {}
    numbers = [kinds.setdefault(change(number, layer), len(kinds)) for number, layer in enumerate(order)]
    layers = list(kinds)
    groups = compress(numbers, within=not any(layer.uses_shared_block for layer in layers))
    network = replace(model.network, runs=tuple(tuple(layers[each] for each in pattern) for pattern, _ in groups))
    return replace(model, network=network, repeats=tuple(times for _, times in groups))


@lru_cache(maxsize=256)
def counted_anew(model: Model, every: int) -> Model:
    """Regroup the layers of a pipeline stage, counted from its own first one."""
    layers = [layer for run, times in zip(model.network.runs, model.repeats, strict=True) for layer in run * times]
    groups: list[tuple[tuple[Layer, ...], int]] = []
    for start in range(0, len(layers), every):
        pattern = tuple(layers[start : start + every])
        before, times = groups.pop() if groups and groups[-1][0] == pattern else (pattern, 0)
        groups.append((before, times + 1))
    network = replace(model.network, runs=tuple(pattern for pattern, _ in groups))
    return replace(model, network=network, repeats=tuple(repeats for _, repeats in groups))


def skipped(model: Model, every: int) -> frozenset[tuple[int, int]]:
    """Run and position of the layers that have no checkpoint, given a model that `regrouped` has written."""
    found, before = set(), 0
    for run, (pattern, repeats) in enumerate(zip(model.network.runs, model.repeats, strict=True)):
        found |= {(run, position) for position in range(len(pattern)) if (before + position + 1) % every}
        before += len(pattern) * repeats
    return frozenset(found)
