"""What parts are made of: parameters, constants, norms and linear layers, with sizes as symbols."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from memcore.records import dataclass
from memcore.symbols import Axis, Quotient, Shape


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
    dtype: str | None = None
    """The dtype that the code gives it, whatever the model's."""
    trainable: bool = True
    quantized: str | None = None
    """How a frozen matrix is stored in few bits; a row of `memcore.networks.quantized.STORAGES`."""
    packs: int = 1
    """Numbers in each stored element."""
    ranks: str = "z"
    """The symbol of how many ranks FSDP shards it over; empty: every rank has all of it."""
    cut: int = 0
    """The axis that FSDP shards."""
    precise: bool = False
    """It has no copy in 8 bits where others have."""
    linear: bool = False
    """It is the matrix of a linear layer that stands outside a tower's layers."""

    @property
    def stored_axes(self) -> tuple[Shape, ...]:
        """Return the axes of the tensor that is kept: a column of packed numbers, where several share an element."""
        return self.axes if self.packs == 1 else ((Quotient(self.shape, self.packs),), (1,))

    @property
    def stored_shape(self) -> Shape:
        """Return all symbols of the stored axes, flattened."""
        return tuple(symbol for axis in self.stored_axes for symbol in axis)

    @property
    def outer(self) -> Shape:
        """Return the axes of the result of a product with it."""
        return self.axes[-1] if self.transposed else self.axes[0]

    @property
    def inner(self) -> Shape:
        """Return the axes that a product with it sums over."""
        return tuple(symbol for axis in (self.axes[:-1] if self.transposed else self.axes[1:]) for symbol in axis)

    @property
    def shape(self) -> Shape:
        """Return all symbols of the shape in a row."""
        return tuple(symbol for axis in self.axes for symbol in axis)


@dataclass(frozen=True, slots=True)
class Constant:
    """A tensor of a layer that is no parameter (`register_buffer`)."""

    name: str
    shape: Shape
    dtype: str | None
    """None: the model's."""


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
    "adapter": "adapters",
    "other": "others",
}
"""What parameters are for."""
_KINDS = (
    ("norm", re.compile(r"norm|(^|\.|_)ln(_|\d|\.|$)|layernorm", re.IGNORECASE)),
    ("router", re.compile(r"router|(^|\.)gate\.(weight|bias)|e_score")),
    ("routed-expert", re.compile(r"(^|\.)experts\.")),
    ("shared-expert", re.compile(r"shared_expert")),
    ("linear-attention", re.compile(r"mamba|linear_attn|conv1d|A_log|dt_bias|ssm|delta")),
    ("attention", re.compile(r"attn|attention|query|key|value|[qkv]_proj", re.IGNORECASE)),
    ("position", re.compile(r"position|pos_emb|wpe")),
    ("embedding", re.compile(r"embed|wte")),
    ("projector", re.compile(r"projector|connector|merger|multi_modal")),
    ("head", re.compile(r"lm_head|(^|\.)head\.|cls\.|predictions")),
    ("feed-forward", re.compile(r"mlp|ffn|feed|fc\d?|dense|intermediate|w[io123_]", re.IGNORECASE)),
)


def kind_of(name: str) -> str:
    """Return what a parameter is for, by its name."""
    return next((kind for kind, pattern in _KINDS if pattern.search(name)), "other")


@dataclass(frozen=True, slots=True)
class Norm:
    """A normalization over the last axis."""

    name: str
    kind: str
    """`rms`: x · w · rsqrt(mean x²), in fp32 and cast before the weight; `rms-offset`: with 1 + w, cast after it;
    `rms-after`: with w, cast after it; `rms-wide`: the same with w in fp32; `rms-power`: that
    spelled out with pow instead of rsqrt (Gemma 3n); `rms-plain`, `rms-power-plain`: without a weight; `layer`:
    LayerNorm; `layer-offset`: with 1 + w;
    `layer-fp32`: LayerNorm spelled out in fp32; `layer-plain`: LayerNorm without parameters."""
    width: Shape = ("h",)
    bias: bool = False
    fused: bool = True
    """Where the implementation uses PyTorch's RMSNorm: a kernel of its own, or (before PyTorch 2.8) composed."""
    casts_first: bool = False
    """Composed as before March 2025: cast before the weight."""
    leading: Shape = ()
    """Axes before the normalized one for which each has a weight of its own (Cohere's per-head norms)."""
    listed: int | None = None
    """Number of separate norms, one for each head (StableLM); None: a single norm."""
    replicated: bool = False
    """Under tensor parallelism every rank holds all of it, as a DTensor."""

    def weights(self, kind: str = "norm") -> Iterator[Weight]:
        """Yield its parameters."""
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
    dtype: str | None = None
    """The dtype that the code gives it, whatever the model's."""
    adapter_dtype: str | None = None
    """It has a low-rank adapter, whose matrices have this dtype."""
    adapter_dropout: float = 0.0
    quantized: str | None = None
    """Its matrix is stored in few bits, `packs` numbers in each element of `dtype`."""
    packs: int = 1
    ranks: str = "z"
    """As of its matrix (`Weight.ranks`)."""
    adapter_ranks: Axis = "ra"
    """The width between the matrices of its adapter, where several share one (LitGPT)."""
    adapter_outer: Shape | None = None
    """What its adapter adds to, if not to all of the result."""
    adapter_divided: bool = False
    """Tensor-parallel ranks share the rank of its adapter, too (NeMo Automodel's `translate_to_lora`)."""
    adapter_taken: Axis = "ra"
    """The width that the second matrix of its adapter takes in."""

    adapter_kind: str = "lora"
    """`lora`, `dora`, `adalora`, `vera`, `loha`, `miss`, `ia3`; `ia3-input`, which scales what goes in; `scale`: a bias
    and a factor for each row of the result (LLaMA-Adapter V2); or a row of `memcore.networks.adapter_shapes.SHAPES`."""
    adapter_axes: tuple[tuple[str, tuple[Shape, ...]], ...] = ()
    """The tensors of its adapter, where their shapes follow from numbers."""

    adapter_frozen: bool = False
    """The first of its adapter's matrices does not learn (LoRA-FA)."""
    module: str = "linear"
    """What holds it: an `nn.Linear`; `derived`, a class derived from it, which PEFT adapts and bitsandbytes leaves; or
    `own`, a parameter of a module of its own, which neither finds."""

    def adapter_name(self, matrix: str) -> str:
        """Return the name of an adapter's matrix in PEFT's checkpoints."""
        return f"{self.name}.{matrix}.default.weight"

    def weights(self, kind: str) -> Iterator[Weight]:
        """Yield its parameters."""
        axes = (self.inner, self.outer) if self.transposed else (self.outer, self.inner)
        yield Weight(
            f"{self.name}.weight",
            axes,
            kind,
            self.transposed,
            self.split,
            self.dtype,
            quantized=self.quantized,
            packs=self.packs,
            ranks=self.ranks,
        )
        if self.bias:
            yield Weight(f"{self.name}.bias", (self.outer,), kind, split="outer" if self.split == "outer" else None)
        if self.adapter_dtype is not None:
            yield from self._adapter(self.adapter_dtype)

    def _adapter(self, dtype: str) -> Iterator[Weight]:
        """Yield what an adapter adds, named as in PEFT's checkpoints, and as in LitGPT's."""
        if self.adapter_axes:
            yield from (
                Weight(self.adapter_name(name), axes, "adapter", dtype=dtype) for name, axes in self.adapter_axes
            )
            return
        outer = self.outer if self.adapter_outer is None else self.adapter_outer
        rank: Shape = ("ra",)
        first, second = (((self.adapter_ranks,), self.inner), (outer, (self.adapter_taken,)))
        ones: Shape = (1,) * len(self.inner)
        kinds: dict[str, dict[str, tuple[Shape, ...]]] = {
            "lora": {"lora_A": first, "lora_B": second},
            "dora": {"lora_A": first, "lora_B": second, "lora_magnitude_vector": (outer,)},
            "adalora": {"lora_A": first, "lora_E": (rank, ones), "lora_B": second},
            "vera": {"vera_lambda_b": (outer,), "vera_lambda_d": (rank,)},
            "loha": {"hada_w1_a": second, "hada_w1_b": first, "hada_w2_a": second, "hada_w2_b": first},
            "miss": {"miss_block": (rank, outer)},
            "ia3": {"ia3_l": (outer,)},
            "ia3-input": {"ia3_l": (self.inner,)},
            "scale": {"adapter_bias": (outer,), "adapter_scale": (outer,)},
        }
        for matrix, axes in kinds[self.adapter_kind].items():
            name = f"{self.name}.{matrix}" if self.adapter_kind == "scale" else self.adapter_name(matrix)
            learns = not (self.adapter_frozen and matrix == "lora_A")
            yield Weight(name, axes, "adapter", matrix == "miss_block", dtype=dtype, trainable=learns)


def linears_of(part: Any) -> Iterator[Linear]:
    """Yield the linear layers of a layer or of one of its parts."""
    if isinstance(part, Linear):
        yield part
    elif isinstance(part, tuple):
        for item in part:
            yield from linears_of(item)
    elif is_dataclass(part) and not isinstance(part, Weight):
        for item in fields(part):
            yield from linears_of(getattr(part, item.name))
