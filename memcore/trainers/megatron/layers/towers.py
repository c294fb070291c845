"""What a model with a vision tower makes of its inputs before Megatron-Core's layers run.

Sources: Megatron-Bridge, models/qwen_vl/{modeling_qwen25_vl,modelling_qwen3_vl/{model,text_model,utils}}.py; for
ms-swift mcore-bridge, model/mm_gpt_model.py and mm_gpts/{internvl,qwen,qwen3_vl,utils}.py; Megatron-LM, core/models/
common/embeddings/rotary_pos_embedding.py (MultimodalRotaryEmbedding) and core/transformer/module.py (Float16Module).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from memcore.layers.transformers.vision import internvl
from memcore.layers.transformers.vision.decoder_inputs import placeholder_mask, put_among
from memcore.layers.transformers.vision.models import inputs
from memcore.layers.transformers.vision.places import multimodal_positions
from memcore.layers.transformers.vision.qwen import image_features, tower
from memcore.networks.network import Network
from memcore.networks.parts import Attention
from memcore.symbols import Axis, Quotient, Shape, Smaller, half, split_over
from memcore.tensors.autograd import attach, tracked
from memcore.tensors.basics import cat, clone, contiguous, new, only, permute, to, view
from memcore.tensors.images import put_rows, rejoined, rows_at
from memcore.tensors.operations import add
from memcore.tensors.tensor import Tensor
from memcore.trace.step import Batch, Step
from memcore.trainers.megatron.layers.embedding import embedded
from memcore.trainers.megatron.layers.linear import part_of
from memcore.trainers.megatron.layers.vision import qwen3_tower
from memcore.trainers.megatron.networks.towers import DIVIDED_VARIANTS, MULTIMODAL
from memcore.trainers.megatron.step_plan import MegatronPlan

_SEEN = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "internvl", *DIVIDED_VARIANTS)
"""Towers that are supported with images, by `Tower.variant`."""
_OWN_ROWS = Smaller("mq", Quotient(("b", "s"), "tp"))
"""Tokens of images, on the rank that has most of them under sequence parallelism."""


def sees(network: Network) -> bool:
    """Return whether the network's handling of images is supported."""
    return bool(network.towers) and network.towers[0].variant in _SEEN


def rotates(network: Network) -> bool:
    """Return whether every micro-batch has angles of its own."""
    return any(isinstance(layer.mixer, Attention) and layer.mixer.rotary == MULTIMODAL for layer in network.kinds)


def embedded_with_images(step: Step, batch: Batch, how: MegatronPlan) -> tuple[Tensor, list[Tensor]]:
    """Embedded tokens with images among them, (s, b, h); under sequence parallelism this rank's.

    And where images are, and what is added to them after each of the first layers, if there is something.
    """
    network = step.recipe.network
    if how.images == "swift":
        seen: list[Tensor] = []
        among = partial(_swift, step, batch, seen)
        return embedded(batch.tokens, None, network.embedding_and_head, step.weights, how, among=among), seen
    if network.towers and network.towers[0].variant in DIVIDED_VARIANTS:
        return _bridge_qwen3(step, batch, how)
    return _bridge(step, batch, how), []


def _swift(step: Step, batch: Batch, seen: list[Tensor], x: Tensor) -> Tensor:
    """`get_inputs_embeds`, inside of the embedding of words; x: (b, s, h). The tower is frozen.

    `seen`: for where images are, and what the first layers add there, slices of one tensor.
    """
    towers, how = step.recipe.network.towers, step.recipe.plan(MegatronPlan)
    if step.recipe.pictures is None or not towers or how is None:
        return x
    features = (internvl.image_features if towers[0].variant == "internvl" else tower)(step, _pixels(step))
    mask = placeholder_mask(step, batch.tokens)
    x = put_among(step, x, mask, to(features.merged, x.dtype))
    if features.deep:
        every = new(step.tape, (len(features.deep), "mq", "h"), x.dtype, "stack")
        shape = (_OWN_ROWS if how.sequence else "mq", "h")
        places = new(step.tape, ("b", "s"), "bool", "placeholder_mask")
        seen.append(view(places, (split_over("s") if how.sequence else "s", "b")))
        seen += [view(every, shape) for _ in features.deep]
    return x


def _bridge(step: Step, batch: Batch, how: MegatronPlan) -> Tensor:
    """`Qwen25VLModel.forward` up to its decoder: all tokens, of which a rank has a view then if they lie in order."""
    x = embedded(batch.tokens, None, step.recipe.network.embedding_and_head, step.weights, replace(how, sequence=False))
    x = contiguous(permute(x, 1, 0, 2))
    image_embeds = mask = None
    if step.recipe.pictures is not None and step.recipe.network.towers:
        image_embeds = to(rejoined(image_features(step, _pixels(step)).merged, ("mq", "h")), x.dtype)
        mask = placeholder_mask(step, batch.tokens)
        x = put_among(step, x, mask, image_embeds)
    x = permute(x, 1, 0, 2)
    x = contiguous(part_of(x)) if how.sequence else x
    del image_embeds, mask
    return x


def _bridge_qwen3(step: Step, batch: Batch, how: MegatronPlan) -> tuple[Tensor, list[Tensor]]:
    """`Qwen3VLModel.forward` up to its decoder: the tower runs before words are embedded.

    Context-parallel ranks run it over all images and embed all tokens, of which they then copy their part.
    """
    embedding_and_head, tape, tokens = step.recipe.network.embedding_and_head, step.tape, batch.tokens
    every: Axis = "s"
    if how.context is not None:
        every = Quotient(("cp", "s"), 1)
        tokens = new(tape, ("b", every), "int64", "inputs")
    mask, deep, vision_embeds = None, list[Tensor](), None
    if step.recipe.pictures is not None:
        mask = new(tape, ("b", every), "bool", "placeholder_mask")
        vision_embeds, deep = qwen3_tower(step, how, _pixels(step))
    x = clone(embedded(tokens, None, embedding_and_head, step.weights, replace(how, sequence=False)))
    if mask is not None and vision_embeds is not None:
        x = put_rows(contiguous(permute(x, 1, 0, 2)), mask, vision_embeds)
        x = step.ended(contiguous(permute(x, 1, 0, 2)), "projector")
        step.begin("positions and masks")
    if how.context is not None:
        x = _selected(x, ("s", *x.shape[1:]), "index")
    x = contiguous(part_of(x)) if how.sequence else x
    if mask is not None and (how.sequence or how.context is not None):
        rows = _OWN_ROWS if how.sequence else Smaller("mq", Quotient(("b", "s"), 1))
        deep = [_selected(each, (rows, *each.shape[1:]), "cat") for each in deep]
        mask = new(tape, ("b", split_over("s") if how.sequence else "s"), "bool", "placeholder_mask")
    return x, [] if mask is None else [mask, *deep]


def _selected(x: Tensor, shape: Shape, rule: str) -> Tensor:
    """Return a copy of a rank's part, whose gradient is put into zeros of the full size.

    Of features (`split_deepstack_embs`) that is what the rank has that has most tokens of images.
    """
    tape, full = x.tape, x.shape
    out = new(tape, shape, x.dtype, rule)
    if tracked(x):
        attach([out], [x], [], lambda g, s: [new(tape, full, only(g).dtype, "slice_backward")])
    return out


def deepened(x: Tensor, mask: Tensor, features: Tensor, how: MegatronPlan) -> Tensor:
    """`_deepstack_process`: what inner layers of the tower saw is added to the tokens of images."""
    if how.images == "bridge":
        x = contiguous(permute(x, 1, 0, 2))
    x = put_rows(x, mask, add(clone(rows_at(x, mask, features.shape[:1])), features))
    return contiguous(permute(x, 1, 0, 2)) if how.images == "bridge" else x


def _pixels(step: Step) -> Tensor:
    """The pixels of the batch, and a copy in the model's dtype that the whole model is given (`fp32_to_float16`)."""
    return to(inputs(step)["pixel_values"], step.recipe.precision.compute)


def frequencies(step: Step) -> Tensor:
    """Angles of all tokens in fp32, (s, b, 1, d): they stay while the forward pass runs."""
    position_ids = _position_ids(step)
    tape = step.tape
    width = next(layer.mixer.heads.rotated for layer in step.recipe.network.kinds if isinstance(layer.mixer, Attention))
    with tape.at("rotary_pos_emb"), tape.no_grad():
        seq = to(position_ids, "fp32")
        freqs = permute(new(tape, (3, "b", half(width), "s"), "fp32", "rotary"), 0, 1, 3, 2)
        emb = cat([freqs, freqs], (3, "b", "s", width))
        emb = new(tape, ("b", "s", width), "fp32", "cat")
        del seq, freqs
        emb = contiguous(permute(emb, 1, 0, 2))
        return Tensor(tape, emb.storage, ("s", "b", 1, width), "fp32")


def _position_ids(step: Step) -> Tensor:
    """`get_rope_index`, which runs on every stage."""
    if step.recipe.pictures is None:
        return Tensor(step.tape, new(step.tape, ("s",), "int64", "position_ids").storage, (3, "b", "s"), "int64")
    return multimodal_positions(step)
