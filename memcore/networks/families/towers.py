"""Vision towers, layer by layer and tensor by tensor as in transformers 5.23."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, takewhile

from memcore.networks.families.moonvit import moonvit
from memcore.networks.families.stacks import (
    HEADS,
    PATCH,
    Stack,
    Tensors,
    affine,
    attention,
    equal,
    ffn,
    layer_of,
    linear,
    norms,
    positions,
    sizes,
    stack,
    tensor,
    widths,
)
from memcore.networks.parts import Attention, Extra
from memcore.networks.reader import Reader
from memcore.networks.rows import activation_of
from memcore.networks.weights import Linear, Norm


def clip(reader: Reader, prefix: str, taps: Sequence[int]) -> tuple[Stack, ...]:
    """CLIP; its last norm is for a class that nobody asks for."""
    sizes(reader)
    positions(reader, 1)
    widths(reader)
    p = f"{prefix}embeddings."
    last = affine(f"{prefix}post_layernorm", "ht")
    layer = layer_of(
        attention(reader, "self_attn", "out_proj", splits_late=True),
        ffn(activation_of(reader, "hidden_act")),
        norms("layer_norm1", "layer_norm2"),
    )
    outer_weights = [
        tensor(f"{p}patch_embedding.weight", "ht", *PATCH),
        tensor(f"{p}position_embedding.weight", "nt", "ht"),
        tensor(f"{p}class_embedding", "ht"),
        *affine(f"{prefix}pre_layrnorm", "ht"),
        *last,
    ]
    idle = frozenset(weight.name for weight in last)
    return (
        equal(
            reader, layer, taps, variant="clip", path=f"{prefix}encoder.layers", outer_weights=tuple(outer_weights),
            idle=idle, units=(f"{prefix}embeddings",),
        ),
    )  # fmt: skip


def siglip(reader: Reader, prefix: str, taps: Sequence[int]) -> tuple[Stack, ...]:
    """SigLIP; its pooling head is part of it only if `vision_use_head` says so, and then its results are not used."""
    sizes(reader)
    positions(reader)
    widths(reader)
    p, head = f"{prefix}embeddings.", f"{prefix}head."
    layer = layer_of(
        attention(reader, "self_attn", "out_proj"),
        ffn(activation_of(reader, "hidden_act")),
        norms("layer_norm1", "layer_norm2"),
    )
    outer_weights = [
        tensor(f"{p}patch_embedding.weight", "ht", *PATCH),
        tensor(f"{p}patch_embedding.bias", "ht"),
        tensor(f"{p}position_embedding.weight", "nt", "ht"),
        *affine(f"{prefix}post_layernorm", "ht"),
    ]
    pooling = [
        tensor(f"{head}probe", 1, 1, "ht"),
        tensor(f"{head}attention.in_proj_weight", (3, "at", "dt"), "ht"),
        tensor(f"{head}attention.in_proj_bias", (3, "at", "dt")),
        *linear(f"{head}attention.out_proj", "ht", HEADS),
        *affine(f"{head}layernorm", "ht"),
        *linear(f"{head}mlp.fc1", "ft", "ht"),
        *linear(f"{head}mlp.fc2", "ht", "ft"),
    ]
    pooled = reader.flag("vision_use_head", default=True)
    fields = {
        "variant": "siglip",
        "path": f"{prefix}encoder.layers",
        "outer_weights": (*outer_weights, *(pooling if pooled else ())),
        "idle": frozenset(weight.name for weight in pooling) if pooled else frozenset(),
        "units": (f"{prefix}embeddings", *((f"{prefix}head",) if pooled else ())),
        "options": frozenset({"pooled"} if pooled else ()),
    }
    return (equal(reader, layer, taps, **fields),)


def pixtral(reader: Reader, prefix: str, taps: Sequence[int]) -> tuple[Stack, ...]:
    """Pixtral's vision transformer."""
    sizes(reader)
    widths(reader)
    layer = layer_of(
        attention(reader, "attention", "o_proj", bias=False, output_bias=False, rotary="full", splits_late=True),
        ffn(
            activation_of(reader, "hidden_act"), "feed_forward", "gate_proj up_proj down_proj", bias=False
        ),
        norms("attention_norm", "ffn_norm", "rms"),
    )  # fmt: skip
    layer = replace(layer, order=("attention_norm", "feed_forward", "attention", "ffn_norm"))
    outer_weights = [
        tensor(f"{prefix}patch_conv.weight", "ht", *PATCH),
        *affine(f"{prefix}ln_pre", "ht", bias=False),
    ]
    path = f"{prefix}transformer.layers"
    return (equal(reader, layer, taps, variant="pixtral", path=path, outer_weights=tuple(outer_weights)),)


def internvit(reader: Reader, prefix: str, taps: Sequence[int]) -> tuple[Stack, ...]:
    """InternViT."""
    sizes(reader)
    positions(reader, 1)
    widths(reader)
    kind = {"layer_norm": "layer", "rms_norm": "rms"}[reader.choice("norm_type", ("layer_norm", "rms_norm"))]
    p = f"{prefix}embeddings."
    query, key = (Norm(f"attention.{each}_norm", "rms", HEADS) if reader.flag("use_qk_norm") else None for each in "qk")
    layer = layer_of(
        attention(
            reader, "attention", "projection_layer", bias=reader.flag("attention_bias"), query_norm=query,
            key_norm=key, norm_place="rows", softmax_fp32=False, splits_late=True,
            output_dropout=reader.number("projection_dropout", 0.0),
        ),
        ffn(activation_of(reader, "hidden_act")),
        norms("layernorm_before", "layernorm_after", kind),
        "internvl-vision",
        tensor("lambda_1", "ht"),
        tensor("lambda_2", "ht"),
    )  # fmt: skip
    layer = replace(layer, dropout=reader.number("hidden_dropout_prob", 0.0))
    masked = [tensor(f"{p}mask_token", 1, 1, "ht")] if reader.flag("use_mask_token") else []
    placed = reader.flag("use_absolute_position_embeddings")
    last = [] if reader.flag("use_mean_pooling") else affine(f"{prefix}layernorm", "ht")
    outer_weights = [
        tensor(f"{p}patch_embeddings.projection.weight", "ht", *PATCH),
        tensor(f"{p}patch_embeddings.projection.bias", "ht"),
        tensor(f"{p}cls_token", 1, 1, "ht"),
        *masked,
        *([tensor(f"{p}position_embeddings", 1, "nt", "ht")] if placed else []),
        *last,
    ]
    idle = [*masked, *(last if taps and -1 not in taps else ())]
    fields = {
        "variant": "internvl",
        "path": f"{prefix}encoder.layer",
        "outer_weights": tuple(outer_weights),
        "idle": frozenset(weight.name for weight in idle),
        "options": frozenset() if -1 in taps else frozenset({"inner"}),
    }
    return (equal(reader, layer, taps, **fields),)


def llama4(reader: Reader, prefix: str, taps: Sequence[int]) -> tuple[Stack, ...]:
    """Llama 4's vision transformer with its pixel-shuffle adapter."""
    sizes(reader)
    positions(reader, 1)
    widths(reader)
    reader.symbol("it", reader.integer("projector_input_dim"))
    reader.symbol("ot", reader.integer("projector_output_dim"))
    layer = layer_of(
        attention(reader, "self_attn", "o_proj", rotary="complex-heads-last", variant="llama4-vision"),
        ffn("gelu"),
        norms("input_layernorm", "post_attention_layernorm"),
    )
    outer_weights = [
        tensor(f"{prefix}patch_embedding.linear.weight", "ht", ("ct", "pt", "pt")),
        *affine(f"{prefix}layernorm_pre", "ht"),
        *affine(f"{prefix}layernorm_post", "ht"),
        *linear(f"{prefix}vision_adapter.mlp.fc1", "it", "ft", bias=False),
        *linear(f"{prefix}vision_adapter.mlp.fc2", "ot", "ot", bias=False),
        tensor(f"{prefix}class_embedding", "ht"),
        tensor(f"{prefix}positional_embedding_vlm", "nt", "ht"),
    ]
    dropout = reader.number("projector_dropout", 0.0)
    path = f"{prefix}model.layers"
    return (
        equal(reader, layer, taps, variant="llama4", path=path, outer_weights=tuple(outer_weights), dropout=dropout),
    )


def mllama(reader: Reader, prefix: str, taps: Sequence[int]) -> tuple[Stack, ...]:
    """Return the vision transformer of Llama 3.2 Vision: local layers, then gated global ones."""
    sizes(reader)
    positions(reader, 1)
    widths(reader)
    ratios, inner = (
        reader.listed("supported_aspect_ratios"),
        reader.places("intermediate_layers_indices") or (3, 7, 15, 23, 30),
    )
    reader.symbol("rt", 1 + (8 if ratios is None else len(ratios)))
    reader.symbol("zt", reader.integer("max_num_tiles"))
    layer = layer_of(
        attention(reader, "self_attn", "o_proj", bias=False, output_bias=False, dropout=0.0, splits_late=True),
        ffn(activation_of(reader, "hidden_act")),
        norms("input_layernorm", "post_attention_layernorm"),
        "mllama-vision",
    )
    gates = tensor("gate_attn", 1), tensor("gate_ffn", 1)
    gated = replace(layer, residual="mllama-vision-gated", extra=Extra("mllama-vision-gated", gates))
    places, tiles = f"{prefix}gated_positional_embedding.", f"{prefix}%s_tile_positional_embedding."
    outer_weights = [
        tensor(f"{prefix}patch_embedding.weight", "ht", *PATCH),
        tensor(f"{places}tile_embedding.weight", "rt", ("zt", "nt", "ht")),
        tensor(f"{places}gate", 1),
        tensor(f"{places}embedding", "nt", "ht"),
        *chain.from_iterable(
            (tensor(f"{tiles % place}embedding.weight", "rt", ("zt", "ht")), tensor(f"{tiles % place}gate", 1))
            for place in ("pre", "post")
        ),
        *affine(f"{prefix}layernorm_pre", "ht"),
        *affine(f"{prefix}layernorm_post", "ht"),
        tensor(f"{prefix}class_embedding", "ht"),
    ]
    tapped = sorted({-1, *inner})
    local = equal(
        reader,
        layer,
        tapped,
        variant="mllama",
        path=f"{prefix}transformer.layers",
        outer_weights=tuple(outer_weights),
        checkpointed=False,
        options=frozenset({"last-too"} if {-1, reader.integer("num_hidden_layers") - 1} & set(inner) else ()),
    )
    count = reader.integer("num_global_layers")
    whole = stack(
        [gated] * count, (count - 1,), variant="mllama", path=f"{prefix}global_transformer.layers", checkpointed=False
    )
    return local, whole


def _merged(reader: Reader, hidden: str = "hidden_size") -> None:
    sizes(reader, hidden)
    reader.symbol("tt", reader.integer("temporal_patch_size"))
    reader.symbol("mt", reader.integer("spatial_merge_size") ** 2 * reader.sizes["ht"])


def _packed(reader: Reader, mask: str = "full") -> Attention:
    """Qwen's: images lie one after the other in one row, and each, or each window of it, is attended to on its own."""
    qkv = (Linear("attn.qkv", (3, *HEADS), ("ht",), True),)
    return attention(
        reader, "attn", "proj", inputs=qkv, fused="thirds", variant="packed", rotary="packed", mask=mask, dropout=0.0
    )


def _patches(prefix: str, *, bias: bool = False) -> Tensors:
    found = [tensor(f"{prefix}patch_embed.proj.weight", "ht", "ct", "tt", "pt", "pt")]
    return [*found, tensor(f"{prefix}patch_embed.proj.bias", "ht")] if bias else found


def qwen2(reader: Reader, prefix: str, taps: Sequence[int]) -> tuple[Stack, ...]:
    """Qwen2-VL's vision transformer with its merger."""
    _merged(reader, "embed_dim")
    reader.symbol("ft", int(reader.number("mlp_ratio") * reader.sizes["ht"]))
    out = reader.symbol("ot", reader.integer("hidden_size"))
    layer = layer_of(_packed(reader), ffn(activation_of(reader, "hidden_act")), norms("norm1", "norm2"), "qwen-vision")
    outer_weights = [
        *_patches(prefix),
        *affine(f"{prefix}merger.ln_q", "ht", "projector"),
        *linear(f"{prefix}merger.mlp.0", "mt", "mt", "projector"),
        *linear(f"{prefix}merger.mlp.2", out, "mt", "projector"),
    ]
    return (
        equal(reader, layer, (-1,), variant="qwen2_vl", path=f"{prefix}blocks", outer_weights=tuple(outer_weights)),
    )


def qwen2_5(reader: Reader, prefix: str, taps: Sequence[int]) -> tuple[Stack, ...]:
    """Qwen2.5-VL's vision transformer with its merger: most layers see windows only."""
    _merged(reader)
    widths(reader)
    out = reader.symbol("ot", reader.integer("out_hidden_size"))
    whole, windowed = (
        layer_of(
            _packed(reader, mask),
            ffn(activation_of(reader, "hidden_act"), names="gate_proj up_proj down_proj"),
            norms("norm1", "norm2", "rms"),
            "qwen-vision",
        )
        for mask in ("full", "window")
    )
    outer_weights = [
        *_patches(prefix),
        *affine(f"{prefix}merger.ln_q", "ht", "projector", bias=False),
        *linear(f"{prefix}merger.mlp.0", "mt", "mt", "projector"),
        *linear(f"{prefix}merger.mlp.2", out, "mt", "projector"),
    ]
    count, full = reader.integer("num_hidden_layers"), reader.listed("fullatt_block_indexes") or ()
    layers = [whole if index in full else windowed for index in range(count)]
    return (
        stack(layers, (count - 1,), variant="qwen2_5_vl", path=f"{prefix}blocks", outer_weights=tuple(outer_weights)),
    )


def reaching(reader: Reader) -> int:
    """Count the DeepStack mergers that run: those of layers which a short tower lacks are built all the same."""
    deep = reader.places("deepstack_visual_indexes") or ()
    return len([*takewhile(lambda place: place < reader.integer("num_hidden_layers"), deep)])


def qwen3(reader: Reader, prefix: str, taps: Sequence[int]) -> tuple[Stack, ...]:
    """Qwen3-VL's vision transformer; the results of some of its layers go into the decoder's first ones."""
    _merged(reader)
    widths(reader)
    out = reader.symbol("ot", reader.integer("out_hidden_size"))
    reader.symbol("nt", reader.integer("num_position_embeddings"))
    layer = layer_of(
        _packed(reader),
        ffn(activation_of(reader, "hidden_act"), names="linear_fc1 linear_fc2"),
        norms("norm1", "norm2"),
        "qwen-vision",
    )

    def merger(name: str, width: str) -> Tensors:
        return [
            *affine(f"{prefix}{name}.norm", width, "projector"),
            *linear(f"{prefix}{name}.linear_fc1", "mt", "mt", "projector"),
            *linear(f"{prefix}{name}.linear_fc2", out, "mt", "projector"),
        ]

    deep = reader.places("deepstack_visual_indexes") or ()
    if len(set(deep)) < len(deep) or any(each < 0 for each in deep):
        reader.refuse("deepstack_visual_indexes", "expected layer numbers without repeats, found {!r:.80}", list(deep))
    taps = (*deep[: reaching(reader)], -1)
    outer_weights = [
        *_patches(prefix, bias=True),
        tensor(f"{prefix}pos_embed.weight", "nt", "ht"),
        *merger("merger", "ht"),
        *(each for tap in range(len(deep)) for each in merger(f"deepstack_merger_list.{tap}", "mt")),
    ]
    path = f"{prefix}blocks"
    return (equal(reader, layer, taps, variant="qwen3_vl", path=path, outer_weights=tuple(outer_weights)),)


TOWERS: Mapping[str, Callable[[Reader, str, Sequence[int]], tuple[Stack, ...]]] = {
    "clip_vision_model": clip,
    "siglip_vision_model": siglip,
    "pixtral": pixtral,
    "internvl_vision": internvit,
    "llama4_vision_model": llama4,
    "mllama_vision_model": mllama,
    "moonvit": moonvit,
    **dict.fromkeys(("qwen2_vl", "qwen2_vl_vision"), qwen2),
    **dict.fromkeys(("qwen2_5_vl", "qwen2_5_vl_vision"), qwen2_5),
    **dict.fromkeys(("qwen3_vl", "qwen3_vl_vision", "qwen3_vl_moe", "qwen3_vl_moe_vision"), qwen3),
    **dict.fromkeys(("qwen3_5", "qwen3_5_vision", "qwen3_5_moe", "qwen3_5_moe_vision"), qwen3),
}
"""By the `model_type` of a vision configuration; the numbers are of layers whose results a projector reads."""
