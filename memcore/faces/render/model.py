"""A model as data, as text for a terminal, and as a table and a strip of its layers for the page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Any, TypeAlias

from memcore.columns import table
from memcore.faces.render.markup import html_table
from memcore.faces.render.text import section
from memcore.i18n.page import say, translated
from memcore.messages import Message
from memcore.networks.network import Model
from memcore.networks.parts import Attention, LatentAttention
from memcore.networks.placement import placement
from memcore.networks.table import Row, layer_order, layer_rows
from memcore.networks.weights import KINDS
from memcore.symbols import spell
from memcore.units import KiB, format_bytes, format_count

_WEIGHT_BYTES = {"fp32": 4, "bf16": 2, "fp8": 1}
_CACHE_BYTES = 2
"""Bytes of a cached element in half precision."""


Published: TypeAlias = tuple[str, int] | None
"""The format of a checkpoint and its bytes, if its file or its name says one."""


def model_data(model: Model, published: Published = None) -> dict[str, Any]:
    """Return everything about a model, as JSON has it."""
    return {
        "name": model.name,
        "family": model.network.family,
        "parameters": model.parameters,
        "active_parameters": model.active_parameters,
        "hidden_size": model.sizes["h"],
        "num_layers": model.num_layers,
        "attention_heads": [list(each) for each in _heads(model)],
        "vocabulary": model.sizes["V"],
        "context": model.sizes["P"],
        "weights_bytes": {name: size * _stored(model) for name, size in _WEIGHT_BYTES.items()},
        "published_weights": {} if published is None else {published[0]: published[1]},
        "parameters_by_kind": dict(model.parameters_by_kind),
        "published_extras": dict(model.published_extras),
        "kv_elements_per_token": model.cached_elements,
        "kv_bytes_per_token": {"bf16": _CACHE_BYTES * model.cached_elements},
        "state_elements_per_sequence": model.state_elements,
        "module_state_elements_per_sequence": model.kept_elements,
        "window": model.window,
        "layers": [_row_data(row) for row in layer_rows(model)],
        "tensors": list(_tensors(model)),
        "warnings": list(model.warnings),
    }


def _row_data(row: Row) -> dict[str, Any]:
    return {
        "layers": row.layers,
        "count": row.count,
        "mixer": row.mixer,
        "feed_forward": row.ffn,
        "parameters": row.parameters,
        "kv_elements_per_token": row.cached,
        "state_elements_per_sequence": row.state,
    }


def _tensors(model: Model) -> Iterator[dict[str, Any]]:
    numbers = {
        (f"{model.network.path}.*.{weight.name}", weight): row
        for row in layer_rows(model)
        for weight in row.layer.weights()
    }
    for weight, name, count in model.tensors:
        row, placed = numbers.get((name, weight)), placement(weight, name, model.network)
        yield {
            "name": name,
            "shape": [model.size(axis) for axis in weight.axes],
            "symbols": [spell(axis) for axis in weight.axes],
            "kind": weight.kind,
            "count": row.count if row else count,
            "layers": row.layers if row else None,
            "tensor_parallel_axis": placed.tensor,
            "expert_parallel_axis": placed.expert,
            "pipeline_stage": placed.pipeline,
        }


def model_text(model: Model, published: Published = None) -> str:
    """Return what `memcore model` prints."""
    head = say("cli-model-is", name=model.name, family=model.network.family, count=f"{model.parameters:,}")
    lines = [head, *(say("cli-warning", said=translated(each)) for each in model.warnings), ""]
    columns = (say("cli-layers"), say("cli-parameters-each"), "KV/token", say("cli-mixer-and-ffn"))
    rows = [
        (row.layers, f"{row.parameters:,}", f"{row.cached:,}",
         say("and-also").join((translated(row.mixer), translated(row.ffn))))
        for row in layer_rows(model)
    ]  # fmt: skip
    lines += section("Layers", table([columns, *rows], right=(1, 2)))
    sizes = [*_widths(model), *_size_of(published)]
    for heading, listed in (("Sizes", sizes), ("Parameters", _counts(model)), ("While generating", _caches(model))):
        lines += section(heading, table(((translated(name), size) for name, size in listed), right=(1,)))
    return "\n".join(lines).rstrip() + "\n"


def _counts(model: Model) -> Iterator[tuple[str, str]]:
    by_kind = model.parameters_by_kind
    yield from ((title, f"{by_kind[kind]:,}") for kind, title in KINDS.items() if kind in by_kind)
    yield "all", f"{model.parameters:,}"
    yield "active per token", f"{model.active_parameters:,}"
    yield from (
        (Message("published in addition: {}", name), f"{size:,}") for name, size in model.published_extras.items()
    )


def _stored(model: Model) -> int:
    """Return elements of a checkpoint, without scales of quantized blocks."""
    return model.parameters + sum(size for name, size in model.published_extras.items() if "scales" not in name)


def _heads(model: Model) -> list[tuple[int, int]]:
    """Query heads and key heads of the kinds of attention that there are."""
    mixers = (mixer for layer, _ in model.layers for mixer in layer.mixers)
    heads = (mixer.heads for mixer in mixers if isinstance(mixer, (Attention, LatentAttention)))
    return list(dict.fromkeys((model.sizes[str(each.query)], model.sizes[str(each.key)]) for each in heads))


def _widths(model: Model) -> Iterator[tuple[str, str]]:
    """Yield what people ask first of a model."""
    yield "hidden size", f"{model.sizes['h']:,}"
    yield "number of layers", f"{model.num_layers:,}"
    for query, key in _heads(model):
        yield ("heads", f"{query:,}") if query == key else ("query heads / key heads", f"{query:,} / {key:,}")
    yield "vocabulary", f"{model.sizes['V']:,}"
    yield "context, tokens", f"{model.sizes['P']:,}"
    yield "weights in fp32", format_bytes(4 * _stored(model))
    yield "weights in bf16", format_bytes(2 * _stored(model))
    yield "weights in fp8", format_bytes(_stored(model))


def _size_of(published: Published) -> Iterator[tuple[str, str]]:
    if published is not None:
        yield Message("weights as published, in {}", published[0]), format_bytes(published[1])


def _caches(model: Model) -> Iterator[tuple[str, str]]:
    cached = model.cached_elements
    yield "KV cache per token, elements", f"{cached:,}"
    yield "KV cache per token in bf16", f"{_CACHE_BYTES * cached / KiB:,.6g} KiB"
    yield "recurrent state per sequence, elements", f"{model.state_elements:,}"
    if model.kept_elements:
        yield "kept in modules per sequence, elements", f"{model.kept_elements:,}"


def model_html(model: Model, published: Published = None) -> str:
    """Return the page's view: the strip of layers, and the same as tables."""
    rows = [
        (row.layers, translated(row.mixer), translated(row.ffn), f"{row.parameters:,}", f"{row.cached:,}")
        for row in layer_rows(model)
    ]
    warnings = "".join(f'<p class="warning">{escape(translated(each))}</p>' for each in model.warnings)
    columns = ("Layers", "Mixer", "Feed-forward", "Parameters each", "Cached per token")
    sizes = _table("Sizes", ("Size", "Value"), _said((*_widths(model), *_size_of(published), *_caches(model))))
    counts = _table("Parameters", ("Part", "Parameters"), _said(_counts(model)))
    tables = f'{_table("Layers", columns, rows)}<div class="halves"><div>{counts}</div><div>{sizes}</div></div>'
    head = escape(say("model-parameters", name=model.name, count=format_count(model.parameters)))
    return (
        f"<p>{head}</p>{warnings}{layer_strip(model)}{_legend(model)}"
        f'<div class="scroll" tabindex="0" role="region" aria-label="{say("model-region")}">{tables}</div>'
    )


def _said(rows: Iterable[tuple[str, str]]) -> list[tuple[str, ...]]:
    return [(translated(name), size) for name, size in rows]


_KINDS = {
    "strip-attention": "full attention",
    "strip-window": "sliding-window attention",
    "strip-recurrent": "recurrent mixer",
    "strip-dense": "dense feed-forward",
    "strip-experts": "experts",
    "strip-none": "none",
}


def _legend(model: Model) -> str:
    """Return what the colours of the strip mean, those that it has."""
    rows = layer_rows(model)
    used = {each for row in rows for each in (_mixer_class(row), _ffn_class(row))}
    titles = ((name, translated(title)) for name, title in _KINDS.items() if name in used)
    items = (f'<li><span class="swatch {name}"></span>{title}</li>' for name, title in titles)
    return f'<ul class="legend">{"".join(items)}</ul>'


def _table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return html_table(caption, head, ([escape(each) for each in row] for row in rows))


def layer_strip(model: Model) -> str:
    """Return the stack of layers as a strip, first to last: above what mixes tokens, below the feed-forward layers."""
    order, rows = layer_order(model), {row.layer: row for row in layer_rows(model)}
    words = {id(layer): rows[layer] for layer in order}
    said = {layer: f"{translated(row.mixer)}{say('and-also')}{translated(row.ffn)}" for layer, row in rows.items()}
    width = 100 / max(len(order), 1)
    body = []
    for number, layer in enumerate(order):
        row = words[id(layer)]
        title = f"<title>{escape(say('layer-is', number=number, words=said[layer]))}</title>"
        place = f'x="{number * width:.3f}%" width="{width * 0.9:.3f}%"'
        body.append(f'<g>{title}<rect class="{_mixer_class(row)}" {place} y="0" height="22"/>')
        body.append(f'<rect class="{_ffn_class(row)}" {place} y="24" height="22"/></g>')
    layers = say("and-also").join(
        say("layers-with", count=row.count, mixer=translated(row.mixer), ffn=translated(row.ffn))
        for row in rows.values()
    )
    label = say("layers-are", count=len(order), parameters=format_count(model.parameters), layers=layers)
    return (
        '<svg class="picture strip" role="img" aria-labelledby="strip-title" width="100%" height="46" '
        f'xmlns="http://www.w3.org/2000/svg"><title id="strip-title">{escape(label)}</title>{"".join(body)}</svg>'
    )


def _mixer_class(row: Row) -> str:
    mixers = row.layer.mixers
    if not mixers:
        return "strip-none"
    if isinstance(mixers[0], (Attention, LatentAttention)):
        return "strip-attention" if mixers[0].mask == "full" else "strip-window"
    return "strip-recurrent"


def _ffn_class(row: Row) -> str:
    ffns = row.layer.ffns
    if not ffns:
        return "strip-none"
    return "strip-experts" if row.layer.has_experts else "strip-dense"
