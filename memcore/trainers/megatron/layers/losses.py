"""Cross-entropy over each rank's part of the vocabulary.

Sources: Megatron-LM, core/tensor_parallel/cross_entropy.py, core/fusions/fused_cross_entropy.py; TransformerEngine,
transformer_engine/pytorch/cross_entropy.py.
"""

from __future__ import annotations

from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import like, new, only, to
from memcore.tensors.tensor import Tensor


def vocab_parallel_cross_entropy(logits: Tensor, labels: Tensor, kind: str) -> Tensor:
    """Return a loss for each token, fp32; keeps the probabilities, which become the gradient."""
    if kind == "te":
        return _over_the_logits(logits, labels)
    tape = logits.tape
    with tape.no_grad():
        upcast = to(logits, "fp32")
        # Compiled functions do not write over their inputs: the exponentials are a tensor of their own.
        probabilities = like(upcast, "exp") if kind == "native" else upcast
        outside, inside, loss = reduced(probabilities, labels)
        del upcast
    if tracked(logits):

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            update = like(only(gradients), "masked_indices")
            places = like(labels, "arange")
            written = like(saved[0], "index_put_backward") if kind == "native" else saved[0]
            del update, places
            return [like(written, "to", logits_dtype)]

        logits_dtype = logits.dtype
        attach([loss], [logits], save(tape, probabilities, outside, inside), apply)
    return loss


def reduced(x: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Reductions over the vocabulary; everything of the logits' size is in place."""
    tape, rows = x.tape, x.shape[:2]
    largest, indices = new(tape, rows, "fp32", "amax"), new(tape, rows, "int64", "amax")
    del indices
    below, above = (new(tape, rows, "bool", "shard_mask") for _ in range(2))
    outside = new(tape, rows, "bool", "shard_mask")
    del below, above
    copied = like(labels, "clone")
    inside = like(labels, "masked_indices")
    del copied
    places = like(labels, "arange")
    chosen = new(tape, rows, "fp32", "gather")
    predicted = like(chosen, "clone")
    del chosen, places
    total = new(tape, rows, "fp32", "sum")
    logarithm = like(total, "log")
    loss = like(logarithm, "sub")
    del largest, predicted, total, logarithm
    return outside, inside, loss


def _over_the_logits(logits: Tensor, labels: Tensor) -> Tensor:
    """The kernel writes the gradient where the logits were."""
    tape = logits.tape
    loss = new(tape, logits.shape[:2], "fp32", "nll_loss")
    if tracked(logits):
        attach([loss], [logits], save(tape, logits.detach()), lambda g, s: [s[0]])
    return loss
