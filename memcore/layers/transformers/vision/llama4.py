"""Llama 4 (modeling_llama4.py): a tower whose patches rotate as complex numbers, four of which become a token."""

from __future__ import annotations

from memcore.layers.transformers.vision.decoder_inputs import (
    DecoderInputs,
    Embed,
    context_of,
    layer_norm,
    linear_layer,
    pixel_shuffle,
    placeholder_mask,
    put_among,
    run_layers,
)
from memcore.tensors.basics import narrow, permute, to
from memcore.tensors.images import buffer, joined, unfolded
from memcore.tensors.operations import ACTIVATIONS, add, dropout
from memcore.tensors.slices import expand, reshape, unsqueeze
from memcore.tensors.tensor import Tensor
from memcore.trace.step import Batch, Step

_ROOT = "vision_model"


def llama4(step: Step, batch: Batch, embed: Embed) -> DecoderInputs:
    """`Llama4ForConditionalGeneration.forward` up to its language model, which has the head."""
    inputs_embeds = embed()
    if "pixel_values" not in batch.images:
        return DecoderInputs(inputs_embeds, around=(inputs_embeds,))
    image_features = _tower(step, batch.images["pixel_values"])
    projected_vision_flat = linear_layer(step, reshape(image_features, ("mq", "vt")), "multi_modal_projector.linear_1")
    projected_vision_flat = to(projected_vision_flat, inputs_embeds.dtype)
    special_image_mask = placeholder_mask(step, batch.tokens)
    inputs_embeds = put_among(step, inputs_embeds, special_image_mask, projected_vision_flat)
    around = (inputs_embeds, projected_vision_flat, special_image_mask)
    return DecoderInputs(inputs_embeds, around=around, returned=(image_features,))


def _tower(step: Step, pixel_values: Tensor) -> Tensor:
    """`Llama4VisionModel.forward`."""
    tape = step.tape
    with tape.at(_ROOT):
        step.begin("vision embedding")
        hidden_state = _patch_embedding(step, pixel_values)
        class_embedding = step.weights[f"{_ROOT}.class_embedding"]
        hidden_state = joined([hidden_state, class_embedding], ("bt", "nt", "ht"), 1)
        positional_embedding = to(step.weights[f"{_ROOT}.positional_embedding_vlm"], hidden_state.dtype)
        # Added to four axes: its gradient is summed even over a single tile.
        hidden_state = add(hidden_state, expand(unsqueeze(positional_embedding, 0), 0, "bt"))
        hidden_state = layer_norm(step, hidden_state, f"{_ROOT}.layernorm_pre")
        hidden_state = step.ended(hidden_state, "vision embedding")
        freqs_ci = buffer(tape, ("nt", "dt"), "fp32")
        context = context_of(step, rotary=(freqs_ci,))
        output = run_layers(step, 0, [hidden_state], context)
        hidden_state = output.last
        step.begin("projector")
        hidden_state = layer_norm(step, hidden_state, f"{_ROOT}.layernorm_post")
        hidden_state = narrow(hidden_state, 1, "np")
        return _adapter(step, hidden_state)


def _patch_embedding(step: Step, hidden_states: Tensor) -> Tensor:
    """`Llama4UnfoldConvolution.forward`."""
    hidden_states = unfolded(hidden_states, ("bt", "ct", "pt", "pt", "np"))
    hidden_states = permute(hidden_states, 0, 4, 1, 2, 3)
    return linear_layer(step, hidden_states, f"{_ROOT}.patch_embedding.linear")


def _adapter(step: Step, encoded_patches: Tensor) -> Tensor:
    """`Llama4VisionPixelShuffleMLP.forward`."""
    module = f"{_ROOT}.vision_adapter.mlp"
    encoded_patches = reshape(pixel_shuffle(encoded_patches), ("mq", "ft"))
    hidden_states = linear_layer(step, encoded_patches, f"{module}.fc1")
    hidden_states = _activated(step, hidden_states)
    hidden_states = dropout(hidden_states, step.recipe.network.towers[0].dropout)
    return _activated(step, linear_layer(step, hidden_states, f"{module}.fc2"))


def _activated(step: Step, x: Tensor) -> Tensor:
    with step.tape.at(f"{_ROOT}.vision_adapter.mlp.activation_fn"):
        return ACTIVATIONS["gelu"](x)
