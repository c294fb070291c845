"""Sparse feed-forward layers of transformers: a router, experts, and perhaps an expert that sees every token.

Experts run as grouped matrix products, the default on GPUs of compute capability 8 or more (integrations/moe.py): b·s·e
rows in all, however tokens spread over the experts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from memcore.layers.transformers.context import Context, Weights, leaf, project
from memcore.layers.transformers.expert_adapters import folding
from memcore.layers.transformers.feed_forward import feed_forward
from memcore.layers.transformers.norms import norm
from memcore.layers.transformers.own_experts import dbrx, jittered, jittered_view, llama4
from memcore.layers.transformers.routers import route
from memcore.layers.transformers.sinks import compiled_gate
from memcore.networks.parts import Experts, FeedForward, Ffn
from memcore.networks.weights import Norm, Weight
from memcore.tensors.arithmetic import add_in_place, sigmoid, total
from memcore.tensors.autograd import attach, tracked
from memcore.tensors.basics import identity, like, new, only, split, to, unmerged, view
from memcore.tensors.grouped import grouped_mm
from memcore.tensors.indexing import sort, take
from memcore.tensors.operations import ACTIVATIONS, add, add_scalar, mul, scale
from memcore.tensors.quantized import quantized_experts, whole
from memcore.tensors.running import clamp
from memcore.tensors.slices import unsqueeze
from memcore.tensors.tensor import Parameter, Tensor
from memcore.tensors.tiled import tiled


def run_experts(
    hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor, weights: Weights, part: Experts
) -> Tensor:
    """`grouped_mm_experts_forward`: rows sorted by expert, two grouped products, and back."""
    tape, (up, down), (up_bias, down_bias) = hidden_states.tape, *_matrices(part)
    with tape.module("experts"):
        folded = folding(weights, part)
        expert_ids_g, perm = sort(top_k_index)
        selected_hidden_states_g = take(hidden_states, like(perm, "floor_divide"), 1)
        sample_weights_g = take(top_k_weights, perm, 0)
        _histc_input = like(expert_ids_g, "to", "int32")
        tokens_per_expert = new(tape, up.axes[0], "int32", "histc")
        offsets = like(tokens_per_expert, "cumsum")
        selected_biases = _selected(up_bias, weights, expert_ids_g)
        proj_out = _grouped_linear(selected_hidden_states_g, folded(up), up, offsets, selected_biases)
        proj_out = _apply_gate(proj_out, part)
        selected_biases = _selected(down_bias, weights, expert_ids_g)
        proj_out = _grouped_linear(proj_out, folded(down), down, offsets, selected_biases)
        weighted_out = mul(proj_out, unsqueeze(sample_weights_g, len(sample_weights_g.shape)))
        inv_perm = like(perm, "empty")
        like(perm, "arange")
        weighted_out = take(weighted_out, inv_perm, 1)
        final_hidden_states = total(unmerged(weighted_out, 0), -2)
        return to(final_hidden_states, hidden_states.dtype)


def _matrices(part: Experts) -> tuple[tuple[Weight, Weight], tuple[Weight | None, Weight | None]]:
    """Return the matrices into and out of the experts, and their biases."""
    if len(part.experts) == 2:
        up, down = part.experts
        return (up, down), (None, None)
    up, up_bias, down, down_bias = part.experts
    return (up, down), (up_bias, down_bias)


def _selected(bias: Weight | None, weights: Weights, expert_ids: Tensor) -> Tensor | None:
    return None if bias is None else take(weights[bias.name], expert_ids, len(bias.inner))


def _grouped_linear(x: Tensor, matrices: Tensor, weight: Weight, offsets: Tensor, bias: Tensor | None) -> Tensor:
    outer = next(axes for axes in weight.axes[1:] if axes != x.shape[-1:])
    if isinstance(matrices, Parameter) and matrices.quantization is not None:
        if not matrices.quantization.whole:
            return quantized_experts(x, matrices, matrices.quantization, outer)
        matrices = whole(matrices, x.dtype)
    out = grouped_mm(x, matrices, offsets, outer)
    return out if bias is None else add_in_place(out, bias)


def _apply_gate(gate_up: Tensor, part: Experts) -> Tensor:
    if not part.gated:
        return _act(gate_up, part)
    if part.variant == "gpt_oss":
        # unsloth_zoo, temporary_patches/gpt_oss.py (`swiglu_torch_forward`), is compiled.
        return compiled_gate(gate_up, gate_up.shape[-1:]) if gate_up.tape.fuses_lora else _interleaved_gate(gate_up)
    gate, up = split(gate_up, (*gate_up.shape[:-2], gate_up.shape[-1]), 2, cut=len(gate_up.shape) - 2)
    if part.variant == "deepseek_v4":
        gate = clamp(gate, bounds=1)
        up = clamp(up)
    return mul(_act(gate, part), up)


def _act(x: Tensor, part: Experts) -> Tensor:
    with x.tape.module("act_fn"):
        return ACTIVATIONS[part.activation](x)


def _interleaved_gate(gate_up: Tensor) -> Tensor:
    """gpt-oss: gate and up are every other column."""
    gate, up = _every_other(gate_up), _every_other(gate_up)
    gate = clamp(gate, bounds=1)
    up = clamp(up)
    glu = mul(gate, sigmoid(scale(gate)))
    return mul(add_scalar(up), glu)


def _every_other(x: Tensor) -> Tensor:
    tape, full = x.tape, x.shape
    out = view(x, (*full[:-2], full[-1]), cut=len(full) - 2)
    if tracked(x):
        attach([out], [x], [], lambda g, s: [new(tape, full, only(g).dtype, "slice_backward")])
    return out


def _shared(hidden_states: Tensor, weights: Weights, part: FeedForward, context: Context) -> Tensor:
    return feed_forward(hidden_states, weights, replace(part, module=leaf(part.module)), context)


def _plain(hidden_states: Tensor, weights: Weights, part: Experts, context: Context) -> Tensor:
    """Routed experts alone."""
    with hidden_states.tape.module(part.module):
        if "jittered" in part.options:
            hidden_states = jittered(hidden_states)
        hidden_states = identity(hidden_states)
        _, top_k_weights, top_k_index = route(hidden_states, weights, part)
        return run_experts(hidden_states, top_k_index, top_k_weights, weights, part)


def _gpt_oss(hidden_states: Tensor, weights: Weights, part: Experts, context: Context) -> Tensor:
    """Unsloth's tiles hold the router, too (unsloth_zoo/tiled_mlp.py, `patch_tiled_mlp`: the whole module)."""
    if not hidden_states.tape.tiles:
        return _plain(hidden_states, weights, part, context)
    return tiled(lambda tile: _plain(tile, weights, part, context), hidden_states, (), written=True)


def _phimoe(hidden_states: Tensor, weights: Weights, part: Experts, context: Context) -> Tensor:
    """Block and router multiply the hidden states by noise."""
    if "jittered" not in part.options:
        return _plain(hidden_states, weights, part, context)
    with hidden_states.tape.module(part.module):
        hidden_states = jittered(hidden_states)
        with hidden_states.tape.module("router"):
            hidden_states = jittered_view(hidden_states)
        _, routing_weights, selected_experts = route(hidden_states, weights, part)
        return run_experts(hidden_states, selected_experts, routing_weights, weights, part)


def _qwen(hidden_states: Tensor, weights: Weights, part: Experts, context: Context) -> Tensor:
    """The shared expert runs first and has a gate of its own."""
    if part.shared is None or part.shared_gate is None:
        return _plain(hidden_states, weights, part, context)
    with hidden_states.tape.module(part.module):
        hidden_states = identity(hidden_states)
        shared_expert_output = _shared(hidden_states, weights, part.shared, context)
        _, routing_weights, selected_experts = route(hidden_states, weights, part)
        expert_output = run_experts(hidden_states, selected_experts, routing_weights, weights, part)
        gate = sigmoid(project(hidden_states, weights, part.shared_gate))
        shared_expert_output = mul(gate, shared_expert_output)
        del gate
        return add(expert_output, shared_expert_output)


def _shared_first(hidden_states: Tensor, weights: Weights, part: Experts, context: Context) -> Tensor:
    """HunYuan, ERNIE 4.5: the shared expert runs first, and is added last."""
    if part.shared is None:
        return _plain(hidden_states, weights, part, context)
    with hidden_states.tape.module(part.module):
        if part.variant == "ernie":
            hidden_states = identity(hidden_states)
        shared_output = _shared(hidden_states, weights, part.shared, context)
        if part.variant == "hunyuan":
            hidden_states = identity(hidden_states)
        _, top_k_weights, top_k_index = route(hidden_states, weights, part)
        final_hidden_states = run_experts(hidden_states, top_k_index, top_k_weights, weights, part)
        final_hidden_states = add(final_hidden_states, shared_output)
        return to(final_hidden_states, hidden_states.dtype)


def _shared_last(hidden_states: Tensor, weights: Weights, part: Experts, context: Context) -> Tensor:
    """DeepSeek: the shared expert runs last. Nemotron's experts work in a smaller width."""
    if part.shared is None:
        return _plain(hidden_states, weights, part, context)
    with hidden_states.tape.module(part.module):
        residuals = hidden_states
        _, topk_weights, topk_indices = route(hidden_states, weights, part)
        hidden_states = identity(hidden_states)
        if part.latent:
            hidden_states = project(hidden_states, weights, part.latent[0])
        hidden_states = run_experts(hidden_states, topk_indices, topk_weights, weights, part)
        if part.latent:
            hidden_states = project(hidden_states, weights, part.latent[1])
        return add(hidden_states, _shared(residuals, weights, part.shared, context))


def _deepseek_v4(hidden_states: Tensor, weights: Weights, part: Experts, context: Context) -> Tensor:
    """The shared expert's gate and up projection are clamped, too."""
    with hidden_states.tape.module(part.module):
        residual = hidden_states
        flat = identity(hidden_states)
        if part.correction is not None:
            part = replace(part, correction=replace(part.correction, dtype=context.buffers))
        _, top_k_weights, indices = route(hidden_states, weights, part)
        routed = run_experts(flat, indices, top_k_weights, weights, part)
        return routed if part.shared is None else add(routed, _clamped(residual, weights, part.shared))


def _clamped(x: Tensor, weights: Weights, part: FeedForward) -> Tensor:
    if part.gate is None:
        raise TypeError(part)
    with x.tape.module(leaf(part.module)):
        gate = clamp(project(x, weights, part.gate), bounds=1)
        up = clamp(project(x, weights, part.up))
        return project(mul(ACTIVATIONS[part.activation](gate), up), weights, part.down)


def _hy_v3(hidden_states: Tensor, weights: Weights, part: Experts, context: Context) -> Tensor:
    if part.shared is None:
        return _plain(hidden_states, weights, part, context)
    with hidden_states.tape.module(part.module):
        hidden_states = identity(hidden_states)
        _, top_k_weights, top_k_index = route(hidden_states, weights, part)
        routed_output = run_experts(hidden_states, top_k_index, top_k_weights, weights, part)
        dtype = hidden_states.dtype
        if "fp32-sum" in part.options:
            routed = to(routed_output, "fp32")
            shared = to(_shared(hidden_states, weights, part.shared, context), "fp32")
            both = add(routed, shared)
            del routed, shared
            return to(both, dtype)
        return add(routed_output, _shared(hidden_states, weights, part.shared, context))


def moe_branch(residual: Tensor, weights: Weights, part: Ffn) -> tuple[Tensor, ...]:
    """Run the experts of a Gemma 4 layer after its dense feed-forward block; local variables keep tensors alive."""
    if not isinstance(part, Experts):
        raise TypeError(part)
    hidden_states_flat = identity(residual)
    probabilities, top_k_weights, top_k_index = route(hidden_states_flat, weights, part)
    hidden_states = norm(hidden_states_flat, weights, Norm("pre_feedforward_layernorm_2", "rms-power"))
    hidden_states = run_experts(hidden_states, top_k_index, top_k_weights, weights, part)
    return hidden_states, probabilities, top_k_weights, top_k_index


def _gemma4(residual: Tensor, weights: Weights, part: Experts, context: Context) -> Tensor:
    return moe_branch(residual, weights, part)[0]


BLOCKS: Mapping[str, Callable[[Tensor, Weights, Experts, Context], Tensor]] = {
    **dict.fromkeys(("mixtral", "granite", "minimax_m2", "lfm2", "jamba"), _plain),
    "gpt_oss": _gpt_oss,
    **dict.fromkeys(("deepseek_v2", "deepseek_v3", "mistral4", "nemotron_h"), _shared_last),
    **dict.fromkeys(("hunyuan", "ernie"), _shared_first),
    "phimoe": _phimoe,
    "qwen": _qwen,
    "llama4": llama4,
    "dbrx": dbrx,
    "hy_v3": _hy_v3,
    "deepseek_v4": _deepseek_v4,
    "gemma4": _gemma4,
}
"""By `Experts.variant`."""
