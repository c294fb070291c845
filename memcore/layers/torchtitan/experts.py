"""torchtitan's routed experts: a router, tokens sent to the ranks of their experts, grouped products, and back.

Source: torchtitan/models/common/moe.py (August 2026). Local variables live as long here as they do there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from memcore.layers.compiled import gated, pointwise
from memcore.layers.tensor_parallel import prepared
from memcore.layers.torchtitan.dispatch import DISPATCHERS
from memcore.layers.torchtitan.dispatch import Experts as Routed
from memcore.layers.torchtitan.gpt_oss import interleaved_experts
from memcore.layers.torchtitan.parts import feed_forward
from memcore.layers.transformers.context import Weights, leaf, project
from memcore.networks.parts import Experts
from memcore.networks.separate_experts import FUSED_GATE, INTERLEAVED
from memcore.symbols import Quotient
from memcore.tensors.arithmetic import add_buffer, divide, sigmoid, total
from memcore.tensors.basics import identity, like, new, to
from memcore.tensors.grouped import Delayed, grouped_mm
from memcore.tensors.indexing import gather, topk
from memcore.tensors.operations import ACTIVATIONS, add, add_scalar, linear, mul, scale, softmax
from memcore.tensors.running import masked_fill
from memcore.tensors.sharded import from_replica, replica, sum_to_parts
from memcore.tensors.slices import reshape, unsqueeze
from memcore.tensors.tensor import Tensor

SCORES: Mapping[str, str] = {
    "deepseek_v3": "sigmoid",
    "deepseek_v2": "softmax",
    "qwen": "softmax",
    INTERLEAVED: "softmax",
    "nemotron_h": "sigmoid",
    "minimax_m2": "sigmoid",
}
"""How the router scores experts, by `Experts.variant`: those that ranks can share."""


def can_share(part: Experts) -> bool:
    """Return whether ranks can have a part each of a layer's experts."""
    tensors = (4,) if part.variant == INTERLEAVED else (2, 3)
    return part.variant in SCORES and not part.routing and len(part.experts) in tensors


def mixture(
    x: Tensor, weights: Weights, part: Experts, *, dispatcher: str, compiled: bool = False, delays: bool = False
) -> Tensor:
    """`MoE.forward`, over a tensor-parallel rank's own tokens, or over all tokens where ranks share every expert.

    `delays`: weight gradients of routed experts wait for all gradients of inputs.
    """
    tape = x.tape
    if tape.parallel is not None and dispatcher == "local":
        return _shared_by_all(x, weights, part, compiled=compiled)
    with tape.module(part.module):
        x = identity(x)
        top_scores, expert_ids, scores = _route(x, weights, part)
        routing_map = like(scores, "zeros", "bool")
        counts = new(tape, part.router.outer, "int64", "sum")
        run = partial(_experts, weights=weights, part=part, compiled=compiled, delayed=Delayed() if delays else None)
        routed = Routed(run, compiled, weighs=FUSED_GATE in part.options)
        sent = project(x, weights, part.latent[0]) if part.latent else x
        out = DISPATCHERS[dispatcher](sent, top_scores, expert_ids, routed)
        del routing_map, sent
        if part.latent:
            out = project(out, weights, part.latent[1])
        if part.shared is not None:
            shared = feed_forward(prepared(x), weights, part.shared, leaf(part.shared.module), compiled=compiled)
            if part.shared_gate is not None:
                shared = mul(sigmoid(project(x, weights, part.shared_gate)), shared)
            out = add(out, shared)
        del counts, expert_ids
        return out


MIXTURES: Mapping[str, Callable[..., Tensor]] = {
    name: partial(mixture, dispatcher=name) for name in DISPATCHERS if name != "local"
}
"""Runs experts that are sharded among ranks, by token dispatcher."""


def _shared_by_all(x: Tensor, weights: Weights, part: Experts, *, compiled: bool) -> Tensor:
    """Each rank has a part of the width of every expert; the sum over ranks of all results is scattered at once.

    Source: torchtitan 0.2.2, models/llama4/infra/parallelize.py (`apply_moe_ep_tp`: `PrepareModuleInputOutput` around
    the module, `NoParallel` of the gate), distributed/expert_parallel.py (`TensorParallel`).
    """
    tape = x.tape
    with tape.module(part.module):
        everything = replica(x, 1)
        parallel, tape.parallel = tape.parallel, None
        top_scores, expert_ids, scores = _route(everything, weights, part)
        routing_map = like(scores, "zeros", "bool")
        counts = new(tape, part.router.outer, "int64", "sum")
        run = partial(_experts, weights=weights, part=part, compiled=compiled, delayed=None)
        routed = Routed(lambda rows, factor: run(from_replica(rows), factor), compiled)
        out = DISPATCHERS["local"](everything, top_scores, expert_ids, routed)
        del routing_map
        if part.shared is not None:
            given = from_replica(everything)
            out = add(out, feed_forward(given, weights, part.shared, leaf(part.shared.module), compiled=compiled))
        del counts, expert_ids
        tape.parallel = parallel
        return sum_to_parts(out, 1)


def _route(x: Tensor, weights: Weights, part: Experts) -> tuple[Tensor, Tensor, Tensor]:
    """`TokenChoiceTopKRouter.forward`: the gate, whose product selective checkpoints always compute again.

    It is in fp32; in the dtype of tokens (NeMo Automodel, components/moe/layers.py, `Gate`) where scores are factors
    of the experts' activation.
    """
    tape = x.tape
    with tape.module(leaf(part.router.name)), tape.selecting(lambda operation, make: make()):
        dtype = x.dtype if FUSED_GATE in part.options else "fp32"
        upcast = to(x, dtype)
        weight = weights[f"{part.router.name}.weight"]
        weight.partial = tape.parallel is not None  # each tensor-parallel rank routes its own tokens
        bias = to(weights[f"{part.router.name}.bias"], dtype) if part.router.bias else None
        gate = to(weight, dtype)
        scores = to(linear(upcast, gate, bias), "fp32")
        del upcast, gate, bias
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


def _experts(
    x: Tensor, scores: Tensor | None, weights: Weights, part: Experts, *, compiled: bool, delayed: Delayed | None
) -> Tensor:
    """`GroupedExperts.forward`; scores are factors of the activation where it is one kernel whatever else is."""
    factor = None if scores is None else unsqueeze(scores, len(scores.shape))
    if part.variant == INTERLEAVED:
        return interleaved_experts(x, factor, weights, part, compiled=compiled)
    tape, (gate, down, *ups) = x.tape, part.experts
    with tape.module("experts"):
        if delayed is not None:
            x = identity(x)
            if x.node is not None:
                x.node.before.append(delayed.pop)
        offsets = new(tape, gate.axes[0], "int32", "cumsum")
        h = grouped_mm(x, weights[gate.name], offsets, gate.axes[1], delayed)
        if factor is not None:
            h = pointwise(h, *(grouped_mm(x, weights[up.name], offsets, up.axes[1], delayed) for up in ups), factor)
        elif compiled:
            h = gated(h, *(grouped_mm(x, weights[up.name], offsets, up.axes[1], delayed) for up in ups))
        else:
            h = ACTIVATIONS[part.activation](h)
            for up in ups:
                h = mul(h, grouped_mm(x, weights[up.name], offsets, up.axes[1], delayed))
        return grouped_mm(h, weights[down.name], offsets, down.axes[1], delayed)
