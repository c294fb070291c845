"""Gemma 4's sparse layers as Megatron Bridge builds them from Megatron-Core's.

Source: Megatron-Bridge 0.7, models/gemma/{modeling_gemma4,gemma4_provider}.py (`gemma4_block_spec`: keys and values of
full attention come from one matrix that has rows for both), models/gemma_vl/modeling_gemma4_vl.py (the published tower
on every rank), recipes/gemma4_vl (`freeze_vision_model`).
"""

from __future__ import annotations

from dataclasses import replace

from memcore.networks.network import EmbeddingAndHead, Layer, Network
from memcore.networks.parts import Attention, Experts, FeedForward
from memcore.networks.weights import Norm, Weight
from memcore.symbols import Axis
from memcore.trainers.megatron.networks.parts import GEMMA4, Routing, Style, attention, sparse

_NORMS = (
    "input_layernorm",
    "self_attention.linear_proj.post_layernorm",
    "pre_mlp_layernorm",
    "pre_shared_expert_layernorm",
    "mlp.post_moe_layernorm",
    "mlp.post_shared_expert_layernorm",
    "post_ffn_layernorm",
)
"""In the order in which a layer runs them."""


def is_gemma4(network: Network) -> bool:
    """Return whether all layers are Gemma 4's with experts, without inputs or caches of other layers."""
    return all(_is_sparse(layer) for layer in network.kinds)


def _is_sparse(layer: Layer) -> bool:
    mixer, ffn, experts = layer.mixer, layer.feed_forward, layer.second_feed_forward
    sparse_too = isinstance(ffn, FeedForward) and isinstance(experts, Experts) and experts.variant == "gemma4"
    alone = isinstance(mixer, Attention) and not (mixer.shares_cache or mixer.stores_cache)
    return layer.residual == "gemma4" and sparse_too and alone


def gemma4_layer(layer: Layer, style: Style, rows: Axis) -> Layer:
    """Return a layer; `rows`: heads of queries, keys and values together."""
    mixer, dense, experts = layer.mixer, layer.feed_forward, layer.second_feed_forward
    if not isinstance(mixer, Attention) or not isinstance(dense, FeedForward) or not isinstance(experts, Experts):
        raise TypeError(layer)
    attends = attention(style, mixer.heads, rows, mixer.rotary, grouped=mixer.grouped, normed=True)
    value_norm = Norm(f"{attends.module}.v_norm", "rms-plain", (mixer.heads.width,))
    routing = Routing(
        experts=experts.router.outer[0],
        chosen=experts.routed,
        width=experts.experts[-1].axes[-1][-1],
        shared=dense.down.inner[-1],
        fp32=True,
    )
    ffn = replace(sparse(style, routing, "gelu", gated=True), routing=_scales(experts))
    return Layer(
        mixer=replace(attends, value_norm=value_norm, mask=mixer.mask),
        feed_forward=ffn,
        residual=GEMMA4,
        norms=tuple(style.normed(name) for name in _NORMS),
        dropout=layer.dropout,
    )


def _scales(experts: Experts) -> tuple[Weight, ...]:
    return tuple(replace(each, name=f"mlp.{each.name}") for each in experts.routing)


def around_gemma4(made: EmbeddingAndHead, found: EmbeddingAndHead) -> EmbeddingAndHead:
    """Embeddings and head with what Gemma 4 does to them; its tower, if it has one, is frozen and on every rank."""
    others = tuple(
        replace(each, name=f"encoder.{each.name}", trainable=each.kind != "tower" or "embed" in each.name)
        for each in found.others
    )
    return replace(made, embedding_scaled=found.embedding_scaled, head_softcap=found.head_softcap, others=others)
