"""Rows, written by hand, of networks that turn images and sounds into codes and back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Row = dict[str, Any]
Tensors = Iterator[list[str]]
_LEVELS = "len(channel_multiplier)"
_LAST = f"i == {_LEVELS} - 1"
_WIDEST = "(base_channels * channel_multiplier[-1])"
_LATENT = "(2 * latent_channels if double_latent else latent_channels)"


def _both(name: str, when: str, outer: str, *inner: str) -> Tensors:
    """Yield a weight and its bias."""
    yield [f"{name}.weight", when, outer, *inner]
    yield [f"{name}.bias", when, outer]


def _norm(name: str, when: str, width: str, quantized: str) -> Tensors:
    """Yield a norm over groups, of Emu3's decoder one that codes scale and shift (`Emu3VQVAESpatialNorm`)."""
    if not quantized:
        yield from _both(name, when, width)
        return
    yield from _both(f"{name}.norm_layer", when, width)
    for each in ("conv_y", "conv_b"):
        yield from _both(f"{name}.{each}", when, width, quantized, "1", "1")


def _residual(name: str, outer: str, inner: str, quantized: str = "", shortcut: str = "False") -> Tensors:
    """Yield a residual block; one that changes the number of channels has a shortcut."""
    yield from _norm(f"{name}.norm1", "", inner, quantized)
    yield from _both(f"{name}.conv1", "", outer, inner, "3", "3")
    yield from _norm(f"{name}.norm2", "", outer, quantized)
    yield from _both(f"{name}.conv2", "", outer, outer, "3", "3")
    if shortcut != "False":
        yield from _both(f"{name}.nin_shortcut", f"{shortcut} and {outer} != {inner}", outer, inner, "1", "1")


def _attention(name: str, when: str, width: str) -> Tensors:
    """Yield attention whose projections are convolutions, with its norm."""
    yield from _both(f"{name}.norm", when, width)
    for each in ("q", "k", "v", "proj_out"):
        yield from _both(f"{name}.{each}", when, width, width, "1", "1")


def _projections(name: str, when: str) -> Tensors:
    """Yield Emu3's attention, whose width is a key of its own."""
    for each in ("q", "k", "v", "out"):
        yield from _both(f"{name}.{each}_proj", when, "hidden_size", "hidden_size")


_SHALLOW = "(base_channels * (1 if i == 0 else channel_multiplier[i - 1]))"
_LEVEL = "(base_channels * channel_multiplier[i])"
_ENTERS = f"({_SHALLOW} if j == 0 else {_LEVEL})"


def _encoder(path: str, mixes: str) -> Tensors:
    """Yield an encoder's levels; `mixes` says which attend (`ChameleonVQVAEEncoder.__init__`)."""
    yield from _both("encoder.conv_in", "", "base_channels", "in_channels", "3", "3")
    yield from _residual(f"{path}.*.block.*", _LEVEL, _ENTERS, shortcut="j == 0")
    if mixes:
        yield from _attention(f"{path}.*.attn.*", "", _LEVEL)
    yield from _both(f"{path}.*.downsample.conv", f"not ({_LAST})", _LEVEL, _LEVEL, "3", "3")
    yield from _both("encoder.norm_out", "", _WIDEST)
    yield from _both("encoder.conv_out", "", _LATENT, _WIDEST, "3", "3")


def _middle(path: str, attends: str = "") -> Tensors:
    yield from _residual(f"{path}.block_1", _WIDEST, _WIDEST)
    yield from _attention(f"{path}.attn_1", attends, _WIDEST)
    yield from _residual(f"{path}.block_2", _WIDEST, _WIDEST)


def _codebook() -> Tensors:
    yield ["quantize.embedding.weight", "", "num_embeddings", "embed_dim"]
    yield from _both("quant_conv", "", "embed_dim", "latent_channels", "1", "1")
    yield from _both("post_quant_conv", "", "latent_channels", "embed_dim", "1", "1")


_USUAL: Row = {
    "base_channels": 128, "channel_multiplier": [1, 1, 2, 2, 4], "double_latent": False, "embed_dim": 256,
    "in_channels": 3, "latent_channels": 256, "num_embeddings": 8192, "num_res_blocks": 2,
}  # fmt: skip


def chameleon() -> Row:
    """Return the row of Chameleon's encoder of images.

    Source: transformers 5.23, modeling_chameleon.py (`ChameleonVQVAEEncoder.__init__`, `ChameleonVQVAE.__init__`).
    """
    vanilla, path = "attn_type == 'vanilla'", "encoder.down"
    mixes = f"{vanilla} and resolution // 2 ** i in attn_resolutions"
    return {
        "tensors": [*_encoder(path, mixes), *_middle("encoder.mid", vanilla), *_codebook()],
        "lists": {
            path: _LEVELS,
            f"{path}.*.block": "num_res_blocks",
            f"{path}.*.attn": f"num_res_blocks if {mixes} else 0",
        },
        "absent": {**_USUAL, "attn_resolutions": None, "attn_type": "vanilla", "resolution": 512},
        "fixed": {},
    }


_BACK = f"{_LEVELS} - 1 - i"
_DEEPER = f"(base_channels * channel_multiplier[{_LEVELS} - max(i, 1)])"
_UP = f"(base_channels * channel_multiplier[{_BACK}])"
_REENTERS = f"({_DEEPER} if j == 0 else {_UP})"


def janus() -> Row:
    """Return the row of Janus's images as codes: the deepest level attends; the decoder's list starts with it.

    Source: transformers 5.23, modeling_janus.py (`JanusVQVAEEncoder.__init__`, `JanusVQVAEDecoder.__init__`).
    """
    down, up, more = "encoder.down", "decoder.up", "num_res_blocks + 1"
    tensors = [
        *_encoder(down, _LAST),
        *_middle("encoder.mid"),
        *_both("decoder.conv_in", "", _WIDEST, "latent_channels", "3", "3"),
        *_middle("decoder.mid"),
        *_residual(f"{up}.*.block.*", _UP, _REENTERS, shortcut="j == 0"),
        *_attention(f"{up}.*.attn.*", "", _UP),
        *_both(f"{up}.*.upsample.conv", f"not ({_LAST})", _UP, _UP, "3", "3"),
        *_both("decoder.norm_out", "", "(base_channels * channel_multiplier[0])"),
        *_both("decoder.conv_out", "", "out_channels", "(base_channels * channel_multiplier[0])", "3", "3"),
        *_codebook(),
    ]
    lists = {
        down: _LEVELS, f"{down}.*.block": "num_res_blocks", f"{down}.*.attn": f"num_res_blocks if {_LAST} else 0",
        up: _LEVELS, f"{up}.*.block": more, f"{up}.*.attn": f"{more} if i == 0 else 0",
    }  # fmt: skip
    usual = {**_USUAL, "embed_dim": 8, "num_embeddings": 16384, "out_channels": 3}
    return {"tensors": tensors, "lists": lists, "absent": usual, "fixed": {}}


_FINER = f"(base_channels * channel_multiplier[min(i + 1, {_LEVELS} - 1)])"


def _emu3_levels(down: str, up: str) -> Tensors:
    """Yield what both of Emu3's stacks have at each level; the decoder's list starts with the finest."""
    code, attends = "embed_dim", "i in attn_resolutions"
    yield from _encoder(down, "")
    yield from _projections(f"{down}.*.attn.*", attends)
    yield from _both(f"{down}.*.attn_norms.*", attends, _LEVEL)
    enters = f"({_FINER} if j == 0 else {_LEVEL})"
    yield from _residual(f"{up}.*.block.*", _LEVEL, enters, code, "j == 0")
    yield from _projections(f"{up}.*.attn.*", attends)
    yield from _norm(f"{up}.*.attn_norms.*", attends, _LEVEL, code)
    yield from _both(f"{up}.*.upsample.conv", "i > 0", _LEVEL, _LEVEL, "3", "3")


def _emu3_times(stack: str, width: str, kernel: str) -> Tensors:
    """Yield convolutions over frames: those that halve or double their number, and residual blocks."""
    yield from _both(f"{stack}.time_conv.*.conv.conv", "", width, width, kernel, "3", "3")
    for each in ("1", "2"):
        yield from _both(f"{stack}.time_res_stack.*.norm{each}", "", width)
        yield from _both(f"{stack}.time_res_stack.*.conv{each}.conv", "", width, width, "3", "3", "3")


def emu3() -> Row:
    """Return the row of Emu3's images and videos as codes.

    Source: transformers 5.23, modeling_emu3.py (`Emu3VQVAEEncoder.__init__`, `Emu3VQVAEDecoder.__init__`).
    """
    down, up, more = "encoder.down_block.down", "decoder.up_block.up", "num_res_blocks + 1"
    tensors = [*_emu3_levels(down, up)]
    for stack, code in (("encoder", ""), ("decoder", "embed_dim")):
        for block in ("block_1", "block_2"):
            tensors += _residual(f"{stack}.middle_block.{block}", _WIDEST, _WIDEST, code)
        tensors += _projections(f"{stack}.middle_block.attn_1", "")
        tensors += _norm(f"{stack}.middle_block.attn_norm", "", _WIDEST, code)
    tensors += [
        *_emu3_times("encoder", _LATENT, "4"),
        *_emu3_times("decoder", "latent_channels", "3"),
        *_both("decoder.conv_in", "", _WIDEST, "latent_channels", "3", "3"),
        *_norm("decoder.norm_out", "", "(base_channels * channel_multiplier[0])", "embed_dim"),
        *_both("decoder.conv_out", "", "out_channels", "(base_channels * channel_multiplier[0])", "3", "3"),
        ["quantize.embedding.weight", "", "codebook_size", "embed_dim"],
        *_both("quant_conv.conv", "", "embed_dim", "latent_channels", "3", "1", "1"),
        *_both("post_quant_conv.conv", "", "latent_channels", "embed_dim", "3", "1", "1"),
    ]
    halves = " + ".join(f"(temporal_downsample_factor >= {2**each})" for each in range(1, 6))
    lists = {f"{stack}.time_conv": halves for stack in ("encoder", "decoder")}
    lists |= {f"{stack}.time_res_stack": "num_res_blocks" for stack in ("encoder", "decoder")}
    for path, blocks in ((down, "num_res_blocks"), (up, more)):
        mixes = f"{blocks} if i in attn_resolutions else 0"
        lists |= {path: _LEVELS, f"{path}.*.block": blocks, f"{path}.*.attn": mixes, f"{path}.*.attn_norms": mixes}
    usual = {
        **{key: value for key, value in _USUAL.items() if key != "num_embeddings"}, "attn_resolutions": [3],
        "base_channels": 256, "channel_multiplier": [1, 2, 2, 4], "codebook_size": 32768, "embed_dim": 4,
        "hidden_size": 1024, "latent_channels": 4, "out_channels": 3, "temporal_downsample_factor": 4,
    }  # fmt: skip
    return {"tensors": tensors, "lists": lists, "absent": usual, "fixed": {}}


_RATIOS = [8, 6, 5, 4]


def _mimi_convolutions(path: str, first: tuple[str, str], last: tuple[str, str], *, up: bool) -> Tensors:
    """Yield Mimi's convolutions: each ratio has a residual block and one that halves or doubles the channels."""
    count = len(_RATIOS)
    yield from _both(f"{path}.0.conv", "", *first, "kernel_size")
    for step in range(count):
        level = count - step if up else step
        wide, place = f"({2**level} * num_filters)", 3 * step
        inner = f"({2 ** (level - 1)} * num_filters)" if up else wide
        block = f"{path}.{place + 3 if up else place + 1}.block"
        narrow = f"({inner} // compress)"
        yield from _both(f"{block}.1.conv", "", narrow, inner, "residual_kernel_size")
        yield from _both(f"{block}.3.conv", "", inner, narrow, "1")
        if up:
            yield [f"{path}.{place + 2}.conv.weight", "", wide, inner, f"{2 * _RATIOS[step]}"]
            yield [f"{path}.{place + 2}.conv.bias", "", inner]
        else:
            more = f"({2 ** (level + 1)} * num_filters)"
            yield from _both(f"{path}.{place + 3}.conv", "", more, wide, f"{2 * _RATIOS[-1 - step]}")
    yield from _both(f"{path}.{3 * count + 2}.conv", "", *last, "last_kernel_size")


def mimi() -> Row:
    """Return Mimi's row: convolutions and a transformer before and after the codes, which are no parameters.

    Source: transformers 5.23, modeling_mimi.py (`MimiEncoder`, `MimiDecoder`, `MimiTransformerLayer`).
    """
    hidden, wide = "hidden_size", f"({2 ** len(_RATIOS)} * num_filters)"
    rows, keys = "(num_attention_heads * head_dim)", "(num_key_value_heads * head_dim)"
    tensors = [
        *_mimi_convolutions(
            "encoder.encoder_seanet.layers", ("num_filters", "audio_channels"), (hidden, wide), up=False
        ),
        *_mimi_convolutions(
            "decoder.decoder_seanet.layers", (wide, hidden), ("audio_channels", "num_filters"), up=True
        ),
        ["encoder.downsample.conv.weight", "", hidden, hidden, "4"],
        ["decoder.upsample.conv.weight", "", hidden, f"({hidden} // upsample_groups)", "4"],
    ]
    stacks = ("encoder.encoder_transformer.layers", "decoder.decoder_transformer.layers")
    sizes = {
        "self_attn.q_proj": (rows, hidden), "self_attn.k_proj": (keys, hidden), "self_attn.v_proj": (keys, hidden),
        "self_attn.o_proj": (hidden, rows), "mlp.fc1": ("intermediate_size", hidden),
        "mlp.fc2": (hidden, "intermediate_size"),
    }  # fmt: skip
    for stack in stacks:
        tensors += [[f"{stack}.*.{name}.weight", "", *shape] for name, shape in sizes.items()]
        for each in ("input", "post_attention"):
            tensors += _both(f"{stack}.*.{each}_layernorm", "", hidden)
        tensors += [[f"{stack}.*.{each}_layer_scale.scale", "", hidden] for each in ("self_attn", "mlp")]
    code = "vector_quantization_hidden_dimension"
    for kind in ("semantic", "acoustic"):
        place = f"quantizer.{kind}_residual_vector_quantizer"
        tensors += [[f"{place}.input_proj.weight", f"{code} != {hidden}", code, hidden, "1"]]
        tensors += [[f"{place}.output_proj.weight", f"{code} != {hidden}", hidden, code, "1"]]
    usual = {
        "audio_channels": 1, "compress": 2, "head_dim": ["=", "hidden_size // num_attention_heads"], hidden: 512,
        "intermediate_size": 2048, "kernel_size": 7, "last_kernel_size": 3, "num_attention_heads": 8,
        "num_filters": 64, "num_hidden_layers": 8, "num_key_value_heads": 8, "residual_kernel_size": 3,
        "upsample_groups": 512, code: 256,
    }  # fmt: skip
    fixed = {
        "attention_bias": False, "num_residual_layers": 1, "upsampling_ratios": _RATIOS, "use_conv_shortcut": False,
    }  # fmt: skip
    return {
        "tensors": tensors,
        "lists": dict.fromkeys(stacks, "num_hidden_layers"),
        "absent": usual,
        "fixed": fixed,
    }
