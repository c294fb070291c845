"""What models of transformers do first, whatever comes next: embeddings and positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from memcore.layers import tensor_parallel as parallel
from memcore.layers.transformers.context import leaf
from memcore.layers.transformers.rotary import Tables
from memcore.layers.transformers.tokens import looked_up, merged, trained_rows
from memcore.layers.transformers.vision.decoder_inputs import DecoderInputs
from memcore.records import dataclass
from memcore.tensors.basics import like, new, to
from memcore.tensors.operations import mul
from memcore.tensors.tensor import Tensor
from memcore.trace.step import Step


@dataclass(frozen=True, slots=True)
class LayerInputs:
    """What stands before the layers and lives until they are done."""

    positions: Tensor | None
    masks: Mapping[str, Tensor | None]
    tables: Tables
    bias: Tensor | None = None
    """A bias of the scores by distance (ALiBi)."""
    kept: tuple[Tensor, ...] = ()
    held: list[Tensor] = field(default_factory=list)
    """What goes when the layers are done."""
    per_layer: Tensor | None = None
    """Of which every layer is given an index of the third axis."""
    original: Tensor | None = None
    """What every layer is given as it is."""
    seen: DecoderInputs | None = None
    """What was made of images."""


def scaled_by_buffer(embedded: Tensor, dtype: str) -> Tensor:
    """Gemma's `ScaledWordEmbedding`: times a buffer of one element, cast to the dtype of the weights."""
    embed_scale = Tensor(embedded.tape, None, (), dtype)
    return mul(embedded, to(embed_scale, embedded.dtype))


def embed(step: Step, tokens: Tensor, *, scales: bool = True) -> Tensor:
    """The embedding module, which `scales` in Gemma; a later stage of a pipeline is given hidden states instead."""
    embedding_and_head = step.recipe.network.embedding_and_head
    if not embedding_and_head.reads_tokens:
        return tokens
    with tokens.tape.module(leaf(embedding_and_head.embedding.name.removesuffix(".weight"))):
        tokens = step.enter("embedding", tokens)
        rows = trained_rows(step)
        if rows is None:
            embedded = parallel.embedded(tokens, step.weights[embedding_and_head.embedding.name])
        else:
            embedded = looked_up(tokens, merged(step, rows))
        if embedding_and_head.embedding_scaled and scales:
            embedded = scaled_by_buffer(embedded, step.recipe.precision.parameter)
        embedded = step.leave("embedding", embedded)
        step.embedded(embedded)
        return embedded


def arange(step: Step) -> Tensor:
    """Positions from zero, shifted by the length of an empty cache."""
    return like(new(step.tape, ("s",), "int64", "position_ids"), "position_ids")
