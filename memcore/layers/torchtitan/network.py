"""A network as torchtitan builds it: queries, keys and values come from one matrix since June 2026.

Source: torchtitan/models/common/attention.py (`FusedQKVLinear`), which llama3, qwen3 and gpt_oss take by default since
3396a4b (June 24, 2026); models/llama3 and models/qwen3 before ff0829c (January 27, 2026; `repeat_kv`).
"""

from __future__ import annotations

from dataclasses import replace

from memcore.networks.network import Layer, Model, with_layers
from memcore.networks.parts import Attention
from memcore.networks.weights import Linear
from memcore.symbols import total_of

FUSED = "per-key-head"
"""How the matrix is laid out: for each head of keys its queries, itself and its values."""


def with_fused_heads(model: Model) -> Model:
    """Make one matrix of those of queries, keys and values, where a layer has three."""
    return replace(model, network=with_layers(model.network, _fused))


def with_copied_heads(model: Model) -> Model:
    """Copy keys and values for every query head."""
    return replace(model, network=with_layers(model.network, _copied))


def _copied(layer: Layer) -> Layer:
    part = layer.mixer
    if not isinstance(part, Attention) or not part.grouped:
        return layer
    return replace(layer, mixer=replace(part, repeats_heads=True))


def _fused(layer: Layer) -> Layer:
    part = layer.mixer
    if not isinstance(part, Attention) or len(part.inputs) != 3:
        return layer
    heads, first = part.heads, part.inputs[0]
    key = heads.key if part.grouped else heads.query
    rows = total_of((heads.query, key, key))
    fused = Linear(f"{part.module}.qkv_linear.wqkv", (rows, heads.width), first.inner, bias=first.bias)
    return replace(layer, mixer=replace(part, inputs=(fused,), fused=FUSED))
