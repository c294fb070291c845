"""The gated short convolution of LFM2 (`Lfm2ShortConv`)."""

from __future__ import annotations

from memcore.layers.transformers.context import Context, Weights
from memcore.layers.transformers.recurrent.shared import causal_convolution, projection, without_padding
from memcore.networks.parts import SpecialMixer
from memcore.tensors.basics import contiguous, permute, split
from memcore.tensors.operations import mul
from memcore.tensors.tensor import Tensor


def short_convolution(
    hidden_states: Tensor, weights: Weights, part: SpecialMixer, context: Context, drop: float = 0.0
) -> tuple[Tensor, Tensor | None]:
    """Return two gates around a convolution over the last few tokens."""
    name = part.module
    with hidden_states.tape.module(name):
        hidden_states = without_padding(hidden_states, context)
        projected = permute(projection(hidden_states, weights, f"{name}.in_proj", part), 0, 2, 3, 1)
        batch, _, width, length = projected.shape
        b, c, x = split(projected, (batch, width, length), order=(0, 2, 1), cut=1)
        hidden_states = mul(b, x)
        hidden_states = causal_convolution(hidden_states, weights, f"{name}.conv", context, activated=False)
        y = mul(c, hidden_states)
        y = contiguous(permute(y, 0, 2, 1))
        y = projection(y, weights, f"{name}.out_proj", part)
        return y, None
