"""The parts of a layer: what a mixer, a feed-forward layer or a norm is made of, with sizes as symbols.

Every part yields its parameters (`weights()`); mixers also say what they cache for each token and keep for each
sequence while text is generated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from memcore.symbols import Axis, Shape


@dataclass(frozen=True, slots=True)
class Weight:
    """One parameter tensor of a network."""

    name: str
    axes: tuple[Shape, ...]
    """Its axes; each is a product of symbols, so that `(a·d, h)` is `(("a", "d"), ("h",))`."""
    kind: str
    """A row of `KINDS`."""
    transposed: bool = False
    """A matrix stored as (in, out)."""
    split: str | None = None
    """How tensor parallelism shards it: `outer` (column), `inner` (row), or None for a replica."""

    @property
    def outer(self) -> Shape:
        """The axes of the result of a product with it."""
        return self.axes[-1] if self.transposed else self.axes[0]

    @property
    def inner(self) -> Shape:
        """The axes that a product with it sums over."""
        return tuple(symbol for axis in (self.axes[:-1] if self.transposed else self.axes[1:]) for symbol in axis)

    @property
    def shape(self) -> Shape:
        """All symbols of the shape in a row."""
        return tuple(symbol for axis in self.axes for symbol in axis)


KINDS = {
    "attention": "attention",
    "linear-attention": "linear attention and state space",
    "feed-forward": "dense feed-forward",
    "routed-expert": "routed experts",
    "shared-expert": "shared experts",
    "router": "routers",
    "norm": "norms",
    "embedding": "embeddings",
    "position": "learned positions",
    "head": "output head",
    "tower": "vision tower",
    "projector": "projector",
    "other": "others",
}
"""What parameters are for."""


@dataclass(frozen=True, slots=True)
class Norm:
    """A normalization over the last axis."""

    name: str
    kind: str
    """`rms`: x · w · rsqrt(mean x²), in fp32 and cast before the weight; `rms-offset`: with 1 + w, cast after it;
    `rms-after`: with w, cast after it; `rms-plain`: without a weight; `layer`: LayerNorm; `layer-offset`: with 1 + w;
    `layer-fp32`: LayerNorm spelled out in fp32; `layer-plain`: LayerNorm without parameters."""
    width: Shape = ("h",)
    bias: bool = False
    fused: bool = True
    """Where the implementation uses PyTorch's RMSNorm: a kernel of its own, or (before PyTorch 2.8) composed."""
    leading: Shape = ()
    """Axes before the normalized one for which each has a weight of its own (Cohere's per-head norms)."""
    listed: int | None = None
    """So many separate norms, one for each head (StableLM)."""

    def weights(self, kind: str = "norm") -> Iterator[Weight]:
        """Its parameters."""
        if self.kind.endswith("plain"):
            return
        shape = (self.leading, self.width) if self.leading else (self.width,)
        names = [self.name] if self.listed is None else [f"{self.name}.norms.{each}" for each in range(self.listed)]
        for name in names:
            yield Weight(f"{name}.weight", shape, kind)
            if self.bias:
                yield Weight(f"{name}.bias", shape, kind)


@dataclass(frozen=True, slots=True)
class Linear:
    """A matrix with an optional bias, named as in the checkpoint."""

    name: str
    outer: Shape
    inner: Shape
    bias: bool = False
    transposed: bool = False
    """Stored as (in, out), like GPT-2's Conv1D."""
    split: str | None = None

    def weights(self, kind: str) -> Iterator[Weight]:
        """Its parameters."""
        axes = (self.inner, self.outer) if self.transposed else (self.outer, self.inner)
        yield Weight(f"{self.name}.weight", axes, kind, self.transposed, self.split)
        if self.bias:
            yield Weight(f"{self.name}.bias", (self.outer,), kind, split="outer" if self.split == "outer" else None)


def _weights(parts: Iterable[Linear | None], kind: str) -> Iterator[Weight]:
    for part in parts:
        if part is not None:
            yield from part.weights(kind)


@dataclass(frozen=True, slots=True)
class Heads:
    """The symbols of an attention layer's sizes."""

    query: Axis = "a"
    key: Axis = "k"
    groups: Axis = "g"
    """Query heads for each key head; 1 when there are as many."""
    width: Axis = "d"
    value: Axis = "d"
    """Width of a value, where it is another than that of queries and keys."""
    rotated: Axis = "d"
    """Elements of a head that are rotated."""
    unaligned: bool = False
    """The head width is not a multiple of 8, so flash attention pads it."""


@dataclass(frozen=True, slots=True)
class Attention:
    """Softmax attention over heads."""

    module: str
    inputs: tuple[Linear, ...]
    """One matrix each for queries, keys and values, or a single fused one. Keys and values may be absent: values equal
    to keys, or both those of an earlier layer."""
    output: Linear
    heads: Heads
    grouped: bool
    """Fewer key heads than query heads."""
    rotary: str
    """A row of the rotations in `layers.transformers.rotary`: none, full, partial, interleaved …"""
    table: str = "main"
    """Which cosines and sines it takes: main, or those of its kind of layer where each kind has its own frequencies."""
    fused: str = "no"
    """How a fused matrix is laid out: `per-head` yields (q, k, v) of head after head (GPT-NeoX), `thirds` all q, all k,
    all v (GPT-2), `grouped` all q, all k, all v with fewer key heads (Phi-3), `per-group` (Falcon), `shared` one key
    head for all (GPT-BigCode)."""
    repeats_heads: bool = False
    """torchtitan before 2025 copied keys and values for every query head."""
    query_norm: Norm | None = None
    key_norm: Norm | None = None
    value_norm: Norm | None = None
    norm_place: str = "head"
    """`head`: over each head; `projected`: over each head, once queries, keys and values are all there; `row`: over all
    heads together, before they are split; `after`: over each head, after the rotation."""
    mask: str = "full"
    """Which tokens it sees: full, sliding (a window of the last ones), chunked (those of its chunk)."""
    bidirectional: bool = False
    """It also sees later tokens."""
    softcap: bool = False
    """Scores go through tanh."""
    softmax_fp32: bool = True
    """Eager attention computes softmax in fp32."""
    dropout: float = 0.0
    gated: bool = False
    """The query projection also yields a gate for the output (Qwen3-Next)."""
    sinks: Weight | None = None
    """A learned logit for each head that takes part in softmax (gpt-oss)."""
    biased: bool = False
    """Scores are biased by distance (ALiBi)."""
    shares_cache: bool = False
    """Uses keys and values of an earlier layer (Gemma 3n)."""
    crosses: bool = False
    """Keys and values come from images (Llama 3.2 Vision), and are cached once for each sequence."""
    clamped: bool = False
    """Queries, keys and values are clamped."""
    borrowed: bool = False
    """Its parameters are those of an earlier layer (Zamba 2)."""
    cached: tuple[Shape, ...] = ()
    """What generation caches for each token."""
    state: tuple[Shape, ...] = ()
    """What it keeps for each sequence."""
    kept: tuple[Shape, ...] = ()
    """What the module itself keeps for each sequence, outside the cache (RecurrentGemma)."""

    def weights(self) -> Iterator[Weight]:
        """Its parameters in the order of the checkpoint."""
        if self.borrowed:
            return
        if self.sinks is not None:
            yield self.sinks
        yield from _weights((*self.inputs, self.output), "attention")
        for norm in (self.query_norm, self.key_norm, self.value_norm):
            if norm is not None:
                yield from norm.weights()


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention: keys and values are expanded from one compressed vector (DeepSeek-V2)."""

    module: str
    queries: tuple[Linear, ...]
    """A single matrix, or one into the query's latent space and one out of it."""
    query_norm: Norm | None
    compress: Linear
    """To the latent vector, and to the part of the key that is rotated and shared by all heads."""
    latent_norm: Norm
    expand: Linear
    """From the latent vector to keys and values."""
    output: Linear
    heads: Heads
    rotary: str
    """A row of the rotations in `layers.transformers.latent`: none, complex, interleaved, halves."""
    variant: str
    """The family whose code it is: `deepseek_v2`, `deepseek_v3` …"""
    table: str = "main"
    """Which cosines and sines it takes."""
    indexer: tuple[Weight, ...] = ()
    """The lightning indexer of sparse attention."""
    dropout: float = 0.0
    mask: str = "full"
    cached: tuple[Shape, ...] = ()
    state: tuple[Shape, ...] = ()
    kept: tuple[Shape, ...] = ()
    grouped: ClassVar[bool] = False
    softcap: ClassVar[bool] = False
    softmax_fp32: ClassVar[bool] = True

    def weights(self) -> Iterator[Weight]:
        """Its parameters."""
        yield from _weights((*self.queries, self.compress, self.expand, self.output), "attention")
        for norm in (self.query_norm, self.latent_norm):
            if norm is not None:
                yield from norm.weights()
        yield from self.indexer


@dataclass(frozen=True, slots=True)
class SpecialMixer:
    """A mixer of another kind, described by its parameters: most carry a state of constant size from token to token."""

    module: str
    variant: str
    """mamba, mamba2, gated-delta, kimi-delta, lightning, recurrent-gemma, short-conv …"""
    parameters: tuple[Weight, ...]
    state: tuple[Shape, ...]
    """What generation keeps for each sequence."""
    options: frozenset[str] = frozenset()
    """What the variant leaves open."""
    cached: tuple[Shape, ...] = ()
    kept: tuple[Shape, ...] = ()
    mask: str = "full"
    dropout: float = 0.0

    def weights(self) -> Iterator[Weight]:
        """Its parameters."""
        yield from self.parameters


@dataclass(frozen=True, slots=True)
class FeedForward:
    """A dense feed-forward layer; with a gate it is act(gate(x)) · up(x)."""

    module: str
    gate: Linear | None
    up: Linear
    down: Linear
    activation: str
    fused: bool = False
    """Gate and up are one matrix, called `up`."""
    kind: str = "feed-forward"
    activation_weights: tuple[Weight, ...] = ()
    """What the activation itself learns (Apertus' xIELU)."""
    borrowed: bool = False
    """Its parameters are those of an earlier layer (Zamba 2)."""

    def weights(self) -> Iterator[Weight]:
        """Its parameters in the order of the checkpoint."""
        if self.borrowed:
            return
        yield from _weights((self.gate, self.up, self.down), self.kind)
        yield from self.activation_weights


@dataclass(frozen=True, slots=True)
class Experts:
    """A sparse feed-forward layer: a router sends every token to some of many experts."""

    module: str
    router: Linear
    experts: tuple[Weight, ...]
    """Each expert matrix of all experts in one tensor, and biases."""
    activation: str
    gated: bool
    """Experts have a gate, which is one tensor with their up projection (`gate_up_proj`)."""
    variant: str
    """The family whose code it is."""
    shared: FeedForward | None = None
    """The expert that sees every token."""
    shared_gate: Linear | None = None
    routing: tuple[Weight, ...] = ()
    """Further parameters of the router."""
    latent: tuple[Linear, ...] = ()
    """Into a smaller width in which experts work, and out of it (Nemotron 3)."""
    correction: str | None = None
    """A buffer that biases the choice of experts."""
    routed: str = "e"
    """The symbol for experts of each token."""

    def weights(self) -> Iterator[Weight]:
        """Its parameters."""
        yield from self.router.weights("router")
        yield from self.routing
        yield from _weights(self.latent, "shared-expert")
        yield from self.experts
        if self.shared is not None:
            yield from self.shared.weights()
        if self.shared_gate is not None:
            yield from self.shared_gate.weights("shared-expert")


@dataclass(frozen=True, slots=True)
class Extra:
    """Further parameters of a layer that belong to none of the parts above."""

    variant: str
    parameters: tuple[Weight, ...]

    def weights(self) -> Iterator[Weight]:
        """Its parameters."""
        yield from self.parameters


Mixer: TypeAlias = Attention | LatentAttention | SpecialMixer
Feed: TypeAlias = FeedForward | Experts
