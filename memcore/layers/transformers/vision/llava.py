"""LLaVA (modeling_llava.py): features of an inner layer of the tower, projected, take the place of image tokens."""

from __future__ import annotations

from memcore.errors import UnsupportedError
from memcore.layers.transformers.vision.decoder_inputs import (
    DecoderInputs,
    Embed,
    Features,
    linear_layer,
    placeholder_mask,
    put_among,
)
from memcore.layers.transformers.vision.towers import TOWERS
from memcore.symbols import Shape
from memcore.tensors.basics import narrow, to
from memcore.tensors.images import divided, joined, rejoined
from memcore.tensors.operations import ACTIVATIONS
from memcore.tensors.slices import squeeze, unsqueeze
from memcore.tensors.tensor import Tensor
from memcore.trace.step import Batch, Step


def llava(step: Step, batch: Batch, embed: Embed) -> DecoderInputs:
    """`LlavaModel.forward` up to its language model."""
    inputs_embeds = embed()
    with step.tape.at("model"):
        image_outputs = _image_features(step, batch.images["pixel_values"])
        image_features = to(rejoined(image_outputs.merged, ("mq", "h")), inputs_embeds.dtype)
        special_image_mask = placeholder_mask(step, batch.tokens)
        inputs_embeds = put_among(step, inputs_embeds, special_image_mask, image_features)
    return DecoderInputs(inputs_embeds, held=(image_outputs, special_image_mask), returned=(image_features,))


def _image_features(step: Step, pixel_values: Tensor) -> Features:
    tower = step.recipe.network.towers[0]
    if tower.variant == "pixtral" and "whole" not in tower.options:
        raise UnsupportedError(
            "model.vision_feature_select_strategy",
            "found {!r}; allowed with Pixtral's tower, which has no class token: 'full'",
            "default",
        )
    image_outputs = TOWERS[tower.variant](step, pixel_values)
    pool = image_outputs.taps
    if tower.variant == "clip" and "whole" not in tower.options:
        pool = [narrow(each, 1, "np") for each in pool]
    batch, length, width = pool[0].shape
    selected: Shape = (batch, length, len(pool), width)
    selected_image_feature = pool[0] if len(pool) == 1 else joined([unsqueeze(each, 2) for each in pool], selected, 2)
    del pool
    projected = _projector(step, selected_image_feature)
    if tower.variant == "pixtral":
        image_outputs.pooled = divided(squeeze(projected, 0), "cat")
    else:
        image_outputs.pooled = divided(projected, "stack")
    return image_outputs


def _projector(step: Step, image_features: Tensor) -> Tensor:
    """`LlavaMultiModalProjector.forward`."""
    module = "model.multi_modal_projector"
    hidden_states = linear_layer(step, image_features, f"{module}.linear_1")
    with step.tape.at(f"{module}.act"):
        hidden_states = ACTIVATIONS[step.recipe.network.towers[0].activation](hidden_states)
    return linear_layer(step, hidden_states, f"{module}.linear_2")
