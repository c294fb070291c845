"""A causal language model of Hugging Face transformers 5.23 around its layers (`modeling_*.py`, `masking_utils.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from memcore.eager.basics import like, new
from memcore.eager.operations import add, dropout, embedding, scale, tanh
from memcore.eager.tensor import Tensor
from memcore.layers.losses import causal_lm_loss, chunked_loss
from memcore.layers.transformers.context import Context, leaf, project
from memcore.layers.transformers.masks import attention_masks, mask_of
from memcore.layers.transformers.norms import norm
from memcore.layers.transformers.rotary import rotary_kind, rotary_tables, rotary_width
from memcore.layers.transformers.wiring import decoder_layer
from memcore.model.network import Network
from memcore.step.recipe import Buffer
from memcore.step.step import Batch, Slot, Step
from memcore.symbols import half


def buffers(network: Network) -> Sequence[Buffer]:
    """Rotary frequencies, twice (`inv_freq`, `original_inv_freq`), and the scale of Gemma's embedding."""
    kind, path = rotary_kind(network), network.path.partition(".")[0]
    found = []
    if kind != "none":
        width = half(rotary_width(kind))
        names = (f"{path}.rotary_emb.{name}" for name in ("inv_freq", "original_inv_freq"))
        found += [Buffer(rule="rotary_frequencies", module=name, shape=(width,), dtype="fp32") for name in names]
    if network.ends.embedding_scaled:
        module = f"{network.ends.embedding.name.removesuffix('.weight')}.embed_scale"
        found.append(Buffer(rule="embedding_scale", module=module, shape=(), dtype="fp32"))
    return found


def forward(step: Step, batch: Batch) -> tuple[Tensor, Tensor | None]:
    """The loss of one micro-batch, and the logits that the model's output object holds."""
    loss = step.recipe.loss
    if loss.shifts_labels:
        return _model_with_loss(step, batch)
    logits = _model(step, batch)
    return causal_lm_loss(logits, batch.labels, loss), logits


def _model_with_loss(step: Step, batch: Batch) -> tuple[Tensor, Tensor | None]:
    """`ForCausalLM.forward(input_ids, labels=...)`: the loss is part of the model."""
    recipe = step.recipe
    step.enter("root", batch.tokens)
    hidden_states = _decoder(step, batch)
    step.loss_begins(hidden_states)
    if recipe.loss.kind == "chunked":
        step.forget_cache()
        loss = chunked_loss(hidden_states, batch.labels, lambda chunk: _head(step, chunk), recipe.loss)
        return step.leave("root", loss), None
    logits = _head(step, hidden_states)
    loss = causal_lm_loss(logits, batch.labels, recipe.loss)
    return step.leave("root", loss), logits


def _model(step: Step, batch: Batch) -> Tensor:
    """`ForCausalLM.forward(input_ids)`."""
    step.enter("root", batch.tokens)
    hidden_states = _decoder(step, batch)
    step.loss_begins(hidden_states)
    logits = _head(step, hidden_states)
    return step.leave("root", logits)


def _head(step: Step, hidden_states: Tensor) -> Tensor:
    ends = step.recipe.network.ends
    logits = project(hidden_states, step.weights, ends.head)
    logits = step.leave("head", logits)
    if ends.head_softcap:
        logits = scale(logits, "div")
        logits = tanh(logits)
        logits = scale(logits)
    return logits


def _decoder(step: Step, batch: Batch) -> Tensor:
    """`Model.forward`: everything up to the final norm."""
    network, tape = step.recipe.network, step.tape
    ends = network.ends
    with tape.at(network.path.partition(".")[0]):
        inputs_embeds = _embed(step, batch.tokens)
        position_ids = like(new(tape, ("s",), "int64", "position_ids"), "position_ids")
        hidden_states = inputs_embeds
        if ends.positions is not None:
            with tape.module("wpe"):
                position_embeds = embedding(position_ids, step.weights[ends.positions.name])
            hidden_states = add(inputs_embeds, position_embeds)
        masks = attention_masks(step, batch, inputs_embeds.dtype)
        hidden_states = dropout(hidden_states, ends.embedding_dropout)
        rotary = rotary_tables(step, hidden_states.dtype)
        cache = step.cache if step.recipe.use_cache else None
        contexts = {
            kind: Context(position_ids, step.recipe.attention, rotary, mask, cache)
            for kind, mask in masks.items()
        }
        for slot in step.slots:
            # A checkpoint holds on to its layer's arguments, so a mask goes when the last layer that uses it is done.
            run = partial(_run_layer, contexts[mask_of(slot.layer)])
            hidden_states = step.layer(slot, run, hidden_states)
        step.after_layers()
        hidden_states = step.enter("head", hidden_states)
        return norm(hidden_states, step.weights, ends.final_norm)


def _run_layer(context: Context, slot: Slot, hidden_states: Tensor) -> Tensor:
    return decoder_layer(hidden_states, slot.weights, slot.layer, context)


def _embed(step: Step, tokens: Tensor) -> Tensor:
    ends = step.recipe.network.ends
    with tokens.tape.module(leaf(ends.embedding.name.removesuffix(".weight"))):
        tokens = step.enter("embedding", tokens)
        embedded = embedding(tokens, step.weights[ends.embedding.name])
        if ends.embedding_scaled:
            embedded = scale(embedded)
        embedded = step.leave("embedding", embedded)
        step.embedded(embedded)
        return embedded
