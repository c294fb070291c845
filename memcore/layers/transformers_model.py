"""A causal language model of Hugging Face transformers 5.23 around its layers (`modeling_*.py`, `masking_utils.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from memcore.eager.basics import cat, elementwise, like, new, to
from memcore.eager.operations import add, dropout, embedding, scale, tanh
from memcore.eager.tape import Tape
from memcore.eager.tensor import Tensor
from memcore.layers.losses import causal_lm_loss, chunked_loss
from memcore.layers.transformers import Context, decoder_layer, leaf, norm, project
from memcore.model.network import Network
from memcore.step.recipe import Buffer
from memcore.step.step import Batch, Slot, Step
from memcore.symbols import Shape, half


def buffers(network: Network) -> Sequence[Buffer]:
    """Rotary frequencies, twice (`inv_freq`, `original_inv_freq`), and the scale of Gemma's embedding."""
    kind, path = network.runs[0][0].attention.rotary, network.path.partition(".")[0]
    found = []
    if kind != "none":
        width = half("d" if kind == "full" else "r")
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
        masks = _masks(step, batch, inputs_embeds.dtype)
        hidden_states = dropout(hidden_states, ends.embedding_dropout)
        rotary = _rotary(step, hidden_states.dtype)
        cache = step.cache if step.recipe.use_cache else None
        contexts = {
            sliding: Context(position_ids, step.recipe.attention, rotary, mask, cache)
            for sliding, mask in masks.items()
        }
        for slot in step.slots:
            # A checkpoint holds on to its layer's arguments, so a mask goes when the last layer that uses it is done.
            run = partial(_run_layer, contexts[slot.layer.attention.sliding])
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


def _rotary(step: Step, dtype: str) -> tuple[Tensor, Tensor] | None:
    """`RotaryEmbedding.forward`: cosines and sines for every position, computed in fp32, shared by all layers."""
    kind = step.recipe.network.runs[0][0].attention.rotary
    if kind == "none":
        return None
    tape, width = step.tape, "d" if kind == "full" else "r"
    with tape.module("rotary_emb"), tape.no_grad():
        freqs = new(tape, ("s", half(width)), "fp32", "rotary")
        emb = cat([freqs, freqs], ("s", width))
        cos = _scaled(like(emb, "rotary"))
        sin = _scaled(like(emb, "rotary"))
        return to(cos, dtype), to(sin, dtype)


def _scaled(x: Tensor) -> Tensor:
    return like(x, "rotary")


def _masks(step: Step, batch: Batch, dtype: str) -> dict[bool, Tensor | None]:
    """One mask for layers that see everything (False) and one for sliding layers (True), where needed."""
    kinds = {layer.attention.sliding for run in step.recipe.network.runs for layer in run}
    return {kind: _mask(step, batch, dtype, sliding=kind) for kind in sorted(kinds)}


def _mask(step: Step, batch: Batch, dtype: str, *, sliding: bool) -> Tensor | None:
    """The attention mask as `masking_utils.py` makes it.

    SDPA needs none for a causal layer without padding, unless the sequence is as long as the layer's window; flash
    attention never does; eager attention always adds one in the scores' dtype.
    """
    tape, kernel = step.tape, step.recipe.attention
    if kernel == "flash":
        return None
    if kernel != "math" and batch.mask is None and not (sliding and step.recipe.windowed):
        return None
    allowed = _allowed(tape, batch, sliding=sliding)
    return new(tape, ("b", 1, "s", "s"), dtype, "attention_mask") if kernel == "math" else allowed


def _allowed(tape: Tape, batch: Batch, *, sliding: bool) -> Tensor:
    """Where attention is allowed, `sdpa_mask`: the conditions are combined two at a time."""
    square: Shape = (1, 1, "s", "s")
    if not sliding and batch.mask is None:
        return new(tape, square, "bool", "attention_mask")
    conditions = [square, square] if sliding else [square]
    allowed = elementwise("attention_mask", new(tape, conditions[0], "bool", "attention_mask"))
    for shape in conditions[1:]:
        allowed = elementwise("attention_mask", allowed, new(tape, shape, "bool", "attention_mask"))
    if batch.mask is not None:
        padding = new(tape, ("b", 1, 1, "s"), "bool", "attention_mask")
        allowed = elementwise("attention_mask", allowed, padding)
    return allowed
