"""Decoder layers of sparse families whose local variables differ from Llama's.

What a part returns in addition to its hidden states takes the place of the attention's scores, or a part lives longer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memcore.layers.transformers.context import Context, Weights
from memcore.layers.transformers.ffns import ffn
from memcore.layers.transformers.mixers import mix
from memcore.layers.transformers.norms import norm
from memcore.networks.network import Layer
from memcore.networks.parts import Experts
from memcore.tensors.operations import add, dropout
from memcore.tensors.tensor import Tensor


def _gpt_oss(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[0])
    hidden_states, _ = mix(hidden_states, weights, layer, context)
    hidden_states = add(residual, hidden_states)
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[1])
    hidden_states = ffn(hidden_states, weights, layer, context)
    del _  # `hidden_states, _ = self.mlp(hidden_states)`: from here on `_` names the router's scores
    return add(residual, hidden_states)


def _llama4(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[0])
    attention_states, _ = mix(hidden_states, weights, layer, context)
    hidden_states = add(residual, attention_states)
    residual = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[1])
    hidden_states = ffn(hidden_states, weights, layer, context)
    if isinstance(layer.feed_forward, Experts):
        del _  # `hidden_states, _ = hidden_states`: from here on `_` names the router's logits
    return add(residual, hidden_states)


def _dbrx(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    resid_states, hidden_states = _norm_attn_norm(hidden_states, weights, layer, context)
    hidden_states = ffn(hidden_states, weights, layer, context)
    hidden_states = dropout(hidden_states, layer.dropout)
    return add(resid_states, hidden_states)


def _norm_attn_norm(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> tuple[Tensor, Tensor]:
    residual_states = hidden_states
    hidden_states = norm(hidden_states, weights, layer.norms[0])
    hidden_states, _scores = mix(hidden_states, weights, layer, context)
    hidden_states = dropout(hidden_states, layer.dropout)
    hidden_states = add(hidden_states, residual_states)
    residual_states = hidden_states
    return residual_states, norm(hidden_states, weights, layer.norms[1])


UNPACKED: Mapping[str, Callable[[Tensor, Weights, Layer, Context], Tensor]] = {
    "sequential-unpacked": _gpt_oss,
    "llama4": _llama4,
    "dbrx": _dbrx,
}
"""By `Layer.residual`."""
