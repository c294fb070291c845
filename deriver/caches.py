"""Whether memcore's reading of a derived decoder caches what the real one does, on the meta device."""

from __future__ import annotations

import json
import random
from typing import Any

import torch

from deriver import building, sampling
from deriver.starts import STARTS
from memcore.errors import MemcoreError
from memcore.networks.derived_model import derived_model

LENGTHS = (3, 7)
NEEDED = 3


def proved(model_type: str, name: str) -> bool:
    """Whether keys and values are all that it caches, and as many as its recognized attention says."""
    given = dict(STARTS.get(model_type, {}))
    defaults = building.fields(building.make_config(model_type, given))
    base = {**given, **sampling.shrunk(defaults)}
    rng, seen = random.Random(f"cache {name}"), 0
    for attempt in range(12):
        changed = dict(base)
        for key in rng.sample(sorted(defaults), min(len(defaults), 6)) if attempt else ():
            if not sampling.NO_MATTER.fullmatch(key):
                changed[key] = rng.choice(sampling.values(name, key, base.get(key, defaults[key]), rng))
        try:
            config = building.make_config(model_type, changed)
            saved = json.loads(config.to_json_string(use_diff=True))
            model = building.build(name, config, 20)
            real = [_cached(model, length) for length in LENGTHS]
        except Exception:  # transformers raises everything
            if not attempt:
                return False
            continue
        try:
            read = derived_model(saved, model_type, caches=True).cached_elements
        except MemcoreError:
            continue
        if real != [read * length for length in LENGTHS]:
            return False
        seen += read > 0
        if seen == NEEDED:
            return True
    return False


def _cached(model: Any, length: int) -> int:
    """Count the elements of the cache after a number of tokens."""
    ids = torch.zeros(1, length, dtype=torch.long, device="meta")
    more = {"decoder_input_ids": ids} if model.config.is_encoder_decoder else {}
    with torch.no_grad():
        cache = model.eval()(input_ids=ids, use_cache=True, **more).past_key_values
    cache = getattr(cache, "self_attention_cache", cache)
    if any(type(layer).__name__ != "DynamicLayer" for layer in cache.layers):
        raise ValueError("another kind of cache")
    return sum(layer.keys.numel() + layer.values.numel() for layer in cache.layers)
