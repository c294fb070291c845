"""Rows of networks whose code comes with their checkpoints; `remote` says how other files are read by them.

Source of Arctic: vllm 0.28, models/arctic.py (`ArcticDecoderLayer`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from memcore.networks import patterns
from memcore.networks.families.bailing import BAILING, BAILING_V25
from memcore.networks.families.classics import CLASSICS
from memcore.networks.families.decoders import DECODERS, QUERY_BIASED, UNBIASED
from memcore.networks.families.deepseek_v41 import DEEPSEEK_V41
from memcore.networks.families.family import Family
from memcore.networks.families.kimi_k3 import KIMI_K3
from memcore.networks.families.sparse import UNGROUPED
from memcore.networks.patterns import Place, every, first_dense, typed
from memcore.networks.reader import Reader
from memcore.networks.recognized import RESIDUAL
from memcore.networks.routed import Routed
from memcore.networks.rows import Dense, Grouped

Config = Mapping[str, object]
OUTSIDE = "this family's code comes with its checkpoints: activations are those of the same layers in transformers"
NOTHING = "none"
"""The word of layers that leave out a part, in lists that `renamed` makes of `block_configs`."""


def _nas_ffns(reader: Reader) -> Sequence[str | None]:
    kinds = reader.listed("mlp_layer_types") or ()
    return [None if kind == NOTHING else "dense" for kind in kinds] or patterns.dense(reader)


def _nas_places(reader: Reader) -> Sequence[Place]:
    """A layer may have no attention, no feed-forward layer, or neither; a number of layers that is none is refused."""
    places = typed(lambda each: [], more={NOTHING: Place(None, tag="unmixed-")})(reader)
    ffns = _nas_ffns(reader)
    return [replace(place, tag=f"{place.tag}{ffn or 'bare'}") for place, ffn in zip(places, ffns, strict=False)]


def _nas_norms(reader: Reader, place: Place) -> tuple[str, ...]:
    """Norms stand in front of the parts that are there."""
    first = () if place.mixer is None else ("input_layernorm",)
    return first if place.tag.endswith("bare") else (*first, "post_attention_layernorm")


def _nas_wiring(reader: Reader, place: Place) -> str:
    """A part that is left out takes its norm and its sum with it."""
    alone = (place.mixer is None) + place.tag.endswith("bare")
    return ("sequential", "single", "empty")[alone]


def _half(reader: Reader) -> int:
    """Qwen's file gives the width of gate and up together."""
    return reader.integer("intermediate_size") // 2


def _baichuan_positions(reader: Reader) -> str:
    """The larger model, whose file has no length, biases scores by distance (ALiBi) instead."""
    return "full" if reader.states("max_position_embeddings") else "none"


def _chatglm_heads(reader: Reader) -> int:
    """Key heads."""
    grouped = reader.flag("multi_query_attention")
    return reader.integer("multi_query_group_num" if grouped else "num_attention_heads")


_GROK = Family(
    mixers={"attention": UNBIASED},
    ffns={
        "sparse": Routed(
            variant="mixtral",
            module="block_sparse_moe",
            count="num_local_experts",
            fixed_activation="gelu_pytorch_tanh",
        )
    },
    ffn_plan=patterns.sparse,
    norms=("pre_attn_norm", "post_attn_norm", "pre_moe_norm", "post_moe_norm"),
    residual=RESIDUAL,
)
"""Grok 1; Grok 2 has a dense feed-forward layer next to its experts (sglang 0.5.23, srt/models/grok.py)."""

_ROWS: Mapping[str, Family] = {
    "internlm2": Family(
        mixers={
            "attention": replace(
                UNBIASED, module="attention", inputs=("wqkv",), output="wo", fused="grouped", bias="bias",
                output_bias="bias",
            )
        },
        ffns={"dense": Dense(module="feed_forward", gate="w1", up="w3", down="w2")},
        norms=("attention_norm", "ffn_norm"),
        embedding="model.tok_embeddings",
        head="output",
    ),
    "mimo": replace(DECODERS["qwen2"], prediction="shares", like="qwen2"),
    "nemotron-nas": replace(
        DECODERS["llama"],
        mixer_plan=_nas_places,
        ffn_plan=_nas_ffns,
        norms=_nas_norms,
        residual=_nas_wiring,
    ),
    "internlm": Family(
        mixers={"attention": replace(UNBIASED, bias="bias", output_bias="bias")}
    ),
    "baichuan": Family(
        mixers={"attention": replace(UNBIASED, inputs=("W_pack",), fused="grouped", rotary=_baichuan_positions)},
        keys={"max_position_embeddings": "model_max_length"},
    ),
    "qwen": Family(
        mixers={"attention": replace(
            UNBIASED, module="attn", inputs=("c_attn",), output="c_proj", fused="thirds", bias=True, kv_heads=None,
            width="kv_channels",
        )},
        ffns={"dense": Dense(gate="w2", up="w1", down="c_proj", width=_half,
                              fixed_activation="silu")},
        norms=("ln_1", "ln_2"),
        path="transformer.h",
        embedding="transformer.wte",
        final_norm="transformer.ln_f",
    ),
    "chatglm": Family(
        mixers={"attention": replace(
            UNBIASED, module="self_attention", inputs=("query_key_value",), output="dense", fused="grouped",
            bias="add_qkv_bias", output_bias="add_bias_linear", kv_heads=_chatglm_heads, width="kv_channels",
            rotary="partial", share=0.5,
        )},
        ffns={"dense": Dense(up="dense_h_to_4h", gate=None, down="dense_4h_to_h", fused=True,
                              bias="add_bias_linear", fixed_activation="silu")},
        keys={
            "num_hidden_layers": "num_layers", "vocab_size": "padded_vocab_size",
            "intermediate_size": "ffn_hidden_size", "max_position_embeddings": "seq_length",
        },
        path="transformer.encoder.layers",
        embedding="transformer.embedding.word_embeddings",
        final_norm="transformer.encoder.final_layernorm",
        head="transformer.output_layer",
        only={"rmsnorm": True, "post_layer_norm": True},
    ),
    "chatglm-6b": Family(
        mixers={"attention": replace(
            UNBIASED, module="attention", inputs=("query_key_value",), output="dense", fused="per-head", bias=True,
            output_bias=True, kv_heads=None,
        )},
        ffns={"dense": Dense(up="dense_h_to_4h", gate=None, down="dense_4h_to_h", bias=True,
                              fixed_activation="gelu")},
        keys={"num_hidden_layers": "num_layers", "intermediate_size": "inner_hidden_size",
              "max_position_embeddings": "max_sequence_length"},
        path="transformer.layers",
        embedding="transformer.word_embeddings",
        final_norm="transformer.final_layernorm",
        norm="layer",
        norm_bias=True,
        saves_head=True,
    ),
    "minicpm": DECODERS["llama"],
    "phi3small": Family(
        mixers={"attention": replace(
            UNBIASED, inputs=("query_key_value",), output="dense", fused="grouped", bias=True, output_bias=True,
        )},
        ffns={"dense": Dense(gate=None, up="up_proj", fused=True, bias=True, fixed_activation="gelu")},
        keys={"intermediate_size": "ff_intermediate_size", "hidden_dropout": "ffn_dropout_prob"},
        final_norm="model.final_layernorm",
        norm="layer",
        norm_bias=True,
    ),
    "kimi_k3_text": KIMI_K3,
    "deepseek_v41_text": DEEPSEEK_V41,
    "xverse": DECODERS["llama"],
    "solar": DECODERS["llama"],
    "orion": replace(
        DECODERS["llama"], mixers={"attention": UNBIASED}, ffns={"dense": Dense()}, norm="layer", norm_bias=True
    ),
    "Dream": replace(
        DECODERS["qwen2"], mixers={"attention": replace(QUERY_BIASED, bidirectional=True)}, like="qwen2"
    ),
    "sdar": replace(DECODERS["qwen3"], like="qwen3"),
    "llada": Family(
        mixers={"attention": replace(
            UNBIASED, module="", output="attn_out", bias="include_qkv_bias", output_bias="include_bias",
            bidirectional=True,
        )},
        ffns={"dense": Dense(module="", gate="ff_proj", up="up_proj", down="ff_out", bias="include_bias",
                              fixed_activation="silu")},
        norms=("attn_norm", "ff_norm"),
        keys={
            "hidden_size": "d_model", "intermediate_size": "mlp_hidden_size", "max_position_embeddings":
            "max_sequence_length", "num_attention_heads": "n_heads", "num_hidden_layers": "n_layers",
            "num_key_value_heads": "n_kv_heads", "tie_word_embeddings": "weight_tying", "vocab_size": "embedding_size",
        },
        path="model.transformer.blocks",
        embedding="model.transformer.wte",
        final_norm="model.transformer.ln_f",
        head="model.transformer.ff_out",
        only={"activation_type": "silu", "alibi": False, "attention_layer_norm": False, "block_type": "llama",
              "input_emb_norm": False, "layer_norm_type": "rms", "rope": True},
    ),
    "mixformer-sequential": replace(CLASSICS["phi"], like="phi"),
    "exaone": Family(
        mixers={"attention": replace(UNBIASED, module="attn.attention", output="out_proj")},
        ffns={"dense": Dense(gate="c_fc_0", up="c_fc_1", down="c_proj", activation="activation_function")},
        norms=("ln_1", "ln_2"),
        keys={"num_hidden_layers": "num_layers"},
        path="transformer.h",
        embedding="transformer.wte",
        final_norm="transformer.ln_f",
    ),
    "plamo3": Family(
        mixers={"attention": Grouped(
            module="mixer", inputs=("qkv_proj",), fused="grouped", bias=False, output_bias=False,
            norms=("q_norm", "k_norm"), own_table=True,
        )},
        ffns={"dense": Dense(gate=None, up="gate_up_proj", fused=True, fixed_activation="silu")},
        mixer_plan=typed(every(8, "sliding_window_pattern")),
        norm="rms-offset",
        norms=("pre_mixer_norm", "post_mixer_norm", "pre_mlp_norm", "post_mlp_norm"),
        residual="sandwich",
        keys={"sliding_window": "window_size"},
        path="model.layers.layers",
    ),
    "PanguEmbedded": replace(
        DECODERS["llama"],
        mixers={"attention": replace(UNBIASED, bias="bias", output_bias="bias")},
    ),
    "deepseek": Family(
        mixers={"attention": UNBIASED},
        ffns={"dense": Dense(), "sparse": UNGROUPED},
        ffn_plan=first_dense(),
        like="deepseek_v2",
    ),
    "grok-1": replace(
        _GROK, ties=True, keys={"moe_intermediate_size": "intermediate_size", "num_local_experts": "num_experts"}
    ),
    "grok-2": replace(_GROK, second_ffn=Dense(fixed_activation="gelu_pytorch_tanh"), second_if="residual_moe"),
    **dict.fromkeys(("bailing_moe", "llada2_moe", "sarvam_moe"), BAILING),
    "bailing_moe_v2_5": BAILING_V25,
    "arctic": Family(
        mixers={"attention": UNBIASED},
        ffns={"sparse": Routed(
            variant="mixtral", module="block_sparse_moe", count="num_local_experts", width="intermediate_size",
        )},
        ffn_plan=patterns.sparse,
        second_ffn=Dense(module="residual_mlp", gate="w1", up="w3", down="w2", width="hidden_size"),
        norms=("input_layernorm", "post_attention_layernorm", "residual_layernorm"),
        residual="arctic",
        only={"moe_layer_frequency": 1, "parallel_attn_mlp_res": True, "use_residual": True},
    ),
    "telechat3": DECODERS["llama"],
    "telechat": Family(
        mixers={"attention": replace(
            UNBIASED, module="self_attention", inputs=("query", "key", "value"), output="dense", output_bias=True,
        )},
        ffns={"dense": Dense(down_bias=True)},
        keys={"num_hidden_layers": "n_layer", "num_attention_heads": "n_head", "intermediate_size": "ffn_hidden_size",
              "max_position_embeddings": "seq_length"},
        path="transformer.h",
        embedding="transformer.word_embeddings",
        final_norm="transformer.ln_f",
    ),
}  # fmt: skip
"""Rows by `model_type`."""

REMOTE: Mapping[str, Family] = {
    name: replace(row, like=row.like or "llama", warning=OUTSIDE) for name, row in _ROWS.items()
}
