"""Feed-forward layers of transformers: dense ones and one function for each family of experts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memcore.layers.tensor_parallel import prepared
from memcore.layers.transformers.context import Context, Weights
from memcore.layers.transformers.experts import BLOCKS
from memcore.layers.transformers.feed_forward import feed_forward
from memcore.networks.network import Layer
from memcore.networks.parts import Feed, FeedForward
from memcore.tensors.tensor import Tensor

Run = Callable[[Tensor, Weights, Any, Context], Tensor]
"""Hidden states, parameters, the part and the context to hidden states."""

FEEDS: Mapping[str, Run] = {
    "dense": feed_forward,
    **BLOCKS,
}
"""By `feed_kind`."""


def feed_kind(part: Feed) -> str:
    """A key of `FEEDS`."""
    return "dense" if isinstance(part, FeedForward) else part.variant


def feed(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    """Run the layer's feed-forward layer."""
    if layer.feed_forward is None:
        raise TypeError(layer)
    return run_feed(hidden_states, weights, layer.feed_forward, context)


def run_feed(hidden_states: Tensor, weights: Weights, part: Feed, context: Context) -> Tensor:
    """Run one feed-forward layer."""
    return FEEDS[feed_kind(part)](prepared(hidden_states), weights, part, context)
