"""The catalog: well-known checkpoints by hub id or nickname, from `data/catalog.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pkgutil import get_data
from typing import Any

from memcore.errors import ConfigError, Problem, nearest
from memcore.model.network import Model
from memcore.model.read import read_model


@lru_cache(maxsize=1)
def catalog() -> Mapping[str, Mapping[str, Any]]:
    """Every entry by hub id: `config`, the content of its config.json, and `parameters`, its exact count."""
    # get_data also reads from a wheel that has not been unpacked.
    found: Mapping[str, Mapping[str, Any]] = json.loads(get_data("memcore", "data/catalog.json") or b"{}")
    return found


def nickname(hub_id: str) -> str:
    """The short name of a hub id: `llama-3.1-8b` for `meta-llama/Llama-3.1-8B`."""
    return hub_id.rpartition("/")[2].lower()


@lru_cache(maxsize=1)
def _names() -> Mapping[str, str]:
    """Hub ids by every name they are found under."""
    return {name: hub_id for hub_id in catalog() for name in (nickname(hub_id), hub_id.lower())}


def find_model(model: str | Mapping[str, object]) -> Model:
    """The model of a config: a catalog id, a hub id, or the content of a config.json.

    Raises ConfigError with the nearest id, or naming the keys that cannot be understood.
    """
    if not isinstance(model, str):
        return _read(_as_text(model))
    hub_id = _names().get(model.strip().lower())
    if hub_id is None:
        message = f"found {model!r}, not one of the {len(catalog())} models of the catalog; give a config.json instead"
        raise ConfigError([Problem("model", message, nearest(model, _names()))])
    return _from_catalog(hub_id)


def _as_text(model: Mapping[str, object]) -> str:
    try:
        return json.dumps(dict(model), sort_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError([Problem("model", f"is not the content of a JSON file: {error}")]) from None


@lru_cache(maxsize=256)
def _from_catalog(hub_id: str) -> Model:
    return read_model(catalog()[hub_id]["config"], name=hub_id)


@lru_cache(maxsize=64)
def _read(text: str) -> Model:
    return read_model(json.loads(text))
