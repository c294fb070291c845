"""Layers of towers: those that are wired in ways of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memcore.eager.operations import add
from memcore.eager.tensor import Tensor
from memcore.layers.transformers.context import Context, Weights
from memcore.layers.transformers.feeds import feed
from memcore.layers.transformers.mixers import mix
from memcore.layers.transformers.norms import norm
from memcore.model.network import Layer


def _qwen(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    """`Qwen2VLVisionBlock.forward`."""
    hidden_states = add(hidden_states, _mixed(norm(hidden_states, weights, layer.norms[0]), weights, layer, context))
    return add(hidden_states, feed(norm(hidden_states, weights, layer.norms[1]), weights, layer, context))


def _mixed(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    return mix(hidden_states, weights, layer, context)[0]


VISION: Mapping[str, Callable[[Tensor, Weights, Layer, Context], Tensor]] = {
    "qwen-vision": _qwen,
}
"""By `Layer.residual`."""
