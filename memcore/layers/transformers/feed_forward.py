"""Dense feed-forward layers of transformers."""

from __future__ import annotations

from functools import partial

from memcore.layers.compiled import activated, gated, gated_halves, unread
from memcore.layers.transformers.context import Context, Weights, adapted, fusable, project
from memcore.layers.transformers.xielu import xielu
from memcore.networks.parts import FeedForward
from memcore.networks.weights import Linear
from memcore.tensors import fused_lora, liger
from memcore.tensors.basics import new, split
from memcore.tensors.moments import std
from memcore.tensors.operations import ACTIVATIONS, add, mean, mul, relu, sub
from memcore.tensors.tensor import Tensor
from memcore.tensors.tiled import tiled


def feed_forward(x: Tensor, weights: Weights, part: FeedForward, context: Context) -> Tensor:
    """Return a dense feed-forward module."""
    with x.tape.module(part.module):
        if part.fused:
            return _fused(x, weights, part)
        if part.gate is not None:
            if part.gating != "plain":
                return _gemma3n(x, weights, part, part.gate)
            if x.tape.tiles:
                learned = [weights[f"{each.name}.weight"] for each in (part.gate, part.up, part.down)]
                run = partial(_gated, weights=weights, part=part, gate=part.gate)
                return tiled(run, x, learned, written=x.tape.fuses_lora)
            return _gated(x, weights, part, part.gate)
        hidden_states = project(x, weights, part.up)
        compiled = hidden_states.tape.compiled
        hidden_states = activated(hidden_states) if compiled else activate(hidden_states, weights, part)
        return project(hidden_states, weights, part.down)


def _gated(x: Tensor, weights: Weights, part: FeedForward, gate: Linear) -> Tensor:
    """Return two matrices, one of which is a gate, and a third; or the kernels that take their place."""
    linears = (gate, part.up, part.down)
    if x.tape.fuses_lora and all(fusable(weights, each) for each in linears):
        return fused_lora.gated(x, *(adapted(weights, each) for each in linears))
    if "swiglu" in x.tape.liger:
        return project(liger.gated(project(x, weights, gate), project(x, weights, part.up)), weights, part.down)
    if x.tape.compiled:
        product = gated(project(x, weights, gate), project(x, weights, part.up))
        with unread(x.tape):
            return project(product, weights, part.down)
    activation = ACTIVATIONS[part.activation]
    return project(mul(activation(project(x, weights, gate)), project(x, weights, part.up)), weights, part.down)


def _gemma3n(hidden_states: Tensor, weights: Weights, part: FeedForward, gate: Linear) -> Tensor:
    """Every step is a local variable."""
    gate_proj = project(hidden_states, weights, gate)
    if part.gating == "sparse":
        gate_proj = _gaussian_topk(gate_proj)
    activations = ACTIVATIONS[part.activation](gate_proj)
    up_proj = project(hidden_states, weights, part.up)
    return project(mul(activations, up_proj), weights, part.down)


def _gaussian_topk(inputs: Tensor) -> Tensor:
    """Return what exceeds the mean by a number of standard deviations, a tensor of one element."""
    std_multiplier = new(inputs.tape, (), inputs.dtype, "ones")
    inputs_mean = mean(inputs)
    inputs_std = std(inputs)
    cutoff_x = add(inputs_mean, mul(inputs_std, std_multiplier))
    return relu(sub(inputs, cutoff_x))


def _fused(hidden_states: Tensor, weights: Weights, part: FeedForward) -> Tensor:
    """Gate and up projection are one matrix (Phi-3, GLM)."""
    up_states = project(hidden_states, weights, part.up)
    if up_states.tape.compiled:
        return project(gated_halves(up_states), weights, part.down)
    batch, length, _, width = up_states.shape
    gate, up_states = split(up_states, (batch, length, width), 2, cut=2)
    up_states = mul(up_states, ACTIVATIONS[part.activation](gate))
    return project(up_states, weights, part.down)


def activate(x: Tensor, weights: Weights, part: FeedForward) -> Tensor:
    """Return the activation function, which may have parameters of its own."""
    if part.activation_weights:
        return xielu(x, *(weights[weight.name] for weight in part.activation_weights))
    return ACTIVATIONS[part.activation](x)
