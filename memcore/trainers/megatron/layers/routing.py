"""The router: which experts every token goes to, and with what weight.

Source: Megatron-LM, core/transformer/moe/{router,moe_utils}.py.
"""

from __future__ import annotations

from memcore.networks.parts import Experts
from memcore.symbols import Shape
from memcore.tensors.arithmetic import sigmoid
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import like, new, only, to
from memcore.tensors.operations import mul, softmax
from memcore.tensors.tensor import Parameter, Tensor
from memcore.trainers.megatron.step_plan import Experts as Plan


def route(x: Tensor, weight: Parameter, part: Experts, plan: Plan) -> tuple[Tensor, Tensor]:
    """Weights of all experts for each token, (tokens, E), and which of them were chosen, as booleans."""
    logits = _gate(x, weight, part)
    if plan.balancing == "sinkhorn":
        return _sinkhorn(logits, part)
    if plan.router_fusion:
        return _fused(logits)
    chosen, weights = _chosen(logits, part, pre_softmax=plan.pre_softmax)
    probabilities = _scattered(weights, chosen, logits)
    routed = _map(chosen, logits)
    if plan.balancing in ("aux_loss", "seq_aux_loss", "global_aux_loss"):
        probabilities = _balanced(probabilities, logits, part)
    return probabilities, routed


def _gate(x: Tensor, weight: Parameter, part: Experts) -> Tensor:
    """`RouterGatingLinearFunction`, in the router's dtype; copies of its operands in that dtype come and go."""
    tape, dtype = x.tape, "fp32" if "fp32-router" in part.options else x.dtype
    out = new(tape, (*x.shape[:2], *weight.outer), dtype, "linear")
    if tracked(x, weight):
        before = x.dtype

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            upcast = [] if dtype == before else [like(saved[0], "to", dtype)]
            wide = like(saved[0], "input_gradient", dtype)
            gradient = to(wide, before)
            matrix = new(tape, weight.shape, before, "weight_gradient") if weight.requires_grad else None
            del upcast, wide
            return [gradient, matrix]

        attach([out], [x, weight], save(tape, x), apply)
    return out


def _sinkhorn(logits: Tensor, part: Experts) -> tuple[Tensor, Tensor]:
    tape = logits.tape
    with tape.no_grad():
        costs = like(logits, "exp", "fp32")
        balanced = like(costs, "mul")
        del costs
        indices = new(tape, (*logits.shape[:2], part.routed), "int64", "topk")
        del balanced
    scores = to(softmax(logits, "fp32"), logits.dtype)
    routed = _map(indices, logits)
    return mul(scores, routed), routed


def _fused(logits: Tensor) -> tuple[Tensor, Tensor]:
    """TransformerEngine's kernel: keeps the map and intermediate scores."""
    probabilities, routed = like(logits, "softmax"), like(logits, "topk", "bool")
    if tracked(logits):
        kept = save(logits.tape, routed, like(logits, "softmax", "fp32"))
        attach([probabilities], [logits], kept, lambda g, s: [like(only(g), "softmax_backward")])
    return probabilities, routed


def _chosen(logits: Tensor, part: Experts, *, pre_softmax: bool) -> tuple[Tensor, Tensor]:
    """Indices of the chosen experts, and their weights."""
    if "sigmoid-scores" not in part.options:
        if pre_softmax:
            return _topk(softmax(logits, "fp32"), part)
        indices, scores = _topk(logits, part)
        return indices, to(softmax(scores, "fp32"), logits.dtype)
    scores = sigmoid(to(logits, "fp32"))
    if part.correction is None:
        indices, scores = _topk(scores, part)
    else:
        biased = like(scores, "add")
        indices = new(logits.tape, (*logits.shape[:2], part.routed), "int64", "topk")
        del biased
        scores = _gathered(scores, indices)
    return indices, to(_normalized(scores), logits.dtype)


def _topk(x: Tensor, part: Experts) -> tuple[Tensor, Tensor]:
    tape, shape = x.tape, (*x.shape[:2], part.routed)
    values, indices = new(tape, shape, x.dtype, "topk"), new(tape, shape, "int64", "topk")
    if tracked(x):
        attach([values], [x], save(tape, indices), lambda g, s: [new(tape, full, only(g).dtype, "topk_backward")])
        full = x.shape
    return indices, values


def _gathered(x: Tensor, indices: Tensor) -> Tensor:
    tape, full = x.tape, x.shape
    out = like(indices, "gather", x.dtype)
    if tracked(x):
        attach([out], [x], save(tape, indices), lambda g, s: [new(tape, full, only(g).dtype, "gather_backward")])
    return out


def _normalized(x: Tensor) -> Tensor:
    """`scores / (scores.sum(dim=-1, keepdim=True) + 1e-20)`."""
    tape = x.tape
    total = new(tape, (*x.shape[:-1], 1), x.dtype, "sum")
    out = like(x, "div")
    if tracked(x):

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            first, second = like(only(gradients), "div_backward"), like(only(gradients), "div_backward")
            del second
            return [first]

        attach([out], [x], save(tape, x, total), apply)
    return out


def _scattered(weights: Tensor, indices: Tensor, like_logits: Tensor) -> Tensor:
    """`zeros_like(logits).scatter(1, indices, weights)`."""
    tape = weights.tape
    zeros = like(like_logits, "zeros")
    out = like(zeros, "scatter")
    del zeros
    if tracked(weights):
        shape: Shape = weights.shape

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            return [new(tape, shape, only(gradients).dtype, "gather")]

        attach([out], [weights], save(tape, indices), apply)
    return out


def _map(indices: Tensor, logits: Tensor) -> Tensor:
    """`zeros_like(logits).int().scatter(1, indices, 1).bool()`."""
    zeros = like(logits, "zeros")
    numbers = like(zeros, "to", "int32")
    del zeros
    written = like(numbers, "scatter")
    del numbers
    out = like(written, "to", "bool")
    del written, indices
    return out


def _balanced(probabilities: Tensor, logits: Tensor, part: Experts) -> Tensor:
    """Return the auxiliary loss: scores of all experts, kept for its gradient, and a map of its own."""
    scores = softmax(logits, "fp32")
    indices, values = _topk(scores.detach(), part)
    routed = _map(indices, logits)
    del indices, values
    tape = logits.tape
    loss = new(tape, (), "fp32", "sum")
    if tracked(scores):
        shape = scores.shape

        def gradient(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            return [new(tape, shape, "fp32", "expand_backward")]

        attach([loss], [scores], save(tape, routed), gradient)
    out = probabilities.detach()
    if tracked(probabilities, loss):

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            return [gradients[0], new(tape, (), "fp32", "backward_seed")]

        attach([out], [probabilities, loss], save(tape, loss.detach()), apply)
    return out
