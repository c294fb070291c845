"""Dense feed-forward layers of transformers."""

from __future__ import annotations

from memcore.eager.operations import ACTIVATIONS, mul
from memcore.eager.tensor import Tensor
from memcore.layers.transformers.context import Context, Weights, project
from memcore.model.parts import FeedForward


def feed_forward(x: Tensor, weights: Weights, part: FeedForward, context: Context) -> Tensor:
    """A dense feed-forward module."""
    with x.tape.module(part.module):
        if part.gate is not None:
            gate = ACTIVATIONS[part.activation]
            return project(mul(gate(project(x, weights, part.gate)), project(x, weights, part.up)), weights, part.down)
        hidden_states = project(x, weights, part.up)
        hidden_states = ACTIVATIONS[part.activation](hidden_states)
        return project(hidden_states, weights, part.down)
