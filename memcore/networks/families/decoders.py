"""Dense decoders in the line of Llama."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from memcore.networks import patterns
from memcore.networks.families.family import Family
from memcore.networks.patterns import Place, every, typed
from memcore.networks.reader import Reader
from memcore.networks.rows import Dense, Grouped

UNBIASED = Grouped(bias=False, output_bias=False)
QUERY_BIASED = Grouped(bias=True, output_bias=False)
HEAD_NORMS = ("q_norm", "k_norm")
SANDWICH = (
    "input_layernorm",
    "post_attention_layernorm",
    "pre_feedforward_layernorm",
    "post_feedforward_layernorm",
)
AFTER = ("post_attention_layernorm", "post_feedforward_layernorm")
GEMMA_KEYS = {"hidden_act": "hidden_activation"}


def _rope_every(key: str) -> patterns.MixerPlan:
    """Every n-th layer has no positions (SmolLM3)."""

    def plan(reader: Reader) -> list[Place]:
        listed, period = reader.listed("no_rope_layers"), reader.integer(key, 0, least=0)
        count = patterns.depth(reader)
        rotates = listed or [not period or bool((i + 1) % period) for i in range(count)]
        return [Place(rotates=bool(rotates[i])) for i in range(count)]

    return plan


def rope_where_sliding(plan: patterns.MixerPlan, *, needs_window: bool = False) -> patterns.MixerPlan:
    """Layers that see everything have no positions; without any window all layers have them, or none."""

    def changed(reader: Reader) -> list[Place]:
        has = needs_window or reader.has("sliding_window")
        return [replace(place, rotates=place.mask == "sliding" or not has) for place in plan(reader)]

    return changed


def _stablelm_norms(reader: Reader, place: Place) -> tuple[str, ...]:
    parallel = reader.flag("use_parallel_residual")
    return ("input_layernorm",) if parallel else ("input_layernorm", "post_attention_layernorm")


_GEMMA = Family(
    keys=GEMMA_KEYS,
    norm="rms-offset",
    embedding_scaled=True,
)

OLMO2 = Grouped(norms=HEAD_NORMS, norm_shape="row", norm_place="row", norm="rms-after", rotary="full-fp32")

_LLAMA = Family(ffns={"dense": Dense(bias="mlp_bias")})

DECODERS: Mapping[str, Family] = {
    "llama": _LLAMA,
    "iquestcoder": _LLAMA,
    "mistral": Family(mixers={"attention": UNBIASED}, mixer_plan=patterns.sliding),
    "qwen2": Family(mixers={"attention": QUERY_BIASED}, mixer_plan=patterns.qwen),
    "qwen3": Family(mixers={"attention": Grouped(norms=HEAD_NORMS)}, mixer_plan=patterns.qwen),
    "arcee": Family(ffns={"dense": Dense(gate=None, bias="mlp_bias")}),
    "seed_oss": Family(
        mixers={"attention": Grouped(output_bias="attention_out_bias")},
        ffns={"dense": Dense(bias="mlp_bias")},
        keys={"hidden_dropout": "residual_dropout"},
        residual="sequential-dropped-inside",
    ),
    "smollm3": Family(ffns={"dense": Dense(bias="mlp_bias")}, mixer_plan=_rope_every("no_rope_layer_interval")),
    "ernie4_5": Family(
        mixers={"attention": Grouped(bias="use_bias", output_bias="use_bias", rotary="interleaved-fp32")},
        ffns={"dense": Dense(bias="use_bias")},
    ),
    "hunyuan_v1_dense": Family(
        mixers={"attention": Grouped(norms=("query_layernorm", "key_layernorm"), norm_place="after")}
    ),
    "apertus": Family(
        mixers={"attention": Grouped(norms=HEAD_NORMS, norm_place="projected")},
        ffns={"dense": Dense(gate=None, learned=("act_fn.alpha_p", "act_fn.alpha_n"))},
        norms=("attention_layernorm", "feedforward_layernorm"),
    ),
    "granite": Family(
        ffns={"dense": Dense(bias="mlp_bias")},
        residual="sequential-scaled",
        embedding_multiplied=True,
        head_scaled=True,
    ),
    "nemotron": Family(
        mixers={"attention": Grouped(rotary="partial-both", share=0.5)},
        ffns={"dense": Dense(gate=None, bias="mlp_bias")},
        norm="layer-offset",
        norm_bias=True,
    ),
    "olmo": Family(
        mixers={"attention": Grouped(clamp="clip_qkv", rotary="full-fp32", splits_late=True)}, norm="layer-plain"
    ),
    "olmo2": Family(
        mixers={"attention": OLMO2},
        norm="rms-after",
        norms=AFTER,
        residual="norms-after",
    ),
    "olmo3": Family(
        mixers={"attention": replace(OLMO2, own_table=True)},
        mixer_plan=typed(every(4)),
        norm="rms-after",
        norms=AFTER,
        residual="norms-after",
    ),
    "exaone4": Family(
        mixers={"attention": Grouped(bias=False, output_bias=False, norms=HEAD_NORMS, norm_place="projected")},
        mixer_plan=rope_where_sliding(typed(every(4, "sliding_window_pattern"))),
        norms=AFTER,
        residual="norms-after",
    ),
    "glm": Family(
        mixers={"attention": Grouped(output_bias=False, rotary="interleaved-partial", share=0.5)},
        ffns={"dense": Dense(gate=None, up="gate_up_proj", fused=True)},
    ),
    "glm4": Family(
        mixers={"attention": Grouped(output_bias=False, rotary="interleaved-partial", share=0.5)},
        ffns={"dense": Dense(gate=None, up="gate_up_proj", fused=True)},
        norms=("input_layernorm", "post_self_attn_layernorm", "post_attention_layernorm", "post_mlp_layernorm"),
        residual="sandwich",
    ),
    "phi3": Family(
        mixers={
            "attention": Grouped(
                inputs=("qkv_proj",),
                fused="grouped",
                bias=False,
                output_bias=False,
                rotary="partial-each",
            )
        },
        mixer_plan=patterns.sliding,
        ffns={"dense": Dense(gate=None, up="gate_up_proj", fused=True)},
        keys={"hidden_dropout": "resid_pdrop"},
        order=("self_attn.o_proj", "self_attn.qkv_proj"),
        residual="sequential-dropped",
    ),
    "stablelm": Family(
        mixers={
            "attention": Grouped(
                bias="use_qkv_bias",
                output_bias=False,
                norms=("q_layernorm", "k_layernorm"),
                norm="layer",
                norm_shape="listed",
                norm_if="qk_layernorm",
                norm_place="projected",
                splits_late=True,
                rotary="partial-kept",
                share=0.25,
            )
        },
        norm="layer",
        norm_bias=True,
        norms=_stablelm_norms,
        residual=lambda reader, place: "parallel-onto-residual" if reader.flag("use_parallel_residual") else "stablelm",
    ),
    "starcoder2": Family(
        mixers={"attention": Grouped(bias="use_bias", output_bias="use_bias")},
        mixer_plan=patterns.sliding,
        ffns={"dense": Dense(gate=None, up="c_fc", down="c_proj", bias="use_bias")},
        keys={"hidden_dropout": "residual_dropout"},
        norm="layer",
        norm_bias=True,
        residual="sequential-dropped-inside",
    ),
    "cohere": Family(
        mixers={
            "attention": Grouped(
                norms=HEAD_NORMS,
                norm_if="use_qk_norm",
                norm="layer-fp32",
                norm_shape="each",
                norm_place="projected",
                rotary="interleaved-upcast",
            )
        },
        norm="layer-fp32",
        norms=("input_layernorm",),
        residual="parallel-onto-residual",
        head_scaled=True,
    ),
    "cohere2": Family(
        mixers={"attention": Grouped(rotary="interleaved-upcast")},
        mixer_plan=rope_where_sliding(typed(every(4, "sliding_window_pattern")), needs_window=True),
        norm="layer-fp32",
        norms=("input_layernorm",),
        residual="parallel-onto-residual",
        head_scaled=True,
    ),
    "gemma": _GEMMA,
    "gemma2": replace(
        _GEMMA,
        mixers={"attention": Grouped(softcap="attn_logit_softcapping")},
        mixer_plan=typed(patterns.alternate),
        norms=SANDWICH,
        residual="sandwich",
        sdpa=False,
    ),
    "gemma3_text": replace(
        _GEMMA,
        mixers={
            "attention": Grouped(
                norms=HEAD_NORMS,
                norm="rms-offset",
                norm_place="projected",
                own_table=True,
                bidirectional="use_bidirectional_attention",
            )
        },
        mixer_plan=typed(every(6, "sliding_window_pattern")),
        norms=SANDWICH,
        residual="sandwich",
    ),
    "vaultgemma": replace(
        _GEMMA,
        mixers={"attention": Grouped(softcap="attn_logit_softcapping")},
        mixer_plan=typed(patterns.alternate),
        norms=("input_layernorm", "pre_feedforward_layernorm"),
        sdpa=False,
    ),
    "qwen2_vl_text": Family(
        mixers={"attention": replace(QUERY_BIASED, grids="grids-sections", splits_late=True)}, mixer_plan=patterns.qwen
    ),
    "qwen3_vl_text": Family(mixers={"attention": Grouped(norms=HEAD_NORMS, grids="grids-interleaved")}),
}
"""Rows by `model_type`."""
