"""Decoders from before Llama: learned positions or ALiBi, LayerNorm, plain feed-forward layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from memcore.networks.families.family import Family
from memcore.networks.patterns import Place
from memcore.networks.reader import Reader
from memcore.networks.rows import Dense, Grouped
from memcore.networks.weights import Linear

_GPT = Family(
    mixers={
        "attention": Grouped(
            module="attn",
            inputs=("c_attn",),
            output="c_proj",
            fused="thirds",
            bias=True,
            output_bias=True,
            kv_heads=None,
            rotary="none",
            transposed=True,
            softmax_fp32=False,
            dropout="attn_pdrop",
        )
    },
    ffns={"dense": Dense(gate=None, up="c_fc", down="c_proj", bias=True, transposed=True)},
    keys={
        "intermediate_size": "n_inner",
        "hidden_act": "activation_function",
        "hidden_dropout": "resid_pdrop",
        "embedding_dropout": "embd_pdrop",
    },
    only={"add_cross_attention": False},
    path="transformer.h",
    embedding="transformer.wte",
    positions="transformer.wpe",
    final_norm="transformer.ln_f",
    norm="layer",
    norm_bias=True,
    norms=("ln_1", "ln_2"),
    residual="sequential-kept",
)


def _bigcode_heads(reader: Reader) -> int:
    return 1 if reader.flag("multi_query") else reader.integer("num_attention_heads")


def _falcon_heads(reader: Reader) -> int:
    """Grouped heads in the new architecture; in the old, one key head for all query heads or as many."""
    heads = reader.integer("num_attention_heads")
    if reader.flag("new_decoder_architecture"):
        return reader.integer("num_kv_heads", heads)
    return 1 if reader.flag("multi_query") else heads


def _falcon_layout(reader: Reader) -> str:
    if reader.flag("new_decoder_architecture"):
        return "per-group"
    return "shared" if reader.flag("multi_query") else "per-head"


def _falcon_norms(reader: Reader, place: Place) -> tuple[str, ...]:
    if not reader.flag("parallel_attn"):
        return ("input_layernorm", "post_attention_layernorm")
    new = reader.flag("new_decoder_architecture")
    two = reader.integer("num_ln_in_parallel_attn", 2 if new else 1) == 2
    if two and not new:
        reader.refuse("num_ln_in_parallel_attn", "found 2, which only runs with new_decoder_architecture")
    return ("ln_attn", "ln_mlp") if new and two else ("input_layernorm",)


def _falcon_residual(reader: Reader, place: Place) -> str:
    if not reader.flag("parallel_attn"):
        return "falcon-sequential"
    return "falcon-parallel"


def _opt_projections(reader: Reader) -> tuple[Linear, ...]:
    """The smallest OPT models embed in fewer dimensions (OPT-350m)."""
    width = reader.symbol("h", reader.integer("word_embed_proj_dim", reader.sizes["h"]))
    if width == "h":
        return ()
    return (
        Linear("model.decoder.project_out", (width,), ("h",)),
        Linear("model.decoder.project_in", ("h",), (width,)),
    )


def _opt_final_norm(reader: Reader) -> str | None:
    """Models with norms after their parts, and some old ones, end without a norm."""
    ends = reader.flag("do_layer_norm_before") and not reader.flag("_remove_final_layer_norm")
    return "model.decoder.final_layer_norm" if ends else None


CLASSICS: Mapping[str, Family] = {
    "gpt2": _GPT,
    "gpt_bigcode": replace(
        _GPT,
        mixers={
            "attention": Grouped(
                module="attn",
                inputs=("c_attn",),
                output="c_proj",
                fused=lambda reader: "shared" if reader.flag("multi_query") else "per-head",
                bias=True,
                output_bias=True,
                kv_heads=_bigcode_heads,
                rotary="none",
                dropout="attn_pdrop",
            )
        },
        ffns={"dense": Dense(gate=None, up="c_fc", down="c_proj", bias=True)},
        residual="sequential-kept",
        start="masks-first",
    ),
    "gpt_neo": Family(
        mixers={
            "attention": Grouped(
                module="attn.attention",
                output="out_proj",
                bias=False,
                output_bias=True,
                kv_heads=None,
                rotary="none",
                variant="gpt_neo",
            )
        },
        ffns={"dense": Dense(gate=None, up="c_fc", down="c_proj", bias=True)},
        keys={
            "hidden_act": "activation_function",
            "hidden_dropout": "resid_dropout",
            "embedding_dropout": "embed_dropout",
        },
        path="transformer.h",
        embedding="transformer.wte",
        positions="transformer.wpe",
        final_norm="transformer.ln_f",
        norm="layer",
        norm_bias=True,
        norms=("ln_1", "ln_2"),
        residual="gpt-neo",
        start="masks-first",
        sdpa=False,
    ),
    "gptj": Family(
        mixers={
            "attention": Grouped(
                module="attn",
                output="out_proj",
                bias=False,
                output_bias=False,
                kv_heads=None,
                rotary="none",
                variant="gptj",
                dropout="attn_pdrop",
            )
        },
        ffns={"dense": Dense(gate=None, up="fc_in", down="fc_out", bias=True)},
        keys={
            "intermediate_size": "n_inner",
            "hidden_act": "activation_function",
            "hidden_dropout": "resid_pdrop",
            "embedding_dropout": "embd_pdrop",
        },
        path="transformer.h",
        embedding="transformer.wte",
        final_norm="transformer.ln_f",
        head_bias=True,
        norm="layer",
        norm_bias=True,
        norms=("ln_1",),
        residual="gptj",
        sdpa=False,
    ),
    "gpt_neox": Family(
        mixers={
            "attention": Grouped(
                module="attention",
                inputs=("query_key_value",),
                output="dense",
                fused="per-head",
                kv_heads=None,
                rotary="partial",
                share=0.25,
            )
        },
        ffns={"dense": Dense(gate=None, up="dense_h_to_4h", down="dense_4h_to_h", bias=True)},
        keys={"partial_rotary_factor": "rotary_pct", "embedding_dropout": "hidden_dropout"},
        path="gpt_neox.layers",
        embedding="gpt_neox.embed_in",
        final_norm="gpt_neox.final_layer_norm",
        head="lm_head",
        norm="layer",
        norm_bias=True,
        residual=lambda reader, place: "parallel" if reader.flag("use_parallel_residual") else "gpt-neox",
    ),
    "phi": Family(
        mixers={
            "attention": Grouped(
                output="dense",
                bias=True,
                output_bias=True,
                norms=("q_layernorm", "k_layernorm"),
                norm_if="qk_layernorm",
                norm="layer-biased",
                norm_place="projected",
                rotary="partial-kept",
                share=0.5,
            )
        },
        ffns={"dense": Dense(gate=None, up="fc1", down="fc2", bias=True)},
        keys={"hidden_dropout": "resid_pdrop", "embedding_dropout": "embd_pdrop"},
        final_norm="model.final_layernorm",
        head_bias=True,
        norm="layer",
        norm_bias=True,
        norms=("input_layernorm",),
        start="phi",
        residual="parallel-shared",
    ),
    "opt": Family(
        only={"layer_norm_elementwise_affine": True},
        mixers={
            "attention": Grouped(
                output="out_proj",
                bias="enable_bias",
                output_bias="enable_bias",
                kv_heads=None,
                rotary="none",
                scales_queries=True,
                splits_late=True,
            )
        },
        ffns={"dense": Dense(module="", gate=None, up="fc1", down="fc2", bias="enable_bias")},
        keys={
            "intermediate_size": "ffn_dim",
            "hidden_act": "activation_function",
            "hidden_dropout": "dropout",
            "embedding_dropout": "dropout",
        },
        path="model.decoder.layers",
        embedding="model.decoder.embed_tokens",
        positions="model.decoder.embed_positions",
        position_offset=2,
        final_norm=_opt_final_norm,
        norm="layer",
        norm_bias=True,
        norms=("self_attn_layer_norm", "final_layer_norm"),
        residual=lambda reader, place: "opt" if reader.flag("do_layer_norm_before") else "opt-after",
        projections=_opt_projections,
        start="opt",
    ),
    "bloom": Family(
        mixers={
            "attention": Grouped(
                module="self_attention",
                inputs=("query_key_value",),
                output="dense",
                fused="per-head",
                bias=True,
                output_bias=True,
                kv_heads=None,
                rotary="none",
                biased=True,
                variant="bloom",
            )
        },
        ffns={
            "dense": Dense(
                gate=None, up="dense_h_to_4h", down="dense_4h_to_h", bias=True, fixed_activation="gelu_bloom"
            )
        },
        path="transformer.h",
        embedding="transformer.word_embeddings",
        embedding_norm="transformer.word_embeddings_layernorm",
        final_norm="transformer.ln_f",
        norm="layer",
        norm_bias=True,
        residual=lambda reader, place: (
            "bloom-after" if reader.flag("apply_residual_connection_post_layernorm") else "bloom"
        ),
        start="bloom",
        sdpa=False,
    ),
    "mpt": Family(
        mixers={
            "attention": Grouped(
                module="attn",
                inputs=("Wqkv",),
                output="out_proj",
                fused="thirds",
                bias=False,
                output_bias=False,
                kv_heads=None,
                rotary="none",
                biased=True,
                variant="mpt",
                clamp="attn_config.clip_qkv",
                dropout="attn_config.attn_pdrop",
            )
        },
        ffns={
            "dense": Dense(
                module="ffn",
                gate=None,
                fixed_activation="gelu",
                width=lambda reader: 4 * reader.sizes["h"],  # MptMLP, whatever expansion_ratio says
            )
        },
        keys={
            "hidden_dropout": "attn_config.attn_pdrop",
            "max_position_embeddings": "max_seq_len",
        },
        path="transformer.blocks",
        embedding="transformer.wte",
        final_norm="transformer.norm_f",
        norm="layer",
        norms=("norm_1", "norm_2"),
        order=("norm_1", "attn", "norm_2", "ffn"),
        residual="mpt",
        start="mpt",
        sdpa=False,
    ),
    "falcon": Family(
        mixers={
            "attention": Grouped(
                module="self_attention",
                inputs=("query_key_value",),
                output="dense",
                fused=_falcon_layout,
                bias="bias",
                output_bias="bias",
                kv_heads=_falcon_heads,
                biased="alibi",
                variant="falcon",
                caches_copies="new_decoder_architecture",
            )
        },
        ffns={
            "dense": Dense(
                gate=None,
                up="dense_h_to_4h",
                down="dense_4h_to_h",
                bias="bias",
                width="ffn_hidden_size",
                activation="activation",
            )
        },
        path="transformer.h",
        embedding="transformer.word_embeddings",
        final_norm="transformer.ln_f",
        norm="layer",
        norm_bias=True,
        norms=_falcon_norms,
        residual=_falcon_residual,
        start="falcon",
        saves_head=True,
    ),
}
"""Rows by `model_type`."""
