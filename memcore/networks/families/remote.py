"""Networks whose code comes with their checkpoints (`auto_map`): the same parts as families of transformers have.

Sources, each file in its checkpoint's repository: `modeling_internlm2.py` (internlm/internlm2_5-7b), `modeling_mimo.py`
(XiaomiMiMo/MiMo-7B-Base), `block_config.py` and `modeling_decilm.py` (nvidia/Llama-3_3-Nemotron-Super-49B-v1),
`modeling_internvl_chat.py` and `modeling_intern_vit.py` (OpenGVLab/InternVL3-8B), `modeling_kimi_k25.py`
(moonshotai/Kimi-K2.5). Their totals are those of the published weights, which the tests hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from memcore.errors import ConfigError
from memcore.networks import patterns
from memcore.networks.families.decoders import DECODERS, UNBIASED
from memcore.networks.families.family import Family
from memcore.networks.patterns import Place, typed
from memcore.networks.reader import Reader
from memcore.networks.rows import Dense
from memcore.units import shown

Config = Mapping[str, object]
_OUTSIDE = "this family's code comes with its checkpoints: activations are those of the same layers in transformers"
_NOTHING = "none"
"""The word of layers that leave out a part, in lists that `renamed` makes of `block_configs`."""


def _nas_feeds(reader: Reader) -> Sequence[str | None]:
    kinds = reader.listed("mlp_layer_types") or ()
    return [None if kind == _NOTHING else "dense" for kind in kinds] or patterns.dense(reader)


def _nas_places(reader: Reader) -> Sequence[Place]:
    """A layer may have no attention, no feed-forward layer, or neither."""
    places = typed(lambda each: [], more={_NOTHING: Place(None, tag="unmixed-")})(reader)
    feeds = _nas_feeds(reader)
    return [replace(place, tag=f"{place.tag}{feed or 'bare'}") for place, feed in zip(places, feeds, strict=True)]


def _nas_norms(reader: Reader, place: Place) -> tuple[str, ...]:
    """Norms stand in front of the parts that are there."""
    first = () if place.mixer is None else ("input_layernorm",)
    return first if place.tag.endswith("bare") else (*first, "post_attention_layernorm")


def _nas_wiring(reader: Reader, place: Place) -> str:
    """A part that is left out takes its norm and its sum with it."""
    alone = (place.mixer is None) + place.tag.endswith("bare")
    return ("sequential", "single", "empty")[alone]


REMOTE: Mapping[str, Family] = {
    "internlm2": Family(
        mixers={
            "attention": replace(
                UNBIASED, module="attention", inputs=("wqkv",), output="wo", fused="per-group", bias="bias",
                output_bias="bias",
            )
        },
        feeds={"dense": Dense(module="feed_forward", gate="w1", up="w3", down="w2")},
        norms=("attention_norm", "ffn_norm"),
        embedding="model.tok_embeddings",
        head="output",
        like="llama",
        warning=_OUTSIDE,
    ),
    "mimo": replace(DECODERS["qwen2"], prediction="shares", like="qwen2", warning=_OUTSIDE),
    "nemotron-nas": replace(
        DECODERS["llama"],
        mixer_plan=_nas_places,
        feed_plan=_nas_feeds,
        norms=_nas_norms,
        residual=_nas_wiring,
        like="llama",
        warning=_OUTSIDE,
    ),
}  # fmt: skip
"""Rows by `model_type`."""


def renamed(config: Config) -> Config:
    """A configuration under the names of a family that has a row, if its code's own names are others."""
    change = _RENAMED.get(str(config.get("model_type")))
    return change(config) if change else config


def _blocks(config: Config) -> Config:
    """Return what every block of Nemotron-NAS has, as lists of a value for each layer."""
    blocks, heads = config.get("block_configs"), config.get("num_attention_heads")
    hidden = config.get("hidden_size")
    if not isinstance(blocks, list) or not isinstance(heads, int) or not isinstance(hidden, int):
        return config
    attention = [_part(block, "attention", number) for number, block in enumerate(blocks)]
    feeds = [_part(block, "ffn", number) for number, block in enumerate(blocks)]
    return {
        **config,
        "layer_types": [_NOTHING if each.get("no_op") else "full_attention" for each in attention],
        "mlp_layer_types": [_NOTHING if each.get("no_op") else "dense" for each in feeds],
        "num_key_value_heads": [heads // (_size(each.get("n_heads_in_group")) or heads) for each in attention],
        "intermediate_size": [_wide(each, hidden) for each in feeds],
    }


def _part(block: object, name: str, number: int) -> Config:
    found = block.get(name) if isinstance(block, Mapping) else None
    if not isinstance(found, Mapping):
        raise ConfigError.at(f"model.block_configs.{number}.{name}", "expected an object, found {}", shown(found))
    for key in ("replace_with_linear", "sparsify", "is_mamba", "moe", "mamba"):
        if found.get(key):
            raise ConfigError.at(
                f"model.block_configs.{number}.{name}.{key}",
                "found {}, and only {} is supported for this family",
                shown(found[key]),
                shown(None),
            )
    return found


def _size(value: object) -> int:
    return value if type(value) is int and value > 0 else 0


def _wide(feed: Config, hidden: int) -> int:
    """`_ffn_mult_to_intermediate_size`: two thirds of the multiple, in steps of 256."""
    given, times = feed.get("intermediate_size"), feed.get("ffn_mult")
    if _size(given):
        return _size(given)
    if not isinstance(times, (int, float)) or not 0 < times < hidden:
        return 0
    return -(-int(2 * times * hidden / 3) // 256) * 256


_INTERN_VIT = {"qkv_bias": "attention_bias", "qk_normalization": "use_qk_norm"}
_KIMI_VIT = {
    "vt_hidden_size": "hidden_size",
    "vt_intermediate_size": "intermediate_size",
    "vt_num_attention_heads": "num_attention_heads",
    "vt_num_hidden_layers": "num_hidden_layers",
}


def _intern(config: Config) -> Config:
    """InternVL-Chat, whose converted checkpoints are transformers' `internvl`."""
    text, vision = config.get("llm_config"), config.get("vision_config")
    if not isinstance(text, Mapping):
        raise ConfigError.at("model.llm_config", "missing; add the part of the configuration that has this name")
    tied = text.get("tie_word_embeddings", False)
    tower = {**_keys(vision, _INTERN_VIT), "model_type": "internvl_vision"} if isinstance(vision, Mapping) else {}
    return {
        **config,
        "model_type": "internvl",
        "text_config": text,
        "vision_config": tower,
        "tie_word_embeddings": tied,
    }


def _kimi(config: Config) -> Config:
    """Kimi-K2.5: Kimi-VL's tower and projector in front of K2; transformers' own files have other keys."""
    vision = config.get("vision_config")
    if not isinstance(vision, Mapping) or "vt_hidden_size" not in vision:
        return config
    return {
        **config,
        "model_type": "kimi_vl",
        "vision_config": {**_keys(vision, _KIMI_VIT), "model_type": "moonvit"},
    }


def _keys(config: Config, names: Mapping[str, str]) -> Config:
    return {names.get(key, key): value for key, value in config.items()}


_RENAMED: Mapping[str, Callable[[Config], Config]] = {
    "nemotron-nas": _blocks,
    "internvl_chat": _intern,
    "kimi_k25": _kimi,
}
