"""ERNIE 4.5 VL's own files: lists say what experts of words and of images have (`ernie4_5_moe_vl`).

Source: `configuration_ernie4_5_vl.py` and `modeling_ernie4_5_vl.py` in baidu/ERNIE-4.5-VL-28B-A3B-PT; transformers'
`ernie4_5_vl_moe` is the same network.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.errors import ConfigError
from memcore.units import shown

Config = Mapping[str, object]

_FIRST, _LAST, _EVERY = "moe_layer_start_index", "moe_layer_end_index", "moe_layer_interval"
_SEES = {"embed_dim": "hidden_size", "in_chans": "in_channels"}


def ernie_vl(config: Config) -> Config:
    """Return the keys of transformers' class; those of the language model are still on top."""
    layers = _whole(config.get("num_hidden_layers"), 28)
    first, every = _alike(config, _FIRST, 0), max(_alike(config, _EVERY, 1), 1)
    last = _alike(config, _LAST, layers - 1, most=layers - 1)
    routed = ("sparse" if first <= layer <= last and (layer + 1) % every == 0 else "dense" for layer in range(layers))
    return {
        **{key: value for key, value in config.items() if key not in (_FIRST, _LAST, _EVERY)},
        "model_type": "ernie4_5_vl_moe",
        "moe_num_experts": _alike(config, "moe_num_experts", 64),
        "mlp_layer_types": list(routed),
        "vision_config": _tower(config),
    }


def _tower(config: Config) -> Config:
    given = config.get("vision_config")
    found: dict[str, object] = {}
    if isinstance(given, Mapping):
        found = {_SEES.get(str(key), str(key)): value for key, value in given.items()}
    ratio, width = _whole(found.get("mlp_ratio"), 4), _whole(found.get("hidden_size"), 1280)
    merged = config.get("temporal_conv_size", 2)
    return {"intermediate_size": ratio * width, "temporal_merge_size": merged, **found}


def _whole(value: object, default: int) -> int:
    return value if type(value) is int and 0 < value < 1 << 20 else default


def _alike(config: Config, key: str, default: int, most: int | None = None) -> int:
    """Return what experts of words and of images have alike; a last layer may be beyond the last there is."""
    found = config.get(key, default)
    values = [each for each in (found if isinstance(found, list) else [found]) if type(each) is int]
    bounded = {each if most is None else min(each, most) for each in values}
    if len(bounded) != 1 or (isinstance(found, list) and len(values) != len(found)):
        raise ConfigError.at(f"model.{key}", "found {}, which is not supported in this family yet", shown(found))
    return bounded.pop()
