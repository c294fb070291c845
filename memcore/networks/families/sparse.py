"""Decoders with routed experts, and those with latent attention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from memcore.networks import patterns
from memcore.networks.families.decoders import HEAD_NORMS, QUERY_BIASED, UNBIASED
from memcore.networks.families.family import Family
from memcore.networks.patterns import Place, every, first_dense, typed
from memcore.networks.reader import Reader
from memcore.networks.routed import Routed, shared_expert
from memcore.networks.rows import Dense, Grouped, Latent
from memcore.networks.weights import Weight

CORRECTION = "gate.e_score_correction_bias"
NORMALIZED = (("normalized", "norm_topk_prob"),)
JITTERED = (("jittered", lambda reader: reader.number("router_jitter_noise", 0.0) > 0),)
_QWEN_EXPERTS = Routed(variant="qwen", count="num_experts", options=NORMALIZED, experts_first=True)
_SIGMOID = Routed(
    variant="deepseek_v3",
    count="n_routed_experts",
    shared=shared_expert("mlp.shared_experts", times="n_shared_experts"),
    shared_if="n_shared_experts",
    correction=CORRECTION,
    groups=("n_group", "topk_group"),
    options=NORMALIZED,
    experts_first=True,
)
"""Sigmoid scores, groups and a correction bias (DeepSeek-V3)."""
_SIGMOID_FP32 = replace(_SIGMOID, correction_dtype="fp32")
UNGROUPED = replace(_SIGMOID, variant="deepseek_v2", correction=None, groups=None)
"""Softmax scores over all experts, with shared ones (DeepSeek-V1)."""


def _deepseek(variant: str, routed: Routed = _SIGMOID, *, rotary: str | None = None, indexed: bool = False) -> Family:
    return Family(
        mixers={"attention": Latent(variant=variant, rotary=rotary, indexed=indexed)},
        ffns={"dense": Dense(), "sparse": routed},
        ffn_plan=first_dense(),
        prediction="copies",
    )


def llama4_places(reader: Reader) -> list[Place]:
    """Chunked attention with positions; every n-th layer sees everything and has none."""
    places = typed(every(4, "no_rope_layer_interval", others="chunked_attention"), windowed=False)(reader)
    listed = reader.listed("no_rope_layers") or ()
    rotates = [bool(flag) for flag in listed] or [place.mask == "chunked" for place in places]
    if len(rotates) != len(places):
        reader.refuse("no_rope_layers", "lists {} of {} layers", len(rotates), len(places))
        return list(places)
    return [replace(place, rotates=each) for place, each in zip(places, rotates, strict=True)]


def _mimo_types(reader: Reader) -> list[str]:
    return [
        "full_attention" if not i or not (i + 1) % 6 else "sliding_attention" for i in range(patterns.depth(reader))
    ]


def _mimo_places(reader: Reader) -> list[Place]:
    places = typed(_mimo_types)(reader)
    return [replace(place, mixer="sliding") if place.mask == "sliding" else place for place in places]


def _mimo_windowed(reader: Reader) -> int:
    """Return the key heads of layers with a window, which only files of the checkpoints' own code give."""
    return reader.integer("swa_num_key_value_heads", 2 * reader.integer("num_key_value_heads"))


def _rounded_down(reader: Reader) -> int:
    """A head's width, which 96 heads need not divide evenly (modeling_glm4_moe.py: Glm4MoeAttention.__init__)."""
    return reader.integer("head_dim", reader.sizes["h"] // reader.integer("num_attention_heads") or 1)


def _glm_places(reader: Reader) -> list[Place]:
    """Layers that choose tokens, and those that use an earlier choice again."""
    count = patterns.depth(reader)
    kinds = list(reader.listed("indexer_types") or ())
    pattern = reader.value("index_topk_pattern")
    if not kinds and isinstance(pattern, (str, list)):
        kinds = ["shared" if each in ("S", "shared") else "full" for each in pattern]
    if not kinds:
        period, first = reader.integer("index_topk_freq", 1), reader.integer("index_skip_topk_offset", 2, least=0)
        kinds = ["shared" if max(i - first + 1, 0) % period else "full" for i in range(count)]
    if len(kinds) < count or kinds[0] != "full":
        reader.refuse("indexer_types", "lists {} of {} layers, the first of which must be full", len(kinds), count)
    return [Place("shared" if kind == "shared" else "attention") for kind in kinds[:count]]


_GLM_INDEXED = Latent(variant="glm_moe_dsa", rotary="interleaved", indexed=True)
_MIMO = Grouped(
    variant="mimo", output_bias=False, value_width="v_head_dim", rotary="partial", share=0.334, own_table=True
)

SPARSE: Mapping[str, Family] = {
    "mixtral": Family(
        mixers={"attention": UNBIASED},
        ffns={
            "sparse": Routed(variant="mixtral", width="intermediate_size", count="num_local_experts", options=JITTERED)
        },
        mixer_plan=patterns.sliding,
        ffn_plan=patterns.sparse,
    ),
    "qwen2_moe": Family(
        mixers={"attention": replace(QUERY_BIASED, bias="qkv_bias")},
        ffns={
            "dense": Dense(),
            "sparse": replace(
                _QWEN_EXPERTS,
                shared=shared_expert("mlp.shared_expert", "shared_expert_intermediate_size"),
                shared_gate="shared_expert_gate",
                experts_first=False,
            ),
        },
        start="qwen2_moe",
        mixer_plan=patterns.qwen2_moe,
        ffn_plan=patterns.stepped,
    ),
    "qwen3_moe": Family(
        mixers={"attention": Grouped(norms=HEAD_NORMS)},
        ffns={"dense": Dense(), "sparse": _QWEN_EXPERTS},
        mixer_plan=patterns.qwen3_moe,
        ffn_plan=patterns.stepped,
    ),
    "qwen3_vl_moe_text": Family(
        mixers={"attention": Grouped(norms=HEAD_NORMS, grids="grids-interleaved")},
        ffns={"dense": Dense(), "sparse": replace(_QWEN_EXPERTS, options=(("normalized", True),))},
        ffn_plan=patterns.stepped,
    ),
    "olmoe": Family(
        mixers={"attention": Grouped(norms=HEAD_NORMS, norm_shape="row", norm_place="row", clamp="clip_qkv")},
        ffns={"sparse": Routed(variant="qwen", width="intermediate_size", options=NORMALIZED)},
        ffn_plan=patterns.sparse,
    ),
    "phimoe": Family(
        mixers={"attention": Grouped()},
        ffns={
            "sparse": Routed(
                variant="phimoe",
                router_module="derived",
                router="router",
                width="intermediate_size",
                count="num_local_experts",
                options=(("jittered", lambda reader: reader.number("input_jitter_noise", 0.0) > 0),),
            )
        },
        mixer_plan=patterns.sliding,
        ffn_plan=patterns.sparse,
        head_bias="lm_head_bias",
        norm="layer",
        norm_bias=True,
    ),
    "granitemoe": Family(
        ffns={
            "sparse": Routed(
                variant="granite",
                module="block_sparse_moe",
                router="router",
                width="intermediate_size",
                count="num_local_experts",
            )
        },
        ffn_plan=patterns.sparse,
        order=("self_attn", "input_layernorm", "post_attention_layernorm", "block_sparse_moe"),
        residual="sequential-scaled",
        embedding_multiplied=True,
        head_scaled=True,
    ),
    "dbrx": Family(
        mixers={
            "attention": Grouped(
                module="norm_attn_norm.attn",
                inputs=("Wqkv",),
                output="out_proj",
                fused="grouped-split",
                bias=False,
                output_bias=False,
                kv_heads="attn_config.kv_n_heads",
                clamp="attn_config.clip_qkv",
                dropout="attn_config.attn_pdrop",
            )
        },
        ffns={
            "sparse": Routed(
                variant="dbrx",
                router_module="linear",
                module="ffn",
                router="router.layer",
                experts="experts.mlp",
                layout="stacked",
                width="ffn_config.ffn_hidden_size",
                count="ffn_config.moe_num_experts",
                chosen="ffn_config.moe_top_k",
                looped=True,
                options=(
                    ("jittered", lambda reader: reader.has("ffn_config.moe_jitter_eps")),
                    ("normalized", lambda reader: reader.has("ffn_config.moe_normalize_expert_weights")),
                ),
                fixed_activation="silu",
            )
        },
        ffn_plan=patterns.sparse,
        keys={"hidden_dropout": "resid_pdrop"},
        path="transformer.blocks",
        embedding="transformer.wte",
        final_norm="transformer.norm_f",
        order=("norm_attn_norm.norm_1", "norm_attn_norm.attn", "norm_attn_norm.norm_2", "ffn"),
        norm="layer",
        norms=("norm_attn_norm.norm_1", "norm_attn_norm.norm_2"),
        residual="dbrx",
    ),
    "gpt_oss": Family(
        mixers={"attention": Grouped(variant="gpt_oss", sinks=True, rotary="chunked")},
        ffns={
            "sparse": Routed(
                variant="gpt_oss",
                router="router",
                router_bias=True,
                layout="transposed",
                bias=True,
                width="intermediate_size",
                count="num_local_experts",
            )
        },
        mixer_plan=typed(patterns.alternate),
        ffn_plan=patterns.sparse,
        norm="rms-after",
        residual="sequential-unpacked",
        sdpa=False,
    ),
    "llama4_text": Family(
        mixers={
            "attention": Grouped(
                variant="llama4",
                norms=HEAD_NORMS,
                norm_if="use_qk_norm",
                norms_rotated_only=True,
                norm="rms-plain",
                norm_place="after",
                rotary="complex",
                tuned="attn_temperature_tuning",
            )
        },
        ffns={
            "dense": Dense(module="feed_forward", width="intermediate_size_mlp"),
            "sparse": Routed(
                variant="llama4",
                router_module="derived",
                module="feed_forward",
                router="router",
                experts_first=True,
                layout="transposed",
                width="intermediate_size",
                count="num_local_experts",
                shared=shared_expert("feed_forward.shared_expert", "intermediate_size"),
            ),
        },
        mixer_plan=llama4_places,
        ffn_plan=patterns.listed_experts,
        keys={"sliding_window": "attention_chunk_size"},
        norm="rms-cast",
        residual="llama4",
    ),
    "minimax_m2": Family(
        mixers={
            "attention": Grouped(
                bias=False,
                output_bias=False,
                norms=HEAD_NORMS,
                norm_shape="row",
                norm_place="row",
                rotary="partial",
            )
        },
        ffns={
            "sparse": Routed(
                variant="minimax_m2",
                width="intermediate_size",
                count="num_local_experts",
                correction="e_score_correction_bias",
                options=JITTERED,
            )
        },
        ffn_plan=patterns.sparse,
        prediction="copies",
    ),
    "hunyuan_v1_moe": Family(
        mixers={"attention": Grouped(norms=("query_layernorm", "key_layernorm"), norm_place="after")},
        ffns={
            "sparse": Routed(
                variant="hunyuan",
                router_module="linear",
                router="gate.wg",
                router_dtype="fp32",
                width="intermediate_size",
                chosen="moe_topk",
                shared=shared_expert("mlp.shared_mlp", "intermediate_size"),
            )
        },
        ffn_plan=patterns.sparse,
    ),
    "ernie4_5_moe": Family(
        mixers={"attention": Grouped(bias="use_bias", output_bias="use_bias", rotary="interleaved-fp32")},
        ffns={
            "dense": Dense(bias="use_bias"),
            "sparse": Routed(
                variant="ernie",
                count="moe_num_experts",
                chosen="moe_k",
                shared=shared_expert("mlp.shared_experts", times="moe_num_shared_experts", bias="use_bias"),
                shared_if="moe_num_shared_experts",
                router_dtype="fp32",
                routing=(
                    Weight(
                        "gate.moe_statics.e_score_correction_bias",
                        ((1,), ("E",)),
                        "router",
                        dtype="fp32",
                        trainable=False,
                    ),
                ),
            ),
        },
        ffn_plan=patterns.between,
        head_bias="use_bias",
    ),
    "glm4_moe": Family(
        mixers={
            "attention": Grouped(
                output_bias=False,
                width=_rounded_down,
                norms=HEAD_NORMS,
                norm_if="use_qk_norm",
                norm_place="projected",
                rotary="partial",
                share=0.5,
            )
        },
        ffns={"dense": Dense(), "sparse": _SIGMOID_FP32},
        ffn_plan=first_dense(),
        prediction="copies",
    ),
    "dots1": Family(
        mixers={"attention": Grouped(norms=HEAD_NORMS)},
        ffns={"dense": Dense(), "sparse": _SIGMOID},
        mixer_plan=typed(patterns.late_windows),
        ffn_plan=first_dense(),
    ),
    "solar_open": Family(
        mixers={"attention": Grouped(output_bias=False)},
        ffns={"sparse": _SIGMOID_FP32},
        ffn_plan=patterns.sparse,
    ),
    "hy_v3": Family(
        mixers={"attention": Grouped(norms=HEAD_NORMS, norm_place="projected")},
        ffns={
            "dense": Dense(bias="mlp_bias"),
            "sparse": Routed(
                variant="hy_v3",
                shared=shared_expert("mlp.shared_experts", times="num_shared_experts", bias="mlp_bias"),
                shared_if="num_shared_experts",
                correction="e_score_correction_bias",
                options=(("fp32-sum", "enable_moe_fp32_combine"),),
            ),
        },
        ffn_plan=first_dense(default=1),
    ),
    "mimo_v2_flash": Family(
        mixers={
            "attention": _MIMO,
            "sliding": replace(_MIMO, kv_heads=_mimo_windowed, sinks=True),
        },
        ffns={"dense": Dense(), "sparse": replace(_SIGMOID, shared=None)},
        sdpa=False,
        mixer_plan=_mimo_places,
        ffn_plan=first_dense(default=1),
    ),
    "deepseek_v2": _deepseek(
        "deepseek_v2",
        replace(
            _SIGMOID,
            variant="deepseek_v2",
            correction=None,
            groups_if=lambda reader: reader.value("topk_method") == "group_limited_greedy",
        ),
        rotary="complex",
    ),
    "deepseek_v3": _deepseek("deepseek_v3"),
    "deepseek_v32": _deepseek("deepseek_v32", _SIGMOID_FP32, rotary="interleaved", indexed=True),
    "glm_moe_dsa": replace(
        _deepseek("glm_moe_dsa", _SIGMOID_FP32, rotary="interleaved", indexed=True),
        mixers={
            "attention": _GLM_INDEXED,
            "shared": replace(_GLM_INDEXED, shares_indexer=True),
        },
        mixer_plan=_glm_places,
        ffn_plan=first_dense(default=3),
    ),
    "glm4_moe_lite": replace(_deepseek("deepseek_v3", _SIGMOID_FP32), ffn_plan=first_dense(default=1)),
    "mistral4": _deepseek("mistral4", replace(_SIGMOID, variant="mistral4", correction=None)),
}
"""Rows by `model_type`."""
