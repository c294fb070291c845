"""Tensor parallelism around the modules of a layer, as torchtitan applies it with DTensor.

Source: torch/distributed/tensor/parallel/style.py and loss.py, and torchtitan's plan (`apply_tp` of its
models/llama3/infra/parallelize.py). Where there is none, everything is as it is. Under sequence parallelism a rank has
its part of the sequence between attention and feed-forward layers, which gather it and scatter what they return.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memcore.networks.weights import Linear, Norm
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import identity, like, new, only, to
from memcore.tensors.operations import embedding
from memcore.tensors.sharded import (
    embedding_of_part,
    from_parts,
    from_replica,
    masked,
    reduced,
    replica,
    sum_to_parts,
    sum_to_replica,
)
from memcore.tensors.tensor import Parameter, Tensor

Run = Callable[[Tensor, Mapping[str, Parameter], Norm], Tensor]
"""A norm."""


def prepared(x: Tensor) -> Tensor:
    """Return what a module with sharded matrices is given (`PrepareModuleInput`)."""
    parallel = x.tape.parallel
    if parallel is None:
        return x
    return from_parts(x, 1) if parallel.sequence else from_replica(x)


def shared(x: Tensor) -> Tensor:
    """Return what all ranks have before matrices sharded by columns: its gradient is a sum over them."""
    return x if x.tape.parallel is None else from_replica(x)


def finished(y: Tensor, part: Linear) -> Tensor:
    """Return what a linear layer returns: that of a matrix sharded by rows is a sum over ranks (`RowwiseParallel`)."""
    return _summed(y) if part.split == "inner" else y


def _summed(y: Tensor) -> Tensor:
    parallel = y.tape.parallel
    if parallel is None:
        return y
    return sum_to_parts(y, 1) if parallel.sequence else sum_to_replica(y)


def embedded(tokens: Tensor, weight: Parameter) -> Tensor:
    """Return the embedding, whose table is sharded by rows."""
    if tokens.tape.parallel is None:
        return embedding(tokens, weight)
    return _summed(embedding_of_part(tokens, weight))


def normalized(run: Run, x: Tensor, weights: Mapping[str, Parameter], part: Norm) -> Tensor:
    """A norm that every rank holds (`SequenceParallel`): of its parameters' gradients each has its tokens' part."""
    parallel = x.tape.parallel
    if parallel is None or not part.replicated:
        return run(x, weights, part)
    for name in ("weight", "bias"):
        weight = weights.get(f"{part.name}.{name}")
        if weight is not None:
            weight.partial = parallel.sequence
    with x.tape.wrapping():
        return run(identity(x), weights, part)


def headed(head: Callable[[Tensor], Tensor], x: Tensor, *, given: bool = False) -> Tensor:
    """Return the head, sharded over the vocabulary: its result is gathered, unless the loss is parallel too.

    `given`: every rank has all hidden states already.
    """
    parallel = x.tape.parallel
    if parallel is None:
        return head(x)
    inputs = x if given else prepared(x)  # the module's arguments live until its hooks are done
    logits = head(inputs)
    return logits if parallel.loss else replica(logits, 2)


def parallel_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """`F.cross_entropy` under `loss_parallel`: reductions over the vocabulary become collectives.

    The gradient of the logits is computed at once with that of the log-probabilities, in Python.
    """
    log_probabilities = _log_softmax(logits)
    return _nll_loss(log_probabilities, labels)


def _log_softmax(x: Tensor) -> Tensor:
    with x.tape.no_grad():
        out = _log_softmax_forward(x)
    if tracked(x):
        before = x.dtype
        attach([out], [x], save(x.tape, out), lambda g, s: [to(only(g), before)])
    return out


def _log_softmax_forward(x: Tensor) -> Tensor:
    dtype = x.dtype
    x = to(x, "fp32")
    x_max = reduced(_rows(x, "amax"))
    shifted = like(x, "sub")
    shifted_sumexp = reduced(_sum_of_exponentials(shifted))
    shifted_logsumexp = like(shifted_sumexp, "log")
    result = to(like(shifted, "log_softmax"), dtype)
    del x_max, shifted_logsumexp
    return result


def _rows(x: Tensor, rule: str) -> Tensor:
    return new(x.tape, (*x.shape[:-1], 1), x.dtype, rule)


def _sum_of_exponentials(x: Tensor) -> Tensor:
    exponentials = like(x, "exp")
    return _rows(exponentials, "sum")


def _nll_loss(x: Tensor, target: Tensor) -> Tensor:
    tape, dtype = x.tape, x.dtype
    with tape.no_grad():
        loss, total_weight = _nll_loss_forward(x, target)
    if tracked(x):

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            return [_nll_loss_backward(only(gradients), saved[0], saved[1], dtype)]

        attach([loss], [x], save(tape, x, target, total_weight), apply)
    return loss


def _nll_loss_forward(x: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    tape, dtype = x.tape, x.dtype
    safe_target = _safe(target, target.dtype)
    mask, safe_target_partial = masked(safe_target)
    result_partial = like(safe_target_partial, "gather", dtype)
    del mask
    result_reduced = reduced(result_partial)
    result = like(result_reduced, "neg")
    result = _safe(result, dtype)
    total_weight = _count(target, dtype)
    total = new(tape, (), dtype, "sum")
    loss = new(tape, (), dtype, "nll_loss")
    del total, safe_target
    return loss, total_weight


def _safe(x: Tensor, dtype: str) -> Tensor:
    """`torch.where(target != ignore_index, x, 0)`."""
    ignored = like(x, "shard_mask", "bool")
    out = like(x, "where", dtype)
    del ignored
    return out


def _count(target: Tensor, dtype: str) -> Tensor:
    """`(target != ignore_index).sum().to(x)`."""
    counted = _sum(like(target, "shard_mask", "bool"))
    return to(counted, dtype)


def _sum(x: Tensor) -> Tensor:
    return new(x.tape, (), "int64", "sum")


def _nll_loss_backward(grad_output: Tensor, x: Tensor, target: Tensor, dtype: str) -> Tensor:
    """`_nll_loss_and_log_softmax_backward`."""
    grad_output = like(grad_output, "div")
    safe_target = _safe(target, target.dtype)
    grad_input = like(x, "zeros")
    mask, masked_safe_target = masked(safe_target)
    grad_update = _shifted(to(mask, dtype))
    arange_1d = like(masked_safe_target, "arange")
    grad_output = _safe(target, dtype)
    held = (safe_target, mask, masked_safe_target, grad_update, arange_1d)
    out = like(_plus_exponential(grad_input, x), "nll_loss_backward")
    del held, grad_output
    return out


def _shifted(x: Tensor) -> Tensor:
    return like(x, "sub")


def _plus_exponential(x: Tensor, y: Tensor) -> Tensor:
    exponential = like(y, "exp")
    out = like(x, "add")
    del exponential
    return out
