"""Audio encoders with their projectors, and speech decoders, of which only the parameters are counted.

Sources: vllm 0.33, model_executor/models (`whisper`, `minicpmo`, `kimi_audio`, `ultravox`, `parakeet`,
`qwen2_5_omni_thinker`, `qwen3_omni_moe_thinker`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memcore.networks.families.counting import Config, blocks, derived_size, matrix, norms, part, whole, within
from memcore.networks.weights import Weight

_WHISPER = {"d_model": 1024, "encoder_layers": 24, "encoder_ffn_dim": 4096, "num_mel_bins": 80}
"""Sizes of the medium encoder, by the keys of its file."""
_LARGE = {"d_model": 1280, "encoder_layers": 32, "encoder_ffn_dim": 5120, "num_mel_bins": 128}


def _sizes(config: object, usual: Mapping[str, int]) -> tuple[int, int, int, int]:
    """Return the width, the number of layers, the feed-forward width and the number of mel bins."""
    width, layers, wide, mels = (whole(within(config, key), value) for key, value in usual.items())
    return width, layers, wide, mels


def _layers(config: object, usual: Mapping[str, int], count: int) -> int:
    """Count the parameters of Whisper's encoder layers, whose key projections have no bias."""
    width, _, wide, _ = _sizes(config, usual)
    return blocks(count, width, wide) - count * width


def _whisper(config: object, usual: Mapping[str, int]) -> int:
    """Count the parameters of Whisper's encoder (`WhisperEncoder`)."""
    width, layers, _, mels = _sizes(config, usual)
    places = whole(within(config, "max_source_positions"), 1500)
    before = matrix(width, 3 * mels) + matrix(width, 3 * width) + places * width
    return _layers(config, usual, layers) + before + norms(1, width)


def minicpm(config: Config) -> Iterator[Weight]:
    """Yield MiniCPM-o's Whisper and two matrices (`MiniCPMO.init_audio_module`); servers do not load its talker."""
    heard, hidden = config.get("audio_config"), whole(config.get("hidden_size"))
    _, _, wide, _ = _sizes(heard, _WHISPER)
    yield part("apm", _whisper(heard, _WHISPER))
    yield part("audio_projection_layer", matrix(hidden, wide // 4), matrix(hidden, hidden))


def kimi(config: Config) -> Iterator[Weight]:
    """Yield Kimi-Audio's encoder, Whisper's large one, and the projector of every four of its results."""
    hidden, seen = whole(config.get("hidden_size")), whole(config.get("kimia_adaptor_input_dim"), 5120)
    yield part("audio_tower", _whisper(None, _LARGE))
    yield part("multi_modal_projector", matrix(hidden, seen), matrix(hidden, hidden), norms(1, hidden))


def kimi_speaks(config: Config) -> Mapping[str, int]:
    """Count Kimi-Audio's speech layers, their norm and their head, which servers leave out."""
    hidden, wide, words = (whole(config.get(key)) for key in ("hidden_size", "intermediate_size", "vocab_size"))
    heads, keys = whole(config.get("num_attention_heads"), 1), whole(config.get("num_key_value_heads"), 1)
    rows = hidden + 2 * keys * (hidden // heads)
    layer = matrix(rows, hidden) + hidden * hidden + 3 * hidden * wide + 2 * hidden
    count = whole(config.get("kimia_mimo_layers"))
    return {"layers that speak, which servers do not load": count * layer + hidden + words * hidden} if count else {}


def ultravox(config: Config) -> Iterator[Weight]:
    """Yield Ultravox's Whisper encoder and its projector of stacked frames: a gated layer, or Whisper's layers.

    Versions after 0.4 have a norm inside the projector, earlier ones have it at the end.
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
    """Yield Parakeet's encoder without attention biases, a norm and two matrices (`ProjectedParakeet`)."""
    if not isinstance(config, Mapping):
        return
    found = {**config, "model_type": "parakeet_encoder", "attention_bias": False}
    width, wide = whole(config.get("hidden_size"), 1024), whole(config.get("projection_hidden_size"), 4096)
    bias = int(config.get("projection_bias") is True)
    yield part("sound_encoder.encoder", derived_size(found, "ParakeetEncoder", "model.sound_config"))
    yield part("sound_encoder.projection", width, matrix(wide, width, bias), matrix(hidden, wide, bias))


_TALKER = "talker, which servers do not load"
_TO_WAVES = 115_443_504
"""Parameters of Qwen2.5-Omni's vocoder, which both sizes share (transformers 5.23,
`Qwen2_5OmniToken2WavBigVGANModel`)."""


def qwen2_5_speaks(config: Config) -> Mapping[str, int]:
    """Count Qwen2.5-Omni's talker and the decoder of its codes, which servers leave out."""
    talker = config.get("talker_config")
    if config.get("enable_audio_output") is False or not isinstance(talker, Mapping):
        return {}
    found = {**talker, "model_type": "qwen2_5_omni_talker"}
    count = derived_size(found, "Qwen2_5OmniTalkerForConditionalGeneration", "model.talker_config")
    given = within(config, "token2wav_config", "dit_config")
    spectra = {**(given if isinstance(given, Mapping) else {}), "model_type": "qwen2_5_omni_dit"}
    path = "model.token2wav_config.dit_config"
    return {_TALKER: count + derived_size(spectra, "Qwen2_5OmniToken2WavDiTModel", path) + _TO_WAVES}


_DECODER = {"hidden_size": 1024, "num_hidden_layers": 5, "num_attention_heads": 16, "num_key_value_heads": 8}


def _decoder(config: object, ffn: int, usual: Mapping[str, int], *, normed: bool = True) -> int:
    """Count a decoder's layers, with `ffn` parameters in each feed-forward layer, and the final norm.

    `normed`: queries and keys have norms; otherwise attention and feed-forward results are scaled by a vector each.
    """
    hidden, layers, heads, keys = (whole(within(config, key), usual.get(key, n)) for key, n in _DECODER.items())
    size = whole(within(config, "head_dim")) or usual.get("head_dim", hidden // heads)
    attention = 2 * hidden * size * (heads + keys) + 2 * (size if normed else hidden)
    return layers * (attention + ffn + 2 * hidden) + hidden


def _talker(config: object) -> int:
    """Count the decoder with experts that predicts a frame's first code, and the small one that predicts the others."""
    text, predictor = within(config, "text_config"), within(config, "code_predictor_config")
    hidden, usual, routed, shared, inner, words = (
        whole(within(text, key), value)
        for key, value in {
            "hidden_size": 1024, "num_experts": 128, "moe_intermediate_size": 384,
            "shared_expert_intermediate_size": 768, "intermediate_size": 2048, "vocab_size": 3072,
        }.items()
    )  # fmt: skip
    experts = whole(within(text, "num_local_experts"), usual)
    ffn = (experts + 1) * hidden + 3 * hidden * (experts * routed + shared)
    ends = (1 if within(config, "tie_word_embeddings") is True else 2) * words * hidden
    count = _decoder(text, ffn, {"num_hidden_layers": 20, "num_key_value_heads": 2}) + ends
    seen = whole(within(config, "thinker_hidden_size"), 2048)
    count += 2 * (matrix(inner, seen) + matrix(hidden, inner))
    width, wide = whole(within(predictor, "hidden_size"), 1024), whole(within(predictor, "intermediate_size"), 3072)
    codes = whole(within(predictor, "vocab_size"), 2048) * (whole(within(predictor, "num_code_groups"), 32) - 1)
    return count + _decoder(predictor, 3 * width * wide, {"head_dim": 128}) + 2 * codes * width


def _waves(config: object) -> int:
    """Count what turns codes into sound: a transformer, then convolutions that upsample and halve the channels."""
    width, wide, codes, many, channels = (
        whole(within(config, key), value)
        for key, value in {
            "hidden_size": 1024, "intermediate_size": 3072, "codebook_size": 2048, "num_quantizers": 16,
            "decoder_dim": 1536,
        }.items()
    )  # fmt: skip
    usual = {"num_hidden_layers": 8, "num_key_value_heads": 16}
    count = _decoder(config, 3 * width * wide, usual, normed=False) + codes * many * width
    for ratio in _rates(config, "upsampling_ratios", (2, 2)):
        block = matrix(width, 7) + norms(1, width) + matrix(4 * width, width) + matrix(width, 4 * width) + width
        count += ratio * width * width + width + block
    count += matrix(channels, 7 * width)
    for rate in _rates(config, "upsample_rates", (8, 5, 4, 3)):
        half = channels // 2
        residual = matrix(half, 7 * half) + matrix(half, half) + 4 * half
        count += 2 * channels + 2 * rate * channels * half + half + 3 * residual
        channels = half
    return count + 2 * channels + 7 * channels + 1


def _rates(config: object, key: str, usual: tuple[int, ...]) -> tuple[int, ...]:
    found = within(config, key)
    return tuple(whole(each) for each in found) if isinstance(found, list) else usual


def qwen3_speaks(config: Config) -> Mapping[str, int]:
    """Count Qwen3-Omni's talker and the decoder of its codes, which servers leave out.

    Source: transformers 5.23, modeling_qwen3_omni_moe.py (`Qwen3OmniMoeTalkerForConditionalGeneration`,
    `Qwen3OmniMoeCode2Wav`).
    """
    talker = config.get("talker_config")
    if config.get("enable_audio_output") is False or not isinstance(talker, Mapping):
        return {}
    return {_TALKER: _talker(talker) + _waves(config.get("code2wav_config"))}
