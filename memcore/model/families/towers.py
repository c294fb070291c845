"""Vision towers and what leads from them into the decoder, tensor by tensor as in transformers 5.23."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from memcore.model.network import Layer, Tower
from memcore.model.parts import Extra, Weight
from memcore.model.reader import Reader
from memcore.symbols import Axis, Shape

Tensors: TypeAlias = list[Weight]
_PATCH: tuple[Shape, ...] = (("ct",), ("pt",), ("pt",))


def tensor(name: str, *axes: Axis | Shape, kind: str = "tower") -> Weight:
    """A parameter."""
    return Weight(name, tuple(axis if isinstance(axis, tuple) else (axis,) for axis in axes), kind)


def affine(name: str, width: Axis | Shape, kind: str = "tower", *, bias: bool = True) -> Tensors:
    """A norm."""
    found = [tensor(f"{name}.weight", width, kind=kind)]
    return [*found, tensor(f"{name}.bias", width, kind=kind)] if bias else found


def linear(name: str, outer: Axis | Shape, inner: Axis | Shape, kind: str = "tower", *, bias: bool = True) -> Tensors:
    """A matrix with a bias."""
    found = [tensor(f"{name}.weight", outer, inner, kind=kind)]
    return [*found, tensor(f"{name}.bias", outer, kind=kind)] if bias else found


def several(names: str, outer: Axis | Shape, inner: Axis | Shape, *, bias: bool = True) -> Tensors:
    """Matrices of one shape."""
    return [each for name in names.split() for each in linear(name, outer, inner, bias=bias)]


def _side(reader: Reader, name: str) -> int:
    """An image's or a patch's side, which may be given as height and width."""
    found = reader.value(name)
    if isinstance(found, list) and len(found) == 2 and found[0] == found[1] and isinstance(found[0], int):
        return int(found[0])
    return reader.integer(name)


def _sizes(reader: Reader, hidden: str = "hidden_size") -> None:
    reader.symbol("ht", reader.integer(hidden))
    reader.symbol("at", reader.integer("num_attention_heads"))
    reader.symbol("Lt", reader.integer("num_hidden_layers"))
    reader.symbol("pt", _side(reader, "patch_size"))
    channels = "in_channels" if reader.has("in_channels") else "num_channels"
    reader.symbol("ct", reader.integer(channels, 3))


def _positions(reader: Reader, more: int = 0) -> None:
    """Patches of an image, and further positions."""
    reader.symbol("nt", (_side(reader, "image_size") // reader.sizes["pt"]) ** 2 + more)


def _widths(reader: Reader) -> None:
    reader.symbol("ft", reader.integer("intermediate_size"))


def _stack(variant: str, path: str, weights: Tensors, ends: Tensors) -> Tower:
    layer = Layer(None, None, "tower", (), extra=Extra(variant, tuple(weights)))
    return Tower(variant, path, layer, "Lt", tuple(ends))


def clip(reader: Reader, prefix: str) -> Tower:
    """CLIP."""
    _sizes(reader)
    _positions(reader, 1)
    _widths(reader)
    p = f"{prefix}embeddings."
    layer = [
        *several("self_attn.k_proj self_attn.v_proj self_attn.q_proj self_attn.out_proj", "ht", "ht"),
        *affine("layer_norm1", "ht"),
        *linear("mlp.fc1", "ft", "ht"),
        *linear("mlp.fc2", "ht", "ft"),
        *affine("layer_norm2", "ht"),
    ]
    ends = [
        tensor(f"{p}class_embedding", "ht"),
        tensor(f"{p}patch_embedding.weight", "ht", *_PATCH),
        tensor(f"{p}position_embedding.weight", "nt", "ht"),
        *affine(f"{prefix}pre_layrnorm", "ht"),
        *affine(f"{prefix}post_layernorm", "ht"),
    ]
    return _stack("clip", f"{prefix}encoder.layers", layer, ends)


def siglip(reader: Reader, prefix: str) -> Tower:
    """SigLIP; its pooling head is part of it only if `vision_use_head` says so."""
    _sizes(reader)
    _positions(reader)
    _widths(reader)
    p = f"{prefix}embeddings."
    layer = [
        *affine("layer_norm1", "ht"),
        *several("self_attn.k_proj self_attn.v_proj self_attn.q_proj self_attn.out_proj", "ht", "ht"),
        *affine("layer_norm2", "ht"),
        *linear("mlp.fc1", "ft", "ht"),
        *linear("mlp.fc2", "ht", "ft"),
    ]
    ends = [
        tensor(f"{p}patch_embedding.weight", "ht", *_PATCH),
        tensor(f"{p}patch_embedding.bias", "ht"),
        tensor(f"{p}position_embedding.weight", "nt", "ht"),
        *affine(f"{prefix}post_layernorm", "ht"),
    ]
    if reader.flag("vision_use_head", default=True):
        head = f"{prefix}head."
        ends += [
            tensor(f"{head}probe", 1, 1, "ht"),
            tensor(f"{head}attention.in_proj_weight", (3, "ht"), "ht"),
            tensor(f"{head}attention.in_proj_bias", (3, "ht")),
            *linear(f"{head}attention.out_proj", "ht", "ht"),
            *affine(f"{head}layernorm", "ht"),
            *linear(f"{head}mlp.fc1", "ft", "ht"),
            *linear(f"{head}mlp.fc2", "ht", "ft"),
        ]
    return _stack("siglip", f"{prefix}encoder.layers", layer, ends)


def pixtral(reader: Reader, prefix: str) -> Tower:
    """Pixtral's vision transformer."""
    _sizes(reader)
    _widths(reader)
    layer = [
        *affine("attention_norm", "ht", bias=False),
        *several("feed_forward.gate_proj feed_forward.up_proj", "ft", "ht", bias=False),
        *linear("feed_forward.down_proj", "ht", "ft", bias=False),
        *several("attention.k_proj attention.v_proj attention.q_proj attention.o_proj", "ht", "ht", bias=False),
        *affine("ffn_norm", "ht", bias=False),
    ]
    ends = [
        tensor(f"{prefix}patch_conv.weight", "ht", *_PATCH),
        *affine(f"{prefix}ln_pre", "ht", bias=False),
    ]
    return _stack("pixtral", f"{prefix}transformer.layers", layer, ends)


def internvit(reader: Reader, prefix: str) -> Tower:
    """InternViT."""
    _sizes(reader)
    _positions(reader, 1)
    _widths(reader)
    layered = reader.choice("norm_type", ("layer_norm", "rms_norm")) == "layer_norm"
    p, bias = f"{prefix}embeddings.", reader.flag("attention_bias")
    normed = reader.flag("use_qk_norm")
    layer = [
        tensor("lambda_1", "ht"),
        tensor("lambda_2", "ht"),
        *several("attention.q_proj attention.k_proj attention.v_proj", "ht", "ht", bias=bias),
        *linear("attention.projection_layer", "ht", "ht"),
        *([tensor(f"attention.{each}_norm.weight", "ht") for each in "qk"] if normed else []),
        *linear("mlp.fc1", "ft", "ht"),
        *linear("mlp.fc2", "ht", "ft"),
        *affine("layernorm_before", "ht", bias=layered),
        *affine("layernorm_after", "ht", bias=layered),
    ]
    ends = [
        tensor(f"{p}cls_token", 1, 1, "ht"),
        *([tensor(f"{p}mask_token", 1, 1, "ht")] if reader.flag("use_mask_token") else []),
        *(
            [tensor(f"{p}position_embeddings", 1, "nt", "ht")]
            if reader.flag("use_absolute_position_embeddings")
            else []
        ),
        tensor(f"{p}patch_embeddings.projection.weight", "ht", *_PATCH),
        tensor(f"{p}patch_embeddings.projection.bias", "ht"),
        *([] if reader.flag("use_mean_pooling") else affine(f"{prefix}layernorm", "ht")),
    ]
    return _stack("internvl", f"{prefix}encoder.layer", layer, ends)


def llama4(reader: Reader, prefix: str) -> Tower:
    """Llama 4's vision transformer with its pixel-shuffle adapter."""
    _sizes(reader)
    _positions(reader, 1)
    _widths(reader)
    reader.symbol("it", reader.integer("projector_input_dim"))
    reader.symbol("ot", reader.integer("projector_output_dim"))
    layer = [
        *several("self_attn.q_proj self_attn.k_proj self_attn.v_proj self_attn.o_proj", "ht", "ht"),
        *linear("mlp.fc1", "ft", "ht"),
        *linear("mlp.fc2", "ht", "ft"),
        *affine("input_layernorm", "ht"),
        *affine("post_attention_layernorm", "ht"),
    ]
    ends = [
        tensor(f"{prefix}class_embedding", "ht"),
        tensor(f"{prefix}positional_embedding_vlm", "nt", "ht"),
        tensor(f"{prefix}patch_embedding.linear.weight", "ht", ("ct", "pt", "pt")),
        *affine(f"{prefix}layernorm_pre", "ht"),
        *affine(f"{prefix}layernorm_post", "ht"),
        *linear(f"{prefix}vision_adapter.mlp.fc1", "it", "ft", bias=False),
        *linear(f"{prefix}vision_adapter.mlp.fc2", "ot", "ot", bias=False),
    ]
    return _stack("llama4", f"{prefix}model.layers", layer, ends)


def _qwen(reader: Reader, hidden: str = "hidden_size") -> None:
    _sizes(reader, hidden)
    reader.symbol("tt", reader.integer("temporal_patch_size"))
    merged = reader.integer("spatial_merge_size") ** 2
    reader.symbol("mt", merged * reader.sizes["ht"])


def qwen2(reader: Reader, prefix: str) -> Tower:
    """Qwen2-VL's vision transformer with its merger."""
    _qwen(reader, "embed_dim")
    reader.symbol("ft", int(reader.number("mlp_ratio") * reader.sizes["ht"]))
    out = reader.symbol("ot", reader.integer("hidden_size"))
    layer = [
        *affine("norm1", "ht"),
        *affine("norm2", "ht"),
        *linear("attn.qkv", (3, "ht"), "ht"),
        *linear("attn.proj", "ht", "ht"),
        *linear("mlp.fc1", "ft", "ht"),
        *linear("mlp.fc2", "ht", "ft"),
    ]
    ends = [
        tensor(f"{prefix}patch_embed.proj.weight", "ht", "ct", "tt", "pt", "pt"),
        *affine(f"{prefix}merger.ln_q", "ht", "projector"),
        *linear(f"{prefix}merger.mlp.0", "mt", "mt", "projector"),
        *linear(f"{prefix}merger.mlp.2", out, "mt", "projector"),
    ]
    return _stack("qwen2_vl", f"{prefix}blocks", layer, ends)


def qwen2_5(reader: Reader, prefix: str) -> Tower:
    """Qwen2.5-VL's vision transformer with its merger."""
    _qwen(reader)
    _widths(reader)
    out = reader.symbol("ot", reader.integer("out_hidden_size"))
    layer = [
        *affine("norm1", "ht", bias=False),
        *affine("norm2", "ht", bias=False),
        *linear("attn.qkv", (3, "ht"), "ht"),
        *linear("attn.proj", "ht", "ht"),
        *several("mlp.gate_proj mlp.up_proj", "ft", "ht"),
        *linear("mlp.down_proj", "ht", "ft"),
    ]
    ends = [
        tensor(f"{prefix}patch_embed.proj.weight", "ht", "ct", "tt", "pt", "pt"),
        *affine(f"{prefix}merger.ln_q", "ht", "projector", bias=False),
        *linear(f"{prefix}merger.mlp.0", "mt", "mt", "projector"),
        *linear(f"{prefix}merger.mlp.2", out, "mt", "projector"),
    ]
    return _stack("qwen2_5_vl", f"{prefix}blocks", layer, ends)


def qwen3(reader: Reader, prefix: str) -> Tower:
    """Qwen3-VL's vision transformer; the results of some of its layers go into the decoder's first ones."""
    _qwen(reader)
    _widths(reader)
    out = reader.symbol("ot", reader.integer("out_hidden_size"))
    reader.symbol("nt", reader.integer("num_position_embeddings"))
    layer = [
        *affine("norm1", "ht"),
        *affine("norm2", "ht"),
        *linear("attn.qkv", (3, "ht"), "ht"),
        *linear("attn.proj", "ht", "ht"),
        *linear("mlp.linear_fc1", "ft", "ht"),
        *linear("mlp.linear_fc2", "ht", "ft"),
    ]

    def merger(name: str, width: str) -> Tensors:
        return [
            *affine(f"{prefix}{name}.norm", width, "projector"),
            *linear(f"{prefix}{name}.linear_fc1", "mt", "mt", "projector"),
            *linear(f"{prefix}{name}.linear_fc2", out, "mt", "projector"),
        ]

    taps = reader.listed("deepstack_visual_indexes") or ()
    ends = [
        tensor(f"{prefix}patch_embed.proj.weight", "ht", "ct", "tt", "pt", "pt"),
        tensor(f"{prefix}patch_embed.proj.bias", "ht"),
        tensor(f"{prefix}pos_embed.weight", "nt", "ht"),
        *merger("merger", "ht"),
        *(each for tap in range(len(taps)) for each in merger(f"deepstack_merger_list.{tap}", "mt")),
    ]
    return _stack("qwen3_vl", f"{prefix}blocks", layer, ends)


def mllama(reader: Reader, prefix: str) -> tuple[Tower, ...]:
    """The vision transformer of Llama 3.2 Vision: local layers, then gated global ones."""
    _sizes(reader)
    _positions(reader, 1)
    _widths(reader)
    reader.symbol("Lg", reader.integer("num_global_layers"))
    ratios = reader.listed("supported_aspect_ratios")
    reader.symbol("rt", 1 + (8 if ratios is None else len(ratios)))
    reader.symbol("zt", reader.integer("max_num_tiles"))
    layer = [
        *several("self_attn.q_proj self_attn.k_proj self_attn.v_proj self_attn.o_proj", "ht", "ht", bias=False),
        *linear("mlp.fc1", "ft", "ht"),
        *linear("mlp.fc2", "ht", "ft"),
        *affine("input_layernorm", "ht"),
        *affine("post_attention_layernorm", "ht"),
    ]
    gated = [tensor("gate_attn", 1), tensor("gate_ffn", 1), *layer]
    positions, tiles = f"{prefix}gated_positional_embedding.", f"{prefix}%s_tile_positional_embedding."
    ends = [
        tensor(f"{prefix}class_embedding", "ht"),
        tensor(f"{prefix}patch_embedding.weight", "ht", *_PATCH),
        tensor(f"{positions}gate", 1),
        tensor(f"{positions}embedding", "nt", "ht"),
        tensor(f"{positions}tile_embedding.weight", "rt", ("zt", "nt", "ht")),
        *(
            each
            for place in ("pre", "post")
            for each in (
                tensor(f"{tiles % place}gate", 1),
                tensor(f"{tiles % place}embedding.weight", "rt", ("zt", "ht")),
            )
        ),
        *affine(f"{prefix}layernorm_pre", "ht"),
        *affine(f"{prefix}layernorm_post", "ht"),
    ]
    whole = Layer(None, None, "tower", (), extra=Extra("mllama", tuple(gated)))
    return (
        _stack("mllama", f"{prefix}transformer.layers", layer, ends),
        Tower("mllama", f"{prefix}global_transformer.layers", whole, "Lg", ()),
    )


TOWERS: Mapping[str, Callable[[Reader, str], Tower | tuple[Tower, ...]]] = {
    "clip_vision_model": clip,
    "siglip_vision_model": siglip,
    "pixtral": pixtral,
    "internvl_vision": internvit,
    "llama4_vision_model": llama4,
    "mllama_vision_model": mllama,
    "qwen2_vl": qwen2,
    "qwen2_vl_vision": qwen2,
    "qwen2_5_vl": qwen2_5,
    "qwen2_5_vl_vision": qwen2_5,
    "qwen3_vl": qwen3,
    "qwen3_vl_vision": qwen3,
    "qwen3_vl_moe": qwen3,
    "qwen3_vl_moe_vision": qwen3,
    "qwen3_5": qwen3,
    "qwen3_5_vision": qwen3,
    "qwen3_5_moe": qwen3,
    "qwen3_5_moe_vision": qwen3,
}
"""By the `model_type` of a vision configuration."""
