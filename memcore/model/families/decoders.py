"""Dense decoders in the line of Llama."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from memcore.model import patterns
from memcore.model.families.family import Family
from memcore.model.patterns import Place, every, typed
from memcore.model.reader import Reader
from memcore.model.rows import Dense, Grouped

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
    """Every so-manieth layer has no positions (SmolLM3)."""

    def plan(reader: Reader) -> list[Place]:
        listed, period = reader.listed("no_rope_layers"), reader.integer(key, 0, least=0)
        count = patterns.depth(reader)
        rotates = listed or [not period or bool((i + 1) % period) for i in range(count)]
        return [Place(rotates=bool(rotates[i])) for i in range(count)]

    return plan


def rope_where_sliding(plan: patterns.MixerPlan) -> patterns.MixerPlan:
    """Layers that see everything have no positions (Cohere 2)."""

    def changed(reader: Reader) -> list[Place]:
        has = reader.has("sliding_window")
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

DECODERS: Mapping[str, Family] = {
    "llama": Family(feeds={"dense": Dense(bias="mlp_bias")}),
    "mistral": Family(mixers={"attention": UNBIASED}, mixer_plan=patterns.sliding),
    "qwen2": Family(mixers={"attention": QUERY_BIASED}, mixer_plan=patterns.qwen),
    "qwen3": Family(mixers={"attention": Grouped(norms=HEAD_NORMS)}, mixer_plan=patterns.qwen),
    "arcee": Family(feeds={"dense": Dense(gate=None, bias="mlp_bias")}),
    "seed_oss": Family(
        mixers={"attention": Grouped(output_bias="attention_out_bias")}, feeds={"dense": Dense(bias="mlp_bias")}
    ),
    "smollm3": Family(feeds={"dense": Dense(bias="mlp_bias")}, mixer_plan=_rope_every("no_rope_layer_interval")),
    "ernie4_5": Family(
        mixers={"attention": Grouped(bias="use_bias", output_bias="use_bias", rotary="interleaved-fp32")},
        feeds={"dense": Dense(bias="use_bias")},
    ),
    "hunyuan_v1_dense": Family(
        mixers={"attention": Grouped(norms=("query_layernorm", "key_layernorm"), norm_place="after")}
    ),
    "apertus": Family(
        mixers={"attention": Grouped(norms=HEAD_NORMS)},
        feeds={"dense": Dense(gate=None, learned=("act_fn.alpha_p", "act_fn.alpha_n"))},
        norms=("attention_layernorm", "feedforward_layernorm"),
    ),
    "granite": Family(
        feeds={"dense": Dense(bias="mlp_bias")}, residual="sequential-scaled", embedding_scaled=True, head_scaled=True
    ),
    "nemotron": Family(
        mixers={"attention": Grouped(rotary="partial", share=0.5)},
        feeds={"dense": Dense(gate=None, bias="mlp_bias")},
        norm="layer-offset",
        norm_bias=True,
    ),
    "olmo": Family(mixers={"attention": Grouped(clamp="clip_qkv")}, norm="layer-plain"),
    "olmo2": Family(
        mixers={"attention": Grouped(norms=HEAD_NORMS, norm_shape="row", norm_place="row", norm="rms-after")},
        norm="rms-after",
        norms=AFTER,
        residual="norms-after",
    ),
    "olmo3": Family(
        mixers={"attention": Grouped(norms=HEAD_NORMS, norm_shape="row", norm_place="row", norm="rms-after")},
        mixer_plan=typed(every(4)),
        norm="rms-after",
        norms=AFTER,
        residual="norms-after",
    ),
    "exaone4": Family(
        mixers={"attention": Grouped(bias=False, output_bias=False, norms=HEAD_NORMS)},
        mixer_plan=rope_where_sliding(typed(every(4, "sliding_window_pattern"))),
        norms=AFTER,
        residual="norms-after",
    ),
    "glm": Family(
        mixers={"attention": Grouped(output_bias=False, rotary="interleaved-partial", share=0.5)},
        feeds={"dense": Dense(gate=None, up="gate_up_proj", fused=True)},
    ),
    "glm4": Family(
        mixers={"attention": Grouped(output_bias=False, rotary="interleaved-partial", share=0.5)},
        feeds={"dense": Dense(gate=None, up="gate_up_proj", fused=True)},
        norms=("input_layernorm", "post_self_attn_layernorm", "post_attention_layernorm", "post_mlp_layernorm"),
        residual="sandwich",
    ),
    "phi3": Family(
        mixers={
            "attention": Grouped(inputs=("qkv_proj",), fused="grouped", bias=False, output_bias=False, rotary="partial")
        },
        mixer_plan=patterns.sliding,
        feeds={"dense": Dense(gate=None, up="gate_up_proj", fused=True)},
        keys={"hidden_dropout": "resid_pdrop"},
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
                rotary="partial",
                share=0.25,
            )
        },
        norm="layer",
        norm_bias=True,
        norms=_stablelm_norms,
        residual=lambda reader, place: "parallel-shared" if reader.flag("use_parallel_residual") else "sequential",
    ),
    "starcoder2": Family(
        mixers={"attention": Grouped(bias="use_bias", output_bias="use_bias")},
        mixer_plan=patterns.sliding,
        feeds={"dense": Dense(gate=None, up="c_fc", down="c_proj", bias="use_bias")},
        keys={"hidden_dropout": "residual_dropout"},
        norm="layer",
        norm_bias=True,
        residual="sequential-dropped",
    ),
    "cohere": Family(
        mixers={
            "attention": Grouped(
                norms=HEAD_NORMS, norm_if="use_qk_norm", norm="layer-fp32", norm_shape="each", rotary="interleaved-fp32"
            )
        },
        norm="layer-fp32",
        norms=("input_layernorm",),
        residual="parallel-shared",
        head_scaled=True,
    ),
    "cohere2": Family(
        mixers={"attention": Grouped(rotary="interleaved-fp32")},
        mixer_plan=rope_where_sliding(typed(every(4, "sliding_window_pattern"))),
        norm="layer-fp32",
        norms=("input_layernorm",),
        residual="parallel-shared",
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
    "qwen2_vl_text": Family(mixers={"attention": QUERY_BIASED}, mixer_plan=patterns.qwen),
    "qwen3_vl_text": Family(mixers={"attention": Grouped(norms=HEAD_NORMS)}),
}
"""Rows by `model_type`."""
