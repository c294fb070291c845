"""Cut cross-entropy: logits exist in registers only, block by block, in the forward and in the backward pass.

Source: cut_cross_entropy 25.1 (Apple's, as Unsloth uses it): cce.py, cce_lse_forward.py, indexed_dot.py,
cce_backward.py.
"""

from __future__ import annotations

from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import in_order, like, new
from memcore.tensors.tensor import Parameter, Tensor


def cut_loss(hidden: Tensor, weight: Parameter, labels: Tensor) -> Tensor:
    """The loss; it keeps hidden states, head, labels, which of them count, and a sum for each row and each word."""
    tape = hidden.tape
    with tape.at("loss"):
        x = in_order([hidden]) if not hidden.contiguous else hidden
        valids = _valids(labels)
        rows = [new(tape, hidden.shape[:-1], "fp32", "cut_loss_rows")]
        ordering = new(tape, weight.outer, "fp32", "cut_loss_words")
        rows.append(new(tape, hidden.shape[:-1], "fp32", "cut_loss_rows"))
        needs = tracked(weight)
        saved = save(tape, x, weight, rows[0], labels, valids, ordering)
        loss = new(tape, (), "fp32", "cut_loss")
        del rows[1]

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            words = saved[-1]
            order = like(like(words, "cut_loss_words", "int64"), "cut_loss_words", "int32")
            for_x = like(saved[0], "input_gradient")
            for_weight = new(tape, weight.shape, x.dtype, "weight_gradient") if needs else None
            locks = [new(tape, each, "int32", "cut_loss_locks") for each in (saved[2].shape, words.shape)]
            del locks, order
            if for_weight is not None and weight.dtype != x.dtype:
                for_weight = like(for_weight, "to", weight.dtype)
            return [for_x, for_weight]

        attach([loss], [hidden, weight], saved, apply)
        return loss


def _valids(labels: Tensor) -> Tensor:
    """Return the rows whose labels count (`_build_flat_valids`): their places along both axes, and in a row."""
    tape = labels.tape
    places = new(tape, (*labels.shape, 2), "int64", "cut_loss_rows")
    places = like(places, "cut_loss_rows", "int32")
    return new(tape, labels.shape, "int64", "cut_loss_rows")
