"""Mistral 3 (modeling_mistral3.py): Pixtral's tower, whose patches are merged on their grid."""

from __future__ import annotations

from memcore.errors import UnsupportedError
from memcore.layers.transformers.vision.decoder_inputs import (
    DecoderInputs,
    Embed,
    layer_norm,
    linear_layer,
    placeholder_mask,
    put_among,
)
from memcore.layers.transformers.vision.pixtral import pixtral
from memcore.symbols import Axis, Quotient
from memcore.tensors.basics import to
from memcore.tensors.images import divided, joined, rejoined, unfolded_rows
from memcore.tensors.loops import iterations, returns
from memcore.tensors.operations import ACTIVATIONS
from memcore.tensors.slices import split_sizes, squeeze
from memcore.tensors.tensor import Tensor
from memcore.trace.step import Batch, Step

_PROJECTOR = "model.multi_modal_projector"


def mistral3(step: Step, batch: Batch, embed: Embed) -> DecoderInputs:
    """`Mistral3Model.forward` up to its language model."""
    if len(step.recipe.network.towers[0].taps) != 1:
        raise UnsupportedError("model.vision_feature_layer", "found several layers; allowed with mistral3: {}", "one")
    inputs_embeds = embed()
    with step.tape.at("model"):
        image_outputs = pixtral(step, batch.images["pixel_values"])
        image_outputs.pooled = divided(_projector(step, image_outputs.taps[0]), "cat")
        image_features = to(rejoined(image_outputs.merged, ("mq", "h")), inputs_embeds.dtype)
        special_image_mask = placeholder_mask(step, batch.tokens)
        inputs_embeds = put_among(step, inputs_embeds, special_image_mask, image_features)
    return DecoderInputs(inputs_embeds, held=(image_outputs, special_image_mask), returned=(image_features,))


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
