"""Towers that no code describes line by line, from the nearest parts: layers in the usual order over their positions.

How images become vectors, and what leads from the tower into the decoder, is not known: every parameter of these parts
gets its gradient, and features stand for the tokens of images.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from memcore.layers.transformers.context import Context
from memcore.layers.transformers.decoder_layer import decoder_layer
from memcore.layers.transformers.support import missing
from memcore.layers.transformers.vision.decoder_inputs import context_of, placeholder_mask, put_among
from memcore.networks.nearest import outside_layers, positions, width
from memcore.networks.network import Tower
from memcore.networks.weights import Weight
from memcore.tensors.basics import new, to
from memcore.tensors.operations import learned
from memcore.tensors.tensor import Tensor
from memcore.trace.step import Batch, Slot, Step


def inputs(step: Step) -> Mapping[str, Tensor]:
    """Return what the processor makes of images and sounds for each tower, in fp32: as wide as its layers."""
    towers = step.recipe.network.towers
    return {
        positions(place): new(step.tape, ("bi", positions(place), *_width(tower)), "fp32", "pixels")
        for place, tower in enumerate(towers)
    }


def _width(tower: Tower) -> tuple[str | int, ...]:
    found = width(tower)
    return tuple(each for each in found if isinstance(each, str | int)) if found else ("h",)


def towers(step: Step, batch: Batch, embeds: Tensor) -> Tensor:
    """Return the decoder's input with what towers make of their images or sounds."""
    network, dtype = step.recipe.network, step.recipe.precision.autocast or embeds.dtype
    rest = outside_layers(network)
    before = [weight for weight in rest if weight.kind != "projector"]
    for place in range(len(network.towers) if batch.images else 0):
        step.begin("vision embedding")
        x = to(batch.images[positions(place)], dtype)
        if not place:
            x = _learned(step, x, before)
        x = step.ended(x, "vision embedding")
        x = _layers(step, place, x)
        step.begin("projector")
        embeds = put_among(step, embeds, placeholder_mask(step, batch.tokens), to(x, embeds.dtype))
        del x
    left = rest if not (network.towers and batch.images) else [each for each in rest if each.kind == "projector"]
    return _learned(step, embeds, left)


def _layers(step: Step, place: int, x: Tensor) -> Tensor:
    context, known = context_of(step), width(step.recipe.network.towers[place]) is not None
    given = [x]
    del x
    for slots in step.towers[place]:
        for slot in slots:
            hidden_states = given.pop()
            run = _nearest if known and not list(missing(slot.layer)) else _unknown
            given.append(step.layer(slot, partial(run, context), hidden_states))
            del hidden_states
    return given.pop()


def _nearest(context: Context, slot: Slot, hidden_states: Tensor) -> Tensor:
    return decoder_layer(hidden_states, slot.weights, slot.layer, context)


def _unknown(context: Context, slot: Slot, hidden_states: Tensor) -> Tensor:
    """Return a layer of which no more is known than that it learns."""
    for weight in slot.weights.values():
        hidden_states = learned(hidden_states, weight)
    return hidden_states


def _learned(step: Step, x: Tensor, parameters: Iterable[Weight]) -> Tensor:
    for each in parameters:
        x = learned(x, step.weights[each.name])
    return x
