"""Towers over one image or tile at a time: CLIP (modeling_clip.py), SigLIP (modeling_siglip.py)."""

from __future__ import annotations

from memcore.layers.transformers.vision.buffers import root_of
from memcore.layers.transformers.vision.decoder_inputs import Features, context_of, layer_norm, run_layers
from memcore.tensors.basics import narrow, permute, to
from memcore.tensors.images import buffer, convolution, joined
from memcore.tensors.operations import add, embedding
from memcore.tensors.tensor import Tensor
from memcore.trace.step import Step


def clip(step: Step, pixel_values: Tensor) -> Features:
    """`CLIPVisionModel.forward`."""
    root = root_of(step.recipe.network.towers[0].path)
    with step.tape.at(root[:-1]):
        step.begin("vision embedding")
        hidden_states = _clip_embeddings(step, f"{root}embeddings", pixel_values)
        hidden_states = layer_norm(step, hidden_states, f"{root}pre_layrnorm")
        hidden_states = step.ended(hidden_states, "vision embedding")
        encoder_outputs = run_layers(step, 0, [hidden_states], context_of(step))
        step.begin("projector")
        last_hidden_state = encoder_outputs.last
        pooled_output = narrow(last_hidden_state, 1, 1)
        pooled_output = layer_norm(step, pooled_output, f"{root}post_layernorm")
        return Features(last_hidden_state, encoder_outputs.taps, pooled_output)


def _clip_embeddings(step: Step, module: str, pixel_values: Tensor) -> Tensor:
    tape, weights = step.tape, step.weights
    with tape.at(module):
        pixel_values = step.enter(module, step.cast(pixel_values))
        patch_embeds = patches(step, f"{module}.patch_embedding", pixel_values)
        class_embeds = weights[f"{module}.class_embedding"]
        embeddings = joined([class_embeds, patch_embeds], ("bt", "nt", "ht"), 1)
        embeddings = add(embeddings, _positions(step, f"{module}.position_embedding", "nt"))
        return step.leave(module, embeddings)


def _positions(step: Step, module: str, axis: str) -> Tensor:
    position_ids = buffer(step.tape, (1, axis), "int64")
    with step.tape.at(module):
        return embedding(position_ids, step.weights[f"{module}.weight"])


def patches(step: Step, module: str, pixel_values: Tensor) -> Tensor:
    """Return a vector for each patch: a convolution, whose channels come last."""
    weight, bias = step.weights[f"{module}.weight"], step.weights.get(f"{module}.bias")
    pixel_values = to(pixel_values, weight.dtype)
    with step.tape.at(module):
        patch_embeds = convolution(pixel_values, weight, bias, ("bt", "np"), 1)
    return permute(patch_embeds, 0, 2, 1)


def siglip(step: Step, pixel_values: Tensor) -> Features:
    """`SiglipVisionModel.forward`."""
    root = root_of(step.recipe.network.towers[0].path)
    with step.tape.at(root[:-1]):
        step.begin("vision embedding")
        hidden_states = _siglip_embeddings(step, f"{root}embeddings", pixel_values)
        hidden_states = step.ended(hidden_states, "vision embedding")
        encoder_outputs = run_layers(step, 0, [hidden_states], context_of(step))
        step.begin("projector")
        last_hidden_state = encoder_outputs.last
        last_hidden_state = layer_norm(step, last_hidden_state, f"{root}post_layernorm")
        return Features(last_hidden_state, encoder_outputs.taps)


def _siglip_embeddings(step: Step, module: str, pixel_values: Tensor) -> Tensor:
    with step.tape.at(module):
        pixel_values = step.enter(module, step.cast(pixel_values))
        patch_embeds = patches(step, f"{module}.patch_embedding", pixel_values)
        embeddings = add(patch_embeds, _positions(step, f"{module}.position_embedding", "np"))
        return step.leave(module, embeddings)
