"""Feed-forward layers of transformers: dense ones and one function for each family of experts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memcore.layers.tensor_parallel import prepared
from memcore.layers.transformers.context import Context, Weights
from memcore.layers.transformers.experts import BLOCKS
from memcore.layers.transformers.feed_forward import feed_forward
from memcore.networks.network import Layer
from memcore.networks.parts import Experts, FeedForward, Ffn
from memcore.tensors.tensor import Tensor

Run = Callable[[Tensor, Weights, Any, Context], Tensor]
"""Hidden states, parameters, the part and the context to hidden states."""

FFNS: Mapping[str, Run] = {
    "dense": feed_forward,
    **BLOCKS,
}
"""By `feed_kind`."""


def ffn_kind(part: Ffn) -> str:
    """A key of `FEEDS`."""
    return "dense" if isinstance(part, FeedForward) else part.variant


def ffn(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    """Run the layer's feed-forward layer."""
    if layer.feed_forward is None:
        raise TypeError(layer)
    return run_ffn(hidden_states, weights, layer.feed_forward, context)


def run_ffn(hidden_states: Tensor, weights: Weights, part: Ffn, context: Context) -> Tensor:
    """Run one feed-forward layer; experts that ranks share are those of whoever shares them."""
    if isinstance(part, Experts) and context.mixture is not None:
        return context.mixture(hidden_states, weights, part)
    run = FFNS[ffn_kind(part)]
    return hidden_states.tape.part(lambda x: run(prepared(x), weights, part, context), hidden_states)
