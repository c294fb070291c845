"""Experts of families with code of their own: Llama 4's see every token, DBRX's run one after the other."""

from __future__ import annotations

from dataclasses import replace

from memcore.layers.transformers.context import Context, Weights, leaf, project
from memcore.layers.transformers.feed_forward import feed_forward
from memcore.networks.parts import Experts
from memcore.symbols import Quotient, Shape, Shifted
from memcore.tensors.arithmetic import add_in_place, divide, sigmoid, total
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import clone, identity, like, new, only, permute, split, to, unmerged, view
from memcore.tensors.grouped import batched_mm
from memcore.tensors.indexing import take, topk
from memcore.tensors.moments import repeat_first
from memcore.tensors.operations import ACTIVATIONS, linear, mul, softmax
from memcore.tensors.reshaping import insert, select
from memcore.tensors.tensor import Tensor


def jittered(hidden_states: Tensor) -> Tensor:
    """`hidden_states *= noise`, which is kept."""
    noise = like(hidden_states, "random")
    out = view(hidden_states, hidden_states.shape, hidden_states.order)
    if tracked(hidden_states):
        saved = save(hidden_states.tape, noise)
        attach([out], [hidden_states], saved, lambda g, s: [like(only(g), "mul_backward")])
    return out


def jittered_view(hidden_states: Tensor) -> Tensor:
    """Jitter a view: the gradient of what it views is copied, its slice once more (`CopySlices`)."""
    noise = like(hidden_states, "random")
    out = view(hidden_states, hidden_states.shape, hidden_states.order)

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        rest = like(only(gradients), "copy_slices")
        like(like(only(gradients), "copy_slices"), "mul_backward")
        return [rest]

    if tracked(hidden_states):
        attach([out], [hidden_states], save(hidden_states.tape, noise), apply)
    return out


# Llama 4: every expert runs over every token, multiplied by a score that is zero for most.


def llama4(hidden_states: Tensor, weights: Weights, part: Experts, context: Context) -> Tensor:
    """`Llama4TextMoe`."""
    if part.shared is None:
        raise TypeError(part)
    with hidden_states.tape.module(part.module):
        hidden_states = identity(hidden_states)
        router_scores, _router_logits = _llama4_router(hidden_states, weights, part)
        routed_in = repeat_first(hidden_states, part.router.outer[0])
        routed_in = mul(routed_in, insert(clone(permute(router_scores, 2, 0, 1)), 3))
        routed_out = _llama4_experts(routed_in, weights, part)
        out = feed_forward(hidden_states, weights, replace(part.shared, module=leaf(part.shared.module)), context)
        return add_in_place(out, total(unmerged(routed_out, 0), 0))


def _llama4_router(hidden_states: Tensor, weights: Weights, part: Experts) -> tuple[Tensor, Tensor]:
    with hidden_states.tape.module(leaf(part.router.name)):
        router_logits = linear(hidden_states, weights[f"{part.router.name}.weight"])
        router_top_value, router_indices = topk(router_logits, part.routed)
        router_scores = _scattered(router_logits, router_indices, router_top_value)
        router_scores = to(sigmoid(to(router_scores, "fp32")), router_scores.dtype)
        return router_scores, router_logits


def _scattered(x: Tensor, index: Tensor, values: Tensor) -> Tensor:
    """Values written by index into a tensor like x."""
    saved = save(x.tape, index) if tracked(values) else []
    out = like(x, "scatter")
    if tracked(values):
        tape, shape = x.tape, values.shape
        attach([out], [values], saved, lambda g, s: [new(tape, shape, only(g).dtype, "gather")])
    return out


def _llama4_experts(hidden_states: Tensor, weights: Weights, part: Experts) -> Tensor:
    up_weight, down_weight = part.experts
    with hidden_states.tape.module("experts"):
        gate_up = batched_mm(hidden_states, weights[up_weight.name], up_weight.axes[2])
        gate, up = split(gate_up, (*gate_up.shape[:-2], gate_up.shape[-1]), 2, cut=len(gate_up.shape) - 2)
        return batched_mm(mul(up, ACTIVATIONS[part.activation](gate)), weights[down_weight.name], down_weight.axes[2])


# DBRX.


def dbrx(hidden_states: Tensor, weights: Weights, part: Experts, context: Context) -> Tensor:
    """`DbrxFFN`."""
    with hidden_states.tape.module(part.module):
        with hidden_states.tape.module("router"):
            if "jittered" in part.options:
                hidden_states = jittered(hidden_states)
            router_logits = project(identity(hidden_states), weights, part.router)
        top_k_weights, top_k_index = _dbrx_route(router_logits, part)
        with hidden_states.tape.module("experts"):
            return _dbrx_experts(hidden_states, top_k_index, top_k_weights, weights, part)


def _dbrx_route(router_logits: Tensor, part: Experts) -> tuple[Tensor, Tensor]:
    router_logits = softmax(router_logits, router_logits.dtype)
    router_top_value, router_indices = topk(router_logits, part.routed)
    if "normalized" in part.options:
        router_top_value = divide(router_top_value, _norm(router_top_value))
    return router_top_value, router_indices


def _norm(x: Tensor) -> Tensor:
    """Return the sum of absolute values (`torch.norm`, p=1); saves x and its result."""
    tape = x.tape
    saved = save(tape, x) if tracked(x) else []
    out = new(tape, (*x.shape[:-1], 1), "fp32" if tape.autocast else x.dtype, "norm")

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        signs = like(saved[0], "norm_backward")
        result = like(saved[0], "norm_backward", only(gradients).dtype)
        del signs
        return [result]

    if tracked(x):
        attach([out], [x], saved + save(tape, out), apply)
    return out


def _dbrx_experts(
    hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor, weights: Weights, part: Experts
) -> Tensor:
    """`DbrxExperts`: a loop over experts, each of which sees as many tokens as any other here."""
    tape, experts = hidden_states.tape, part.router.outer[0]
    rows: Shape = (Quotient(top_k_index.shape, experts),)
    hidden_states = identity(hidden_states)
    next_states = like(hidden_states, "zeros")
    one_hot: Shape = (*top_k_index.shape, Shifted(experts, 1, 1))
    expert_mask = new(tape, one_hot, "int64", "one_hot")
    for _ in range(part.loops):
        places = new(tape, (2, *rows), "int64", "nonzero")
        v1, w1, w2 = (select(identity(weights[part.experts[i].name]), 0) for i in (1, 0, 2))
        states = _dbrx_mlp(take(hidden_states, view(places, rows), 1), w1, v1, w2, part)
        states = mul(states, insert(_at(top_k_weights, places, rows), 1))
        next_states = _index_add(next_states, view(places, rows), states)
    del expert_mask
    return identity(next_states)


def _dbrx_mlp(x: Tensor, expert_w1: Tensor, expert_v1: Tensor, expert_w2: Tensor, part: Experts) -> Tensor:
    with x.tape.module("mlp"):
        gate_proj = linear(x, expert_w1)
        up_proj = linear(x, expert_v1)
        gate_proj = ACTIVATIONS[part.activation](gate_proj)
        intermediate_states = mul(gate_proj, up_proj)
        return batched_mm(intermediate_states, expert_w2, expert_w2.shape[1:])


def _at(x: Tensor, places: Tensor, rows: Shape) -> Tensor:
    """`x[token, place]`."""
    tape, full = x.tape, x.shape
    saved = save(tape, places, places) if tracked(x) else []
    out = new(tape, rows, x.dtype, "index")
    if tracked(x):
        attach([out], [x], saved, lambda g, s: [new(tape, full, only(g).dtype, "index_backward")])
    return out


def _index_add(x: Tensor, index: Tensor, rows: Tensor) -> Tensor:
    """`x.index_add_(0, index, rows)`: saves both."""
    saved = save(x.tape, index, rows)
    out = view(x, x.shape)
    attach([out], [x, rows], saved, lambda g, s: [g[0], like(s[1], "index_select", only(g).dtype)])
    return out
