"""Kimi-K3: Kimi Linear with gated latent attention, experts of a smaller width and attention over earlier layers.

Sources: vllm 0.33, models/kimi_k3/nvidia: model.py (`KimiMoE`, `KimiDecoderLayer`, `KimiLinearModel`), kda.py, mla.py.
"""

from __future__ import annotations

from dataclasses import replace

from memcore.networks.families.hybrids import HYBRIDS
from memcore.networks.families.sparse import CORRECTION, NORMALIZED
from memcore.networks.parts import Extra
from memcore.networks.patterns import Place
from memcore.networks.reader import Reader
from memcore.networks.recurrences import KimiDelta
from memcore.networks.routed import Routed, shared_expert
from memcore.networks.rows import Dense
from memcore.networks.weights import Weight


def _looks_back(name: str) -> tuple[Weight, ...]:
    """Return the norm and the scoring vector that weigh the results of earlier blocks of layers."""
    return (
        Weight(f"{name}_norm.weight", (("h",),), "norm"),
        Weight(f"{name}_proj.weight", ((1,), ("h",)), "other"),
    )


def _gate(reader: Reader, place: Place) -> tuple[Weight, ...]:
    """Latent attention's results are gated, head by head."""
    if place.mixer != "attention":
        return ()
    wide = reader.symbol("v", reader.integer("v_head_dim"))
    return (Weight("self_attn.g_proj.weight", (("a", wide), ("h",)), "attention", split="outer"),)


def _more(reader: Reader, place: Place) -> Extra:
    back = (*_looks_back("self_attention_res"), *_looks_back("mlp_res")) if _blocks(reader) else ()
    return Extra("kimi-k3", (*_gate(reader, place), *back))


def _blocks(reader: Reader) -> int:
    return reader.integer("attn_res_block_size", 0, least=0)


def _outer_weights(reader: Reader) -> tuple[Weight, ...]:
    return tuple(replace(each, name=f"model.{each.name}") for each in _looks_back("output_attn_res") if _blocks(reader))


_LINEAR = HYBRIDS["kimi_linear"]
KIMI_K3 = replace(
    _LINEAR,
    mixers={**_LINEAR.mixers, "linear": KimiDelta(full_rank=True)},
    ffns={
        "dense": Dense(fixed_activation="silu"),
        "sparse": Routed(
            variant="deepseek_v3",
            count="num_local_experts",
            chosen="num_experts_per_tok",
            shared=shared_expert("mlp.shared_experts", times="n_shared_experts", fixed_activation="silu"),
            shared_if="n_shared_experts",
            correction=CORRECTION,
            groups=("n_group", "topk_group"),
            options=NORMALIZED,
            experts_first=True,
            fixed_activation="silu",
            latent="routed_expert_hidden_size",
            latent_names=("routed_expert_down_proj", "routed_expert_up_proj"),
            routing=(Weight("routed_expert_norm.weight", (("le",),), "norm"),),
        ),
    },
    residual="kimi-k3",
    more=_more,
    others=_outer_weights,
    only={
        "hidden_act": "situ", "latent_moe_use_norm": True, "mla_use_output_gate": True,
        "linear_attn_config.use_full_rank_gate": True,
    },
    like="kimi_linear",
)  # fmt: skip
"""The language model's row."""
