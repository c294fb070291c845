"""Reading a Hugging Face `config.json` into a `Model`, by the rows of `families.FAMILIES`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from memcore.eager.operations import ACTIVATIONS
from memcore.errors import ConfigError, Problem, nearest
from memcore.model.families import FAMILIES, Family
from memcore.model.network import Attention, Ends, FeedForward, Layer, Linear, Model, Network, Norm, Weight
from memcore.symbols import Shape

_HEAD: Shape = ("d",)


class _Reader:
    """Typed access to one file under the names of one family; collects problems."""

    def __init__(self, config: Mapping[str, object], family: Family) -> None:
        self._config = config
        self._family = family
        self.problems: list[Problem] = []

    def value(self, name: str) -> object:
        """The value of a canonical key: what the family's code fixes, the file's, or the class default."""
        if name in self._family.fixed:
            return self._family.fixed[name]
        for key in (self._family.keys.get(name, name), name):
            if key in self._config:
                return self._config[key]
        return self._family.defaults.get(name)

    def key(self, name: str) -> str:
        """The file's own name of a canonical key."""
        key = self._family.keys.get(name, name)
        return name if name in self._config and key not in self._config else key

    def integer(self, name: str, default: int = 0) -> int:
        """A positive integer; `default` where the key has none."""
        found = self.value(name)
        if found is None and default:
            return default
        if not isinstance(found, int) or isinstance(found, bool) or found < 1:
            self.refuse(name, f"expected a positive integer, found {found!r}")
            return max(default, 1)
        return found

    def number(self, name: str) -> float:
        """A number of at least zero."""
        found = self.value(name)
        if isinstance(found, bool) or not isinstance(found, (int, float)) or not found >= 0:
            self.refuse(name, f"expected a number of at least 0, found {found!r}")
            return 0.0
        return float(found)

    def flag(self, name: str) -> bool:
        """True or false."""
        found = self.value(name)
        if not isinstance(found, bool):
            self.refuse(name, f"expected true or false, found {found!r}")
        return bool(found)

    def refuse(self, name: str, message: str, suggestion: str | None = None) -> None:
        """Note a problem with a key, once."""
        problem = Problem(f"model.{self.key(name)}", message, suggestion)
        if problem not in self.problems:
            self.problems.append(problem)

    def check(self) -> None:
        """Raise ConfigError if there are problems: what follows would only repeat them."""
        if self.problems:
            raise ConfigError(self.problems)


def read_model(config: Mapping[str, object], name: str | None = None) -> Model:
    """The network that a `config.json` describes.

    Raises ConfigError naming every key that cannot be understood, or an unknown `model_type`.
    """
    model_type = config.get("model_type")
    family = FAMILIES.get(model_type) if isinstance(model_type, str) else None
    if family is None:
        allowed = ", ".join(sorted(FAMILIES))
        hint = nearest(model_type, FAMILIES) if isinstance(model_type, str) else None
        raise ConfigError([Problem("model.model_type", f"found {model_type!r}; known families: {allowed}", hint)])
    reader = _Reader(config, family)
    sizes = _sizes(reader)
    network, repeats = _network(str(model_type), reader, family, sizes)
    reader.check()
    title = name or config.get("_name") or config.get("_name_or_path") or model_type
    window = reader.value("sliding_window")
    return Model(str(title), network, repeats, sizes, window if isinstance(window, int) else None)


def _sizes(reader: _Reader) -> dict[str, int]:
    hidden, heads = reader.integer("hidden_size"), reader.integer("num_attention_heads")
    kv_heads = reader.integer("num_key_value_heads", heads)
    reader.check()
    if heads % kv_heads:
        reader.refuse("num_key_value_heads", f"{kv_heads} does not divide the {heads} attention heads")
    if reader.value("head_dim") is None and hidden % heads:
        reader.refuse(
            "num_attention_heads", f"{heads} does not divide the hidden size {hidden}, and head_dim is absent"
        )
    width = reader.integer("head_dim", max(hidden // heads, 1))
    return {
        "h": hidden,
        "a": heads,
        "k": kv_heads,
        "g": heads // kv_heads,
        "d": width,
        "r": int(width * _partial_rotary(reader)),
        "f": reader.integer("intermediate_size", 4 * hidden),
        "V": reader.integer("vocab_size"),
        "P": reader.integer("max_position_embeddings"),
    }


def _partial_rotary(reader: _Reader) -> float:
    rope = reader.value("rope_parameters")
    if isinstance(rope, Mapping) and isinstance(rope.get("partial_rotary_factor"), float):
        return float(rope["partial_rotary_factor"])
    return reader.number("partial_rotary_factor")


def _network(
    model_type: str, reader: _Reader, family: Family, sizes: Mapping[str, int]
) -> tuple[Network, tuple[int, ...]]:
    layers = [_layer(reader, family, sizes, sliding=sliding) for sliding in _sliding(reader, family)]
    runs, repeats = _compress(layers)
    return Network(model_type, family.path, runs, _ends(reader, family)), repeats


def _layer(reader: _Reader, family: Family, sizes: Mapping[str, int], *, sliding: bool) -> Layer:
    residual = family.residual
    if residual == "parallel" and not reader.flag("use_parallel_residual"):
        residual = "sequential"
    return Layer(
        attention=_attention(reader, family, sizes, sliding=sliding),
        feed_forward=_feed_forward(reader, family),
        residual=residual,
        norms=tuple(_norm(reader, family, name) for name in family.norms),
        dropout=reader.number("hidden_dropout"),
    )


def _norm(reader: _Reader, family: Family, name: str, width: Shape = ("h",)) -> Norm:
    return Norm(name, family.norm, width, family.norm_bias, fused=reader.value("norm") != "composite")


def _attention(reader: _Reader, family: Family, sizes: Mapping[str, int], *, sliding: bool) -> Attention:
    bias = reader.flag("attention_bias")
    prefix = family.attention
    if len(family.query_key_value) == 1:
        outer: list[Shape] = [("a", 3, "d") if family.fused_per_head else (3, "a", "d")]
    else:
        outer = [("a", "d"), ("k", "d"), ("k", "d")]
    names = family.query_key_norms if reader.value("qk_layernorm") is not False else None
    norms = [None, None] if names is None else [_norm(reader, family, f"{prefix}.{name}", _HEAD) for name in names]
    return Attention(
        module=prefix,
        inputs=tuple(
            Linear(f"{prefix}.{name}", axes, ("h",), bias, family.transposed)
            for name, axes in zip(family.query_key_value, outer, strict=True)
        ),
        output=Linear(f"{prefix}.{family.output}", ("h",), ("a", "d"), reader.flag("output_bias"), family.transposed),
        grouped=sizes["g"] > 1,
        rotary=family.rotary,
        fused_per_head=family.fused_per_head,
        repeats_heads=reader.value("gqa") == "repeat",
        query_norm=norms[0],
        key_norm=norms[1],
        sliding=sliding,
        softcap=reader.value("attn_logit_softcapping") is not None,
        softmax_fp32=family.softmax_fp32,
        dropout=reader.number("attention_dropout"),
        unaligned_heads=sizes["d"] % 8 != 0,
    )


def _feed_forward(reader: _Reader, family: Family) -> FeedForward:
    bias, prefix = reader.flag("mlp_bias"), family.feed_forward

    def matrix(name: str, outer: Shape, inner: Shape) -> Linear:
        return Linear(f"{prefix}.{name}", outer, inner, bias, family.transposed)

    activation = reader.value("hidden_act")
    if activation not in ACTIVATIONS:
        known = ", ".join(sorted(ACTIVATIONS))
        reader.refuse("hidden_act", f"found {activation!r}; known: {known}", nearest(str(activation), ACTIVATIONS))
    return FeedForward(
        module=prefix,
        gate=matrix(family.gate, ("f",), ("h",)) if family.gate else None,
        up=matrix(family.up, ("f",), ("h",)),
        down=matrix(family.down, ("h",), ("f",)),
        activation=str(activation),
    )


def _ends(reader: _Reader, family: Family) -> Ends:
    return Ends(
        embedding=Weight(f"{family.embedding}.weight", (("V",), ("h",)), "embedding"),
        positions=Weight(f"{family.positions}.weight", (("P",), ("h",)), "position") if family.positions else None,
        final_norm=_norm(reader, family, family.final_norm),
        head=Linear(family.head, ("V",), ("h",), family.head_bias),
        tied=reader.flag("tie_word_embeddings"),
        embedding_scaled=family.embedding_scaled,
        embedding_dropout=reader.number("embedding_dropout"),
        head_softcap=reader.value("final_logit_softcapping") is not None,
    )


def _sliding(reader: _Reader, family: Family) -> list[bool]:
    """For each layer, whether it sees only a window of tokens."""
    count = reader.integer("num_hidden_layers")
    if family.sliding == "never" or reader.value("sliding_window") is None:
        return [False] * count
    if family.sliding == "all":
        return [True] * count
    if family.sliding == "listed" and not reader.flag("use_sliding_window"):
        return [False] * count
    listed = reader.value("layer_types")
    if isinstance(listed, Sequence) and not isinstance(listed, str):
        if len(listed) != count:
            reader.refuse("layer_types", f"lists {len(listed)} layers of {count}")
        return [kind == "sliding_attention" for kind in listed]
    if family.sliding == "alternate":
        return [index % 2 == 0 for index in range(count)]
    return [index >= reader.integer("max_window_layers") for index in range(count)]


def _compress(layers: Sequence[Layer]) -> tuple[tuple[tuple[Layer, ...], ...], tuple[int, ...]]:
    """Write a sequence of layers as runs of a repeated pattern.

    One run and a rest if the whole repeats a pattern of at most eight layers, else stretches of equal layers.
    """
    for period in range(1, min(8, len(layers) // 2) + 1):
        if all(layer == layers[index % period] for index, layer in enumerate(layers)):
            whole, rest = divmod(len(layers), period)
            runs = [tuple(layers[:period])] + ([tuple(layers[:rest])] if rest else [])
            return tuple(runs), (whole,) + ((1,) if rest else ())
    stretches = [list(group) for _, group in groupby(layers)]
    return tuple((group[0],) for group in stretches), tuple(len(group) for group in stretches)
