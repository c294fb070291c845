"""The parts of a layer: what a mixer, a feed-forward layer or a norm is made of, with sizes as symbols.

Every part yields its parameters (`weights()`); mixers also say what they cache for each token and keep for each
sequence while text is generated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar, TypeAlias

from memcore.networks.weights import Constant, Linear, Norm, Weight, kind_of
from memcore.records import dataclass
from memcore.symbols import Axis, Shape


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
    wide: bool = False
    """It is above 256, the most that flash attention takes."""


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
    variant: str = "attention"
    """The family whose code it is, where that is another than most families': `bloom`, `falcon` …"""
    scales_queries: bool = False
    """Queries are scaled as soon as they are projected (OPT)."""
    scales_keys: bool = False
    """Keys are scaled as soon as they are projected (Falcon-H1)."""
    tuned: bool = False
    """Queries are scaled by their position (Llama 4's layers without rotations)."""
    splits_late: bool = False
    """Heads are split once queries, keys and values are all there (OLMo)."""
    table: str = "main"
    """Which cosines and sines it takes: main, or those of its kind of layer where each kind has its own frequencies, or
    those that every module makes itself (`module`)."""
    grids: str | None = None
    """Positions are those of time, height and width: `grids-sections` of frequencies (Qwen2-VL), or `grids-interleaved`
    ones (Qwen3-VL)."""
    fused: str = "no"
    """How a fused matrix is laid out: `per-head` yields (q, k, v) of head after head (GPT-NeoX), `thirds` all q, all k,
    all v (GPT-2), `grouped` all q, all k, all v with fewer key heads (Phi-3), `per-group` (Falcon), `shared` one key
    head for all (GPT-BigCode), `per-key-head` for each key head its queries, itself and its values."""
    repeats_heads: bool = False
    """torchtitan before 2026 copied keys and values for every query head."""
    query_norm: Norm | None = None
    key_norm: Norm | None = None
    value_norm: Norm | None = None
    norm_place: str = "head"
    """`head`: over each head; `projected`: over each head, once queries, keys and values are all there; `row`: over all
    heads together, before they are split; `rows`: the same, once all three are there; `after`: over each head, after
    the rotation."""
    mask: str = "full"
    """Which tokens it sees: full, sliding (a window of the last ones), chunked (those of its chunk)."""
    bidirectional: bool = False
    """It also sees later tokens."""
    softcap: bool = False
    """Scores go through tanh."""
    softmax_fp32: bool = True
    """Eager attention computes softmax in fp32."""
    dropout: float = 0.0
    output_dropout: float = 0.0
    """After the output matrix (InternViT)."""
    gated: bool = False
    """The query projection also yields a gate for the output (Qwen3-Next)."""
    sinks: Weight | None = None
    """A learned logit for each head that takes part in softmax (gpt-oss)."""
    biased: bool = False
    """Scores are biased by distance (ALiBi)."""
    stores_cache: bool = False
    """Later layers use its keys and values."""
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

    adapter_weights: tuple[Weight, ...] = ()
    """What an adapter adds to it besides matrices."""

    def weights(self) -> Iterator[Weight]:
        """Yield its parameters in the order of the checkpoint."""
        if self.borrowed:
            return
        yield from self.adapter_weights
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
    pool: int = 1
    """Tokens that share a key of the indexer."""
    dropout: float = 0.0
    mask: str = "full"
    cached: tuple[Shape, ...] = ()
    state: tuple[Shape, ...] = ()
    kept: tuple[Shape, ...] = ()
    grouped: ClassVar[bool] = False
    softcap: ClassVar[bool] = False
    softmax_fp32: ClassVar[bool] = True

    @property
    def reuses(self) -> bool:
        """Return whether it attends to the tokens that an earlier layer's indexer chose."""
        return self.variant == "glm_moe_dsa" and not self.indexer

    def weights(self) -> Iterator[Weight]:
        """Yield its parameters."""
        yield from _weights((*self.queries, self.compress, self.expand, self.output), "attention")
        for norm in (self.query_norm, self.latent_norm):
            if norm is not None:
                yield from norm.weights()
        yield from self.indexer


READS_EARLIER = "reads-earlier"
"""The option of mixers that read keys which an earlier layer caches."""


@dataclass(frozen=True, slots=True)
class SpecialMixer:
    """A mixer of another kind, described by its parameters: most carry a state of constant size from token to token."""

    module: str
    variant: str
    """mamba, mamba2, gated-delta, separate-delta, kimi-delta, lightning, recurrent-gemma, short-conv …"""
    parameters: tuple[Weight, ...]
    state: tuple[Shape, ...]
    """What generation keeps for each sequence."""
    options: frozenset[str] = frozenset()
    """What the variant leaves open."""
    cached: tuple[Shape, ...] = ()
    kept: tuple[Shape, ...] = ()
    mask: str = "full"
    dropout: float = 0.0
    chunk: Axis = 1
    """Tokens that PyTorch's code takes at once."""
    trips: Axis = 1
    """How often its loop over tokens or chunks runs."""
    table: str = ""
    """Which cosines and sines it takes, if any."""
    constants: tuple[Weight, ...] = ()
    """Buffers that the module holds, in the dtype of stored parameters."""
    linears: tuple[Linear, ...] = ()
    """Those of its matrices that are linear layers, which adapters may stand next to."""

    def weights(self) -> Iterator[Weight]:
        """Yield its parameters, and those of adapters."""
        changed = {
            f"{part.name}.weight": part
            for part in self.linears
            if part.adapter_dtype is not None or part.quantized is not None
        }
        for weight in self.parameters:
            part = changed.get(weight.name)
            yield from (weight,) if part is None else part.weights(weight.kind)


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
    gating: str = "plain"
    """`kept`: each step stays until the end (Gemma 3n); `sparse`: and only the largest elements of the gate count."""
    kind: str = "feed-forward"
    activation_weights: tuple[Weight, ...] = ()
    """What the activation itself learns (Apertus' xIELU)."""
    borrowed: bool = False
    """Its parameters are those of an earlier layer (Zamba 2)."""

    def weights(self) -> Iterator[Weight]:
        """Yield its parameters in the order of the checkpoint."""
        if self.borrowed:
            return
        yield from _weights((self.gate, self.up, self.down), self.kind)
        yield from self.activation_weights


def is_gated(part: Ffn | None) -> bool:
    """Return whether a feed-forward layer is down(act(gate(x)) · up(x)) of three matrices."""
    return isinstance(part, FeedForward) and part.gate is not None and not part.fused and part.gating == "plain"


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
    correction: Constant | None = None
    """A buffer that biases the choice of experts."""
    table: Constant | None = None
    """A buffer with the experts of every word (DeepSeek-V4)."""
    routed: str = "e"
    """The symbol for experts of each token."""
    groups: tuple[Axis, Axis] | None = None
    """Groups of experts, and how many of them a token can choose from."""
    options: frozenset[str] = frozenset()
    """What the variant leaves open: `normalized` weights, `jittered` inputs, sums in fp32 (`fp32-sum`)."""
    loops: int = 0
    """Experts that run one after the other in a Python loop (DBRX)."""
    experts_first: bool = False
    """The order in which the code makes its modules: the experts before the router."""
    adapters: tuple[Weight, ...] = ()
    """Low-rank matrices next to those of the experts, two for each."""

    @property
    def reads(self) -> Axis:
        """Return the width of what experts read and write: the decoder's, or a smaller one."""
        return self.latent[0].outer[0] if self.latent else "h"

    @property
    def stacked(self) -> tuple[str, ...]:
        """Names of the matrices that a grouped product takes, each of all experts in one tensor."""
        ready = self.variant not in ("llama4", "dbrx") and not self.loops
        return tuple(weight.name for weight in self.experts if len(weight.axes) == 3 and ready)

    @property
    def transposes(self) -> bool:
        """Each matrix is stored as (in, out)."""
        return self.variant == "gpt_oss"

    @property
    def buffers(self) -> tuple[Constant, ...]:
        """Return what it holds besides its parameters."""
        return tuple(each for each in (self.correction, self.table) if each is not None)

    def weights(self) -> Iterator[Weight]:
        """Yield its parameters."""
        router = (*self.router.weights("router"), *self.routing)
        yield from (*self.experts, *router) if self.experts_first else (*router, *self.experts)
        yield from self.adapters
        if self.shared is not None:
            yield from self.shared.weights()
        if self.shared_gate is not None:
            yield from self.shared_gate.weights("shared-expert")
        yield from _weights(self.latent, "shared-expert")


@dataclass(frozen=True, slots=True)
class Extra:
    """Further parameters of a layer that belong to none of the parts above."""

    variant: str
    parameters: tuple[Weight, ...]
    rounds: int = 0
    """How often an iteration is spelled out (Sinkhorn and Knopp's, DeepSeek-V4)."""
    linears: tuple[Linear, ...] = ()
    """Matrices of a mixer or a feed-forward layer that is not recognized, in the order of the file."""
    width: Shape = ()
    """The axes of the layer's hidden states, where there are matrices whose part is not recognized."""
    routed: str = ""
    """The symbol for experts of each token, where some of them are experts'."""
    predicts: int = 0
    """Further tokens that the layer predicts, for each of which the head makes logits."""

    def weights(self) -> Iterator[Weight]:
        """Yield its parameters, and those of adapters."""
        yield from self.parameters
        for part in self.linears:
            yield from part.weights(kind_of(f"{part.name}.weight"))


Mixer: TypeAlias = Attention | LatentAttention | SpecialMixer
Ffn: TypeAlias = FeedForward | Experts
