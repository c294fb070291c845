"""The real-gated linear recurrent unit (`RecurrentGemmaRecurrentBlock`), for which there are no kernels.

A module keeps its last state until the next step computes another: see `memcore.trace.recurrence.constants`. If a
checkpoint recomputed it, that is the end of a graph through which no backward pass goes, and all that this graph saved
stays, too.
"""

from __future__ import annotations

from memcore.layers.transformers.context import Context, Weights
from memcore.layers.transformers.recurrent.shared import projection
from memcore.networks.parts import SpecialMixer
from memcore.tensors.arithmetic import sigmoid
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import elementwise, like, narrow, new, only, permute, to
from memcore.tensors.contractions import baddbmm
from memcore.tensors.convolution import conv1d
from memcore.tensors.loops import iterations
from memcore.tensors.operations import add, gelu, mul, scale
from memcore.tensors.reshaping import fold, insert, regroup, select, store
from memcore.tensors.running import exp, logical_not, softplus
from memcore.tensors.tensor import Tensor


def recurrent_gemma(
    input_states: Tensor, weights: Weights, part: SpecialMixer, context: Context, drop: float = 0.0
) -> tuple[Tensor, Tensor | None]:
    """Return a recurrent block."""
    name = part.module
    with input_states.tape.module(name):
        y_branch = projection(input_states, weights, f"{name}.linear_y", part)
        y_branch = gelu(y_branch)
        x_branch = projection(input_states, weights, f"{name}.linear_x", part)
        x_branch = permute(x_branch, 0, 2, 1)
        if input_states.tape.left and not input_states.tape.recomputing:
            input_states.tape.left.pop()
        length = x_branch.shape[2]
        with input_states.tape.module("conv_1d"):
            x_branch = conv1d(x_branch, weights[f"{name}.conv_1d.weight"], weights[f"{name}.conv_1d.bias"])
        x_branch = narrow(x_branch, 2, length)
        with input_states.tape.module("rg_lru"):
            x_branch = _rglru(permute(x_branch, 0, 2, 1), weights, f"{name}.rg_lru", context)
        hidden_states = mul(x_branch, y_branch)
        hidden_states = projection(hidden_states, weights, f"{name}.linear_out", part)
        return hidden_states, None


def _rglru(activations: Tensor, weights: Weights, name: str, context: Context) -> Tensor:
    """`RecurrentGemmaRglru`."""
    tape, length = activations.tape, activations.shape[1]
    reset = new(tape, (1, length, 1), "bool", "compare")
    reshape_act = permute(regroup(fold(activations, 0, 2), 2, 1, ("H", "W")), 2, 0, 1, 3)
    res = _by_heads(reshape_act, weights, f"{name}.input_gate")
    input_gate = sigmoid(_gate(res))
    res = _by_heads(reshape_act, weights, f"{name}.recurrent_gate")
    recurrent_gate = sigmoid(_gate(res))
    log_recurrent_gate = mul(scale(recurrent_gate), softplus(weights[f"{name}.recurrent_param"]))
    recurrent_gate = exp(log_recurrent_gate)
    a_square = exp(scale(log_recurrent_gate))
    gated_inputs = mul(activations, input_gate)
    multiplier = _bounded_sqrt(scale(a_square, "neg"))
    multiplier = add(reset, mul(logical_not(reset), multiplier))
    normalized_x = mul(gated_inputs, to(multiplier, activations.dtype))
    return _scanned(normalized_x, recurrent_gate, reset, context)


def _by_heads(x: Tensor, weights: Weights, name: str) -> Tensor:
    """Return a matrix for each head, over (heads, b, s, width)."""
    heads, batch, length, width = x.shape
    bias = insert(insert(weights[f"{name}_bias"], 1), 1)
    return baddbmm(bias, x, weights[f"{name}_weight"], ((heads,), (batch, length), (width,), (width,)))


def _gate(res: Tensor) -> Tensor:
    return regroup(fold(permute(res, 1, 2, 0, 3), 2, 4), 2, 2, ("D",))


def _bounded_sqrt(x: Tensor) -> Tensor:
    """`SqrtBoundDerivative`: a square root that saves x; its gradient is clipped."""
    out = like(x, "sqrt")

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        multiplied = like(saved[0], "sqrt_backward")
        clipped = like(saved[0], "sqrt_backward")
        del multiplied
        root = like(clipped, "sqrt_backward")
        return [elementwise("sqrt_backward", only(gradients), root)]

    if tracked(x):
        attach([out], [x], save(x.tape, x), apply)
    return out


def _scanned(hidden_states: Tensor, recurrent_gate: Tensor, reset: Tensor, context: Context) -> Tensor:
    """`_rnn_scan`: a loop over tokens."""
    tape, (batch, length, width) = hidden_states.tape, hidden_states.shape
    recurrent_gate = mul(recurrent_gate, logical_not(reset))
    recurrent_states = new(tape, (batch, width), "fp32", "zeros")
    contextualized_states = like(hidden_states, "zeros")
    for _ in iterations(tape, length, context.recurrence.trips):
        recurrent_states = mul(to(select(recurrent_gate, 1), "fp32"), recurrent_states)
        recurrent_states = add(recurrent_states, to(select(hidden_states, 1), "fp32"))
        store(contextualized_states, to(recurrent_states, hidden_states.dtype))
    if tape.recomputing:
        tape.left.append(recurrent_states.node)
    return contextualized_states
