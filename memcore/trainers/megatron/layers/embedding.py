"""Embeddings and head.

Sources: Megatron-LM, core/tensor_parallel/layers.py (VocabParallelEmbedding), core/models/common/embeddings/
language_model_embedding.py and core/models/gpt/gpt_model.py.
"""

from __future__ import annotations

from collections.abc import Callable

from memcore.networks.network import EmbeddingAndHead
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import clone, contiguous, like, new, only, permute, view
from memcore.tensors.operations import add, dropout, embedding, scale
from memcore.tensors.tensor import Parameter, Tensor
from memcore.trainers.megatron.layers.linear import Weights, part_of, sum_to_parts
from memcore.trainers.megatron.step_plan import MegatronPlan


def embedded(
    tokens: Tensor,
    positions: Tensor | None,
    embedding_and_head: EmbeddingAndHead,
    weights: Weights,
    how: MegatronPlan,
    *,
    drops: bool = True,
    among: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Embedded tokens, (s, b, h); under sequence parallelism this rank's.

    `among` puts others among all of them, (b, s, h).
    """
    tape = tokens.tape
    with tape.at("embedding"):
        early = how.sequence and embedding_and_head.positions is None
        x = _words(tokens, weights[embedding_and_head.embedding.name], how)
        x = x if among is None else among(x)
        if early:
            x = sum_to_parts(contiguous(permute(x, 1, 0, 2)))
            # All ranks have put the same among them, and divide the sum (mcore-bridge, model/mm_gpt_model.py).
            x = x if among is None else scale(x)
        if embedding_and_head.positions is not None and positions is not None:
            x = add(x, embedding(positions, weights[embedding_and_head.positions.name]))
        if not early:
            x = contiguous(permute(x, 1, 0, 2))
        if how.sequence and not early:
            x = clone(part_of(x))
        x = dropout(x, embedding_and_head.embedding_dropout) if drops else x
        return scale(x) if embedding_and_head.embedding_scaled else x  # Megatron-Bridge, Gemma3LanguageModelEmbedding


def _words(tokens: Tensor, weight: Parameter, how: MegatronPlan) -> Tensor:
    """Rows of this rank's part of the table, zeros for other words; their sum over ranks is in place."""
    tape = tokens.tape
    if not how.tensor:
        return _rows(tokens, weight, how)
    below, above = (like(tokens, "shard_mask", "bool") for _ in range(2))
    outside = like(tokens, "shard_mask", "bool")
    del below, above
    copied = like(tokens, "clone")
    inside = like(tokens, "masked_indices")
    del copied
    rows = _rows(inside, weight, how)
    out = view(rows, rows.shape, rows.order)
    if tracked(rows):
        saved = save(tape, outside)

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            return [like(only(gradients), "index_put_backward")]

        attach([out], [rows], saved, apply)
    return out


def _rows(tokens: Tensor, weight: Parameter, how: MegatronPlan) -> Tensor:
    """`weight[tokens]` where results must not depend on the order of sums, else `F.embedding`."""
    if not how.deterministic:
        return embedding(tokens, weight)
    tape = tokens.tape
    out = new(tape, (*tokens.shape, *weight.inner), weight.dtype, "embedding")
    if tracked(weight):

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            found = new(tape, weight.shape, only(gradients).dtype, "index_backward")
            sorted_ = [like(saved[0], "index_workspace") for _ in range(4)]
            del sorted_
            return [found]

        attach([out], [weight], save(tape, tokens), apply)
    return out
