"""Qwen2-VL, Qwen2.5-VL and Qwen3-VL (modeling_qwen2_vl.py, modeling_qwen2_5_vl.py, modeling_qwen3_vl.py)."""

from __future__ import annotations

from memcore.layers.transformers.vision.decoder_inputs import (
    DecoderInputs,
    Embed,
    Features,
    context_of,
    layer_norm,
    linear_layer,
    placeholder_mask,
    put_among,
    run_layers,
)
from memcore.layers.transformers.vision.interpolated import interpolated, taps_and_weights
from memcore.layers.transformers.vision.places import multimodal_positions
from memcore.symbols import Quotient
from memcore.tensors.basics import cat, like, new, to
from memcore.tensors.images import buffer, convolution, divided, rejoined
from memcore.tensors.indexing import take
from memcore.tensors.loops import iterations
from memcore.tensors.operations import ACTIVATIONS, add
from memcore.tensors.slices import reshape
from memcore.tensors.tensor import Tensor
from memcore.trace.step import Batch, Step

_ROOT = "model.visual"


def qwen2_vl(step: Step, batch: Batch, embed: Embed) -> DecoderInputs:
    """`Qwen2VLModel.forward` up to its language model; Qwen2.5-VL's is the same."""
    inputs_embeds = embed()
    with step.tape.at("model"):
        vision_outputs = image_features(step, batch.images["pixel_values"])
        image_embeds = to(rejoined(vision_outputs.merged, ("mq", "h")), inputs_embeds.dtype)
        image_mask = placeholder_mask(step, batch.tokens)
        inputs_embeds = put_among(step, inputs_embeds, image_mask, image_embeds)
        position_ids = multimodal_positions(step)
    return DecoderInputs(inputs_embeds, held=(vision_outputs, image_embeds, image_mask), positions=position_ids)


def image_features(step: Step, pixel_values: Tensor) -> Features:
    """`get_image_features`: what the tower makes of patches, merged, image by image."""
    found = tower(step, pixel_values)
    found.pooled = divided(found.merged, "cat")
    found.deep = [divided(each, "cat") for each in found.deep]
    return found


def tower(step: Step, pixel_values: Tensor) -> Features:
    """Return the vision model over all images together."""
    pixel_values = to(pixel_values, step.weights[f"{_ROOT}.patch_embed.proj.weight"].dtype)
    return _TOWERS[step.recipe.network.towers[0].variant](step, pixel_values)


def _patch_embed(step: Step, hidden_states: Tensor) -> Tensor:
    name = f"{_ROOT}.patch_embed.proj"
    with step.tape.at(name):
        weight, bias = step.weights[f"{name}.weight"], step.weights.get(f"{name}.bias")
        return convolution(hidden_states, weight, bias, ("nq",), 1)


def _vision_position_ids(step: Step) -> Tensor:
    """`get_vision_position_ids`: row and column of every patch, image after image (vision_utils.py)."""
    tape, pictures = step.tape, step.recipe.pictures
    count = pictures.count if pictures else 0
    position_ids, coordinates = [], list[Tensor]()
    for _ in iterations(tape, "bt", count):
        coordinates = [new(tape, ("np",), "int64", "vision_positions") for _ in range(2)]
        stacked = new(tape, ("np", 2), "int64", "vision_positions")
        position_ids.append(like(stacked, "vision_positions"))
        del stacked
    found = new(tape, ("nq", 2), "int64", "vision_positions")
    del coordinates
    return found


def _rotary(step: Step, position_ids: Tensor) -> tuple[Tensor, Tensor]:
    """`Qwen2VLVisionRotaryEmbedding.forward`: rows rotate one half of the frequencies, columns the other."""
    tape, quarter = step.tape, Quotient(("dt",), 4)
    with tape.at(f"{_ROOT}.rotary_pos_emb"), tape.no_grad():
        freqs = _times_frequencies(to(_last_axis(position_ids), "fp32"), quarter)
        cos = _scaled(like(freqs, "rotary"))
        sin = _scaled(like(freqs, "rotary"))
        cos = _recomposed(cos)
        sin = _recomposed(sin)
        return cos, sin


def _last_axis(position_ids: Tensor) -> Tensor:
    return Tensor(position_ids.tape, position_ids.storage, (*position_ids.shape, 1), position_ids.dtype)


def _times_frequencies(positions: Tensor, width: Quotient) -> Tensor:
    return new(positions.tape, (*positions.shape[:-1], width), "fp32", "rotary")


def _scaled(x: Tensor) -> Tensor:
    return like(x, "rotary")


def _recomposed(freq: Tensor) -> Tensor:
    freq_hw = cat([freq], ("nq", Quotient(("dt",), 2)))
    return cat([freq_hw], ("nq", "dt"))


def _merged(step: Step, hidden_states: Tensor, name: str = "merger", kind: str = "layer") -> Tensor:
    """`PatchMerger.forward`."""
    module = f"{_ROOT}.{name}"
    given = reshape(layer_norm(step, hidden_states, f"{module}.ln_q", kind), ("mq", "mt"))
    x = linear_layer(step, given, f"{module}.mlp.0")
    with step.tape.at(f"{module}.mlp.1"):
        x = ACTIVATIONS["gelu"](x)
    return linear_layer(step, x, f"{module}.mlp.2")


def _qwen2_tower(step: Step, hidden_states: Tensor) -> Features:
    """`Qwen2VisionTransformerPretrainedModel.forward`."""
    with step.tape.at(_ROOT):
        step.begin("vision embedding")
        position_ids = _vision_position_ids(step)
        hidden_states = _patch_embed(step, hidden_states)
        cos, sin = _rotary(step, position_ids)
        given = [step.ended(hidden_states, "vision embedding")]
        del hidden_states
        found = run_layers(step, 0, given, context_of(step), cos, sin)
        hidden_states = found.last
        step.begin("projector")
        found.pooled = _merged(step, hidden_states)
        return found


def _qwen2_5_tower(step: Step, hidden_states: Tensor) -> Features:
    """`Qwen2_5_VisionTransformerPretrainedModel.forward`: merged patches are put in the order of windows and back."""
    with step.tape.at(_ROOT):
        step.begin("vision embedding")
        position_ids = _vision_position_ids(step)
        hidden_states = _patch_embed(step, hidden_states)
        hidden_states = _permuted(step, hidden_states)
        position_embeddings = _rotary(step, position_ids)
        cos, sin = (_permuted(step, each) for each in position_embeddings)
        del position_embeddings
        given = [step.ended(hidden_states, "vision embedding")]
        del hidden_states
        found = run_layers(step, 0, given, context_of(step), cos, sin)
        hidden_states = found.last
        step.begin("projector")
        merged_hidden_states = _merged(step, hidden_states, kind="rms")
        found.pooled = take(merged_hidden_states, _window_index(step), 1)
        return found


def _window_index(step: Step) -> Tensor:
    """Made on the host (vision_utils.py, get_vision_window_index), and saved there."""
    return buffer(step.tape, ("mq",), "int64")


def _permuted(step: Step, x: Tensor) -> Tensor:
    """`permute_input_for_window_attn`."""
    width = x.shape[-1]
    x = reshape(x, ("mq", Quotient(("mt",), "ht"), width))
    x = take(x, _window_index(step), 2)
    return reshape(x, ("nq", width))


def qwen3_vl(step: Step, batch: Batch, embed: Embed) -> DecoderInputs:
    """`Qwen3VLModel.forward` up to its language model."""
    inputs_embeds = embed()
    with step.tape.at("model"):
        vision_outputs = image_features(step, batch.images["pixel_values"])
        image_embeds = to(rejoined(vision_outputs.merged, ("mq", "h")), inputs_embeds.dtype)
        image_mask = placeholder_mask(step, batch.tokens)
        inputs_embeds = put_among(step, inputs_embeds, image_mask, image_embeds)
        deepstack_visual_embeds = [rejoined(each, ("mq", "h")) for each in vision_outputs.deep]
        position_ids = multimodal_positions(step)
    visual_pos_masks = Tensor(image_mask.tape, image_mask.storage, batch.tokens.shape, "bool")
    return DecoderInputs(
        inputs_embeds,
        held=(vision_outputs, image_embeds),
        positions=position_ids,
        deep=deepstack_visual_embeds,
        mask=visual_pos_masks,
    )


def _qwen3_tower(step: Step, hidden_states: Tensor) -> Features:
    """`Qwen3VLVisionModel.forward`: results of some layers are merged on their own, for the decoder's first layers."""
    deep = len(step.recipe.network.towers[0].taps) - 1

    def tap(number: int, hidden_states: Tensor) -> Tensor:
        if number == deep:
            return hidden_states
        step.begin("projector")
        merged = _qwen3_merged(step, hidden_states, f"deepstack_merger_list.{number}", after=True)
        return step.ended(merged, "projector")

    with step.tape.at(_ROOT):
        step.begin("vision embedding")
        interp_indices, interp_weights = taps_and_weights(step)
        position_ids = _vision_position_ids(step)
        hidden_states = _patch_embed(step, hidden_states)
        pos_embeds = interpolated(step, f"{_ROOT}.pos_embed", interp_indices, interp_weights)
        hidden_states = add(hidden_states, to(pos_embeds, hidden_states.dtype))
        cos, sin = _rotary(step, position_ids)
        given = [step.ended(hidden_states, "vision embedding")]
        del hidden_states
        found = run_layers(step, 0, given, context_of(step), cos, sin, tap=tap)
        step.begin("projector")
        found.deep = found.taps[:deep]
        found.pooled = _qwen3_merged(step, found.last, "merger")
        return found


def _qwen3_merged(step: Step, x: Tensor, name: str, *, after: bool = False) -> Tensor:
    """`Qwen3VLVisionPatchMerger.forward`, with its norm before or after patches are merged."""
    module = f"{_ROOT}.{name}"
    if after:
        x = layer_norm(step, reshape(x, ("mq", "mt")), f"{module}.norm")
    else:
        x = reshape(layer_norm(step, x, f"{module}.norm"), ("mq", "mt"))
    hidden_states = linear_layer(step, x, f"{module}.linear_fc1")
    with step.tape.at(f"{module}.act_fn"):
        hidden_states = ACTIVATIONS["gelu"](hidden_states)
    return linear_layer(step, hidden_states, f"{module}.linear_fc2")


_TOWERS = {"qwen3_vl": _qwen3_tower, "qwen2_vl": _qwen2_tower, "qwen2_5_vl": _qwen2_5_tower}
