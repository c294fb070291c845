"""Vision towers of models on Megatron-Core's decoders: who has which, and as what.

Sources: Megatron-Bridge, models/qwen_vl/{modeling_qwen25_vl,modelling_qwen3_vl/{model,vision_model,utils}}.py; for
ms-swift mcore-bridge, model/mm_gpts. A tower is in the chunk that embeds tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from memcore.networks.network import Layer, Model, Network, Tower, with_layers
from memcore.networks.parts import Attention, FeedForward
from memcore.networks.weights import Weight
from memcore.symbols import Axis
from memcore.trainers.megatron.networks.parts import DEEP, RESIDUAL, Style, attention, dense

WHOLE, DIVIDED = "whole", "divided"
"""transformers' own module on every tensor-parallel rank; or layers of Megatron-Core, which those ranks share."""
SEEING = ("tower", "projector")
"""Kinds of its parameters, whose modules have settings of their own: neither FP8 nor fused weight gradients."""
MULTIMODAL = "multimodal"
"""Rotation by time, rows and columns (M-RoPE), by angles that every micro-batch computes: `Attention.rotary`."""
MULTIMODAL_FAMILIES = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe")
DIVIDED_VARIANTS = ("megatron-qwen3_vl",)
"""`Tower.variant` of towers that are divided."""
_BRIDGE: Mapping[str, str] = {
    "qwen2_5_vl": WHOLE,
    **dict.fromkeys(("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"), DIVIDED),
}
_SWIFT = dict.fromkeys(("internvl", "kimi_vl", "llama4", *MULTIMODAL_FAMILIES), WHOLE)
Runs: TypeAlias = tuple[tuple[Layer, ...], ...]
_STYLE = Style(norm="layer", bias=True, query_bias=True)


def towers_of(framework: str | None) -> Mapping[str, str]:
    """Return how towers stand, by family.

    Where no framework is named, as Megatron Bridge has them, else as ms-swift does.
    """
    named = (framework or "").lower()
    if "bridge" in named:
        return _BRIDGE
    return _SWIFT if "swift" in named else {**_SWIFT, **_BRIDGE}


def embedder(framework: str | None, network: Network) -> str | None:
    """Return whose model for text and images embeds tokens: `bridge` or `swift`; None: it is a model of text."""
    if not network.towers:
        return None
    bridged = network.towers[0].variant in ("qwen2_5_vl", *DIVIDED_VARIANTS)
    return "bridge" if bridged and "swift" not in (framework or "").lower() else "swift"


def placed(model: Model, how: str, rows: Axis) -> tuple[Tower, ...]:
    """Return a model's towers as they stand; `rows`: heads of queries, keys and values together."""
    towers = model.network.towers
    if how == WHOLE:
        return tuple(replace(tower, checkpointed=False) for tower in towers)
    return tuple(_divided(tower, rows) for tower in towers)


def deep_layers(towers: Sequence[Tower]) -> int:
    """Return how many first decoder layers receive features of the tower's inner layers (Qwen3-VL's DeepStack)."""
    return len(towers[0].taps) - 1 if towers and "qwen3" in towers[0].variant else 0


def deepened(runs: Runs, repeats: Sequence[int], count: int) -> Runs:
    """The decoder's runs with those first layers marked; they are runs of their own."""
    found, left = [], count
    for run, times in zip(runs, repeats, strict=True):
        marked = left > 0
        found.append(tuple(replace(layer, residual=DEEP) if marked else layer for layer in run))
        left -= len(run) * times
    return tuple(found)


def _divided(tower: Tower, rows: Axis) -> Tower:
    """Build the tower from Megatron-Core's layers."""
    return replace(
        with_layers(tower, lambda layer: _layer(layer, rows)),
        variant=DIVIDED_VARIANTS[0],
        outer_weights=tuple(map(_sharded, tower.outer_weights)),
        divided=True,
    )


def _layer(layer: Layer, rows: Axis) -> Layer:
    mixer, ffn = layer.mixer, layer.feed_forward
    if not isinstance(mixer, Attention) or not isinstance(ffn, FeedForward):
        raise TypeError(layer)
    made = attention(_STYLE, mixer.heads, rows, "packed", grouped=False, bidirectional=True, hidden="ht")
    return Layer(
        mixer=made,
        feed_forward=dense(_STYLE, ffn.down.inner[-1], "gelu", gated=False, hidden="ht"),
        residual=RESIDUAL,
        norms=tuple(_STYLE.normed(name, "ht") for name in ("input_layernorm", "pre_mlp_layernorm")),
        kind="tower",
    )


def _sharded(weight: Weight) -> Weight:
    """Return the matrices of a merger: the first by columns, the second by rows."""
    if "linear_fc1" in weight.name:
        return replace(weight, split="outer")
    return replace(weight, split="inner") if weight.name.endswith("linear_fc2.weight") else weight
