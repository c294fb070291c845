"""nanotron's tensor parallelism: matrices that ranks share, their embedding, and the loss on parts of the vocabulary.

Source: huggingface/nanotron, parallel/tensor_parallel: functional.py, nn.py, distributed_differentiable_primitives.py.
Sequences come first: (s, b, h). What is gathered for a product lies in a buffer that stays (`MemoryBuffer`).
"""

from __future__ import annotations

from memcore.symbols import Axis, Shape, split_over, whole
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import clone, like, new, only, to, view
from memcore.tensors.operations import embedding, linear, mul
from memcore.tensors.tensor import Parameter, Tape, Tensor
from memcore.trainers.nanotron.step_plan import NanotronPlan


def column_linear(x: Tensor, weight: Parameter, plan: NanotronPlan, bias: Parameter | None = None) -> Tensor:
    """Return the product with a matrix shared by columns; a part of a sequence is gathered first."""
    if not plan.overlaps and not plan.scatters:
        return linear(_identity(x) if plan.tensor else x, weight, bias)
    return _column(x, weight, plan, bias)


def _column(x: Tensor, weight: Parameter, plan: NanotronPlan, bias: Parameter | None) -> Tensor:
    """`_ColumnLinearAsyncCommunication`, or the function of its own without overlap."""
    tape, batch = x.tape, len(x.shape) - 1
    with tape.no_grad():
        x = x if x.contiguous else clone(x)
        tokens: Axis = whole(x.shape[0]) if plan.scatters else x.shape[0]
        gathered: Shape = (tokens, *x.shape[1:])
        total = x if plan.gathers_again or not plan.scatters else new(tape, gathered, x.dtype, "gathered_sequence")
        if plan.scatters:
            _communicate(x, total)
        saved = save(tape, total)
        out = new(tape, (tokens, *x.shape[1:batch], *weight.outer), x.dtype, "linear")
        del total
    local = x.shape

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        gradient = only(gradients)
        overlaps = plan.overlaps
        if plan.scatters and plan.gathers_again:
            _communicate(*saved)
        for_weight = None if overlaps else new(tape, weight.shape, gradient.dtype, "weight_gradient")
        for_input = new(tape, gathered, gradient.dtype, "input_gradient")
        if not gradient.mergeable(0, batch) or not gradient.mergeable(batch, len(gradient.shape)):
            gradient = gradients[0] = clone(gradient)
        if plan.scatters:
            part = new(tape, local, gradient.dtype, "scattered_gradient")
            _communicate(part, for_input)
            for_input, whole_gradient = part, for_input
        if for_weight is None:
            for_weight = new(tape, weight.shape, gradient.dtype, "weight_gradient")
        if plan.scatters:
            del whole_gradient
        for_bias = [] if bias is None else [new(tape, bias.shape, gradient.dtype, "sum")]
        return [for_input, for_weight, *for_bias]

    attach([out], [x, weight] if bias is None else [x, weight, bias], saved, apply)
    return out


def row_linear(x: Tensor, weight: Parameter, plan: NanotronPlan) -> Tensor:
    """The product with a matrix shared by rows: a sum over ranks, of which each has all or its part of the sequence."""
    if plan.overlaps:
        return _row(x, weight, plan)
    if not plan.tensor:
        return linear(x, weight)
    out = linear(x, weight)
    if plan.scatters:
        return scattered(out)
    _communicate(out)
    return out


def _row(x: Tensor, weight: Parameter, plan: NanotronPlan) -> Tensor:
    """`_RowLinearAsyncCommunication`: it saves its input as it lies."""
    tape, given = x.tape, x
    with tape.no_grad():
        rows = given if given.mergeable(0, 2) and given.mergeable(2, len(given.shape)) else clone(given)
        out = new(tape, (*x.shape[:2], *weight.outer), x.dtype, "linear")
        del rows
        if plan.scatters:
            out = scattered(out)
        saved = save(tape, given)
    shape = given.shape

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        dtype = only(gradients).dtype
        if plan.scatters:
            _communicate(only(gradients))
        for_input = new(tape, shape, dtype, "input_gradient")
        source = saved[0]
        rows = source if source.mergeable(0, 2) and source.mergeable(2, len(source.shape)) else clone(source)
        for_weight = new(tape, weight.shape, dtype, "weight_gradient")
        del rows
        return [for_input, for_weight]

    attach([out], [x, weight], saved, apply)
    return out


def scattered(x: Tensor) -> Tensor:
    """This rank's part of a sequence of the sum over ranks (`DifferentiableReduceScatterSum`)."""
    tape, shape = x.tape, x.shape
    with tape.no_grad():
        out = new(tape, (split_over(shape[0]), *shape[1:]), x.dtype, "scattered_sequence")
        _communicate(x, out)

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        gathered = new(tape, shape, only(gradients).dtype, "gathered_sequence")
        _communicate(only(gradients), gathered)
        return [gathered]

    if tracked(x):
        attach([out], [x], [], apply)
    return out


def _identity(x: Tensor) -> Tensor:
    """Return what every rank has (`DifferentiableIdentity`): the ranks' gradients are summed in place."""
    out = view(x, x.shape, x.order, x.cut)

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        _communicate(only(gradients))
        return gradients

    attach([out], [x], [], apply)
    return out


def _communicate(*tensors: Tensor) -> None:
    """A collective reads or writes them on NCCL's stream (`recordStream`, ProcessGroupNCCL.cpp)."""
    tape = tensors[0].tape
    tape.collectives.append((len(tape.events), {each.storage.block for each in tensors if each.storage is not None}))


def embedded(tokens: Tensor, weight: Parameter, plan: NanotronPlan) -> Tensor:
    """The embedding, shared by words: rows of other ranks' words are made zero, and the ranks' results summed."""
    if not plan.tensor:
        return _looked_up(tokens, weight, plan)
    below, above = like(tokens, "shard_mask", "bool"), like(tokens, "shard_mask", "bool")
    mask = like(tokens, "shard_mask", "bool")
    del below, above
    copied = clone(tokens)
    local = like(copied, "masked_indices")
    del copied
    out = _looked_up(local, weight, plan)
    del local
    inverted = view(like(mask, "logical_not"), (*mask.shape, 1))
    out = mul(out, inverted)
    return scattered(out) if plan.scatters else out


def _looked_up(tokens: Tensor, weight: Parameter, plan: NanotronPlan) -> Tensor:
    """Rows of a table; gradients of many are sorted, and first summed in fp32, in a tensor of all."""
    if not plan.sorts:
        return embedding(tokens, weight)
    tape, saved = tokens.tape, save(tokens.tape, tokens)
    out = new(tape, (*tokens.shape, *weight.inner), weight.dtype, "embedding")
    shape = weight.shape

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        found = new(tape, shape, only(gradients).dtype, "embedding_backward")
        sums = new(tape, only(gradients).shape, "fp32", "embedding_sums")
        del sums
        return [found]

    attach([out], [weight], saved, apply)
    return out


def sharded_cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """`_ShardedCrossEntropy`: the softmax stays for the backward pass, and becomes the gradient in place."""
    tape = logits.tape
    logits = to(logits, "fp32")
    with tape.no_grad():
        shifted = _shifted(logits)
        mask, masked_target = _masked(target)
        predicted = _predicted(masked_target)
        summed = like(predicted, "sum")
        loss = _minus_logarithm(summed)
        saved = save(tape, shifted, mask, masked_target)
        del predicted, summed, mask, masked_target
    attach([loss], [logits], saved, _cross_entropy_backward)
    return loss


def _shifted(logits: Tensor) -> Tensor:
    """Return the logits without their maximum; exponentials and their shares are computed in place."""
    maxima = new(logits.tape, logits.shape[:2], logits.dtype, "amax")
    indices = new(logits.tape, logits.shape[:2], "int64", "argmax")
    del indices
    out = like(logits, "sub")
    del maxima
    return out


def _masked(target: Tensor) -> tuple[Tensor, Tensor]:
    below, above = like(target, "shard_mask", "bool"), like(target, "shard_mask", "bool")
    mask = like(target, "shard_mask", "bool")
    del below, above
    copied = clone(target)
    masked_target = like(copied, "masked_indices")
    del copied
    return mask, masked_target


def _predicted(masked_target: Tensor) -> Tensor:
    positions = like(masked_target, "arange")
    chosen = like(masked_target, "gather", "fp32")
    out = clone(chosen)
    del positions, chosen
    return out


def _minus_logarithm(summed: Tensor) -> Tensor:
    logarithm = like(summed, "log")
    loss = like(logarithm, "sub")
    del logarithm
    return loss


def _cross_entropy_backward(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
    softmax, mask, masked_target = saved
    positions = like(masked_target, "arange")
    ones = like(mask, "to", "fp32")
    held = (positions, ones, like(ones, "sub"))
    del held
    return [view(softmax, softmax.shape)]


def masked_mean(loss: Tensor, tape: Tape) -> Tensor:
    """Return the mean over the tokens that count (`masked_mean`, a scripted function)."""
    label_mask = new(tape, loss.shape, "bool", "inputs")
    product = mul(loss, label_mask)
    total = new(tape, (), "fp32", "sum")
    shape = product.shape
    attach([total], [product], [], lambda g, s: [new(tape, shape, "fp32", "sum_to_size")])
    count = new(tape, (), "int64", "sum")
    out = new(tape, (), "fp32", "div")
    attach([out], [total], save(tape, count), lambda g, s: [new(tape, (), "fp32", "div")])
    return out
