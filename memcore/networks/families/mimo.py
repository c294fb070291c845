"""MiMo-V2 as Xiaomi publishes it: keys of its own, towers, and layers that predict tokens.

Sources: the lists of weights of XiaomiMiMo/MiMo-V2.5 and MiMo-V2.5-Pro; transformers 5.23, models/mimo_v2_flash, whose
layers these are; llama.cpp, conversion/mimo.py: three layers that predict tokens, which no key counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memcore.networks.families.counting import Config, check_only, matrix, part, whole, within
from memcore.networks.weights import Weight

_LISTS = {
    "hybrid_layer_pattern": ("layer_types", ("full_attention", "sliding_attention")),
    "moe_layer_freq": ("mlp_layer_types", ("dense", "sparse")),
}
"""Lists of zeros and ones, and what transformers has in their place."""
_SAME = {"swa_head_dim": "head_dim", "swa_v_head_dim": "v_head_dim", "swa_num_attention_heads": "num_attention_heads"}
"""Sizes of layers with a window, which are those of the others; keys and values alone may have other heads."""
_TOWERS = ("audio_config", "vision_config", "processor_config", "vision_model_type")
_PREDICTING = 3
_HEAD = 64
"""The width of a head of the vision transformer, of which 32 are wider than its hidden states."""


def text_of(config: Config) -> Config:
    """Return the keys of transformers' class.

    Raises ConfigError for layers with a window that have other sizes.
    """
    check_only(config, {own: config.get(plain) for own, plain in _SAME.items() if own in config})
    lists = {
        name: [words[each == 1] for each in listed]
        for key, (name, words) in _LISTS.items()
        if isinstance(listed := config.get(key), list)
    }
    left = {key: value for key, value in config.items() if key not in (*_SAME, *_LISTS, *_TOWERS)}
    return {**left, **lists, "model_type": "mimo_v2_flash"}


def towers(config: Config) -> Iterator[Weight]:
    """Yield a vision transformer with a merger of four patches, and a transformer over groups of sound codes."""
    vision, sound = config.get("vision_config"), config.get("audio_config")
    if isinstance(vision, Mapping):
        yield from _seeing(vision)
    if isinstance(sound, Mapping):
        yield from _hearing(sound)


def _seeing(vision: Config) -> Iterator[Weight]:
    keys = ("hidden_size", "depth", "intermediate_size", "num_heads", "num_key_value_heads", "out_hidden_size")
    width, layers, wide, heads, pairs, out = (whole(vision.get(key)) for key in keys)
    patch, frames, merged = whole(vision.get("patch_size")), whole(vision.get("temporal_patch_size")), width * 4
    mixer = matrix((heads + 2 * pairs) * _HEAD, width) + matrix(width, heads * _HEAD)
    feeds = 2 * matrix(wide, width) + matrix(width, wide)
    windows = layers - len(seen) if isinstance(seen := vision.get("fullatt_block_indexes"), list) else layers
    sinks = windows * heads if vision.get("use_sink") else 0
    yield part("visual", layers * (mixer + feeds + 2 * width), sinks, 3 * frames * patch * patch * width)
    yield part("visual.merger", width + matrix(merged, merged, 0) + matrix(out, merged, 0))


def _hearing(sound: Config) -> Iterator[Weight]:
    keys = ("input_local_dim", "input_local_layers", "input_local_intermediate_size", "out_hidden_size")
    width, layers, wide, out = (whole(sound.get(key)) for key in keys)
    groups, channels, words = (_number(sound.get(key)) for key in ("group_size", "audio_channels", "speech_vocab_size"))
    layer = 3 * matrix(width, width) + matrix(width, width, 0) + 3 * wide * width + 2 * width
    seen = groups * width
    yield part("audio_encoder", layers * layer, width, seen * 4 * out, 4 * out * out)
    yield part("speech_embeddings", channels * words * width)


def _number(value: object) -> int:
    """Return a size that the file may have as text."""
    return whole(int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 10 else value)


def drafts(config: Config) -> Mapping[str, int]:
    """Count the layers that predict tokens: dense, with a window, and without embedding and head of their own."""
    keys = ("hidden_size", "intermediate_size", "num_attention_heads", "head_dim", "v_head_dim")
    hidden, wide, heads, each, values = (whole(config.get(key)) for key in keys)
    pairs = whole(config.get("swa_num_key_value_heads"), 2 * whole(config.get("num_key_value_heads")))
    mixer = hidden * (heads * (each + values) + pairs * (each + values)) + heads
    count = whole(within(config, "num_nextn_predict_layers"), _PREDICTING)
    return {"multi-token prediction": count * (2 * hidden * hidden + 5 * hidden + 3 * wide * hidden + mixer)}
