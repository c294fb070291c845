"""Routers of transformers: which experts every token goes to, and with which weights.

Each returns the router's logits, which its caller holds on to, the weights, and the indices of the chosen experts.
Where the original reshapes its input, the view is a graph node of its own and decides when gradients are added up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memcore.layers.transformers.context import leaf
from memcore.layers.transformers.expert_adapters import with_router
from memcore.layers.transformers.norms import norm
from memcore.layers.transformers.sparsemixer import sparsemixer
from memcore.networks.parts import Experts
from memcore.networks.weights import Norm
from memcore.symbols import Quotient
from memcore.tensors.arithmetic import add_buffer, divide, divide_in_place, sigmoid, total
from memcore.tensors.basics import identity, like, new, to, view
from memcore.tensors.indexing import gather, largest, take, topk
from memcore.tensors.operations import add, add_scalar, linear, mul, scale, softmax, sqrt
from memcore.tensors.running import clamp, masked_fill, softplus
from memcore.tensors.slices import reshape
from memcore.tensors.tensor import Tensor

Matrices = Mapping[str, Tensor]
"""Parameters by name, or what an adapter makes of them."""
Routed = tuple[Tensor, Tensor, Tensor]
"""Logits, weights and indices."""


def route(hidden_states: Tensor, weights: Matrices, part: Experts) -> Routed:
    """Run the part's router."""
    module, _, name = part.router.name.rpartition(".")
    with hidden_states.tape.module(name if module == part.module else leaf(module)):
        return ROUTERS[part.variant](hidden_states, with_router(weights, part.router), part)


def _logits(hidden_states: Tensor, weights: Matrices, part: Experts) -> Tensor:
    name = part.router.name
    return linear(hidden_states, weights[f"{name}.weight"], weights.get(f"{name}.bias"))


def _logits_fp32(hidden_states: Tensor, weights: Matrices, part: Experts) -> Tensor:
    return linear(to(hidden_states, "fp32"), to(weights[f"{part.router.name}.weight"], "fp32"))


def _normalized(weights: Tensor) -> Tensor:
    return divide_in_place(weights, total(weights, keepdim=True))


def _corrected(scores: Tensor, part: Experts) -> Tensor:
    if part.correction is None:
        raise TypeError(part)
    return add_buffer(scores, part.correction.dtype or scores.dtype)


# Softmax over all experts, then the best of them.


def _mixtral(hidden_states: Tensor, weights: Matrices, part: Experts) -> Routed:
    hidden_states = identity(hidden_states)
    router_logits = _logits(hidden_states, weights, part)
    router_probs = softmax(to(router_logits, "fp32"))
    router_top_value, router_indices = topk(router_probs, part.routed)
    router_top_value = _normalized(router_top_value)
    return router_logits, router_top_value, router_indices


def _qwen(hidden_states: Tensor, weights: Matrices, part: Experts) -> Routed:
    hidden_states = identity(hidden_states)
    router_logits = _logits(hidden_states, weights, part)
    router_probs = softmax(router_logits, "fp32")
    router_top_value, router_indices = topk(router_probs, part.routed)
    if "normalized" in part.options:
        router_top_value = _normalized(router_top_value)
    router_top_value = to(router_top_value, router_logits.dtype)
    return router_logits, router_top_value, router_indices


def _jamba(hidden_states: Tensor, weights: Matrices, part: Experts) -> Routed:
    router_logits = _logits(hidden_states, weights, part)
    routing_weights = softmax(router_logits, "fp32")
    top_k_weights, top_k_index = topk(routing_weights, part.routed)
    return router_logits, to(top_k_weights, hidden_states.dtype), top_k_index


def _hunyuan(hidden_states: Tensor, weights: Matrices, part: Experts) -> Routed:
    hidden_states = identity(hidden_states)
    weight = weights[f"{part.router.name}.weight"]
    if weight.dtype == "fp32":
        hidden_states = to(hidden_states, "fp32")
    router_logits = linear(hidden_states, weight)
    routing_weights = softmax(router_logits, "fp32")
    routing_weights, selected_experts = topk(routing_weights, part.routed)
    routing_weights = _normalized(routing_weights)
    return router_logits, to(routing_weights, router_logits.dtype), selected_experts


def _ernie(hidden_states: Tensor, weights: Matrices, part: Experts) -> Routed:
    with hidden_states.tape.without_autocast():
        router_logits = _logits_fp32(hidden_states, weights, part)
        routing_weights = softmax(router_logits, "fp32")
        _, selected_experts = topk(add(routing_weights, weights[part.routing[0].name]), part.routed)
        routing_weights = gather(routing_weights, selected_experts)
        routing_weights = divide(routing_weights, clamp(total(routing_weights, keepdim=True), bounds=1))
    routing_weights = to(routing_weights, hidden_states.dtype)
    return router_logits, routing_weights, selected_experts


def _deepseek_v2(hidden_states: Tensor, weights: Matrices, part: Experts) -> Routed:
    hidden_states = identity(hidden_states)
    router_logits = _logits_fp32(hidden_states, weights, part)
    scores = softmax(router_logits, "fp32")
    if part.groups is not None:
        scores, *_kept = _within_groups(scores, part, by_sum=False)
    topk_weights, topk_indices = topk(scores, part.routed)
    topk_weights = scale(topk_weights)
    return router_logits, topk_weights, topk_indices


def _phimoe(hidden_states: Tensor, weights: Matrices, part: Experts) -> Routed:
    router_logits = _logits(hidden_states, weights, part)
    routing_weights, selected_experts = sparsemixer(router_logits)
    return router_logits, routing_weights, selected_experts


# The best logits, then softmax over them.


def _granite(hidden_states: Tensor, weights: Matrices, part: Experts) -> Routed:
    router_logits = to(_logits(hidden_states, weights, part), "fp32")
    top_k_logits, top_k_index = topk(router_logits, part.routed)
    top_k_weights = to(softmax(top_k_logits), hidden_states.dtype)
    return router_logits, top_k_weights, top_k_index


def _gpt_oss(hidden_states: Tensor, weights: Matrices, part: Experts) -> Routed:
    router_logits = _logits(hidden_states, weights, part)
    router_top_value, router_indices = topk(router_logits, part.routed)
    router_scores = softmax(router_top_value, router_top_value.dtype)
    return router_logits, router_scores, router_indices


# Sigmoid scores, and a buffer that corrects the choice.


def _deepseek_v3(hidden_states: Tensor, weights: Matrices, part: Experts) -> Routed:
    hidden_states = identity(hidden_states)
    router_logits = _logits_fp32(hidden_states, weights, part)
    scores = sigmoid(router_logits)
    return _chosen(router_logits, scores, part)


def _mistral4(hidden_states: Tensor, weights: Matrices, part: Experts) -> Routed:
    hidden_states = identity(hidden_states)
    router_logits = _logits(hidden_states, weights, part)
    scores = softmax(router_logits)
    return _chosen(router_logits, scores, part)


def _chosen(router_logits: Tensor, scores: Tensor, part: Experts) -> Routed:
    """Return the best experts of the best groups, if there are groups."""
    scores_for_choice = scores if part.correction is None else _corrected(scores, part)
    if part.groups is not None:
        scores_for_choice, *_kept = _within_groups(scores_for_choice, part)
    topk_indices = topk(scores_for_choice, part.routed)[1]
    topk_weights = gather(scores, topk_indices)
    if "normalized" in part.options:
        denominator = add_scalar(total(topk_weights, keepdim=True))
        topk_weights = divide_in_place(topk_weights, denominator)
    topk_weights = scale(topk_weights)
    return router_logits, topk_weights, topk_indices


def _within_groups(scores: Tensor, part: Experts, *, by_sum: bool = True) -> list[Tensor]:
    """Scores of experts in the best groups, and what the caller's local variables keep.

    Groups are judged by the sum of their two best experts, or by the best one.
    """
    if part.groups is None:
        raise TypeError(part)
    tape, (groups, chosen) = scores.tape, part.groups
    shape = (*scores.shape[:-1], groups, Quotient(scores.shape[-1:], groups))
    if by_sum:
        group_scores = total(topk(reshape(scores, shape), 2)[0])
    else:
        group_scores = reshape(largest(reshape(scores, shape))[0], shape[:-1])
    group_idx = topk(group_scores, chosen)[1]
    group_mask = like(group_scores, "zeros")
    score_mask = group_mask if groups in tape.units else new(tape, shape, scores.dtype, "clone")
    score_mask = view(score_mask, scores.shape)
    scores = masked_fill(scores, like(like(score_mask, "to", "bool"), "logical_not"))
    return [scores, group_scores, group_idx, group_mask, score_mask]


def _minimax_m2(hidden_states: Tensor, weights: Matrices, part: Experts) -> Routed:
    hidden_states = identity(hidden_states)
    weight = weights[f"{part.router.name}.weight"]
    router_logits = linear(to(hidden_states, weight.dtype), weight)
    routing_weights = sigmoid(to(router_logits, "fp32"))
    scores_for_choice = _corrected(routing_weights, part)
    _, top_k_index = topk(scores_for_choice, part.routed)
    top_k_weights = gather(routing_weights, top_k_index)
    top_k_weights = _normalized(top_k_weights)
    return router_logits, top_k_weights, top_k_index


def _hy_v3(hidden_states: Tensor, weights: Matrices, part: Experts) -> Routed:
    hidden_states = identity(hidden_states)
    router_logits = _logits_fp32(hidden_states, weights, part)
    routing_weights = sigmoid(router_logits)
    scores_for_choice = _corrected(routing_weights, part)
    _, top_k_index = topk(scores_for_choice, part.routed)
    top_k_weights = gather(routing_weights, top_k_index)
    top_k_weights = divide(top_k_weights, add_scalar(total(top_k_weights, keepdim=True)))
    top_k_weights = scale(top_k_weights)
    return router_logits, top_k_weights, top_k_index


def _lfm2(hidden_states: Tensor, weights: Matrices, part: Experts) -> Routed:
    router_logits = _logits(hidden_states, weights, part)
    routing_weights = sigmoid(router_logits)
    if part.correction is not None:
        scores_for_routing = _corrected(routing_weights, part)
        _, selected_experts = topk(scores_for_routing, part.routed)
        routing_weights = to(gather(routing_weights, selected_experts), router_logits.dtype)
    else:
        routing_weights, selected_experts = topk(routing_weights, part.routed)
    if "normalized" in part.options:
        routing_weights = divide(routing_weights, add_scalar(total(routing_weights, keepdim=True)))
    routing_weights = scale(routing_weights)
    return router_logits, routing_weights, selected_experts


def _gemma4(hidden_states: Tensor, weights: Matrices, part: Experts) -> Routed:
    hidden_states = norm(hidden_states, {}, Norm("norm", "rms-power-plain"))
    hidden_states = scale(mul(hidden_states, weights["router.scale"]))
    with hidden_states.tape.module("proj"):
        expert_scores = _logits(hidden_states, weights, part)
    router_probabilities = softmax(expert_scores, "fp32")
    top_k_weights, top_k_index = topk(router_probabilities, part.routed)
    top_k_weights = _normalized(top_k_weights)
    top_k_weights = mul(top_k_weights, take(weights["router.per_expert_scale"], top_k_index, 0))
    return router_probabilities, top_k_weights, top_k_index


def _deepseek_v4(hidden_states: Tensor, weights: Matrices, part: Experts) -> Routed:
    flat = identity(hidden_states)
    logits = _logits(flat, weights, part)
    scores = sqrt(softplus(logits))
    if part.table is not None:
        indices = new(flat.tape, (*flat.shape[:-1], part.routed), "int64", "index")
    else:
        indices = topk(_corrected(scores, part), part.routed)[1]
    chosen = gather(scores, indices)
    chosen = divide(chosen, add_scalar(total(chosen, keepdim=True)))
    return logits, scale(chosen), indices


ROUTERS: Mapping[str, Callable[[Tensor, Matrices, Experts], Routed]] = {
    "mixtral": _mixtral,
    "qwen": _qwen,
    "jamba": _jamba,
    "hunyuan": _hunyuan,
    "ernie": _ernie,
    "deepseek_v2": _deepseek_v2,
    "phimoe": _phimoe,
    "granite": _granite,
    "gpt_oss": _gpt_oss,
    "deepseek_v3": _deepseek_v3,
    "nemotron_h": _deepseek_v3,
    "mistral4": _mistral4,
    "minimax_m2": _minimax_m2,
    "hy_v3": _hy_v3,
    "lfm2": _lfm2,
    "gemma4": _gemma4,
    "deepseek_v4": _deepseek_v4,
}
"""By `Experts.variant`."""
