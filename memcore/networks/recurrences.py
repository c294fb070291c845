"""Mixers that carry a state from token to token, one row class for each kind.

Sources: transformers 5.23, `models/<family>/modeling_<family>.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence

from memcore.networks.parts import SpecialMixer
from memcore.networks.reader import Reader
from memcore.networks.weights import Linear, Weight
from memcore.records import dataclass
from memcore.symbols import Quotient, Shape, Shifted

_KIND = "linear-attention"

MULTIPROCESSORS = 132
"""Of a GPU (H100): some kernels split their work among them."""

DELTA_CHUNK = 64
"""Tokens that the delta rule takes at once (`chunk_size` of `torch_chunk_gated_delta_rule`, which nothing sets)."""
DELTA_CHUNKS = Quotient(("s",), DELTA_CHUNK)
"""Chunks of a sequence; the last one may be padded."""


def matrix(name: str, outer: Shape, inner: Shape, *, bias: bool = False, split: str | None = None) -> list[Weight]:
    """Return a matrix, and its bias."""
    found = [Weight(f"{name}.weight", (outer, inner), _KIND, split=split)]
    return [*found, Weight(f"{name}.bias", (outer,), _KIND)] if bias else found


def _vector(name: str, *axes: str | int) -> Weight:
    return Weight(name, tuple((axis,) for axis in axes), _KIND)


def _convolution(name: str, channels: Shape, *, bias: bool) -> list[Weight]:
    """Return a depthwise convolution over the last tokens."""
    found = [Weight(f"{name}.weight", (channels, (1,), ("K",)), _KIND)]
    return [*found, Weight(f"{name}.bias", (channels,), _KIND)] if bias else found


def linears(module: str, weights: Iterable[Weight], *left: str) -> tuple[Linear, ...]:
    """Return the linear layers among its parameters, but for those that its kernels read as mere matrices."""
    named = {each.name: each for each in weights if each.kind == _KIND}
    return tuple(
        Linear(f"{module}.{name.removesuffix('.weight')}", *each.axes, split=each.split)
        for name, each in named.items()
        if name.endswith(".weight") and len(each.axes) == 2 and name.removesuffix(".weight") not in left
    )


def prefixed(module: str, weights: Iterable[Weight]) -> tuple[Weight, ...]:
    """Return parameters under their module's name."""
    return tuple(Weight(f"{module}.{each.name}", each.axes, each.kind, split=each.split) for each in weights)


def name_heads(reader: Reader, keys: int, values: int, wide: int, deep: int, kernel: int) -> None:
    """Name the sizes of a gated delta rule: heads of keys and of values, their widths, and what is convolved."""
    reader.symbol("A", keys)
    reader.symbol("B", values)
    reader.symbol("bg", max(values // keys, 1))
    reader.symbol("dk", wide)
    reader.symbol("dv", deep)
    reader.symbol("K", kernel)
    reader.symbol("X", 2 * keys * wide + values * deep)


def _kernel(reader: Reader) -> int:
    """Return the tokens that a convolution sees."""
    return reader.integer("linear_conv_kernel_dim", least=2)


def _delta(
    module: str,
    variant: str,
    weights: Sequence[Weight],
    state: tuple[Shape, ...],
    options: Mapping[str, bool] | None = None,
) -> SpecialMixer:
    """Return a mixer of the delta rule, which runs over chunks of a sequence."""
    return SpecialMixer(
        module=module,
        variant=variant,
        parameters=prefixed(module, weights),
        linears=linears(module, weights),
        state=state,
        options=frozenset(option for option, has in (options or {}).items() if has),
        chunk=DELTA_CHUNK,
        trips=DELTA_CHUNKS,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Mamba:
    """Mamba (v1): a selective state space for each channel."""

    module: str = "mixer"
    state: str = "state_size"
    kernel: str = "conv_kernel"
    expand: str = "expand"
    rank: str = "time_step_rank"
    bias: str = "use_bias"
    conv_bias: str = "use_conv_bias"
    normed: str | None = None
    """Norms on the time step and on B and C: `normed` (Jamba), or `plain-normed` without weights (Falcon-Mamba)."""
    inner: bool = True
    """There is one kernel for the whole mixer (`mamba_inner_fn`)."""
    refused: tuple[str, ...] = ()
    """Its linear layers that PEFT refuses to adapt in this family (`_check_lora_target_modules_mamba`)."""

    def read(self, reader: Reader, mask: str, *, rotates: bool = True) -> SpecialMixer:
        """Return the mixer."""
        hidden = reader.sizes["h"]
        reader.symbol(
            "D",
            reader.integer("intermediate_size") if self._sized(reader) else reader.integer(self.expand) * hidden,
        )
        state, rank = reader.integer(self.state), _rank(reader, self.rank)
        reader.symbol("N", state)
        reader.symbol("R", rank)
        reader.symbol("K", reader.integer(self.kernel, least=2))
        reader.symbol("x", rank + 2 * state)
        bias = reader.flag(self.bias)
        weights = [
            _vector("A_log", "D", "N"),
            _vector("D", "D"),
            *_convolution("conv1d", ("D",), bias=reader.flag(self.conv_bias)),
            *matrix("in_proj", (2, "D"), ("h",), bias=bias, split="outer"),
            *matrix("x_proj", ("x",), ("D",), split="inner"),
            *matrix("dt_proj", ("D",), ("R",), bias=True, split="outer"),
            *matrix("out_proj", ("h",), ("D",), bias=bias, split="inner"),
        ]
        if self.normed == "normed":
            weights += [
                Weight(f"{name}_layernorm.weight", ((axis,),), "norm")
                for name, axis in (("dt", "R"), ("b", "N"), ("c", "N"))
            ]
        return SpecialMixer(
            module=self.module,
            variant="mamba",
            parameters=prefixed(self.module, weights),
            linears=linears(self.module, weights, *self.refused),
            state=(("D", "K"), ("D", "N")),
            options=frozenset({*((self.normed,) if self.normed else ()), *(("inner",) if self.inner else ())}),
            constants=self._constants(),
            trips="s",
        )

    def _constants(self) -> tuple[Weight, ...]:
        """Weights that are never used."""
        if self.normed != "plain-normed":
            return ()
        axes = {"dt": "D", "b": "N", "c": "N"}
        return tuple(_vector(f"{self.module}.{name}_layernorm.weight", axis) for name, axis in axes.items())

    def _sized(self, reader: Reader) -> bool:
        return self.expand == "expand" and "intermediate_size" in reader.config


def _row_groups(width: int, groups: int) -> int:
    """Return the row groups of mamba-ssm's gated norm in its backward pass (layernorm_gated.py, _layer_norm_bwd)."""
    warps = min(max((1 << (width - 1).bit_length()) // 256, 1), 8)
    return -(-MULTIPROCESSORS * -(-4 // warps) // groups)


def _rank(reader: Reader, key: str) -> int:
    found = reader.value(key)
    return -(-reader.sizes["h"] // 16) if found in ("auto", None) else reader.integer(key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mamba2:
    """Mamba 2: a state space for each head."""

    module: str = "mixer"
    heads: str = "num_heads"
    width: str = "head_dim"
    groups: str = "n_groups"
    state: str = "state_size"
    kernel: str = "conv_kernel"
    inner: Callable[[Reader], int] | None = None
    """The inner width, where it is not that of all heads."""
    bias: str | bool = "use_bias"
    conv_bias: str | bool = "use_conv_bias"
    output_bias: str | None = None
    """The key that decides for the output projection, where that is another."""
    refused: tuple[str, ...] = ()
    """Its linear layers that PEFT refuses to adapt in this family (`_check_lora_target_modules_mamba`)."""
    norm_if: str | bool = True
    norm_first_if: str | bool = False
    """The norm comes before the gate (Falcon-H1)."""
    multiplied: bool = False
    """Inputs and projections are multiplied by constants (Falcon-H1)."""
    chunk: str = "chunk_size"

    def read(self, reader: Reader, mask: str, *, rotates: bool = True) -> SpecialMixer:
        """Return the mixer."""
        heads = reader.integer(self.heads)
        inner = self.inner(reader) if self.inner else heads * reader.integer(self.width)
        reader.symbol("H", heads)
        reader.symbol("W", max(inner // heads, 1))
        reader.symbol("D", inner)
        groups, state = reader.integer(self.groups), reader.integer(self.state)
        reader.symbol("G", groups)
        reader.symbol("hg", max(heads // groups, 1))
        reader.symbol("N", state)
        reader.symbol("K", reader.integer(self.kernel, least=2))
        reader.symbol("X", inner + 2 * groups * state)
        outputs = 2 * inner + 2 * groups * state + heads
        reader.symbol("I", outputs)
        reader.symbol("nr", _row_groups(inner // groups, groups))
        bias, normed = reader.flag(self.bias), reader.flag(self.norm_if)
        options = {
            "normed": normed,
            "norm-first": reader.flag(self.norm_first_if),
            "multiplied": self.multiplied,
            "aligned": outputs % 8 == 0,
        }
        weights = [
            *(_vector(name, "H") for name in ("dt_bias", "A_log", "D")),
            *_convolution("conv1d", ("X",), bias=reader.flag(self.conv_bias)),
            *matrix("in_proj", ("I",), ("h",), bias=bias, split="outer"),
            *([Weight("norm.weight", (("D",),), "norm")] if normed else []),
            *matrix("out_proj", ("h",), ("D",), bias=reader.flag(self.output_bias or self.bias), split="inner"),
        ]
        return SpecialMixer(
            module=self.module,
            variant="mamba2",
            parameters=prefixed(self.module, weights),
            linears=linears(self.module, weights, *self.refused),
            state=(("X", "K"), ("H", "W", "N")),
            options=frozenset(option for option, has in options.items() if has),
            constants=(_vector(f"{self.module}.mup_vector", "I"),) if self.multiplied else (),
            chunk=reader.symbol("q", reader.integer(self.chunk)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedDelta:
    """Gated delta rule (Qwen3-Next)."""

    module: str = "linear_attn"
    fused: bool = True
    """Queries, keys, values and gates in one projection."""

    def read(self, reader: Reader, mask: str, *, rotates: bool = True) -> SpecialMixer:
        """Return the mixer."""
        keys, values = reader.integer("linear_num_key_heads"), reader.integer("linear_num_value_heads")
        wide, deep = reader.integer("linear_key_head_dim"), reader.integer("linear_value_head_dim")
        name_heads(reader, keys, values, wide, deep, _kernel(reader))
        reader.symbol("I", 2 * keys * wide + 2 * values * deep)
        options = {"fused": self.fused, "grouped": keys != values}
        together = [*matrix("in_proj_qkvz", ("I",), ("h",), split="outer")]
        together += matrix("in_proj_ba", (2, "B"), ("h",), split="outer")
        apart = [
            *matrix("in_proj_qkv", ("X",), ("h",), split="outer"),
            *matrix("in_proj_z", ("B", "dv"), ("h",), split="outer"),
            *matrix("in_proj_b", ("B",), ("h",), split="outer"),
            *matrix("in_proj_a", ("B",), ("h",), split="outer"),
        ]
        ends = [
            Weight("norm.weight", (("dv",),), "norm"),
            *matrix("out_proj", ("h",), ("B", "dv"), split="inner"),
        ]
        weights = [
            _vector("dt_bias", "B"),
            _vector("A_log", "B"),
            *_convolution("conv1d", ("X",), bias=False),
            *([*together, *ends] if self.fused else [*ends, *apart]),
        ]
        return _delta(self.module, "gated-delta", weights, (("X", "K"), ("B", "dk", "dv")), options)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeparateDelta:
    """Gated delta rule with a projection for each of its inputs (OLMo Hybrid)."""

    module: str = "linear_attn"

    def read(self, reader: Reader, mask: str, *, rotates: bool = True) -> SpecialMixer:
        """Return the mixer; absent sizes are those of `OlmoHybridConfig.__post_init__`."""
        heads = reader.integer("num_attention_heads")
        keys = reader.integer("linear_num_key_heads", heads)
        values = reader.integer("linear_num_value_heads", heads)
        wide = reader.integer("linear_key_head_dim", max(3 * reader.integer("hidden_size") // (4 * keys), 1))
        deep = reader.integer("linear_value_head_dim", 2 * wide)
        name_heads(reader, keys, values, wide, deep, _kernel(reader))
        weights = [
            _vector("A_log", "B"),
            _vector("dt_bias", "B"),
            *(each for name in "qk" for each in matrix(f"{name}_proj", ("A", "dk"), ("h",), split="outer")),
            *matrix("v_proj", ("B", "dv"), ("h",), split="outer"),
            *(each for name in "ab" for each in matrix(f"{name}_proj", ("B",), ("h",), split="outer")),
            *matrix("g_proj", ("B", "dv"), ("h",), split="outer"),
            *matrix("o_proj", ("h",), ("B", "dv"), split="inner"),
            *_convolution("conv1d", ("X",), bias=False),
            Weight("o_norm.weight", (("dv",),), "norm"),
        ]
        options = {"grouped": keys != values, "doubled": reader.flag("linear_allow_neg_eigval")}
        return _delta(self.module, "separate-delta", weights, (("X", "K"), ("B", "dk", "dv")), options)


@dataclass(frozen=True, slots=True, kw_only=True)
class KimiDelta:
    """Kimi delta attention: a gate for every channel of a key."""

    module: str = "self_attn"
    full_rank: bool = False
    """What gates the results is one matrix (Kimi-K3)."""

    def read(self, reader: Reader, mask: str, *, rotates: bool = True) -> SpecialMixer:
        """Return the mixer."""
        heads, width = reader.integer("linear_num_heads"), reader.integer("linear_head_dim")
        reader.symbol("B", heads)
        reader.symbol("dk", width)
        reader.symbol("K", reader.integer("linear_conv_kernel_dim", least=2))
        reader.symbol("X", 3 * heads * width)
        return kimi_delta(self.module, full_rank=("g",) if self.full_rank else ())


def kimi_delta(module: str, full_rank: Container[str]) -> SpecialMixer:
    """The mixer of heads B of width dk; `full_rank`: which of the gates (f: forget, g: results) are one matrix each."""
    whole: Shape = ("B", "dk")

    def gate(name: str) -> list[Weight]:
        if name[-1] in full_rank:
            return matrix(f"{name}_proj", whole, ("h",), split="outer")
        return [
            *matrix(f"{name}_a_proj", ("dk",), ("h",)),
            *matrix(f"{name}_b_proj", whole, ("dk",), split="outer"),
        ]

    weights = [
        *(each for name in "qkv" for each in matrix(f"{name}_proj", whole, ("h",), split="outer")),
        *_convolution("conv1d", ("X",), bias=False),
        Weight("forget_gate.dt_bias", (whole,), _KIND),
        _vector("forget_gate.A_log", 1, 1, "B", 1),
        *gate("forget_gate.f"),
        *matrix("b_proj", ("B",), ("h",), split="outer"),
        *gate("g"),
        Weight("o_norm.weight", (("dk",),), "norm"),
        *matrix("o_proj", ("h",), whole, split="inner"),
    ]
    return _delta(module, "kimi-delta", weights, ((3, "B", "dk", "K"), ("B", "dk", "dk")))


def short_convolution(module: str, *, bias: bool) -> SpecialMixer:
    """Return the mixer that convolves the last K tokens."""
    weights = [
        *_convolution("conv", ("h",), bias=bias),
        *matrix("in_proj", (3, "h"), ("h",), bias=bias),
        *matrix("out_proj", ("h",), ("h",), bias=bias),
    ]
    return SpecialMixer(
        module=module,
        variant="short-conv",
        parameters=prefixed(module, weights),
        linears=linears(module, weights),
        state=(("h", "K"),),
        options=frozenset({"bias"} if bias else ()),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Lightning:
    """Lightning attention (MiniMax-Text-01)."""

    module: str = "self_attn"

    def read(self, reader: Reader, mask: str, *, rotates: bool = True) -> SpecialMixer:
        """Return the mixer."""
        heads = reader.integer("num_attention_heads")
        reader.symbol("a", heads)
        reader.symbol("d", reader.integer("head_dim", max(reader.sizes["h"] // heads, 1)))
        block = reader.symbol("q", reader.integer("block_size"))
        weights = [
            Weight("norm.weight", (("a", "d"),), "norm"),
            *matrix("qkv_proj", (3, "a", "d"), ("h",), split="outer"),
            *matrix("out_proj", ("h",), ("a", "d"), split="inner"),
            *matrix("output_gate", ("a", "d"), ("h",), split="outer"),
        ]
        return SpecialMixer(
            module=self.module,
            variant="lightning",
            parameters=prefixed(self.module, weights),
            linears=linears(self.module, weights),
            state=(("a", "d", "d"),),
            chunk=block,
            trips=Quotient(("s",), block),
            constants=(
                _vector(f"{self.module}.slope_rate", "a", 1, 1),
                _vector(f"{self.module}.query_decay", "a", "q", 1),
                _vector(f"{self.module}.key_decay", "a", "q", 1),
                _vector(f"{self.module}.diagonal_decay", 1, "a", "q", "q"),
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RealGated:
    """The real-gated linear recurrent unit (RecurrentGemma)."""

    module: str = "temporal_block"

    def read(self, reader: Reader, mask: str, *, rotates: bool = True) -> SpecialMixer:
        """Return the mixer."""
        width, heads = reader.integer("lru_width", reader.sizes["h"]), reader.integer("num_attention_heads")
        if width % heads:
            reader.refuse("num_attention_heads", "{} does not divide the recurrent width {}", heads, width)
        reader.symbol("D", width)
        reader.symbol("H", heads)
        reader.symbol("W", max(width // heads, 1))
        reader.symbol("K", reader.integer("conv1d_width", least=2))
        gates = [
            each
            for name in ("input_gate", "recurrent_gate")
            for each in (_vector(f"rg_lru.{name}_weight", "H", "W", "W"), _vector(f"rg_lru.{name}_bias", "H", "W"))
        ]
        weights = [
            *matrix("linear_y", ("D",), ("h",), bias=True),
            *matrix("linear_x", ("D",), ("h",), bias=True),
            *matrix("linear_out", ("h",), ("D",), bias=True),
            *_convolution("conv_1d", ("D",), bias=True),
            _vector("rg_lru.recurrent_param", "D"),
            *gates,
        ]
        kept: tuple[Shape, ...] = (("D",), ("D", Shifted("K", -1, 1)))
        return SpecialMixer(
            module=self.module,
            variant="recurrent-gemma",
            parameters=prefixed(self.module, weights),
            linears=linears(self.module, weights),
            state=(),
            kept=kept,
            trips="s",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortConvolution:
    """A gated convolution over the last few tokens (LFM2)."""

    module: str = "conv"

    def read(self, reader: Reader, mask: str, *, rotates: bool = True) -> SpecialMixer:
        """Return the mixer."""
        reader.symbol("K", reader.integer("conv_L_cache"))
        return short_convolution(self.module, bias=reader.flag("conv_bias"))
