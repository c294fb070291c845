"""The gated delta rule (`Qwen3NextGatedDeltaNet`, `Qwen3_5GatedDeltaNet`, `OlmoHybridGatedDeltaNet`)."""

from __future__ import annotations

from memcore.layers.transformers.context import Context, Weights
from memcore.layers.transformers.recurrent.kernels_delta import chunk_gated_delta_rule
from memcore.layers.transformers.recurrent.kernels_gated_norm import gated_norm
from memcore.layers.transformers.recurrent.shared import causal_convolution, projection, without_padding
from memcore.networks.parts import SpecialMixer
from memcore.networks.recurrences import DELTA_CHUNK, DELTA_CHUNKS
from memcore.symbols import Quotient, Shape
from memcore.tensors.arithmetic import sigmoid, total
from memcore.tensors.basics import narrow, new, permute, to
from memcore.tensors.contractions import solve_triangular
from memcore.tensors.loops import iterations
from memcore.tensors.operations import add, add_scalar, matmul, mean, mul, power, rsqrt, scale, silu, sub
from memcore.tensors.reshaping import (
    contiguous_to,
    cropped,
    fold,
    folded,
    insert,
    join,
    pad,
    pieces,
    regroup,
    repeat_interleave,
    select,
    store,
)
from memcore.tensors.running import cumsum, exp, masked_fill, softplus, triangle
from memcore.tensors.tensor import Parameter, Tensor

_CHUNKED: Shape = (DELTA_CHUNKS, DELTA_CHUNK)


def gated_delta(
    hidden_states: Tensor, weights: Weights, part: SpecialMixer, context: Context, drop: float = 0.0
) -> tuple[Tensor, Tensor | None]:
    """Return a layer of the gated delta rule."""
    name = part.module
    with hidden_states.tape.module(name):
        hidden_states = without_padding(hidden_states, context)
        project = _project_together if "fused" in part.options else _project_apart
        mixed_qkv, z, b, a, until_split, _projected = project(hidden_states, weights, name, part)
        mixed_qkv = causal_convolution(mixed_qkv, weights, f"{name}.conv1d", context)
        mixed_qkv = permute(mixed_qkv, 0, 2, 1)
        query, key, value = _split(mixed_qkv, part)
        del until_split
        beta = sigmoid(b)
        g = _decay(a, weights, name)
        core_attn_out = _ruled(query, key, value, g, beta, part, context)
        core_attn_out = _normed(core_attn_out, fold(z, 0, 3), weights[f"{name}.norm.weight"], context)
        core_attn_out = regroup(core_attn_out, 2, 2, ("B", "dv"))
        return projection(core_attn_out, weights, f"{name}.out_proj", part), None


def separate_delta(
    hidden_states: Tensor, weights: Weights, part: SpecialMixer, context: Context, drop: float = 0.0
) -> tuple[Tensor, Tensor | None]:
    """Return a layer of OLMo Hybrid: a projection for each input of the rule, and the gate of the output after it."""
    name = part.module
    with hidden_states.tape.module(name):
        hidden_states = without_padding(hidden_states, context)
        parts = tuple(fold(projection(hidden_states, weights, f"{name}.{each}_proj", part), 2, 4) for each in "qkv")
        mixed_qkv = permute(join(parts, 2, "X"), 0, 2, 1)
        del parts
        mixed_qkv = causal_convolution(mixed_qkv, weights, f"{name}.conv1d", context)
        mixed_qkv = permute(mixed_qkv, 0, 2, 1)
        query, key, value = _split(mixed_qkv, part)
        beta = sigmoid(projection(hidden_states, weights, f"{name}.b_proj", part))
        if "doubled" in part.options:
            beta = scale(beta)
        g = _decay(projection(hidden_states, weights, f"{name}.a_proj", part), weights, name)
        output = _ruled(query, key, value, g, beta, part, context)
        gate = projection(hidden_states, weights, f"{name}.g_proj", part)
        output = _normed(output, fold(gate, 0, 3), weights[f"{name}.o_norm.weight"], context, "o_norm")
        output = regroup(output, 2, 2, ("B", "dv"))
        return projection(output, weights, f"{name}.o_proj", part), None


def _split(mixed_qkv: Tensor, part: SpecialMixer) -> tuple[Tensor, ...]:
    """Queries, keys and values of each head, of what was convolved together."""
    heads = "A" if "grouped" in part.options else "B"
    parts = pieces(mixed_qkv, 2, ((heads, "dk"), (heads, "dk"), ("B", "dv")))
    return tuple(folded(each, 2, 4) for each in parts)


def _decay(a: Tensor, weights: Weights, name: str) -> Tensor:
    """How much of the state each head keeps, as a logarithm."""
    rates = scale(exp(to(weights[f"{name}.A_log"], "fp32")), "neg")
    return mul(rates, softplus(add(to(a, "fp32"), weights[f"{name}.dt_bias"])))


def _ruled(
    query: Tensor, key: Tensor, value: Tensor, g: Tensor, beta: Tensor, part: SpecialMixer, context: Context
) -> Tensor:
    """Return the rule, by kernels or in Python."""
    if context.recurrence.kernels == "fused":
        return chunk_gated_delta_rule(query, key, value, g, beta, grouped="grouped" in part.options)
    return _chunked(query, key, value, g, beta, part, context)


_Projected = tuple[Tensor, Tensor, Tensor, Tensor, tuple[Tensor, ...], tuple[Tensor, ...]]
"""What is convolved, the gate of the output, two gates of the rule, and what is held until the first is split again and
until the layer ends."""


def _project_together(hidden_states: Tensor, weights: Weights, name: str, part: SpecialMixer) -> _Projected:
    """Qwen3-Next: two projections, interleaved by key heads (`fix_query_key_value_ordering`)."""
    projected_qkvz = projection(hidden_states, weights, f"{name}.in_proj_qkvz", part)
    projected_ba = projection(hidden_states, weights, f"{name}.in_proj_ba", part)
    mixed_qkvz = regroup(projected_qkvz, 2, 1, ("A", Quotient(("I",), "A")))
    mixed_ba = regroup(projected_ba, 2, 2, ("A", Quotient((2, "B"), "A")))
    query, key, value, z = pieces(mixed_qkvz, 3, (("dk",), ("dk",), ("bg", "dv"), ("bg", "dv")))
    b, a = pieces(mixed_ba, 3, (("bg",), ("bg",)))
    value, z, b, a = (regroup(each, 2, 2, ("B",)) for each in (value, z, b, a))
    query, key, value = (fold(each, 2, 4) for each in (query, key, value))
    mixed_qkv = permute(join((query, key, value), 2, "X"), 0, 2, 1)
    return mixed_qkv, z, b, a, (query, key, value), (projected_qkvz, projected_ba)


def _project_apart(hidden_states: Tensor, weights: Weights, name: str, part: SpecialMixer) -> _Projected:
    """Qwen3.5: a projection for each."""
    mixed_qkv = permute(projection(hidden_states, weights, f"{name}.in_proj_qkv", part), 0, 2, 1)
    z, b, a = (projection(hidden_states, weights, f"{name}.in_proj_{each}", part) for each in "zba")
    return mixed_qkv, z, b, a, (), ()


def _normed(hidden_states: Tensor, gate: Tensor, weight: Parameter, context: Context, name: str = "norm") -> Tensor:
    """A norm over each head, then the gate: `Qwen3NextRMSNormGated`, or `FusedRMSNormGated` of the kernels' package."""
    input_dtype = hidden_states.dtype
    with hidden_states.tape.module(name):
        if context.recurrence.fuses_norm:
            return gated_norm(hidden_states, gate, weight)
        hidden_states = to(hidden_states, "fp32")
        variance = mean(power(hidden_states))
        hidden_states = mul(hidden_states, rsqrt(add_scalar(variance)))
        hidden_states = mul(weight, to(hidden_states, input_dtype))
        hidden_states = mul(hidden_states, silu(to(gate, "fp32")))
        return to(hidden_states, input_dtype)


def l2norm(x: Tensor) -> Tensor:
    """Vectors of length one."""
    inv_norm = rsqrt(add_scalar(total(mul(x, x), keepdim=True)))
    return mul(x, inv_norm)


def _chunked(
    query: Tensor, key: Tensor, value: Tensor, g: Tensor, beta: Tensor, part: SpecialMixer, context: Context
) -> Tensor:
    """`torch_chunk_gated_delta_rule`: products within chunks, then a loop over chunks."""
    tape, initial_dtype = query.tape, query.dtype
    if "grouped" in part.options:
        query = repeat_interleave(query, 2, "B", "bg")
        key = repeat_interleave(key, 2, "B", "bg")
    heads_first = [
        contiguous_to(permute(each, 0, 2, 1, *range(3, len(each.shape))), "fp32")
        for each in (query, key, value, beta, g)
    ]
    query, key, value, beta, decay = heads_first
    del heads_first
    query = l2norm(query)
    key = l2norm(key)
    query = scale(query)
    query, key, value = (pad(each, 2, _CHUNKED) for each in (query, key, value))
    beta, decay = (pad(each, 2, _CHUNKED) for each in (beta, decay))
    v_beta = mul(value, insert(beta, 4))
    k_beta = mul(key, insert(beta, 4))
    query, key, k_beta, v_beta, decay = (folded(each, 2, 4) for each in (query, key, k_beta, v_beta, decay))
    upper = triangle(tape, DELTA_CHUNK)
    cum_decay = cumsum(decay, 3)
    pairwise_decay = sub(insert(cum_decay, 4), insert(cum_decay, 3))
    pairwise_decay = masked_fill(pairwise_decay, upper)
    pairwise_decay = exp(pairwise_decay)
    ut_system = mul(matmul(k_beta, permute(key, 0, 1, 2, 4, 3)), pairwise_decay)
    intra_chunk_attn = mul(matmul(query, permute(key, 0, 1, 2, 4, 3)), pairwise_decay)
    decayed_k_beta = mul(k_beta, insert(exp(cum_decay), 4))
    new_values = solve_triangular(ut_system, v_beta)
    k_cumdecay = solve_triangular(ut_system, decayed_k_beta)
    state = new(tape, (query.shape[0], "B", "dk", "dv"), "fp32", "zeros")
    core_attn_out = new(tape, new_values.shape, "fp32", "zeros", order=new_values.order)
    query = mul(query, insert(exp(cum_decay), 4))
    key = mul(key, insert(exp(sub(narrow(cum_decay, 3, 1), cum_decay)), 4))
    chunk_decay = insert(insert(exp(select(cum_decay, 3)), 3), 4)
    for _ in iterations(tape, DELTA_CHUNKS, context.recurrence.trips):
        v_new = sub(select(new_values, 2), matmul(select(k_cumdecay, 2), state))
        inter_chunk_attn = matmul(select(query, 2), state)
        store(core_attn_out, add(inter_chunk_attn, matmul(select(intra_chunk_attn, 2), v_new)))
        kept = mul(state, select(chunk_decay, 2))
        state = add(kept, matmul(permute(select(key, 2), 0, 1, 3, 2), v_new))
        del kept
    del state
    core_attn_out = fold(core_attn_out, 2, 4)
    in_tokens = regroup(core_attn_out, 2, 2, ("s",)) if context.recurrence.even else cropped(core_attn_out, 2, 2, "s")
    return contiguous_to(permute(in_tokens, 0, 2, 1, 3), initial_dtype)
