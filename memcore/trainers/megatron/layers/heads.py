"""The head, and the losses of the next and of further tokens. Source: Megatron-LM, core/models/gpt/gpt_model.py."""

from __future__ import annotations

from dataclasses import replace

from memcore.layers.objectives import summed
from memcore.networks.weights import Linear
from memcore.tensors.autograd import attach, tracked
from memcore.tensors.basics import contiguous, like, new, only, permute
from memcore.tensors.operations import mul, scale, tanh
from memcore.tensors.tensor import Tensor
from memcore.trace.step import Step
from memcore.trainers.megatron.layers.linear import linear, local_linear, parts_to_all
from memcore.trainers.megatron.layers.losses import vocab_parallel_cross_entropy
from memcore.trainers.megatron.layers.prediction import with_loss
from memcore.trainers.megatron.step_plan import MegatronPlan


def plan(step: Step) -> MegatronPlan:
    """Return the recipe's part for Megatron."""
    found = step.recipe.plan(MegatronPlan)
    if found is None:
        raise TypeError(step.recipe)
    return found


def head(
    step: Step, states: list[Tensor], labels: Tensor, mask: Tensor, how: MegatronPlan
) -> tuple[Tensor, Tensor | None]:
    """Return the losses of further tokens, and of the next one."""
    x, *further = states
    del states
    for place, state in enumerate(further):
        if place == 0:
            step.loss_begins(state)
        labels, mask = like(labels, "clone"), like(mask, "clone")
        x = with_loss(x, _loss(step, state, labels, mask, how))
    if not further:
        step.loss_begins(x)
    loss = step.leave("head", _loss(step, x, labels, mask, how))
    return step.leave("root", loss), None


def _scores(step: Step, x: Tensor, part: Linear, how: MegatronPlan) -> Tensor:
    """Return one output of each token, of which those of last tokens are compared with labels.

    Source: mcore-bridge 1.5, model/gpt_model.py (`OutputLayerLinear`: every rank has all of it, and all tokens);
    ms-swift 4.5, megatron/trainers/trainer.py (`seq_cls_loss_func`).
    """
    with x.tape.at("output_layer"):
        scores = linear(parts_to_all(x) if how.sequence else x, part, step.weights, replace(how, fp8=None))
    del x
    return summed(scores)


def _loss(step: Step, x: Tensor, labels: Tensor, mask: Tensor, how: MegatronPlan) -> Tensor:
    embedding_and_head = step.recipe.network.embedding_and_head
    part = embedding_and_head.head
    if part.split is None:
        return _scores(step, x, part, how)
    with x.tape.at("output_layer"):
        logits = local_linear(x, part, step.weights, how)
        if embedding_and_head.head_softcap:  # Megatron-Bridge, Gemma4OutputLayer
            logits = scale(tanh(scale(logits, "div")))
    del x
    with logits.tape.at("loss"):
        targets = contiguous(permute(labels, 1, 0))
        loss = vocab_parallel_cross_entropy(logits, targets, how.loss)
        loss = contiguous(permute(loss, 1, 0))
        del logits
        return mean_of(loss, mask)


def mean_of(losses: Tensor, mask: Tensor) -> Tensor:
    """`loss_func`: the sum of what the mask leaves."""
    left = mul(losses, mask)
    out = new(left.tape, (), left.dtype, "sum")
    if tracked(left):
        tape, shape = left.tape, left.shape
        attach([out], [left], [], lambda g, s: [new(tape, shape, only(g).dtype, "expand_backward")])
    return out
