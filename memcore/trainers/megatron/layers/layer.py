"""A transformer layer. Source: Megatron-LM, core/transformer/transformer_layer.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from memcore.networks.parts import Attention, Experts, FeedForward, Ffn, LatentAttention, Mixer, SpecialMixer
from memcore.networks.weights import Norm
from memcore.tensors.tensor import Parameter, Tensor
from memcore.trace.step import Slot
from memcore.trainers.megatron.layers.attention import LayerContext, attention, cross_attention
from memcore.trainers.megatron.layers.experts import experts
from memcore.trainers.megatron.layers.feed_forward import feed_forward
from memcore.trainers.megatron.layers.fused import bias_dropout_add
from memcore.trainers.megatron.layers.gated_delta import gated_delta
from memcore.trainers.megatron.layers.gemma4 import gemma4_layer
from memcore.trainers.megatron.layers.graphs import covers, enter, leave, module_of, routes
from memcore.trainers.megatron.layers.latent import behind_norm, latent_attention
from memcore.trainers.megatron.layers.linear import Weights
from memcore.trainers.megatron.layers.mamba import mamba
from memcore.trainers.megatron.layers.offloading import Group, opened
from memcore.trainers.megatron.layers.recompute import recomputes, run_again
from memcore.trainers.megatron.networks.parts import GEMMA4

RECURRENT: Mapping[str, Callable[[Tensor, SpecialMixer, Norm, Weights, LayerContext], Tensor]] = {
    "megatron-mamba2": mamba,
    "megatron-gated-delta": gated_delta,
}
"""By `SpecialMixer.variant`."""


def layer(
    x: Tensor, slot: Slot, around: LayerContext, seen: Tensor | None = None, angles: Tensor | None = None
) -> Tensor:
    """`TransformerLayer.forward`; `seen`: what cross-attention attends to; `angles`: of the micro-batch's tokens."""
    if slot.layer.residual == GEMMA4:
        return gemma4_layer(x, slot, around)
    if slot.layer.precise:
        around = replace(around, how=replace(around.how, fp8=None))
    own, weights, graphs = slot.layer, slot.weights, around.how.graphs
    mixer, ffn = own.mixer, own.feed_forward
    norms = list(own.norms)
    first, second = (bool(name) and covers(graphs, name) for name in module_of(own))
    router = routes(graphs, own)
    if graphs is not None and first:
        x = enter(x, graphs)
    if mixer is not None:
        group = opened(around.offloads if isinstance(mixer, LatentAttention) else None, "attn_norm")
        residual = group.start(x)
        y, bias = _mixer(residual, mixer, norms.pop(0), weights, around, group, angles)
        x = bias_dropout_add(y, bias, residual, own.dropout)
        del y
        group.commit(residual)
        del residual
    if seen is not None and isinstance(own.second_mixer, Attention):
        y, bias = cross_attention(x, seen, own.second_mixer, norms.pop(0), weights, around)
        x = bias_dropout_add(y, bias, x, own.dropout)
        del y
    if first and not (second or router):
        x = leave(x)
    if ffn is not None:
        if graphs is not None and (second or router) and not first:
            x = enter(x, graphs)
        group = opened(around.offloads if isinstance(ffn, Experts) else None, "mlp_norm")
        residual = group.start(x)
        y, bias = _ffn(residual, ffn, norms.pop(0), weights, around, group)
        x = bias_dropout_add(y, bias, leave(residual) if router else residual, own.dropout)
        group.commit(residual)
    return leave(x) if second else x


def _mixer(
    x: Tensor, mixer: Mixer, before: Norm, weights: Weights, around: LayerContext, group: Group, angles: Tensor | None
) -> tuple[Tensor, Parameter | None]:
    if isinstance(mixer, Attention):
        return attention(x, mixer, before, weights, around, angles)
    if isinstance(mixer, LatentAttention):
        return latent_attention(x, mixer, before, weights, around, group)
    return RECURRENT[mixer.variant](x, mixer, before, weights, around), None


def _ffn(
    x: Tensor, ffn: Ffn, before: Norm, weights: Weights, around: LayerContext, group: Group
) -> tuple[Tensor, Parameter | None]:
    """Return a feed-forward layer behind its norm; a dense one may be recomputed as a whole."""
    how = around.how
    if isinstance(ffn, FeedForward):
        bias = weights.get(f"{ffn.down.name}.bias")

        def dense(x: Tensor) -> Tensor:
            return feed_forward(x, ffn, before, weights, around)[0]

        return (run_again(dense, x) if recomputes(how, "mlp") else dense(x)), bias

    def routed(x: Tensor) -> Tensor:
        return experts(x, ffn, weights, around)

    return behind_norm(x, before, routed, weights, around, group), None
