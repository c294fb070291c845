"""torchtitan's routed experts: a router, tokens sent to the ranks of their experts, grouped products, and back.

Source: torchtitan/models/common/moe.py and token_dispatcher.py (`AllToAllTokenDispatcher`, August 2026). Local
variables live as long here as they do there.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.eager.arithmetic import add_buffer, divide, sigmoid, total
from memcore.eager.autograd import Gradient, attach, save, tracked
from memcore.eager.basics import contiguous, identity, like, new, only, to
from memcore.eager.grouped import grouped_mm
from memcore.eager.indexing import gather, sort, take, topk
from memcore.eager.operations import ACTIVATIONS, add, add_scalar, linear, mul, scale, softmax
from memcore.eager.running import masked_fill
from memcore.eager.selection import selectable
from memcore.eager.slices import reshape, unsqueeze
from memcore.eager.tensor import Tensor
from memcore.layers.compiled import gated
from memcore.layers.torchtitan.parts import Weights, feed_forward, leaf
from memcore.model.parts import Experts
from memcore.model.separate_experts import ROWS
from memcore.symbols import Quotient, Shape

SCORES: Mapping[str, str] = {
    "deepseek_v3": "sigmoid",
    "deepseek_v2": "softmax",
    "qwen": "softmax",
}
"""How the router scores experts, by `Experts.variant`: those that torchtitan has."""


def mixture(x: Tensor, weights: Weights, part: Experts, *, parallel: bool, compiled: bool = False) -> Tensor:
    """`MoE.forward`."""
    tape = x.tape
    with tape.module(part.module):
        x = identity(x)
        top_scores, expert_ids, scores = _route(x, weights, part)
        routing_map = like(scores, "zeros", "bool")
        counts = new(tape, part.router.outer, "int64", "sum")
        out = _routed(x, top_scores, expert_ids, weights, part, parallel=parallel, compiled=compiled)
        del routing_map
        if part.shared is not None:
            shared = feed_forward(x, weights, part.shared, leaf(part.shared.module), compiled=compiled)
            out = add(out, shared)
        del counts, expert_ids
        return out


def _route(x: Tensor, weights: Weights, part: Experts) -> tuple[Tensor, Tensor, Tensor]:
    """`TokenChoiceTopKRouter.forward`: the gate in fp32, whose product selective checkpoints always compute again."""
    tape = x.tape
    with tape.module(leaf(part.router.name)), tape.selecting(lambda operation, make: make()):
        upcast = to(x, "fp32")
        gate = to(weights[f"{part.router.name}.weight"], "fp32")
        scores = linear(upcast, gate)
        del upcast, gate
    scores = sigmoid(scores) if SCORES[part.variant] == "sigmoid" else softmax(scores)
    scores_for_choice = add_buffer(scores, "fp32")
    if part.groups is not None:
        scores_for_choice = _within_groups(scores_for_choice, part)
    expert_ids = topk(scores_for_choice, part.routed)[1]
    top_scores = gather(scores, expert_ids)
    if "normalized" in part.options:
        denominator = add_scalar(total(top_scores, keepdim=True))
        top_scores = divide(top_scores, denominator)
    top_scores = scale(top_scores)
    return top_scores, expert_ids, scores


def _within_groups(scores: Tensor, part: Experts) -> Tensor:
    """`_get_node_limited_routing_scores`: scores of experts in the best groups, judged by their two best experts."""
    if part.groups is None:
        raise TypeError(part)
    groups, chosen = part.groups
    grouped = reshape(scores, (*scores.shape[:-1], groups, Quotient(scores.shape[-1:], groups)))
    group_scores = total(topk(grouped, 2)[0])
    group_idx = topk(group_scores, chosen)[1]
    group_mask = like(group_scores, "zeros", "bool")
    masked = masked_fill(grouped, unsqueeze(group_mask, len(group_mask.shape)))
    del group_idx
    return reshape(masked, scores.shape)


def _routed(
    x: Tensor,
    top_scores: Tensor,
    expert_ids: Tensor,
    weights: Weights,
    part: Experts,
    *,
    parallel: bool,
    compiled: bool,
) -> Tensor:
    """`RoutedExperts.forward`: dispatch, experts, combine."""
    tape = x.tape
    permutation = sort(expert_ids)[1]
    sorted_scores = take(top_scores, permutation, 0)
    token_indices = like(permutation, "floor_divide")
    del permutation
    routed_input = take(x, token_indices, 1)
    sent = routed_input.shape
    if parallel:
        routed_input, permuted_indices = _dispatched(routed_input)
    routed_output = _experts(routed_input, weights, part, compiled=compiled)
    combined = _combined(routed_output, permuted_indices, sent) if parallel else routed_output
    out = like(x, "zeros")
    with tape.module("token_dispatcher"):
        factor = unsqueeze(sorted_scores, len(sorted_scores.shape))
        weighted = _weighted(combined, factor) if compiled else to(mul(to(combined, "fp32"), factor), x.dtype)
        del factor
        del combined
        return _scattered(out, weighted, token_indices)


def _dispatched(routed_input: Tensor) -> tuple[Tensor, Tensor]:
    """Rows go to the ranks of their experts, and are put in the order of experts there (`_permute`)."""
    tape, width = routed_input.tape, routed_input.shape[-1]
    received = all_to_all(routed_input, (ROWS, width))
    segments = new(tape, (ROWS,), "int64", "row_segments")
    starts = take(Tensor(tape, None, (ROWS,), "int64"), segments, 0)
    numbers = like(starts, "arange")
    starts = like(starts, "add")
    del numbers
    offsets = like(starts, "index")
    permuted_indices = like(starts, "sub")
    del offsets, starts, segments
    return take(received, permuted_indices, 1), permuted_indices


def _combined(routed_output: Tensor, permuted_indices: Tensor, sent: Shape) -> Tensor:
    """Rows are put back in the order in which they came, and return (`_unpermute`)."""
    return all_to_all(put(routed_output, permuted_indices), sent)


def put(values: Tensor, indices: Tensor) -> Tensor:
    """`out[indices] = values` in an empty tensor; it saves the indices, and takes the gradient's rows by them."""
    tape = values.tape
    saved = save(tape, indices) if tracked(values) else []
    out = new(tape, values.shape, values.dtype, "empty")
    if tracked(values):
        attach([out], [values], saved, lambda g, s: [like(only(g), "index")])
    return out


def all_to_all(x: Tensor, shape: Shape) -> Tensor:
    """Rows to other ranks, and rows from them; the gradients go back."""
    tape, before = x.tape, x.shape
    x = contiguous(x)
    (out,) = selectable(tape, "all_to_all", lambda: [new(tape, shape, x.dtype, "all_to_all")])
    if tracked(x):

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            return [new(tape, before, only(gradients).dtype, "all_to_all")]

        attach([out], [x], [], apply)
    return out


def _weighted(x: Tensor, factor: Tensor) -> Tensor:
    """Rows times their scores in one kernel, which keeps the rows as they are."""
    needs = tracked(x, factor)
    saved = save(x.tape, x, factor) if needs else []
    out = like(x, "fused_product")
    if needs:

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            return [like(only(gradients), "fused_product_backward"), like(saved[1], "fused_product_backward")]

        attach([out], [x, factor], saved, apply)
    return out


def _experts(x: Tensor, weights: Weights, part: Experts, *, compiled: bool) -> Tensor:
    """`GroupedExperts.forward`."""
    tape, (gate, down, up) = x.tape, part.experts
    with tape.module("experts"):
        offsets = new(tape, gate.axes[0], "int32", "cumsum")
        h = grouped_mm(x, weights[gate.name], offsets, gate.axes[1])
        if compiled:
            h = gated(h, grouped_mm(x, weights[up.name], offsets, up.axes[1]))
        else:
            h = ACTIVATIONS[part.activation](h)
            h = mul(h, grouped_mm(x, weights[up.name], offsets, up.axes[1]))
        return grouped_mm(h, weights[down.name], offsets, down.axes[1])


def _scattered(out: Tensor, source: Tensor, indices: Tensor) -> Tensor:
    """`deterministic_scatter_add`: a new tensor; it saves the indices, by which the gradient's rows are taken."""
    tape, shape = source.tape, source.shape
    saved = save(tape, indices) if tracked(source) else []
    result = like(out, "scatter_add")
    if tracked(source):
        attach([result], [source], saved, lambda g, s: [new(tape, shape, only(g).dtype, "gather")])
    return result
