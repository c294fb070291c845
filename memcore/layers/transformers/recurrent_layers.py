"""Decoder layers of families with recurrent mixers, wired in ways of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memcore.layers.transformers.context import Context, Weights, project
from memcore.layers.transformers.ffns import ffn, run_ffn
from memcore.layers.transformers.mixers import mix, run_mixer
from memcore.layers.transformers.norms import norm
from memcore.layers.transformers.recurrent.shared import projection
from memcore.layers.transformers.recurrent.zamba import zamba2_ffn
from memcore.networks.network import Layer
from memcore.networks.parts import FeedForward
from memcore.networks.weights import Norm
from memcore.tensors.basics import identity, to
from memcore.tensors.operations import ACTIVATIONS, add, mul, scale
from memcore.tensors.reshaping import join
from memcore.tensors.tensor import Tensor

_SHARED = "shared_transformer"


def _single(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    """Return one part for each layer (`NemotronHBlock`)."""
    residual = hidden_states
    hidden_states = norm(to(hidden_states, weights[f"{layer.norms[0].name}.weight"].dtype), weights, layer.norms[0])
    if layer.mixer is None:
        hidden_states = ffn(hidden_states, weights, layer, context)
    else:
        hidden_states, _scores = mix(hidden_states, weights, layer, context)
    return add(residual, hidden_states)


def _single_fp32(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    """Wire a block whose residual stream is in fp32 (`MambaBlock` with `residual_in_fp32`)."""
    residual = hidden_states
    hidden_states = norm(to(hidden_states, weights[f"{layer.norms[0].name}.weight"].dtype), weights, layer.norms[0])
    residual = to(residual, "fp32")
    hidden_states, _scores = mix(hidden_states, weights, layer, context)
    return add(residual, hidden_states)


def _granite(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    """Granite 4: routed experts plus an expert that sees every token, or that one alone; both parts are scaled."""
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[0])
    hidden_states, _scores = mix(hidden_states, weights, layer, context)
    hidden_states = add(residual, scale(hidden_states))
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[1])
    if layer.feed_forward is None or layer.second_feed_forward is None:
        hidden_states = run_ffn(hidden_states, weights, layer.ffns[0], context)
    else:
        moe_hidden_states = run_ffn(identity(hidden_states), weights, layer.feed_forward, context)
        shared = run_ffn(hidden_states, weights, layer.second_feed_forward, context)
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
    hidden_states = _multiplied_ffn(hidden_states, weights, layer.feed_forward)
    return add(residual, hidden_states)


def _multiplied_ffn(x: Tensor, weights: Weights, part: FeedForward) -> Tensor:
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
    hidden_states = ffn(hidden_states, weights, layer, context)
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
    hidden_states = ffn(identity(hidden_states), weights, layer, context)
    return add(scale(residual), scale(hidden_states))


def _zamba2(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    """Zamba 2: a shared attention layer before a Mamba layer."""
    tape = hidden_states.tape
    with tape.module(_SHARED):
        transformer_hidden_states = _zamba2_shared(hidden_states, weights, layer, context)
    transformer_hidden_states = projection(transformer_hidden_states, weights, "linear")
    if layer.mixer is None:
        raise TypeError(layer)
    with tape.module("mamba_decoder"):
        residual = hidden_states
        hidden_states = add(hidden_states, transformer_hidden_states)
        hidden_states = norm(hidden_states, weights, layer.norms[0])
        hidden_states, _state = run_mixer(hidden_states, weights, layer.mixer, context)
        return add(residual, hidden_states)


def _zamba2_shared(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    """`Zamba2AttentionDecoderLayer`: over the hidden states and the embeddings side by side."""
    if context.own is None or layer.second_mixer is None or not isinstance(layer.feed_forward, FeedForward):
        raise TypeError(layer)
    hidden_states = join((hidden_states, context.own), 2, "t")
    hidden_states = norm(hidden_states, weights, Norm(f"{_SHARED}.input_layernorm", "rms", ("t",)))
    hidden_states, _scores = run_mixer(hidden_states, weights, layer.second_mixer, context)
    hidden_states = norm(hidden_states, weights, Norm(f"{_SHARED}.pre_ff_layernorm", "rms", ("h",)))
    return zamba2_ffn(hidden_states, weights, layer.feed_forward)


RECURRENT_LAYERS: Mapping[str, Callable[[Tensor, Weights, Layer, Context], Tensor]] = {
    "falcon-h1": _falcon_h1,
    "granite-hybrid": _granite,
    "griffin": _griffin,
    "minimax": _minimax,
    "single": _single,
    "single-fp32": _single_fp32,
    "zamba2": _zamba2,
}
"""By `Layer.residual`."""
