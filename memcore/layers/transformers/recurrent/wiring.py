"""Decoder layers of families with recurrent mixers, wired in ways of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memcore.eager.basics import identity, to
from memcore.eager.operations import ACTIVATIONS, add, mul, scale
from memcore.eager.tensor import Tensor
from memcore.layers.transformers.context import Context, Weights, project
from memcore.layers.transformers.feeds import feed, run_feed
from memcore.layers.transformers.mixers import mix, run_mixer
from memcore.layers.transformers.norms import norm
from memcore.model.network import Layer
from memcore.model.parts import FeedForward


def _single(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    """One part for each layer (`NemotronHBlock`)."""
    residual = hidden_states
    hidden_states = norm(to(hidden_states, weights[f"{layer.norms[0].name}.weight"].dtype), weights, layer.norms[0])
    if layer.mixer is None:
        hidden_states = feed(hidden_states, weights, layer, context)
    else:
        hidden_states, _scores = mix(hidden_states, weights, layer, context)
    return add(residual, hidden_states)


def _single_fp32(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    """The same with a residual stream in fp32 (`MambaBlock` with `residual_in_fp32`)."""
    residual = hidden_states
    hidden_states = norm(to(hidden_states, weights[f"{layer.norms[0].name}.weight"].dtype), weights, layer.norms[0])
    residual = to(residual, "fp32")
    hidden_states, _scores = mix(hidden_states, weights, layer, context)
    return add(residual, hidden_states)


def _granite(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    """Granite 4: experts beside an expert that sees every token, or that one alone; both parts are scaled."""
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[0])
    hidden_states, _scores = mix(hidden_states, weights, layer, context)
    hidden_states = add(residual, scale(hidden_states))
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[1])
    if layer.feed_forward is None or layer.second_feed_forward is None:
        hidden_states = run_feed(hidden_states, weights, layer.feeds[0], context)
    else:
        moe_hidden_states = run_feed(identity(hidden_states), weights, layer.feed_forward, context)
        shared = run_feed(hidden_states, weights, layer.second_feed_forward, context)
        hidden_states = add(moe_hidden_states, shared)
        del shared
    return add(residual, scale(hidden_states))


def _falcon_h1(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    """Falcon-H1: Mamba and attention side by side, everything multiplied by constants."""
    if layer.second_mixer is None or not isinstance(layer.feed_forward, FeedForward):
        raise TypeError(layer)
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[0])
    mamba_hidden_states, _ = run_mixer(hidden_states, weights, layer.second_mixer, context)
    mamba_hidden_states = scale(mamba_hidden_states)
    attention_hidden_states, _scores = mix(scale(hidden_states), weights, layer, context)
    attention_hidden_states = scale(attention_hidden_states)
    hidden_states = add(mamba_hidden_states, attention_hidden_states)
    hidden_states = add(residual, hidden_states)
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[1])
    hidden_states = _multiplied_feed(hidden_states, weights, layer.feed_forward)
    return add(residual, hidden_states)


def _multiplied_feed(x: Tensor, weights: Weights, part: FeedForward) -> Tensor:
    """`FalconH1MLP`."""
    if part.gate is None:
        raise TypeError(part)
    with x.tape.module(part.module):
        up = project(x, weights, part.up)
        y = mul(up, ACTIVATIONS[part.activation](scale(project(x, weights, part.gate))))
        del up
        return scale(project(y, weights, part.down))


def _griffin(raw_activations: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    """RecurrentGemma: no variable is used twice."""
    inputs_normalized = norm(raw_activations, weights, layer.norms[0])
    hidden_states, _scores = mix(inputs_normalized, weights, layer, context)
    residual = add(hidden_states, raw_activations)
    hidden_states = norm(residual, weights, layer.norms[1])
    hidden_states = feed(hidden_states, weights, layer, context)
    result = add(hidden_states, residual)
    del hidden_states
    return result


def _minimax(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    """MiniMax: the residual stream is normalized, and both sides of each sum are multiplied."""
    hidden_states = norm(hidden_states, weights, layer.norms[0])
    residual = hidden_states
    hidden_states, _state = mix(hidden_states, weights, layer, context)
    hidden_states = add(scale(residual), scale(hidden_states))
    hidden_states = norm(hidden_states, weights, layer.norms[1])
    residual = hidden_states
    hidden_states = feed(identity(hidden_states), weights, layer, context)
    return add(scale(residual), scale(hidden_states))


RECURRENT_WIRINGS: Mapping[str, Callable[[Tensor, Weights, Layer, Context], Tensor]] = {
    "falcon-h1": _falcon_h1,
    "granite-hybrid": _granite,
    "griffin": _griffin,
    "minimax": _minimax,
    "single": _single,
    "single-fp32": _single_fp32,
}
"""By `Layer.residual`."""
