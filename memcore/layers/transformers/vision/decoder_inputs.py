"""What a model makes of its images before the decoder runs, and the pieces that all families use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial

from memcore.layers.transformers.context import Context, project
from memcore.layers.transformers.decoder_layer import decoder_layer
from memcore.layers.transformers.norms import norm
from memcore.networks.weights import Norm
from memcore.records import dataclass
from memcore.tensors.basics import clone, contiguous, new, permute, to
from memcore.tensors.images import masked_scatter, put_rows, rows_at, viewed
from memcore.tensors.operations import add, linear
from memcore.tensors.tape import Held
from memcore.tensors.tensor import Tensor
from memcore.trace.step import Slot, Step

Tap = Callable[[int, Tensor], Tensor]
"""What becomes of the result of a layer that goes on to the decoder, given which of them it is."""
Embed = Callable[[], Tensor]
"""Runs the language model's embedding."""


@dataclass(slots=True)
class DecoderInputs:
    """What the decoder starts from."""

    embeds: Tensor
    """Embedded tokens, among them those of images."""
    held: Sequence[object] = ()
    """What the model's local variables hold until it returns."""
    returned: Sequence[Tensor] = ()
    """What its output object holds besides."""
    around: Sequence[object] = ()
    """What the local variables of a model around it hold until the logits exist."""
    arguments: Mapping[str, Tensor] = field(default_factory=dict)
    """What all layers take as arguments, by the field of their context."""
    positions: Tensor | None = None
    """Position ids for each of three dimensions."""
    deep: list[Tensor] = field(default_factory=list)
    """What is added to the image tokens after each of the first layers."""
    mask: Tensor | None = None
    """Where image tokens are."""
    masks: Mapping[str, Tensor | None] | None = None
    """Attention masks, where the family makes its own."""

    def after_layer(self, index: int, hidden_states: Tensor) -> Tensor:
        """Return the decoder's hidden states after one of its layers."""
        if index >= len(self.deep) or self.mask is None:
            return hidden_states
        return _deepened(hidden_states, self.mask, self.deep[index])


def _deepened(hidden_states: Tensor, mask: Tensor, visual_embeds: Tensor) -> Tensor:
    """`_deepstack_process`: features of an inner layer of the tower are added to the image tokens (Qwen3-VL)."""
    visual_embeds = to(visual_embeds, hidden_states.dtype)
    hidden_states = clone(hidden_states)
    local_this = add(rows_at(hidden_states, mask, visual_embeds.shape[:1]), visual_embeds)
    return put_rows(hidden_states, mask, local_this)


@dataclass(slots=True)
class Features:
    """A tower's output object."""

    last: Tensor
    taps: list[Tensor]
    """Hidden states of the layers that were asked for."""
    pooled: Tensor | None = None
    deep: list[Tensor] = field(default_factory=list)
    """Merged results of inner layers."""

    @property
    def merged(self) -> Tensor:
        """Return the pooled output of towers that have one."""
        if self.pooled is None:
            raise TypeError(self)
        return self.pooled


def run_layers(
    step: Step,
    tower: int,
    given: list[Tensor],
    context: Context,
    *rotary: Tensor,
    tap: Tap | None = None,
    held: Held[list[Tensor]] | None = None,
) -> Features:
    """Run a tower's layers over the given tensor, which is freed.

    `tap` sees results that go on; `held` keeps the results of all layers.
    """
    hidden_states = given.pop()
    taps: list[Tensor] = []
    for run, slots in enumerate(step.towers[tower]):
        for slot in slots:
            hidden_states = step.layer(slot, partial(_run_layer, context), hidden_states, *rotary)
            if held is not None:
                held.setdefault(step.tape.repeats, []).append(hidden_states)
        if run in step.recipe.network.towers[tower].taps:
            taps.append(hidden_states if tap is None else tap(len(taps), hidden_states))
    return Features(hidden_states, taps)


def _run_layer(context: Context, slot: Slot, hidden_states: Tensor, *rotary: Tensor) -> Tensor:
    given = replace(context, rotary=rotary) if rotary else context
    return decoder_layer(hidden_states, slot.weights, slot.layer, given)


def layer_norm(step: Step, x: Tensor, name: str, kind: str = "layer") -> Tensor:
    """Return a norm outside the layers."""
    with step.tape.at(name.rpartition(".")[0]):
        return norm(x, step.weights, Norm(name, kind))


def linear_layer(step: Step, x: Tensor, name: str) -> Tensor:
    """Return a linear layer outside the layers."""
    towers = step.recipe.network.towers
    adapted = next((each for tower in towers for each in tower.outer_adapted if each.name == name), None)
    if adapted is not None:
        with step.tape.at(name.rpartition(".")[0]):
            return project(x, step.weights, adapted)
    with step.tape.at(name):
        return linear(x, step.weights[f"{name}.weight"], step.weights.get(f"{name}.bias"))


def context_of(step: Step, mask: Tensor | None = None, rotary: tuple[Tensor, ...] | None = None) -> Context:
    """Return what layers of a tower are given."""
    pictures = step.recipe.pictures
    kernel = (pictures.attention if pictures is not None else None) or step.recipe.attention
    return Context(None, kernel, rotary, mask, None, pictures=pictures)


def placeholder_mask(step: Step, tokens: Tensor) -> Tensor:
    """`get_placeholder_mask`: which tokens stand for parts of images; they are counted as a check."""
    mask = new(step.tape, tokens.shape, "bool", "placeholder_mask")
    return Tensor(step.tape, mask.storage, (*tokens.shape, 1), "bool")


def put_among(step: Step, embeds: Tensor, mask: Tensor, features: Tensor) -> Tensor:
    """`inputs_embeds.masked_scatter(mask, features)`; with its gradient the backward pass reaches the projector."""
    merged = step.ended(masked_scatter(embeds, mask, features), "projector")
    step.begin("positions and masks")
    return merged


def pixel_shuffle(vision_features: Tensor) -> Tensor:
    """`pixel_shuffle`: neighbours of a row, then of a column, go side by side; the grid stands for both."""
    grid = ("bt", "gp", "gp", "ht")
    vision_features = viewed(vision_features, grid)
    vision_features = contiguous(permute(vision_features, 0, 2, 1, 3))
    vision_features = viewed(vision_features, grid)
    return contiguous(permute(vision_features, 0, 2, 1, 3))
