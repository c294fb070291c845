"""Llama 3.2 Vision (modeling_mllama.py): two towers one after the other, to whose results some layers attend."""

from __future__ import annotations

from memcore.layers.transformers.vision.decoder_inputs import (
    DecoderInputs,
    Embed,
    context_of,
    layer_norm,
    linear_layer,
    run_layers,
)
from memcore.layers.transformers.vision.vits import patches
from memcore.symbols import Rounded, Shape, Shifted
from memcore.tensors.basics import like, narrow, new, to
from memcore.tensors.images import joined, padded_rows, stacked
from memcore.tensors.operations import add, embedding, mul, scale, tanh
from memcore.tensors.slices import reshape
from memcore.tensors.tape import Held
from memcore.tensors.tensor import Tensor
from memcore.trace.step import Batch, Step

_ROOT = "model.vision_model"
_RULE = "attention_mask"
_PADDED = Rounded("nt", 8)
_TILES: Shape = ("bt", _PADDED, "ht")
_IMAGES: Shape = ("bi", "kt", "ht")


def mllama(step: Step, batch: Batch, embed: Embed) -> DecoderInputs:
    """`MllamaModel.forward` up to the layers."""
    with step.tape.at("model"):
        vision_outputs = _tower(step, batch)
        cross_attention_states = linear_layer(step, vision_outputs, "model.multi_modal_projector")
        cross_attention_states = step.ended(reshape(cross_attention_states, ("b", "cv", "h")), "projector")
        step.begin("positions and masks")
        cross_attention_mask, full_text_row_masked_out_mask = _masks(step)
    arguments = {
        "seen": cross_attention_states,
        "seen_mask": cross_attention_mask,
        "seen_rows": full_text_row_masked_out_mask,
    }
    return DecoderInputs(embed(), held=(vision_outputs,), arguments=arguments)


def _dtype(step: Step) -> str:
    """`self.dtype`: that of the first parameter."""
    return step.weights[f"{_ROOT}.class_embedding"].dtype


def _masks(step: Step) -> tuple[Tensor, Tensor]:
    """`_prepare_cross_attention_mask`: which positions of images a token sees, as a bias, and if any."""
    cross_attention_mask = new(step.tape, ("b", 1, "s", "cv"), "int64", _RULE)
    inverted_cross_attn_mask = to(like(cross_attention_mask, _RULE, "fp32"), _dtype(step))
    cross_attention_mask = _filled(inverted_cross_attn_mask)
    return cross_attention_mask, to(_any(cross_attention_mask), cross_attention_mask.dtype)


def _filled(inverted: Tensor) -> Tensor:
    chosen = like(inverted, _RULE, "bool")
    filled = like(inverted, _RULE)
    del chosen
    return filled


def _any(mask: Tensor) -> Tensor:
    allowed = like(mask, _RULE, "bool")
    found = new(mask.tape, ("b", "s", 1), "bool", _RULE)
    del allowed
    return found


def _tower(step: Step, batch: Batch) -> Tensor:
    """`MllamaVisionModel.forward`."""
    tape, states = step.tape, Held[list[Tensor]]()
    ids = batch.images["aspect_ratio_ids"]
    with tape.at(_ROOT):
        step.begin("vision embedding")
        patch_embeds = patches(step, f"{_ROOT}.patch_embedding", batch.images["pixel_values"])
        hidden_states = _embedded(step, patch_embeds, ids)
        attention_mask = _tile_mask(step)
        hidden_states = step.ended(reshape(hidden_states, _IMAGES), "vision embedding")
        context = context_of(step, mask=attention_mask)
        output = run_layers(step, 0, [hidden_states], context, held=states)
        step.begin("vision embedding")
        hidden_states = output.last
        hidden_states = reshape(layer_norm(step, hidden_states, f"{_ROOT}.layernorm_post"), _TILES)
        hidden_states = _with_tiles(step, hidden_states, ids, "post_tile_positional_embedding")
        given = [step.ended(reshape(hidden_states, _IMAGES), "vision embedding")]
        global_states = Held[list[Tensor]]()
        global_output = run_layers(step, 1, given, context, held=global_states)
        step.begin("projector")
        hidden_states = narrow(reshape(global_output.last, _TILES), 1, "nt")
        inner = output.taps if "last-too" in step.recipe.network.towers[0].options else output.taps[:-1]
        intermediate_hidden_states = reshape(stacked(inner), ("bt", _PADDED, Shifted("vt", -1, "ht")))
        intermediate_hidden_states = narrow(intermediate_hidden_states, 1, "nt")
        hidden_states = joined([hidden_states, intermediate_hidden_states], ("bt", "nt", "vt"), 2)
        del patch_embeds, output, inner, intermediate_hidden_states, context, attention_mask
        tape.let_go(states, "projector")
        tape.let_go(global_states, "projector")
        return hidden_states


def _embedded(step: Step, hidden_states: Tensor, ids: Tensor) -> Tensor:
    """Patches with a class token in front, and embeddings of places and tiles; the rows are padded."""
    hidden_states = _with_tiles(step, hidden_states, ids, "pre_tile_positional_embedding")
    class_embedding = step.weights[f"{_ROOT}.class_embedding"]
    hidden_states = joined([class_embedding, hidden_states], ("bt", "nt", "ht"), 1)
    hidden_states = _placed(step, hidden_states, ids)
    hidden_states = layer_norm(step, hidden_states, f"{_ROOT}.layernorm_pre")
    return padded_rows(hidden_states, _TILES)


def _with_tiles(step: Step, hidden_states: Tensor, ids: Tensor, name: str) -> Tensor:
    """`MllamaPrecomputedAspectRatioEmbedding.forward`."""
    module = f"{_ROOT}.{name}"
    with step.tape.at(module):
        with step.tape.module("embedding"):
            embeddings = embedding(ids, step.weights[f"{module}.embedding.weight"])
        embeddings = reshape(embeddings, ("bt", 1, "ht"))
        embeddings = mul(embeddings, tanh(step.weights[f"{module}.gate"]))
        return add(hidden_states, embeddings)


def _placed(step: Step, hidden_states: Tensor, ids: Tensor) -> Tensor:
    """`MllamaPrecomputedPositionEmbedding.forward`."""
    module, weights = f"{_ROOT}.gated_positional_embedding", step.weights
    with step.tape.at(module):
        gate = weights[f"{module}.gate"]
        gated_position_embedding = mul(scale(tanh(gate), "sub"), weights[f"{module}.embedding"])
        hidden_states = add(hidden_states, gated_position_embedding)
        with step.tape.module("tile_embedding"):
            tile_position_embedding = embedding(ids, weights[f"{module}.tile_embedding.weight"])
        tile_position_embedding = reshape(tile_position_embedding, ("bt", "nt", "ht"))
        gated_tile_position_embedding = mul(tanh(gate), tile_position_embedding)
        return add(hidden_states, gated_tile_position_embedding)


def _tile_mask(step: Step) -> Tensor:
    """`_prepare_aspect_ratio_attention_mask`: padding does not see padding."""
    tape, dtype = step.tape, _dtype(step)
    attention_mask = _repeated(new(tape, ("bi", "zt"), dtype, _RULE))
    attention_mask = like(attention_mask, _RULE)
    attention_mask = new(tape, ("bi", "kt", "kt"), tape.autocast or dtype, _RULE)
    attention_mask = like(attention_mask, _RULE)
    return Tensor(tape, attention_mask.storage, ("bi", 1, "kt", "kt"), attention_mask.dtype)


def _repeated(mask: Tensor) -> Tensor:
    return new(mask.tape, ("bi", "kt"), mask.dtype, _RULE)
