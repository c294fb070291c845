"""Rows that are written by hand where no formula was found; the tool proves them like those that it finds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Row = dict[str, Any]
Tensors = Iterator[list[str]]
_PARTS = ("weight", "bias")


def _switch() -> Row:
    """Return Switch Transformers' row: T5 with experts in every n-th layer.

    Source: transformers 5.23, modeling_switch_transformers.py (`SwitchTransformersStack.__init__`) and
    configuration_switch_transformers.py (`__post_init__`).
    """
    heads = "(num_heads * d_kv)"
    tensors, lists = [["shared.weight", "", "vocab_size", "d_model"]], {}
    for stack, layers, sparse, attentions in (
        ("encoder", "num_layers", "num_sparse_encoder_layers", ("SelfAttention",)),
        ("decoder", "num_decoder_layers", "num_sparse_decoder_layers", ("SelfAttention", "EncDecAttention")),
    ):
        step = f"({layers} // max({sparse}, 1))"
        routed = f"(({step} == 1) or ({step} > 1 and i % max({step}, 1) == 1))"
        lists[f"{stack}.block"] = layers
        for place, attention in enumerate(attentions):
            inside = f"{stack}.block.*.layer.{place}"
            tensors += [[f"{inside}.{attention}.{each}.weight", "", heads, "d_model"] for each in "qkv"]
            tensors += [[f"{inside}.{attention}.o.weight", "", "d_model", heads]]
            tensors += [[f"{inside}.layer_norm.weight", "", "d_model"]]
        bias = f"{stack}.block.*.layer.0.SelfAttention.relative_attention_bias.weight"
        tensors += [[bias, "i == 0", "relative_attention_num_buckets", "num_heads"]]
        inside = f"{stack}.block.*.layer.{len(attentions)}"
        lists[f"{inside}.mlp.experts.expert_"] = f"num_experts if {routed} else 0"
        for name, when in (("mlp", f"not {routed}"), ("mlp.experts.expert_.*", "")):
            tensors += [[f"{inside}.{name}.wi.weight", when, "d_ff", "d_model"]]
            tensors += [[f"{inside}.{name}.wo.weight", when, "d_model", "d_ff"]]
        tensors += [[f"{inside}.mlp.router.classifier.weight", routed, "num_experts", "d_model"]]
        tensors += [[f"{inside}.mlp.router.classifier.bias", f"router_bias and {routed}", "num_experts"]]
        tensors += [[f"{inside}.layer_norm.weight", "", "d_model"]]
        tensors += [[f"{stack}.final_layer_norm.weight", "", "d_model"]]
    untied = ("lm_head", "encoder.embed_tokens", "decoder.embed_tokens")
    tensors += [[f"{each}.weight", "not tie_word_embeddings", "vocab_size", "d_model"] for each in untied]
    sizes = {"num_layers": 12, "num_decoder_layers": 12, "num_sparse_encoder_layers": 3, "num_sparse_decoder_layers": 3}
    absent = {**sizes, "num_heads": 12, "vocab_size": 32128, "relative_attention_num_buckets": 32, "num_experts": 8}
    return {
        "tensors": tensors,
        "lists": lists,
        "absent": {
            **absent,
            "d_model": 768,
            "d_kv": 64,
            "d_ff": 2048,
            "router_bias": False,
            "tie_word_embeddings": True,
        },
        "fixed": {"is_decoder": False, "is_encoder_decoder": True, "add_cross_attention": False},
    }


def _convolution(name: str, when: str, outer: str, inner: str, kernel: str, *, up: bool = False) -> Tensors:
    """Yield a convolution with weight norm and a bias; `up`: a transposed one, which is stored as (in, out)."""
    first, second = (inner, outer) if up else (outer, inner)
    yield [f"{name}.conv.bias", when, outer]
    yield [f"{name}.conv.parametrizations.weight.original0", when, first, "1", "1"]
    yield [f"{name}.conv.parametrizations.weight.original1", when, first, second, kernel]


def _residual(name: str, when: str, width: str) -> Tensors:
    """Yield a residual block: a narrowing convolution, a widening one with a kernel of 1, and the shortcut."""
    yield from _convolution(f"{name}.block.1", when, f"({width} // compress)", width, "residual_kernel_size")
    yield from _convolution(f"{name}.block.3", when, width, f"({width} // compress)", "1")
    yield from _convolution(f"{name}.shortcut", f"use_conv_shortcut and {when}", width, width, "1")


def _recurrent(name: str, when: str, width: str) -> Tensors:
    """Yield two layers of an LSTM."""
    for layer in "01":
        for part in ("ih", "hh"):
            yield [f"{name}.lstm.weight_{part}_l{layer}", when, f"(4 * {width})", width]
            yield [f"{name}.lstm.bias_{part}_l{layer}", when, f"(4 * {width})"]


def _encodec() -> Row:
    """Return EnCodec's row: each ratio has a residual block and a convolution that halves or doubles the channels.

    Source: transformers 5.23, modeling_encodec.py (`EncodecEncoder.__init__`, `EncodecDecoder.__init__`).
    """
    many = "len(upsampling_ratios)"
    last, widest = f"3 * {many} + 3", f"(num_filters * 2 ** {many})"
    step, inside = "i % 3 == 0 and i > 0 and i < " + last, "i % 3 == 1 and i > 1 and i < " + last
    narrow, wide = "(num_filters * 2 ** (i // 3 - 1))", "(num_filters * 2 ** (i // 3))"
    down = f"(2 * upsampling_ratios[{many} - i // 3])"
    name = "encoder.layers.*"
    tensors = [
        *_convolution(name, "i == 0", "num_filters", "audio_channels", "kernel_size"),
        *_residual(name, f"i % 3 == 1 and i < 3 * {many}", wide),
        *_convolution(name, step, wide, narrow, down),
        *_recurrent(name, f"i == 3 * {many} + 1", widest),
        *_convolution(name, f"i == {last}", "hidden_size", widest, "last_kernel_size"),
    ]
    name = "decoder.layers.*"
    wide, narrow = (f"(num_filters * 2 ** ({many} - i // 3{more}))" for more in (" + 1", ""))
    tensors += [
        *_convolution(name, "i == 0", widest, "hidden_size", "kernel_size"),
        *_recurrent(name, "i == 1", widest),
        *_convolution(name, step, narrow, wide, "(2 * upsampling_ratios[i // 3 - 1])", up=True),
        *_residual(name, inside, narrow),
        *_convolution(name, f"i == {last}", "audio_channels", "num_filters", "last_kernel_size"),
    ]
    usual = {
        "audio_channels": 1, "compress": 2, "hidden_size": 128, "kernel_size": 7, "last_kernel_size": 7,
        "num_filters": 32, "residual_kernel_size": 3, "upsampling_ratios": [8, 5, 4, 2], "use_conv_shortcut": True,
    }  # fmt: skip
    return {
        "tensors": tensors,
        "lists": dict.fromkeys(("encoder.layers", "decoder.layers"), f"{last} + 1"),
        "absent": usual,
        "fixed": {"norm_type": "weight_norm", "num_lstm_layers": 2, "num_residual_layers": 1},
    }


def _step() -> Row:
    """Return the row of Step 3.7's decoder; sliding-window layers may have another number of heads.

    Source: transformers 5.23, modeling_step3p7.py (`Step3p7TextAttention.__init__`) and configuration_step3p7.py
    (`__post_init__`, `per_layer_config`).
    """
    heads = "(num_sliding_attention_heads if layer_types[i] == 'sliding_attention' else num_attention_heads)"
    rows, keys, hidden = f"({heads} * head_dim)", "(num_key_value_heads * head_dim)", "hidden_size"
    dense, layer = "mlp_layer_types[i] == 'dense'", "layers.*"
    routed, experts = f"not ({dense})", "n_routed_experts"
    matrices = {"q": (rows, hidden), "k": (keys, hidden), "v": (keys, hidden), "o": (hidden, rows)}
    tensors = [["embed_tokens.weight", "", "vocab_size", hidden], ["norm.weight", "", hidden]]
    for name, (outer, inner) in matrices.items():
        tensors += [[f"{layer}.self_attn.{name}_proj.weight", "", outer, inner]]
        tensors += [[f"{layer}.self_attn.{name}_proj.bias", "attention_bias", outer]]
    tensors += [[f"{layer}.self_attn.{each}_norm.weight", "", "head_dim"] for each in "qk"]
    tensors += [[f"{layer}.self_attn.g_proj.weight", "", heads, hidden]]
    tensors += [[f"{layer}.{each}_layernorm.weight", "", hidden] for each in ("input", "post_attention")]
    for path, when, wide in (("mlp", dense, "intermediate_size"), ("mlp.shared_experts", routed, "share_expert_dim")):
        tensors += [[f"{layer}.{path}.{each}_proj.weight", when, wide, hidden] for each in ("gate", "up")]
        tensors += [[f"{layer}.{path}.down_proj.weight", when, hidden, wide]]
    tensors += [
        [f"{layer}.mlp.gate.weight", routed, experts, hidden],
        [f"{layer}.mlp.experts.gate_up_proj", routed, experts, "(2 * moe_intermediate_size)", hidden],
        [f"{layer}.mlp.experts.down_proj", routed, experts, hidden, "moe_intermediate_size"],
    ]
    usual = {
        "attention_bias": False, "head_dim": 128, "hidden_size": 4096, "intermediate_size": 11264,
        "layer_types": ["list", "num_hidden_layers", "'full_attention'"],
        "mlp_layer_types": ["list", "num_hidden_layers", "'dense' if i < 3 else 'sparse'"],
        "moe_intermediate_size": 1280, "n_routed_experts": 288, "num_attention_heads": 64, "num_hidden_layers": 45,
        "num_key_value_heads": 8, "num_sliding_attention_heads": ["=", "num_attention_heads"],
        "share_expert_dim": 1280, "vocab_size": 128815,
    }  # fmt: skip
    names = {
        "attention_other_setting.num_attention_heads": "num_sliding_attention_heads", "moe_num_experts": experts,
        "moe_top_k": "num_experts_per_tok", "num_attention_groups": "num_key_value_heads",
        "num_mtp_layers": "num_nextn_predict_layers", "share_expert_dims": "share_expert_dim",
    }  # fmt: skip
    words = {"layer_types": ["full_attention", "sliding_attention"], "mlp_layer_types": ["dense", "sparse"]}
    fixed = {"mlp_bias": False, "moe_layers_enum": None, "num_local_experts": None}
    lists = {"layers": "num_hidden_layers"}
    return {"tensors": tensors, "lists": lists, "absent": usual, "names": names, "words": words, "fixed": fixed}


def _reformer() -> Row:
    """Return Reformer's row: layers of two kinds in any order, and axial position embeddings.

    Source: transformers 5.23, modeling_reformer.py (`ReformerAttention.__init__`, `AxialPositionEmbeddings.__init__`).
    """
    layer, hashed = "reformer.encoder.layers.*", "attn_layers[i] == 'lsh'"
    inner = "(num_attention_heads * attention_head_size)"
    attention, ffn = f"{layer}.attention.self_attention", f"{layer}.feed_forward"
    place, tables = "reformer.embeddings.position_embeddings", ("axial_pos_shape[{}]", "axial_pos_embds_dim[{}]")
    norms = (f"{layer}.attention.layer_norm", f"{ffn}.layer_norm")
    tensors = [
        ["reformer.embeddings.word_embeddings.weight", "", "vocab_size", "hidden_size"],
        [f"{place}.weights.0", "axial_pos_embds", tables[0].format(0), "1", tables[1].format(0)],
        [f"{place}.weights.1", "axial_pos_embds", "1", tables[0].format(1), tables[1].format(1)],
        [f"{place}.embedding.weight", "not axial_pos_embds", "max_position_embeddings", "hidden_size"],
        *([f"{norm}.{part}", "", "hidden_size"] for norm in norms for part in _PARTS),
        [f"{attention}.query_key.weight", hashed, inner, "hidden_size"],
        *([f"{attention}.{part}.weight", f"not {hashed}", inner, "hidden_size"] for part in ("query", "key")),
        [f"{attention}.value.weight", "", inner, "hidden_size"],
        [f"{layer}.attention.output.dense.weight", "", "hidden_size", inner],
        [f"{ffn}.dense.dense.weight", "", "feed_forward_size", "hidden_size"],
        [f"{ffn}.dense.dense.bias", "", "feed_forward_size"],
        [f"{ffn}.output.dense.weight", "", "hidden_size", "feed_forward_size"],
        [f"{ffn}.output.dense.bias", "", "hidden_size"],
        *([f"reformer.encoder.layer_norm.{part}", "", "(2 * hidden_size)"] for part in _PARTS),
        ["lm_head.decoder.weight", "", "vocab_size", "(2 * hidden_size)"],
        ["lm_head.bias", "", "vocab_size"],
    ]
    usual = {
        "attention_head_size": 64, "attn_layers": ["local", "lsh", "local", "lsh", "local", "lsh"],
        "axial_pos_embds": True, "axial_pos_embds_dim": [64, 192], "axial_pos_shape": [64, 64],
        "feed_forward_size": 512, "hidden_size": 256, "max_position_embeddings": 4096, "num_attention_heads": 12,
        "num_hidden_layers": ["=", "len(attn_layers)"], "vocab_size": 320,
    }  # fmt: skip
    words = {"attn_layers": ["local", "lsh"]}
    lists = {"reformer.encoder.layers": "num_hidden_layers"}
    fixed = {"tie_word_embeddings": False, "is_encoder_decoder": False}
    return {"tensors": tensors, "lists": lists, "absent": usual, "words": words, "fixed": fixed}


def _aria() -> Row:
    """Return Aria's row: the class takes the number of queries from a table, by the largest image, and saves it.

    Source: transformers 5.23, modeling_aria.py (`AriaProjector.__init__`) and configuration_aria.py (`__post_init__`).
    """
    seen, hidden, place = "vision_config.hidden_size", "text_config.hidden_size", "model.multi_modal_projector"
    attention = f"{place}.cross_attn"
    tensors = [
        [f"{place}.query", "", "max_value_projector_patch_to_query_dict", seen],
        *([f"{attention}.{each}_proj.weight", "", seen, seen] for each in "qkv"),
        [f"{attention}.multihead_attn.in_proj_weight", "", f"{seen} * 3", seen],
        [f"{attention}.multihead_attn.in_proj_bias", "", f"{seen} * 3"],
        *([f"{attention}.{each}.weight", "", seen, seen] for each in ("multihead_attn.out_proj", "linear")),
        *([f"{attention}.{each}.bias", "", seen] for each in ("multihead_attn.out_proj", "linear")),
        *([f"{attention}.{each}.{part}", "", seen] for each in ("layer_norm", "layer_norm_kv") for part in _PARTS),
        *([f"{place}.layer_norm.{part}", "", seen] for part in _PARTS),
        [f"{place}.feed_forward.linear_in.weight", "", hidden, seen],
        [f"{place}.feed_forward.linear_out.weight", "", hidden, hidden],
        ["lm_head.weight", "not (tie_word_embeddings)", "text_config.vocab_size", hidden],
    ]
    usual = {seen: 1152, hidden: 4096, "text_config.vocab_size": 32000, "tie_word_embeddings": False}
    return {
        "tensors": tensors,
        "absent": {**usual, "max_value_projector_patch_to_query_dict": 256},
        "fixed": {"projector_patch_to_query_dict": {"1225": 128, "4900": 256}},
    }


def _hrm() -> Row:
    """Return HRM's row: two stacks of equal depth, whose norms have no weights.

    A file says how often layers run (`num_hidden_layers`) and how many there are; without the latter, the former is
    the number of layers. Source: transformers 5.23, modeling_hrm_text.py (`HrmTextStack.__init__`) and
    configuration_hrm_text.py (`__post_init__`).
    """
    heads, lists = "(num_attention_heads * head_dim)", ("model.L_module.layers", "model.H_module.layers")
    sizes = {
        **{f"self_attn.{each}_proj": (heads, "hidden_size", "attention_bias") for each in ("q", "k", "v", "gate")},
        "self_attn.o_proj": ("hidden_size", heads, "attention_bias"),
        **{f"mlp.{each}_proj": ("intermediate_size", "hidden_size", "mlp_bias") for each in ("gate", "up")},
        "mlp.down_proj": ("hidden_size", "intermediate_size", "mlp_bias"),
    }
    tensors = [["model.z_L_init", "", "hidden_size"], ["model.embed_tokens.weight", "", "vocab_size", "hidden_size"]]
    for stack in lists:
        for name, (outer, inner, biased) in sizes.items():
            tensors += [[f"{stack}.*.{name}.weight", "", outer, inner], [f"{stack}.*.{name}.bias", biased, outer]]
    tensors += [["lm_head.weight", "not tie_word_embeddings", "vocab_size", "hidden_size"]]
    usual = {
        "attention_bias": False, "head_dim": 128, "hidden_size": 1536, "intermediate_size": 4096, "mlp_bias": False,
        "num_attention_heads": 12, "num_hidden_layers": 16, "num_layers_per_stack": ["=", "num_hidden_layers"],
        "tie_word_embeddings": False, "vocab_size": 151808,
    }  # fmt: skip
    fixed = {"is_encoder_decoder": False}
    return {"tensors": tensors, "lists": dict.fromkeys(lists, "num_layers_per_stack"), "absent": usual, "fixed": fixed}


_QWEN4: Row = {"fixed": {"attention_bias": False, "full_attention_interval": 4, "indexer_kv_heads": 1}}
WRITTEN: Mapping[str, Mapping[str, Any]] = {
    "AriaForConditionalGeneration": _aria(),
    "EncodecModel": _encodec(),
    "Glm5NextTextModel": {
        "fixed": {"attention_bias": False, "index_topk_freq": 1, "index_topk_pattern": None, "qk_rope_head_dim": 0}
    },
    "HrmTextForCausalLM": _hrm(),
    "Qwen4ExpForCausalLM": _QWEN4,
    "Qwen4ExpTextModel": _QWEN4,
    "ReformerForMaskedLM": _reformer(),
    "Step3p7TextModel": _step(),
    "SwitchTransformersForConditionalGeneration": _switch(),
}
"""By class; replaces what was found."""
