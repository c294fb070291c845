"""Mamba, the first (`MambaMixer`, `FalconMambaMixer`, `JambaMambaMixer`)."""

from __future__ import annotations

from memcore.layers.transformers.context import Context, Weights
from memcore.layers.transformers.norms import norm, rms_normalized
from memcore.layers.transformers.recurrent.kernels_mamba import mamba_inner, selective_scan
from memcore.layers.transformers.recurrent.shared import causal_convolution, projection, without_padding
from memcore.networks.parts import SpecialMixer
from memcore.networks.weights import Norm
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import autocast, new, only, permute, split, to
from memcore.tensors.loops import iterations
from memcore.tensors.operations import add, matmul, mul, scale, silu
from memcore.tensors.reshaping import insert, pieces, select, stack
from memcore.tensors.running import exp, softplus
from memcore.tensors.tensor import Parameter, Tensor


def mamba(
    hidden_states: Tensor, weights: Weights, part: SpecialMixer, context: Context, drop: float = 0.0
) -> tuple[Tensor, Tensor | None]:
    """Return a Mamba mixer."""
    with hidden_states.tape.module(part.module):
        return _mixed(hidden_states, weights, part, context), None


def _mixed(hidden_states: Tensor, weights: Weights, part: SpecialMixer, context: Context) -> Tensor:
    """`MambaMixer.forward`."""
    name, dtype = part.module, hidden_states.dtype
    hidden_states = without_padding(hidden_states, context)
    projected_states = permute(projection(hidden_states, weights, f"{name}.in_proj", part), 0, 2, 3, 1)
    a = scale(exp(to(weights[f"{name}.A_log"], "fp32")), "neg")
    if "inner" in part.options:
        _bias, skip, bias = _upcast(weights, name)
        if context.recurrence.kernels == "fused":
            return mamba_inner(projected_states, a, skip, bias, part, weights)
        del _bias, skip, bias
    batch, _, width, length = projected_states.shape
    mixed, gate = split(projected_states, (batch, width, length), 2, order=(0, 2, 1), cut=1)
    mixed = causal_convolution(mixed, weights, f"{name}.conv1d", context)
    mixed = without_padding(permute(mixed, 0, 2, 1), context)
    time_step, b, c = pieces(projection(mixed, weights, f"{name}.x_proj", part), 2, (("R",), ("N",), ("N",)))
    time_step, b, c = (_normed(each, which, weights, part) for each, which in ((time_step, "dt"), (b, "b"), (c, "c")))
    time_step = _time_steps(weights[f"{name}.dt_proj.weight"], time_step)
    time_proj_bias = to(weights[f"{name}.dt_proj.bias"], "fp32")
    skip = to(weights[f"{name}.D"], "fp32")
    channels = permute(mixed, 0, 2, 1)
    if context.recurrence.kernels == "fused":
        b, c = (permute(each, 0, 2, 1) for each in (b, c))
        scan_output = selective_scan(channels, time_step, a, b, c, skip, gate, time_proj_bias)
    else:
        scan_output = _scan(channels, time_step, a, b, c, skip, gate, time_proj_bias, context)
    del skip
    return projection(to(permute(scan_output, 0, 2, 1), dtype), weights, f"{name}.out_proj", part)


def _upcast(weights: Weights, name: str) -> tuple[Tensor | None, Tensor, Tensor]:
    """Return what is prepared for `mamba_inner_fn`, whether it is there or not."""
    bias = weights.get(f"{name}.out_proj.bias")
    found = None if bias is None else to(bias, "fp32")
    return found, to(weights[f"{name}.D"], "fp32"), to(weights[f"{name}.dt_proj.bias"], "fp32")


def _normed(x: Tensor, which: str, weights: Weights, part: SpecialMixer) -> Tensor:
    """Return the norm of a time step, of B or of C: with a weight in Jamba, without in Falcon-Mamba."""
    name = f"{part.module}.{which}_layernorm"
    if "normed" in part.options:
        return norm(x, weights, Norm(name, "rms", x.shape[2:]))
    if "plain-normed" in part.options:
        with x.tape.module(f"{which}_layernorm"):
            return to(rms_normalized(to(x, "fp32")), x.dtype)
    return x


def _time_steps(weight: Parameter, time_step: Tensor) -> Tensor:
    """`weight @ time_step.transpose(1, 2)`: folded into one product over all tokens, whose result is transposed."""
    time_step, product_weight = autocast(time_step), autocast(weight)
    tape, dtype = time_step.tape, time_step.dtype
    x_needs, w_needs = tracked(time_step), tracked(product_weight)
    saved = save(tape, time_step if w_needs else None, product_weight if x_needs else None)
    batch, length, _ = x_shape = time_step.shape
    product = new(tape, (batch, length, *weight.outer), dtype, "matmul")
    out = new(tape, (batch, *weight.outer, length), dtype, "clone")
    del product
    w_shape = weight.shape

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        copy = new(tape, only(gradients).shape, dtype, "clone")
        gradients.clear()
        for_weight = new(tape, w_shape, dtype, "matmul_backward") if w_needs else None
        for_x = new(tape, x_shape, dtype, "matmul_backward") if x_needs else None
        del copy
        return [for_x, for_weight]

    if x_needs or w_needs:
        attach([out], [time_step, product_weight], saved, apply)
    return out


def _scan(
    hidden_states: Tensor,
    dt: Tensor,
    a: Tensor,
    b: Tensor,
    c: Tensor,
    skip: Tensor,
    gate: Tensor,
    bias: Tensor,
    context: Context,
) -> Tensor:
    """`mamba_selective_scan`: a loop over tokens."""
    tape, input_dtype = hidden_states.tape, hidden_states.dtype
    batch, width, length = hidden_states.shape
    dt = add(dt, insert(to(bias, dt.dtype), 1))
    dt = softplus(dt)
    rates = insert(insert(a, 1), 0)
    discrete_a = exp(mul(rates, insert(dt, 3)))
    del rates
    discrete_b = mul(insert(dt, 3), to(insert(b, 1), "fp32"))
    delta_b_u = mul(discrete_b, to(insert(hidden_states, 3), "fp32"))
    ssm_state = new(tape, (batch, width, "N"), input_dtype, "zeros")
    scan_outputs = []
    for _ in iterations(tape, length, context.recurrence.trips):
        ssm_state = add(mul(select(discrete_a, 2), ssm_state), select(delta_b_u, 2))
        scan_output = matmul(to(ssm_state, input_dtype), insert(select(c, 1), 2))
        scan_outputs.append(select(scan_output, 2))
    scan_output = stack(scan_outputs, 2, length)
    scan_output = add(scan_output, mul(hidden_states, insert(insert(skip, 1), 0)))
    return mul(scan_output, silu(gate))
