"""What a model of transformers does before its layers: embeddings, positions, masks and tables.

Local variables that live as long as the model's forward pass do are part of `LayerInputs`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memcore.layers.transformers.alibi import bloom_alibi, falcon_alibi, falcon_mask, mpt_alibi
from memcore.layers.transformers.context import leaf, project
from memcore.layers.transformers.embeddings import LayerInputs, arange, embed, scaled_by_buffer
from memcore.layers.transformers.gemma_embeddings import GEMMA_FINISHES, gemma3n, gemma4
from memcore.layers.transformers.masks import attention_masks, unused_masks
from memcore.layers.transformers.norms import norm
from memcore.layers.transformers.rotary import rotary_tables
from memcore.layers.transformers.signals import signals
from memcore.layers.transformers.streams import end_streams, start_streams
from memcore.layers.transformers.vision.models import see
from memcore.networks.parts import Attention
from memcore.networks.weights import Weight
from memcore.tensors.basics import clone, like, new, to
from memcore.tensors.operations import add, dropout, embedding, scale
from memcore.tensors.tensor import Tensor
from memcore.trace.step import Batch, Step


def _embed_positions(step: Step, positions: Tensor, table: Weight) -> Tensor:
    with positions.tape.module(leaf(table.name.removesuffix(".weight"))):
        return embedding(positions, step.weights[table.name])


def _decoder(step: Step, batch: Batch) -> tuple[Tensor, LayerInputs]:
    """Llama and most others; learned positions are added before the mask is made (GPT-2)."""
    embedding_and_head = step.recipe.network.embedding_and_head
    seen = see(step, batch, lambda: embed(step, batch.tokens))
    inputs_embeds = seen.embeds
    if embedding_and_head.embedding_multiplied:
        inputs_embeds = seen.embeds = scale(inputs_embeds)
    position_ids = arange(step) if batch.positions is None else batch.positions
    hidden_states, kept = inputs_embeds, []
    if embedding_and_head.positions is not None:
        kept.append(_embed_positions(step, position_ids, embedding_and_head.positions))
        hidden_states = add(inputs_embeds, kept[-1])
    masks = seen.masks or attention_masks(step, batch, inputs_embeds.dtype)
    if embedding_and_head.start == "qwen2_moe":
        masks = {**unused_masks(step, batch, inputs_embeds.dtype, masks), **masks}
    hidden_states = dropout(hidden_states, embedding_and_head.embedding_dropout)
    if embedding_and_head.start == "phi":
        # What was dropped goes by the name of the embeddings from here on.
        inputs_embeds = seen.embeds = hidden_states
    tables = rotary_tables(step, hidden_states.dtype)
    return hidden_states, LayerInputs(position_ids, masks, tables, kept=tuple(kept), seen=seen)


def _masks_first(step: Step, batch: Batch) -> tuple[Tensor, LayerInputs]:
    """GPT-Neo and GPT-BigCode: positions come after the mask."""
    embedding_and_head = step.recipe.network.embedding_and_head
    inputs_embeds = embed(step, batch.tokens)
    position_ids = arange(step)
    masks = attention_masks(step, batch, inputs_embeds.dtype)
    kept = [inputs_embeds]
    hidden_states = inputs_embeds
    if embedding_and_head.positions is not None:
        kept.append(_embed_positions(step, position_ids, embedding_and_head.positions))
        hidden_states = add(inputs_embeds, kept[-1])
    hidden_states = dropout(hidden_states, embedding_and_head.embedding_dropout)
    return hidden_states, LayerInputs(position_ids, masks, {}, kept=tuple(kept))


def _opt(step: Step, batch: Batch) -> tuple[Tensor, LayerInputs]:
    """Positions are counted along a mask, which is made if there is none."""
    tape, embedding_and_head = step.tape, step.recipe.network.embedding_and_head
    inputs_embeds = embed(step, batch.tokens)
    position_mask = new(tape, ("b", "s"), "fp32", "position_ids") if batch.mask is None else batch.mask
    position_ids = _positions_along(position_mask)
    masks = attention_masks(step, batch, inputs_embeds.dtype)
    if embedding_and_head.positions is None:
        raise TypeError(embedding_and_head)
    pos_embeds = _opt_positions(step, position_ids, embedding_and_head.positions)
    if embedding_and_head.project_in is not None:
        inputs_embeds = project(inputs_embeds, step.weights, embedding_and_head.project_in)
    hidden_states = add(inputs_embeds, pos_embeds)
    return hidden_states, LayerInputs(position_ids, masks, {}, kept=(inputs_embeds, position_mask, pos_embeds))


def _positions_along(mask: Tensor) -> Tensor:
    position_ids = like(mask, "position_ids")
    return to(like(like(position_ids, "position_ids"), "position_ids"), "int64")


def _opt_positions(step: Step, position_ids: Tensor, table: Weight) -> Tensor:
    with step.tape.module(leaf(table.name.removesuffix(".weight"))):
        return embedding(like(position_ids, "position_ids"), step.weights[table.name])


def _bloom(step: Step, batch: Batch) -> tuple[Tensor, LayerInputs]:
    embedding_and_head = step.recipe.network.embedding_and_head
    inputs_embeds = embed(step, batch.tokens)
    if embedding_and_head.embedding_norm is None:
        raise TypeError(embedding_and_head)
    hidden_states = norm(inputs_embeds, step.weights, embedding_and_head.embedding_norm)
    alibi, *kept = bloom_alibi(step, batch, hidden_states.dtype)
    masks = attention_masks(step, batch, inputs_embeds.dtype)
    return hidden_states, LayerInputs(None, masks, {}, alibi, (inputs_embeds, *kept))


def _falcon(step: Step, batch: Batch) -> tuple[Tensor, LayerInputs]:
    """Falcon always makes a mask; it takes in the bias, if there is one."""
    inputs_embeds = embed(step, batch.tokens)
    biased = any(isinstance(mixer, Attention) and mixer.biased for mixer in step.recipe.network.kinds[0].mixers)
    biases = falcon_alibi(step, batch, inputs_embeds.dtype) if biased else ()
    position_ids = arange(step)
    masks = attention_masks(step, batch, inputs_embeds.dtype, always=True)
    if biases:
        masks["full"] = falcon_mask(masks, biases[0])
    tables = rotary_tables(step, inputs_embeds.dtype)
    alibi = biases[0] if biases else None
    return inputs_embeds, LayerInputs(position_ids, masks, tables, alibi, (inputs_embeds, *biases))


def _mpt(step: Step, batch: Batch) -> tuple[Tensor, LayerInputs]:
    inputs_embeds = embed(step, batch.tokens)
    alibi = mpt_alibi(step)
    masks = attention_masks(step, batch, inputs_embeds.dtype)
    masks = {kind: None if mask is None else to(mask, "bool") for kind, mask in masks.items()}
    return inputs_embeds, LayerInputs(None, masks, {}, alibi, (inputs_embeds,))


def _recurrent_gemma(step: Step, batch: Batch) -> tuple[Tensor, LayerInputs]:
    """The model scales embeddings by a buffer in bf16; every attention layer makes a table of its own."""
    inputs_embeds = embed(step, batch.tokens, scales=False)
    position_ids = arange(step)
    masks = attention_masks(step, batch, inputs_embeds.dtype)
    hidden_states = inputs_embeds
    if step.recipe.network.embedding_and_head.reads_tokens:
        hidden_states = scaled_by_buffer(hidden_states, "bf16")
    return hidden_states, LayerInputs(position_ids, masks, {}, kept=(inputs_embeds,))


def _zamba2(step: Step, batch: Batch) -> tuple[Tensor, LayerInputs]:
    """Every layer also sees a copy of the embeddings."""
    inputs_embeds = embed(step, batch.tokens)
    original_hidden_states = clone(inputs_embeds)
    position_ids = arange(step)
    masks = attention_masks(step, batch, inputs_embeds.dtype)
    tables = rotary_tables(step, inputs_embeds.dtype)
    kept = (inputs_embeds,)
    return inputs_embeds, LayerInputs(position_ids, masks, tables, kept=kept, original=original_hidden_states)


STARTS: Mapping[str, Callable[[Step, Batch], tuple[Tensor, LayerInputs]]] = {
    "decoder": _decoder,
    "phi": _decoder,
    "qwen2_moe": _decoder,
    "masks-first": _masks_first,
    "opt": _opt,
    "bloom": _bloom,
    "falcon": _falcon,
    "mpt": _mpt,
    "recurrent_gemma": _recurrent_gemma,
    "zamba2": _zamba2,
    "deepseek_v4": start_streams,
    "gemma3n": gemma3n,
    "gemma4": gemma4,
    "signals": signals,
}
"""By `EmbeddingAndHead.start`: hidden states, and what the layers are given."""

FINISHES: Mapping[str, Callable[[Step, Tensor, LayerInputs], Tensor]] = {"deepseek_v4": end_streams, **GEMMA_FINISHES}
"""What comes between the layers and the final norm, by `EmbeddingAndHead.start`."""
