"""The size of a checkpoint in the format that its file or its name says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from memcore import registry
from memcore.errors import ConfigError, MemcoreError
from memcore.networks.catalog import catalog, find_model, identified
from memcore.networks.named import DYNAMIC, Named
from memcore.networks.network import Model
from memcore.networks.table import layer_order
from memcore.serving.checkpoint import own_dtype, own_format, text_config
from memcore.serving.formats import BYTES, FORMATS
from memcore.serving.gguf_mixes import WIDER
from memcore.serving.recipes import NATIVE, stored_as
from memcore.serving.repositories import published
from memcore.serving.speculation import predicts, speculation
from memcore.serving.stages import Layout, Stage, stages
from memcore.serving.weights import Storage, weight_entries
from memcore.symbols import product


def as_published(model: str | Mapping[str, object]) -> tuple[str, int] | None:
    """Return a format and the bytes of all tensors in it; None where nothing says one, or no server reads it.

    >>> as_published("Qwen/Qwen2.5-7B-Instruct-AWQ"), as_published("gpt2")
    (('awq', 5570747392), ('fp32', 497759232))
    >>> as_published("openai/gpt-oss-20b"), as_published("unsloth/Qwen3-8B-GGUF:Q8_0")
    (('mxfp4', 13761264768), ('q8_0', 8703561728))
    """
    raw: Mapping[str, object]
    if isinstance(model, Mapping):
        raw, name = model, None
    else:
        named = identified(model)
        if named.format == "gguf":
            return _in_gguf(named)
        if DYNAMIC.search(model):
            return None  # each leaves other layers in 16 bits
        # vLLM unpacks the scales of bitsandbytes' scales on loading; the file has them packed, as training does.
        raw, name = published(named.base, named.format), named.frozen if named.format == "nf4" else named.format
        raw = {**raw, "dtype": catalog()[named.base].get("dtype")} if own_dtype(raw) is None else raw
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
    if stored is None and dtype is None and not _further(raw):
        return None  # nothing but the parameters, in a dtype that nothing says
    (stage,) = stages(network, 1)
    sizes = {**network.sizes, **Layout().symbols}
    storage = Storage(dtype=dtype or "bf16", stored=stored, sizes=sizes, as_stored=True)
    size = sum(entry.bytes for entry in weight_entries(network, stage, storage))
    return (storage.dtype if stored is None else stored.format.name), size + _predicting(network, raw, storage)


def _in_gguf(named: Named) -> tuple[str, int] | None:
    """Return the type of a GGUF file that a name says, and the bytes of its tensors as llama-quantize makes them."""
    kind, module = named.file_type, registry.engine_module(registry.GGUF_SERVER, "gguf")
    if kind is None or kind in WIDER:
        return None
    try:
        return kind, sum(tensor.bytes for tensor in module.gguf_file(find_model(named.base), kind))
    except MemcoreError:
        return None


def _further(raw: Mapping[str, object]) -> int:
    """Return the parameters of the layers that predict further tokens."""
    return find_model(raw).published_extras.get("multi-token prediction", 0)


def _each(network: Model, storage: Storage) -> Fraction:
    """Return the bytes of a parameter in the last layer."""
    layer = layer_order(network)[-1]
    entries = weight_entries(network, Stage(1, 3, network.num_layers, (layer,)), storage)
    return Fraction(sum(each.bytes for each in entries), sum(network.size(each.shape) for each in layer.weights()))


def _predicting(network: Model, raw: Mapping[str, object], storage: Storage) -> int:
    """Return the bytes of the layers that predict further tokens, with what they have of embedding and head."""
    count = _further(raw)
    found = speculation("mtp", 1, network, text_config(raw), storage.stored)
    if not count:
        return 0
    if found.layer is None or not predicts(network):
        return int(count * _each(network, storage))
    layers, stored = [found.layer] * found.layers, storage.stored if found.quantized else None
    entries = weight_entries(network, Stage(1, 3, network.num_layers, tuple(layers)), replace(storage, stored=stored))
    rest = count - sum(product(weight.shape, storage.sizes) for layer in layers for weight in layer.weights())
    return sum(entry.bytes for entry in entries) + int(max(rest, 0) * BYTES[storage.dtype])
