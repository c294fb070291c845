"""Mistral 3 (modeling_mistral3.py): Pixtral's tower (modeling_pixtral.py), whose patches are merged on their grid.

Images lie one after the other in one row; a mask keeps each to itself.
"""

from __future__ import annotations

from memcore.eager.basics import cat, like, new, to
from memcore.eager.images import convolution, divided, joined, rejoined, unfolded_rows
from memcore.eager.loops import iterations, returns
from memcore.eager.operations import ACTIVATIONS
from memcore.eager.slices import split_sizes, squeeze
from memcore.eager.tensor import Tensor
from memcore.errors import UnsupportedError
from memcore.layers.transformers.vision.buffers import root_of
from memcore.layers.transformers.vision.seen import (
    Embed,
    Features,
    Seen,
    context_of,
    layer_norm,
    linear_layer,
    placeholder_mask,
    put_among,
    run_layers,
)
from memcore.step.step import Batch, Step
from memcore.symbols import Axis, Quotient, half

_PROJECTOR = "model.multi_modal_projector"
_POSITIONS = "vision_positions"


def mistral3(step: Step, batch: Batch, embed: Embed) -> Seen:
    """`Mistral3Model.forward` up to its language model."""
    if len(step.recipe.network.towers[0].taps) != 1:
        raise UnsupportedError("model.vision_feature_layer", "found several layers; allowed with mistral3: one")
    inputs_embeds = embed()
    with step.tape.at("model"):
        image_outputs = _tower(step, batch.images["pixel_values"])
        image_outputs.pooled = divided(_projector(step, image_outputs.taps[0]), "cat")
        image_features = to(rejoined(image_outputs.merged, ("mq", "h")), inputs_embeds.dtype)
        special_image_mask = placeholder_mask(step, batch.tokens)
        inputs_embeds = put_among(step, inputs_embeds, special_image_mask, image_features)
    return Seen(inputs_embeds, held=(image_outputs, special_image_mask), returned=(image_features,))


def _tower(step: Step, pixel_values: Tensor) -> Features:
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


def _projector(step: Step, image_features: Tensor) -> Tensor:
    """`Mistral3MultiModalProjector.forward`."""
    with step.tape.at(_PROJECTOR):
        image_features = layer_norm(step, squeeze(image_features, 0), f"{_PROJECTOR}.norm", "rms")
        image_features = _merger(step, image_features)
        hidden_states = linear_layer(step, image_features, f"{_PROJECTOR}.linear_1")
        with step.tape.at(f"{_PROJECTOR}.act"):
            hidden_states = ACTIVATIONS[step.recipe.network.towers[0].activation](hidden_states)
        return linear_layer(step, hidden_states, f"{_PROJECTOR}.linear_2")


def _merger(step: Step, image_features: Tensor) -> Tensor:
    """`Mistral3PatchMerger.forward`: neighbours on each image's grid go side by side."""
    tape, pictures, module = step.tape, step.recipe.pictures, f"{_PROJECTOR}.patch_merger"
    count = pictures.count if pictures else 0
    with tape.at(module):
        sizes: list[Axis] = ["np"] * count
        images = split_sizes(image_features, 0, sizes)
        permuted_tensor = list[Tensor]()
        for index in iterations(tape, "bt", count):
            permuted_tensor.append(unfolded_rows(images[index], (Quotient(("mq",), "bt"), "mt")))
            returns(permuted_tensor[-1], index, "bt", count)
        image_features = joined(permuted_tensor, ("mq", "mt"), 0)
        return linear_layer(step, image_features, f"{module}.merging_layer")
