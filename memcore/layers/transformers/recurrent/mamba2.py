"""Mamba 2 (`Mamba2Mixer` and its copies in Bamba, Granite 4, Nemotron-H, Falcon-H1 and Zamba 2)."""

from __future__ import annotations

from memcore.layers.transformers.context import Context, Weights
from memcore.layers.transformers.recurrent.kernels_mamba2 import CHUNKS, split_conv1d_scan
from memcore.layers.transformers.recurrent.shared import causal_convolution, constant, projection, without_padding
from memcore.networks.parts import SpecialMixer
from memcore.symbols import Quotient, Shape, Shifted
from memcore.tensors.basics import contiguous, narrow, new, permute, to
from memcore.tensors.contractions import einsum
from memcore.tensors.operations import add, add_scalar, mean, mul, power, rsqrt, scale, silu, sub
from memcore.tensors.reshaping import (
    cropped,
    folded,
    insert,
    join,
    pad,
    pieces,
    regroup,
    repeat_interleave,
    select,
)
from memcore.tensors.running import clamp, cumsum, exp, logical_not, masked_fill, softplus, triangle
from memcore.tensors.slices import expand
from memcore.tensors.tensor import Parameter, Tensor

_GROUPS: Shape = ("G", Quotient(("D",), "G"))
_AND_ONE = Shifted(CHUNKS, 1, 1)


def mamba2(
    hidden_states: Tensor, weights: Weights, part: SpecialMixer, context: Context, drop: float = 0.0
) -> tuple[Tensor, Tensor | None]:
    """Return a Mamba 2 mixer."""
    with hidden_states.tape.module(part.module):
        return _mixed(hidden_states, weights, part, context), None


def _mixed(hidden_states: Tensor, weights: Weights, part: SpecialMixer, context: Context) -> Tensor:
    """`Mamba2Mixer.forward`."""
    name, dtype = part.module, hidden_states.dtype
    hidden_states = without_padding(hidden_states, context)
    if "multiplied" in part.options:
        hidden_states = scale(hidden_states)
    projected_states = projection(hidden_states, weights, f"{name}.in_proj", part)
    if "multiplied" in part.options:
        projected_states = mul(projected_states, constant(hidden_states, part, context, "mup_vector"))
    negative_rates = scale(exp(to(weights[f"{name}.A_log"], "fp32")), "neg")
    if context.recurrence.kernels == "fused":
        return split_conv1d_scan(projected_states, negative_rates, part, weights)
    gate, mixed, dt = pieces(projected_states, 2, (("D",), ("X",), ("H",)))
    mixed = permute(mixed, 0, 2, 1)
    mixed = causal_convolution(mixed, weights, f"{name}.conv1d", context)
    mixed = without_padding(permute(mixed, 0, 2, 1), context)
    hidden_states, b, c = pieces(mixed, 2, (("H", "W"), ("G", "N"), ("G", "N")))
    heads = (folded(each, 2, 4) for each in (hidden_states, b, c))
    hidden_states, b, c = heads
    scan_result = _chunk_scan(hidden_states, dt, negative_rates, b, c, weights, name, context)
    scan_output = regroup(scan_result, 2, 2, ("D",))
    scan_output = _gated(scan_output, gate, weights, part)
    return projection(to(scan_output, dtype), weights, f"{name}.out_proj", part)


def _gated(scan_output: Tensor, gate: Tensor, weights: Weights, part: SpecialMixer) -> Tensor:
    """Return the gate, with a norm after it, before it or without."""
    name = f"{part.module}.norm.weight"
    if "normed" not in part.options:
        return mul(scan_output, silu(gate))
    with scan_output.tape.module("norm"):
        if "multiplied" in part.options:
            return _falcon_norm(scan_output, gate, weights[name], first="norm-first" in part.options)
        return _gated_norm(scan_output, gate, weights, name)


def _falcon_norm(hidden_states: Tensor, gate: Tensor, weight: Parameter, *, first: bool) -> Tensor:
    """`FalconH1RMSNormGated`."""
    input_dtype = hidden_states.dtype
    if not first:
        hidden_states = mul(hidden_states, silu(to(gate, "fp32")))
    hidden_states = to(hidden_states, "fp32")
    hidden_states = regroup(hidden_states, 2, 1, _GROUPS)
    variance = mean(power(hidden_states))
    hidden_states = mul(hidden_states, rsqrt(add_scalar(variance)))
    hidden_states = mul(regroup(weight, 0, 1, _GROUPS), hidden_states)
    hidden_states = regroup(hidden_states, 2, 2, ("D",))
    if first:
        hidden_states = mul(hidden_states, silu(to(gate, "fp32")))
    return to(hidden_states, input_dtype)


def _gated_norm(hidden_states: Tensor, gate: Tensor, weights: Weights, name: str) -> Tensor:
    """`MambaRMSNormGated`: the gate first, then a norm over each group of channels."""
    input_dtype = hidden_states.dtype
    hidden_states = to(hidden_states, "fp32")
    hidden_states = mul(hidden_states, silu(to(gate, "fp32")))
    hidden_states_group = regroup(hidden_states, 2, 1, _GROUPS)
    variance = mean(power(hidden_states_group))
    hidden_states_group = mul(hidden_states_group, rsqrt(add_scalar(variance)))
    hidden_states = regroup(hidden_states_group, 2, 2, ("D",))
    return mul(weights[name], to(hidden_states, input_dtype))


def _chunk_scan(
    hidden_states: Tensor, dt: Tensor, a: Tensor, b: Tensor, c: Tensor, weights: Weights, name: str, context: Context
) -> Tensor:
    """`mamba2_chunk_scan`: products within chunks, and states from chunk to chunk."""
    dt = add(dt, to(weights[f"{name}.dt_bias"], dt.dtype))
    dt = softplus(dt)
    dt = clamp(dt)
    hidden_states = to(hidden_states, "fp32")
    b = repeat_interleave(to(b, "fp32"), 2, "H", "hg")
    c = repeat_interleave(to(c, "fp32"), 2, "H", "hg")
    into: Shape = (CHUNKS, "q")
    d_residual = mul(insert(weights[f"{name}.D"], 1), folded(pad(hidden_states, 1, into), 1, 3))
    hidden_states = mul(hidden_states, to(insert(dt, 3), "fp32"))
    a = mul(to(a, hidden_states.dtype), to(dt, "fp32"))
    hidden_states, a, b, c = [pad(tensor, 1, into) for tensor in (hidden_states, a, b, c)]
    a = permute(a, 0, 3, 1, 2)
    a_cumsum = cumsum(a, 3)
    decay = exp(_segment_sum(a))
    scores = einsum("bclhn,bcshn->bclsh", c, b)
    decayed = mul(scores, permute(decay, 0, 2, 3, 4, 1))
    y_diag = einsum("bclsh,bcshp->bclhp", decayed, hidden_states)
    decay_states = exp(sub(narrow(a_cumsum, 3, 1), a_cumsum))
    b_decay = mul(b, insert(permute(decay_states, 0, 2, 3, 1), 4))
    states = einsum("bclhn,bclhp->bchpn", b_decay, hidden_states)
    previous_states = new(dt.tape, ("b", 1, "H", "W", "N"), states.dtype, "zeros")
    states = join([previous_states, states], 1, _AND_ONE, trailing=3)
    decay_chunk = permute(exp(_segment_sum(pad(select(a_cumsum, 3), 2, (_AND_ONE,)))), 0, 3, 2, 1)
    new_states = einsum("bzch,bzhpn->bchpn", decay_chunk, states)
    states = narrow(new_states, 1, CHUNKS)
    state_decay_out = exp(a_cumsum)
    c_times_states = einsum("bclhn,bchpn->bclhp", c, states)
    y_off = mul(c_times_states, insert(permute(state_decay_out, 0, 2, 3, 1), 4))
    output = contiguous(add(y_diag, y_off))
    output = add(output, d_residual)
    return regroup(output, 1, 2, ("s",)) if context.recurrence.even else cropped(output, 1, 2, "s")


def _segment_sum(input_tensor: Tensor) -> Tensor:
    """`segment_sum`: sums over every range of tokens, from two masks and a running sum."""
    tape, axes = input_tensor.tape, len(input_tensor.shape)
    size = input_tensor.shape[-1]
    input_tensor = expand(insert(input_tensor, axes), axes, size)
    mask = triangle(tape, size)
    input_tensor = masked_fill(input_tensor, logical_not(mask))
    tensor_segsum = cumsum(input_tensor, axes - 1)
    mask = triangle(tape, size)
    return masked_fill(tensor_segsum, logical_not(mask))
