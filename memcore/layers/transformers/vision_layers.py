"""Layers of towers: those that are wired in ways of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memcore.layers.transformers.context import Context, Weights
from memcore.layers.transformers.ffns import ffn
from memcore.layers.transformers.mixers import mix
from memcore.layers.transformers.norms import norm
from memcore.networks.network import Layer
from memcore.tensors.operations import add, dropout, mul, tanh
from memcore.tensors.tensor import Tensor


def _qwen(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    """`Qwen2VLVisionBlock.forward`."""
    hidden_states = add(hidden_states, _mixed(norm(hidden_states, weights, layer.norms[0]), weights, layer, context))
    return add(hidden_states, ffn(norm(hidden_states, weights, layer.norms[1]), weights, layer, context))


def _mixed(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    return mix(hidden_states, weights, layer, context)[0]


def _internvl(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    """`InternVLVisionLayer.forward`: what each half adds is scaled."""
    attention_output, _attn_weights = mix(norm(hidden_states, weights, layer.norms[0]), weights, layer, context)
    attention_output = mul(weights["lambda_1"], attention_output)
    hidden_states = add(attention_output, hidden_states)
    layer_output = norm(hidden_states, weights, layer.norms[1])
    layer_output = ffn(layer_output, weights, layer, context)
    layer_output = dropout(layer_output, layer.dropout)
    layer_output = mul(weights["lambda_2"], layer_output)
    return add(layer_output, hidden_states)


def _mllama(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    """`MllamaVisionEncoderLayer.forward`, with gates or without."""
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[0])
    hidden_states, _attn_weights = mix(hidden_states, weights, layer, context)
    if layer.extra is not None:
        hidden_states = mul(tanh(weights["gate_attn"]), hidden_states)
    hidden_states = add(residual, hidden_states)
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[1])
    hidden_states = ffn(hidden_states, weights, layer, context)
    if layer.extra is not None:
        hidden_states = mul(tanh(weights["gate_ffn"]), hidden_states)
    return add(residual, hidden_states)


def _mllama_cross(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    """`MllamaCrossAttentionDecoderLayer.forward`."""
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[0])
    hidden_states, _attn_weights = mix(hidden_states, weights, layer, context)
    hidden_states = add(residual, mul(tanh(weights["cross_attn_attn_gate"]), hidden_states))
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[1])
    hidden_states = ffn(hidden_states, weights, layer, context)
    if context.seen_rows is not None:
        hidden_states = mul(context.seen_rows, hidden_states)
    return add(residual, mul(tanh(weights["cross_attn_mlp_gate"]), hidden_states))


VISION_LAYERS: Mapping[str, Callable[[Tensor, Weights, Layer, Context], Tensor]] = {
    "internvl-vision": _internvl,
    "mllama-cross": _mllama_cross,
    "mllama-vision": _mllama,
    "mllama-vision-gated": _mllama,
    "qwen-vision": _qwen,
}
"""By `Layer.residual`."""
