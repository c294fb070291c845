"""Gemma 3n and 4 around their layers: embeddings of each layer, and several copies of the hidden states."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from memcore.layers.transformers.context import leaf
from memcore.layers.transformers.embeddings import LayerInputs, arange, embed, scaled_by_buffer
from memcore.layers.transformers.masks import attention_masks
from memcore.layers.transformers.norms import norm
from memcore.layers.transformers.rotary import rotary_tables
from memcore.networks.weights import Norm
from memcore.tensors.arithmetic import divide
from memcore.tensors.autograd import attach, save, tracked
from memcore.tensors.basics import like, only, to, view
from memcore.tensors.moments import mean_of_first
from memcore.tensors.operations import add, embedding, linear, mean, mul, power, scale, sqrt
from memcore.tensors.reshaping import select, stack
from memcore.tensors.running import clamp
from memcore.tensors.tensor import Parameter, Tensor
from memcore.trace.step import Batch, Step

_TABLE = "embed_tokens_per_layer"
_PROJECTION = "per_layer_model_projection"
_NORM = "per_layer_projection_norm"


def gemma4(step: Step, batch: Batch) -> tuple[Tensor, LayerInputs]:
    """`Gemma4TextModel.forward` up to its layers."""
    inputs_embeds = embed(step, batch.tokens)
    per_layer_inputs = None
    if _has(step, _TABLE):
        per_layer_inputs = _embed_per_layer(step, batch.tokens)
        per_layer_inputs = _combined(step, inputs_embeds, per_layer_inputs)
    position_ids = arange(step)
    masks = attention_masks(step, batch, inputs_embeds.dtype)
    tables = rotary_tables(step, inputs_embeds.dtype)
    return inputs_embeds, LayerInputs(position_ids, masks, tables, kept=(inputs_embeds,), per_layer=per_layer_inputs)


def _has(step: Step, module: str) -> bool:
    return any(
        leaf(each.name.removesuffix(".weight")) == module for each in step.recipe.network.embedding_and_head.others
    )


def _weight(step: Step, module: str) -> Parameter:
    """Return the matrix of a module outside the layers, whatever its path."""
    names = (each.name for each in step.recipe.network.embedding_and_head.others)
    return step.weights[next(name for name in names if name.endswith(f"{module}.weight"))]


def _embed_per_layer(step: Step, tokens: Tensor) -> Tensor:
    with step.tape.module(_TABLE):
        embedded = embedding(tokens, _weight(step, _TABLE))
        return scaled_by_buffer(embedded, step.recipe.precision.parameter)


def _combined(step: Step, inputs_embeds: Tensor, per_layer_inputs: Tensor) -> Tensor:
    """`project_per_layer_inputs`."""
    per_layer_projection = scale(_projected(step, inputs_embeds))
    per_layer_projection = _normed(step, per_layer_projection)
    return scale(add(per_layer_projection, per_layer_inputs))


def _combined_in_place(step: Step, inputs_embeds: Tensor, per_layer_inputs: Tensor) -> Tensor:
    """Combine embeddings in place as Gemma 3n does, whose scales are buffers."""
    stored = step.recipe.precision.parameter
    scale_buffer = to(Tensor(step.tape, None, (), stored), inputs_embeds.dtype)
    per_layer_projection = _mul_(_projected(step, inputs_embeds), scale_buffer)
    del scale_buffer
    per_layer_projection = _normed(step, per_layer_projection)
    return scaled_by_buffer(add(per_layer_projection, per_layer_inputs), stored)


def _projected(step: Step, inputs_embeds: Tensor) -> Tensor:
    with step.tape.module(_PROJECTION):
        return linear(inputs_embeds, _weight(step, _PROJECTION))


def _normed(step: Step, per_layer_projection: Tensor) -> Tensor:
    weights = {f"{_NORM}.weight": _weight(step, _NORM)}
    return norm(per_layer_projection, weights, Norm(_NORM, "rms-power", ("pl",)))


def gemma3n(step: Step, batch: Batch) -> tuple[Tensor, LayerInputs]:
    """`Gemma3nTextModel.forward` up to its layers: the hidden states are several copies, stacked."""
    inputs_embeds = embed(step, batch.tokens)
    per_layer_inputs = _embed_per_layer(step, _within_table(batch.tokens))
    per_layer_inputs = _combined_in_place(step, inputs_embeds, per_layer_inputs)
    position_ids = arange(step)
    masks = attention_masks(step, batch, inputs_embeds.dtype)
    target_magnitude = _magnitude(inputs_embeds)
    held, altup_proj = [inputs_embeds], inputs_embeds
    for name in _projections(step, "altup_projections"):
        altup_proj = _copy(step, inputs_embeds, name)
        held.append(_rescaled(to(altup_proj, inputs_embeds.dtype), target_magnitude))
    hidden_states = stack(held, 0, "na")
    tables = rotary_tables(step, hidden_states.dtype)
    kept = (inputs_embeds, target_magnitude, altup_proj)
    return hidden_states, LayerInputs(position_ids, masks, tables, kept=kept, held=held, per_layer=per_layer_inputs)


def _within_table(tokens: Tensor) -> Tensor:
    """Tokens outside the layers' vocabulary count as the first."""
    at_least, below = like(tokens, "greater", "bool"), like(tokens, "greater", "bool")
    in_table = like(tokens, "greater", "bool")
    del at_least, below
    found = like(tokens, "where")
    del in_table
    return found


def _mul_(x: Tensor, factor: Tensor) -> Tensor:
    """`x *= factor`, of one element and without a gradient."""
    saved = save(x.tape, factor) if tracked(x) else []
    out = view(x, x.shape, x.order)
    if tracked(x):
        attach([out], [x], saved, lambda g, s: [like(only(g), "mul_backward")])
    return out


def _magnitude(x: Tensor) -> Tensor:
    return power(mean(power(x)))


def _projections(step: Step, module: str) -> Iterator[str]:
    """Yield the matrices of a list of modules."""
    for each in step.recipe.network.embedding_and_head.others:
        if f"{module}." in each.name:
            yield each.name


def _copy(step: Step, x: Tensor, name: str) -> Tensor:
    """One more copy of the hidden states, or back from it."""
    with step.tape.module(name.split(".", 1)[1].removesuffix(".weight")):
        return linear(x, step.weights[name])


def _rescaled(current_hidden_state: Tensor, target_magnitude: Tensor) -> Tensor:
    new_magnitude = mean(power(current_hidden_state))
    new_magnitude = sqrt(clamp(new_magnitude, bounds=1))
    return divide(mul(current_hidden_state, target_magnitude), new_magnitude)


def _gemma3n_end(step: Step, hidden_states: Tensor, start: LayerInputs) -> Tensor:
    """From several copies to one: their mean."""
    target_magnitude = _magnitude(select(hidden_states, 0))
    dtype, altup_unemb_proj, current_hidden_state = start.held[0].dtype, hidden_states, start.held[-1]
    start.held[:] = [select(hidden_states, 0)]
    for name in _projections(step, "altup_unembed_projections"):
        altup_unemb_proj = _copy(step, select(hidden_states, 0), name)
        current_hidden_state = to(altup_unemb_proj, dtype)
        current_hidden_state = _rescaled(current_hidden_state, target_magnitude)
        start.held.append(current_hidden_state)
    hidden_states = stack(start.held, 0, "na")
    start.held.append(altup_unemb_proj)
    return mean_of_first(hidden_states)


GEMMA_FINISHES: Mapping[str, Callable[[Step, Tensor, LayerInputs], Tensor]] = {"gemma3n": _gemma3n_end}
"""What comes between the layers and the final norm, by `Ends.start`."""
