"""Zamba 2: Mamba layers, some of which a shared attention layer with adapters of its own joins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from memcore.networks.families.family import Family
from memcore.networks.parts import Extra
from memcore.networks.patterns import HYBRID, Place, depth, typed
from memcore.networks.reader import Reader
from memcore.networks.recurrences import Mamba2
from memcore.networks.rows import Dense, Grouped
from memcore.networks.weights import Weight
from memcore.symbols import Shape


def _zamba_types(reader: Reader) -> list[str]:
    """Return the class's own layout, or what `hybrid_layer_ids` lists."""
    ids = reader.listed("hybrid_layer_ids")
    if ids is None:
        ids = [*range(6, 48, 6), 47, 51]
    return ["hybrid" if i in ids else "linear_attention" for i in range(depth(reader))]


def zamba_places(reader: Reader) -> list[Place]:
    """The first hybrid layers own the shared blocks, in turn; later ones use them again.

    If embedding and head are not tied, transformers ties nothing else either.
    """
    blocks, seen, places = reader.integer("num_mem_blocks"), 0, []
    tied = reader.flag("tie_word_embeddings", default=True)
    for place in typed(_zamba_types, "layers_block_type", more=HYBRID)(reader):
        if place.tag:
            places.append(Place("hybrid", tag="borrower" if tied and seen >= blocks else f"owner {seen % blocks}"))
            seen += 1
        else:
            places.append(place)
    return places


_SHARED = "shared_transformer."

_SHARED_ATTENTION = Grouped(
    variant="zamba2",
    rotary=lambda reader: "full" if reader.flag("use_mem_rope") else "none",
    module=f"{_SHARED}self_attn",
    bias=False,
    output_bias=False,
    width=lambda reader: 2 * reader.sizes["h"] // reader.integer("num_attention_heads"),
    source="t",
)

_SHARED_FFN = Dense(module=f"{_SHARED}feed_forward", gate=None, up="gate_up_proj", fused=True)


def _zamba_attention(place: Place) -> Grouped | None:
    if not place.tag:
        return None
    return replace(_SHARED_ATTENTION, borrowed=place.tag == "borrower")


def _zamba_ffns(reader: Reader) -> list[str | None]:
    reader.symbol("t", 2 * reader.sizes["h"])
    kinds = {"": None, "borrower": "borrowed"}
    return [kinds.get(place.tag, "dense") for place in zamba_places(reader)]


def _adapters(reader: Reader, owner: int) -> Iterator[Weight]:
    """Low-rank matrices for every use of a shared block, held by the block (Zamba 2)."""
    uses = sum(bool(place.tag) for place in zamba_places(reader))
    reader.symbol("la", reader.integer("adapter_rank"))
    kinds: list[tuple[str, Shape, str]] = [("feed_forward.gate_up_proj_adapter_list", (2, "f"), "h")]
    if reader.flag("use_shared_attention_adapter"):
        heads = {"q": "a", "k": "k", "v": "k"}
        kinds += [(f"self_attn.linear_{each}_adapter_list", (axis, "d"), "t") for each, axis in heads.items()]
    for use in range(owner, uses, reader.integer("num_mem_blocks")):
        for name, outer, inner in kinds:
            yield Weight(f"{_SHARED}{name}.{use}.0.weight", (("la",), (inner,)), "other")
            yield Weight(f"{_SHARED}{name}.{use}.1.weight", (outer, ("la",)), "other")


def _zamba_extra(reader: Reader, place: Place) -> Extra | None:
    """Return what a hybrid layer has besides its Mamba layer.

    A way back from the shared block, and perhaps the block.
    """
    if not place.tag:
        return None
    found = [Weight("linear.weight", (("h",), ("h",)), "other")]
    kind, _, owner = place.tag.partition(" ")
    if kind == "owner":
        found += _adapters(reader, int(owner))
        found.append(Weight(f"{_SHARED}input_layernorm.weight", (("t",),), "norm"))
        found.append(Weight(f"{_SHARED}pre_ff_layernorm.weight", (("h",),), "norm"))
    return Extra("zamba2", tuple(found))


def _zamba_norms(reader: Reader, place: Place) -> tuple[str, ...]:
    return ("mamba_decoder.input_layernorm",) if place.tag else ("input_layernorm",)


_ZAMBA_MIXER = Mamba2(
    module="mamba",
    heads="n_mamba_heads",
    inner=lambda reader: int(reader.number("mamba_expand") * reader.sizes["h"]),
    groups="mamba_ngroups",
    state="mamba_d_state",
    kernel="mamba_d_conv",
    bias="add_bias_linear",
    conv_bias=True,
)

ZAMBA2 = Family(
    mixers={"linear": _ZAMBA_MIXER, "hybrid": replace(_ZAMBA_MIXER, module="mamba_decoder.mamba")},
    ffns={"dense": _SHARED_FFN, "borrowed": replace(_SHARED_FFN, borrowed=True)},
    mixer_plan=zamba_places,
    ffn_plan=_zamba_ffns,
    second_mixer=_zamba_attention,
    final_norm="model.final_layernorm",
    norms=_zamba_norms,
    residual=lambda reader, place: "zamba2" if place.tag else "single",
    start="zamba2",
    order=("linear", "mamba_decoder", "shared_transformer"),
    more=_zamba_extra,
)
