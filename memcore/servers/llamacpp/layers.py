"""The layers of llama.cpp's graphs: attention, latent attention, feed-forward layers, experts, and their wiring.

Source: `build_attn`, `build_qkv`, `build_ffn`, `build_moe_ffn` of `src/llama-graph.cpp`, `src/models/*.cpp`.
"""

from __future__ import annotations

from memcore.networks.network import Layer
from memcore.networks.parts import Attention, Experts, FeedForward, Ffn, LatentAttention, Mixer
from memcore.servers.llamacpp.ggml.graph import (
    apply,
    concat,
    cont,
    gated,
    get_rows,
    leaf,
    mul_mat,
    mul_mat_id,
    permute,
    reshape,
    set_rows,
    shaped,
    sum_rows,
    top,
    view,
)
from memcore.servers.llamacpp.ggml.tensor import Tensor
from memcore.servers.llamacpp.graph import SELECTS_LATE, Builder, Cache
from memcore.servers.llamacpp.states import state_mixer
from memcore.serving.gguf_types import row_bytes


def layer_of(to: Builder, layer: Layer, index: int, tensor: Tensor, *, last: bool) -> Tensor:
    """Return a layer, with the residual connections of its family."""
    last = last and to.model.network.family not in SELECTS_LATE
    names = to.names[index]
    norms = dict(zip(names, layer.norms, strict=True))
    if layer.residual.startswith("single"):
        return _single(to, layer, index, tensor, names, last=last)
    parallel = "parallel" in layer.residual or layer.residual == "gptj"
    behind = layer.residual == "norms-after"

    def normed(name: str, value: Tensor) -> Tensor:
        return to.norm(norms.get(name), name, value)

    alone = len(names) == 1 and not parallel  # ModernBERT's first layer has no attn_norm (models/modern-bert.cpp)
    before = "attn_norm" if not (behind or alone) else ""
    start = normed(before, tensor) if before else tensor
    # Falcon-H1 normalizes a second time for the mixer beside attention
    current = mixed(to, layer, index, start, *(normed(before, tensor) for _ in layer.mixers[1:]))
    residual = tensor
    if parallel:
        return _parallel(to, layer, names, (tensor, start, current), last=last)
    if last:
        current, residual = to.selected(current), to.selected(residual)
    sandwich = behind or "sandwich" in layer.residual or layer.residual in {"gemma3n", "gemma4"}
    if sandwich:
        current = normed("post_attention_norm", current)
    scaled = layer.residual in {"sequential-scaled", "granite-hybrid"}
    if scaled:
        current = apply("SCALE", current)
    second = apply("ADD", *_ordered(to, current, residual, _LEFT))
    inner = next((name for name in names if name in {"ffn_norm", "attn_output_norm"}), None)
    if inner is None and not behind:
        inner = names[0 if alone else 1]
    current = normed(inner, second) if inner else second
    current = feed_forward(to, layer, current)
    if sandwich:
        current = normed("post_ffw_norm", current)
    if scaled:
        current = apply("SCALE", current)
    return apply("ADD", *_ordered(to, current, second, _LEFT_AT_LAST))


_LEFT = frozenset({"lfm2", "lfm2_moe"})
_LEFT_AT_LAST = _LEFT | {"phi3"}
"""Families that add to the residual, rather than the residual to a result: the first operand's memory is reused."""


def _ordered(to: Builder, current: Tensor, residual: Tensor, families: frozenset[str]) -> tuple[Tensor, Tensor]:
    return (residual, current) if to.model.network.family in families else (current, residual)


def _single(to: Builder, layer: Layer, index: int, tensor: Tensor, names: list[str], *, last: bool) -> Tensor:
    current = to.norm(layer.norms[0], names[0], tensor)
    current = mixed(to, layer, index, current) if layer.mixers else feed_forward(to, layer, current)
    if last:
        current, tensor = to.selected(current), to.selected(tensor)
    return apply("ADD", current, tensor)


def _parallel(
    to: Builder, layer: Layer, names: list[str], values: tuple[Tensor, Tensor, Tensor], *, last: bool
) -> Tensor:
    """Attention and the feed-forward layer see the same tensor."""
    tensor, start, current = values
    if last:
        tensor, start, current = (to.selected(each) for each in values)
    inner = start if len(layer.norms) < 2 else to.norm(layer.norms[1], names[1], tensor)
    found = feed_forward(to, layer, inner)
    first = (current, found) if to.model.network.family == "phi" else (found, current)
    return apply("ADD", apply("ADD", *first), tensor)


def mixed(to: Builder, layer: Layer, index: int, *tensors: Tensor) -> Tensor:
    """Return the layer's mixers, each of a tensor; two run in parallel."""
    found = [_mixer(to, part, index, each) for part, each in zip(layer.mixers, tensors, strict=False)]
    return found[0] if len(found) == 1 else apply("ADD", found[0], found[1])


def _mixer(to: Builder, part: Mixer, index: int, tensor: Tensor) -> Tensor:
    if isinstance(part, Attention):
        return _attention(to, part, index, tensor)
    if isinstance(part, LatentAttention):
        return _latent(to, part, index, tensor)
    return state_mixer(to, part, index, tensor)


def _queries(to: Builder, part: Attention, tensor: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Queries, keys and values, head by head."""
    tokens = to.batch.tokens
    heads = part.heads
    width, value = to.size(heads.width), to.size(heads.value)
    query, key = to.size(heads.query), to.size(heads.key)
    sizes = ((width, query), (width, key), (value, key))
    if part.fused != "no":
        fused = to.linear("attn_qkv", tensor)
        found, offset = [], 0
        for each, count in sizes:
            found.append(view(fused, (each, count, tokens), (4 * each, fused.nb[1]), offset))
            offset += 4 * each * count
        return found[0], found[1], found[2]
    rows = part.norm_place == "row"
    parts = [to.linear(name, tensor) for name in ("attn_q", "attn_k", "attn_v")[: len(part.inputs)]]
    if rows:
        parts[0] = to.norm(part.query_norm, "attn_q_norm", parts[0])
        parts[1] = to.norm(part.key_norm, "attn_k_norm", parts[1])
    shaped_parts = [reshape(each, *size, tokens) for each, size in zip(parts, sizes, strict=False)]
    if len(shaped_parts) == 2:
        return shaped_parts[0], shaped_parts[1], shaped_parts[1]
    return (*shaped_parts, None, None)[:3]  # type: ignore[return-value]


def _attention(to: Builder, part: Attention, index: int, tensor: Tensor) -> Tensor:
    if part.gated:
        return _gated_attention(to, part, index, tensor)
    query, key, value = _queries(to, part, tensor)
    if part.norm_place in {"head", "projected"}:
        query = to.norm(part.query_norm, "attn_q_norm", query)
        query = to.rotate(query, part)
        if key is not None:
            key = to.rotate(to.norm(part.key_norm, "attn_k_norm", key), part)
    else:
        query = to.rotate(query, part)
        key = to.rotate(key, part) if key is not None else None
        if part.norm_place == "after":
            query = to.norm(part.query_norm, "attn_q_norm", query)
            key = to.norm(part.key_norm, "attn_k_norm", key) if key is not None else None
    if to.model.network.family in _SCALED_QUERIES:
        query = apply("SCALE", query)
    found = _to_cache(to, part, index, (query, key, value))
    return to.linear("attn_output", found)


_SCALED_QUERIES = frozenset({"gemma", "gemma2", "gemma3", "gemma3_text", "phi", "phi3", "paligemma"})
"""Queries are scaled before the product."""


def _to_cache(to: Builder, part: Attention, index: int, values: tuple[Tensor, Tensor | None, Tensor | None]) -> Tensor:
    cache = to.caches[index]
    query, key, value = (each if each is None else to.mixed_up(each, cache, place) for place, each in enumerate(values))
    assert query is not None  # noqa: S101
    to.graph.expand(query)
    if value is not None and key is not None:
        to.graph.expand(*((key, value) if to.windowed else (value, key)))
        to.store(cache, key, value)
    width, deep = to.size(part.heads.width), to.size(part.heads.value)
    found = to.attend(query, to.cached_keys(cache, width), to.cached_values(cache, deep), to.mask(cache), part=part)
    return to.mixed_up(found, cache, 2)


def _gated_attention(to: Builder, part: Attention, index: int, tensor: Tensor) -> Tensor:
    """Qwen3-Next: the query projection also yields a gate."""
    tokens, width, heads = to.batch.tokens, to.size(part.heads.width), to.size(part.heads.query)
    keys = to.size(part.heads.key)
    both = to.linear("attn_q", tensor)
    query = view(both, (width, heads, tokens), (4 * 2 * width, 4 * 2 * width * heads))
    query = to.norm(part.query_norm, "attn_q_norm", query)
    key, value = to.linear("attn_k", tensor), to.linear("attn_v", tensor)
    key = to.norm(part.key_norm, "attn_k_norm", reshape(key, width, keys, tokens))
    gate = view(both, (width, heads, tokens), (4 * 2 * width, 4 * 2 * width * heads), 4 * width)
    gate = cont(gate, width * heads, tokens)
    value = reshape(value, width, keys, tokens)
    query, key = to.rotate(query, part), to.rotate(key, part)
    found = _to_cache(to, part, index, (query, key, value))
    found = apply("MUL", found, apply("SIGMOID", gate))
    return to.linear("attn_output", found)


def _latent(to: Builder, part: LatentAttention, index: int, tensor: Tensor) -> Tensor:
    """Absorbed latent attention: one key head, whose first part is also the value."""
    tokens, heads = to.batch.tokens, to.size(part.heads.query)
    width, rotated = to.size(part.heads.width), to.size(part.heads.rotated)
    latent, plain = to.size(*part.expand.inner), width - rotated
    if len(part.queries) == 2:
        query = to.norm(part.query_norm, "attn_q_a_norm", to.linear("attn_q_a", tensor))
        query = to.linear("attn_q_b", query)
    else:
        query = to.linear("attn_q", tensor)
    query = reshape(query, width, heads, tokens)
    both = to.linear("attn_kv_a_mqa", tensor)
    each = row_bytes("F32", latent + rotated)
    compressed = view(both, (latent, tokens), (each,))
    key_rotated = to.rotate(view(both, (rotated, 1, tokens), (each, each), 4 * latent), part)
    compressed = to.norm(part.latent_norm, "attn_kv_a_norm", compressed)
    query_plain = view(query, (plain, heads, tokens), query.nb[1:3])
    query_rotated = to.rotate(view(query, (rotated, heads, tokens), query.nb[1:3], 4 * plain), part)
    cache = to.caches[index]
    if cache.values is not None:
        return _of_heads(to, part, cache, (query_plain, query_rotated), (compressed, key_rotated))
    absorbed = mul_mat(to.weight("attn_k_b.weight"), permute(query_plain, 0, 2, 1, 3))
    query = concat(permute(absorbed, 0, 2, 1, 3), query_rotated)
    value = reshape(compressed, latent, 1, tokens)
    key = concat(value, key_rotated)
    to.graph.expand(query, value, key)
    to.store(cache, key, None)
    keys = to.cached_keys(cache, latent + rotated)
    values = view(keys, (latent, *keys.ne[1:]), keys.nb[1:])
    found = to.attend(query, keys, values, to.mask(cache), part=part, expand=to.weight("attn_v_b.weight"))
    return to.linear("attn_output", found)


def _of_heads(
    to: Builder, part: LatentAttention, cache: Cache, queries: tuple[Tensor, Tensor], keys: tuple[Tensor, Tensor]
) -> Tensor:
    """Latent attention whose keys and values of every head are cached (`llm_build_deepseek2`, without `is_mla`)."""
    (plain, heads, tokens), width = queries[0].ne[:3], to.size(part.heads.value)
    expand = leaf(to.weight("attn_v_b.weight").type, keys[0].ne[0], heads * (plain + width))
    expand.place, expand.weight = to.weight("attn_v_b.weight").place, True
    both = mul_mat(expand, keys[0])
    each = row_bytes("F32", plain + width)
    strides = (each, each * heads)
    value = cont(view(both, (width, heads, tokens), strides, 4 * plain), width, heads, tokens)
    query = concat(*queries)
    key = concat(view(both, (plain, heads, tokens), strides), shaped("REPEAT", queries[1].ne, keys[1]))
    to.graph.expand(query, value, key)
    to.store(cache, key, value)
    cached = to.cached_keys(cache, key.ne[0]), to.cached_values(cache, width)
    return to.linear("attn_output", to.attend(query, *cached, to.mask(cache), part=part))


def feed_forward(to: Builder, layer: Layer, tensor: Tensor) -> Tensor:
    """Return the layer's feed-forward layers; a second one sees the same tensor."""
    found = [_ffn(to, ffn, tensor, sparse=layer.has_experts) for ffn in layer.ffns]
    return found[0] if len(found) == 1 else apply("ADD", found[0], found[1])


def _ffn(to: Builder, part: Ffn, tensor: Tensor, *, sparse: bool) -> Tensor:
    if isinstance(part, FeedForward):
        return _dense(to, part, tensor, "_shexp" if sparse and part.kind == "shared-expert" else "")
    found = _experts(to, part, tensor)
    if part.shared is None:
        return found
    shared = _dense(to, part.shared, tensor, "_shexp")
    if part.shared_gate is not None:
        gate = mul_mat(to.weight("ffn_gate_inp_shexp.weight"), tensor)
        shared = apply("MUL", shared, apply("SIGMOID", gate))
    return apply("ADD", found, shared)


def _activated(part: FeedForward | Experts, tensor: Tensor) -> Tensor:
    """Return an activation without a gate."""
    if part.activation in {"relu2", "relu_squared"}:
        return apply("SQR", apply("RELU", tensor))
    return apply("XIELU" if part.activation == "xielu" else "GELU", tensor)


def _gated(to: Builder, gate: Tensor, up: Tensor | None = None) -> Tensor:
    """Return an activation times an up projection (`gated`), in one operation or in two."""
    if to.batch.release.gates_at_once:
        return gated("GLU", gate, up)
    if up is None:
        half, whole = gate.ne[0] // 2, gate
        gate, up = (cont(view(whole, (half, *whole.ne[1:]), whole.nb[1:], 4 * half * place)) for place in (0, 1))
    return apply("MUL", apply("SILU", gate), up)


def _dense(to: Builder, part: FeedForward, tensor: Tensor, suffix: str) -> Tensor:
    up = to.linear(f"ffn_up{suffix}", tensor)
    gate = to.optional(f"ffn_gate{suffix}.weight")
    if gate is not None:
        found = _gated(to, to.linear(f"ffn_gate{suffix}", tensor), up)
    elif part.fused:
        found = _gated(to, up)
    else:
        found = _activated(part, up)
    return to.linear(f"ffn_down{suffix}", found)


def _chosen(to: Builder, part: Experts, tensor: Tensor) -> tuple[Tensor, Tensor]:
    """Return the experts of every token, and their weights."""
    tokens, experts, chosen = tensor.ne[1], to.size("E"), to.size(part.routed)
    family = to.model.network.family
    logits = to.linear("ffn_gate_inp", tensor)
    late = family in {"gpt_oss", "llama4"}
    bias = to.optional("exp_probs_b.bias")
    sigmoid = family == "llama4" or bias is not None
    scores = logits if family == "gpt_oss" else apply("SIGMOID" if sigmoid else "SOFT_MAX", logits)
    selection = scores
    if bias is not None:
        selection = apply("ADD", scores, bias)
    if family == "llama4":
        selection = logits
    if part.groups is not None and to.size(part.groups[0]) > 1:
        selection = _within_groups(to, part, selection)
    ids = top(selection, chosen)
    weights = get_rows(reshape(scores, 1, experts, tokens), ids)
    if late and family == "gpt_oss":
        weights = reshape(apply("SOFT_MAX", reshape(weights, chosen, tokens)), 1, chosen, tokens)
    if "normalized" in part.options or family in _NORMALIZED:
        flat = reshape(weights, chosen, tokens)
        flat = apply("DIV", flat, apply("CLAMP", sum_rows(flat)))
        weights = reshape(flat, 1, chosen, tokens)
    if family in _SCALED_EXPERTS:
        weights = apply("SCALE", weights)
    to.graph.expand(weights)
    return ids, weights


_NORMALIZED = frozenset({"mixtral", "qwen3_moe", "qwen3_next", "deepseek_v3"})
_SCALED_EXPERTS = frozenset(
    {"deepseek_v2", "deepseek_v3", "deepseek_v32", "glm4_moe", "glm4_moe_lite", "glm_moe_dsa", "kimi_linear"}
)


def _within_groups(to: Builder, part: Experts, scores: Tensor) -> Tensor:
    """Only experts of the best groups can be chosen (DeepSeek-V3)."""
    assert part.groups is not None  # noqa: S101
    groups, kept = (to.size(each) for each in part.groups)
    experts, tokens = scores.ne[0], scores.ne[1]
    split = reshape(scores, experts // groups, groups, tokens)
    best = get_rows(reshape(split, 1, *split.ne[:3]), top(split, 2))
    totals = sum_rows(reshape(best, *best.ne[1:4]))
    order = top(reshape(totals, *totals.ne[1:3]), kept)
    rows = get_rows(split, order)
    masked = set_rows(apply("FILL", split), rows, order)
    return reshape(masked, experts, tokens)


def _experts(to: Builder, part: Experts, tensor: Tensor) -> Tensor:
    """Routed experts: every token's rows through the matrices of its experts, weighted and summed."""
    tokens, chosen, hidden = tensor.ne[1], to.size(part.routed), tensor.ne[0]
    ids, weights = _chosen(to, part, tensor)
    rows = reshape(tensor, hidden, 1, tokens)
    early = to.model.network.family == "llama4"
    if early:
        rows = apply("MUL", shaped("REPEAT", (hidden, chosen, tokens), rows), weights)
    found = _expert_matrices(to, part, rows, ids)
    if not early:
        found = apply("MUL", found, weights)
    to.graph.expand(found)
    parts = [view(found, (hidden, tokens), (found.nb[2],), place * found.nb[1]) for place in range(chosen)]
    to.graph.expand(*parts)
    total = parts[0]
    for each in parts[1:]:
        total = apply("ADD", total, each)
        to.graph.expand(total)
    return cont(total) if chosen == 1 else total


def _expert_matrices(to: Builder, part: Experts, rows: Tensor, ids: Tensor) -> Tensor:
    def product(name: str, value: Tensor) -> Tensor:
        found = mul_mat_id(to.weight(f"{name}.weight"), value, ids)
        bias = to.optional(f"{name}.bias")
        return found if bias is None else apply("ADD_ID", found, bias, ids)

    if to.optional("ffn_gate_up_exps.weight") is not None:
        both = product("ffn_gate_up_exps", rows)
        half = both.ne[0] // 2
        gate = view(both, (half, *both.ne[1:3]), both.nb[1:3])
        inner = _gated(to, gate, view(both, (half, *both.ne[1:3]), both.nb[1:3], 4 * half))
    elif part.gated and to.batch.release.fuses_gates:
        up, gate = to.weight("ffn_up_exps.weight"), to.weight("ffn_gate_exps.weight")
        inner = shaped("MOE_FUSED_UP_GATE", (up.ne[1], ids.ne[0], ids.ne[1]), up, gate, rows, ids)
    elif part.gated:
        up = product("ffn_up_exps", rows)
        inner = _gated(to, product("ffn_gate_exps", rows), up)
    else:
        inner = _activated(part, product("ffn_up_exps", rows))
    return product("ffn_down_exps", inner)
