"""PaliGemma (modeling_paligemma.py) and Gemma 3 (modeling_gemma3.py): SigLIP's last hidden states, projected."""

from __future__ import annotations

from memcore.layers.transformers.vision.decoder_inputs import (
    DecoderInputs,
    Embed,
    layer_norm,
    linear_layer,
    placeholder_mask,
    put_among,
)
from memcore.layers.transformers.vision.masks import image_masks, prefix_masks
from memcore.layers.transformers.vision.vits import siglip
from memcore.tensors.basics import contiguous, like, new, permute, to
from memcore.tensors.images import average_pool
from memcore.tensors.operations import linear
from memcore.tensors.tensor import Tensor
from memcore.trace.step import Batch, Step

_PROJECTOR = "model.multi_modal_projector"


def paligemma(step: Step, batch: Batch, embed: Embed) -> DecoderInputs:
    """`PaliGemmaModel.forward` up to its language model."""
    inputs_embeds = embed()
    with step.tape.at("model"):
        position_ids = _positions(step)
        image_outputs = siglip(step, batch.images["pixel_values"])
        selected_image_feature = step.enter(_PROJECTOR, image_outputs.last)
        projected = linear_layer(step, selected_image_feature, f"{_PROJECTOR}.linear")
        image_outputs.pooled = step.leave(_PROJECTOR, projected)
        del projected
        image_features = to(image_outputs.merged, inputs_embeds.dtype)
        special_image_mask = placeholder_mask(step, batch.tokens)
        inputs_embeds = put_among(step, inputs_embeds, special_image_mask, image_features)
        block_sequence_ids = new(step.tape, ("b", "s"), "int64", "attention_mask")
        masks = prefix_masks(step, inputs_embeds.dtype)
    held = (image_outputs, special_image_mask, block_sequence_ids, position_ids)
    return DecoderInputs(inputs_embeds, held=held, returned=(image_features,), masks=masks)


def _positions(step: Step) -> Tensor:
    """Positions from one."""
    return like(like(new(step.tape, ("s",), "int64", "position_ids"), "position_ids"), "position_ids")


def gemma3(step: Step, batch: Batch, embed: Embed) -> DecoderInputs:
    """`Gemma3Model.forward` up to its language model."""
    inputs_embeds = embed()
    with step.tape.at("model"):
        vision_outputs = siglip(step, batch.images["pixel_values"])
        vision_outputs.pooled = _gemma3_projector(step, vision_outputs.last)
        image_features = to(vision_outputs.merged, inputs_embeds.dtype)
        special_image_mask = placeholder_mask(step, batch.tokens)
        inputs_embeds = put_among(step, inputs_embeds, special_image_mask, image_features)
        block_sequence_ids = _block_sequence_ids(step)
        masks = image_masks(step, inputs_embeds.dtype)
    held = (vision_outputs, special_image_mask, block_sequence_ids)
    return DecoderInputs(inputs_embeds, held=held, returned=(image_features,), masks=masks)


def _block_sequence_ids(step: Step) -> Tensor:
    """`get_block_sequence_ids_for_mask`: the number of its image for each token of one."""
    tape, rule = step.tape, "attention_mask"
    is_image, is_previous_image = (new(tape, ("b", "s"), "bool", rule) for _ in range(2))
    new_image_start = like(is_image, rule)
    group_ids = like(new(tape, ("b", "s"), "int64", rule), rule)
    block_sequence_ids = like(group_ids, rule)
    del is_image, is_previous_image, new_image_start, group_ids
    return block_sequence_ids


def _gemma3_projector(step: Step, vision_outputs: Tensor) -> Tensor:
    """`Gemma3MultiModalProjector.forward`: patches are pooled on their grid."""
    with step.tape.at(_PROJECTOR):
        reshaped_vision_outputs = contiguous(permute(vision_outputs, 0, 2, 1))
        pooled_vision_outputs = average_pool(reshaped_vision_outputs, ("bt", "ht", "nm"))
        pooled_vision_outputs = permute(pooled_vision_outputs, 0, 2, 1)
        normed_vision_outputs = layer_norm(step, pooled_vision_outputs, f"{_PROJECTOR}.mm_soft_emb_norm", "rms-offset")
        weight = step.weights[f"{_PROJECTOR}.mm_input_projection_weight"]
        projected_vision_outputs = linear(normed_vision_outputs, weight)
        return to(projected_vision_outputs, vision_outputs.dtype)
