"""What mixes tokens in a layer of transformers: one function for each kind of mixer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memcore.eager.tensor import Tensor
from memcore.layers.transformers.attention import attend
from memcore.layers.transformers.context import Context, Weights
from memcore.model.network import Layer
from memcore.model.parts import Attention, Mixer

Mix = Callable[[Tensor, Weights, Any, Context, float], tuple[Tensor, Tensor | None]]
"""Hidden states, parameters, the part, the context and a dropout probability to hidden states, and to the scores that
eager attention returns and the layer holds until it ends."""

MIXERS: Mapping[str, Mix] = {
    "attention": attend,
}
"""By `mixer_kind`."""


def mixer_kind(part: Mixer) -> str:
    """A key of `MIXERS`."""
    return "attention" if isinstance(part, Attention) else part.variant


def mix(
    hidden_states: Tensor, weights: Weights, layer: Layer, context: Context, drop: float = 0.0
) -> tuple[Tensor, Tensor | None]:
    """Run the layer's mixer."""
    if layer.mixer is None:
        raise TypeError(layer)
    return MIXERS[mixer_kind(layer.mixer)](hidden_states, weights, layer.mixer, context, drop)
