"""Kimi delta attention (`KimiLinearDeltaAttention`): the gated delta rule with a decay for each channel of a key."""

from __future__ import annotations

from memcore.layers.transformers.context import Context, Weights
from memcore.layers.transformers.recurrent.kernels_kda import chunk_kda
from memcore.layers.transformers.recurrent.shared import causal_convolution, projection, without_padding
from memcore.networks.parts import SpecialMixer
from memcore.networks.recurrences import DELTA_CHUNK, DELTA_CHUNKS
from memcore.symbols import Shape
from memcore.tensors.arithmetic import divide, sigmoid, total
from memcore.tensors.basics import clone, contiguous, like, narrow, new, permute, to
from memcore.tensors.loops import iterations
from memcore.tensors.operations import add, add_scalar, matmul, mean, mul, power, rsqrt, scale, sqrt, sub
from memcore.tensors.pointwise import where
from memcore.tensors.reshaping import cropped, fold, folded, insert, join, pad, pieces, regroup, select, store
from memcore.tensors.running import cumsum, exp, log, masked_fill, triangle
from memcore.tensors.tensor import Tensor

_CHUNKED: Shape = (DELTA_CHUNKS, DELTA_CHUNK)
_HEADS: Shape = ("B", "dk")


def kimi_delta(
    hidden_states: Tensor, weights: Weights, part: SpecialMixer, context: Context, drop: float = 0.0
) -> tuple[Tensor, Tensor | None]:
    """Return a layer of Kimi delta attention."""
    name = part.module
    with hidden_states.tape.module(name):
        hidden_states = without_padding(hidden_states, context)
        projected = [projection(hidden_states, weights, f"{name}.{each}_proj", part) for each in "qkv"]
        mixed_qkv = permute(join(projected, 2, "X"), 0, 2, 1)
        del projected
        mixed_qkv = _tail(causal_convolution(mixed_qkv, weights, f"{name}.conv1d", context))
        parts = pieces(permute(mixed_qkv, 0, 2, 1), 2, (_HEADS,) * 3)
        query, key, value = (folded(each, 2, 4) for each in parts)
        del parts
        g = _decay(hidden_states, weights, f"{name}.forget_gate", part)
        beta = sigmoid(projection(hidden_states, weights, f"{name}.b_proj", part))
        if context.recurrence.kernels == "fused":
            core_attn_out = chunk_kda(query, key, value, g, beta)
        else:
            core_attn_out = _chunked(query, key, value, g, beta, context)
        gate = projection(
            projection(hidden_states, weights, f"{name}.g_a_proj", part), weights, f"{name}.g_b_proj", part
        )
        output = _gated_norm(core_attn_out, gate, weights, f"{name}.o_norm")
        output = projection(output, weights, f"{name}.o_proj", part)
        return output, None


def _tail(x: Tensor) -> Tensor:
    """`x[:, :, -seq_len:]`, which is all of it."""
    out = narrow(x, 2, x.shape[2])
    out.cut = x.cut
    return out


def _decay(hidden_states: Tensor, weights: Weights, name: str, part: SpecialMixer) -> Tensor:
    """`KimiLinearForgetGate`."""
    with hidden_states.tape.module("forget_gate"):
        low = projection(hidden_states, weights, f"{name}.f_a_proj", part)
        forget_gate = projection(low, weights, f"{name}.f_b_proj", part)
        del low
        g = add(to(forget_gate, "fp32"), to(weights[f"{name}.dt_bias"], "fp32"))
        a_log = to(weights[f"{name}.A_log"], "fp32")
        decay_rate = exp(a_log)
        g_softplus = where(like(g, "compare", "bool"), g, log(add_scalar(exp(g))))
        return mul(scale(decay_rate, "neg"), g_softplus)


def _gated_norm(hidden_states: Tensor, gate: Tensor, weights: Weights, name: str) -> Tensor:
    """`KimiLinearRMSNormGated`: a norm over each head in fp32, then the gate."""
    input_dtype = hidden_states.dtype
    with hidden_states.tape.module("o_norm"):
        hidden_states = to(hidden_states, "fp32")
        variance = mean(power(hidden_states))
        hidden_states = mul(hidden_states, rsqrt(add_scalar(variance)))
        hidden_states = mul(to(weights[f"{name}.weight"], "fp32"), hidden_states)
        hidden_states = mul(hidden_states, sigmoid(to(gate, "fp32")))
        return to(hidden_states, input_dtype)


def l2norm(x: Tensor) -> Tensor:
    """Vectors of length one."""
    return divide(x, sqrt(add_scalar(total(mul(x, x), keepdim=True))))


def _chunked(query: Tensor, key: Tensor, value: Tensor, g: Tensor, beta: Tensor, context: Context) -> Tensor:
    """`chunk_kimi_delta_attention`: products within chunks for each channel of a key, then a loop over chunks."""
    tape, initial_dtype = query.tape, query.dtype
    heads_first = [
        to(contiguous(permute(each, 0, 2, 1, *range(3, len(each.shape)))), "fp32")
        for each in (query, key, value, beta, g)
    ]
    query, key, value, beta, g = heads_first
    del heads_first
    query = l2norm(query)
    key = l2norm(key)
    query = scale(pad(query, 2, _CHUNKED))
    key = pad(key, 2, _CHUNKED)
    value = pad(value, 2, _CHUNKED)
    g = pad(g, 2, _CHUNKED)
    beta = pad(beta, 2, _CHUNKED)
    v_beta = mul(value, insert(beta, 4))
    k_beta = mul(key, insert(beta, 4))
    query, key, value, g, k_beta, v_beta = (folded(each, 2, 4) for each in (query, key, value, g, k_beta, v_beta))
    beta = folded(beta, 2, 4)
    g = cumsum(g, 3)
    mask = triangle(tape, DELTA_CHUNK)
    strict_mask = triangle(tape, DELTA_CHUNK)
    decay_mask = exp(masked_fill(sub(insert(g, 4), insert(g, 3)), strict_mask))
    attn = masked_fill(total(mul(mul(insert(k_beta, 4), insert(key, 3)), decay_mask)), mask)
    attn = scale(attn, "neg")
    last = _substituted(attn)
    attn = add(attn, new(tape, (DELTA_CHUNK, DELTA_CHUNK), "fp32", "eye"))
    value = matmul(attn, v_beta)
    k_cumdecay = matmul(attn, mul(k_beta, exp(g)))
    state = new(tape, (query.shape[0], "B", "dk", "dk"), value.dtype, "zeros")
    core_attn_out = like(value, "zeros")
    mask = triangle(tape, DELTA_CHUNK)
    for _ in iterations(tape, DELTA_CHUNKS, context.recurrence.trips):
        q_i, k_i, v_i, g_i = (select(each, 2) for each in (query, key, value, g))
        attn_inter = matmul(mul(q_i, exp(g_i)), state)
        attn_intra = masked_fill(total(mul(mul(insert(q_i, 3), insert(k_i, 2)), select(decay_mask, 2))), mask)
        v_prime = matmul(select(k_cumdecay, 2), state)
        v_new = sub(v_i, v_prime)
        store(core_attn_out, add(attn_inter, matmul(attn_intra, v_new)))
        kept = mul(state, insert(exp(select(g_i, 2)), 3))
        state = add(kept, matmul(permute(mul(k_i, exp(sub(narrow(g_i, 2, 1), g_i))), 0, 1, 3, 2), v_new))
        del kept
    del state, last
    core_attn_out = fold(core_attn_out, 2, 4)
    in_tokens = regroup(core_attn_out, 2, 2, ("s",)) if context.recurrence.even else cropped(core_attn_out, 2, 2, "s")
    return to(contiguous(permute(in_tokens, 0, 2, 1, 3)), initial_dtype)


def _substituted(attn: Tensor) -> tuple[Tensor, Tensor]:
    """Forward substitution, row by row in place."""
    row = sub_rows = attn
    for index in range(1, DELTA_CHUNK):
        row = clone(narrow(select(attn, 3), 3, index))
        sub_rows = clone(narrow(narrow(attn, 3, index), 4, index))
        store(attn, add(row, total(mul(insert(row, 4), sub_rows), -2)))
    return row, sub_rows
