"""From the tensors of a derived network to a `Model`: its decoder, encoders and towers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from memcore.errors import ConfigError
from memcore.limits import of_model
from memcore.messages import Message
from memcore.networks.derived import PUBLISHED, Keys, Tensor, derived, tensors
from memcore.networks.network import Ends, Layer, Model, Network, Tower
from memcore.networks.patterns import compress
from memcore.networks.recognized import Symbols, kind_of, plain, recognize
from memcore.networks.weights import Linear, Weight
from memcore.units import shown

_BESIDE = re.compile(
    r"vision|visual|image|audio|speech|(^|\.)encoder(\.|$)|perceiver|qformer|projector|connector|tower"
)
"""Layers that are no decoder, where there are others."""
"""Keys of the language model, under the names that families give them."""
HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads", "attention_heads")
CHOSEN = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k", "experts_per_token", "top_k")
LENGTHS = ("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length", "max_target_positions")
WINDOW = ("sliding_window",)
VOCABULARY = ("vocab_size", "text_vocab_size", "n_vocab")
_TEXT = ("text_config.", "llm_config.", "language_config.", "thinker_config.text_config.", "decoder.", "")
"""Where a configuration may describe the language model."""


TOWERS = "only the parameters of this family's towers and encoders are counted; their activations are not"


def class_of(config: Mapping[str, Any], model_type: str) -> str | None:
    """The class of transformers that a configuration names, else the one that checkpoints of its type mostly have."""
    table = derived()
    named = config.get("architectures")
    for name in named if isinstance(named, list) else ():
        for each in (name, f"{name}@{model_type}") if isinstance(name, str) else ():
            row = table["classes"].get(each)
            if row is not None and row["type"] == model_type:
                return str(each)
    kinds: Mapping[str, str] = table["types"].get(model_type, {})
    return kinds.get("class") or kinds.get("base")


def known_types() -> tuple[str, ...]:
    """Every derived `model_type`."""
    return tuple(derived()["types"])


def text_within(config: Mapping[str, Any], model_type: str) -> tuple[str, str, Mapping[str, Any]] | None:
    """The part of a configuration that describes a decoder of its own: where it stands, its type, its keys."""
    row = derived()["classes"].get(class_of(config, model_type) or "")
    if row is None:
        return None
    keys = Keys(config, row)
    for _, _, where, name in row["inner"]:
        found = keys.stated(where)
        if f"{where}." in _TEXT and isinstance(found, Mapping):
            kind = found.get("model_type") or derived()["classes"].get(name, {}).get("type")
            return (where, PUBLISHED.get(kind, kind), found) if isinstance(kind, str) else None
    return None


def derived_model(
    config: Mapping[str, Any],
    model_type: str,
    *,
    caches: bool | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Model:
    """The network of a derived type; `caches`: its attention's caches are known, which its row says otherwise.

    `sizes` are those of symbols that mean something already.
    Raises ConfigError for keys that its formulas do not cover.
    """
    name = class_of(config, model_type)
    if name is None:
        raise ConfigError.at(
            "model.model_type", "found {!r}, a family of transformers that is not supported yet", model_type
        )
    stacks: dict[str, dict[int, dict[str, tuple[int, ...]]]] = {}
    ends: dict[str, tuple[int, ...]] = {}
    for each in tensors(config, name):
        _put(each, stacks, ends)
    row = derived()["classes"][name]
    keys = Keys(config, row)
    if caches is None:
        caches = bool(row.get("cache")) and not _windowed(keys)
    symbol = Symbols(sizes)
    main = _main(stacks)
    order = {path: [layers.get(number, {}) for number in range(max(layers) + 1)] for path, layers in stacks.items()}
    heads, chosen = _integer(keys, HEADS), _integer(keys, CHOSEN)
    path, runs, repeats = (
        main,
        *_runs([recognize(each, heads, chosen, symbol, caches=caches) for each in order.pop(main, [])]),
    )
    found = [_tower(model_type, beside, layers, symbol) for beside, layers in order.items()]
    network = Network(model_type, path, runs, _ends(ends, keys, symbol), towers=tuple(tower for tower, _ in found))
    window = _integer(keys, WINDOW)
    symbol("P", _integer(keys, LENGTHS) or 4096)
    return Model(
        name="",
        network=network,
        repeats=repeats,
        sizes=symbol.sizes,
        tower_repeats=tuple(times for _, times in found),
        window=window,
        warnings=(*_named(config, name), *((TOWERS,) if caches and found else ())),
    )


def _named(config: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Say so if the file is for another class."""
    found = config.get("architectures")
    if not isinstance(found, list) or not found or name.partition("@")[0] in found:
        return ()
    return (Message("found architectures {}, which is counted as {}", shown(found[0]), name.partition("@")[0]),)


def _put(
    tensor: Tensor, stacks: dict[str, dict[int, dict[str, tuple[int, ...]]]], ends: dict[str, tuple[int, ...]]
) -> None:
    if tensor.stack:
        stacks.setdefault(tensor.stack, {}).setdefault(tensor.layer, {})[tensor.name] = tensor.shape
    else:
        ends[tensor.name] = tensor.shape


def _integer(keys: Keys, names: Sequence[str]) -> int | None:
    """The first of these keys of the language model that has a value."""
    for path in _TEXT:
        for name in names:
            found = keys[f"{path}{name}"]
            if type(found) is int and 0 < found <= of_model(name):
                return found
    return None


def _windowed(keys: Keys) -> bool:
    """Whether some layers see a window only, whose caches are not derived."""
    kinds = next((found for path in _TEXT if (found := keys[f"{path}layer_types"]) is not None), None)
    if isinstance(kinds, list):
        return any(kind != "full_attention" for kind in kinds)
    return _integer(keys, WINDOW) is not None and not any(keys[f"{path}use_sliding_window"] is False for path in _TEXT)


def _main(stacks: Mapping[str, Mapping[int, Mapping[str, tuple[int, ...]]]]) -> str:
    """The largest list of layers that is not a tower or an encoder, where there are others."""

    def size(path: str) -> tuple[bool, int]:
        return (_BESIDE.search(path) is None, sum(prod(s) for layer in stacks[path].values() for s in layer.values()))

    return max(stacks, key=size, default="")


def _runs(layers: Sequence[Layer]) -> tuple[tuple[tuple[Layer, ...], ...], tuple[int, ...]]:
    kinds: dict[Layer, int] = {}
    found = compress([kinds.setdefault(layer, len(kinds)) for layer in layers]) if layers else []
    numbered = list(kinds)
    return tuple(tuple(numbered[kind] for kind in pattern) for pattern, _ in found), tuple(times for _, times in found)


def _tower(
    model_type: str, path: str, layers: Iterable[Mapping[str, tuple[int, ...]]], symbol: Symbols
) -> tuple[Tower, tuple[int, ...]]:
    """A stack next to the decoder."""
    kind = "tower" if not re.search(r"(^|\.)(encoder|decoder)\.", f"{path}.") or "vision" in path else None
    found = [replace(recognize(each, None, None, symbol, caches=True), kind=kind) for each in layers]
    runs, repeats = _runs(found)
    return Tower(variant=model_type, path=path, runs=runs, taps=(len(runs) - 1,)), repeats


def _ends(ends: dict[str, tuple[int, ...]], keys: Keys, symbol: Symbols) -> Ends:
    """What is outside of layers: the embedding, the head, and the rest."""
    rows = _integer(keys, VOCABULARY)
    tables = [name for name, shape in ends.items() if len(shape) == 2 and name.endswith("weight")]
    embeds = [name for name in tables if re.search(r"embed|wte|shared|tok", name) and "position" not in name]
    first = next((name for name in embeds if ends[name][0] == rows), next(iter(embeds or tables), None))
    if first is None:
        raise ConfigError.at("model.model_type", "the network has no token embedding")
    shape = ends.pop(first)
    v, h = symbol("V", shape[0]), symbol("h", shape[1])
    heads = [name for name in ends if re.search(r"lm_head|head|decoder|generator|predictions", name) and name in tables]
    head = next((name for name in heads if ends[name] == shape), None)
    linear = Linear("lm_head", (v,), (h,))
    if head is not None:
        module = head.removesuffix(".weight")
        del ends[head]
        linear = replace(linear, name=module, bias=ends.pop(f"{module}.bias", None) is not None)
    return Ends(
        embedding=Weight(first, ((v,), (h,)), "embedding"),
        final_norm=None,
        head=linear,
        tied=head is None,
        others=tuple(
            replace(plain(name, size), kind="tower")
            if _BESIDE.search(name) and kind_of(name) != "projector"
            else plain(name, size)
            for name, size in ends.items()
        ),
    )
