"""A causal language model of Hugging Face transformers 5.23 around its layers (`modeling_*.py`, `masking_utils.py`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from memcore.layers.cut_loss import cut_loss
from memcore.layers.fused_head import folded_log_probabilities, log_probabilities
from memcore.layers.fused_loss import fused_linear_loss
from memcore.layers.losses import causal_lm_loss, chunked_loss
from memcore.layers.objectives import objective_loss, summed, valued
from memcore.layers.tensor_parallel import headed
from memcore.layers.transformers.context import Context, project
from memcore.layers.transformers.decoder_layer import decoder_layer
from memcore.layers.transformers.embeddings import LayerInputs
from memcore.layers.transformers.masks import mask_of
from memcore.layers.transformers.model_inputs import FINISHES, STARTS
from memcore.layers.transformers.norms import norm
from memcore.layers.transformers.rotary import table_of
from memcore.layers.transformers.tokens import merged, trained_rows
from memcore.layers.transformers.vision import nearest
from memcore.layers.transformers.vision.models import sees
from memcore.networks.network import Layer
from memcore.symbols import Axis
from memcore.tensors.basics import narrow, to
from memcore.tensors.modes import Float8
from memcore.tensors.operations import linear, scale, tanh
from memcore.tensors.reshaping import select
from memcore.tensors.tensor import Parameter, Tensor
from memcore.trace.step import Batch, Slot, Step


def forward(step: Step, batch: Batch) -> tuple[Tensor, object]:
    """Return the loss of one micro-batch, and what the model's output object holds: logits, and features of images."""
    loss = step.recipe.loss
    if step.recipe.objective is not None:
        return objective_loss(step, batch, _outputs, _head)
    if not step.recipe.network.embedding_and_head.predicts:
        return _stage(step, batch)
    if loss.shifts_labels:
        return _model_with_loss(step, batch)
    logits, returned = _model(step, batch)
    return causal_lm_loss(logits, batch.labels, loss), (logits, returned)


def _model_with_loss(step: Step, batch: Batch) -> tuple[Tensor, object]:
    """`ForCausalLM.forward(input_ids, labels=...)`: the loss is part of the model."""
    recipe = step.recipe
    batch = _cast(step, batch)
    step.enter("root", batch.tokens)
    hidden_states, returned, around = _decoder(step, batch)
    step.loss_begins(hidden_states)
    if recipe.loss.kind == "chunked":
        step.forget_cache()
        loss = chunked_loss(hidden_states, batch.labels, lambda chunk: _head(step, chunk), recipe.loss)
        return step.leave("root", loss), returned
    if recipe.loss.kind == "fused-linear":
        step.forget_cache()
        loss = fused_linear_loss(
            hidden_states,
            _words(step),
            batch.labels,
            recipe.loss.chunks,
            in_place=recipe.loss.adds_in_place,
            apart=recipe.loss.chunks_apart,
        )
        return step.leave("root", loss), returned
    if recipe.loss.kind == "cut-cross-entropy":
        step.forget_cache()
        return step.leave("root", cut_loss(hidden_states, _words(step), batch.labels)), returned
    if recipe.loss.kind == "fused-head":
        step.forget_cache()
        with step.tape.at("loss"):
            head = _words(step)
            if recipe.loss.folds_words:
                found = folded_log_probabilities(hidden_states, head, whole=recipe.loss.folds_whole)
            else:
                found = log_probabilities(hidden_states, head)
            return step.leave("root", summed(found)), returned
    logits = _head(step, hidden_states)
    if around:
        # The model with the head returns to the one around it, which computes the loss.
        del hidden_states
    loss = causal_lm_loss(logits, batch.labels, recipe.loss)
    return step.leave("root", loss), (logits, returned)


def _words(step: Step) -> Parameter:
    """Return the head's matrix."""
    return step.weights[f"{step.recipe.network.embedding_and_head.head.name}.weight"]


def _stage(step: Step, batch: Batch) -> tuple[Tensor, object]:
    """Return a stage of a pipeline that is not the last one: hidden states for the next."""
    hidden_states, returned, _around = _decoder(step, replace(batch, tokens=step.enter("root", batch.tokens)))
    return step.leave("root", hidden_states), returned


def _model(step: Step, batch: Batch) -> tuple[Tensor, object]:
    """`ForCausalLM.forward(input_ids)`."""
    batch = _cast(step, batch)
    batch = replace(batch, tokens=step.enter("root", batch.tokens))
    hidden_states, returned, _around = _decoder(step, batch)
    step.loss_begins(hidden_states)
    logits = _head(step, hidden_states)
    return step.leave("root", logits), returned


def _outputs(step: Step, batch: Batch, tokens: Axis | None) -> Tensor:
    """Return the logits of `ForCausalLM.forward(input_ids, logits_to_keep=tokens)`; None: of all tokens.

    A value head's numbers take their place where they are all that is learned from (trl 0.9,
    models/modeling_value_head.py, which casts the logits to fp32). LLaMA-Factory's batches of pairs have labels, of
    which the model computes a loss that nobody wants (data/collator.py, `PairwiseDataCollatorWithPadding`;
    train/rm/trainer.py, `compute_loss`).
    """
    batch = _cast(step, batch)
    batch = replace(batch, tokens=step.enter("root", batch.tokens))
    hidden_states = _decoder(step, batch)[0]
    step.loss_begins(hidden_states)
    if tokens is not None:
        hidden_states = narrow(hidden_states, 1, tokens)
    if step.recipe.objective is not None and (step.recipe.objective.fused or _chunks(step)):
        return step.leave("root", hidden_states)
    if step.recipe.objective is not None and step.recipe.objective.tiled:
        with step.tape.at("loss"):
            return step.leave("root", log_probabilities(hidden_states, _words(step)))
    logits = _head(step, hidden_states)
    if step.recipe.objective is None or not step.recipe.objective.values:
        return step.leave("root", logits)
    if step.recipe.objective.proximal:
        upcast = to(logits, "fp32")
        step.values = valued(hidden_states)
        return step.leave("root", upcast)
    unused = causal_lm_loss(logits, batch.labels, step.recipe.loss)
    upcast = to(step.leave("root", logits).detach(), "fp32")
    found = valued(hidden_states)
    del upcast, unused
    return found


def _chunks(step: Step) -> bool:
    """Return whether the objective runs the head itself, chunk after chunk."""
    objective = step.recipe.objective
    return objective is not None and objective.distills and not objective.taught


def _cast(step: Step, batch: Batch) -> Batch:
    """Return the images as the root sees them."""
    return replace(batch, images={name: step.cast(each) for name, each in batch.images.items()})


def _head(step: Step, hidden_states: Tensor) -> Tensor:
    embedding_and_head = step.recipe.network.embedding_and_head
    if embedding_and_head.head_upcast:
        hidden_states = to(hidden_states, step.weights[f"{embedding_and_head.head.name}.weight"].dtype)
    if embedding_and_head.tied:  # torchtune's `TiedLinear` is no `nn.Linear`
        step.tape.rounds = False
    rows = trained_rows(step) if embedding_and_head.tied else None
    if rows is None:
        logits = headed(lambda x: project(x, step.weights, embedding_and_head.head), hidden_states)
    else:
        logits = linear(hidden_states, merged(step, rows))
    step.tape.rounds = step.recipe.rounds
    logits = step.leave("head", logits)
    if embedding_and_head.head_upcast or step.recipe.loss.model_upcasts:
        logits = to(logits, "fp32")
    if embedding_and_head.head_scaled:
        logits = scale(logits)
    if embedding_and_head.head_softcap and embedding_and_head.start == "recurrent_gemma":
        return scale(tanh(scale(logits, "div")))
    if embedding_and_head.head_softcap:
        logits = scale(logits, "div")
        logits = tanh(logits)
        logits = scale(logits)
    return logits


def _decoder(step: Step, batch: Batch) -> tuple[Tensor, Sequence[Tensor], Sequence[object]]:
    """`Model.forward`: everything up to the final norm.

    Also what its output object holds besides, and what is held around it until the model with a head returns.
    """
    network, embedding_and_head = step.recipe.network, step.recipe.network.embedding_and_head
    outputs: list[Tensor] = []
    shared: dict[str, tuple[Tensor, Tensor]] = {}
    with step.tape.at(network.path.rpartition(".")[0]):
        hidden_states, start = STARTS[embedding_and_head.start](step, batch)
        if embedding_and_head.reads_tokens and (step.recipe.pictures or network.encodes) and not sees(network):
            hidden_states = nearest.towers(step, batch, hidden_states)
        cache = step.cache if step.recipe.use_cache else None
        contexts = {
            layer: Context(
                positions=start.positions,
                kernel=step.recipe.attention,
                rotary=table_of(layer, start.tables),
                mask=start.masks[mask_of(layer)],
                cache=cache,
                caches_results=step.recipe.caches_results,
                bias=start.bias,
                padding=batch.mask,
                recurrence=step.recipe.recurrence,
                buffers=step.recipe.precision.parameter,
                shared=shared,
                outputs=outputs,
                pictures=step.recipe.pictures,
                ulysses=step.recipe.ulysses,
                mixture=step.recipe.mixture,
                ring_turns=step.recipe.ring_turns,
                ragged=step.recipe.ragged,
                heads_as=step.recipe.heads_as,
            ).given_too(start.seen.arguments if start.seen else {})
            for layer in network.kinds
        }
        for index, slot in enumerate(step.slots):
            # A checkpoint holds on to its layer's arguments, so a mask goes when the last layer that uses it is done.
            context = contexts[slot.layer]
            if context.seen is None and any(mixer.variant == "crossing" for mixer in slot.layer.mixers):
                continue
            context = _with_own(context, start, slot.layer, outputs)
            arguments = context.arguments
            run = _running(step, context, tuple(arguments))
            layer_outputs = step.layer(slot, run, hidden_states, *arguments.values())
            hidden_states = layer_outputs
            if start.seen:
                hidden_states = start.seen.after_layer(index, hidden_states)
            del context, arguments, run, outputs[:-1]
        step.after_layers()
        if embedding_and_head.predicts:
            if embedding_and_head.start in FINISHES:
                hidden_states = FINISHES[embedding_and_head.start](step, hidden_states, start)
            hidden_states = step.enter("head", hidden_states)
        if embedding_and_head.final_norm is not None:
            hidden_states = norm(hidden_states, step.weights, embedding_and_head.final_norm)
        if embedding_and_head.project_out is not None:
            hidden_states = project(hidden_states, step.weights, embedding_and_head.project_out)
        outputs.clear()
        return hidden_states, *((start.seen.returned, start.seen.around) if start.seen else ((), ()))


def _with_own(context: Context, start: LayerInputs, layer: Layer, outputs: Sequence[Tensor]) -> Context:
    """Return the context of one layer."""
    if start.original is not None:
        context = replace(context, own=start.original)
    if start.per_layer is not None:
        context = replace(context, own=select(start.per_layer, 2))
    if outputs and any(mixer.variant == "glm_moe_dsa" for mixer in layer.mixers):
        context = replace(context, chosen=outputs[-1])
    return context


def _running(step: Step, context: Context, arguments: tuple[str, ...]) -> Callable[..., Tensor]:
    """Return a layer given its context, whose linear layers may multiply in float8."""
    run = partial(_run_layer, context.without_arguments(), arguments, step.recipe.compiled)
    return run if step.recipe.float8 is None else partial(_multiplied, step.recipe.float8, run)


def _multiplied(float8: Float8, run: Callable[..., Tensor], slot: Slot, x: Tensor, *more: Tensor) -> Tensor:
    """Return a layer whose `nn.Linear` multiply in float8 (torchao, `convert_to_float8_training`)."""
    with x.tape.multiplying(float8):
        return run(slot, x, *more)


def _run_layer(
    context: Context, names: Sequence[str], compiled: bool, slot: Slot, hidden_states: Tensor, *arguments: Tensor
) -> Tensor:
    given = context.given(dict(zip(names, arguments, strict=True)))
    with hidden_states.tape.compiling(compiled):
        return decoder_layer(hidden_states, slot.weights, slot.layer, given)
