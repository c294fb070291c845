"""Decoder layers of dense families: where norms, scales and dropout stand between residuals.

Local variables live as long here as they do in `models/*/modeling_*.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memcore.layers.transformers.alibi import attend_bloom, dropout_add
from memcore.layers.transformers.context import Context, Weights, project
from memcore.layers.transformers.falcon import ffn_falcon
from memcore.layers.transformers.feed_forward import activate
from memcore.layers.transformers.ffns import ffn
from memcore.layers.transformers.mixers import mix
from memcore.layers.transformers.norms import norm
from memcore.networks.network import Layer
from memcore.networks.parts import Attention, FeedForward
from memcore.tensors.arithmetic import add_in_place
from memcore.tensors.operations import add, dropout, scale
from memcore.tensors.tensor import Tensor

DecoderLayer = Callable[[Tensor, Weights, Layer, Context], Tensor]
"""Hidden states, parameters, the layer and the context to hidden states."""


def _scaled(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    """Granite."""
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[0])
    hidden_states, _scores = mix(hidden_states, weights, layer, context)
    hidden_states = add(residual, scale(hidden_states))
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[1])
    hidden_states = ffn(hidden_states, weights, layer, context)
    return add(residual, scale(hidden_states))


def _norms_after(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    """OLMo 2, EXAONE 4."""
    residual = hidden_states
    hidden_states, _scores = mix(hidden_states, weights, layer, context)
    hidden_states = norm(hidden_states, weights, layer.norms[0])
    hidden_states = add(residual, hidden_states)
    residual = hidden_states
    hidden_states = ffn(hidden_states, weights, layer, context)
    hidden_states = norm(hidden_states, weights, layer.norms[1])
    return add(residual, hidden_states)


def _dropped(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    """Phi-3: what was dropped out stays alive with its parts."""
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[0])
    hidden_states, _scores = mix(hidden_states, weights, layer, context)
    hidden_states = add(residual, dropout(hidden_states, layer.dropout))
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[1])
    hidden_states = ffn(hidden_states, weights, layer, context)
    return add(residual, dropout(hidden_states, layer.dropout))


def _dropped_inside(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    """Starcoder 2, Seed-OSS: dropout is the last thing in both parts."""
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[0])
    hidden_states, _scores = mix(hidden_states, weights, layer, context, layer.dropout)
    hidden_states = add(residual, hidden_states)
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[1])
    hidden_states = dropout(ffn(hidden_states, weights, layer, context), layer.dropout)
    return add(residual, hidden_states)


def _stablelm(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[0])
    self_attn_output, _scores = mix(hidden_states, weights, layer, context)
    residual = add(residual, self_attn_output)
    mlp_output = ffn(norm(residual, weights, layer.norms[1]), weights, layer, context)
    mlp_output = dropout(mlp_output, layer.dropout)
    return add(residual, mlp_output)


def _onto_residual(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    """Cohere and StableLM's parallel layers: both parts are added to the residual one after the other."""
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[0])
    self_attn_output, _scores = mix(hidden_states, weights, layer, context)
    mlp_output = ffn(hidden_states, weights, layer, context)
    mlp_output = dropout(mlp_output, layer.dropout)
    return add(add(residual, self_attn_output), mlp_output)


def _neox(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    """GPT-NeoX without parallel residuals."""
    attn_output, _scores = mix(norm(hidden_states, weights, layer.norms[0]), weights, layer, context)
    attn_output = dropout(attn_output, layer.dropout)
    attn_output = add(attn_output, hidden_states)
    mlp_output = ffn(norm(attn_output, weights, layer.norms[1]), weights, layer, context)
    mlp_output = dropout(mlp_output, layer.dropout)
    return add(mlp_output, attn_output)


def _gptj(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[0])
    attn_outputs, attn_weights = mix(hidden_states, weights, layer, context, layer.dropout)
    feed_forward_hidden_states = dropout(ffn(hidden_states, weights, layer, context), layer.dropout)
    hidden_states = add(add(attn_outputs, feed_forward_hidden_states), residual)
    context.leave(attn_weights)
    return hidden_states


def _gpt_neo(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[0])
    attn_output, attn_weights = mix(hidden_states, weights, layer, context, layer.dropout)
    hidden_states = add(attn_output, residual)
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[1])
    feed_forward_hidden_states = dropout(ffn(hidden_states, weights, layer, context), layer.dropout)
    hidden_states = add(residual, feed_forward_hidden_states)
    context.leave(attn_weights)
    return hidden_states


def _opt(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    return _opt_layer(hidden_states, weights, layer, context, before=True)


def _opt_after(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    return _opt_layer(hidden_states, weights, layer, context, before=False)


def _opt_layer(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context, *, before: bool) -> Tensor:
    """The feed-forward layer has no module of its own: its steps rebind the layer's variable."""
    part = _dense(layer)
    residual = hidden_states
    if before:
        hidden_states = norm(hidden_states, weights, layer.norms[0])
    hidden_states, _scores = mix(hidden_states, weights, layer, context)
    hidden_states = dropout(hidden_states, layer.dropout)
    hidden_states = add(residual, hidden_states)
    if not before:
        hidden_states = norm(hidden_states, weights, layer.norms[0])
    residual = hidden_states
    if before:
        hidden_states = norm(hidden_states, weights, layer.norms[1])
    hidden_states = project(hidden_states, weights, part.up)
    hidden_states = activate(hidden_states, weights, part)
    hidden_states = project(hidden_states, weights, part.down)
    hidden_states = dropout(hidden_states, layer.dropout)
    hidden_states = add(residual, hidden_states)
    return hidden_states if before else norm(hidden_states, weights, layer.norms[1])


def _bloom(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    layernorm_output = norm(hidden_states, weights, layer.norms[0])
    residual = hidden_states
    attention_output, attn_weights = _bloom_attention(layernorm_output, residual, weights, layer, context)
    layernorm_output = norm(attention_output, weights, layer.norms[1])
    residual = attention_output
    output = _added_ffn(layernorm_output, residual, weights, layer)
    context.leave(attn_weights)
    return output


def _bloom_after(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    """Residuals start behind the norms."""
    layernorm_output = norm(hidden_states, weights, layer.norms[0])
    residual = layernorm_output
    attention_output, attn_weights = _bloom_attention(layernorm_output, residual, weights, layer, context)
    layernorm_output = norm(attention_output, weights, layer.norms[1])
    residual = layernorm_output
    output = _added_ffn(layernorm_output, residual, weights, layer)
    context.leave(attn_weights)
    return output


def _bloom_attention(
    hidden_states: Tensor, residual: Tensor, weights: Weights, layer: Layer, context: Context
) -> tuple[Tensor, Tensor | None]:
    if not isinstance(layer.mixer, Attention):
        raise TypeError(layer)
    return attend_bloom(hidden_states, weights, layer.mixer, context, layer.dropout, residual)


def _mpt(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    layernorm_output = norm(hidden_states, weights, layer.norms[0])
    residual = hidden_states
    attn_outputs, attn_weights = mix(layernorm_output, weights, layer, context)
    hidden_states = add(dropout(attn_outputs, layer.dropout), residual)
    layernorm_output = norm(hidden_states, weights, layer.norms[1])
    residual = hidden_states
    output = _added_ffn(layernorm_output, residual, weights, layer)
    context.leave(attn_weights)
    return output


def _added_ffn(hidden_states: Tensor, residual: Tensor, weights: Weights, layer: Layer) -> Tensor:
    """Return a feed-forward module that adds the residual itself, while its own variables live."""
    part = _dense(layer)
    with hidden_states.tape.module(part.module):
        hidden_states = activate(project(hidden_states, weights, part.up), weights, part)
        intermediate_output = project(hidden_states, weights, part.down)
        return dropout_add(intermediate_output, residual, layer.dropout)


def _falcon(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    residual = hidden_states
    attention_layernorm_out = norm(hidden_states, weights, layer.norms[0])
    attention_output, attn_weights = mix(attention_layernorm_out, weights, layer, context)
    residual = dropout_add(attention_output, residual, layer.mixer.dropout if layer.mixer else 0.0)
    mlp_layernorm_out = norm(residual, weights, layer.norms[1])
    mlp_output = ffn_falcon(mlp_layernorm_out, weights, _dense(layer))
    output = dropout_add(mlp_output, residual, layer.dropout)
    context.leave(attn_weights)
    return output


def _falcon_parallel(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    residual = hidden_states
    attention_layernorm_out = norm(hidden_states, weights, layer.norms[0])
    mlp_layernorm_out = norm(hidden_states, weights, layer.norms[1]) if len(layer.norms) == 2 else None
    attention_output, attn_weights = mix(attention_layernorm_out, weights, layer, context)
    if mlp_layernorm_out is None:
        mlp_layernorm_out = attention_layernorm_out
    mlp_output = ffn_falcon(mlp_layernorm_out, weights, _dense(layer))
    mlp_output = add_in_place(mlp_output, attention_output)
    output = dropout_add(mlp_output, residual, layer.dropout)
    context.leave(attn_weights)
    return output


def _dense(layer: Layer) -> FeedForward:
    if not isinstance(layer.feed_forward, FeedForward):
        raise TypeError(layer)
    return layer.feed_forward


RESIDUALS: Mapping[str, DecoderLayer] = {
    "sequential-scaled": _scaled,
    "sequential-dropped": _dropped,
    "sequential-dropped-inside": _dropped_inside,
    "norms-after": _norms_after,
    "stablelm": _stablelm,
    "parallel-onto-residual": _onto_residual,
    "gpt-neox": _neox,
    "gptj": _gptj,
    "gpt-neo": _gpt_neo,
    "opt": _opt,
    "opt-after": _opt_after,
    "bloom": _bloom,
    "bloom-after": _bloom_after,
    "mpt": _mpt,
    "falcon-sequential": _falcon,
    "falcon-parallel": _falcon_parallel,
}
"""By `Layer.residual`."""
