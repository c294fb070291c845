"""The size of a checkpoint in the format that its file or its name says."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.errors import ConfigError
from memcore.networks.catalog import content_of, find_model, identified
from memcore.serving.checkpoint import own_dtype, own_format
from memcore.serving.formats import FORMATS
from memcore.serving.recipes import recipe
from memcore.serving.stages import Layout, stages
from memcore.serving.weights import Storage, weight_entries


def as_published(model: str | Mapping[str, object]) -> tuple[str, int] | None:
    """Return a format and the bytes of all tensors in it; None where nothing says one, or no server reads it.

    >>> as_published("Qwen/Qwen2.5-7B-Instruct-AWQ"), as_published("gpt2")
    (('awq', 5570747392), None)
    """
    raw, network = content_of(model), find_model(model)
    try:
        stored = own_format(raw)
    except ConfigError:
        return None
    named = identified(model).format if isinstance(model, str) else None
    if stored is None and named is not None and named in FORMATS:
        stored = recipe(named, network, str(model)).usual
    dtype = own_dtype(raw)
    if stored is None and dtype is None:
        return None
    (stage,) = stages(network, 1)
    sizes = {**network.sizes, **Layout().symbols}
    storage = Storage(dtype=dtype or "bf16", stored=stored, sizes=sizes, as_stored=True)
    size = sum(entry.bytes for entry in weight_entries(network, stage, storage))
    return (storage.dtype if stored is None else stored.format.name), size
