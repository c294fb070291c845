"""Kimi-VL's tower and projector, as its checkpoints name them.

Source: the weight map of moonshotai/Kimi-VL-A3B-Instruct; vllm, model_executor/models/moonvit.py and kimi_vl.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

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
    sizes,
    tensor,
    widths,
)
from memcore.networks.reader import Reader
from memcore.networks.weights import Linear

_PROJECTOR = "multi_modal_projector."


def moonvit(reader: Reader, prefix: str, taps: Sequence[int]) -> tuple[Stack, ...]:
    """Return a vision transformer with a grid of learned positions, and rotations on top."""
    sizes(reader)
    widths(reader)
    grid = reader.integer("init_pos_emb_height", 64) * reader.integer("init_pos_emb_width", 64)
    reader.symbol("nt", grid)
    inputs = (Linear("wqkv", (3, *HEADS), ("ht",), bias=True),)
    mixer = replace(
        attention(reader, "", "wo", inputs=inputs, fused="thirds"), output=Linear("wo", ("ht",), HEADS, bias=True)
    )
    layer = layer_of(
        mixer,
        ffn("gelu_pytorch_tanh", "mlp", "fc0 fc1"),
        norms("norm0", "norm1"),
    )
    outer_weights = [
        tensor(f"{prefix}patch_embed.proj.weight", "ht", *PATCH),
        tensor(f"{prefix}patch_embed.proj.bias", "ht"),
        tensor(f"{prefix}patch_embed.pos_emb.weight", "nt", "ht"),
        *affine(f"{prefix}encoder.final_layernorm", "ht"),
    ]
    path = f"{prefix}encoder.blocks"
    return (equal(reader, layer, taps, variant="moonvit", path=path, outer_weights=tuple(outer_weights)),)


def kimi_projector(whole: Reader, vision: Reader) -> Tensors:
    """Return a norm over patches, four of them side by side, and two matrices."""
    kernel = vision.listed("merge_kernel_size") or (2, 2)
    merged = 1
    for each in kernel:
        merged *= each if isinstance(each, int) else 1
    vision.symbol("mt", merged * vision.sizes["ht"])
    return [
        *affine(f"{_PROJECTOR}pre_norm", "ht", "projector"),
        *linear(f"{_PROJECTOR}linear_1", "mt", "mt", "projector"),
        *linear(f"{_PROJECTOR}linear_2", "h", "mt", "projector"),
    ]
