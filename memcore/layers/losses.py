"""Losses over the hidden states: what the logits and the cross-entropy need.

Sources: transformers/loss/loss_utils.py (ForCausalLMLoss), torchtune CEWithChunkedOutputLoss,
aten/src/ATen/native/LossNLL.cpp.
"""

from __future__ import annotations

from collections.abc import Callable

from memcore.layers.tensor_parallel import parallel_cross_entropy
from memcore.symbols import Quotient, Shape, Shifted
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import clone, contiguous, like, new, only, split, to, view
from memcore.tensors.operations import add, scale
from memcore.tensors.reshaping import cropped
from memcore.tensors.tensor import Tensor
from memcore.trace.recipe import Loss

Head = Callable[[Tensor], Tensor]
"""Hidden states to logits."""


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """`F.cross_entropy`: keeps the log-probabilities; its backward pass fills two more tensors of their size.

    Autocast runs the loss in fp32, but not the softmax, to which `cross_entropy_loss` gives the dtype of the logits.
    """
    if logits.tape.parallel is not None and logits.tape.parallel.loss:
        return parallel_cross_entropy(logits, labels)
    log_probabilities = log_softmax(logits)
    if logits.tape.autocast:
        log_probabilities = to(log_probabilities, "fp32")
    return _nll_loss(log_probabilities, labels)


def log_softmax(x: Tensor) -> Tensor:
    """`F.log_softmax`, whose result is kept for the backward pass."""
    out = like(x, "log_softmax")
    if tracked(x):
        attach([out], [x], save(x.tape, out), lambda g, s: [like(only(g), "log_softmax_backward")])
    return out


def _nll_loss(log_probabilities: Tensor, labels: Tensor) -> Tensor:
    tape, dtype = log_probabilities.tape, log_probabilities.dtype
    needs = tracked(log_probabilities)
    shape = log_probabilities.shape
    saved = save(tape, log_probabilities, labels) if needs else []
    loss, weight = new(tape, (), dtype, "nll_loss"), new(tape, (), dtype, "nll_loss")
    if needs:
        saved += save(tape, weight)
        attach([loss], [log_probabilities], saved, lambda g, s: [new(tape, shape, dtype, "nll_loss_backward")])
    return loss


def causal_lm_loss(logits: Tensor, labels: Tensor, loss: Loss) -> Tensor:
    """Cross-entropy over all logits at once; that of tensor-parallel ranks runs DTensor's functions as they are."""
    parallel = logits.tape.parallel
    with logits.tape.at("loss"):
        if loss.compiled and not (parallel and parallel.loss):
            return compiled_cross_entropy(logits)
        if loss.kind == "cross-entropy-fp32":
            logits = to(logits, "fp32")
        if loss.slices_logits:
            batch, length = labels.shape
            shorter = Shifted(length, -1, 1)
            part = contiguous(cropped(logits, 1, 1, shorter))  # the logits stay: `ForCausalLMLoss` holds both
            return cross_entropy(part, _shifted(labels, (batch, shorter)))
        if loss.shifts_labels:
            padded = _padded(labels)
            labels = _shifted(padded, labels.shape)
        return cross_entropy(logits, labels)


def _padded(labels: Tensor) -> Tensor:
    """Labels with one more column: transformers shifts labels instead of slicing logits."""
    batch, length = labels.shape
    return new(labels.tape, (batch, Shifted(length, 1, 1)), labels.dtype, "pad")


def _shifted(padded: Tensor, shape: Shape) -> Tensor:
    """Labels without their first column; those of a single sequence are a view."""
    return contiguous(view(padded, shape, cut=1))


def shifted(labels: Tensor) -> Tensor:
    """Labels moved by one, as transformers moves them."""
    return _shifted(_padded(labels), labels.shape)


def chunked_loss(hidden: Tensor, labels: Tensor, head: Head, loss: Loss) -> Tensor:
    """Logits chunk by chunk of the sequence, kept in their dtype; each chunk is upcast on its own."""
    tape = hidden.tape
    labels = shifted(labels)
    batch, length = labels.shape
    part: Shape = (batch, Quotient((length,), loss.chunks))
    outputs = [head(chunk) for chunk in split(hidden, (*part, *hidden.shape[2:]), loss.chunks, cut=1)]
    with tape.at("loss"):
        total: Tensor | None = None
        for logits, targets in zip(outputs, split(labels, part, loss.chunks, cut=1), strict=True):
            flat = _flat(targets)
            each = compiled_cross_entropy(logits) if loss.compiled else cross_entropy(to(logits, "fp32"), flat)
            total = each if total is None else add(total, each)
        return scale(total, "div") if total is not None else hidden


def compiled_cross_entropy(logits: Tensor) -> Tensor:
    """Return the loss in compiled kernels: it keeps the logits as they are, and two numbers of each row.

    A graph of the whole model returns the logits too. They have no gradient: its backward pass is called with zeros in
    its place, which live until it returns (torch/csrc/autograd/python_function.cpp, `PyNode::apply`).
    """
    tape, rows = logits.tape, logits.shape[:-1]
    largest, total = (new(tape, rows, "fp32", "logsumexp") for _ in range(2))
    out = new(tape, (), "fp32", "nll_loss")

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        if tape.whole:
            tape.arguments.append(like(saved[0], "zeros"))
        return [like(saved[0], "log_softmax_backward")]

    if tracked(logits):
        attach([out], [logits], save(tape, logits, largest, total), apply)
    return out


def _flat(labels: Tensor) -> Tensor:
    return labels if labels.mergeable(0, 2) else clone(labels)
