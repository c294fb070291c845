"""The picture of a network: which parts it has, with sizes as symbols.

A `Network` holds no numbers, so networks that differ only in width, depth or vocabulary are equal; a `Model` adds the
numbers. Shapes are written in the symbols of `SYMBOLS`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from memcore.symbols import Shape, product

SYMBOLS = {
    "b": "sequences in a micro-batch",
    "s": "tokens in a sequence",
    "h": "hidden size",
    "a": "query heads",
    "k": "key and value heads",
    "g": "query heads for each key head",
    "d": "width of a head",
    "r": "width of a head that is rotated",
    "f": "width of the feed-forward layer",
    "V": "vocabulary size",
    "P": "learned positions",
}
"""What the size symbols mean. Composed sizes are written out, like `⌈d⌉₈` (rounded up to a multiple of 8)."""


@dataclass(frozen=True, slots=True)
class Weight:
    """One parameter tensor of a network."""

    name: str
    axes: tuple[Shape, ...]
    """Its axes; each is a product of symbols, so that `(a·d, h)` is `(("a", "d"), ("h",))`."""
    kind: str
    """attention, feed-forward, norm, embedding, position or head."""
    transposed: bool = False
    """A matrix stored as (in, out)."""

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


@dataclass(frozen=True, slots=True)
class Norm:
    """A normalization over the last axis."""

    name: str
    kind: str
    """`rms`: x · w · rsqrt(mean x²), in fp32 and cast before the weight; `rms-offset`: with 1 + w, cast after it;
    `layer`: LayerNorm."""
    width: Shape = ("h",)
    bias: bool = False
    fused: bool = True
    """Where the implementation uses PyTorch's RMSNorm: a kernel of its own, or (before PyTorch 2.8) composed."""

    def weights(self, kind: str = "norm") -> Iterator[Weight]:
        """Its parameters."""
        yield Weight(f"{self.name}.weight", (self.width,), kind)
        if self.bias:
            yield Weight(f"{self.name}.bias", (self.width,), kind)


@dataclass(frozen=True, slots=True)
class Linear:
    """A matrix with an optional bias, named as in the checkpoint."""

    name: str
    outer: Shape
    inner: Shape
    bias: bool = False
    transposed: bool = False
    """Stored as (in, out), like GPT-2's Conv1D."""

    def weights(self, kind: str) -> Iterator[Weight]:
        """Its parameters."""
        axes = (self.inner, self.outer) if self.transposed else (self.outer, self.inner)
        yield Weight(f"{self.name}.weight", axes, kind, self.transposed)
        if self.bias:
            yield Weight(f"{self.name}.bias", (self.outer,), kind)


@dataclass(frozen=True, slots=True)
class Attention:
    """Softmax attention over heads."""

    module: str
    inputs: tuple[Linear, ...]
    """One matrix each for queries, keys and values, or a single fused one."""
    output: Linear
    grouped: bool
    """Fewer key heads than query heads."""
    rotary: str
    """none, full, partial (only the first `r` of each head's `d` elements), or partial-kept (the slices stay in
    memory until the module ends)."""
    fused_per_head: bool = False
    """A fused matrix yields (q, k, v) of head after head (GPT-NeoX) instead of all q, all k, all v (GPT-2)."""
    repeats_heads: bool = False
    """torchtitan before 2025 copied keys and values for every query head."""
    query_norm: Norm | None = None
    key_norm: Norm | None = None
    sliding: bool = False
    """Sees only a window of the last tokens."""
    softcap: bool = False
    """Scores go through tanh."""
    softmax_fp32: bool = True
    """Eager attention computes softmax in fp32."""
    dropout: float = 0.0
    unaligned_heads: bool = False
    """The head width is not a multiple of 8, so flash attention pads it."""

    def weights(self) -> Iterator[Weight]:
        """Its parameters in the order of the checkpoint."""
        for part in (*self.inputs, self.output):
            yield from part.weights("attention")
        for norm in (self.query_norm, self.key_norm):
            if norm is not None:
                yield from norm.weights()


@dataclass(frozen=True, slots=True)
class FeedForward:
    """A dense feed-forward layer; with a gate it is act(gate(x)) · up(x)."""

    module: str
    gate: Linear | None
    up: Linear
    down: Linear
    activation: str

    def weights(self) -> Iterator[Weight]:
        """Its parameters in the order of the checkpoint."""
        for part in (self.gate, self.up, self.down):
            if part is not None:
                yield from part.weights("feed-forward")


@dataclass(frozen=True, slots=True)
class Layer:
    """A decoder layer: a mixer, a feed-forward layer, norms, and how they are wired."""

    attention: Attention
    feed_forward: FeedForward
    residual: str
    """sequential; sequential-kept (the branches' results stay in memory until the layer ends); sandwich (norms also
    after attention and feed-forward); parallel (both from the layer's input, each with its own norm);
    parallel-shared (both from one norm)."""
    norms: tuple[Norm, ...]
    """In order of use."""
    dropout: float = 0.0

    def weights(self) -> tuple[Weight, ...]:
        """Its parameters, named relative to the layer."""
        found = [*self.attention.weights(), *self.feed_forward.weights()]
        found += [weight for norm in self.norms for weight in norm.weights()]
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """What stands around the layers: embeddings, final norm and head."""

    embedding: Weight
    final_norm: Norm
    head: Linear
    tied: bool
    """The head shares the embedding's tensor."""
    positions: Weight | None = None
    embedding_scaled: bool = False
    embedding_dropout: float = 0.0
    head_softcap: bool = False

    def weights(self) -> tuple[Weight, ...]:
        """The parameters outside the layers; a tied head has no matrix of its own."""
        found = [self.embedding]
        if self.positions is not None:
            found.append(self.positions)
        found += self.final_norm.weights()
        found += [weight for weight in self.head.weights("head") if not (self.tied and len(weight.axes) == 2)]
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Network:
    """Everything about a network that is not a number."""

    family: str
    path: str
    """Where the layers are: `model.layers`."""
    runs: tuple[tuple[Layer, ...], ...]
    """The decoder from first to last: in each run a pattern of layers repeats."""
    ends: Ends


@dataclass(frozen=True)
class Model:
    """A network with its numbers."""

    name: str
    network: Network
    repeats: tuple[int, ...]
    """How often the pattern of each run repeats."""
    sizes: Mapping[str, int]
    """The value of each symbol."""
    window: int | None = None
    """Tokens that sliding layers see."""

    def size(self, shape: Shape) -> int:
        """Elements of a shape."""
        return product(shape, self.sizes)

    @cached_property
    def layers(self) -> tuple[tuple[Layer, int], ...]:
        """Each kind of layer in order of appearance, with how many there are."""
        found: dict[Layer, int] = {}
        for pattern, repeats in zip(self.network.runs, self.repeats, strict=True):
            for layer in pattern:
                found[layer] = found.get(layer, 0) + repeats
        return tuple(found.items())

    @cached_property
    def num_layers(self) -> int:
        """How many decoder layers there are."""
        return sum(count for _, count in self.layers)

    @cached_property
    def parameters(self) -> int:
        """All parameters, tied tensors counted once."""
        inside = sum(self.size(weight.shape) * count for layer, count in self.layers for weight in layer.weights())
        return inside + sum(self.size(weight.shape) for weight in self.network.ends.weights())
