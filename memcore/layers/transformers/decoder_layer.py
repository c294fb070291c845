"""Decoder layers of transformers: how norms, mixers and feed-forward layers are wired.

Local variables live as long here as they do there (`models/*/modeling_*.py`): that decides what is in memory at a peak.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from memcore.layers import compiled
from memcore.layers.transformers.context import Context, Weights
from memcore.layers.transformers.ffns import ffn, run_ffn
from memcore.layers.transformers.gemma import GEMMA
from memcore.layers.transformers.hyper import hyper_connected
from memcore.layers.transformers.mixers import mix, run_mixer
from memcore.layers.transformers.nearest import run_rest
from memcore.layers.transformers.norms import norm
from memcore.layers.transformers.recurrent_layers import RECURRENT_LAYERS
from memcore.layers.transformers.residuals import RESIDUALS
from memcore.layers.transformers.unpacked import UNPACKED
from memcore.layers.transformers.vision_layers import VISION_LAYERS
from memcore.networks.network import Layer
from memcore.networks.recognized import RESIDUAL
from memcore.tensors.operations import add, dropout, learned
from memcore.tensors.tensor import Tensor


def decoder_layer(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    """Return a decoder layer, wired as its family does."""
    context = replace(context, returned=[])
    hidden_states = DECODER_LAYERS[layer.residual](hidden_states, weights, layer, context)
    if not hidden_states.tape.recomputing:
        context.outputs.extend(context.returned)
    return hidden_states


def _sequential(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[0])
    hidden_states, _scores = mix(hidden_states, weights, layer, context)
    hidden_states = compiled.residual(residual, hidden_states)
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[1])
    hidden_states = ffn(hidden_states, weights, layer, context)
    return add(residual, hidden_states)


def _sequential_kept(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[0])
    attn_output, _scores = mix(hidden_states, weights, layer, context, layer.dropout)
    hidden_states = add(attn_output, residual)
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[1])
    feed_forward_hidden_states = dropout(ffn(hidden_states, weights, layer, context), layer.dropout)
    return add(residual, feed_forward_hidden_states)


def _sandwich(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[0])
    hidden_states, _scores = mix(hidden_states, weights, layer, context)
    mixed = hidden_states if hidden_states.tape.compiled else None
    hidden_states = norm(hidden_states, weights, layer.norms[1])
    hidden_states = compiled.residual(residual, hidden_states, mixed)
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[2])
    hidden_states = ffn(hidden_states, weights, layer, context)
    hidden_states = norm(hidden_states, weights, layer.norms[3])
    return add(residual, hidden_states)


def _parallel(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    attn_output, _scores = mix(norm(hidden_states, weights, layer.norms[0]), weights, layer, context)
    attn_output = dropout(attn_output, layer.dropout)
    mlp_output = ffn(norm(hidden_states, weights, layer.norms[1]), weights, layer, context)
    mlp_output = dropout(mlp_output, layer.dropout)
    return add(add(mlp_output, attn_output), hidden_states)


def _parallel_shared(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[0])
    attn_outputs, _scores = mix(hidden_states, weights, layer, context)
    attn_outputs = dropout(attn_outputs, layer.dropout)
    mlp_outputs = dropout(ffn(hidden_states, weights, layer, context), layer.dropout)
    return add(add(attn_outputs, mlp_outputs), residual)


def _usual(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    """Return a layer of which only the parts are known, as often as its weights run."""
    for _ in range(layer.times):
        hidden_states = _once(hidden_states, weights, layer, context)
    return hidden_states


def _once(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    """Return its parts one after the other, each behind a norm, as most layers are."""
    norms = list(layer.norms)
    for mixer in layer.mixers:
        residual = hidden_states
        hidden_states = norm(hidden_states, weights, norms.pop(0)) if norms else hidden_states
        hidden_states, _scores = run_mixer(hidden_states, weights, mixer, context)
        hidden_states = add(residual, hidden_states)
    for part in layer.ffns:
        residual = hidden_states
        hidden_states = norm(hidden_states, weights, norms.pop(0)) if norms else hidden_states
        hidden_states = run_ffn(hidden_states, weights, part, context)
        hidden_states = add(residual, hidden_states)
    if layer.extra is not None and layer.extra.width:
        hidden_states = run_rest(hidden_states, weights, layer.extra, norms)
    for each in norms:
        hidden_states = norm(hidden_states, weights, each)
    for parameter in layer.extra.weights() if layer.extra and not layer.extra.width else ():
        hidden_states = learned(hidden_states, weights[parameter.name])
    return hidden_states


DECODER_LAYERS: Mapping[str, Callable[[Tensor, Weights, Layer, Context], Tensor]] = {
    "sequential": _sequential,
    **VISION_LAYERS,
    "sequential-kept": _sequential_kept,
    "sandwich": _sandwich,
    "parallel": _parallel,
    "parallel-shared": _parallel_shared,
    **RECURRENT_LAYERS,
    **RESIDUALS,
    **UNPACKED,
    "hyper-connections": hyper_connected,
    **GEMMA,
    RESIDUAL: _usual,
}
