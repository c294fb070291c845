"""Gemma 3n and 4: how their layers are wired.

Local variables live as long here as they do in `models/gemma3n` and `models/gemma4`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from memcore.layers.transformers.context import Context, Weights, project
from memcore.layers.transformers.experts import moe_branch
from memcore.layers.transformers.ffns import ffn
from memcore.layers.transformers.mixers import mix
from memcore.layers.transformers.norms import norm
from memcore.networks.network import Layer
from memcore.networks.parts import FeedForward
from memcore.networks.weights import Linear, Norm
from memcore.symbols import Shifted
from memcore.tensors.altered import add_to_permuted, add_to_slice
from memcore.tensors.arithmetic import add_in_place, mul_buffer_
from memcore.tensors.basics import clone, contiguous, permute, to
from memcore.tensors.moments import repeat_first
from memcore.tensors.operations import ACTIVATIONS, add, add_scalar, linear, matmul, mul, scale, sub, tanh
from memcore.tensors.reshaping import insert, select
from memcore.tensors.running import clamp
from memcore.tensors.tensor import Tensor

_POWER = "rms-power"
_GATE = Linear("per_layer_input_gate", ("pl",), ("h",))
_PROJECTION = Linear("per_layer_projection", ("h",), ("pl",))


def _gemma4(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[0])
    hidden_states, _scores = mix(hidden_states, weights, layer, context)
    hidden_states = norm(hidden_states, weights, layer.norms[1])
    hidden_states = add(residual, hidden_states)
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[2])
    hidden_states = ffn(hidden_states, weights, layer, context)
    if layer.second_feed_forward is not None:
        hidden_states_1 = norm(hidden_states, weights, Norm("post_feedforward_layernorm_1", _POWER))
        hidden_states_2, _scores, *_local = moe_branch(residual, weights, layer.second_feed_forward)
        hidden_states_2 = norm(hidden_states_2, weights, Norm("post_feedforward_layernorm_2", _POWER))
        hidden_states = add(hidden_states_1, hidden_states_2)
    hidden_states = norm(hidden_states, weights, layer.norms[3])
    hidden_states = add(residual, hidden_states)
    if context.own is not None:
        residual = hidden_states
        for run in _per_layer(context.own, weights, layer):
            hidden_states = run(hidden_states)
        hidden_states = add(residual, hidden_states)
    return mul_buffer_(hidden_states, context.buffers)


def _per_layer(per_layer_input: Tensor, weights: Weights, layer: Layer) -> Iterator[Callable[[Tensor], Tensor]]:
    """Yield what a layer does with its own embedding of the tokens: each result takes the place of the one before."""
    if not isinstance(layer.feed_forward, FeedForward):
        raise TypeError(layer)
    yield lambda hidden_states: project(hidden_states, weights, _GATE)
    yield ACTIVATIONS[layer.feed_forward.activation]
    yield lambda hidden_states: mul(hidden_states, per_layer_input)
    yield lambda hidden_states: project(hidden_states, weights, _PROJECTION)
    yield lambda hidden_states: norm(hidden_states, weights, Norm("post_per_layer_input_norm", _POWER))


def _gemma3n(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    if context.own is None:
        raise TypeError(context)
    predictions = _predict(hidden_states, weights)
    active_prediction = select(predictions, 0)
    active_prediction_normed = norm(active_prediction, weights, layer.norms[0])
    laurel_output = _laurel(active_prediction_normed, weights)
    attn, _scores = mix(active_prediction_normed, weights, layer, context)
    attn = norm(attn, weights, layer.norms[1])
    attn_gated = add(active_prediction, attn)
    attn_laurel = scale(add(attn_gated, laurel_output), "div")
    attn_norm = norm(attn_laurel, weights, layer.norms[2])
    attn_ffw = ffn(attn_norm, weights, layer, context)
    attn_ffw_norm = norm(attn_ffw, weights, layer.norms[3])
    attn_ffw_laurel_gated = add(attn_laurel, attn_ffw_norm)
    corrected_predictions = _correct(predictions, attn_ffw_laurel_gated, weights)
    first_prediction = clone(select(corrected_predictions, 0))
    if "altup.correct_output_scale" in weights:
        first_prediction = _scale_output(first_prediction, weights["altup.correct_output_scale"])
    for run in _per_layer(context.own, weights, layer):
        first_prediction = run(first_prediction)
    return add_to_slice(corrected_predictions, Shifted("na", -1, 1), first_prediction)


def _laurel(hidden_states: Tensor, weights: Weights) -> Tensor:
    """Return a low-rank branch next to attention."""
    with hidden_states.tape.module("laurel"):
        laurel_hidden_states = project(hidden_states, weights, Linear("laurel.linear_left", ("la",), ("h",)))
        laurel_hidden_states = project(laurel_hidden_states, weights, Linear("laurel.linear_right", ("h",), ("la",)))
        return add(hidden_states, norm(laurel_hidden_states, weights, Norm("laurel.post_laurel_norm", _POWER)))


def _modalities(x: Tensor, weights: Weights) -> Tensor:
    """`compute_router_modalities`."""
    router_inputs = scale(norm(x, weights, Norm("altup.router_norm", _POWER)))
    routed = project(router_inputs, weights, Linear("altup.modality_router", ("na",), ("h",)))
    return to(tanh(to(routed, "fp32")), x.dtype)


def _predict(hidden_states: Tensor, weights: Weights) -> Tensor:
    """Each copy of the hidden states from all of them."""
    modalities = _modalities(select(hidden_states, 0), weights)
    all_coefs = project(modalities, weights, Linear("altup.prediction_coefs", ("na", "na"), ("na",)))
    all_coefs = permute(all_coefs, 0, 1, 3, 2)
    predictions = matmul(permute(hidden_states, 1, 2, 3, 0), all_coefs)
    predictions = add_to_permuted(predictions, hidden_states, 3, 0, 1, 2)
    return to(contiguous(predictions), hidden_states.dtype)


def _correct(predictions: Tensor, activated: Tensor, weights: Weights) -> Tensor:
    """Spread what the layer has changed in one copy to all of them."""
    modalities = _modalities(activated, weights)
    innovation = sub(activated, select(predictions, 0))
    innovation = repeat_first(innovation, "na")
    coefs = clamp(weights["altup.correction_coefs.weight"])
    all_coefs = add_scalar(linear(modalities, coefs))
    all_coefs = insert(permute(all_coefs, 2, 0, 1), 3)
    corrected = mul(innovation, all_coefs)
    corrected = add_in_place(corrected, predictions)
    return to(contiguous(corrected), activated.dtype)


def _scale_output(corrected: Tensor, output_scale: Tensor) -> Tensor:
    return to(mul(to(corrected, output_scale.dtype), output_scale), corrected.dtype)


GEMMA: Mapping[str, Callable[[Tensor, Weights, Layer, Context], Tensor]] = {
    "gemma3n": _gemma3n,
    "gemma4": _gemma4,
}
"""By `Layer.residual`."""
