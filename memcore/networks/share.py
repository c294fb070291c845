"""What one rank has of a network: its part of sharded matrices, of the vocabulary, and of the experts.

Source: Megatron-LM, core/tensor_parallel/layers.py (column, row and vocabulary parallel), transformer/moe/experts.py.
Norms, routers, learned positions and the down projections of latent attention are on every tensor-parallel rank.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from typing import Any

from memcore.networks.network import EmbeddingAndHead, Layer, Model, Network, Tower, with_layers
from memcore.networks.parts import Experts
from memcore.networks.weights import Linear, Norm, Weight
from memcore.symbols import Axis, Quotient, Shape, round_up, split_over

TENSOR, EXPERT, EXPERT_TENSOR = "tp", "ep", "etp"
"""Symbols for the ranks that share matrices, experts, and the matrices of an expert."""


@lru_cache(maxsize=64)
def shared(model: Model) -> Model:
    """Return the model as one rank has it."""
    return replace(model, network=_network(model.network))


def padded(vocabulary: int, divisible_by: int, ranks: int) -> int:
    """Rows of embedding and head (`vocab_size_with_padding`)."""
    return round_up(vocabulary, divisible_by * ranks)


@lru_cache(maxsize=64)
def _network(network: Network) -> Network:
    return replace(
        with_layers(network, _layer),
        embedding_and_head=_embedding_and_head(network.embedding_and_head),
        towers=tuple(_tower(tower) for tower in network.towers),
    )


def _tower(tower: Tower) -> Tower:
    if not tower.divided:
        return tower
    weights = tuple(_weight(weight, TENSOR) for weight in tower.outer_weights)
    return replace(with_layers(tower, _layer), outer_weights=weights)


def _embedding_and_head(embedding_and_head: EmbeddingAndHead) -> EmbeddingAndHead:
    return replace(
        embedding_and_head,
        embedding=_weight(embedding_and_head.embedding, TENSOR),
        head=_linear(embedding_and_head.head),
        others=tuple(_weight(weight, TENSOR) for weight in embedding_and_head.others),
    )


def _layer(layer: Layer) -> Layer:
    return replace(
        layer,
        mixer=_part(layer.mixer),
        second_mixer=_part(layer.second_mixer),
        feed_forward=_part(layer.feed_forward),
        extra=_part(layer.extra),
    )


def _part(part: Any) -> Any:
    """Any part with the matrices, vectors and heads of one rank."""
    if isinstance(part, Linear):
        return _linear(part)
    if isinstance(part, Weight):
        return _weight(part, TENSOR)
    if isinstance(part, Norm) or part is None or not is_dataclass(part):
        return part
    changed = {}
    for each in fields(part):
        value = getattr(part, each.name)
        if isinstance(part, Experts) and each.name == "experts":
            changed[each.name] = tuple(_expert(weight) for weight in value)
        elif isinstance(value, tuple):
            changed[each.name] = tuple(_part(one) for one in value)
        elif each.name == "heads":
            changed[each.name] = replace(value, query=split_over(value.query), key=split_over(value.key))
        else:
            changed[each.name] = _part(value)
    return replace(part, **changed)


def _linear(linear: Linear) -> Linear:
    if linear.split == "outer":
        return replace(linear, outer=_divided(linear.outer, TENSOR))
    return replace(linear, inner=_divided(linear.inner, TENSOR)) if linear.split == "inner" else linear


def _weight(weight: Weight, ranks: str) -> Weight:
    if weight.split is None:
        return weight
    place = 0 if weight.split == "outer" else len(weight.axes) - 1
    return replace(
        weight, axes=tuple(_divided(axis, ranks) if place == index else axis for index, axis in enumerate(weight.axes))
    )


def _expert(weight: Weight) -> Weight:
    """Whole experts are on one rank, unless their matrices are sharded too."""
    many, *axes = weight.axes
    inner = _weight(replace(weight, axes=tuple(axes)), EXPERT_TENSOR)
    return replace(weight, axes=((split_over(many[0], EXPERT),), *inner.axes))


def _divided(axes: Shape, ranks: str) -> Shape:
    """Return one rank's part of some axes: of the first that is no number; of rows of heads, all together."""
    for place, axis in enumerate(axes):
        if isinstance(axis, str) and axis.rstrip("′") == "n":
            together: Axis = Quotient(axes[place:], ranks)
            return (*axes[:place], together)
        if not isinstance(axis, int):
            return (*axes[:place], split_over(axis, ranks), *axes[place + 1 :])
    return axes
