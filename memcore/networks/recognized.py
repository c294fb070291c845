"""Parts of a derived layer: attention, feed-forward layers and experts as their tensors' names show them.

What is not recognized stays a parameter without a part: it counts, and servers hold a copy of it on every rank.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, islice
from math import prod
from typing import NamedTuple

from memcore.networks.network import Layer
from memcore.networks.parts import (
    Attention,
    Experts,
    Extra,
    FeedForward,
    Ffn,
    Heads,
    LatentAttention,
    Mixer,
    SpecialMixer,
)
from memcore.networks.recurrences import kimi_delta, short_convolution
from memcore.networks.weights import Linear, Norm, Weight, kind_of
from memcore.symbols import Shape

RESIDUAL = "derived"
"""Layers wired in the usual order, each part behind a norm: how they really are is not known."""
REPEATED = "derived-repeated"
"""Layers that run more often than there are of them, which nothing says how often."""
UNCACHED = "derived-uncached"
"""The rest of a layer of which it is not known what it caches."""
_ATTENTION = (
    *((f"q{end}", f"k{end}", f"v{end}") for end in ("_proj", "", "_lin", "_linear")),
    *((f"query{end}", f"key{end}", f"value{end}") for end in ("", "_proj")),
    *(("linear_q", "linear_k", "linear_v"), ("wq", "wk", "wv"), ("to_q", "to_k", "to_v")),
    *(("q_proj.linear", "k_proj.linear", "v_proj.linear"), ("Wq", "Wk", "Wv"), ("q_head", "k_head", "v_head")),
    ("project_q", "project_k", "project_v"),
)
_FUSED = ("qkv_proj", "qkv", "query_key_value", "Wqkv", "wqkv", "c_attn", "in_proj", "att_proj", "W_pack")
_SHORT = ("in_proj", "out_proj")
_DELTA = ("q_proj", "k_proj", "v_proj", "b_proj", "o_proj")
_LATENT = ("kv_a_proj_with_mqa", "kv_b_proj", "o_proj")
_OUTPUTS = (
    *("o_proj", "out_proj", "output.dense", "dense", "o", "out", "out_lin", "output", "wo", "linear_out", "c_proj"),
    *("Wo", "proj", "attn_out", "to_out.0", "projection", "o_proj.linear"),
    *("post_proj", "attention_out", "output_projection.o_proj"),
)
_GATED = (
    ("gate_proj", "up_proj", "down_proj"), ("w1", "w3", "w2"), ("wi_0", "wi_1", "wo"), ("fc12", "fc11", "fc2"),
    ("w_in.w_0", "w_in.w_1", "w_out"), ("proj_up_gate", "proj_up", "proj_down"),
)  # fmt: skip
_PLAIN = (
    ("up_proj", "down_proj"),
    ("fc1", "fc2"),
    ("c_fc", "c_proj"),
    ("dense_h_to_4h", "dense_4h_to_h"),
    ("wi", "wo"),
    ("intermediate.dense", "output.dense"),
    ("lin1", "lin2"),
    ("linear1", "linear2"),
    ("linear_1", "linear_2"),
    ("fc_in", "fc_out"),
    ("w_1", "w_2"),
    ("dense_in", "dense_out"),
    ("ffn", "ffn_output"),
    ("ffn.0", "ffn.2"),
    ("intermediate_dense", "output_dense"),
    ("feed_forward.intermediate", "feed_forward.output"),
    ("layer_1", "layer_2"),
    ("dense1", "dense2"),
)
_WIDE = (("gate_up_proj", "down_proj"), ("up_gate_proj", "down_proj"), ("Wi", "Wo"), ("fc1", "fc2"), ("wi", "wo"))
"""Gate and up in one matrix."""
_BETWEEN = re.compile(r"^(?!.*(^|[._])[qk]_?(norm|layernorm)).*(norm|ln)", re.IGNORECASE)
"""Norms of a layer, not of queries and keys."""
_NORMS = 6
"""As many norms as a layer's parts may have."""


class Symbols:
    """Sizes by symbol: a name, with a prime where the plain one has another value."""

    def __init__(self, sizes: Mapping[str, int] | None = None) -> None:
        self.sizes: dict[str, int] = dict(sizes or {})

    def __call__(self, name: str, value: int) -> str:
        """Return the symbol of a value."""
        while self.sizes.setdefault(name, value) != value:
            name += "′"
        return name


def plain(name: str, shape: tuple[int, ...]) -> Weight:
    """Return a parameter that belongs to no part."""
    return Weight(name, tuple((size,) for size in shape), kind_of(name))


class Facts(NamedTuple):
    """What a configuration says of the layers of a stack."""

    heads: int | None = None
    """Query heads."""
    chosen: int | None = None
    """Experts of a token."""
    cached: bool | None = True
    """What it caches is what its attention says; None: that it caches nothing; False: that is not known."""
    mask: str = "full"
    rotary: str = "full"
    latent: tuple[int, int] | None = None
    """Elements of a head that are rotated, and the width of a value."""
    pool: int = 1
    """Tokens that share a key of an indexer, where it pools."""
    activation: str | None = None
    """The function within its feed-forward layers, as far as the file names one."""
    other: bool = False
    """Its cache is another one than that of its attention's tensors: they show what it learns, not what it caches."""


def recognize(tensors: Mapping[str, tuple[int, ...]], facts: Facts, symbol: Symbols) -> Layer:
    """Return the parts of one layer."""
    left = dict(tensors)
    mixers = list(islice(_mixers(left, facts, symbol), 2))
    before = dict(left)
    ffns: list[Ffn] = list(
        islice(chain(_experts(left, facts.chosen, symbol), _dense(left, symbol, facts.activation)), 2)
    )
    if 2 * _elements(left) > _elements(tensors):  # what was found is not what the layer mostly is
        ffns, left = [], before
    whole = bool(mixers and ffns)
    width = next((each.output.outer for each in mixers if not isinstance(each, SpecialMixer)), None)
    width = width or next((each.down.outer for each in ffns if isinstance(each, FeedForward)), None) or ("h",)
    if not whole and width[0] not in symbol.sizes:
        width = (symbol("h", _usual_width(left)),)
    norms = tuple(_norms(left, symbol.sizes.get(str(width[0])), width))
    linears = () if whole else tuple(_rest(left, str(width[0]), symbol))
    others = tuple(plain(name, shape) for name, shape in left.items())
    routed = symbol("e", facts.chosen) if facts.chosen and not whole and any(map(_EXPERT.search, tensors)) else ""
    unknown = facts.other or (facts.cached is False and not mixers)
    extra = Extra(UNCACHED if unknown else "derived", others, linears=linears, width=width, routed=routed)
    if whole:
        extra = replace(extra, width=())
    return Layer(
        mixer=mixers[0] if mixers else None,
        feed_forward=ffns[0] if ffns else None,
        residual=RESIDUAL,
        norms=norms,
        second_mixer=mixers[1] if len(mixers) > 1 else None,
        second_feed_forward=ffns[1] if len(ffns) > 1 else None,
        extra=extra if others or linears or unknown else None,
    )


_EXPERT = re.compile(r"(^|[._])experts?[._]")
_TABLE = re.compile(r"embed|relative|bias|table|codebook|position")
"""Matrices that are no linear layers."""


def _usual_width(tensors: Mapping[str, tuple[int, ...]]) -> int:
    """Return the size that most axes of a layer have."""
    axes = Counter(size for shape in tensors.values() for size in shape)
    return axes.most_common(1)[0][0] if axes else 1


def _rest(left: dict[str, tuple[int, ...]], width: str, symbol: Symbols) -> Iterator[Linear]:
    """Yield the matrices of parts that are not recognized."""

    def axis(size: int) -> Shape:
        return (width,) if size == symbol.sizes[width] else (size,)

    for name, shape in list(left.items()):
        module, _, last = name.rpartition(".")
        if module and last == "weight" and len(shape) == 2 and min(shape) > 1 and not _TABLE.search(module):
            yield _linear(left, module, axis(shape[0]), axis(shape[1]))


def _elements(tensors: Mapping[str, tuple[int, ...]]) -> int:
    return sum(map(prod, tensors.values()))


def _norms(left: dict[str, tuple[int, ...]], width: int | None, axes: Shape) -> Iterator[Norm]:
    """Norms over the width of the layer, as many as its parts may have."""
    names = [name for name, shape in left.items() if shape == (width,) and _BETWEEN.search(name)]
    for name in [each for each in names if each.endswith(".weight")][:_NORMS]:
        del left[name]
        module = name.removesuffix(".weight")
        biased = left.pop(f"{module}.bias", None) is not None
        yield Norm(module, "layer" if biased else "rms", axes, bias=biased)


def _modules(left: Mapping[str, tuple[int, ...]], names: tuple[str, ...]) -> Iterator[str]:
    """Yield the prefix of these names wherever all of them are matrices."""
    last = f"{names[0]}.weight"
    for name in list(left):
        if name == last or name.endswith(f".{last}"):
            before = name.removesuffix(last)
            if all(len(left.get(f"{before}{each}.weight", ())) == 2 for each in names):
                yield before


def _linear(left: dict[str, tuple[int, ...]], name: str, outer: Shape, inner: Shape, *, turned: bool = False) -> Linear:
    """Return a matrix taken from the tensors that are left, with its bias; `turned`: stored as (in, out)."""
    del left[f"{name}.weight"]
    return Linear(name, outer, inner, left.pop(f"{name}.bias", None) is not None, turned)


def _mixers(left: dict[str, tuple[int, ...]], facts: Facts, symbol: Symbols) -> Iterator[Mixer]:
    found = [_delta(left, before, symbol) for before in list(_modules(left, _DELTA))[:2]]
    found += [_short(left, before, symbol) for before in list(_modules(left, _SHORT))[:2]]
    yield from (each for each in found if each is not None)
    yield from _attentions(left, facts, symbol)


def _attentions(left: dict[str, tuple[int, ...]], facts: Facts, symbol: Symbols) -> Iterator[Mixer]:
    heads = facts.heads
    for before in list(_modules(left, _LATENT))[:2] if heads and facts.latent else ():
        latent = _latent(left, before, facts, symbol)
        yield from [latent] if latent is not None else []
    for names in _ATTENTION if heads else ():
        for before in list(_modules(left, names))[:2]:
            (queries, width), (keys, source), values = (left[f"{before}{each}.weight"] for each in names)
            output = _output(left, before, queries)
            size = queries // (heads or 1)
            if output is None or values != (keys, source) or queries % (heads or 1):
                continue
            if not size or not keys or keys % size:
                continue
            if source != width or left[f"{output}.weight"][0] != width:
                continue
            inputs = tuple(f"{before}{each}" for each in names)
            yield _attention(left, before, (inputs, output), (keys // size, size, width), facts, symbol)
    for name in _FUSED if heads else ():
        for before in list(_modules(left, (name,)))[:2]:
            found = _fused(left, before, f"{before}{name}", heads or 1)
            if found is not None:
                output, numbers = found
                yield _attention(left, before, ((f"{before}{name}",), output), numbers, facts, symbol)


def _output(left: Mapping[str, tuple[int, ...]], before: str, queries: int | None) -> str | None:
    """Return the module that leads out of attention: next to its queries, or one level above."""
    parent = before.rstrip(".").rpartition(".")[0]
    for near in dict.fromkeys((before, f"{parent}." if parent else "")):
        for name in _OUTPUTS:
            shape = left.get(f"{near}{name}.weight", ())
            if len(shape) == 2 and (queries is None or queries == shape[1]):
                return f"{near}{name}"
    return None


def _fused(
    left: Mapping[str, tuple[int, ...]], before: str, name: str, heads: int
) -> tuple[str, tuple[int, int, int]] | None:
    """Return the way out of a fused attention, and its key heads, their size, and the layer's width."""
    output = _output({key: shape for key, shape in left.items() if key != f"{name}.weight"}, before, None)
    if output is None:
        return None
    (width, queries), (rows, source) = left[f"{output}.weight"], left[f"{name}.weight"]
    rows = source if rows == width and source != width else rows
    size = queries // heads
    keys = (rows // size - heads) // 2 if size else 0
    fits = keys > 0 and queries == heads * size and rows == (heads + 2 * keys) * size and heads % keys == 0
    return (output, (keys, size, width)) if fits and {rows, width} == {*left[f"{name}.weight"]} else None


def _attention(
    left: dict[str, tuple[int, ...]],
    before: str,
    names: tuple[tuple[str, ...], str],
    numbers: tuple[int, int, int],
    facts: Facts,
    symbol: Symbols,
) -> Attention:
    (inputs, output), (keys, size, width), many = names, numbers, facts.heads or 1
    a, k, d, h = symbol("a", many), symbol("k", keys), symbol("d", size), symbol("h", width)
    groups = symbol("g", many // keys)
    crosses = re.search(r"cross|encoder_attn|EncDec|encoder_attention", before) is not None
    cached: tuple[Shape, ...] = () if crosses or facts.cached is None or facts.other else ((k, d), (k, d))
    turned = left[f"{inputs[0]}.weight"][0] == width and left[f"{inputs[0]}.weight"][1] != width
    outer: tuple[Shape, ...] = ((a, d), (k, d), (k, d))
    if len(inputs) == 1:
        outer = ((symbol("n", many + 2 * keys), d),)
    return Attention(
        module=before.rstrip("."),
        inputs=tuple(_linear(left, name, axes, (h,), turned=turned) for name, axes in zip(inputs, outer, strict=True)),
        output=_linear(left, output, (h,), (a, d), turned=turned),
        heads=Heads(a, k, groups, d, d, d, size % 8 != 0, size > 256),
        grouped=many != keys,
        rotary="none" if size % 2 else facts.rotary,
        variant="derived",
        fused="grouped" if len(inputs) == 1 else "no",
        mask="full" if crosses else facts.mask,
        bidirectional=facts.cached is None,
        crosses=crosses,
        cached=cached,
    )


def _delta(left: dict[str, tuple[int, ...]], before: str, symbol: Symbols) -> SpecialMixer | None:
    """Kimi delta attention, by its names: its state follows from its heads."""
    (rows, width), (heads, _) = left[f"{before}q_proj.weight"], left[f"{before}b_proj.weight"]
    convolved, size = left.get(f"{before}conv1d.weight", (0,)), rows // heads
    if len(convolved) != 3 or convolved[0] != 3 * rows or rows != heads * size:
        return None
    mixer = kimi_delta(before.rstrip("."), [gate[-1] for gate in _GATES if f"{before}{gate}_proj.weight" in left])
    sizes = {"h": width, "B": heads, "dk": size, "K": convolved[-1], "X": convolved[0]}
    return _taken(left, mixer, sizes, symbol)


def _short(left: dict[str, tuple[int, ...]], before: str, symbol: Symbols) -> SpecialMixer | None:
    """Return a gated convolution over the last tokens, recognized by its names; its state is its input."""
    convolved, (rows, width) = left.get(f"{before}conv.weight", ()), left[f"{before}in_proj.weight"]
    if convolved[:2] != (width, 1) or rows != 3 * width:
        return None
    mixer = short_convolution(before.rstrip("."), bias=f"{before}conv.bias" in left)
    return _taken(left, mixer, {"h": width, "K": convolved[-1]}, symbol)


def _taken(
    left: dict[str, tuple[int, ...]], mixer: SpecialMixer, sizes: Mapping[str, int], symbol: Symbols
) -> SpecialMixer | None:
    """Take a mixer's tensors out of `left` and return it; None if one is missing or its sizes are not the stack's."""
    if any(each.name not in left for each in mixer.weights()) or any(
        symbol(*each) != each[0] for each in sizes.items()
    ):
        return None
    for each in mixer.weights():
        del left[each.name]
    return mixer


_GATES = ("forget_gate.f", "g")
"""What decays a state and what gates results, each of one matrix or of two."""


def _latent(left: dict[str, tuple[int, ...]], before: str, facts: Facts, symbol: Symbols) -> LatentAttention | None:
    """Keys and values that are expanded from one vector: DeepSeek's names."""
    many, (most, wide) = facts.heads or 1, facts.latent or (0, 0)
    (both, width), (rows, latent) = (left[f"{before}{each}.weight"] for each in _LATENT[:2])
    turned = both - latent  # nothing in layers that do not rotate
    names = ("q_a_proj", "q_b_proj") if f"{before}q_a_proj.weight" in left else ("q_proj",)
    last = left.get(f"{before}{names[-1]}.weight", ())
    norms = [f"{before}{each}" for each in ("q_a_layernorm", "kv_a_layernorm")[2 - len(names) :]]
    size, expanded = (last[0] // many if len(last) == 2 else 0), rows // many
    fits = turned in (0, most) and size > turned and expanded == size - turned + wide
    if not fits or any(f"{each}.weight" not in left for each in norms):
        return None
    h, a, d, u = symbol("h", width), symbol("a", many), symbol("d", size), symbol("u", expanded)
    c, lk, r = symbol("c", both), symbol("lk", latent), symbol("r", turned)
    v = d if wide == size else symbol("v", wide)
    symbol("p", size - turned)
    queries = [_linear(left, f"{before}{names[-1]}", (a, d), (h,))]
    if len(names) == 2:
        lq = symbol("lq", last[1])
        queries = [_linear(left, f"{before}q_a_proj", (lq,), (h,)), replace(queries[0], inner=(lq,))]
    for each in norms:
        del left[f"{each}.weight"]
    indexer = _indexer(left, f"{before}indexer.", symbol)
    keys: tuple[Shape, ...] = (indexer[0].axes[0],) if indexer else ()
    pools = any(each.name.endswith(_POOLED) for each in indexer)
    if pools:
        keys = (*keys, *keys, (1,))
    return LatentAttention(
        module=before.rstrip("."),
        queries=tuple(queries),
        query_norm=Norm(norms[0], "rms", queries[-1].inner) if len(norms) == 2 else None,
        compress=_linear(left, f"{before}{_LATENT[0]}", (c,), (h,)),
        latent_norm=Norm(norms[-1], "rms", (lk,)),
        expand=_linear(left, f"{before}{_LATENT[1]}", (a, u), (lk,)),
        output=_linear(left, f"{before}{_LATENT[2]}", (h,), (a, v)),
        heads=Heads(a, a, 1, d, v, r, size % 8 != 0),
        rotary="interleaved" if turned else "none",
        variant="deepseek_v3",
        indexer=indexer,
        pool=facts.pool if pools else 1,
        mask=facts.mask,
        cached=() if facts.other else ((lk,), *([(r,)] if turned else []), *keys),
    )


_POOLED = "indexer.index_kpool_compress_gate"
"""The gate that weighs a pool's tokens; transformers caches its result next to each key, and a flag per token."""


def _indexer(left: dict[str, tuple[int, ...]], before: str, symbol: Symbols) -> tuple[Weight, ...]:
    """Return the weights of what chooses tokens, that of its keys first: DeepSeek's names."""
    key = f"{before}wk.weight"
    if key not in left:
        return ()
    width, source = left.pop(key)
    rest = [plain(name, left.pop(name)) for name in list(left) if name.startswith(before)]
    return (Weight(key, ((symbol("j", width),), (source,)), "attention"), *rest)


def _dense(left: dict[str, tuple[int, ...]], symbol: Symbols, named: str | None = None) -> Iterator[FeedForward]:
    for names in (*_GATED, *_PLAIN, *_WIDE):
        for before in list(_modules(left, names))[:2]:
            if "expert" in before and "shared" not in before:
                continue
            *first, last = (left[f"{before}{each}.weight"] for each in names)
            turned = len(first) == 1 and first[0] == last[::-1] and first[0][0] < first[0][1]
            turned = turned and names[0] == "c_fc"
            width, wide = last[::-1] if turned else last
            double = len(first) == 1 and first[0] == (2 * wide, width) and names in _WIDE
            if any(each != ((width, wide) if turned else (wide, width)) for each in first) and not double:
                continue
            kind = "shared-expert" if "shared_expert" in before else "feed-forward"
            f, h = symbol("w" if kind == "shared-expert" else "f", wide), symbol("h", width)
            *inputs, down = (f"{before}{each}" for each in names)
            outer: Shape = (2, f) if double else (f,)
            matrices = [_linear(left, each, outer, (h,), turned=turned) for each in inputs]
            yield FeedForward(
                module=before.rstrip("."),
                gate=matrices[0] if len(matrices) == 2 else None,
                up=matrices[-1],
                down=_linear(left, down, (h,), (f,), turned=turned),
                activation=named or ("silu" if double or len(matrices) == 2 else "gelu"),
                fused=double,
                kind=kind,
            )


def _experts(left: dict[str, tuple[int, ...]], chosen: int | None, symbol: Symbols) -> Iterator[Experts]:
    for name in list(left):
        before, found, _ = name.partition("experts.gate_up_proj")
        down, up = left.get(f"{before}experts.down_proj", ()), left[name]
        if not found or len(up) != 3 or len(down) != 3 or not chosen or chosen > up[0]:
            continue
        for turned in (False, True):
            many, width, inside = (down[0], down[2], down[1]) if turned else down
            router = next((each for each in left if each.startswith(before) and left[each] == (many, width)), None)
            inputs = (many, width, 2 * inside) if turned else (many, 2 * inside, width)
            if up == inputs and router is not None and router.endswith(".weight"):
                yield _sparse(left, before, router, (many, chosen, inside, width), symbol, turned=turned)
                return


def _sparse(
    left: dict[str, tuple[int, ...]],
    before: str,
    router: str,
    numbers: tuple[int, int, int, int],
    symbol: Symbols,
    *,
    turned: bool,
) -> Experts:
    number: Callable[[str, int], str] = symbol
    many, e, m, h = (number(name, value) for name, value in zip(("E", "e", "m", "h"), numbers, strict=True))
    for each in ("gate_up_proj", "down_proj"):
        del left[f"{before}experts.{each}"]
    matrices: tuple[tuple[str, tuple[Shape, Shape], str], ...] = (
        ("gate_up_proj", ((2, m), (h,)), "outer"),
        ("down_proj", ((h,), (m,)), "inner"),
    )
    shared = next((ffn for ffn in _dense(_within(left, f"{before}shared_expert"), symbol)), None)
    for weight in shared.weights() if shared is not None else ():
        left.pop(weight.name)
    return Experts(
        module=before.rstrip("."),
        router=_linear(left, router.removesuffix(".weight"), (many,), (h,)),
        experts=tuple(
            Weight(
                f"{before}experts.{name}", ((many,), *(axes[::-1] if turned else axes)), "routed-expert", split=split
            )
            for name, axes, split in matrices
        ),
        activation="silu",
        gated=True,
        variant="mixtral" if shared is None else "hunyuan",
        shared=shared,
        routed=e,
    )


def _within(left: Mapping[str, tuple[int, ...]], before: str) -> dict[str, tuple[int, ...]]:
    return {name: shape for name, shape in left.items() if name.startswith(before)}
