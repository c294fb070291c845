"""Parts of a derived layer: attention, feed-forward layers and experts as their tensors' names show them.

What is not recognized stays a parameter without a part: it counts, and servers hold a copy of it on every rank.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from memcore.networks.network import Layer
from memcore.networks.parts import Attention, Experts, Extra, Feed, FeedForward, Heads, Mixer
from memcore.networks.weights import Linear, Weight
from memcore.symbols import Shape

RESIDUAL = "derived"
"""How the parts of a derived layer are wired is not known."""
UNCACHED = "derived-uncached"
"""The rest of a layer of which it is not known what it caches."""
_ATTENTION = (
    ("q_proj", "k_proj", "v_proj", "o_proj"),
    ("q_proj", "k_proj", "v_proj", "out_proj"),
    ("q_proj", "k_proj", "v_proj", "dense"),
    ("q", "k", "v", "o"),
    ("query", "key", "value", "out"),
)
_GATED = (("gate_proj", "up_proj", "down_proj"), ("w1", "w3", "w2"), ("wi_0", "wi_1", "wo"))
_PLAIN = (
    ("up_proj", "down_proj"),
    ("fc1", "fc2"),
    ("c_fc", "c_proj"),
    ("dense_h_to_4h", "dense_4h_to_h"),
    ("wi", "wo"),
)
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


class Symbols:
    """Sizes by symbol: a name, with a prime where the plain one has another value."""

    def __init__(self, sizes: Mapping[str, int] | None = None) -> None:
        self.sizes: dict[str, int] = dict(sizes or {})

    def __call__(self, name: str, value: int) -> str:
        """The symbol of a value."""
        while self.sizes.setdefault(name, value) != value:
            name += "′"
        return name


def kind_of(name: str) -> str:
    """What a parameter is for, by its name."""
    return next((kind for kind, pattern in _KINDS if pattern.search(name)), "other")


def plain(name: str, shape: tuple[int, ...]) -> Weight:
    """A parameter that belongs to no part."""
    return Weight(name, tuple((size,) for size in shape), kind_of(name))


def recognize(
    tensors: Mapping[str, tuple[int, ...]], heads: int | None, chosen: int | None, symbol: Symbols, *, caches: bool
) -> Layer:
    """The parts of one layer; `heads`: query heads, `chosen`: experts of a token, `caches`: what it caches is known."""
    left = dict(tensors)
    mixers = list(_mixers(left, heads, symbol)) if caches else []
    feeds: list[Feed] = [*_experts(left, chosen, symbol), *_dense(left, symbol)]
    others = tuple(plain(name, shape) for name, shape in left.items())
    extra = Extra("derived" if caches else UNCACHED, others) if others else None
    return Layer(
        mixer=mixers[0] if mixers else None,
        feed_forward=feeds[0] if feeds else None,
        residual=RESIDUAL,
        norms=(),
        second_mixer=mixers[1] if len(mixers) > 1 else None,
        second_feed_forward=feeds[1] if len(feeds) > 1 else None,
        extra=extra,
    )


def _modules(left: Mapping[str, tuple[int, ...]], names: tuple[str, ...]) -> Iterator[str]:
    """What stands before these names wherever all of them are matrices."""
    last = f"{names[0]}.weight"
    for name in list(left):
        if name == last or name.endswith(f".{last}"):
            before = name.removesuffix(last)
            if all(len(left.get(f"{before}{each}.weight", ())) == 2 for each in names):
                yield before


def _linear(left: dict[str, tuple[int, ...]], name: str, outer: Shape, inner: Shape) -> Linear:
    """A matrix taken from the tensors that are left, with its bias."""
    del left[f"{name}.weight"]
    return Linear(name, outer, inner, left.pop(f"{name}.bias", None) is not None)


def _mixers(left: dict[str, tuple[int, ...]], heads: int | None, symbol: Symbols) -> Iterator[Mixer]:
    for names in _ATTENTION:
        for before in list(_modules(left, names))[:2]:
            shapes = [left[f"{before}{each}.weight"] for each in names]
            (queries, width), (keys, source), (values, _), (into, joined) = shapes
            many = heads if heads and queries == joined and queries % heads == 0 else None
            size = queries // many if many else 0
            if many is None or keys != values or not size or keys % size or source != width or into != width:
                continue
            yield _attention(left, before, names, (many, keys // size, size, width), symbol)


def _attention(
    left: dict[str, tuple[int, ...]],
    before: str,
    names: tuple[str, ...],
    numbers: tuple[int, int, int, int],
    symbol: Symbols,
) -> Attention:
    many, keys, size, width = numbers
    a, k, d, h = symbol("a", many), symbol("k", keys), symbol("d", size), symbol("h", width)
    groups = symbol("g", many // keys)
    query, key, value, output = (f"{before}{each}" for each in names)
    crosses = re.search(r"cross|encoder_attn|EncDec", before) is not None
    return Attention(
        module=before.rstrip("."),
        inputs=(
            _linear(left, query, (a, d), (h,)),
            _linear(left, key, (k, d), (h,)),
            _linear(left, value, (k, d), (h,)),
        ),
        output=_linear(left, output, (h,), (a, d)),
        heads=Heads(a, k, groups, d, d, d),
        grouped=many != keys,
        rotary="none",
        variant="derived",
        crosses=crosses,
        cached=() if crosses else ((k, d), (k, d)),
    )


def _dense(left: dict[str, tuple[int, ...]], symbol: Symbols) -> Iterator[FeedForward]:
    for names in (*_GATED, *_PLAIN):
        for before in list(_modules(left, names))[:1]:
            if "expert" in before and "shared" not in before:
                continue
            *first, last = (left[f"{before}{each}.weight"] for each in names)
            width, wide = last
            if any(each != (wide, width) for each in first):
                continue
            kind = "shared-expert" if "shared_expert" in before else "feed-forward"
            f, h = symbol("w" if kind == "shared-expert" else "f", wide), symbol("h", width)
            *inputs, down = (f"{before}{each}" for each in names)
            matrices = [_linear(left, each, (f,), (h,)) for each in inputs]
            yield FeedForward(
                module=before.rstrip("."),
                gate=matrices[0] if len(matrices) == 2 else None,
                up=matrices[-1],
                down=_linear(left, down, (h,), (f,)),
                activation="silu",
                kind=kind,
            )


def _experts(left: dict[str, tuple[int, ...]], chosen: int | None, symbol: Symbols) -> Iterator[Experts]:
    for name in list(left):
        before, found, _ = name.partition("experts.gate_up_proj")
        down, up = left.get(f"{before}experts.down_proj", ()), left[name]
        if not found or len(up) != 3 or len(down) != 3 or not chosen or chosen > up[0]:
            continue
        many, width, inside = down
        router = next((each for each in left if each.startswith(before) and left[each] == (many, width)), None)
        if up != (many, 2 * inside, width) or router is None or not router.endswith(".weight"):
            continue
        yield _sparse(left, before, router, (many, chosen, inside, width), symbol)
        return


def _sparse(
    left: dict[str, tuple[int, ...]],
    before: str,
    router: str,
    numbers: tuple[int, int, int, int],
    symbol: Symbols,
) -> Experts:
    number: Callable[[str, int], str] = symbol
    many, e, m, h = (number(name, value) for name, value in zip(("E", "e", "m", "h"), numbers, strict=True))
    for each in ("gate_up_proj", "down_proj"):
        del left[f"{before}experts.{each}"]
    shared = next((feed for feed in _dense(_within(left, f"{before}shared_expert"), symbol)), None)
    for weight in shared.weights() if shared is not None else ():
        left.pop(weight.name)
    return Experts(
        module=before.rstrip("."),
        router=_linear(left, router.removesuffix(".weight"), (many,), (h,)),
        experts=(
            Weight(f"{before}experts.gate_up_proj", ((many,), (2, m), (h,)), "routed-expert", split="outer"),
            Weight(f"{before}experts.down_proj", ((many,), (h,), (m,)), "routed-expert", split="inner"),
        ),
        activation="silu",
        gated=True,
        variant="derived",
        shared=shared,
        routed=e,
    )


def _within(left: Mapping[str, tuple[int, ...]], before: str) -> dict[str, tuple[int, ...]]:
    return {name: shape for name, shape in left.items() if name.startswith(before)}
