"""Families with parts of their own: Gemma 3n and 4, DeepSeek-V4, the language model of Llama 3.2 Vision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from memcore.messages import joined
from memcore.networks import patterns
from memcore.networks.families.decoders import GEMMA_KEYS, HEAD_NORMS, SANDWICH
from memcore.networks.families.family import Family
from memcore.networks.families.sparse import CORRECTION
from memcore.networks.parts import Extra, SpecialMixer
from memcore.networks.patterns import Place, every, typed
from memcore.networks.reader import Reader
from memcore.networks.routed import Routed, shared_expert
from memcore.networks.rows import Dense, Grouped, rotated
from memcore.networks.weights import Weight
from memcore.records import dataclass
from memcore.symbols import Quotient, Shape, product


def _other(name: str, *axes: Shape, kind: str = "other", split: str | None = None) -> Weight:
    return Weight(name, axes, kind, split=split)


# Gemma 3n and 4: the last layers use the keys and values of earlier ones.


def _shared_late(plan: patterns.MixerPlan) -> patterns.MixerPlan:
    """The last `num_kv_shared_layers` have no keys and values of their own; full layers may have another shape."""

    def places(reader: Reader) -> list[Place]:
        found = list(plan(reader))
        own = len(found) - reader.integer("num_kv_shared_layers", 0, least=0)
        last = {place.mask: i for i, place in enumerate(found[: max(own, 0)])} if own < len(found) else {}
        lacking = {place.mask for place in found[max(own, 0) :]} - set(last)
        if lacking:
            reader.refuse(
                "num_kv_shared_layers",
                "none of the {} layers before it has {} attention to share",
                max(own, 0),
                joined(" or ", sorted(lacking)),
            )
        roles = ["shared" if i >= own else "stored" if i in last.values() else "" for i in range(len(found))]
        return [
            replace(place, mixer=f"{place.mask} {role}".rstrip(), tag=role)
            for place, role in zip(found, roles, strict=True)
        ]

    return places


def _last_full(reader: Reader) -> list[Place]:
    found = list(typed(every(6))(reader))
    return [*found[:-1], replace(found[-1], mask="full")] if found else found


def _gemma_mixers(sliding: Grouped, full: Grouped) -> dict[str, Grouped]:
    own = {"sliding": sliding, "full": full}
    return {
        **own,
        **{f"{mask} stored": replace(row, stores_cache=True) for mask, row in own.items()},
        **{f"{mask} shared": replace(row, shares_cache=True) for mask, row in own.items()},
    }


def _per_layer(reader: Reader) -> list[Weight]:
    """Return an embedding of its own for each layer, added at its end."""
    width = reader.integer("hidden_size_per_layer_input", 0, least=0)
    if not width:
        return []
    reader.symbol("pl", width)
    return [
        _other("per_layer_input_gate.weight", ("pl",), ("h",)),
        _other("per_layer_projection.weight", ("h",), ("pl",)),
        _other("post_per_layer_input_norm.weight", ("h",), kind="norm"),
    ]


def _per_layer_weights(reader: Reader) -> tuple[Weight, ...]:
    width = reader.integer("hidden_size_per_layer_input", 0, least=0)
    if not width:
        return ()
    reader.symbol("pl", width)
    reader.symbol("Vl", reader.integer("vocab_size_per_layer_input"))
    reader.symbol("L", patterns.depth(reader))
    return (
        _other("model.embed_tokens_per_layer.weight", ("Vl",), ("L", "pl"), kind="embedding"),
        _other("model.per_layer_model_projection.weight", ("L", "pl"), ("h",)),
        _other("model.per_layer_projection_norm.weight", ("pl",), kind="norm"),
    )


def _gemma4_extra(reader: Reader, place: Place) -> Extra | None:
    found = _per_layer(reader)
    if reader.flag("enable_moe_block"):
        names = ("post_feedforward_layernorm_1", "post_feedforward_layernorm_2", "pre_feedforward_layernorm_2")
        found += [_other(f"{name}.weight", ("h",), kind="norm") for name in names]
    return Extra("gemma4", tuple(found)) if found else None


def _gemma4_width(reader: Reader) -> int:
    """Layers that share a cache may have a feed-forward layer twice as wide."""
    shared = reader.integer("num_kv_shared_layers", 0, least=0)
    late = reader.layer is not None and reader.layer >= patterns.depth(reader) - shared
    return reader.integer("intermediate_size") * (2 if late and reader.flag("use_double_wide_mlp") else 1)


def _gemma4_heads(reader: Reader) -> int:
    """Full layers may have fewer key heads."""
    given = reader.integer("num_key_value_heads")
    return reader.integer("num_global_key_value_heads", given) if reader.flag("attention_k_eq_v") else given


def _sparse_gates(reader: Reader) -> list[str]:
    """Return where only the largest elements of the gate are kept.

    In the first ten layers, if the file does not say.
    """
    listed, count = reader.listed("activation_sparsity_pattern"), patterns.depth(reader)
    if listed is None:
        listed = [float(count > 10 and i < 10) for i in range(count)]
    if len(listed) < count:
        reader.refuse("activation_sparsity_pattern", "lists {} of {} layers", len(listed), count)
        return ["dense"] * count
    return ["sparse" if isinstance(each, (int, float)) and each > 0 else "dense" for each in listed[:count]]


def _gemma3n_extra(reader: Reader, place: Place) -> Extra:
    inputs = reader.integer("altup_num_inputs")
    n, rank = reader.symbol("na", inputs), reader.symbol("la", reader.integer("laurel_rank"))
    scale = [_other("altup.correct_output_scale", ("h",))]  # there even where altup_correct_scale says not to use it
    found = [
        *scale,
        _other("altup.correction_coefs.weight", (n,), (n,)),
        _other("altup.prediction_coefs.weight", (n, n), (n,)),
        _other("altup.modality_router.weight", (n,), ("h",), kind="router"),
        _other("altup.router_norm.weight", ("h",), kind="norm"),
        _other("laurel.linear_left.weight", (rank,), ("h",)),
        _other("laurel.linear_right.weight", ("h",), (rank,)),
        _other("laurel.post_laurel_norm.weight", ("h",), kind="norm"),
        *_per_layer(reader),
    ]
    return Extra("gemma3n", tuple(found))


def _gemma3n_ends(reader: Reader) -> tuple[Weight, ...]:
    reader.integer("hidden_size_per_layer_input")  # unlike Gemma 4, it always adds them
    copies = reader.integer("altup_num_inputs") - 1
    names = ("altup_projections", "altup_unembed_projections")
    altup = [_other(f"model.{name}.{i}.weight", ("h",), ("h",)) for name in names for i in range(copies)]
    return (*_per_layer_weights(reader), *altup)


_ROTATED_SHARE = 64 / 512
"""Of a head of DeepSeek-V4, where the file does not say."""

# DeepSeek-V4: attention over compressed keys, and hyper-connections instead of one residual.


@dataclass(frozen=True, slots=True)
class Compressed:
    """Attention over a window, and over keys compressed at a rate."""

    kind: str
    """A key of `compress_rates`."""

    def read(self, reader: Reader, mask: str, *, rotates: bool = True) -> SpecialMixer:
        """Return the mixer."""
        weights, d, lq = self.window(reader)
        if self.kind == "sliding_attention":
            m, cached = "self_attn", ((2, d),)
            return SpecialMixer(m, "deepseek_v4", tuple(weights), (), cached=cached, mask="sliding", table="main")
        return self._compressed(reader, weights, d, lq)

    def window(self, reader: Reader) -> tuple[list[Weight], str, str]:
        """Return the weights of attention over a window, and the symbols of a head's and of queries' latent width."""
        m = "self_attn"
        heads, width = reader.integer("num_attention_heads"), reader.integer("head_dim")
        reader.symbol("a", heads)
        d = reader.symbol("d", width)
        lq, many = reader.symbol("lq", reader.integer("q_lora_rank")), reader.integer("o_groups")
        groups = reader.symbol("go", many)
        lo = reader.symbol("lo", reader.integer("o_lora_rank"))
        if heads * width % many:
            reader.refuse("o_groups", "{} does not divide the {} attention heads", many, heads)
        reader.symbol("r", reader.integer("qk_rope_head_dim", rotated(reader, width, _ROTATED_SHARE)))
        return (
            [
                _other(f"{m}.sinks", ("a",), kind="attention"),
                _other(f"{m}.q_a_proj.weight", (lq,), ("h",), kind="attention"),
                _other(f"{m}.q_a_norm.weight", (lq,), kind="norm"),
                _other(f"{m}.q_b_proj.weight", ("a", d), (lq,), kind="attention", split="outer"),
                _other(f"{m}.kv_proj.weight", (d,), ("h",), kind="attention"),
                _other(f"{m}.kv_norm.weight", (d,), kind="norm"),
                _other(
                    f"{m}.o_a_proj.weight", (groups, lo), (Quotient(("a", d), groups),), kind="attention", split="outer"
                ),
                _other(f"{m}.o_b_proj.weight", ("h",), (groups, lo), kind="attention", split="inner"),
            ],
            d,
            lq,
        )

    def _compressed(self, reader: Reader, weights: list[Weight], d: str, lq: str) -> SpecialMixer:
        sparse, m = self.kind == "compressed_sparse_attention", "self_attn"
        t = reader.symbol("t", reader.integer(f"compress_rates.{self.kind}", 4 if sparse else 128))
        wide: Shape = (2, d) if sparse else (d,)
        c = f"{m}.compressor"
        weights += [
            _other(f"{c}.position_bias", (t,), wide, kind="attention"),
            _other(f"{c}.kv_proj.weight", wide, ("h",), kind="attention"),
            _other(f"{c}.gate_proj.weight", wide, ("h",), kind="attention"),
            _other(f"{c}.kv_norm.weight", (d,), kind="norm"),
        ]
        # Keys are values. Until a block is full, its tokens wait uncompressed, with their gates; blocks overlap.
        cached: tuple[Shape, ...] = ((d,), (2, d))
        state: tuple[Shape, ...] = ()
        if sparse:
            i, j = (
                reader.symbol("i", reader.integer("index_n_heads")),
                reader.symbol("j", reader.integer("index_head_dim")),
            )
            reader.symbol("ti", reader.integer("index_topk"))
            x = f"{c}.indexer"
            weights += [
                _other(f"{x}.position_bias", (t,), (2, j), kind="attention"),
                _other(f"{x}.kv_proj.weight", (2, j), ("h",), kind="attention"),
                _other(f"{x}.gate_proj.weight", (2, j), ("h",), kind="attention"),
                _other(f"{x}.kv_norm.weight", (j,), kind="norm"),
                _other(f"{x}.q_b_proj.weight", (i, j), (lq,), kind="attention"),
                _other(f"{x}.scorer.weights_proj.weight", (i,), ("h",), kind="attention"),
            ]
            cached = ((d,), (Quotient((d,), t),), (Quotient((j,), t),))
            state = ((2, t, d), (2, t, j))
        options = frozenset({"sparse"} if sparse else ())
        return SpecialMixer(m, "deepseek_v4", tuple(weights), state, options, cached, table="compress")


_COMPRESSION = {128: "heavily_compressed_attention", 4: "compressed_sparse_attention", 0: "sliding_attention"}
"""Kinds of attention by how many tokens become one."""


def _v4_types(reader: Reader) -> list[Place]:
    count = patterns.depth(reader)
    rates = _COMPRESSION
    listed, legacy = reader.listed("layer_types"), reader.listed("compress_ratios")
    if listed is None and legacy is not None:
        listed = [rates.get(rate, "?") if isinstance(rate, int) else "?" for rate in legacy]
    if listed is None:
        listed = [rates[128] if i < 2 or not i % 2 else rates[4] for i in range(count)]
    unknown = [word for word in listed if word not in rates.values()]
    if unknown:
        reader.refuse("layer_types", "found {!r}; allowed: {}", unknown[0], joined(", ", rates.values()))
    if len(listed) < count:
        reader.refuse("layer_types", "lists {} of {} layers", len(listed), count)
    return [Place(str(word) if word in rates.values() else rates[4]) for word in listed[:count]]


def _v4_ffns(reader: Reader) -> list[str | None]:
    """In the first layers a table chooses the experts by word."""
    listed, count = reader.listed("mlp_layer_types"), patterns.depth(reader)
    if listed is None:
        first = reader.integer("num_hash_layers", 3, least=0)
        return ["hashed" if i < first else "sparse" for i in range(count)]
    if len(listed) < count:
        reader.refuse("mlp_layer_types", "lists {} of {} layers", len(listed), count)
    return ["hashed" if word == "hash_moe" else "sparse" for word in listed[:count]]


V4_EXPERTS = Routed(
    variant="deepseek_v4",
    count="n_routed_experts",
    shared=shared_expert("mlp.shared_experts", times="n_shared_experts"),
    shared_if="n_shared_experts",
    correction=CORRECTION,
)


def hyper_connections(reader: Reader, place: Place) -> Extra:
    """Return what several residual streams are mixed by, around attention and around the feed-forward layer."""
    copies = reader.integer("hc_mult")
    c, o = reader.symbol("hc", copies), reader.symbol("ho", copies * (2 + copies))
    found = [
        each
        for name in ("attn_hc", "ffn_hc")
        for each in (
            _other(f"{name}.fn", (o,), (c, "h")),
            _other(f"{name}.base", (o,)),
            _other(f"{name}.scale", (3,)),
        )
    ]
    return Extra("hyper-connections", tuple(found), reader.integer("hc_sinkhorn_iters"))


def _hyper_head(reader: Reader) -> tuple[Weight, ...]:
    c = reader.symbol("hc", reader.integer("hc_mult"))
    return (
        _other("model.hc_head.hc_fn", (c,), (c, "h")),
        _other("model.hc_head.hc_base", (c,)),
        _other("model.hc_head.hc_scale", (1,)),
    )


def _v4_drafting(reader: Reader) -> int:
    """Count layers that see a window alone, two matrices for a token and a hidden state, three norms and a head."""
    many = reader.integer("num_nextn_predict_layers", 0, least=0)
    if not many:
        return 0
    layer = [*Compressed("sliding_attention").read(reader, "full").weights(), *V4_EXPERTS.read(reader).weights()]
    layer += [*hyper_connections(reader, Place()).parameters, _other("norms", (5, "h"))]
    layer += [_other("inputs", (2, "h"), ("h",)), *_hyper_head(reader)]
    return many * sum(product(weight.shape, reader.sizes) for weight in layer)


# Llama 3.2 Vision: some layers attend to images.


def _crossing(reader: Reader) -> list[Place]:
    listed = reader.places("cross_attention_layers")
    chosen = set(range(3, 40, 5)) if listed is None else set(listed)
    return [Place("cross", tag="cross") if i in chosen else Place() for i in range(patterns.depth(reader))]


def _gates(reader: Reader, place: Place) -> Extra | None:
    if place.tag != "cross":
        return None
    return Extra("mllama", (_other("cross_attn_attn_gate", (1,)), _other("cross_attn_mlp_gate", (1,))))


_GEMMA3N = Grouped(variant="gemma", norms=HEAD_NORMS, norm="rms-power", value_norm="v_norm", own_table=True)
_GEMMA4 = replace(_GEMMA3N, norm_place="projected")
_NORMED = Family(
    keys=GEMMA_KEYS,
    norm="rms-power",
    norms=SANDWICH,
    residual="sandwich",
    embedding_scaled=True,
)

SPECIAL: Mapping[str, Family] = {
    "gemma3n_text": replace(
        _NORMED,
        mixers=_gemma_mixers(_GEMMA3N, _GEMMA3N),
        mixer_plan=_shared_late(typed(every(5))),
        ffns={"dense": Dense(gating="kept"), "sparse": Dense(gating="sparse")},
        ffn_plan=_sparse_gates,
        residual="gemma3n",
        start="gemma3n",
        more=_gemma3n_extra,
        others=_gemma3n_ends,
    ),
    "gemma4_text": replace(
        _NORMED,
        mixers=_gemma_mixers(
            _GEMMA4,
            replace(
                _GEMMA4,
                width=lambda reader: reader.integer("global_head_dim", 512),
                kv_heads=_gemma4_heads,
                values_are_keys="attention_k_eq_v",
            ),
        ),
        ffns={"dense": Dense(width=_gemma4_width)},
        second_ffn=Routed(
            variant="gemma4",
            router_module="linear",
            module="",
            router="router.proj",
            chosen="top_k_experts",
            routing=(
                Weight("router.scale", (("h",),), "router"),
                Weight("router.per_expert_scale", (("E",),), "router"),
            ),
        ),
        second_if="enable_moe_block",
        mixer_plan=_shared_late(_last_full),
        residual="gemma4",
        start="gemma4",
        more=_gemma4_extra,
        others=_per_layer_weights,
    ),
    "deepseek_v4": Family(
        only={"mlp_bias": False, "n_shared_experts": 1},
        mixers={kind: Compressed(kind) for kind in _COMPRESSION.values()},
        ffns={"sparse": V4_EXPERTS, "hashed": replace(V4_EXPERTS, correction=None, tabled=True)},
        mixer_plan=_v4_types,
        ffn_plan=_v4_ffns,
        norm="rms-after",
        residual="hyper-connections",
        start="deepseek_v4",
        more=hyper_connections,
        others=_hyper_head,
        drafts=_v4_drafting,
        sdpa=False,
    ),
    "mllama_text_model": Family(
        mixers={
            "attention": Grouped(bias=False, output_bias=False, splits_late=True),
            "cross": Grouped(
                variant="crossing",
                module="cross_attn",
                bias=False,
                output_bias=False,
                norms=HEAD_NORMS,
                rotary="none",
                crosses=True,
            ),
        },
        mixer_plan=_crossing,
        residual=lambda reader, place: "mllama-cross" if place.tag else "sequential",
        more=_gates,
        embedding_rows=lambda reader: reader.integer("vocab_size") + 8,
    ),
}
"""Rows by `model_type`."""
