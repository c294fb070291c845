"""Rows of the family tables: how a family names the keys and tensors of a common part, and how a row becomes a part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from memcore.errors import nearest
from memcore.messages import Message
from memcore.networks.parts import Attention, FeedForward, Ffn, Heads, LatentAttention, Mixer
from memcore.networks.reader import Reader
from memcore.networks.weights import Linear, Norm, Weight
from memcore.records import dataclass
from memcore.symbols import Axis, Shape, Shifted
from memcore.tensors.operations import ACTIVATIONS

Width: TypeAlias = "str | Callable[[Reader], int]"
"""The key of a width, or how a family computes it."""


class MixerRow(Protocol):
    """Describes a mixer."""

    def read(self, reader: Reader, mask: str, *, rotates: bool) -> Mixer:
        """Return the mixer of the layer at hand, given which tokens it sees and whether it rotates."""


class FfnRow(Protocol):
    """Describes a feed-forward layer."""

    def read(self, reader: Reader) -> Ffn:
        """Return the feed-forward layer of the layer at hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouped:
    """Softmax attention with query heads that may share key heads."""

    module: str = "self_attn"
    inputs: tuple[str, ...] = ("q_proj", "k_proj", "v_proj")
    """Three matrices, or a single fused one."""
    output: str = "o_proj"
    fused: str | Callable[[Reader], str] = "no"
    """How a fused matrix is laid out (`parts.Attention.fused`)."""
    bias: str | bool = "attention_bias"
    """The key that decides, or what the code fixes."""
    output_bias: str | bool = "attention_bias"
    heads: str = "num_attention_heads"
    kv_heads: str | Callable[[Reader], int] | None = "num_key_value_heads"
    """The key, or how a family computes it; None: as many as query heads."""
    width: str | Callable[[Reader], int] = "head_dim"
    """The key, or how a family computes it; without either, the hidden size divided by the heads."""
    value_width: str | None = None
    source: Axis = "h"
    """What it projects from."""
    norms: tuple[str, str] | None = None
    norm_if: str | bool = True
    norm: str = "rms"
    norm_place: str = "head"
    norm_shape: str = "head"
    """`head`: one for all heads; `each`: a weight for each head; `listed`: a norm for each head; `row`: over all."""
    norms_rotated_only: bool = False
    """Layers without positions have no such norms (Llama 4)."""
    value_norm: str | None = None
    rotary: str | Callable[[Reader], str] = "full"
    bidirectional: str | bool = False
    variant: str = "attention"
    """The family whose code it is."""
    scales_queries: bool = False
    scales_keys: bool = False
    tuned: str | None = None
    """The key that scales queries by their position in layers that do not rotate (Llama 4)."""
    splits_late: bool = False
    own_table: bool = False
    """Sliding and full layers rotate at different frequencies."""
    grids: str | None = None
    share: float = 1.0
    """How much of a head is rotated, where the file does not say."""
    transposed: bool = False
    softmax_fp32: bool = True
    gated: bool = False
    sinks: bool = False
    biased: str | bool = False
    """ALiBi instead of rotations."""
    softcap: str | None = None
    clamp: str | None = None
    dropout: str = "attention_dropout"
    values_are_keys: str | bool = False
    stores_cache: bool = False
    shares_cache: bool = False
    crosses: bool = False
    caches_copies: str | bool = False
    """transformers caches keys and values copied for every query head (Falcon)."""
    keeps_window: bool = False
    """The module keeps a window's keys and values itself (RecurrentGemma)."""
    borrowed: bool = False

    def read(self, reader: Reader, mask: str, *, rotates: bool = True) -> Attention:
        """Return the attention layer."""
        heads = self._heads(reader)
        query, key = (heads.query, heads.width), (heads.key, heads.width)
        normed = self.norms and reader.flag(self.norm_if) and (rotates or not self.norms_rotated_only)
        names = self.norms if self.norms and normed else (None, None)
        cached = heads.query if reader.flag(self.caches_copies) else heads.key
        biased = reader.flag(self.biased)
        per_token: tuple[Shape, ...] = ((cached, heads.width), (cached, heads.value))
        window = reader.symbol("sw", reader.integer("sliding_window")) if self.keeps_window else 1
        in_cache = not (self.shares_cache or self.crosses or self.keeps_window)
        return Attention(
            module=self.module,
            inputs=self._inputs(reader, heads),
            output=Linear(
                _within(self.module, self.output),
                ("h",),
                (heads.query, heads.value),
                reader.flag(self.output_bias),
                self.transposed,
                "inner",
            ),
            heads=heads,
            grouped=reader.sizes[str(heads.groups)] > 1,
            rotary=self._rotation(reader) if rotates else "none",
            variant=self.variant,
            scales_queries=self.scales_queries,
            scales_keys=self.scales_keys,
            tuned=self.tuned is not None and not rotates and bool(reader.value(self.tuned)),
            splits_late=self.splits_late or self.norm_place == "row",
            table="module" if self.keeps_window else mask if self.own_table else "main",
            grids=self.grids,
            fused=self._layout(reader),
            repeats_heads=reader.value("gqa") == "repeat",
            query_norm=self._norm(reader, names[0], query),
            key_norm=None if self.shares_cache else self._norm(reader, names[1], key),
            value_norm=self._norm(reader, self.value_norm, (heads.key, heads.value), kind=f"{self.norm}-plain"),
            norm_place=self.norm_place,
            mask=mask,
            bidirectional=reader.flag(self.bidirectional),
            softcap=self.softcap is not None and reader.has(self.softcap),
            softmax_fp32=self.softmax_fp32,
            dropout=reader.number(self.dropout, 0.0),
            gated=self.gated,
            sinks=Weight(_within(self.module, "sinks"), ((heads.query,),), "attention", split="outer")
            if self.sinks
            else None,
            biased=biased,
            stores_cache=self.stores_cache,
            shares_cache=self.shares_cache,
            crosses=self.crosses,
            clamped=self.clamp is not None and reader.has(self.clamp),
            borrowed=self.borrowed,
            cached=per_token if in_cache else (),
            kept=tuple((window, *shape) for shape in per_token) if self.keeps_window else (),
        )

    def _heads(self, reader: Reader) -> Heads:
        hidden, query = reader.sizes["h"], reader.integer(self.heads)
        key = self._kv_heads(reader, query)
        if query % key:
            named = self.kv_heads if isinstance(self.kv_heads, str) else self.heads
            reader.refuse(named, "{} does not divide the {} attention heads", key, query)
        width = self.width(reader) if callable(self.width) else reader.integer(self.width, hidden // query or 1)
        if isinstance(self.width, str) and not reader.has(self.width) and hidden % query and not reader.floors:
            reader.refuse(
                self.heads, "{} does not divide the hidden size {}, and {} is absent", query, hidden, self.width
            )
        if width < 1:
            reader.refuse(self.heads, "{} heads are too many for a hidden size of {}", query, hidden)
            width = 1
        value = reader.integer(self.value_width, width) if self.value_width else width
        d, turned = reader.symbol("d", width), rotated(reader, width, self.share)
        return Heads(
            query=reader.symbol("a", query),
            key=reader.symbol("k", key),
            groups=reader.symbol("g", max(query // key, 1)),
            width=d,
            value=d if value == width else reader.symbol("v", value),
            rotated=d if turned == width else reader.symbol("r", turned),
            unaligned=width % 8 != 0,
            wide=width > 256,
        )

    def _kv_heads(self, reader: Reader, query: int) -> int:
        if callable(self.kv_heads):
            return self.kv_heads(reader)
        return reader.integer(self.kv_heads, query) if self.kv_heads else query

    def _rotation(self, reader: Reader) -> str:
        return self.rotary(reader) if callable(self.rotary) else self.rotary

    def _layout(self, reader: Reader) -> str:
        return self.fused(reader) if callable(self.fused) else self.fused

    def _inputs(self, reader: Reader, heads: Heads) -> tuple[Linear, ...]:
        key: Shape = (heads.key, heads.width)
        outer: list[Shape] = [(heads.query, *((2,) if self.gated else ()), heads.width), key, (heads.key, heads.value)]
        names = self.inputs
        if len(names) == 1:
            total = sum(reader.sizes[str(each)] for each in (heads.query, heads.key, heads.key))
            outer = [_FUSED[self._layout(reader)](heads, reader.symbol("n", total))]
        elif self.shares_cache:
            names = names[:1]
        elif reader.flag(self.values_are_keys):
            names = names[:2]
        bias = reader.flag(self.bias)
        return tuple(
            Linear(_within(self.module, name), axes, (self.source,), bias, self.transposed, "outer")
            for name, axes in zip(names, outer)  # noqa: B905 - values or keys may be absent
        )

    def _norm(self, reader: Reader, name: str | None, shape: tuple[Axis, Axis], kind: str | None = None) -> Norm | None:
        if name is None:
            return None
        full = _within(self.module, name)
        heads, width = shape
        if self.norm_shape == "row":
            return Norm(full, kind or self.norm, (heads, width))
        leading: Shape = (heads,) if self.norm_shape == "each" else ()
        listed = reader.sizes[str(heads)] if self.norm_shape == "listed" else None
        return Norm(full, kind or self.norm, (width,), bias=self.norm == "layer-biased", leading=leading, listed=listed)


_FUSED: dict[str, Callable[[Heads, str], Shape]] = {
    "per-head": lambda heads, total: (heads.query, 3, heads.width),
    "thirds": lambda heads, total: (3, heads.query, heads.width),
    "grouped": lambda heads, total: (total, heads.width),
    "grouped-split": lambda heads, total: (total, heads.width),
    "shared": lambda heads, total: (total, heads.width),
    "per-group": lambda heads, total: (heads.key, Shifted(heads.groups, 1, 2), heads.width),
}


def rotated(reader: Reader, width: int, share: float) -> int:
    """Return how many elements of a head are rotated; `share` of them where the file does not say.

    Proportional frequencies have the whole width, with zeros for what is not rotated (transformers,
    modeling_rope_utils.py, `_compute_proportional_rope_parameters`).
    """
    rope = reader.value("rope_parameters")
    for source in (rope, next(iter(rope.values()), None) if isinstance(rope, dict) else None):
        if not isinstance(source, dict) or source.get("rope_type") == "proportional":
            continue
        if isinstance(source.get("partial_rotary_factor"), (int, float)):
            share = source["partial_rotary_factor"]
            if 0 <= share <= 1:
                return int(width * share)
            reader.refuse("rope_parameters", "expected a partial_rotary_factor from 0 to 1, found {!r}", share)
            return width
    if reader.has("rotary_dim"):
        return reader.integer("rotary_dim")
    return int(width * reader.number("partial_rotary_factor", share))


@dataclass(frozen=True, slots=True, kw_only=True)
class Latent:
    """Multi-head latent attention."""

    variant: str
    rotary: str | None = None
    """What the code fixes; else `rope_interleave` decides."""
    module: str = "self_attn"
    output: str = "o_proj"
    indexed: bool = False
    """DeepSeek sparse attention: an indexer chooses the tokens."""
    shares_indexer: bool = False
    """The last indexer's choice is used again (GLM-5)."""

    def read(self, reader: Reader, mask: str, *, rotates: bool = True) -> LatentAttention:
        """Return the attention layer."""
        heads = reader.symbol("a", reader.integer("num_attention_heads"))
        rotary, plain = reader.integer("qk_rope_head_dim"), reader.integer("qk_nope_head_dim")
        value, latent = reader.integer("v_head_dim"), reader.integer("kv_lora_rank")
        d, u = reader.symbol("d", rotary + plain), reader.symbol("u", plain + value)
        c, lk, r = reader.symbol("c", latent + rotary), reader.symbol("lk", latent), reader.symbol("r", rotary)
        v = d if value == rotary + plain else reader.symbol("v", value)
        reader.symbol("p", plain)
        interleaved = "interleaved" if reader.flag("rope_interleave", default=True) else "halves"
        bias, m = reader.flag("attention_bias"), self.module
        queries: tuple[Linear, ...] = (Linear(f"{m}.q_proj", (heads, d), ("h",), split="outer"),)
        # Checkpoints that do not compress queries (V2-Lite, Moonlight) say null, which a config may leave out. Only one
        # that leaves out all sizes means the class's.
        # An indexer reads compressed queries, so there are no others where one is.
        unsaid = reader.has("q_lora_rank") and not reader.states("kv_lora_rank")
        if self.indexed or reader.states("q_lora_rank") or unsaid:
            lq = reader.symbol("lq", reader.integer("q_lora_rank"))
            queries = (
                Linear(f"{m}.q_a_proj", (lq,), ("h",), bias),
                Linear(f"{m}.q_b_proj", (heads, d), (lq,), split="outer"),
            )
        return LatentAttention(
            module=m,
            queries=queries,
            query_norm=Norm(f"{m}.q_a_layernorm", "rms", ("lq",)) if len(queries) == 2 else None,
            compress=Linear(f"{m}.kv_a_proj_with_mqa", (c,), ("h",), bias),
            latent_norm=Norm(f"{m}.kv_a_layernorm", "rms", (lk,)),
            expand=Linear(f"{m}.kv_b_proj", (heads, u), (lk,), split="outer"),
            output=Linear(f"{m}.{self.output}", ("h",), (heads, v), bias, split="inner"),
            heads=Heads(heads, heads, 1, d, v, r, (rotary + plain) % 8 != 0),
            rotary=self.rotary or interleaved,
            variant=self.variant,
            indexer=self._indexer(reader) if self.indexed and not self.shares_indexer else (),
            dropout=reader.number("attention_dropout", 0.0),
            mask="indexed" if self.indexed else mask,
            cached=((lk,), (r,), *((("j",),) if self.indexed and not self.shares_indexer else ())),
        )

    def _indexer(self, reader: Reader) -> tuple[Weight, ...]:
        heads = reader.symbol("i", reader.integer("index_n_heads"))
        width = reader.symbol("j", reader.integer("index_head_dim"))
        reader.symbol("ti", reader.integer("index_topk"))
        m = f"{self.module}.indexer"
        return (
            Weight(f"{m}.wq_b.weight", ((heads, width), ("lq",)), "attention"),
            Weight(f"{m}.wk.weight", ((width,), ("h",)), "attention"),
            *Norm(f"{m}.k_norm", "layer", (width,), bias=True).weights(),
            Weight(f"{m}.weights_proj.weight", ((heads,), ("h",)), "attention"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Dense:
    """A dense feed-forward layer."""

    module: str = "mlp"
    gate: str | None = "gate_proj"
    up: str = "up_proj"
    """With `fused`, gate and up in one matrix."""
    down: str = "down_proj"
    fused: bool = False
    gating: str = "plain"
    """How the gate is applied (`parts.FeedForward.gating`)."""
    width: Width = "intermediate_size"
    times: str | None = None
    """A key that multiplies the width."""
    symbol: str = "f"
    bias: str | bool = False
    down_bias: bool = False
    """Whether the last matrix alone has one."""
    activation: str = "hidden_act"
    fixed_activation: str | None = None
    """What the code fixes instead."""
    transposed: bool = False
    kind: str = "feed-forward"
    learned: tuple[str, ...] = ()
    """Scalars that xIELU learns; other activations have none."""
    borrowed: bool = False

    def read(self, reader: Reader) -> FeedForward:
        """Return the feed-forward layer."""
        size = width_of(reader, self.width) * (reader.integer(self.times) if self.times else 1)
        f = reader.symbol(self.symbol, size)
        bias = reader.flag(self.bias)
        activation = self.fixed_activation or activation_of(reader, self.activation)
        learned = self.learned if activation == "xielu" else ()

        def matrix(name: str, outer: Shape, inner: Shape, split: str, *, biased: bool = bias) -> Linear:
            return Linear(_within(self.module, name), outer, inner, biased, self.transposed, split)

        return FeedForward(
            module=self.module,
            gate=matrix(self.gate, (f,), ("h",), "outer") if self.gate else None,
            up=matrix(self.up, (2, f) if self.fused else (f,), ("h",), "outer"),
            down=matrix(self.down, ("h",), (f,), "inner", biased=bias or self.down_bias),
            activation=activation,
            fused=self.fused,
            gating=self.gating,
            kind=self.kind,
            borrowed=self.borrowed,
            activation_weights=tuple(Weight(_within(self.module, each), ((1,),), self.kind) for each in learned),
        )


def _within(module: str, name: str) -> str:
    """Return a tensor's name: some layers have no module of their own for a part."""
    return f"{module}.{name}" if module else name


def width_of(reader: Reader, width: Width) -> int:
    """Return the width of a feed-forward layer; four times the hidden size where the file has none."""
    return reader.integer(width, 4 * reader.sizes["h"]) if isinstance(width, str) else width(reader)


def activation_of(reader: Reader, name: str) -> str:
    """Return an activation function, by key; null stands for the usual one (transformers 4.38, modeling_gemma.py)."""
    found = reader.value(name) or reader.usual(name)
    if not isinstance(found, str) or found not in ACTIVATIONS:
        known = ", ".join(sorted(ACTIVATIONS))
        reader.refuse(name, Message("found {!r}; known: {}", found, known), suggestion=nearest(str(found), ACTIVATIONS))
    return str(found)
