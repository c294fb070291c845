"""Mixers with a recurrent state in llama.cpp's graphs: Mamba, Mamba 2, gated delta nets, short convolutions.

Source: `build_rs` of `src/llama-graph.cpp`; `src/models/mamba-base.cpp`, `delta-net-base.cpp`, `qwen3next.cpp`,
`qwen35.cpp`, `kimi-linear.cpp`, `lfm2.cpp`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memcore.networks.parts import SpecialMixer
from memcore.servers.llamacpp.ggml.graph import (
    apply,
    concat,
    cont,
    copy,
    gated,
    get_rows,
    mul_mat,
    reshape,
    scale_inplace,
    shaped,
    transpose,
    view,
)
from memcore.servers.llamacpp.ggml.tensor import Tensor
from memcore.servers.llamacpp.graph import Builder


def state_mixer(to: Builder, part: SpecialMixer, index: int, tensor: Tensor) -> Tensor:
    """Return a mixer of its variant; one whose graph is not known passes its input on."""
    found = _VARIANTS.get(part.variant)
    return tensor if found is None else found(to, index, tensor)


def supported(variant: str) -> bool:
    """Return whether the graph of a variant is known."""
    return variant in _VARIANTS


def _per_sequence(to: Builder) -> tuple[int, int]:
    """Return tokens of each sequence, and sequences."""
    return to.batch.tokens // to.batch.sequences, to.batch.sequences


def _state(to: Builder, state: Tensor, read: Callable[[Tensor, Tensor], Tensor] = get_rows) -> Tensor:
    """Return the states of the batch's sequences; cleared ones are filled from one (`build_rs`)."""
    size, slots = state.ne[0], state.ne[1]
    sequences = to.batch.sequences
    numbers = to.input("rs_s_copy", "I32", slots)
    main = to.inputs.setdefault("rs_s_copy_main", view(numbers, (sequences,)))
    rest = to.inputs.setdefault("rs_s_copy_extra", view(numbers, (slots - sequences,), offset=4 * sequences))
    flat = reshape(state, size, slots)
    to.graph.expand(scale_inplace(view(flat, (size,))))
    found = read(flat, main)
    to.graph.expand(found)
    further = get_rows(flat, rest)
    to.graph.expand(copy(further, view(state, (size, slots - sequences), (state.nb[1],))))
    return found


def _keep(to: Builder, row: Tensor, state: Tensor, kept: int, tokens: int) -> None:
    last = view(row, (kept, row.ne[1], row.ne[2]), row.nb[1:3], 4 * tokens)
    target = view(state, (kept * row.ne[1], row.ne[2]), (state.nb[1],))
    to.graph.expand(copy(last, target))


def _mamba2(to: Builder, index: int, tensor: Tensor) -> Tensor:
    tokens, sequences = _per_sequence(to)
    inner, heads, states = to.size("D"), to.size("H"), to.size("N")
    channels = to.states[index][0].ne[0] // (to.size("K") - 1)
    groups = (channels - inner) // (2 * states)
    conv_state = to.states[index][0]
    before = reshape(_state(to, conv_state), to.size("K") - 1, channels, sequences)
    both = mul_mat(to.weight("ssm_in.weight"), tensor)
    both = reshape(both, both.ne[0], tokens, sequences)
    wide = both.nb[1:3]
    gate = view(both, (inner // heads, heads, tokens, sequences), (4 * inner // heads, *wide))
    mixed = view(both, (channels, tokens, sequences), wide, 4 * inner)
    step = view(both, (heads, tokens, sequences), wide, 4 * (inner + channels))
    row = concat(before, transpose(mixed))
    _keep(to, row, conv_state, to.size("K") - 1, tokens)
    mixed = shaped("SSM_CONV", (channels, tokens, sequences), row, to.weight("ssm_conv1d.weight"))
    bias = to.optional("ssm_conv1d.bias")
    if bias is not None:
        mixed = apply("ADD", mixed, bias)
    mixed = apply("SILU", mixed)
    x = view(mixed, (inner // heads, heads, tokens, sequences), (4 * inner // heads, *mixed.nb[1:3]))
    b = view(mixed, (states, groups, tokens, sequences), (4 * states, *mixed.nb[1:3]), 4 * inner)
    c = view(mixed, (states, groups, tokens, sequences), (4 * states, *mixed.nb[1:3]), 4 * (inner + groups * states))
    step = apply("ADD", cont(step), to.weight("ssm_dt.bias"))
    scanned = _scan(to, index, (x, step, b, c))
    y = view(scanned, (inner // heads, heads, tokens, sequences), (x.nb[1], heads * x.nb[1], tokens * heads * x.nb[1]))
    y = apply("ADD", y, apply("MUL", x, to.weight("ssm_d")))
    y = gated("GLU", cont(gate), y)
    weight = to.optional("ssm_norm.weight")
    if weight is not None:
        y = reshape(y, inner // groups, groups, tokens, sequences)
        y = apply("MUL", apply("RMS_NORM", y), weight)
    return mul_mat(to.weight("ssm_out.weight"), reshape(y, inner, tokens * sequences))


def _scan(to: Builder, index: int, values: tuple[Tensor, Tensor, Tensor, Tensor]) -> Tensor:
    """Return the selective scan: outputs of all tokens, followed by the new states."""
    state = to.states[index][1]
    x, step, b, c = values
    sequences = to.batch.sequences

    def read(states: Tensor, numbers: Tensor) -> Tensor:
        size = x.elements + states.ne[0] * sequences
        return shaped("SSM_SCAN", (size,), states, x, step, to.weight("ssm_a"), b, c, numbers)

    found = _state(to, state, read)
    last = view(found, (state.ne[0], sequences), (4 * state.ne[0],), 4 * x.elements)
    to.graph.expand(copy(last, view(state, (state.ne[0], sequences), (state.nb[1],))))
    return found


def _mamba(to: Builder, index: int, tensor: Tensor) -> Tensor:
    tokens, sequences = _per_sequence(to)
    inner, states, rank = to.size("D"), to.size("N"), to.size("R")
    conv_state = to.states[index][0]
    before = reshape(_state(to, conv_state), to.size("K") - 1, inner, sequences)
    both = mul_mat(to.weight("ssm_in.weight"), reshape(tensor, tensor.ne[0], tokens, sequences))
    x = view(both, (inner, tokens, sequences), both.nb[1:3])
    gate = view(both, (inner, tokens, sequences), both.nb[1:3], 4 * inner)
    row = concat(before, transpose(x))
    _keep(to, row, conv_state, to.size("K") - 1, tokens)
    x = shaped("SSM_CONV", (inner, tokens, sequences), row, to.weight("ssm_conv1d.weight"))
    bias = to.optional("ssm_conv1d.bias")
    x = apply("SILU", x if bias is None else apply("ADD", x, bias))
    both = mul_mat(to.weight("ssm_x.weight"), x)
    step = view(both, (rank, tokens, sequences), both.nb[1:3])
    b = view(both, (states, 1, tokens, sequences), (4 * states, *both.nb[1:3]), 4 * rank)
    c = view(both, (states, 1, tokens, sequences), (4 * states, *both.nb[1:3]), 4 * (rank + states))
    if to.optional("ssm_dt_norm.weight") is not None or to.model.network.family == "falcon_mamba":
        parts = [apply("RMS_NORM", each) for each in (step, b, c)]
        names = ("ssm_dt_norm.weight", "ssm_b_norm.weight", "ssm_c_norm.weight")
        weights = [to.optional(name) for name in names]
        step, b, c = (p if w is None else apply("MUL", p, w) for p, w in zip(parts, weights, strict=True))
    else:
        step = cont(step)
    step = apply("ADD", mul_mat(to.weight("ssm_dt.weight"), step), to.weight("ssm_dt.bias"))
    heads = reshape(x, 1, inner, tokens, sequences)
    scanned = _scan(to, index, (heads, step, b, c))
    y = view(scanned, (inner, tokens, sequences), heads.nb[2:4])
    y = apply("ADD", y, apply("MUL", x, to.weight("ssm_d")))
    y = gated("GLU", cont(gate), y)
    found = mul_mat(to.weight("ssm_out.weight"), y)
    return reshape(found, found.ne[0], tokens * sequences)


def _short_convolution(to: Builder, index: int, tensor: Tensor) -> Tensor:
    tokens, sequences = _per_sequence(to)
    hidden = tensor.ne[0]
    state = to.states[index][0]
    three = mul_mat(to.weight("shortconv.in_proj.weight"), reshape(tensor, hidden, tokens, sequences))
    b, c, x = (view(three, (hidden, tokens, sequences), three.nb[1:3], 4 * hidden * place) for place in range(3))
    values = transpose(apply("MUL", b, x))
    kept = state.ne[0] // hidden
    row = concat(reshape(_state(to, state), kept, hidden, sequences), values)
    _keep(to, row, state, kept, tokens)
    found = shaped("SSM_CONV", (hidden, tokens, sequences), row, to.weight("shortconv.conv.weight"))
    found = mul_mat(to.weight("shortconv.out_proj.weight"), apply("MUL", c, found))
    return reshape(found, hidden, tokens * sequences)


def _delta(
    to: Builder, index: int, values: tuple[Tensor, Tensor, Tensor], gate: Tensor, beta: Tensor, state: Tensor
) -> Tensor:
    """Return the delta rule: outputs of all tokens, followed by the new states."""
    q, k, v = values
    width, heads, tokens, sequences = v.ne
    rows = tokens * sequences + width * sequences
    found = shaped("GATED_DELTA_NET", (width * heads, rows), q, k, v, gate, beta, state)
    each = 4 * width
    output = view(found, (width, heads, tokens, sequences), (each, each * heads, each * heads * tokens))
    last = view(found, (width, width, heads, sequences), (each, each * width, each * width * heads),
                each * heads * tokens * sequences)  # fmt: skip
    cache = to.states[index][1]
    to.graph.expand(copy(last, view(cache, (cache.ne[0], sequences), (cache.nb[1],))))
    return output


def _unit(tensor: Tensor) -> Tensor:
    """Rows of length one."""
    return apply("SCALE", apply("RMS_NORM", tensor))


def _gated_delta(to: Builder, index: int, tensor: Tensor) -> Tensor:
    tokens, sequences = _per_sequence(to)
    keys, heads, width, deep = to.size("A"), to.size("B"), to.size("dk"), to.size("dv")
    mixed = mul_mat(to.weight("attn_qkv.weight"), tensor)
    mixed = reshape(mixed, mixed.ne[0], tokens, sequences)
    gate = mul_mat(to.weight("attn_gate.weight"), tensor)
    together = to.optional("ssm_ba.weight")
    if together is not None:
        both = reshape(mul_mat(together, tensor), 2 * heads // keys, keys, tokens, sequences)
        half = heads // keys
        b, a = (view(both, (half, keys, tokens, sequences), both.nb[1:], 4 * half * place) for place in range(2))
        beta, alpha = apply("SIGMOID", cont(b)), cont(a, heads, tokens, sequences)
    else:
        beta = reshape(mul_mat(to.weight("ssm_beta.weight"), tensor), 1, heads, tokens, sequences)
        beta = apply("SIGMOID", beta)
        alpha = reshape(mul_mat(to.weight("ssm_alpha.weight"), tensor), heads, tokens, sequences)
    alpha = apply("SOFTPLUS", apply("ADD", alpha, to.weight("ssm_dt.bias")))
    decay = reshape(apply("MUL", alpha, to.weight("ssm_a")), 1, heads, tokens, sequences)
    beta = reshape(beta, 1, heads, tokens, sequences)
    state, channels = to.states[index], mixed.ne[0]
    kept = state[0].ne[0] // channels
    row = concat(reshape(_state(to, state[0]), kept, channels, sequences), transpose(mixed))
    _keep(to, row, state[0], kept, tokens)
    memory = reshape(_state(to, state[1]), deep, deep, heads, sequences)
    mixed = apply("SILU", shaped("SSM_CONV", (channels, tokens, sequences), row, to.weight("ssm_conv1d.weight")))
    strides = (mixed.nb[1], mixed.nb[1] * tokens)
    q, k = (_unit(view(mixed, (width, keys, tokens, sequences), (4 * width, *strides), 4 * width * keys * place))
            for place in range(2))  # fmt: skip
    v = view(mixed, (deep, heads, tokens, sequences), (4 * deep, *strides), 8 * width * keys)
    if together is not None and keys != heads:
        q, k = (_repeated(each, heads // keys) for each in (q, k))
    found = _delta(to, index, (q, k, v), decay, beta, memory)
    gate = reshape(gate, deep, heads, tokens, sequences)
    normed = apply("MUL", apply("RMS_NORM", found), to.weight("ssm_norm.weight"))
    found = apply("MUL", normed, apply("SILU", gate))
    found = mul_mat(to.weight("ssm_out.weight"), reshape(found, deep * heads, tokens, sequences))
    return reshape(found, found.ne[0], tokens * sequences)


def _repeated(tensor: Tensor, times: int) -> Tensor:
    """Each head several times."""
    width, heads, tokens, sequences = tensor.ne
    flat = reshape(tensor, width, 1, heads, tokens * sequences)
    found = shaped("REPEAT", (width, times, heads, tokens * sequences), flat)
    return reshape(found, width, heads * times, tokens, sequences)


def _kimi_convolved(to: Builder, index: int, tensor: Tensor, before: Tensor, place: int) -> Tensor:
    tokens, sequences = _per_sequence(to)
    heads, width = to.size("B"), to.size("dk")
    name, inner = "qkv"[place], heads * width
    cache, kept = to.states[index][0], to.size("K") - 1
    state = view(before, (kept, inner, sequences), (4 * kept, before.nb[1]), 4 * kept * inner * place)
    values = reshape(mul_mat(to.weight(f"attn_{name}.weight"), tensor), inner, tokens, sequences)
    row = concat(state, transpose(values))
    last = view(row, (kept, inner, sequences), row.nb[1:3], 4 * tokens)
    target = view(cache, (kept, inner, sequences), (4 * kept, cache.nb[1]), 4 * kept * inner * place)
    to.graph.expand(copy(last, target))
    kernel = reshape(to.weight(f"ssm_conv1d_{name}.weight"), kept + 1, inner)
    found = shaped("SSM_CONV", (inner, tokens, sequences), row, kernel)
    return reshape(apply("SILU", reshape(found, inner, tokens * sequences)), width, heads, tokens, sequences)


def _kimi_delta(to: Builder, index: int, tensor: Tensor) -> Tensor:
    tokens, sequences = _per_sequence(to)
    heads, width = to.size("B"), to.size("dk")
    to.graph.expand(tensor)
    before = _state(to, to.states[index][0])
    q, k, v = (_kimi_convolved(to, index, tensor, before, place) for place in range(3))
    decay = mul_mat(to.weight("ssm_f_b.weight"), mul_mat(to.weight("ssm_f_a.weight"), tensor))
    decay = apply("SOFTPLUS", apply("ADD", decay, to.weight("ssm_dt.bias")))
    decay = apply("MUL", reshape(decay, width, heads, tokens * sequences), reshape(to.weight("ssm_a"), 1, heads, 1))
    decay = reshape(decay, width, heads, tokens, sequences)
    beta = reshape(mul_mat(to.weight("ssm_beta.weight"), tensor), 1, heads, tokens, sequences)
    beta = apply("SIGMOID", beta)
    memory = reshape(_state(to, to.states[index][1]), width, width, heads, sequences)
    found = cont(_delta(to, index, (_unit(q), _unit(k), v), decay, beta, memory))
    gate = mul_mat(to.weight("ssm_g_b.weight"), mul_mat(to.weight("ssm_g_a.weight"), tensor))
    gate = apply("SIGMOID", reshape(gate, width, heads, tokens * sequences))
    normed = apply("RMS_NORM", reshape(found, width, heads, tokens * sequences))
    normed = apply("MUL", normed, to.weight("ssm_norm.weight"))
    joined = cont(apply("MUL", normed, gate), width * heads, tokens * sequences)
    return mul_mat(to.weight("attn_output.weight"), joined)


_VARIANTS: Mapping[str, Callable[[Builder, int, Tensor], Tensor]] = {
    "mamba": _mamba,
    "mamba2": _mamba2,
    "gated-delta": _gated_delta,
    "kimi-delta": _kimi_delta,
    "short-conv": _short_convolution,
}
