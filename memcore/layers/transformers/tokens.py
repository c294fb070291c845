"""Rows of the embedding that learn, put into the frozen table in every forward pass.

Source: peft/tuners/trainable_tokens/layer.py, `get_merged_weights` and `forward_adapters`.
"""

from __future__ import annotations

from memcore.networks.adapters import TRAINED_ROWS
from memcore.tensors.autograd import attach, save, tracked
from memcore.tensors.basics import new, only, to
from memcore.tensors.tensor import Parameter, Tensor
from memcore.trace.step import Step


def trained_rows(step: Step) -> Parameter | None:
    """Return the rows that learn, if there are any."""
    module = step.recipe.network.embedding_and_head.embedding.name.removesuffix(".weight")
    return step.weights.get(f"{module}.{TRAINED_ROWS}")


def merged(step: Step, rows: Parameter) -> Tensor:
    """Return a copy of the frozen table with them in it (`index_copy`)."""
    table, tape = step.weights[step.recipe.network.embedding_and_head.embedding.name], rows.tape
    index = new(tape, rows.shape[:1], "int64", "index")
    deltas = to(rows, table.dtype)
    needs, shape = tracked(deltas), deltas.shape
    saved = save(tape, index) if needs else []
    out = new(tape, table.shape, table.dtype, "index_copy")
    if needs:
        attach([out], [deltas], saved, lambda g, s: [new(tape, shape, only(g).dtype, "index_select")])
    return out


def looked_up(tokens: Tensor, table: Tensor) -> Tensor:
    """`F.embedding` by a computed table: saves the indices, and its gradient is dense."""
    tape, shape = tokens.tape, table.shape
    needs = tracked(table)
    saved = save(tape, tokens) if needs else []
    out = new(tape, (*tokens.shape, *shape[1:]), table.dtype, "embedding")
    if needs:
        attach([out], [table], saved, lambda g, s: [new(tape, shape, only(g).dtype, "embedding_backward")])
    return out
