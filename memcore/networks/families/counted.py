"""Networks outside of transformers whose towers are only counted: a language model that has a row, and the rest.

Sources: vllm 0.33, model_executor/models (`deepseek_vl2`, `deepseek_ocr2`, `deepencoder2`, `molmo`, `keye`,
`keye_vl1_5`, `ovis2_5`, `kimi_k25_vit`, `openvla`, `nvlm_d`, `intern_vit`, `step_vl`), and the code in the repositories
of vikhyatk/moondream2, Qwen/Qwen-VL-Chat (`visual.py`), Qwen/Qwen-Audio-Chat (`audio.py`),
zai-org/cogvlm2-llama3-chat-19B (`modeling_cogvlm.py`), NVlabs/VILA, openbmb/MiniCPM-V (`resampler.py`) and
nvidia/LocateAnything-3B; tests/truth/published.json holds files and published totals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from memcore.errors import ConfigError
from memcore.networks.derived import tensors
from memcore.networks.families import deepseek_v41, mimo, sounds
from memcore.networks.families.counting import (
    Config,
    blocks,
    check_only,
    derived_size,
    matrix,
    norms,
    part,
    pooling,
    size_of,
    unsupported,
    whole,
    within,
)
from memcore.networks.families.step import perceives
from memcore.networks.weights import Weight
from memcore.records import dataclass


def _minicpm_towers(config: Config) -> Iterator[Weight]:
    """The first MiniCPM-V: SigLIP of timm without its last layer and its pooling head, and a resampler."""
    outer = matrix(1152, 3 * 14 * 14) + 27 * 27 * 1152 + norms(1, 1152)
    yield part("vpm", blocks(26, 1152, 4304), outer)
    yield part(
        "resampler", pooling(whole(config.get("hidden_size")), 1152, whole(config.get("query_num"), 64), projects=True)
    )


def _llama3_towers(config: Config) -> Iterator[Weight]:
    """VideoLLaMA 3's SigLIP of any size, and two matrices."""
    vision, hidden = config.get("vision_encoder_config"), whole(config.get("hidden_size"))
    width, layers = whole(within(vision, "hidden_size"), 1152), whole(within(vision, "num_hidden_layers"), 27)
    patch, wide = whole(within(vision, "patch_size"), 14), whole(within(vision, "intermediate_size"), 4304)
    yield part("vision_encoder", blocks(layers, width, wide), matrix(width, 3 * patch * patch), norms(1, width))
    yield part("mm_projector", matrix(hidden, width), matrix(hidden, hidden))


def _as(kind: str, *left: str) -> Callable[[Config], Config]:
    cut = _without(*left, "architectures", "auto_map")
    return lambda config: {**cut(config), "model_type": kind}


def _without(*keys: str) -> Callable[[Config], Config]:
    return lambda config: {key: value for key, value in config.items() if key not in keys}


def _language(config: Config) -> Config:
    """DeepSeek-VL2's and -OCR's language model (`deepseek_vl2.py`, `DeepseekVLV2ForCausalLM.__init__`)."""
    found = within(config, "language_config")
    if not isinstance(found, Mapping):
        raise ConfigError.at("model.language_config", "missing; add the part of the configuration that has this name")
    kind = "deepseek_v2"
    if found.get("topk_method") == "noaux_tc":
        kind = "deepseek_v3"
    elif found.get("use_mla") is False or not whole(found.get("kv_lora_rank"), 1 if "kv_lora_rank" not in found else 0):
        kind = "deepseek"
    return {**_without("use_mla", "lm_head", "rm_head", "architectures", "auto_map")(found), "model_type": kind}


_SAM = (12, 768, 3072)
"""SAM's ViT-B: layers, widths."""


def sam(last: int) -> Weight:
    """SAM's ViT-B with a neck and two further convolutions (`ImageEncoderViT`): four layers see the whole image."""
    layers, width, _ = _SAM
    head = width // 12
    relative = 2 * head * ((layers - 4) * (2 * 14 - 1) + 4 * (2 * 64 - 1))
    neck = 256 * width + 9 * 256 * 256 + norms(2, 256) + 9 * 512 * 256 + 9 * last * 512
    return part("sam_model", blocks(*_SAM), relative, neck, matrix(width, 3 * 256), 64 * 64 * width)


def _qwen_layers(count: int, hidden: int, wide: int, keys: int) -> int:
    """Layers of Qwen2: biases on queries, keys and values."""
    attends = hidden * hidden * 2 + hidden + 2 * matrix(keys, hidden)
    return count * (attends + 3 * hidden * wide + 2 * hidden) + hidden


def clips(config: Config) -> bool:
    """Return whether a file's towers are DeepSeek-OCR's, CLIP and SAM, which transformers has under a fork's name."""
    return config.get("architectures") == ["DeepseekOCRForCausalLM"] or isinstance(
        within(config, "vision_config", "width", "clip-l-14-224"), Mapping
    )


def _deepseek_towers(config: Config) -> Iterator[Weight]:
    """DeepSeek-OCR 2: SAM and a Qwen2 of 0.5B that encodes; DeepSeek-VL2: SigLIP with its pooling head."""
    hidden = whole(within(config, "projector_config", "n_embed"), 2048)
    if isinstance(within(config, "vision_config", "width", "qwen2-0-5b"), Mapping):
        yield sam(896)
        yield part("qwen2_model", _qwen_layers(24, 896, 4864, 128), (256 + 144) * 896)
        yield part("projector", matrix(hidden, 896), hidden)
        return
    vision = within(config, "vision_config")
    layers, width = (whole(within(vision, key), usual) for key, usual in (("layers", 24), ("width", 1024)))
    ratio, patch = within(vision, "mlp_ratio"), whole(within(vision, "patch_size"), 16)
    wide = int(width * ratio) if isinstance(ratio, (int, float)) and 0 < ratio < width else 4 * width
    side = whole(within(vision, "image_size"), 384) // patch
    head = width + matrix(width, width) * 4 + norms(1, width) + matrix(wide, width) + matrix(width, wide)
    yield part(
        "vision",
        blocks(layers, width, wide),
        matrix(width, 3 * patch * patch),
        side * side * width,
        norms(1, width),
        head,
    )
    usual = {"depth": 2, "downsample_ratio": 2, "input_dim": 1152}
    depth, ratio, seen = (whole(within(config, "projector_config", key), value) for key, value in usual.items())
    first = matrix(hidden, seen * ratio * ratio)
    yield part("projector", first, (depth - 1) * matrix(hidden, hidden), 2 * hidden)


def _nano_vl(config: Config) -> Config:
    """Return the decoder of Nemotron Nano VL and of Nemotron Omni, which is Nemotron-H's."""
    return {**_without("architectures", "auto_map")(_inside(config, "llm_config")), "model_type": "nemotron_h"}


def _nano_towers(config: Config) -> Iterator[Weight]:
    """Yield RADIO, a projector of four patches without biases, and an audio encoder (vllm 0.33, `nano_nemotron_vl.py`).

    Video frames that form one patch have an embedding of their own (`radio.py`, `ViTPatchGenerator.__init__`).
    """
    width, wide = whole(config.get("vit_hidden_size"), 1280), whole(config.get("projector_hidden_size"), 4096)
    ratio, hidden = config.get("downsample_ratio", 0.5), whole(within(config, "llm_config", "hidden_size"))
    merged = round(1 / ratio) ** 2 * width if isinstance(ratio, float) and 0.05 < ratio <= 1 else 4 * width
    found = {"model_type": "radio", "hidden_size": width, "patch_size": whole(config.get("patch_size"), 16)}
    if (frames := whole(within(config, "vision_config", "video_temporal_patch_size"), 1)) > 1:
        found["video_temporal_patch_size"] = frames
    sizes = tensors(found, "RadioModel", "model.vision_config")
    # The checkpoint's layers have no scales.
    yield part("vision_model", size_of(each for each in sizes if "layer_scale" not in each.name))
    yield part("mlp1", merged, wide * merged, hidden * wide)
    yield from sounds.parakeet(config.get("sound_config"), hidden)


_VQ = 71_883_403
"""Parameters of what turns codes of 8 numbers into pixels and back (transformers 5.23, `JanusVQVAE`)."""


def _janus_keys(config: Config, part_name: str) -> Config:
    found = within(config, part_name, "params")
    return found if isinstance(found, Mapping) else {}


_JANUS: Mapping[str, Config] = {
    "vision_config": {"model_name": "siglip_large_patch16_384"},
    "gen_vision_config": {"n_embed": 8},
}


def _janus(config: Config) -> Config:
    """Janus's language model is Llama; sizes that a file leaves out are those of its class."""
    for name, only in _JANUS.items():
        check_only(_janus_keys(config, name), only, f"{name}.params.")
    return {**_without("_attn_implementation")(_inside(config, "language_config")), "model_type": "llama"}


def _janus_towers(config: Config) -> Iterator[Weight]:
    """SigLIP, and images as codes: quantizer, two projectors and a head (`modeling_vlm.py` of deepseek-ai/Janus)."""
    width, wide, hidden = 1024, 4096, whole(_janus_keys(config, "aligner_config").get("n_embed"), 4096)
    codes = whole(_janus_keys(config, "gen_head_config").get("image_token_size"), 16_384)
    outer = matrix(width, 3 * 16 * 16) + 24 * 24 * width + norms(1, width)
    yield part("vision_model", blocks(24, width, wide), outer, width + 4 * matrix(width, width) + norms(1, width))
    yield part("vision_model.attn_pool.mlp", matrix(wide, width), matrix(width, wide))
    yield part("aligner", matrix(hidden, width), matrix(hidden, hidden))
    yield part("gen_vision_model", _VQ)
    yield part("gen_embed", codes * 8)
    yield part("gen_aligner", matrix(hidden, 8), matrix(hidden, hidden))
    yield part("gen_head", matrix(hidden, hidden), matrix(codes, hidden))


def _used(config: Config) -> Mapping[str, int]:
    """What the quantizer counts (`codebook_used`)."""
    return {"buffer of image codes in use": 65_536}


def _molmo(config: Config) -> Config:
    """Molmo's decoder: Qwen2's, or OLMo 2's where norms come after."""
    kinds = {(True, False, False): "qwen2", (False, True, True): "olmo2"}
    said = tuple(config.get(key) is True for key in ("qkv_bias", "attention_layer_norm", "norm_after"))
    if said not in kinds:
        raise unsupported("norm_after", said[2], False)
    rows, wide = whole(config.get("embedding_size")), whole(config.get("intermediate_size"))
    sizes = {"intermediate_size": wide // 2, "vocab_size": rows or config.get("vocab_size")}
    left = {
        "embedding_size",
        "architectures",
        "auto_map",
        "attention_layer_norm",
        "norm_after",
        "qkv_bias",
        "weight_tying",
    }
    return {**{k: v for k, v in config.items() if k not in left}, **sizes, "model_type": kinds[said]}


def _molmo_towers(config: Config) -> Iterator[Weight]:
    """CLIP's large tower without its last layer; two of its layers' results are pooled and projected."""
    width, hidden, wide = 1024, whole(config.get("hidden_size")), whole(config.get("intermediate_size")) // 2
    outer = width + 577 * width + matrix(width, 3 * 14 * 14, 0) + norms(1, width)
    yield part("vision_backbone.image_vit", blocks(23, width, 4096), outer)
    pooled = 3 * matrix(width, 2 * width) + matrix(width, width) + 2 * 2 * width
    yield part("vision_backbone.image_pooling_2d", pooled)
    yield part("vision_backbone.image_projector", 2 * width * wide + wide * hidden)
    yield Weight("wte.new_embedding", ((128,), (hidden,)), "tower")


def _qwen_visual(config: Config) -> Iterator[Weight]:
    """Qwen-VL's tower (`visual.py`), Qwen-Audio's (`audio.py`)."""
    seen, heard = config.get("visual"), config.get("audio")
    if isinstance(seen, Mapping):
        width, out, layers = whole(seen.get("width")), whole(seen.get("output_dim")), whole(seen.get("layers"))
        patch, ratio = whole(seen.get("patch_size"), 14), seen.get("mlp_ratio", 4.0)
        wide = int(width * ratio) if isinstance(ratio, (int, float)) and 0 < ratio < 64 else 4 * width
        outer = width * 3 * patch * patch + 256 * width + norms(1, width)
        yield part("transformer.visual", blocks(layers, width, wide), outer, pooling(out, width, 256, projects=True))
    if isinstance(heard, Mapping):
        width, out, layers = whole(heard.get("n_state")), whole(heard.get("output_dim")), whole(heard.get("n_layer"))
        # Whisper's keys have no bias.
        encoder = blocks(layers, width, 4 * width) - layers * width + norms(1, width)
        outer = matrix(width, 3 * whole(heard.get("n_mels"), 80)) + matrix(width, 3 * width)
        yield part("transformer.audio", encoder, outer, 2 * out, matrix(out, width))


def gemma4(config: Config) -> Iterator[Weight]:
    """Gemma 4's vision and audio towers and what leads out of them (transformers 5.23, models/gemma4)."""
    hidden, seen, heard = whole(within(config, "text_config", "hidden_size"), 2304), *_towers_of(config)
    if seen is not None:
        found = {**seen, "model_type": "gemma4_vision"}
        yield part("vision_tower", derived_size(found, "Gemma4VisionModel", "model.vision_config"))
        yield part("embed_vision", whole(seen.get("hidden_size"), 768) * hidden)
    if heard is not None:
        width, layers = whole(heard.get("hidden_size"), 1024), whole(heard.get("num_hidden_layers"), 12)
        out, kernel = whole(heard.get("output_proj_dims"), 1536), whole(heard.get("conv_kernel_size"), 5)
        channels = heard.get("subsampling_conv_channels")
        first, second = channels if isinstance(channels, list) and len(channels) == 2 else (128, 32)
        head = width // whole(heard.get("num_attention_heads"), 8)
        ffn, attend, convolve = (
            8 * width * width + 2 * width,
            5 * width * width + head,
            3 * width * width + kernel * width,
        )
        layer = 2 * ffn + attend + convolve + 2 * width + 3 * width
        before = 9 * first + first + 9 * first * second + second + width * 32 * second
        yield part("audio_tower", layers * layer, before, matrix(out, width))
        yield part("embed_audio", out * hidden)


def gemma4_unified(config: Config) -> Iterator[Weight]:
    """Gemma 4 without towers: pixels and sounds are projected into the decoder (models/gemma4_unified).

    Source: transformers 5.23, `Gemma4UnifiedVisionEmbedder` and `Gemma4UnifiedMultimodalEmbedder`.
    """
    hidden, seen, heard = whole(within(config, "text_config", "hidden_size"), 2304), *_towers_of(config)
    if seen is not None:
        pixels = 3 * (whole(seen.get("patch_size"), 16) * whole(seen.get("pooling_kernel_size"), 3)) ** 2
        width, places = whole(seen.get("mm_embed_dim"), 3840), whole(seen.get("mm_posemb_size"), 1120)
        embeds = matrix(width, pixels) + 2 * places * width + norms(1, pixels) + norms(2, width)
        yield part("vision_embedder", embeds, whole(seen.get("output_proj_dims"), 3840) * hidden)
    if heard is not None:
        yield part("embed_audio", whole(heard.get("audio_embed_dim"), 640) * hidden)


def _towers_of(config: Config) -> Iterator[Config | None]:
    for key in ("vision_config", "audio_config"):
        found = config.get(key)
        yield found if isinstance(found, Mapping) else None


def _dots(config: Config) -> Iterator[Weight]:
    """dots.ocr's tower without biases, and Qwen2-VL's merger."""
    vision, hidden = config.get("vision_config"), whole(config.get("hidden_size"))
    width, layers = whole(within(vision, "embed_dim"), 1536), whole(within(vision, "num_hidden_layers"), 42)
    wide, patch = whole(within(vision, "intermediate_size"), 4224), whole(within(vision, "patch_size"), 14)
    merged = whole(within(vision, "spatial_merge_size"), 2) ** 2 * width
    layer = 4 * width * width + 3 * width * wide + 2 * width
    yield part("vision_tower", layers * layer, matrix(width, 3 * patch * patch) + 2 * width)
    yield part("vision_tower.merger", norms(1, width), matrix(merged, merged), matrix(hidden, merged))


_EVA = {
    "hidden_size": 1792,
    "num_hidden_layers": 63,
    "intermediate_size": 15360,
    "num_positions": 6401,
    "patch_size": 14,
}


def _eva(vision: object) -> tuple[int, int]:
    """EVA2-CLIP with its patches and positions, and its width."""
    width, layers, inner, places, patch = (whole(within(vision, key), value) for key, value in _EVA.items())
    return blocks(layers, width, inner) + matrix(width, 3 * patch * patch) + (1 + places) * width, width


def _glm(config: Config) -> Iterator[Weight]:
    """GLM-4V's EVA2-CLIP, a convolution and a gated projector (`visual.py` of zai-org/glm-4v-9b)."""
    hidden, wide = (whole(config.get(key)) for key in ("hidden_size", "ffn_hidden_size"))
    tower, width = _eva(config.get("vision_config"))
    yield part("transformer.vision.transformer", tower)
    projector = hidden * hidden + norms(1, hidden) + 3 * hidden * wide + 2 * hidden
    yield part("transformer.vision.linear_proj", projector, matrix(hidden, 4 * width))


_COGVLM = {"num_multi_query_heads": "num_key_value_heads"}


def _cogvlm(config: Config) -> Config:
    """CogVLM2's decoder is Llama 3's; what a file does not say is as in `modeling_cogvlm.py`."""
    dropped = ("architectures", "auto_map", "vision_config")
    kept = {_COGVLM.get(key, key): value for key, value in config.items() if key not in dropped}
    return {"rope_theta": 500_000.0, **kept, "model_type": "llama"}


def _cogvlm_tower(config: Config) -> Iterator[Weight]:
    """CogVLM2's EVA2-CLIP, a convolution and a gated projector (`visual.py` of zai-org/cogvlm2-llama3-chat-19B)."""
    hidden, wide = (whole(config.get(key)) for key in ("hidden_size", "intermediate_size"))
    tower, width = _eva(config.get("vision_config"))
    yield part("model.vision.transformer", tower)
    projector = hidden * width + norms(1, hidden) + 3 * hidden * wide + 2 * hidden
    yield part("model.vision.linear_proj", projector, matrix(width, 4 * width))


def _cogvlm_experts(config: Config) -> Iterator[Weight]:
    """The same, and matrices of their own for patches in every layer (`VisionExpertAttention`, `VisionExpertMLP`)."""
    yield from _cogvlm_tower(config)
    sizes = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_multi_query_heads")
    hidden, wide, layers, heads, groups = (whole(config.get(key), 1) for key in sizes)
    seen = matrix(hidden + 2 * groups * (hidden // heads), hidden) + hidden * hidden + 3 * hidden * wide
    yield part("model.layers.vision_experts", layers * seen)


def _siglip(vision: object, **usual: int) -> tuple[int, int, int]:
    """SigLIP's layers, patches and last norm; its width, and the positions that it knows."""
    sizes = {"hidden_size": 1152, "num_hidden_layers": 27, "intermediate_size": 4304, "patch_size": 14, **usual}
    width, layers, wide, patch = (whole(within(vision, key), sizes[key]) for key in list(sizes)[:4])
    places = (whole(within(vision, "image_size"), 384) // patch) ** 2
    return blocks(layers, width, wide) + matrix(width, 3 * patch * patch) + norms(1, width), width, places


_PACKED = 32_768
"""Positions of patches in a row of several images (`packing_position_embedding`)."""


def _pooling_head(vision: object) -> int:
    """SigLIP's pooling head (`SiglipMultiheadAttentionPoolingHead`)."""
    width, wide = whole(within(vision, "hidden_size"), 1152), whole(within(vision, "intermediate_size"), 4304)
    return width + 4 * matrix(width, width) + norms(1, width) + matrix(wide, width) + matrix(width, wide)


def _keye(config: Config) -> Iterator[Weight]:
    """Yield Keye-VL's SigLIP, and a projector of four patches: 1.5 has one norm over all four (`keye_vl1_5.py`)."""
    layers, width, places = _siglip(config.get("vision_config"))
    hidden, normed = whole(config.get("hidden_size")), 1 if config.get("model_type") == "Keye" else 4
    yield part("visual.vision_model", layers, (places + _PACKED) * width)
    yield part("mlp_AR", norms(1, normed * width), matrix(4 * width, 4 * width), matrix(hidden, 4 * width))


_POOLING = "pooling head, which servers do not load"


def _pooled(config: Config) -> Mapping[str, int]:
    return {_POOLING: _pooling_head(config.get("vision_config"))}


HEAD, PLACED = "head", "positions in a row of images"


def paddle(config: Config) -> Mapping[str, int]:
    """PaddleOCR-VL's checkpoint: transformers loads neither these nor a head of its own."""
    vision = config.get("vision_config")
    width, words = whole(within(vision, "hidden_size"), 1152), whole(config.get("vocab_size"))
    head = {} if config.get("tie_word_embeddings") is not False else {HEAD: words * whole(config.get("hidden_size"))}
    return {_POOLING: _pooling_head(vision), PLACED: _PACKED * width, **head}


def _vila(config: Config) -> Iterator[Weight]:
    """VILA 1.5: SigLIP with its pooling head, a projector of four patches each (NVlabs/VILA, `base_projector.py`)."""
    kind = within(config, "mm_projector_cfg", "mm_projector_type")
    if kind != "mlp_downsample":
        raise unsupported("mm_projector_cfg.mm_projector_type", kind, "mlp_downsample")
    vision = within(config, "vision_tower_cfg")
    layers, width, places = _siglip(vision)
    hidden = whole(config.get("hidden_size"))
    yield part("vision_tower", layers, places * width, _pooling_head(vision))
    yield part("mm_projector", norms(1, 4 * width), matrix(hidden, 4 * width), matrix(hidden, hidden))


def _ovis(config: Config) -> Iterator[Weight]:
    """Ovis 2.5's SigLIP, a head that gives every patch words of a visual vocabulary, and that vocabulary."""
    vision, hidden = config.get("vit_config"), whole(within(config, "llm_config", "hidden_size"))
    layers, width, places = _siglip(vision, patch_size=16)
    words, stride = whole(config.get("visual_vocab_size"), 65_536), whole(within(vision, "hidden_stride"), 2)
    known = whole(within(vision, "num_patches")) or places
    yield part("visual_tokenizer.vit", layers, known * width * (within(vision, "preserve_original_pe") is not False))
    yield part("visual_tokenizer.head", (words - 4) * width * stride**2, norms(1, words - 4))
    yield part("vte", words * hidden)


def _k3(config: Config) -> Config:
    """The configuration of its language model."""
    found = within(config, "text_config")
    return {**(found if isinstance(found, Mapping) else {}), "model_type": "kimi_k3_text"}


def _k3_towers(config: Config) -> Iterator[Weight]:
    """Kimi-K3's vision transformer without biases, and a projector of four patches (`kimi_k25_vit.py`)."""
    vision, hidden = config.get("vision_config"), whole(within(config, "text_config", "hidden_size"))
    usual = {
        "vt_hidden_size": 1024, "vt_num_hidden_layers": 27, "vt_intermediate_size": 4096, "qkv_hidden_size": 1536,
        "patch_size": 14, "init_pos_emb_height": 64, "init_pos_emb_width": 64,
    }  # fmt: skip
    width, layers, wide, inner, patch, high, broad = (whole(within(vision, key), value) for key, value in usual.items())
    layer = 4 * width * inner + 2 * width * wide + 2 * width
    outer = matrix(width, 3 * patch * patch, 0) + high * broad * width + width
    yield part("vision_tower", layers * layer, outer)
    yield part("mm_projector", 16 * width * width, 4 * width * hidden, hidden)


_MOONDREAM = {"dim": 2048, "ff_dim": 8192, "n_layers": 24, "vocab_size": 51_200, "max_context": 2048, "n_heads": 32}
_MOON_KEYS = (
    "hidden_size", "intermediate_size", "num_hidden_layers", "vocab_size", "max_position_embeddings",
    "num_attention_heads",
)  # fmt: skip


def _moondream(config: Config) -> Config:
    """Moondream 2's decoder is Phi's; a file states what differs from its code's sizes, mostly nothing."""
    text = within(config, "config", "text")
    sizes = {key: whole(within(text, key), usual) for key, usual in _MOONDREAM.items()}
    found = dict(zip(_MOON_KEYS, sizes.values(), strict=True))
    return {**found, "num_key_value_heads": whole(within(text, "n_kv_heads"), sizes["n_heads"]), "model_type": "phi"}


def _moondream_towers(config: Config) -> Iterator[Weight]:
    """A vision transformer, a projector of an image and its crops, and what reads and writes coordinates."""
    vision, hidden = within(config, "config", "vision"), whole(within(config, "config", "text", "dim"), 2048)
    usual = {"enc_dim": 1152, "enc_n_layers": 27, "enc_ff_dim": 4304, "enc_patch_size": 14, "proj_inner_dim": 8192}
    width, layers, wide, patch, inner = (whole(within(vision, key), value) for key, value in usual.items())
    places = (whole(within(vision, "crop_size"), 378) // patch) ** 2
    outer = matrix(width, 3 * patch * patch) + places * width + norms(1, width)
    yield part("vision", blocks(layers, width, wide), outer, matrix(inner, 2 * width), matrix(hidden, inner))
    region, sums = within(config, "config", "region"), 0
    sizes = {
        "inner_dim": 8192,
        "coord_feat_dim": 256,
        "coord_out_dim": 1024,
        "size_feat_dim": 512,
        "size_out_dim": 2048,
    }
    wide, *pairs = (whole(within(region, key), value) for key, value in sizes.items())
    for (seen, out), numbers in zip((pairs[:2], pairs[2:]), (1, 2), strict=True):
        sums += matrix(hidden, seen) + matrix(wide, hidden) + matrix(out, wide) + numbers * (seen // 2)
    yield part("region", sums)


def _thinker(config: Config) -> Config:
    """What servers and LoRA see of Qwen-Omni: the model that writes text."""
    found = within(config, "thinker_config")
    kind = f"{config.get('model_type')}_thinker"
    return {**_without("architectures")(found), "model_type": kind} if isinstance(found, Mapping) else config


def _inside(config: Config, key: str) -> Config:
    """The part of a configuration that describes the language model."""
    found = config.get(key)
    if not isinstance(found, Mapping):
        raise ConfigError.at(f"model.{key}", "missing; add the part of the configuration that has this name")
    return found


_PRISMATIC = {
    "image_sizes": [224, 224],
    "timm_model_ids": ["vit_large_patch14_reg4_dinov2.lvd142m", "vit_so400m_patch14_siglip_224"],
    "use_fused_vision_backbone": True,
}
"""The only towers that OpenVLA's checkpoints have (vllm 0.33, models/openvla.py)."""


def _openvla(config: Config) -> Config:
    """Return OpenVLA's language model, Llama 2; sizes that the file leaves out are the class's defaults."""
    check_only(config, _PRISMATIC)
    return _inside(config, "text_config")


def _openvla_towers(config: Config) -> Iterator[Weight]:
    """Yield DINOv2 with registers, SigLIP with its pooling head, and a projector of three matrices for both."""
    width, registers = 1024, 4
    outer = matrix(width, 3 * 14 * 14) + (16 * 16 + 1 + registers) * width + norms(1, width)
    yield part("vision_backbone.featurizer", blocks(24, width, 4 * width), 24 * 2 * width, outer)
    vision = {"image_size": 224}
    layers, seen, places = _siglip(vision)
    yield part("vision_backbone.fused_featurizer", layers, places * seen, _pooling_head(vision))
    both, hidden = width + seen, whole(within(config, "text_config", "hidden_size"), 4096)
    yield part("projector", matrix(4 * both, both), matrix(hidden, 4 * both), matrix(hidden, hidden))


def _nvlm_towers(config: Config) -> Iterator[Weight]:
    """Yield InternViT, with seven dummy heads so that eight GPUs can split them, and a projector without biases.

    The checkpoint holds the dummy heads' matrices, too.
    """
    vision, text = config.get("vision_config"), config.get("llm_config")
    names = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "patch_size")
    width, wide, layers, heads, patch = (whole(within(vision, key), 1) for key in names)
    places = (whole(within(vision, "image_size"), 448) // patch) ** 2
    inner = (heads + 7) * (width // heads)
    attention = 3 * width * inner + matrix(width, inner) + 2 * inner
    layer = attention + matrix(wide, width) + matrix(width, wide) + 4 * width
    yield part("vision_model", layers * layer, matrix(width, 3 * patch * patch), (places + 2) * width)
    hidden, between = whole(within(text, "hidden_size")), whole(within(text, "intermediate_size"))
    yield part("mlp1", norms(1, 4 * width), 4 * width * between, between * hidden)


def _step_towers(config: Config) -> Iterator[Weight]:
    """Yield Step3-VL's perception encoder, which is Step 3.7's, and a matrix."""
    vision, hidden = _inside(config, "vision_config"), whole(within(config, "text_config", "hidden_size"))
    yield part("vision_model", derived_size(perceives(vision), "Step3p7VisionModel", "model.vision_config"))
    seen = 4 * whole(vision.get("width"), 1536)
    yield part("vit_large_projector", matrix(hidden, seen, int(config.get("projector_bias") is not False)))


def _embeds(config: Config) -> Config:
    """Return NV-Embed's language model: Mistral without a causal mask or a head (`modeling_nvembed.py`)."""
    found = _without("auto_map", "_name_or_path")(_inside(config, "text_config"))
    return {**found, "model_type": "mistral", "architectures": ["MistralModel"]}


def _embeds_latents(config: Config) -> Iterator[Weight]:
    """Yield the latents that tokens attend to, and a gated feed-forward layer (`LatentAttentionModel.__init__`)."""
    latent = within(config, "latent_attention_config")
    names = ("hidden_dim", "latent_dim", "num_latents_value", "num_cross_heads", "cross_dim_head")
    usual = (4096, 4096, 512, 8, 4096)
    hidden, keys, latents, heads, width = (
        whole(within(latent, name), size) for name, size in zip(names, usual, strict=True)
    )
    inner, mult = heads * width, whole(within(latent, "mult"), 4)
    attends = 2 * hidden * inner + 2 * keys * inner + norms(1, hidden) + norms(1, keys)
    gated = norms(1, hidden) + matrix(2 * mult * hidden, hidden) + matrix(hidden, mult * hidden)
    yield part("latent_attention_model", latents * keys, attends, gated)


def _nothing(config: Config) -> Iterator[Weight]:
    yield from ()


@dataclass(frozen=True, slots=True)
class Counted:
    """How a published file describes such a network."""

    text: Callable[[Config], Config]
    """The configuration of its language model."""
    towers: Callable[[Config], Iterator[Weight]]
    """What it has besides."""
    when: Callable[[Config], bool] = lambda config: True
    """Which files it is for."""
    key: str | None = None
    """Only files with this key."""
    published: Callable[[Config], Mapping[str, int]] = lambda config: {}
    """What its checkpoint holds besides."""

    def fits(self, config: Config) -> bool:
        """Return whether it is what a file describes."""
        return self.when(config) and (self.key is None or config.get(self.key) is not None)


COUNTED: Mapping[str, tuple[Counted, ...]] = {
    "deepseek_vl_v2": (Counted(_language, _deepseek_towers, when=lambda config: not clips(config)),),
    "minicpmv": (Counted(_as("minicpm"), _minicpm_towers, key="scale_emb"),),
    **dict.fromkeys(
        ("NemotronH_Nano_VL_V2", "NemotronH_Nano_Omni_Reasoning_V3", "NemotronH_Super_Omni_Reasoning_V3"),
        (Counted(_nano_vl, _nano_towers),),
    ),
    "kimi_audio": (Counted(_as("qwen2"), sounds.kimi, published=sounds.kimi_speaks),),
    "ultravox": (Counted(lambda config: _inside(config, "text_config"), sounds.ultravox),),
    "multi_modality": (Counted(_janus, _janus_towers, published=_used),),
    "molmo": (Counted(_molmo, _molmo_towers),),
    **dict.fromkeys(
        ("Keye", "KeyeVL1_5"), (Counted(_as("qwen3", "vision_config", "rope_scaling"), _keye, published=_pooled),)
    ),
    "nvembed": (Counted(_embeds, _embeds_latents),),
    "openvla": (Counted(_openvla, _openvla_towers),),
    "NVLM_D": (Counted(lambda config: _inside(config, "llm_config"), _nvlm_towers),),
    "step_robotics": (Counted(lambda config: _inside(config, "text_config"), _step_towers),),
    "kimi_k3": (Counted(_k3, _k3_towers),),
    **dict.fromkeys(
        ("mimo_v2", "mimo_v2_flash"),
        (Counted(mimo.text_of, mimo.towers, key="hybrid_layer_pattern", published=mimo.drafts),),
    ),
    "deepseek_v41": (Counted(deepseek_v41.text_of, deepseek_v41.towers),),
    **dict.fromkeys(
        ("ovis2_5", "ovis2_6", "ovis2_6_moe"), (Counted(lambda config: _inside(config, "llm_config"), _ovis),)
    ),
    "moondream1": (
        Counted(_moondream, _moondream_towers, when=lambda config: config.get("architectures") == ["HfMoondream"]),
    ),
    "llava_llama": (Counted(lambda config: _inside(config, "llm_cfg"), _vila, key="llm_cfg"),),
    "dots_ocr": (Counted(_as("qwen2", "vision_config", "sliding_window"), _dots),),
    "chatglm": (Counted(_without("vision_config"), _glm, key="vision_config"),),
    "cogvlm": (Counted(_cogvlm, _cogvlm_experts, key="num_multi_query_heads"),),
    "cogvlm_video": (Counted(_cogvlm, _cogvlm_tower, key="num_multi_query_heads"),),
    "qwen2_5_omni": (Counted(_thinker, _nothing, key="thinker_config", published=sounds.qwen2_5_speaks),),
    "qwen3_omni_moe": (Counted(_thinker, _nothing, key="thinker_config", published=sounds.qwen3_speaks),),
    "videollama3_qwen2": (Counted(_as("qwen2", "vision_encoder_config"), _llama3_towers),),
    "qwen": (
        Counted(_without("visual"), _qwen_visual, key="visual"),
        Counted(_without("audio"), _qwen_visual, key="audio"),
    ),
}
"""By `model_type`; the first that fits."""


def counted(config: Config) -> Counted | None:
    """How the towers of a file are counted, if they are."""
    rows = COUNTED.get(str(config.get("model_type")), ())
    return next((row for row in rows if row.fits(config)), None)
