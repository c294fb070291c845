"""Whether memcore's reading of a derived network caches what the real one does, on the meta device."""

from __future__ import annotations

import inspect
import json
import random
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch.fx.experimental import _config as fx
from torch.utils._python_dispatch import TorchDispatchMode

from deriver import building, sampling
from deriver.starts import STARTS
from memcore.errors import MemcoreError
from memcore.networks.derived_model import derived_model
from memcore.networks.network import Model
from memcore.networks.parts import Attention

LENGTHS = (3, 7)
NEEDED = 2
TRIES = 6
NONE = "none"
"""A network without a cache."""
KNOWN = (
    *("DynamicLayer", "DynamicSlidingWindowLayer", "DynamicIndexedLayer", "LinearAttentionLayer"),
    *("LinearAttentionAndFullAttentionLayer", "LinearAttentionAndSlidingWindowAttentionLayer"),
)


_STEP = {"layer_types": ["full_attention", "sliding_attention"], "num_hidden_layers": 2, "sliding_window": 64}
HYBRIDS: Mapping[str, Mapping[str, Any]] = {
    "bailing_hybrid": {"layer_group_size": 2},
    "step3p5": _STEP,
    "step3p7": {f"text_config.{key}": value for key, value in _STEP.items()},
}
"""Keys by which a network of few layers has those of each kind."""


class Cached(NamedTuple):
    """Elements in the cache of layers that see everything, of those that see a window, and of states of any length."""

    full: int
    sliding: int
    state: int


class _Unknown(TorchDispatchMode):
    """Asks what numbers on the meta device are are answered: one, true, every place."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors = [each for each in args if isinstance(each, torch.Tensor) and each.is_meta]
        if tensors and str(func) == "aten._local_scalar_dense.default":
            return True if args[0].dtype is torch.bool else 1
        if tensors and str(func) == "aten.nonzero.default":
            return torch.empty((args[0].numel(), args[0].dim()), dtype=torch.long, device="meta")
        return func(*args, **(kwargs or {}))


class _Other(Exception):
    """It caches something else."""


def proved(model_type: str, name: str) -> bool | str | None:
    """Whether keys and values are all that it caches, as many as its recognized attention says; or that it has none.

    None where nothing could be tried.
    """
    given = dict(STARTS.get(model_type, {}))
    defaults = building.fields(building.make_config(model_type, given))
    base = {**given, **sampling.shrunk(defaults), **HYBRIDS.get(model_type, {})}
    rng, seen = random.Random(f"cache {name}"), 0
    for attempt in range(TRIES):
        changed = dict(base)
        for key in rng.sample(sorted(defaults), min(len(defaults), 6)) if attempt else ():
            if not sampling.NO_MATTER.fullmatch(key):
                changed[key] = rng.choice(sampling.values(name, key, base.get(key, defaults[key]), rng))
        try:
            config = building.make_config(model_type, changed)
            saved = json.loads(config.to_json_string(use_diff=True))
            model = building.build(name, config, 20)
            with building.limit(20):
                real = [_cached(model, length) for length in LENGTHS]
        except _Other:
            return False
        except Exception:  # transformers raises everything
            continue
        if None in real:
            return NONE
        try:
            read = _read(derived_model(saved, model_type, caches=True))
        except MemcoreError:
            continue
        if real != [Cached(read.full * length, read.sliding * length, read.state) for length in LENGTHS]:
            return False
        seen += sum(read) > 0
        if seen == NEEDED:
            return True
    if not seen and "linear_attention" in sampling.literals(name):
        return False
    return NONE if name.endswith("ForMaskedLM") else True if seen else None


def _read(model: Model) -> Cached:
    found = {"full": 0, "sliding": 0, "state": 0}
    for layer, count in model.layers:
        for mixer in layer.mixers:
            kind = mixer.mask if isinstance(mixer, Attention) else "full"
            found[kind] += count * sum(map(model.size, mixer.cached))
            found["state"] += count * sum(map(model.size, mixer.state))
    return Cached(**found)


def _inputs(model: Any, length: int) -> dict[str, torch.Tensor]:
    """Tokens, and sounds for networks that hear."""
    ids = torch.zeros(1, length, dtype=torch.long, device="meta")
    config, asked = model.config, inspect.signature(model.forward).parameters
    found = {"decoder_input_ids": ids} if config.is_encoder_decoder else {}
    if "input_ids" in asked:
        return {"input_ids": ids, **found}
    frames = 2 * getattr(config, "max_source_positions", 50)
    sound = torch.zeros(1, getattr(config, "num_mel_bins", 80), frames, device="meta", dtype=torch.bfloat16)
    return {"input_features": sound, **found}


def _cached(model: Any, length: int) -> Cached | None:
    """The elements of the cache after a number of tokens; None where there is no cache."""
    # Grouped products of experts take 16 bits only.
    model = model.to(torch.bfloat16).eval()
    with torch.no_grad(), torch.device("meta"), _Unknown(), fx.patch(meta_nonzero_assume_all_nonzero=True):
        output = model(**_inputs(model, length), use_cache=True)
    cache = getattr(output, "past_key_values", None) or getattr(output, "cache_params", None)
    if cache is None:
        return None
    cache = getattr(cache, "self_attention_cache", cache)
    kinds = [type(layer).__name__ for layer in cache.layers]
    if any(kind not in KNOWN for kind in kinds):
        raise _Other
    found = {"full": 0, "sliding": 0, "state": 0}
    for kind, layer in zip(kinds, cache.layers, strict=True):
        found["sliding" if "Sliding" in kind else "full"] += sum(tensor.numel() for tensor in _kept(layer))
        found["state"] += sum(tensor.numel() for tensor in _states(layer))
    # MiniMax keeps those of its linear attention next to its layers, an empty list where a layer has none.
    kept = [each for each in getattr(cache, "linear_cache", ()) if isinstance(each, torch.Tensor)]
    found["state"] += sum(tensor.numel() for tensor in kept)
    return Cached(**found)


def _kept(layer: Any) -> list[torch.Tensor]:
    """Return keys and values, and an indexer's keys if the layer has one of its own."""
    named = (getattr(layer, name, None) for name in ("keys", "values", "indexer_keys"))
    return [each for each in named if each is not None]


def _states(layer: Any) -> list[torch.Tensor]:
    """Return what a layer keeps whatever the length."""
    named = (getattr(layer, name, {}) for name in ("conv_states", "recurrent_states"))
    return [each for states in named for each in states.values() if each is not None]
