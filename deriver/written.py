"""Rows that are written by hand where no formula was found; the tool proves them like those that it finds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from deriver import written_codes

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
        "fixed": {},
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
    return {"tensors": tensors, "lists": dict.fromkeys(lists, "num_layers_per_stack"), "absent": usual, "fixed": {}}


def _inkling(prefix: str, *, head: bool) -> Row:
    """Return the row of Inkling 2's decoder, whose sliding layers have other parts than its full ones.

    Source: transformers 5.23, modeling_inkling2.py (`Inkling2SlidingAttention`, `Inkling2FullAttention`,
    `Inkling2SlidingDecoderLayer`, `Inkling2FullDecoderLayer`).
    """
    slides, hidden, layer = "layer_types[i] == 'hybrid_sliding'", "hidden_size", f"{prefix}layers.*"
    full, after = f"not ({slides})", f"{prefix}layers.*.self_attn"
    tensors = [
        [f"{prefix}embed_tokens.weight", "", "vocab_size", hidden],
        [f"{prefix}embed_tokens.embed_norm.weight", "", hidden],
        [f"{layer}.attention_input.query", f"i > 0 and {slides}", hidden],
        [f"{layer}.attention_input.query", f"i > 0 and {full}", "3", hidden],
        [f"{layer}.mlp_input.query", "", hidden],
        [f"{layer}.mlp.experts.gate_up_proj", "", "n_routed_experts", "(2 * moe_intermediate_size)", hidden],
        [f"{layer}.mlp.experts.down_proj", "", "n_routed_experts", hidden, "moe_intermediate_size"],
        [f"{layer}.mlp.gate.weight", "", "n_routed_experts", hidden],
        [f"{layer}.input_layernorm.weight", slides, hidden],
        *([f"{layer}.{each}_input_layernorm.weight", full, hidden] for each in "qkv"),
        [f"{layer}.post_attention_layernorm.weight", "", hidden],
        *(
            [f"{layer}.post_{each}_convolution.conv1d.weight", "", hidden, "1", "conv_kernel_size"]
            for each in ("attention", "mlp")
        ),
    ]
    for when, swa, extent in ((slides, "swa_", "sliding_window_size"), (full, "", "rel_extent")):
        heads, keys, width = f"{swa}num_attention_heads", f"{swa}num_key_value_heads", f"{swa}head_dim"
        rows, groups = f"({heads} * {width})", f"({keys} * {width})"
        outer = {"q": rows, "k": groups, "v": groups, "r": f"({heads} * d_rel)", "gate": rows, "sink": heads}
        tensors += [[f"{after}.{each}_proj.weight", when, size, hidden] for each, size in outer.items()]
        tensors += [
            [f"{after}.o_proj.weight", when, hidden, rows],
            [f"{after}.rel_logits_proj.proj", when, "d_rel", extent],
            [f"{after}.q_l2_clip.scale", when, heads, width],
            [f"{after}.rel_l2_clip.scale", when, heads, "d_rel"],
        ]
        for each in "kv":
            tensors += (
                [[f"{after}.{each}_sconv.conv1d.weight", when, groups, "1", "conv_kernel_size"]]
                if swa
                else [
                    [f"{after}.{each}_sconv.static_weight", when, "conv_kernel_size", groups],
                    [f"{after}.{each}_sconv.weight_proj.weight", when, f"({keys} * conv_kernel_size)", hidden],
                ]
            )
    tensors += [[f"{prefix}norm.weight", "", hidden], [f"{prefix}final_input.query", "", hidden]]
    if head:
        tensors += [["lm_head.weight", "", "vocab_size", hidden]]  # never tied, whatever a file says
    usual = {
        "conv_kernel_size": 4, "d_rel": 16, "head_dim": 128, hidden: 4608,
        "layer_types": ["list", "num_hidden_layers", "'hybrid' if (i + 1) % 6 == 0 else 'hybrid_sliding'"],
        "moe_intermediate_size": 2304, "n_routed_experts": 384, "num_attention_heads": 48, "num_hidden_layers": 48,
        "num_key_value_heads": 8, "rel_extent": 1024, "sliding_window_size": 1024, "swa_head_dim": 128,
        "swa_num_attention_heads": 48, "swa_num_key_value_heads": 8, "vocab_size": 201024,
    }  # fmt: skip
    words = {"layer_types": ["hybrid", "hybrid_sliding"]}
    lists = {f"{prefix}layers": "num_hidden_layers"}
    return {"tensors": tensors, "lists": lists, "absent": usual, "words": words, "fixed": {}}


def _mamba1(layer: str, when: str) -> Tensors:
    """Yield a layer of Zamba's first Mamba, whose heads have matrices of their own, and the norm in front of it."""
    inner, width = "(mamba_expand * hidden_size)", "((mamba_expand * hidden_size) // n_mamba_heads)"
    rank, name, heads = "mamba_dt_rank", f"{layer}.mamba", "n_mamba_heads"
    yield [f"{layer}.input_layernorm.weight", when, "hidden_size"]
    yield [f"{name}.x_proj_weight", when, heads, f"({rank} + mamba_d_state * 2)", width]
    yield [f"{name}.dt_proj_weight", when, heads, width, rank]
    yield [f"{name}.A_log", when, heads, width, "mamba_d_state"]
    for each in ("dt_proj_bias", "D"):
        yield [f"{name}.{each}", when, heads, width]
    yield [f"{name}.conv1d.weight", when, inner, "1", "mamba_d_conv"]
    yield [f"{name}.conv1d.bias", f"mamba_conv_bias and {when}", inner]
    for each, outer, inside in (("in_proj", f"({inner} * 2)", "hidden_size"), ("out_proj", "hidden_size", inner)):
        yield [f"{name}.{each}.weight", when, outer, inside]
        yield [f"{name}.{each}.bias", f"mamba_proj_bias and {when}", outer]


def _zamba() -> Row:
    """Return Zamba's row: hybrid layers have a Mamba layer, a matrix, and one transformer layer that all share.

    Source: transformers 5.23, modeling_zamba.py (`ZambaModel.__init__`, `ZambaMambaMixer.__init__`) and
    configuration_zamba.py (`__post_init__`).
    """
    kind, hidden, wide = "layers_block_type[i]", "hidden_size", "attention_hidden_size"
    hybrid, layer = f"{kind} == 'hybrid'", "model.layers.*"
    # Where the head is not tied, transformers ties nothing.
    shared, once = f"{layer}.shared_transf", "i == index(layers_block_type, 'hybrid')"
    first = f"{once} or ({hybrid} and not tie_word_embeddings)"
    rows, keys = (f"({heads} * attention_head_dim)" for heads in ("num_attention_heads", "num_key_value_heads"))
    sizes = {
        "self_attn.q_proj": (rows, wide), "self_attn.k_proj": (keys, wide), "self_attn.v_proj": (keys, wide),
        "self_attn.o_proj": (hidden, rows), "feed_forward.gate_proj": ("intermediate_size", hidden),
        "feed_forward.up_proj": ("intermediate_size", hidden), "feed_forward.down_proj": (hidden, "intermediate_size"),
        "input_layernorm": (wide,), "pre_ff_layernorm": (hidden,),
    }  # fmt: skip
    tensors = [
        ["model.embed_tokens.weight", "", "vocab_size", hidden],
        *([f"{shared}.{name}.weight", first, *shape] for name, shape in sizes.items()),
        [f"{layer}.linear.weight", hybrid, hidden, hidden],
        *_mamba1(layer, f"not ({hybrid})"),
        *_mamba1(f"{layer}.mamba_decoder", hybrid),
        ["model.final_layernorm.weight", "", hidden],
        ["lm_head.weight", "not tie_word_embeddings", "vocab_size", hidden],
    ]
    again = "i > 2 and (i - 3) % attn_layer_period == attn_layer_offset"
    usual = {
        "attention_head_dim": ["=", "2 * hidden_size // num_attention_heads"], wide: ["=", "2 * hidden_size"],
        "attn_layer_offset": 4, "attn_layer_period": 6, hidden: 3712, "intermediate_size": 14848,
        "layers_block_type": [
            "list", "num_hidden_layers",
            f"'hybrid' if i == 2 or ({again}) else 'linear_attention'",
        ],
        "mamba_conv_bias": True, "mamba_d_conv": 4, "mamba_d_state": 16,
        "mamba_dt_rank": ["=", "ceil(hidden_size / 16)"],
        "mamba_expand": 2, "mamba_proj_bias": False, "n_mamba_heads": 2, "num_attention_heads": 16,
        "num_hidden_layers": 76, "num_key_value_heads": 16, "tie_word_embeddings": True,
        "vocab_size": 32000,
    }  # fmt: skip
    words = {"layers_block_type": ["hybrid", "linear_attention"]}
    lists = {"model.layers": "len(layers_block_type)"}
    return {"tensors": tensors, "lists": lists, "absent": usual, "words": words, "fixed": {}}


def _nemotron_h() -> Row:
    """Return the row of Nemotron-H's decoder within another model: a list says which one part each layer has.

    Source: transformers 5.23, modeling_nemotron_h.py (`NemotronHBlock.__init__`).
    """
    layer, hidden, part = "layers.*.mixer", "hidden_size", "layers_block_type[i] == '{}'"
    scans, routes, attends, feeds = map(part.format, ("linear_attention", "moe", "full_attention", "mlp"))
    inner, mixed = (
        "(mamba_num_heads * mamba_head_dim)",
        "(mamba_num_heads * mamba_head_dim + 2 * n_groups * ssm_state_size)",
    )
    width, latent = "(moe_latent_size if moe_latent_size else hidden_size)", f"moe_latent_size and {routes}"
    rows, keys = (f"({heads} * head_dim)" for heads in ("num_attention_heads", "num_key_value_heads"))
    tensors = [
        ["embeddings.weight", "", "vocab_size", hidden],
        ["layers.*.norm.weight", "", hidden],
        *([f"{layer}.{each}", scans, "mamba_num_heads"] for each in ("dt_bias", "A_log", "D")),
        [f"{layer}.conv1d.weight", scans, mixed, "1", "conv_kernel"],
        [f"{layer}.conv1d.bias", f"use_conv_bias and {scans}", mixed],
        [f"{layer}.norm.weight", scans, inner],
        [f"{layer}.experts.up_proj", routes, "n_routed_experts", "moe_intermediate_size", width],
        [f"{layer}.experts.down_proj", routes, "n_routed_experts", width, "moe_intermediate_size"],
        [f"{layer}.gate.weight", routes, "n_routed_experts", hidden],
        ["norm_f.weight", "", hidden],
    ]
    shared, wide = f"{layer}.shared_experts", "moe_shared_expert_intermediate_size"
    for name, when, biased, outer, inside in (
        (f"{layer}.in_proj", scans, "use_bias", f"({inner} + {mixed} + mamba_num_heads)", hidden),
        (f"{layer}.out_proj", scans, "use_bias", hidden, inner),
        (f"{shared}.up_proj", routes, "mlp_bias", wide, hidden),
        (f"{shared}.down_proj", routes, "mlp_bias", hidden, wide),
        (f"{layer}.fc1_latent_proj", latent, "mlp_bias", "moe_latent_size", hidden),
        (f"{layer}.fc2_latent_proj", latent, "mlp_bias", hidden, "moe_latent_size"),
        (f"{layer}.up_proj", feeds, "mlp_bias", "intermediate_size", hidden),
        (f"{layer}.down_proj", feeds, "mlp_bias", hidden, "intermediate_size"),
    ):
        tensors += [[f"{name}.weight", when, outer, inside], [f"{name}.bias", f"{biased} and {when}", outer]]
    for name, *shape in (("q", rows, hidden), ("k", keys, hidden), ("v", keys, hidden), ("o", hidden, rows)):
        tensors += [[f"{layer}.{name}_proj.weight", attends, *shape]]
    kinds = ["linear_attention", "moe", "full_attention", "mlp"]
    usual = {
        "conv_kernel": 4, "head_dim": 128, hidden: 4096, "intermediate_size": 21504,
        "layers_block_type": kinds, "mamba_head_dim": 64, "mamba_num_heads": 128, "mlp_bias": False,
        "moe_intermediate_size": 7688, "moe_latent_size": None, wide: 7688, "n_groups": 8, "n_routed_experts": 8,
        "num_attention_heads": 32, "num_key_value_heads": 8, "ssm_state_size": 128, "use_bias": False,
        "use_conv_bias": True, "vocab_size": 131072,
    }  # fmt: skip
    lists = {"layers": "len(layers_block_type)"}
    words = {"layers_block_type": sorted(kinds)}
    return {"tensors": tensors, "lists": lists, "absent": usual, "words": words, "fixed": {}}


def _instructblip() -> Row:
    """Return the row of InstructBLIP's vision transformer.

    Source: transformers 5.23, modeling_instructblip.py (`InstructBlipVisionEmbeddings`, `InstructBlipEncoderLayer`).
    """
    hidden, layer, patch = "hidden_size", "encoder.layers.*", "patch_size"
    tensors = [
        ["embeddings.class_embedding", "", "1", "1", hidden],
        ["embeddings.position_embedding", "", "1", f"((image_size // {patch}) ** 2 + 1)", hidden],
        ["embeddings.patch_embedding.weight", "", hidden, "3", patch, patch],
        ["embeddings.patch_embedding.bias", "", hidden],
        [f"{layer}.self_attn.qkv.weight", "", f"({hidden} * 3)", hidden],
        [f"{layer}.self_attn.qkv.bias", "qkv_bias", f"({hidden} * 3)"],
    ]
    for name, *shape in (
        (f"{layer}.self_attn.projection", hidden, hidden),
        (f"{layer}.layer_norm1", hidden),
        (f"{layer}.mlp.fc1", "intermediate_size", hidden),
        (f"{layer}.mlp.fc2", hidden, "intermediate_size"),
        (f"{layer}.layer_norm2", hidden),
        ("post_layernorm", hidden),
    ):
        tensors += [[f"{name}.weight", "", *shape], [f"{name}.bias", "", shape[0]]]
    usual = {
        hidden: 1408, "image_size": 224, "intermediate_size": 6144, "num_attention_heads": 16, "num_hidden_layers": 39,
        patch: 14, "qkv_bias": True,
    }  # fmt: skip
    return {"tensors": tensors, "lists": {"encoder.layers": "num_hidden_layers"}, "absent": usual, "fixed": {}}


def _bailing() -> Row:
    """Return the row of Ling 3: latent attention in every sixth layer, delta attention in the others.

    The width of the linear layers' heads is a file's `head_dim`; the class then gives that the width that is rotated.
    Source: transformers 5.23, modeling_bailing_hybrid.py (`BailingHybridAttention`, `BailingHybridDeltaAttention`,
    `BailingHybridDecoderLayer`) and configuration_bailing_hybrid.py (`__post_init__`).
    """
    hidden, layer = "hidden_size", "model.layers.*"
    full, dense, attention = "layer_types[i] == 'full_attention'", "mlp_layer_types[i] == 'dense'", f"{layer}.self_attn"
    linear, routed, heads = f"not ({full})", f"not ({dense})", "num_attention_heads"
    inner, latent = "(linear_head_dim * linear_num_heads)", "(kv_lora_rank + qk_rope_head_dim)"
    wide, values = "(moe_intermediate_size * num_shared_experts)", f"({heads} * v_head_dim)"
    queries = f"({heads} * (qk_nope_head_dim + qk_rope_head_dim))"
    tensors = [["model.embed_tokens.weight", "", "vocab_size", hidden], ["model.norm.weight", "", hidden]]
    tensors += [["lm_head.weight", "", "vocab_size", hidden]]
    for name, when, *shape in (
        *((f"{attention}.{each}_proj", linear, inner, hidden) for each in ("q", "k", "v", "g")),
        (f"{attention}.conv1d", linear, f"({inner} * 3)", "1", "linear_conv_kernel_dim"),
        (f"{attention}.forget_gate.f_proj", linear, inner, hidden),
        (f"{attention}.b_proj", linear, "linear_num_heads", hidden),
        (f"{attention}.o_norm", linear, "linear_head_dim"),
        (f"{attention}.o_proj", linear, hidden, inner),
        (f"{attention}.q_proj", full, queries, hidden),
        (f"{attention}.kv_a_proj_with_mqa", full, latent, hidden),
        (f"{attention}.kv_a_layernorm", full, "kv_lora_rank"),
        (f"{attention}.kv_b_proj", full, f"({heads} * (qk_nope_head_dim + v_head_dim))", "kv_lora_rank"),
        (f"{attention}.g_proj", full, heads, hidden),
        (f"{attention}.o_proj", full, hidden, values),
        *((f"{layer}.{each}_layernorm", "", hidden) for each in ("input", "post_attention")),
        *((f"{layer}.mlp.{each}_proj", dense, "intermediate_size", hidden) for each in ("gate", "up")),
        (f"{layer}.mlp.down_proj", dense, hidden, "intermediate_size"),
        (f"{layer}.mlp.gate", routed, "num_experts", hidden),
        *((f"{layer}.mlp.shared_experts.{each}_proj", routed, wide, hidden) for each in ("gate", "up")),
        (f"{layer}.mlp.shared_experts.down_proj", routed, hidden, wide),
    ):
        tensors += [[f"{name}.weight", when, *shape]]
    tensors += [
        [f"{attention}.forget_gate.A_log", linear, "linear_num_heads"],
        [f"{attention}.forget_gate.dt_bias", linear, inner],
        [f"{attention}.kv_a_proj_with_mqa.bias", f"attention_bias and {full}", latent],
        [f"{attention}.o_proj.bias", f"attention_bias and {full}", hidden],
        [f"{layer}.mlp.experts.gate_up_proj", routed, "num_experts", "(2 * moe_intermediate_size)", hidden],
        [f"{layer}.mlp.experts.down_proj", routed, "num_experts", hidden, "moe_intermediate_size"],
    ]
    kinds = "'full_attention' if (i + 1) % layer_group_size == 0 else 'linear_attention'"
    usual = {
        "attention_bias": False, "first_k_dense_replace": 2, "head_dim": 128, hidden: 2560,
        "intermediate_size": 6144, "kv_lora_rank": 512, "layer_group_size": 6,
        "layer_types": ["list", "num_hidden_layers", kinds], "linear_conv_kernel_dim": ["=", "short_conv_kernel_size"],
        "linear_head_dim": ["=", "head_dim"], "linear_num_heads": ["=", heads],
        "mlp_layer_types": ["list", "num_hidden_layers", "'dense' if i < first_k_dense_replace else 'sparse'"],
        "moe_intermediate_size": 768, heads: 32, "num_experts": 512, "num_experts_per_token": 8,
        "num_hidden_layers": 42, "num_shared_experts": 1, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
        "short_conv_kernel_size": 4, "v_head_dim": 128, "vocab_size": 157184,
    }  # fmt: skip
    words = {"layer_types": ["full_attention", "linear_attention"], "mlp_layer_types": ["dense", "sparse"]}
    lists = {"model.layers": "num_hidden_layers"}
    return {"tensors": tensors, "lists": lists, "absent": usual, "words": words, "fixed": {}}


_QWEN4: Row = {"fixed": {"attention_bias": False, "full_attention_interval": 4, "indexer_kv_heads": 1}}
WRITTEN: Mapping[str, Mapping[str, Any]] = {
    "AriaForConditionalGeneration": _aria(),
    "BailingHybridForCausalLM": _bailing(),
    "ChameleonVQVAE": written_codes.chameleon(),
    "Emu3VQVAE": written_codes.emu3(),
    "Cosmos3OmniForConditionalGeneration": {"fixed": {}},
    "EncodecModel": _encodec(),
    "Glm5NextTextModel": {
        "fixed": {"attention_bias": False, "index_topk_freq": 1, "index_topk_pattern": None, "qk_rope_head_dim": 0}
    },
    "HrmTextForCausalLM": _hrm(),
    "InstructBlipVisionModel": _instructblip(),
    "Inkling2ForCausalLM": _inkling("model.", head=True),
    "Inkling2TextModel": _inkling("", head=False),
    "JanusVQVAE": written_codes.janus(),
    "MimiModel": written_codes.mimi(),
    "NemotronHModel": _nemotron_h(),
    "Qwen4ExpForCausalLM": _QWEN4,
    "Qwen4ExpTextModel": _QWEN4,
    "ReformerForMaskedLM": _reformer(),
    "Step3p7TextModel": _step(),
    "SwitchTransformersForConditionalGeneration": _switch(),
    "ZambaForCausalLM": _zamba(),
}
"""By class; replaces what was found."""
