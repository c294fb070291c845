"""InternVL (modeling_internvl.py): InternViT over tiles, whose neighbouring patches go side by side into a token."""

from __future__ import annotations

from memcore.errors import UnsupportedError
from memcore.layers.transformers.vision.buffers import root_of
from memcore.layers.transformers.vision.decoder_inputs import (
    DecoderInputs,
    Embed,
    Features,
    context_of,
    layer_norm,
    linear_layer,
    pixel_shuffle,
    placeholder_mask,
    put_among,
    run_layers,
)
from memcore.layers.transformers.vision.vits import patches
from memcore.networks.network import Tower
from memcore.symbols import Quotient
from memcore.tensors.basics import narrow, to
from memcore.tensors.images import joined
from memcore.tensors.operations import ACTIVATIONS, add, dropout
from memcore.tensors.slices import expand, reshape
from memcore.tensors.tensor import Tensor
from memcore.trace.step import Batch, Step

_PROJECTOR = "model.multi_modal_projector"


def internvl(step: Step, batch: Batch, embed: Embed) -> DecoderInputs:
    """`InternVLModel.forward` up to its language model."""
    inputs_embeds = embed()
    with step.tape.at("model"):
        image_outputs = image_features(step, batch.images["pixel_values"])
        features = to(image_outputs.merged, inputs_embeds.dtype)
        special_image_mask = placeholder_mask(step, batch.tokens)
        inputs_embeds = put_among(step, inputs_embeds, special_image_mask, features)
    return DecoderInputs(inputs_embeds, held=(image_outputs, special_image_mask), returned=(features,))


def image_features(step: Step, pixel_values: Tensor) -> Features:
    """`InternVLModel.get_image_features`; its `self.dtype` is that of the first parameter."""
    tower = step.recipe.network.towers[0]
    _check(tower)
    pixel_values = to(pixel_values, step.weights[f"{root_of(tower.path)}embeddings.cls_token"].dtype)
    vision_outputs = _tower(step, pixel_values)
    vision_features = vision_outputs.taps[0] if "inner" in tower.options else vision_outputs.last
    vision_features = narrow(vision_features, 1, "np")
    vision_features = pixel_shuffle(vision_features)
    vision_features = reshape(vision_features, ("bt", Quotient(("mq",), "bt"), "mt"))
    vision_outputs.pooled = _projector(step, vision_features)
    return vision_outputs


def _check(tower: Tower) -> None:
    """The original fails with the class token, whose patches are no square, and with several layers."""
    if "whole" in tower.options:
        raise UnsupportedError(
            "model.vision_feature_select_strategy", "found {!r}; allowed with internvl: {!r}", "full", "default"
        )
    if len(tower.taps) != 1:
        raise UnsupportedError("model.vision_feature_layer", "found several layers; allowed with internvl: {}", "one")


def _tower(step: Step, pixel_values: Tensor) -> Features:
    """`InternVLVisionModel.forward`, which holds what it embedded until it returns."""
    root = root_of(step.recipe.network.towers[0].path)
    with step.tape.at(root[:-1]):
        step.begin("vision embedding")
        embedding_output = _embeddings(step, f"{root}embeddings", pixel_values)
        embedding_output = step.ended(embedding_output, "vision embedding")
        encoder_outputs = run_layers(step, 0, [embedding_output], context_of(step))
        step.begin("projector")
        sequence_output = encoder_outputs.last
        if f"{root}layernorm.weight" in step.weights:
            sequence_output = layer_norm(step, sequence_output, f"{root}layernorm")
        return Features(sequence_output, encoder_outputs.taps)


def _embeddings(step: Step, module: str, pixel_values: Tensor) -> Tensor:
    """`InternVLVisionEmbeddings.forward`; tiles have the size that positions were learned for."""
    weights, positions = step.weights, f"{module}.position_embeddings"
    with step.tape.at(module):
        embeddings = patches(step, f"{module}.patch_embeddings.projection", pixel_values)
        cls_tokens = expand(weights[f"{module}.cls_token"], 0, "bt")
        embeddings = joined([cls_tokens, embeddings], ("bt", "nt", "ht"), 1)
        if positions in weights:
            embeddings = add(embeddings, weights[positions])
        layer = step.recipe.network.towers[0].runs[0][0]
        return dropout(embeddings, layer.dropout)


def _projector(step: Step, image_features: Tensor) -> Tensor:
    """`InternVLMultiModalProjector.forward`."""
    with step.tape.at(_PROJECTOR):
        hidden_states = layer_norm(step, image_features, f"{_PROJECTOR}.layer_norm")
        hidden_states = linear_layer(step, hidden_states, f"{_PROJECTOR}.linear_1")
        with step.tape.at(f"{_PROJECTOR}.act"):
            hidden_states = ACTIVATIONS[step.recipe.network.towers[0].activation](hidden_states)
        return linear_layer(step, hidden_states, f"{_PROJECTOR}.linear_2")
