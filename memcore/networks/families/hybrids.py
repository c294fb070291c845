"""Decoders with recurrent mixers, alone or together with attention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from memcore.networks import patterns
from memcore.networks.families.decoders import AFTER, HEAD_NORMS, OLMO2
from memcore.networks.families.family import Family
from memcore.networks.families.sparse import CORRECTION, JITTERED, NORMALIZED
from memcore.networks.families.zamba import ZAMBA2
from memcore.networks.patterns import Place, every, first_dense, typed
from memcore.networks.reader import Reader
from memcore.networks.recurrences import (
    GatedDelta,
    KimiDelta,
    Lightning,
    Mamba,
    Mamba2,
    RealGated,
    SeparateDelta,
    ShortConvolution,
)
from memcore.networks.routed import Routed, shared_expert
from memcore.networks.rows import Dense, Grouped, Latent
from memcore.symbols import round_up

_HYBRID_NORMS = ("input_layernorm", "pre_ff_layernorm")


def _listed(key: str, kind: str, others: str) -> patterns.MixerPlan:
    """Layers of one kind at the places that a key lists."""

    def rule(reader: Reader) -> list[str]:
        places = reader.places(key)
        chosen = set(range(patterns.depth(reader))) if places is None and others == "conv" else set(places or ())
        return [kind if i in chosen else others for i in range(patterns.depth(reader))]

    return typed(rule)


_LETTERS = {"M": "linear_attention", "E": "moe", "*": "full_attention", "-": "mlp"}


def _lettered(reader: Reader) -> list[Place]:
    """One part in each layer, by `layers_block_type` or a pattern of letters (Nemotron-H)."""
    pattern = reader.value("hybrid_override_pattern")
    if isinstance(pattern, str):
        unknown = set(pattern) - set(_LETTERS)
        if unknown:
            reader.refuse("hybrid_override_pattern", "found {!r}; allowed: {}", min(unknown), " ".join(_LETTERS))
        return [{**patterns.TYPES, **patterns.ALONE}[_LETTERS.get(letter, "mlp")] for letter in pattern]
    words = typed(lambda _: list(_LETTERS.values()), "layers_block_type", more=patterns.ALONE)
    return list(words(reader))


def _part_of(reader: Reader) -> list[str | None]:
    ffns = {"mlp": "dense", "moe": "sparse"}
    return [ffns.get(place.tag) for place in _lettered(reader)]


def _kimi_types(reader: Reader) -> list[str]:
    listed = reader.value("linear_attn_config.full_attn_layers")
    if isinstance(listed, list):
        return ["full_attention" if i + 1 in listed else "linear_attention" for i in range(patterns.depth(reader))]
    return ["full_attention" if i and not i % 4 else "linear_attention" for i in range(patterns.depth(reader))]


def _olmo_places(reader: Reader) -> list[Place]:
    """Attention in every fourth layer, at least in the last; it rotates unless a file has null for its base."""

    def rule(reader: Reader) -> list[str]:
        words = list(every(4, others="linear_attention")(reader))
        return words if "full_attention" in words else [*words[:-1], "full_attention"]

    rope = reader.value("rope_parameters")
    rotates = not isinstance(rope, Mapping) or rope.get("rope_theta", True) is not None
    return [replace(place, rotates=rotates) for place in typed(rule)(reader)]


def _griffin_places(reader: Reader) -> list[Place]:
    """Attention sees a window."""
    places = typed(_cycled, "layers_block_type")(reader)
    return [replace(place, mask="sliding") if place.mixer == "attention" else place for place in places]


def _cycled(reader: Reader) -> list[str]:
    """Repeat the pattern of `block_types` over all layers; every word but `recurrent` means attention.

    Source: transformers 5.23, configuration_recurrent_gemma.py (`layers_block_type`).
    """
    cycle = reader.listed("block_types") or ("attention",)
    return ["recurrent" if cycle[i % len(cycle)] == "recurrent" else "attention" for i in range(patterns.depth(reader))]


def _granite_ffns(reader: Reader) -> list[str | None]:
    """Experts where there are any; without them the expert that sees every token is needed."""
    if reader.integer("num_local_experts", 0, least=0):
        return ["sparse"] * patterns.depth(reader)
    reader.integer("shared_intermediate_size")
    return [None] * patterns.depth(reader)


def _lfm_width(reader: Reader) -> int:
    """`block_ff_dim` is that of an ungated layer; two thirds of it, rounded up to a multiple (LFM2)."""
    width = reader.integer("block_ff_dim", reader.integer("intermediate_size"))
    if not reader.flag("block_auto_adjust_ff_dim"):
        return width
    width = int(2 * width / 3)
    if reader.has("block_ffn_dim_multiplier"):
        width = int(reader.number("block_ffn_dim_multiplier") * width)
    multiple = reader.integer("block_multiple_of")
    return round_up(width, multiple)


_REFUSED = ("out_proj",)

_MAMBA_ONLY = Family(
    mixers={"linear": Mamba(refused=_REFUSED)},
    ffns={},
    mixer_plan=patterns.all_linear,
    ffn_plan=lambda reader: [None] * patterns.depth(reader),
    path="backbone.layers",
    embedding="backbone.embeddings",
    final_norm="backbone.norm_f",
    norms=("norm",),
    residual=lambda reader, place: "single-fp32" if reader.flag("residual_in_fp32", default=True) else "single",
    head_upcast=True,
)
_GATED_ATTENTION = Grouped(
    variant="gated", norms=HEAD_NORMS, norm="rms-offset", gated=True, rotary="partial", share=0.25
)
_QWEN_SHARED = Routed(
    variant="qwen",
    shared=shared_expert("mlp.shared_expert", "shared_expert_intermediate_size"),
    shared_gate="shared_expert_gate",
    options=NORMALIZED,
)
_BAMBA_MIXER = Mamba2(
    module="mamba",
    heads="mamba_n_heads",
    inner=lambda reader: reader.integer("mamba_expand") * reader.sizes["h"],
    groups="mamba_n_groups",
    state="mamba_d_state",
    kernel="mamba_d_conv",
    bias="mamba_proj_bias",
    conv_bias="mamba_conv_bias",
    chunk="mamba_chunk_size",
)

_H1_MIXER = replace(
    _BAMBA_MIXER,
    refused=_REFUSED,
    inner=lambda reader: reader.integer("mamba_d_ssm", reader.integer("mamba_expand") * reader.sizes["h"]),
    norm_if="mamba_rms_norm",
    norm_first_if="mamba_norm_before_gate",
    output_bias="projectors_bias",
    multiplied=True,
)

HYBRIDS: Mapping[str, Family] = {
    "mamba": _MAMBA_ONLY,
    "falcon_mamba": replace(_MAMBA_ONLY, mixers={"linear": Mamba(normed="plain-normed", refused=_REFUSED)}),
    "mamba2": replace(_MAMBA_ONLY, mixers={"linear": Mamba2(refused=_REFUSED)}),
    "jamba": Family(
        mixers={
            "attention": Grouped(bias=False, output_bias=False, rotary="none"),
            "linear": Mamba(
                module="mamba",
                state="mamba_d_state",
                kernel="mamba_d_conv",
                expand="mamba_expand",
                rank="mamba_dt_rank",
                bias="mamba_proj_bias",
                conv_bias="mamba_conv_bias",
                normed="normed",
                inner=False,
            ),
        },
        ffns={
            "dense": Dense(module="feed_forward"),
            "sparse": Routed(variant="jamba", module="feed_forward", router="router", width="intermediate_size"),
        },
        mixer_plan=patterns.periodic("attn_layer_period", "attn_layer_offset"),
        ffn_plan=patterns.expert_period,
        final_norm="model.final_layernorm",
        norms=_HYBRID_NORMS,
    ),
    "bamba": Family(
        mixers={"attention": Grouped(rotary="partial", share=0.5), "linear": _BAMBA_MIXER},
        ffns={"dense": Dense(module="feed_forward", bias="mlp_bias")},
        mixer_plan=_listed("attn_layer_indices", "full_attention", "linear_attention"),
        final_norm="model.final_layernorm",
        norms=_HYBRID_NORMS,
        order=("feed_forward", *_HYBRID_NORMS, "mamba", "self_attn"),
    ),
    "granitemoehybrid": Family(
        mixers={
            "attention": Grouped(
                rotary=lambda reader: "full" if reader.value("position_embedding_type") == "rope" else "none"
            ),
            "linear": _BAMBA_MIXER,
        },
        ffns={
            "sparse": Routed(
                variant="granite",
                module="block_sparse_moe",
                router="router",
                width="intermediate_size",
                count="num_local_experts",
            )
        },
        second_ffn=Dense(
            module="shared_mlp",
            gate=None,
            up="input_linear",
            down="output_linear",
            fused=True,
            width="shared_intermediate_size",
            symbol="w",
            kind="shared-expert",
        ),
        second_if="shared_intermediate_size",
        mixer_plan=typed(lambda reader: ["linear_attention"] * patterns.depth(reader), windowed=False),
        ffn_plan=_granite_ffns,
        residual="granite-hybrid",
        embedding_multiplied=True,
        head_scaled=True,
        order=("input_layernorm", "post_attention_layernorm", "block_sparse_moe", "shared_mlp", "mamba", "self_attn"),
    ),
    "falcon_h1": Family(
        mixers={"attention": Grouped(scales_keys=True)},
        second_mixer=lambda place: _H1_MIXER,
        ffns={"dense": Dense(module="feed_forward", bias="mlp_bias")},
        final_norm="model.final_layernorm",
        norms=_HYBRID_NORMS,
        residual="falcon-h1",
        embedding_multiplied=True,
        head_scaled=True,
        order=("feed_forward", "mamba", "self_attn", *_HYBRID_NORMS),
    ),
    "nemotron_h": Family(
        ties=False,
        mixers={
            "attention": Grouped(module="mixer", bias=False, output_bias=False, rotary="none"),
            "linear": Mamba2(heads="mamba_num_heads", width="mamba_head_dim", state="ssm_state_size", refused=_REFUSED),
        },
        ffns={
            "dense": Dense(module="mixer", gate=None, bias="mlp_bias", activation="mlp_hidden_act"),
            "sparse": Routed(
                variant="nemotron_h",
                module="mixer",
                layout="ungated",
                count="n_routed_experts",
                activation="mlp_hidden_act",
                shared=shared_expert(
                    "mixer.shared_experts",
                    "moe_shared_expert_intermediate_size",
                    gate=None,
                    bias="mlp_bias",
                    activation="mlp_hidden_act",
                ),
                correction=CORRECTION,
                groups=("n_group", "topk_group"),
                options=NORMALIZED,
                experts_first=True,
                latent="moe_latent_size",
            ),
        },
        mixer_plan=_lettered,
        ffn_plan=_part_of,
        embedding="model.embeddings",
        final_norm="model.norm_f",
        head_upcast=True,
        norm="rms-wide",
        norms=("norm",),
        residual="single",
    ),
    "zamba2": ZAMBA2,
    "lfm2": Family(
        mixers={
            "attention": Grouped(
                output="out_proj", bias=False, output_bias=False, norms=("q_layernorm", "k_layernorm")
            ),
            "linear": ShortConvolution(),
        },
        ffns={
            "dense": Dense(
                module="feed_forward", gate="w1", up="w3", down="w2", width=_lfm_width, fixed_activation="silu"
            )
        },
        mixer_plan=_listed("full_attn_idxs", "full_attention", "conv"),
        keys={"tie_word_embeddings": "tie_embedding"},
        final_norm="model.embedding_norm",
        norms=("operator_norm", "ffn_norm"),
    ),
    "lfm2_moe": Family(
        mixers={
            "attention": Grouped(
                output="out_proj", bias=False, output_bias=False, norms=("q_layernorm", "k_layernorm")
            ),
            "linear": ShortConvolution(),
        },
        ffns={
            "dense": Dense(module="feed_forward", gate="w1", up="w3", down="w2", fixed_activation="silu"),
            "sparse": Routed(
                variant="lfm2",
                module="feed_forward",
                fixed_activation="silu",
                correction="expert_bias",
                correction_if="use_expert_bias",
                correction_dtype="fp32",
                options=NORMALIZED,
                experts_first=True,
            ),
        },
        mixer_plan=_listed("full_attn_idxs", "full_attention", "conv"),
        ffn_plan=first_dense("num_dense_layers"),
        keys={"tie_word_embeddings": "tie_embedding"},
        final_norm="model.embedding_norm",
        norms=("operator_norm", "ffn_norm"),
    ),
    "recurrent_gemma": Family(
        mixers={
            "attention": Grouped(
                variant="recurrent_gemma",
                module="temporal_block",
                output_bias=True,
                keeps_window=True,
                rotary="partial",
                share=0.5,
            ),
            "linear": RealGated(),
        },
        ffns={
            "dense": Dense(
                module="mlp_block",
                bias=True,
                width=lambda reader: reader.integer("intermediate_size") // 2,
                activation="hidden_activation",
            )
        },
        mixer_plan=_griffin_places,
        final_norm="model.final_norm",
        norm="rms-offset",
        norms=("temporal_pre_norm", "channel_pre_norm"),
        softcap="logits_soft_cap",
        embedding_scaled=True,
        start="recurrent_gemma",
        residual="griffin",
        order=("temporal_pre_norm", "temporal_block", "channel_pre_norm", "mlp_block"),
    ),
    "minimax": Family(
        mixers={"attention": Grouped(bias=False, output_bias=False), "linear": Lightning()},
        ffns={
            "sparse": Routed(variant="mixtral", width="intermediate_size", count="num_local_experts", options=JITTERED)
        },
        mixer_plan=typed(
            lambda reader: ["linear_attention" if i % 2 else "full_attention" for i in range(patterns.depth(reader))]
        ),
        ffn_plan=patterns.sparse,
        residual="minimax",
    ),
    "kimi_linear": Family(
        ties=False,
        mixers={"attention": Latent(variant="kimi_linear", rotary="none"), "linear": KimiDelta()},
        ffns={
            "dense": Dense(),
            "sparse": Routed(
                variant="deepseek_v3",
                count="num_local_experts",
                chosen="num_experts_per_tok",
                shared=shared_expert("mlp.shared_experts", times="n_shared_experts"),
                shared_if="n_shared_experts",
                correction=CORRECTION,
                groups=("n_group", "topk_group"),
                options=NORMALIZED,
                experts_first=True,
            ),
        },
        keys={
            "linear_head_dim": "linear_attn_config.head_dim",
            "linear_num_heads": "linear_attn_config.num_heads",
            "linear_conv_kernel_dim": "linear_attn_config.short_conv_kernel_size",
        },
        mixer_plan=typed(_kimi_types),
        ffn_plan=first_dense(default=1),
    ),
    "olmo_hybrid": Family(
        mixers={"attention": OLMO2, "linear": SeparateDelta()},
        mixer_plan=_olmo_places,
        norm="rms-after",
        norms=lambda reader, place: ("input_layernorm", AFTER[0]) if place.mixer == "linear" else AFTER,
        residual=lambda reader, place: "sequential" if place.mixer == "linear" else "norms-after",
    ),
    "qwen3_next": Family(
        mixers={"attention": _GATED_ATTENTION, "linear": GatedDelta()},
        ffns={"dense": Dense(), "sparse": _QWEN_SHARED},
        mixer_plan=typed(every(4, "full_attention_interval", others="linear_attention")),
        ffn_plan=patterns.stepped,
        norm="rms-offset",
        prediction="shares",
    ),
    "qwen3_5_text": Family(
        mixers={"attention": replace(_GATED_ATTENTION, grids="grids-interleaved"), "linear": GatedDelta(fused=False)},
        mixer_plan=typed(every(4, "full_attention_interval", others="linear_attention")),
        norm="rms-offset",
        prediction="shares",
    ),
    "qwen3_5_moe_text": Family(
        mixers={"attention": replace(_GATED_ATTENTION, grids="grids-interleaved"), "linear": GatedDelta(fused=False)},
        ffns={"sparse": replace(_QWEN_SHARED, options=(("normalized", True),))},
        mixer_plan=typed(every(4, "full_attention_interval", others="linear_attention")),
        ffn_plan=patterns.sparse,
        norm="rms-offset",
        prediction="shares",
    ),
}
"""Rows by `model_type`."""
