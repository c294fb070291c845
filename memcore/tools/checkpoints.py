"""What lists a checkpoint's tensors: `model.safetensors.index.json`, the header of a `.safetensors` file.

An index has the bytes of all tensors together and their names, a header each tensor's dtype and shape. Neither says how
the network computes; whose tensors they are follows from their number, compared with the models of the catalog.

Sources: transformers 5.23, modeling_utils.py (`save_pretrained`: `total_size`, `total_parameters`); safetensors,
safetensors/src/tensor.rs (eight bytes of length, then JSON).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from memcore.errors import MemcoreError
from memcore.messages import Message, joined
from memcore.networks.catalog import bases_first, catalog, find_model, nickname
from memcore.networks.unknown import ALIASES

_LAYER = re.compile(r"(?:^|\.)(?:layers|layer|h|blocks|block)\.(\d+)\.")
_EXPERT = re.compile(r"\.experts\.(\d+)\.")
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
"""What families call the number of a layer's routed experts."""
_ASIDE = re.compile(r"visual|vision|audio|encoder|mtp")
"""Parts of names of tensors that are not of the language model's own layers."""
_BITS: Mapping[str, int] = {
    "F64": 64, "F32": 32, "F16": 16, "BF16": 16, "F8_E4M3": 8, "F8_E5M2": 8, "I64": 64, "I32": 32, "I16": 16, "I8": 8,
    "U8": 8, "BOOL": 8, "U32": 32, "U16": 16, "F4": 4, "F8_E8M0": 8,
}  # fmt: skip
_PLAIN = ("F32", "F16", "BF16")
"""Dtypes whose elements are parameters."""
_CLOSE = 1e-5
"""Of all bytes: rotary frequencies and the like, which old files hold."""


class Checkpoint(NamedTuple):
    """What is known of a checkpoint's tensors."""

    tensors: int
    layers: int
    bytes: int | None
    """Of all of them; None where the file does not say it."""
    parameters: int | None
    """Numbers of all of them, where the file says it or their dtypes do."""
    dtypes: Mapping[str, int]
    """Bytes by dtype, of a header."""
    experts: int = 0
    """Routed experts of a layer, where each has tensors of its own."""


def checkpoint_of(found: Mapping[str, Any]) -> Checkpoint | None:
    """Return the tensors that an index or a header lists; None for another file."""
    names = found.get("weight_map")
    if isinstance(names, Mapping):
        said = found.get("metadata")
        held = said if isinstance(said, Mapping) else {}
        size, parameters = (_count(held.get(name)) for name in ("total_size", "total_parameters"))
        return Checkpoint(len(names), _layers(names), size, parameters, {}, _numbers(_EXPERT, names))
    listed = {name: each for name, each in found.items() if name != "__metadata__"}
    if not listed or not all(isinstance(each, Mapping) and {"dtype", "shape"} <= set(each) for each in listed.values()):
        return None
    elements: Counter[str] = Counter()
    for each in listed.values():
        elements[str(each["dtype"])] += _product(each["shape"])
    if any(dtype not in _BITS for dtype in elements):
        return Checkpoint(len(listed), _layers(listed), None, None, {})
    sizes = {dtype: count * _BITS[dtype] // 8 for dtype, count in elements.items()}
    whole = sum(elements.values()) if all(dtype in _PLAIN for dtype in elements) else None
    return Checkpoint(len(listed), _layers(listed), sum(sizes.values()), whole, sizes, _numbers(_EXPERT, listed))


def nearest_of_catalog(found: Checkpoint) -> tuple[str, int] | None:
    """Return the catalog's model that has as many parameters in as many layers, and by how many bytes they differ.

    Of several it is the one that most others are named after, and of those the one of the shortest name.
    """
    off = {
        hub_id: min(_differences(found, entry["parameters"]), default=None)
        for hub_id, entry in catalog().items()
        if not found.layers or found.layers == depth(entry["config"])
    }
    known = {hub_id: each for hub_id, each in off.items() if each is not None}
    size = found.bytes or 2 * (found.parameters or 0)
    if not known or not size or (least := min(known.values())) > size * _CLOSE:
        return None
    named = {nickname(hub_id): hub_id for hub_id, each in known.items() if each == least}
    return named[bases_first(sorted(named, key=len))[0]], least


def pruned(found: Checkpoint) -> tuple[Mapping[str, Any], Message] | None:
    """The config of a catalog's model of which a checkpoint has only some experts of each layer, and what is left.

    It is as many experts as the names have, in as many layers, and then as many parameters, with towers or without.
    """
    for hub_id, entry in catalog().items() if found.experts else ():
        config = entry["config"]
        text = config.get("text_config") if isinstance(config.get("text_config"), Mapping) else None
        inner = config if text is None else text
        key = next((name for name in _EXPERTS if isinstance(inner.get(name), int)), None)
        if key is None or inner[key] <= found.experts or found.layers != depth(config):
            continue
        fewer = {**inner, key: found.experts}
        for kept in (fewer, {**config, "text_config": fewer}) if text is not None else (fewer,):
            if _fits(found, kept):
                said = Message("as many as {} has with {} of its {} experts, which is assumed", hub_id, found.experts,
                               inner[key])  # fmt: skip
                return kept, said
    return None


def _fits(found: Checkpoint, config: Mapping[str, Any]) -> bool:
    try:
        parameters = find_model(config).parameters
    except MemcoreError:
        return False
    size = found.bytes or 2 * (found.parameters or 0)
    return any(off <= size * _CLOSE for off in _differences(found, parameters))


def _differences(found: Checkpoint, parameters: int) -> Iterator[int]:
    if found.parameters is not None:
        yield 2 * abs(found.parameters - parameters)
    elif found.bytes is not None:
        yield from (abs(found.bytes - width * parameters) for width in (2, 4))


def described(found: Checkpoint) -> Message:
    """Return how many tensors of how many bytes there are, by dtype where that is known."""
    size = f"{found.bytes:,}" if found.bytes else "?"
    if not found.dtypes:
        return Message("lists {} tensors of {} bytes", found.tensors, size)
    by = joined(", ", [f"{dtype}: {held:,}" for dtype, held in sorted(found.dtypes.items())])
    return Message("lists {} tensors of {} bytes ({})", found.tensors, size, by)


def _layers(names: Mapping[str, Any]) -> int:
    return _numbers(_LAYER, names)


def _numbers(pattern: re.Pattern[str], names: Mapping[str, Any]) -> int:
    """Return how many numbers names of the language model's tensors have in a place."""
    found = (pattern.search(str(name)) for name in names if not _ASIDE.search(str(name)))
    return 1 + max((int(each[1][:6]) for each in found if each), default=-1)


def depth(config: Mapping[str, Any]) -> object:
    """Return the layers that a config.json says."""
    inner = config.get("text_config")
    said = {**config, **inner} if isinstance(inner, Mapping) else config
    return next((said[name] for name in ALIASES["num_hidden_layers"] if name in said), None)


def _count(value: object) -> int | None:
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    return whole if isinstance(whole, int) and not isinstance(whole, bool) and whole > 0 else None


def _product(shape: object) -> int:
    whole = 1
    for each in shape if isinstance(shape, list) else [0]:
        whole *= each if isinstance(each, int) and 0 <= each < 2**40 else 0
    return whole
