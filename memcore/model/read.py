"""Reading a Hugging Face `config.json` into a `Model`, by the rows of `families.FAMILIES`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from memcore.errors import ConfigError, Problem, nearest
from memcore.model.families import COMPOSITES, FAMILIES, Composite, Family
from memcore.model.network import Ends, Layer, Model, Network, Tower
from memcore.model.parts import Linear, Mixer, Norm, Weight
from memcore.model.patterns import Place, depth
from memcore.model.reader import Reader


def read_model(config: Mapping[str, object], name: str | None = None) -> Model:
    """The network that a `config.json` describes.

    Raises ConfigError naming every key that cannot be understood, or an unknown `model_type`.
    """
    model_type = config.get("model_type")
    if isinstance(model_type, str) and model_type in COMPOSITES:
        model = _composite(config, model_type, COMPOSITES[model_type])
    elif isinstance(model_type, str) and model_type in FAMILIES:
        reader = Reader(config, model_type, FAMILIES[model_type].keys)
        model = _language_model(reader, model_type, ())
    else:
        known = (*FAMILIES, *COMPOSITES)
        allowed = ", ".join(sorted(known))
        hint = nearest(model_type, known) if isinstance(model_type, str) else None
        raise ConfigError([Problem("model.model_type", f"found {model_type!r}; known families: {allowed}", hint)])
    title = name or config.get("_name") or config.get("_name_or_path") or model_type
    return replace(model, name=str(title))


def _composite(config: Mapping[str, object], model_type: str, row: Composite) -> Model:
    """A language model and its towers. Older files have the language model's keys on top."""
    whole = Reader(config, model_type)
    nested = config.get(row.text_key, config)
    inner = nested.get("model_type") if isinstance(nested, Mapping) and nested is not config else None
    text = str(inner) if isinstance(inner, str) and inner in FAMILIES else row.text
    if isinstance(inner, str) and inner not in FAMILIES:
        allowed = ", ".join(sorted(FAMILIES))
        message = f"found {inner!r}; known families: {allowed}"
        raise ConfigError([Problem(f"model.{row.text_key}.model_type", message, nearest(inner, FAMILIES))])
    family = FAMILIES[text]
    if nested is config:
        reader = Reader(config, text, family.keys, whole)
    else:
        reader = whole.sub(row.text_key, text, family.keys)
    tied = whole.flag("tie_word_embeddings")
    reader.config = {**reader.config, family.keys.get("tie_word_embeddings", "tie_word_embeddings"): tied}
    model = _language_model(reader, text, row)
    towers = row.towers(whole, reader)
    whole.check()
    moved = _moved(model.network, row)
    return replace(model, network=replace(moved, family=model_type, towers=towers))


def _moved(network: Network, row: Composite) -> Network:
    """The language model's tensors under the names that they have beside towers."""
    before, after = row.moved

    def renamed(name: str) -> str:
        return name.replace(before, after, 1) if name.startswith(before) else name

    def weight(one: Weight) -> Weight:
        return replace(one, name=renamed(one.name))

    ends = network.ends
    return replace(
        network,
        path=renamed(network.path),
        ends=replace(
            ends,
            embedding=weight(ends.embedding),
            positions=None if ends.positions is None else weight(ends.positions),
            final_norm=replace(ends.final_norm, name=renamed(ends.final_norm.name)),
            head=replace(ends.head, name=row.head),
            others=tuple(weight(each) for each in ends.others),
        ),
    )


def _language_model(reader: Reader, model_type: str, row: object) -> Model:
    family = FAMILIES[model_type]
    reader.symbol("h", reader.integer("hidden_size"))
    reader.symbol("V", reader.integer("vocab_size"))
    reader.symbol("P", reader.integer("max_position_embeddings", 4096) + family.position_offset)
    reader.check()
    layers = _layers(reader, family)
    reader.check()
    runs, repeats = _compress(layers)
    network = Network(model_type, family.path, runs, _ends(reader, family), sdpa=family.sdpa)
    reader.check()
    window = reader.value("sliding_window")
    return Model("", network, repeats, reader.sizes, window if isinstance(window, int) else None)


def _layers(reader: Reader, family: Family) -> list[Layer]:
    places, feeds = family.mixer_plan(reader), family.feed_plan(reader)
    reader.check()
    read: dict[object, Layer] = {}
    found: list[Layer] = []
    for index, (place, feed) in enumerate(zip(places, feeds, strict=True)):
        key = (place, feed, *_own_values(reader, index))
        if key not in read:
            reader.layer = index
            read[key] = _layer(reader, family, place, feed)
        found.append(read[key])
    reader.layer = None
    return found


def _own_values(reader: Reader, index: int) -> tuple[object, ...]:
    """What a file lists for each layer, so that layers that differ in a size are read apart."""
    shared = reader.value("num_kv_shared_layers")
    late = isinstance(shared, int) and index >= depth(reader) - shared
    return (late, *(found[index] for found in reader.lists if index < len(found)))


def _layer(reader: Reader, family: Family, place: Place, feed: str | None) -> Layer:
    mixer: Mixer | None = None
    if place.mixer is not None:
        mixer = family.mixers[place.mixer].read(reader, place.mask, rotates=place.rotates)
    second = family.second_mixer(place) if family.second_mixer else None
    beside = family.second_feed
    if beside is not None and family.second_if is not None and not reader.value(family.second_if):
        beside = None
    names = family.norms(reader, place) if callable(family.norms) else family.norms
    bias = reader.flag(family.norm_bias)
    return Layer(
        mixer=mixer,
        feed_forward=family.feeds[feed].read(reader) if feed else None,
        residual=family.residual(reader, place) if callable(family.residual) else family.residual,
        norms=tuple(Norm(name, family.norm, ("h",), bias, fused=reader.value("norm") != "composite") for name in names),
        dropout=reader.number("hidden_dropout", 0.0),
        second_mixer=second.read(reader, "full", rotates=True) if second else None,
        second_feed_forward=beside.read(reader) if beside else None,
        extra=family.extra(reader, place) if family.extra else None,
    )


def _ends(reader: Reader, family: Family) -> Ends:
    rows = reader.symbol("V", family.embedding_rows(reader)) if family.embedding_rows else "V"
    bias = reader.flag(family.norm_bias)

    def norm(name: str) -> Norm:
        return Norm(name, family.norm, ("h",), bias, fused=reader.value("norm") != "composite")

    width = "h"
    if reader.has("word_embed_proj_dim"):
        width = reader.symbol("h", reader.integer("word_embed_proj_dim"))
    return Ends(
        embedding=Weight(f"{family.embedding}.weight", ((rows,), (width,)), "embedding"),
        positions=Weight(f"{family.positions}.weight", (("P",), ("h",)), "position") if family.positions else None,
        embedding_norm=norm(family.embedding_norm) if family.embedding_norm else None,
        final_norm=norm(family.final_norm) if family.final_norm else None,
        head=Linear(family.head, ("V",), (width,), reader.flag(family.head_bias)),
        tied=reader.flag("tie_word_embeddings"),
        embedding_scaled=family.embedding_scaled,
        embedding_dropout=reader.number("embedding_dropout", 0.0),
        head_softcap=family.softcap is not None and reader.value(family.softcap) is not None,
        head_scaled=family.head_scaled,
        others=family.others(reader) if family.others else (),
    )


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
