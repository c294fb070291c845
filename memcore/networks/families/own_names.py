"""Networks of a checkpoint's own code that are known under other names of keys.

Sources: `modeling_interns1_pro.py` in internlm/Intern-S1-Pro; `configuration_ovis.py`, `modeling_ovis.py`
(`BaseVisualTokenizer.__init__`) and `modeling_aimv2.py` in AIDC-AI/Ovis2-8B; `configuration_vlm.py` in
naver-hyperclovax/HyperCLOVAX-SEED-Think-32B; transformers 5.23, models/blt, models/ovis2,
models/hyperclovax_vision_v2, models/got_ocr2 and models/qwen3_asr; `modeling_GOT.py` in stepfun-ai/GOT-OCR2_0;
`modeling_emu3.py` in BAAI/Emu3-Chat and BAAI/Emu3.5; `moe_lm.py` in rhymes-ai/Aria-Chat; `modeling_llada.py` in
GSAI-ML/LLaDA-8B-Instruct; vllm 0.33, models/ovis.py, models/opencua.py and models/hyperclovax_vision_v2.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import count, islice

from memcore.errors import ConfigError
from memcore.networks.families.counting import Config, check_only, unsupported, whole, within
from memcore.networks.weights import Weight
from memcore.symbols import round_up
from memcore.units import shown

_INDICATORS = 5
"""Words of the visual vocabulary that no patch is given: they say where an image starts, ends and is cut."""


def ovis(config: Config) -> Config:
    """Ovis 2 as its own code saves it: the tower is within a tokenizer that gives each patch a visual word."""
    text, seen = _part(config, "llm_config"), _part(config, "visual_tokenizer_config")
    tower = _part(seen, "backbone_config", "visual_tokenizer_config.")
    if tower.get("model_type") != "aimv2":
        raise unsupported("visual_tokenizer_config.backbone_config.model_type", tower.get("model_type"), "aimv2")
    vision = {
        **tower,
        "model_type": "ovis2_vision",
        "vocab_size": seen.get("vocab_size", 16_384),
        "hidden_stride": seen.get("hidden_stride", 1),
        "mlp_bias": tower.get("use_bias", False),
        "num_visual_indicator_tokens": _INDICATORS,
    }
    return {
        "model_type": "ovis2",
        "transformers_version": config.get("transformers_version"),
        "hidden_size": text.get("hidden_size"),
        "vocab_size": text.get("vocab_size"),
        "text_config": text,
        "vision_config": vision,
        "tie_word_embeddings": text.get("tie_word_embeddings", False),
    }


_THINKS = {"audio_config": "qwen3_asr_encoder", "text_config": "qwen3"}


def qwen3_asr(config: Config) -> Config:
    """Return Qwen3-ASR's keys where transformers has them; Qwen publishes them inside `thinker_config`.

    The forced aligner scores timestamps (`times`) instead of words.
    """
    if "thinker_config" not in config:
        return config
    thinker = _part(config, "thinker_config")
    parts = {key: {**_part(thinker, key, "thinker_config."), "model_type": kind} for key, kind in _THINKS.items()}
    aligns = {"architectures": ["Qwen3ASRModel"]} if thinker.get("classify_num") is not None else {}
    return {**{key: value for key, value in config.items() if key not in _ALIGNS}, **parts, **aligns}


_ALIGNS = ("thinker_config", "timestamp_segment_time", "timestamp_token_id")


def times(config: Config) -> tuple[Weight, ...]:
    """Return Qwen3-ForcedAligner's matrix that scores timestamps (qwen-asr, modeling_qwen3_asr.py: `lm_head`)."""
    thinker = config.get("thinker_config")
    rows, hidden = whole(within(thinker, "classify_num")), whole(within(thinker, "text_config", "hidden_size"))
    return (Weight("lm_head", ((rows,), (hidden,)), "head"),) if rows and hidden else ()


_UNREAD = ("audio_config", "discrete_audio_config", "discrete_vision_config")


def hyperclova(config: Config) -> Config:
    """HyperCLOVA X Think: Qwen2.5-VL's tower, a matrix, and a text model that says whether the head is tied."""
    if not str((config.get("architectures") or [""])[0]).startswith("HCXVision"):  # type: ignore[index]
        return config
    for key in _UNREAD:
        if config.get(key) is not None:
            said = "found {}, but only {} is supported for this family"
            raise ConfigError.at(f"model.{key}", said, "{…}", shown(None))
    check_only(config, {"mm_projector_type": "linear", "video_audio_compressor_type": None})
    text = _part(config, "text_config")
    return {
        "model_type": "hyperclovax_vision_v2",
        "transformers_version": config.get("transformers_version"),
        "text_config": text,
        "vision_config": {**_part(config, "vision_config"), "model_type": "qwen2_5_vl_vision"},
        "tie_word_embeddings": text.get("tie_word_embeddings", False),
    }


def _part(config: Config, key: str, path: str = "") -> Config:
    found = config.get(key)
    if not isinstance(found, Mapping):
        raise ConfigError.at(f"model.{path}{key}", "missing; add the part of the configuration that has this name")
    return found


def interns1(config: Config) -> Config:
    """Intern-S1, the network of transformers' `internvl` under another name (vllm, models/interns1.py)."""
    vision = config.get("vision_config")
    tower = {**vision, "model_type": "internvl_vision"} if isinstance(vision, Mapping) else {}
    return {**config, "model_type": "internvl", "vision_config": tower}


def interns1_pro(config: Config) -> Config:
    """Intern-S1-Pro: Qwen3-VL's network without features of earlier layers; its rotation's coefficients are buffers."""
    text, tower = _part(config, "text_config"), _part(config, "vision_config")
    return {
        **{key: value for key, value in config.items() if key not in ("architectures", "auto_map")},
        "model_type": "qwen3_vl_moe",
        "text_config": {**text, "model_type": "qwen3_vl_moe_text"},
        "vision_config": {"deepstack_visual_indexes": [], **tower, "model_type": "qwen3_vl_moe_vision"},
    }


def diffusion_gemma(config: Config) -> Config:
    """DiffusionGemma, whose decoder shares the layers of its encoder: Gemma 4's network, and what `conditions` counts.

    Source: transformers 5.23, modeling_diffusion_gemma.py (`DiffusionGemmaEncoderTextAttention`,
    `DiffusionGemmaPreTrainedModel`); vllm 0.33, models/diffusion_gemma.py.
    """
    text = config.get("text_config")
    if within(text, "attention_bias") is True:  # of which encoder and decoder have their own
        raise unsupported("text_config.attention_bias", True, False)
    if not _shares_layers(config) or not isinstance(text, Mapping):
        return config
    usual = {"attention_k_eq_v": True, "enable_moe_block": True, "hidden_size_per_layer_input": 0}
    kept = {key: value for key, value in config.items() if key not in ("architectures", "canvas_length")}
    return {**kept, "model_type": "gemma4", "text_config": {**usual, **text, "model_type": "gemma4_text"}}


def _shares_layers(config: Config) -> bool:
    """Return whether its encoder's layers are its decoder's; a file that leaves out sizes means those of its class."""
    keys = ("hidden_size", "intermediate_size", "layer_types")
    return config.get("tie_word_embeddings") is not False and all(within(config, "text_config", key) for key in keys)


def conditions(config: Config) -> tuple[Weight, ...]:
    """Return what leads the last step's logits into the decoder (`DiffusionGemmaSelfConditioning`)."""
    if not _shares_layers(config):
        return ()
    hidden, wide = (whole(within(config, "text_config", key)) for key in ("hidden_size", "intermediate_size"))
    module = "model.decoder.self_conditioning"
    return (
        Weight(f"{module}.projections", ((3,), (hidden,), (wide,)), "other"),
        Weight(f"{module}.pre_norm.weight", ((hidden,),), "norm"),
    )


def opencua(config: Config) -> Config:
    """OpenCUA: Qwen2.5-VL's network around a Qwen2, whose positions have one dimension."""
    kept = {key: value for key, value in config.items() if key not in ("architectures", "auto_map")}
    tower = {**_part(config, "vision_config"), "model_type": "qwen2_5_vl"}
    return {**kept, "model_type": "qwen2_5_vl", "vision_config": tower}


def emu3(config: Config) -> Config:
    """Emu3's own code is Llama, that of Emu3.5 is Qwen3: images are words of the vocabulary."""
    kind, cls = ("qwen3", "Qwen3ForCausalLM") if "head_dim" in config else ("llama", "LlamaForCausalLM")
    return {**config, "model_type": kind, "architectures": [cls]}


_SEES = (
    "freeze_vision_tower",
    "im_end_token",
    "im_patch_token",
    "im_start_token",
    "image_token_len",
    "use_im_start_end",
)


def got(config: Config) -> Config:
    """GOT-OCR 2 as its own code saves it: the tower has fixed sizes, which are those of transformers' class."""
    text = {key: value for key, value in config.items() if key not in (*_SEES, "architectures", "auto_map")}
    return {
        "model_type": "got_ocr2",
        "text_config": {**text, "model_type": "qwen2"},
        "tie_word_embeddings": config.get("tie_word_embeddings", False),
    }


def llada(config: Config) -> Config:
    """LLaDA's embedding may have more rows than words, and as many key heads as query heads if none are given."""
    found = {"embedding_size": config.get("vocab_size"), "n_kv_heads": config.get("n_heads")}
    return {**config, **{key: config.get(key) or value for key, value in found.items()}}


def blt(config: Config) -> Config:
    """The encoder's patches are projected where they are not as wide as the middle (`BltConfig.__post_init__`)."""
    inner, outer = config.get("global_config"), config.get("encoder_config")
    if not isinstance(inner, Mapping) or not isinstance(outer, Mapping):
        return config
    narrow, times, wide = outer.get("hidden_size", 1024), config.get("cross_attn_k", 2), inner.get("hidden_size", 2048)
    if type(narrow) is not int or type(times) is not int or narrow * times == wide:
        return config
    return {**config, "global_config": {**inner, "encoder_cross_output_size": narrow * times}}


_ARIA = {"text_config": ("aria_moe_lm", "aria_text"), "vision_config": ("aria_vision_model", "idefics3_vision")}
"""The parts of Aria by its own code's names and by transformers'."""


def aria(config: Config) -> Config:
    """Return Aria's keys where transformers has them: its own code calls the width of an expert's layer otherwise."""
    parts = {
        key: {**part, "model_type": theirs}
        for key, (own, theirs) in _ARIA.items()
        if isinstance(part := config.get(key), Mapping) and part.get("model_type") == own
    }
    text = parts.get("text_config", {})
    if "moe_intermediate_size" in text:
        kept = {key: value for key, value in text.items() if key != "moe_intermediate_size"}
        parts["text_config"] = {**kept, "intermediate_size": text["moe_intermediate_size"]}
    return {**config, **parts}


_GRAMS = ("ple_conv_kernel_size", "ple_embed_dim", "ple_layer_ids", "seed", "split_ngram_parts")


Kinds = Mapping[str, tuple[str, Callable[[int], bool]]]
"""By a key that lists kinds of layers: one kind and which layers are of it where rows are proved; others are not."""
_QWEN_LAYERS: Kinds = {"layer_types": ("linear_attention", lambda place: (place + 1) % 4 > 0)}
_GLM_LAYERS: Kinds = {**_QWEN_LAYERS, "mlp_layer_types": ("dense", lambda place: place < 3)}


def _check_layers(config: Config, proved: Kinds) -> None:
    """Raise ConfigError where layers are of other kinds than in proved rows."""
    for key, (kind, known) in proved.items():
        listed = config.get(key)
        if isinstance(listed, list) and any((each == kind) != known(place) for place, each in enumerate(listed)):
            said = "found {}, which is not supported in this family yet"
            raise ConfigError.at(f"model.{key}", said, shown(listed))


def qwen4_exp(config: Config) -> Config:
    """Return Qwen 3.8 Flash Next's keys without those of n-gram embeddings, which `grams` counts."""
    text = config.get("text_config")
    if isinstance(text, Mapping):
        return {**config, "text_config": qwen4_exp(text)}
    _check_layers(config, _QWEN_LAYERS)
    return {key: value for key, value in config.items() if key not in _GRAMS}


def grams(config: Config) -> Iterator[Weight]:
    """Yield the n-gram embeddings of Qwen 3.8 Flash Next's layers (transformers 5.23, `Qwen4ExpTextPLELayer`).

    There is a table for each n-gram length and head; each has a prime number of rows.
    """
    text = config.get("text_config", config)
    hidden, streams = whole(within(text, "hidden_size"), 2048), whole(within(text, "hc_count"), 4)
    width, kernel = whole(within(text, "ple_embed_dim"), hidden), whole(within(text, "ple_conv_kernel_size"), 4)
    heads = (whole(within(text, "ngram_size"), 3) - 1) * whole(within(text, "heads_per_ngram"), 8)
    step = whole(within(text, "make_ngram_vocab_size_divisible_by"), 128)
    primes = _primes(whole(within(text, "ngram_vocab_size_base"), 20_000_000))
    for number in _layers_with_grams(text, heads):
        rows = round_up(sum(islice(primes, heads)), step)
        name, inner = f"layers.{number}.ple", streams * hidden
        yield Weight(f"{name}.ngram_embedding", ((rows,), (width // max(heads, 1),)), "embedding")
        rest = width * (inner + hidden) + 3 * inner + kernel * inner
        yield Weight(f"{name}.projections", ((rest,),), "other")


_MOST_TABLES = 4096
"""Of n-grams, in all layers: a file with more is not looked through."""


def _layers_with_grams(text: object, heads: int) -> list[int]:
    """Return the layers, counted from 1, in the order in which they take their primes (`Qwen4ExpTextConfig`).

    Raises ConfigError for a number that is no layer's, and where the tables are too many.
    """
    listed, layers = within(text, "ple_layer_ids"), range(1, whole(within(text, "num_hidden_layers"), 48) + 1)
    if not isinstance(listed, list):
        return []
    found = {each for each in listed if type(each) is int and each in layers}
    if heads * len(found) > _MOST_TABLES or not all(type(each) is int and each in layers for each in listed):
        raise ConfigError.at(
            "model.ple_layer_ids", "found {}, which is not supported in this family yet", shown(listed)
        )
    return sorted(found)


def _primes(start: int) -> Iterator[int]:
    """Yield primes from a number below 2**31 on."""
    return (each for each in count(start) if _is_prime(each))


_WITNESSES = (2, 3, 5, 7)
"""Bases that tell all composites below 3,215,031,751 (OEIS A014233)."""


def _is_prime(number: int) -> bool:
    """Return whether a number is prime, by Miller and Rabin's test."""
    if number < max(_WITNESSES) or number % 2 == 0:
        return number in _WITNESSES
    twos = ((number - 1) & (1 - number)).bit_length() - 1
    return all(
        power in (1, number - 1) or any(pow(power, 1 << turn, number) == number - 1 for turn in range(1, twos))
        for power in (pow(base, number >> twos, number) for base in _WITNESSES if base != number)
    )


_DELTA = {
    "num_heads": "linear_num_heads",
    "head_dim": "linear_head_dim",
    "short_conv_kernel_size": "linear_conv_kernel_dim",
}


def glm5_next(config: Config) -> Config:
    """Rename GLM-5.3 Flash's sizes of the delta rule, which its file nests (`Glm5NextTextConfig.__post_init__`)."""
    text = config.get("text_config")
    if isinstance(text, Mapping):
        return {**config, "text_config": glm5_next(text)}
    _check_layers(config, _GLM_LAYERS)
    given = config.get("linear_attn_config")
    if not isinstance(given, Mapping):
        return config
    kept = {key: value for key, value in config.items() if key != "linear_attn_config"}
    return {**kept, **{name: given[key] for key, name in _DELTA.items() if key in given}}
