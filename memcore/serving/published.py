"""The size of a checkpoint in the format that its file or its name says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from memcore.errors import ConfigError
from memcore.networks.catalog import find_model, identified
from memcore.networks.network import Model
from memcore.serving.checkpoint import own_dtype, own_format, text_config
from memcore.serving.formats import BYTES, FORMATS
from memcore.serving.recipes import NATIVE, stored_as
from memcore.serving.repositories import published
from memcore.serving.speculation import speculation
from memcore.serving.stages import Layout, Stage, stages
from memcore.serving.weights import Storage, weight_entries
from memcore.symbols import product


def as_published(model: str | Mapping[str, object]) -> tuple[str, int] | None:
    """Return a format and the bytes of all tensors in it; None where nothing says one, or no server reads it.

    >>> as_published("Qwen/Qwen2.5-7B-Instruct-AWQ"), as_published("gpt2")
    (('awq', 5570747392), None)
    >>> as_published("openai/gpt-oss-20b"), as_published("unsloth/Qwen3-8B-GGUF")
    (('mxfp4', 13761264768), None)
    """
    raw, name = _file(model)
    network = find_model(model)
    try:
        stored = own_format(raw)
    except ConfigError:
        return None
    if name is None and stored is None:
        name = NATIVE.get(network.network.family)
    dtype = own_dtype(raw)
    if name is not None and name in FORMATS:
        stored, *_ = stored_as(name, stored, network, str(model))
    elif name is not None:
        stored, dtype = None, name if name in BYTES else None
    if stored is None and dtype is None:
        return None
    (stage,) = stages(network, 1)
    sizes = {**network.sizes, **Layout().symbols}
    storage = Storage(dtype=dtype or "bf16", stored=stored, sizes=sizes, as_stored=True)
    size = sum(entry.bytes for entry in weight_entries(network, stage, storage))
    return (storage.dtype if stored is None else stored.format.name), size + _predicting(network, raw, storage)


def _file(model: str | Mapping[str, object]) -> tuple[Mapping[str, object], str | None]:
    """Return the config.json of a model, and the format that its name says."""
    if not isinstance(model, str):
        return model, None
    named = identified(model)
    return published(named.base), named.format


def _predicting(network: Model, raw: Mapping[str, object], storage: Storage) -> int:
    """Return the bytes of the layers that predict further tokens, with what they have of embedding and head."""
    count = find_model(raw).published_extras.get("multi-token prediction", 0)
    found = speculation("mtp", 1, network, text_config(raw), storage.stored)
    if not count or found.layer is None:
        return 0
    layers, stored = [found.layer] * found.layers, storage.stored if found.quantized else None
    entries = weight_entries(network, Stage(1, 3, network.num_layers, tuple(layers)), replace(storage, stored=stored))
    rest = count - sum(product(weight.shape, storage.sizes) for layer in layers for weight in layer.weights())
    return sum(entry.bytes for entry in entries) + int(max(rest, 0) * BYTES[storage.dtype])
