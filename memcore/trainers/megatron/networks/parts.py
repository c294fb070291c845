"""The parts of a Megatron-Core layer, with the matrices that it fuses and how tensor parallelism shards each.

Source: Megatron-LM, megatron/core/transformer/{attention,multi_latent_attention,mlp}.py, moe/{router,experts}.py,
core/ssm/mamba_mixer.py. With TransformerEngine a norm's weight lies in the linear layer behind it; it is counted with
the norms here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memcore.networks.parts import Attention, Experts, Extra, FeedForward, Heads, LatentAttention, SpecialMixer
from memcore.networks.weights import Constant, Linear, Norm, Weight
from memcore.records import dataclass
from memcore.symbols import Axis

PATH = "decoder.layers"
RESIDUAL = "megatron"
"""How every layer is wired: each part behind a norm, with a residual connection."""
ENCODER, PREDICTION, DEEP = "megatron-encoder", "megatron-mtp", "megatron-deepstack"
"""The same in T5's encoder, in layers that predict further tokens, and in those after which images are added again."""
GEMMA4 = "megatron-gemma4"
"""Gemma 4's sparse layers, with norms before and after each part."""


@dataclass(frozen=True, slots=True)
class Style:
    """What all layers of a network have in common."""

    norm: str
    """`rms` or `layer`."""
    bias: bool
    """Linear layers have biases."""
    query_bias: bool
    """That into queries, keys and values has one."""
    dropout: float = 0.0
    attention_dropout: float = 0.0

    def normed(self, name: str, width: Axis = "h") -> Norm:
        """Return a norm of this network."""
        return Norm(name, self.norm, (width,), bias=self.norm == "layer")


def attention(
    style: Style,
    heads: Heads,
    rows: Axis,
    rotary: str,
    *,
    grouped: bool,
    normed: bool = False,
    gated: bool = False,
    bidirectional: bool = False,
    hidden: Axis = "h",
) -> Attention:
    """Self-attention: queries, keys and values of a group of heads lie side by side in one matrix of `rows` heads.

    `gated`: with gates for the result, after the queries.
    """
    name = "self_attention"
    return Attention(
        module=name,
        inputs=(Linear(f"{name}.linear_qkv", (rows, heads.width), (hidden,), style.query_bias, split="outer"),),
        output=Linear(f"{name}.linear_proj", (hidden,), (heads.query, heads.width), style.bias, split="inner"),
        heads=heads,
        grouped=grouped,
        rotary=rotary,
        variant="megatron",
        fused="per-group",
        query_norm=style.normed(f"{name}.q_layernorm", heads.width) if normed else None,
        key_norm=style.normed(f"{name}.k_layernorm", heads.width) if normed else None,
        gated=gated,
        bidirectional=bidirectional,
        dropout=style.attention_dropout,
        cached=((heads.key, heads.width), (heads.key, heads.width)),
    )


def sinks(part: Attention) -> Weight:
    """Return a learned logit for each head (`softmax_type: learnable`; TransformerEngine's `softmax_offset`)."""
    return Weight(f"{part.module}.core_attention.softmax_offset", ((part.heads.query,),), "attention", split="outer")


def cross_attention(style: Style, heads: Heads, *, grouped: bool) -> Attention:
    """Attention to the encoder's result."""
    name = "cross_attention"
    both = Linear(f"{name}.linear_kv", (2, heads.key, heads.width), ("h",), style.query_bias, split="outer")
    return Attention(
        module=name,
        inputs=(Linear(f"{name}.linear_q", (heads.query, heads.width), ("h",), style.query_bias, split="outer"), both),
        output=Linear(f"{name}.linear_proj", ("h",), (heads.query, heads.width), style.bias, split="inner"),
        heads=heads,
        grouped=grouped,
        rotary="none",
        variant="megatron",
        bidirectional=True,
        crosses=True,
        dropout=style.attention_dropout,
    )


def latent_attention(style: Style, heads: Heads, *, compressed: bool, normed: bool, rotary: str) -> LatentAttention:
    """Multi-head latent attention; the symbols are those of `rows.Latent`."""
    name = "self_attention"
    queries: tuple[Linear, ...] = (
        Linear(f"{name}.linear_q_proj", (heads.query, heads.width), ("h",), style.query_bias, split="outer"),
    )
    if compressed:
        queries = (
            Linear(f"{name}.linear_q_down_proj", ("lq",), ("h",)),
            Linear(f"{name}.linear_q_up_proj", (heads.query, heads.width), ("lq",), split="outer"),
        )
    return LatentAttention(
        module=name,
        queries=queries,
        query_norm=style.normed(f"{name}.q_layernorm", "lq") if compressed and normed else None,
        compress=Linear(f"{name}.linear_kv_down_proj", ("c",), ("h",)),
        latent_norm=style.normed(f"{name}.kv_layernorm", "lk") if normed else Norm(f"{name}.kv_layernorm", "rms-plain"),
        expand=Linear(f"{name}.linear_kv_up_proj", (heads.query, "u"), ("lk",), split="outer"),
        output=Linear(f"{name}.linear_proj", ("h",), (heads.query, heads.value), style.bias, split="inner"),
        heads=heads,
        rotary=rotary,
        variant="megatron",
        dropout=style.attention_dropout,
        cached=(("lk",), (heads.rotated,)),
    )


def dense(
    style: Style,
    width: Axis,
    activation: str,
    *,
    gated: bool,
    module: str = "mlp",
    kind: str = "feed-forward",
    hidden: Axis = "h",
) -> FeedForward:
    """Return a feed-forward layer; gate and up projection are one matrix."""
    return FeedForward(
        module=module,
        gate=None,
        up=Linear(f"{module}.linear_fc1", (2, width) if gated else (width,), (hidden,), style.bias, split="outer"),
        down=Linear(f"{module}.linear_fc2", (hidden,), (width,), style.bias, split="inner"),
        activation=activation,
        fused=gated,
        kind=kind,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """What a sparse layer leaves open."""

    experts: Axis = "E"
    chosen: str = "e"
    width: Axis = "m"
    shared: Axis | None = None
    """The width of the expert that sees every token."""
    latent: str | None = None
    """The width that tokens have on their way to the experts and back, where it is not the model's."""
    shared_gate: bool = False
    biased: bool = False
    """A buffer biases the choice of experts (aux-loss-free balancing)."""
    score: str = "softmax"
    fp32: bool = False
    """The router works in fp32."""
    clamped: bool = False
    """Gates and what they scale are clamped (`activation_func_clamp_value`)."""
    groups: tuple[Axis, Axis] | None = None


def sparse(style: Style, routing: Routing, activation: str, *, gated: bool) -> Experts:
    """Return a layer of routed experts."""
    many, width, source = routing.experts, routing.width, routing.latent or "h"
    up: tuple[Axis, ...] = (2, width) if gated else (width,)
    first, second = "mlp.experts.linear_fc1", "mlp.experts.linear_fc2"
    weights = [Weight(f"{first}.weight", ((many,), up, (source,)), "routed-expert", split="outer")]
    weights += [Weight(f"{first}.bias", ((many,), up), "routed-expert", split="outer")] if style.bias else []
    weights += [Weight(f"{second}.weight", ((many,), (source,), (width,)), "routed-expert", split="inner")]
    weights += [Weight(f"{second}.bias", ((many,), (source,)), "routed-expert")] if style.bias else []
    shared = routing.shared
    options = {
        f"{routing.score}-scores",
        *(["fp32-router"] if routing.fp32 else []),
        *(["clamped"] if routing.clamped else []),
    }
    return Experts(
        module="mlp",
        router=Linear("mlp.router", (many,), ("h",), style.bias),
        experts=tuple(weights),
        activation=activation,
        gated=gated,
        variant="megatron",
        shared=None
        if shared is None
        else dense(style, shared, activation, gated=gated, module="mlp.shared_experts", kind="shared-expert"),
        shared_gate=Linear("mlp.shared_experts.gate", (1,), ("h",)) if routing.shared_gate else None,
        correction=Constant("mlp.router.expert_bias", (many,), "fp32") if routing.biased else None,
        latent=() if routing.latent is None else _latent(style, routing.latent),
        routed=routing.chosen,
        groups=routing.groups,
        options=frozenset(options),
    )


def _latent(style: Style, width: str) -> tuple[Linear, Linear]:
    """Before tokens are sent and when they are back, whole on every tensor-parallel rank."""
    return (
        Linear("mlp.fc1_latent_proj", (width,), ("h",), style.bias),
        Linear("mlp.fc2_latent_proj", ("h",), (width,), style.bias),
    )


def mamba(sizes: Mapping[str, int]) -> SpecialMixer:
    """Mamba 2; the symbols are those of `recurrences.Mamba2`."""
    vectors = (Weight(f"mixer.{name}", (("H",),), "linear-attention", split="outer") for name in _PER_HEAD)
    return SpecialMixer(
        module="mixer",
        variant="megatron-mamba2",
        parameters=(
            Weight("mixer.in_proj.weight", (("I",), ("h",)), "linear-attention", split="outer"),
            Weight("mixer.conv1d.weight", (("X",), ("K",)), "linear-attention", split="outer"),
            Weight("mixer.conv1d.bias", (("X",),), "linear-attention", split="outer"),
            *vectors,
            Weight("mixer.norm.weight", (("D",),), "norm", split="outer"),
            Weight("mixer.out_proj.weight", (("h",), ("D",)), "linear-attention", split="inner"),
        ),
        state=(("X", "K"), ("H", "W", "N")),
        options=frozenset({"normed", *(["aligned"] if sizes["I"] % 8 == 0 else [])}),
        chunk="q",
    )


def gated_delta(*, grouped: bool) -> SpecialMixer:
    """Return a gated delta net; the symbols are those of `recurrences.GatedDelta`, with all gates in one projection."""
    name, kind = "self_attention", "linear-attention"
    projections = (
        Linear(f"{name}.in_proj", ("I",), ("h",), split="outer"),
        Linear(f"{name}.out_proj", ("h",), ("B", "dv"), split="inner"),
    )
    first, last = (next(iter(each.weights(kind))) for each in projections)
    return SpecialMixer(
        module=name,
        variant="megatron-gated-delta",
        parameters=(
            Weight(f"{name}.dt_bias", (("B",),), kind, split="outer"),
            Weight(f"{name}.A_log", (("B",),), kind, split="outer"),
            first,
            Weight(f"{name}.conv1d.weight", (("X",), (1,), ("K",)), kind, split="outer"),
            Weight(f"{name}.out_norm.weight", (("dv",),), "norm"),
            last,
        ),
        state=(("X", "K"), ("B", "dk", "dv")),
        options=frozenset({"grouped"} if grouped else ()),
        linears=projections,
    )


_PER_HEAD = ("dt_bias", "A_log", "D")


_LONGEST = 16
"""Layers of the longest pattern that is looked for."""


def repeated(order: Sequence[int]) -> list[tuple[Sequence[int], int]]:
    """Kinds of layers in runs of a repeated pattern, from the first layer on always the run that covers most."""
    found: list[tuple[Sequence[int], int]] = []
    start = 0
    while start < len(order):
        covers = ((period, _times(order, start, period)) for period in range(1, _LONGEST + 1))
        period, times = max(covers, key=lambda each: (each[0] * each[1] if each[1] > 1 else 1, -each[0]))
        period = period if times > 1 else 1
        found.append((order[start : start + period], times))
        start += period * times
    return found


def _times(order: Sequence[int], start: int, period: int) -> int:
    """Return how often the pattern that begins there comes in a row."""
    pattern, times = order[start : start + period], 1
    while order[start + period * times : start + period * (times + 1)] == pattern:
        times += 1
    return times


def prediction(style: Style, depths: int) -> Extra:
    """Return what joins a layer's input with an additional token's embedding; `depths` share it (repeated layer)."""
    norms = [style.normed(f"mtp.{name}") for name in ("enorm", "hnorm", "final_layernorm")]
    return Extra(
        "megatron-mtp",
        (
            *(weight for norm in norms for weight in norm.weights()),
            Weight("mtp.eh_proj.weight", (("h",), (2, "h")), "other", split="outer"),
        ),
        rounds=depths,
        predicts=depths,
    )
