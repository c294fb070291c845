"""BERT and T5. Sources: Megatron-LM, core/models/{bert/bert_model,bert/bert_lm_head,T5/t5_model}.py."""

from __future__ import annotations

from memcore.networks.weights import Norm
from memcore.symbols import Axis
from memcore.tensors.basics import new, permute
from memcore.tensors.operations import add, dropout, embedding, gelu
from memcore.tensors.operations import linear as plain_linear
from memcore.tensors.tensor import Tensor
from memcore.trace.step import Batch, Slot, Step
from memcore.trainers.megatron.layers.attention import LayerContext
from memcore.trainers.megatron.layers.embedding import embedded
from memcore.trainers.megatron.layers.fused import norm
from memcore.trainers.megatron.layers.heads import head, plan
from memcore.trainers.megatron.layers.layer import layer

_INPUTS = 6
"""Tokens, their types, order of sentences, labels and two masks, all int64."""


def bert(step: Step, batch: Batch, *, local: bool) -> tuple[Tensor, Tensor | None]:
    """`BertModel.forward`; what the pooler makes of one token of each sequence is left out, a few rows."""
    embedding_and_head, tape, how = step.recipe.network.embedding_and_head, step.tape, plan(step)
    loaded = [new(tape, ("b", "s"), "int64", "inputs") for _ in range(_INPUTS - 2)]
    mask = new(tape, ("b", 1, "s", "s"), "bool", "attention_mask")
    around = LayerContext(how, step.recipe.attention, local, mask)
    x = step.enter("root", batch.tokens)
    if embedding_and_head.reads_tokens:
        x = step.enter("embedding", x)
        bare = embedded(x, loaded[0], embedding_and_head, step.weights, how, drops=False)
        types = embedding(loaded[1], step.weights["embedding.tokentype_embeddings.weight"])
        x = dropout(add(bare, permute(types, 1, 0, 2)), embedding_and_head.embedding_dropout)
        del bare, types
        step.embedded(step.leave("embedding", x))

    def run(slot: Slot, x: Tensor) -> Tensor:
        return layer(x, slot, around)

    x = step.layers(step.slots, run, x)
    step.after_layers()
    if not embedding_and_head.predicts or embedding_and_head.final_norm is None:
        return step.leave("root", x), None
    x = step.enter("head", x)
    x = norm(x, embedding_and_head.final_norm, step.weights)
    with tape.at("lm_head"):
        x = gelu(plain_linear(x, step.weights["lm_head.dense.weight"], step.weights["lm_head.dense.bias"]))
        x = norm(
            x,
            Norm(
                "lm_head.layer_norm",
                embedding_and_head.final_norm.kind,
                ("h",),
                bias=embedding_and_head.final_norm.bias,
            ),
            step.weights,
        )
    return head(step, [x], batch.labels, new(tape, ("b", "s"), "fp32", "inputs"), how)


def t5(step: Step, batch: Batch, *, local: bool) -> tuple[Tensor, Tensor | None]:
    """`T5Model.forward`, on one stage."""
    embedding_and_head, tape, how = step.recipe.network.embedding_and_head, step.tape, plan(step)
    if embedding_and_head.final_norm is None:
        raise TypeError(embedding_and_head)
    answers = [new(tape, ("b", "sd"), "int64", "inputs") for _ in range(2)]
    weights = new(tape, ("b", "sd"), "fp32", "inputs")
    encoder, decoder, crossing = (_around(step, rows, columns, local=local) for rows, columns in _PAIRS)

    def encode(slot: Slot, x: Tensor) -> Tensor:
        return layer(x, slot, encoder)

    def decode(slot: Slot, x: Tensor, seen: Tensor) -> Tensor:
        return layer(x, slot, decoder, seen)

    x = step.enter("root", batch.tokens)
    x = embedded(x, new(tape, ("b", "s"), "int64", "position_ids"), embedding_and_head, step.weights, how)
    first = [slot for slot in step.slots if slot.layer.residual == "megatron-encoder"]
    x = step.layers(first, encode, x)
    step.begin("end of the encoder")
    last = embedding_and_head.final_norm
    seen = norm(x, Norm("encoder.final_layernorm", last.kind, ("h",), bias=last.bias), step.weights)
    step.ended(seen, "end of the encoder")
    places = new(tape, ("b", "sd"), "int64", "position_ids")
    x = embedded(answers[0], places, embedding_and_head, step.weights, how)
    step.embedded(x)
    x = step.layers(step.slots[len(first) :], decode, x, seen)
    step.after_layers()
    del seen, crossing
    x = step.enter("head", x)
    x = norm(x, last, step.weights)
    return head(step, [x], answers[1], weights, how)


_PAIRS: tuple[tuple[Axis, Axis], ...] = (("s", "s"), ("sd", "sd"), ("sd", "s"))
"""Tokens that attend, and tokens that are attended to."""


def _around(step: Step, rows: Axis, columns: Axis, *, local: bool) -> LayerContext:
    mask = new(step.tape, ("b", 1, rows, columns), "bool", "attention_mask")
    return LayerContext(plan(step), step.recipe.attention, local, mask)
