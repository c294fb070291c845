"""A network as torchtitan builds it since June 2026: queries, keys and values come from one matrix.

Source: torchtitan/models/common/attention.py (`FusedQKVLinear`), which llama3, qwen3 and gpt_oss take by default since
3396a4b (June 24, 2026).
"""

from __future__ import annotations

from dataclasses import replace

from memcore.networks.network import Layer, Model
from memcore.networks.parts import Attention
from memcore.networks.weights import Linear
from memcore.symbols import Total

FUSED = "torchtitan"
"""How the matrix is laid out: for each head of keys its queries, itself and its values."""


def with_fused_heads(model: Model) -> Model:
    """Make one matrix of those of queries, keys and values, where a layer has three."""
    runs = tuple(tuple(_fused(layer) for layer in run) for run in model.network.runs)
    return replace(model, network=replace(model.network, runs=runs))


def _fused(layer: Layer) -> Layer:
    part = layer.mixer
    if not isinstance(part, Attention) or len(part.inputs) != 3:
        return layer
    heads, first = part.heads, part.inputs[0]
    key = heads.key if part.grouped else heads.query
    counts = (heads.query, key, key)
    rows = Total("+".join(map(str, counts)), tuple((each,) for each in counts))
    fused = Linear(f"{part.module}.qkv_linear.wqkv", (rows, heads.width), first.inner, bias=first.bias)
    return replace(layer, mixer=replace(part, inputs=(fused,), fused=FUSED))
