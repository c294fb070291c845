"""Which kind of layer stands where: rules that the families refer to by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from memcore.messages import joined
from memcore.networks.reader import Reader
from memcore.records import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """What mixes tokens in one layer."""

    mixer: str | None = "attention"
    """A key of the family's mixers."""
    mask: str = "full"
    rotates: bool = True
    tag: str = ""
    """Tells apart layers that are wired differently."""


MixerPlan: TypeAlias = Callable[[Reader], Sequence[Place]]
FfnPlan: TypeAlias = Callable[[Reader], Sequence[str | None]]

_FULL, _SLIDING, _CHUNKED, _LINEAR = (
    Place(),
    Place(mask="sliding"),
    Place(mask="chunked"),
    Place("linear"),
)
TYPES: Mapping[str, Place] = {
    "full_attention": _FULL,
    "attention": _FULL,
    "sliding_attention": _SLIDING,
    "chunked_attention": _CHUNKED,
    "linear_attention": _LINEAR,
    "mamba": _LINEAR,
    "conv": _LINEAR,
    "recurrent": _LINEAR,
}
"""The words of `layer_types` and its relatives, as far as a family has such a mixer."""
ALONE: Mapping[str, Place] = {"mlp": Place(None, tag="mlp"), "moe": Place(None, tag="moe")}
"""Further words of families with one part in each layer."""
HYBRID: Mapping[str, Place] = {"hybrid": Place("linear", tag="hybrid")}
"""A further word of families whose layers may have two mixers."""


def depth(reader: Reader) -> int:
    """Return how many layers there are."""
    return reader.integer("num_hidden_layers")


def uniform(reader: Reader) -> Sequence[Place]:
    """All layers see everything."""
    return [_FULL] * depth(reader)


def sliding(reader: Reader) -> Sequence[Place]:
    """All layers see a window, if there is one."""
    return [_SLIDING if reader.has("sliding_window") else _FULL] * depth(reader)


def all_linear(reader: Reader) -> Sequence[Place]:
    """No attention at all."""
    return [_LINEAR] * depth(reader)


def typed(
    rule: Callable[[Reader], Iterable[str]],
    key: str = "layer_types",
    *,
    windowed: bool = True,
    more: Mapping[str, Place] = MappingProxyType({}),
) -> MixerPlan:
    """Return the layers that `layer_types` lists; where it is absent, what the class derives.

    With `windowed`, a sliding layer without a window sees everything; `more` are words of this family alone.
    """
    types = {**TYPES, **more}

    def plan(reader: Reader) -> Sequence[Place]:
        listed = reader.listed(key)
        words = list(rule(reader)) if listed is None else listed
        count = depth(reader) if reader.has("num_hidden_layers") else len(words)
        if listed is not None and len(words) < count:
            reader.refuse(key, "lists {} of {} layers", len(words), count)
        unknown = [word for word in words if not isinstance(word, str) or word not in types]
        if unknown:
            reader.refuse(key, "found {!r}; allowed: {}", unknown[0], joined(", ", types))
        places = [types.get(str(word), _FULL) for word in words[:count]]
        if windowed and not reader.has("sliding_window"):
            places = [_FULL if place is _SLIDING else place for place in places]
        return places

    return plan


def every(
    period: int, key: str | None = None, *, others: str = "sliding_attention"
) -> Callable[[Reader], Iterable[str]]:
    """Every n-th layer sees everything; a key may give another period."""

    def rule(reader: Reader) -> Iterable[str]:
        every = reader.integer(key, period, least=0) if key else period
        return ["full_attention" if not every or not (i + 1) % every else others for i in range(depth(reader))]

    return rule


def alternate(reader: Reader) -> Iterable[str]:
    """Every other layer from the first sees a window."""
    return ["full_attention" if i % 2 else "sliding_attention" for i in range(depth(reader))]


def late(reader: Reader) -> Iterable[str]:
    """Layers from `max_window_layers` on see a window, if `use_sliding_window` says so (Qwen2)."""
    if not reader.flag("use_sliding_window"):
        return ["full_attention"] * depth(reader)
    first = reader.integer("max_window_layers", least=0)
    return ["sliding_attention" if i >= first else "full_attention" for i in range(depth(reader))]


def late_windows(reader: Reader) -> Iterable[str]:
    """Layers from `max_window_layers` on see a window, if there is one (dots.llm1)."""
    first = reader.integer("max_window_layers", least=0)
    return ["sliding_attention" if i >= first else "full_attention" for i in range(depth(reader))]


def qwen(reader: Reader) -> Sequence[Place]:
    """`layer_types`, but only if `use_sliding_window` says so."""
    return typed(late)(reader) if reader.flag("use_sliding_window") else uniform(reader)


def qwen2_moe(reader: Reader) -> Sequence[Place]:
    """Every other one of the first layers sees a window, if `use_sliding_window` says so."""

    def rule(reader: Reader) -> Iterable[str]:
        first = reader.integer("max_window_layers", least=0)
        kinds = ("sliding_attention", "full_attention")
        return [kinds[i % 2 or i >= first] for i in range(depth(reader))]

    return typed(rule)(reader) if reader.flag("use_sliding_window") else uniform(reader)


def qwen3_moe(reader: Reader) -> Sequence[Place]:
    """All layers see a window, if `use_sliding_window` says so."""
    return sliding(reader) if reader.flag("use_sliding_window") else uniform(reader)


def periodic(period: str, offset: str) -> MixerPlan:
    """Return one attention layer in every period (Jamba)."""

    def plan(reader: Reader) -> Sequence[Place]:
        each, first = reader.integer(period), reader.integer(offset, least=0)
        return [_FULL if i % each == first else _LINEAR for i in range(depth(reader))]

    return plan


def dense(reader: Reader) -> Sequence[str | None]:
    """Return a dense feed-forward layer everywhere."""
    return ["dense"] * depth(reader)


def sparse(reader: Reader) -> Sequence[str | None]:
    """Experts everywhere."""
    return ["sparse"] * depth(reader)


def first_dense(key: str = "first_k_dense_replace", default: int = 0) -> FfnPlan:
    """The first layers are dense; `mlp_layer_types` may say it layer by layer."""

    def plan(reader: Reader) -> Sequence[str | None]:
        listed = reader.listed("mlp_layer_types")
        if listed is not None:
            if len(listed) < depth(reader):
                reader.refuse("mlp_layer_types", "lists {} of {} layers", len(listed), depth(reader))
            return ["dense" if word == "dense" else "sparse" for word in listed[: depth(reader)]]
        first = reader.integer(key, default, least=0)
        return ["dense" if i < first else "sparse" for i in range(depth(reader))]

    return plan


def stepped(reader: Reader) -> Sequence[str | None]:
    """Experts in every `decoder_sparse_step`-th layer that `mlp_only_layers` does not exclude (Qwen)."""
    step, only = reader.integer("decoder_sparse_step", 1), reader.listed("mlp_only_layers") or ()
    some = reader.integer("num_experts", 0, least=0) > 0
    return ["sparse" if some and i not in only and not (i + 1) % step else "dense" for i in range(depth(reader))]


def expert_period(reader: Reader) -> Sequence[str | None]:
    """Experts once in every period (Jamba), if there are several."""
    period, offset = reader.integer("expert_layer_period"), reader.integer("expert_layer_offset", least=0)
    some = reader.integer("num_experts") > 1
    return ["sparse" if some and i % period == offset else "dense" for i in range(depth(reader))]


def between(reader: Reader) -> Sequence[str | None]:
    """Experts between two layers, at an interval (ERNIE 4.5)."""
    count = depth(reader)
    start, last = reader.integer("moe_layer_start_index", least=0), reader.integer("moe_layer_end_index", least=-1)
    last, interval = count - 1 if last == -1 else last, reader.integer("moe_layer_interval")
    return ["sparse" if not (i + 1) % interval and start <= i <= last else "dense" for i in range(count)]


def listed_experts(reader: Reader) -> Sequence[str | None]:
    """Experts in the layers that `moe_layers` lists, else in every `interleave_moe_layer_step`-th (Llama 4).

    A step of 0 means no experts: Llama Guard 4 (vllm, models/llama4.py).
    """
    step = reader.integer("interleave_moe_layer_step", 1, least=0)
    layers = reader.listed("moe_layers")
    if layers is None:
        layers = range(step - 1, depth(reader), step) if step else ()
    chosen = set(layers)
    return ["sparse" if i in chosen else "dense" for i in range(depth(reader))]


def compress(order: Sequence[int], *, within: bool = True) -> list[tuple[Sequence[int], int]]:
    """Write a sequence of kinds as runs of a repeated pattern, with how often each repeats.

    One run and a rest if the whole repeats a pattern of at most eight layers, else stretches of a pattern that repeats
    five times or more, and of equal layers; not `within` the model where its repetitions differ in whose parameters
    they use.

    >>> compress([0, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1])
    [([0], 1), ([1, 2], 5), ([1], 1)]
    """
    for period in range(1, min(_PERIOD, len(order) // 2) + 1):
        if all(kind == order[index % period] for index, kind in enumerate(order)):
            whole, rest = divmod(len(order), period)
            return [(order[:period], whole)] + ([(order[:rest], 1)] if rest else [])
    found: list[tuple[Sequence[int], int]] = []
    at = 0
    while at < len(order):
        repeats = {period: _repeats(order, at, period) for period in range(1, (_PERIOD if within else 1) + 1)}
        often = [period for period, times in repeats.items() if period == 1 or times >= _OFTEN]
        period = max(often, key=lambda each: each * repeats[each])
        found.append((order[at : at + period], repeats[period]))
        at += period * repeats[period]
    return found


_PERIOD, _OFTEN = 8, 5
"""Layers of a pattern at most, and how often one within a model repeats at least."""


def _repeats(order: Sequence[int], start: int, period: int) -> int:
    """How often the pattern of `period` layers that begins at `start` follows itself there, the first time included."""
    end = start + period
    while end < len(order) and order[end] == order[end - period]:
        end += 1
    return (end - start) // period
