"""Pixtral's tower (modeling_pixtral.py): images lie one after the other in one row; a mask keeps each to itself."""

from __future__ import annotations

from memcore.layers.transformers.vision.buffers import root_of
from memcore.layers.transformers.vision.decoder_inputs import Features, context_of, layer_norm, run_layers
from memcore.symbols import half
from memcore.tensors.basics import cat, like, new, to
from memcore.tensors.images import convolution, divided, rejoined
from memcore.tensors.loops import iterations
from memcore.tensors.tensor import Tensor
from memcore.trace.step import Step

_POSITIONS = "vision_positions"


def pixtral(step: Step, pixel_values: Tensor) -> Features:
    """`PixtralVisionModel.forward`, which holds what its layers are given until it returns."""
    root = root_of(step.recipe.network.towers[0].path)
    with step.tape.at(root[:-1]):
        step.begin("vision embedding")
        weight = step.weights[f"{root}patch_conv.weight"]
        with step.tape.at(f"{root}patch_conv"):
            patch_embeds = convolution(to(pixel_values, weight.dtype), weight, None, ("bt", "np"), 1)
        patch_embeds_list = divided(patch_embeds, "stack")
        patch_embeds = rejoined(patch_embeds_list, (1, "nq", "ht"))
        patch_embeds = layer_norm(step, patch_embeds, f"{root}ln_pre", "rms")
        position_ids, *grid = _position_ids(step)
        cos, sin = _rotary(step, f"{root}patch_positional_embedding", position_ids, patch_embeds.dtype)
        attention_mask = None
        if step.recipe.attention != "flash":
            attention_mask = new(step.tape, (1, 1, "nq", "nq"), patch_embeds.dtype, "attention_mask")
        patch_embeds = step.ended(patch_embeds, "vision embedding")
        found = run_layers(step, 0, [patch_embeds], context_of(step, mask=attention_mask), cos, sin)
        step.begin("projector")
        del patch_embeds_list, position_ids, grid, cos, sin, attention_mask
        return found


def _position_ids(step: Step) -> tuple[Tensor, ...]:
    """Row and column of every patch, image after image; the ranges that the last grid was made of stay."""
    tape, pictures = step.tape, step.recipe.pictures
    position_ids, grid = [], list[Tensor]()
    for _ in iterations(tape, "bt", pictures.count if pictures else 0):
        grid = [new(tape, ("gp",), "int64", _POSITIONS) for _ in range(2)]
        coordinates = [new(tape, ("np",), "int64", _POSITIONS) for _ in range(2)]
        position_ids.append(new(tape, ("np", 2), "int64", _POSITIONS))
        del coordinates
    return (new(tape, ("nq", 2), "int64", _POSITIONS), *grid)


def _rotary(step: Step, module: str, position_ids: Tensor, dtype: str) -> tuple[Tensor, Tensor]:
    """`PixtralVisionRotaryEmbedding.forward`: rows and columns rotate a half of the frequencies each."""
    tape = step.tape
    with tape.at(module), tape.no_grad():
        freqs = _frequencies(position_ids)
        cos = like(like(freqs, "rotary"), "rotary")
        sin = like(like(freqs, "rotary"), "rotary")
        cos = _recomposed(cos)
        sin = _recomposed(sin)
        return _for_heads(to(cos, dtype)), _for_heads(to(sin, dtype))


def _frequencies(position_ids: Tensor) -> Tensor:
    """`position_ids[..., None].float() * inv_freq`."""
    positions = like(position_ids, "to", "fp32")
    return new(positions.tape, (*positions.shape, half("dt")), "fp32", "rotary")


def _recomposed(freq: Tensor) -> Tensor:
    freq_hw = cat([freq], ("nq", half("dt")))
    return cat([freq_hw], ("nq", "dt"))


def _for_heads(table: Tensor) -> Tensor:
    return Tensor(table.tape, table.storage, (1, *table.shape), table.dtype)
