"""What hears in networks outside of transformers: encoders of sounds that are only counted, and what leads out of them.

Sources: vllm 0.33, model_executor/models (`whisper`, `minicpmo`, `kimi_audio`, `ultravox`, `parakeet`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from memcore.networks.derived import tensors
from memcore.networks.families.counting import Config, blocks, matrix, norms, part, whole, within
from memcore.networks.weights import Weight

_WHISPER = {"d_model": 1024, "encoder_layers": 24, "encoder_ffn_dim": 4096, "num_mel_bins": 80}
"""Sizes of the medium encoder, by the keys of its file."""
_LARGE = {"d_model": 1280, "encoder_layers": 32, "encoder_ffn_dim": 5120, "num_mel_bins": 128}


def _sizes(config: object, usual: Mapping[str, int]) -> tuple[int, int, int, int]:
    """Width, layers, width of the feed-forward layers, mel bins."""
    width, layers, wide, mels = (whole(within(config, key), value) for key, value in usual.items())
    return width, layers, wide, mels


def _layers(config: object, usual: Mapping[str, int], count: int) -> int:
    """Layers of Whisper's encoder, whose keys have no bias."""
    width, _, wide, _ = _sizes(config, usual)
    return blocks(count, width, wide) - count * width


def _whisper(config: object, usual: Mapping[str, int]) -> int:
    """Whisper's encoder (`WhisperEncoder`)."""
    width, layers, _, mels = _sizes(config, usual)
    places = whole(within(config, "max_source_positions"), 1500)
    before = matrix(width, 3 * mels) + matrix(width, 3 * width) + places * width
    return _layers(config, usual, layers) + before + norms(1, width)


def minicpm(config: Config) -> Iterator[Weight]:
    """MiniCPM-o: Whisper and two matrices (`MiniCPMO.init_audio_module`); what speaks is not loaded by servers."""
    heard, hidden = config.get("audio_config"), whole(config.get("hidden_size"))
    _, _, wide, _ = _sizes(heard, _WHISPER)
    yield part("apm", _whisper(heard, _WHISPER))
    yield part("audio_projection_layer", matrix(hidden, wide // 4), matrix(hidden, hidden))


def kimi(config: Config) -> Iterator[Weight]:
    """Kimi-Audio: Whisper's large encoder, four of whose results are projected together."""
    hidden, seen = whole(config.get("hidden_size")), whole(config.get("kimia_adaptor_input_dim"), 5120)
    yield part("audio_tower", _whisper(None, _LARGE))
    yield part("multi_modal_projector", matrix(hidden, seen), matrix(hidden, hidden), norms(1, hidden))


def speaks(config: Config) -> Mapping[str, int]:
    """Kimi-Audio's layers that speak, with a norm and a head of their own: servers leave them out."""
    hidden, wide, words = (whole(config.get(key)) for key in ("hidden_size", "intermediate_size", "vocab_size"))
    heads, keys = whole(config.get("num_attention_heads"), 1), whole(config.get("num_key_value_heads"), 1)
    rows = hidden + 2 * keys * (hidden // heads)
    layer = matrix(rows, hidden) + hidden * hidden + 3 * hidden * wide + 2 * hidden
    count = whole(config.get("kimia_mimo_layers"))
    return {"layers that speak, which servers do not load": count * layer + hidden + words * hidden} if count else {}


def ultravox(config: Config) -> Iterator[Weight]:
    """Ultravox: Whisper's encoder, frames of which are projected together by a gated layer, or by layers of Whisper's.

    Versions after 0.4 norm within the projector, the others behind it.
    """
    heard, text = config.get("audio_config"), config.get("text_config")
    width, stacked = _sizes(heard, _LARGE)[0], whole(config.get("stack_factor"), 8)
    hidden = whole(within(text, "text_config", "hidden_size")) or whole(within(text, "hidden_size"), 4096)
    seen, count = width * stacked, whole(config.get("num_projector_layers"))
    yield part("audio_tower", _whisper(heard, _LARGE))
    if count:
        places = whole(within(heard, "max_source_positions"), 1500)
        layers, ends = _layers(heard, _LARGE, count), matrix(width, seen) + matrix(hidden, width)
        yield part("multi_modal_projector", layers, ends, places * width, seen + width)
        return
    wide = whole(config.get("hidden_size"), 4096)
    inner = wide // 2 if config.get("projector_act", "swiglu") == "swiglu" else wide
    normed = inner if config.get("projector_ln_mid") else hidden
    yield part("multi_modal_projector", seen, wide * seen, hidden * inner, normed)


def parakeet(config: object, hidden: int) -> Iterator[Weight]:
    """Parakeet's encoder without biases in its attention, a norm and two matrices (`ProjectedParakeet`)."""
    if not isinstance(config, Mapping):
        return
    found = {**config, "model_type": "parakeet_encoder", "attention_bias": False}
    sizes = tensors(found, "ParakeetEncoder", "model.sound_config")
    width, wide = whole(config.get("hidden_size"), 1024), whole(config.get("projection_hidden_size"), 4096)
    bias = int(config.get("projection_bias") is True)
    yield part("sound_encoder.encoder", sum(prod(each.shape) for each in sizes))
    yield part("sound_encoder.projection", width, matrix(wide, width, bias), matrix(hidden, wide, bias))
