"""Networks whose code comes with their checkpoints (`auto_map`): the same parts as families of transformers have.

Sources, each file in its checkpoint's repository: `modeling_internlm2.py` (internlm/internlm2_5-7b), `modeling_mimo.py`
(XiaomiMiMo/MiMo-7B-Base), `block_config.py` and `modeling_decilm.py` (nvidia/Llama-3_3-Nemotron-Super-49B-v1),
`modeling_internvl_chat.py` and `modeling_intern_vit.py` (OpenGVLab/InternVL3-8B), `modeling_kimi_k25.py`
(moonshotai/Kimi-K2.5). Their totals are those of the published weights, which the tests hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memcore.errors import ConfigError
from memcore.messages import Message, joined
from memcore.networks.derived import first_class
from memcore.networks.families.bailing import with_lightning
from memcore.networks.families.counted import clips, counted, gemma4, gemma4_unified, paddle
from memcore.networks.families.counting import Config, check_only, matrix, unsupported, whole, within
from memcore.networks.families.ernie import ernie_vl
from memcore.networks.families.longcat import longcat, longcat_more
from memcore.networks.families.own_names import (
    aria,
    blt,
    conditions,
    diffusion_gemma,
    emu3,
    glm5_next,
    got,
    grams,
    hyperclova,
    interns1,
    interns1_pro,
    llada,
    opencua,
    ovis,
    qwen3_asr,
    qwen4_exp,
    times,
)
from memcore.networks.families.remote_rows import NOTHING
from memcore.networks.families.sounds import minicpm
from memcore.networks.families.step import step
from memcore.networks.families.switch import contradicted, stepped
from memcore.networks.weights import Weight
from memcore.symbols import round_up
from memcore.units import shown


def renamed(config: Config) -> Config:
    """A configuration under the names of a family that has a row, if its code's own names are others."""
    row = counted(config)
    change = row.text if row else _RENAMED.get(str(config.get("model_type")))
    return change(config) if change else config


def _blocks(config: Config) -> Config:
    """Return what every block of Nemotron-NAS has, as lists of a value for each layer."""
    blocks, heads = config.get("block_configs"), config.get("num_attention_heads")
    hidden = config.get("hidden_size")
    if not isinstance(blocks, list) or not isinstance(heads, int) or not isinstance(hidden, int):
        return config
    depth = config.get("num_hidden_layers")
    if isinstance(depth, int) and len(blocks) != depth:
        raise ConfigError.at("model.block_configs", "lists {} of {} layers", len(blocks), depth)
    attention = [_part(block, "attention", number) for number, block in enumerate(blocks)]
    ffns = [_part(block, "ffn", number) for number, block in enumerate(blocks)]
    return {
        **config,
        "layer_types": [NOTHING if each.get("no_op") else "full_attention" for each in attention],
        "mlp_layer_types": [NOTHING if each.get("no_op") else "dense" for each in ffns],
        "num_key_value_heads": [heads // (_size(each.get("n_heads_in_group")) or heads) for each in attention],
        "intermediate_size": [_wide(each, hidden) for each in ffns],
    }


def _part(block: object, name: str, number: int) -> Config:
    found = block.get(name) if isinstance(block, Mapping) else None
    if not isinstance(found, Mapping):
        raise ConfigError.at(f"model.block_configs.{number}.{name}", "expected an object, found {}", shown(found))
    for key in ("replace_with_linear", "sparsify", "is_mamba", "moe", "mamba"):
        if found.get(key):
            raise unsupported(f"block_configs.{number}.{name}.{key}", found[key], None)
    return found


def _size(value: object) -> int:
    return value if type(value) is int and value > 0 else 0


def _wide(ffn: Config, hidden: int) -> int:
    """`_ffn_mult_to_intermediate_size`: two thirds of the multiple, in steps of 256."""
    given, times = ffn.get("intermediate_size"), ffn.get("ffn_mult")
    if _size(given):
        return _size(given)
    if not isinstance(times, (int, float)) or not 0 < times < hidden:
        return 0
    return round_up(int(2 * times * hidden / 3), 256)


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


_SARVAM = {"num_experts": "n_routed_experts", "num_shared_experts": "n_shared_experts"}


def _sarvam(config: Config) -> Config:
    """Rename the keys of Sarvam's larger model to those of DeepSeek-V3 (vllm 0.33, models/sarvam.py)."""
    return {**_keys(config, _SARVAM), "model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"]}


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


_MINICPM = {"2.5": "llama", "2.6": "qwen2", "4.0": "llama", "4.5": "qwen3"}
"""Whose language model each version of MiniCPM-V has (`modeling_minicpmv.py`); files before 2.6 name none."""
_VISION = ("vision_config", "slice_config", "auto_map", "architectures", "model_type")


_SOUND = ("audio_config", "tts_config", "init_audio", "init_tts", "init_vision")


def _minicpm_omni(config: Config) -> Config:
    """MiniCPM-o: MiniCPM-V of the same version with Whisper's encoder (`minicpmo.py` of vllm)."""
    return {**_minicpm({key: value for key, value in config.items() if key not in _SOUND}), "model_type": "minicpmv"}


def _minicpm(config: Config) -> Config:
    """MiniCPM-V: the language model's keys are on top."""
    version = str(config.get("version", "2.5"))
    if version not in _MINICPM:
        raise ConfigError.at("model.version", "found {}; allowed: {}", shown(version), joined(", ", _MINICPM))
    text = {key: value for key, value in config.items() if key not in _VISION}
    vision = config.get("vision_config")
    tower = {**(vision if isinstance(vision, Mapping) else {}), "model_type": "siglip_vision_model"}
    return {
        **config,
        "text_config": {**text, "model_type": _MINICPM[version]},
        "vision_config": {"vision_use_head": False, **tower},
        "vision_feature_layer": None,
    }


def _deepseek_ocr(config: Config) -> Config:
    """DeepSeek-OCR, whose code transformers has under a fork's name; the older DeepSeek-VL2 has other towers."""
    text = config.get("language_config")
    if not clips(config) or not isinstance(text, Mapping):
        return config
    kept = {key: value for key, value in text.items() if key not in ("architectures", "auto_map")}
    return {"model_type": "unlimited_ocr", "text_config": {**kept, "model_type": "unlimited_ocr_text"}}


def _gated(config: Config) -> Config:
    """T5: `is_gated_act` follows from `feed_forward_proj`, and overrides it where a file has both."""
    usual = "gated-gelu" if config.get("model_type") in ("mt5", "umt5", "pop2piano") else "relu"
    form, gated = config.get("feed_forward_proj", usual), config.get("is_gated_act")
    if not isinstance(form, str) or not isinstance(gated, bool):
        return config
    plain = form.removeprefix("gated-")
    return {**config, "feed_forward_proj": f"gated-{plain}" if gated else plain}


def _encodes(config: Config) -> Config:
    """Resolve MusicGen's text encoder, a T5."""
    text = config.get("text_encoder")
    return {**config, "text_encoder": _gated(text)} if isinstance(text, Mapping) else config


_NOMIC = {
    "n_embd": "hidden_size",
    "n_head": "num_attention_heads",
    "n_inner": "intermediate_size",
    "n_layer": "num_hidden_layers",
    "n_positions": "max_position_embeddings",
}
_DAVIT = {"dim_embed": "embed_dim"}


def _florence(config: Config) -> Config:
    """Florence-2 as Microsoft publishes it: its tower's keys have other names, its language model is BART."""
    text, vision = config.get("text_config"), config.get("vision_config")
    if not isinstance(vision, Mapping) or "dim_embed" not in vision or not isinstance(text, Mapping):
        return config
    inside = {**text, "model_type": "bart"}
    return {
        **config,
        "text_config": inside,
        "vision_config": {**_keys(vision, _DAVIT), "model_type": "florence_vision"},
    }


def _phi3(config: Config) -> Config:
    """Phi-3-vision: CLIP's large tower, which the file only names (`image_embedding_phi3_v.py`, `CLIP_VIT_LARGE_…`)."""
    clip = {"hidden_size": 1024, "image_size": 336, "intermediate_size": 4096, "num_attention_heads": 16}
    tower = {**clip, "num_hidden_layers": 24, "patch_size": 14, "model_type": "clip_vision_model"}
    inside = {key: value for key, value in config.items() if key not in _PHI4}
    return {**config, "text_config": {**inside, "model_type": "phi3"}, "vision_config": tower}


_PHI4 = ("img_processor", "audio_processor", "embd_layer", "vision_lora", "speech_lora", "auto_map", "architectures")


def _phi4(config: Config) -> Config:
    """Phi-4-multimodal, whose converted checkpoint is transformers' `phi4_multimodal`."""
    distance = within(config, "audio_processor", "config", "relative_attention_bias_args", "t5_bias_max_distance")
    audio = {"bias_max_distance": distance} if _size(distance) else {}
    kept = {key: value for key, value in config.items() if key not in _PHI4}
    return {
        **kept,
        "model_type": "phi4_multimodal",
        "audio_config": {**audio, "model_type": "phi4_multimodal_audio"},
        "vision_config": {"model_type": "phi4_multimodal_vision"},
    }


def _named(model_type: str, cls: str | None = None) -> Callable[[Config], Config]:
    """The same keys under another `model_type`, where the file names that class."""

    def change(config: Config) -> Config:
        one = first_class(config)
        changed = [one.replace("New", "Gte", 1)] if one.startswith("New") else config.get("architectures")
        fits = cls is None or one == cls
        return {**config, "model_type": model_type, "architectures": changed} if fits else config

    return change


def _xlm(config: Config) -> Config:
    """Jina's embeddings are XLM-RoBERTa with rotations and an adapter for each task."""
    own = isinstance(config.get("lora_adaptations"), list)
    return {**config, "model_type": "jina_embeddings_v3", "architectures": ["JinaEmbeddingsV3Model"]} if own else config


_GATED_BERT = {
    "JinaBertModel": "GteModel",
    "JinaBertForMaskedLM": "GteForMaskedLM",
    "JinaBertForSequenceClassification": "GteForSequenceClassification",
    "BertModel": "GteModel",
    "BertForMaskedLM": "GteForMaskedLM",
    "BertForSequenceClassification": "GteForSequenceClassification",
}


def _biased(config: Config) -> bool:
    """Whether a BERT biases scores by distance and gates its feed-forward layer.

    Sources: `modeling_bert.py` of jinaai/jina-bert-implementation (`JinaBertGLUMLP`) and `bert_layers.py` of MosaicBERT
    (`BertGatedLinearUnitMLP`), as in hum-works/lodestone-base-4096-v1. Jina's code for programs normalizes queries.
    """
    jina = config.get("position_embedding_type") == "alibi" and config.get("feed_forward_type") in ("geglu", "reglu")
    mosaic = "alibi_starting_size" in config and isinstance(config.get("auto_map"), Mapping)
    return (jina or mosaic) and "post-norm" not in str(config.get("auto_map"))


def _colbert(config: Config) -> bool:
    """Return whether a file is ColBERT's: BERT, and a matrix for the vector of each word (`HF_ColBERT`)."""
    return config.get("architectures") == ["HF_ColBERT"]


def _bert(config: Config) -> Config:
    """BERT without a table of positions: the tensors are those of GTE. ColBERT's encoder is the bare model."""
    if _colbert(config):
        return {**config, "architectures": ["BertModel"]}
    if not _biased(config):
        return config
    named = config.get("architectures")
    one = named[0] if isinstance(named, list) and named else None
    kept = {key: value for key, value in config.items() if key not in _BIASED}
    return {**kept, "model_type": "gte", "architectures": [_GATED_BERT.get(str(one), "GteForMaskedLM")]}


_BIASED = (
    "alibi_starting_size",
    "auto_map",
    "emb_pooler",
    "feed_forward_type",
    "position_embedding_type",
    "seq_length",
)


def _pools(config: Config) -> tuple[Weight, ...]:
    """The bare model has a pooler, which GTE has not; ColBERT's first versions make vectors of 128 numbers."""
    if _colbert(config):
        wide = next((size for key in ("colbert_dim", "dim", "projection_dim") if (size := whole(config.get(key)))), 128)
        return (Weight("linear.weight", ((wide,), (whole(config.get("hidden_size"), 768),)), "head"),)
    bare = str(config.get("architectures")).endswith("Model']")
    hidden = whole(config.get("hidden_size"), 768)
    return (Weight("pooler.dense", ((matrix(hidden, hidden),),), "other"),) if bare and _biased(config) else ()


_BIDIRECTIONAL = {
    "LlamaBidirectionalModel": "LlamaModel",
    "LlamaBidirectionalForSequenceClassification": "LlamaForSequenceClassification",
}


def _bidirectional(config: Config) -> Config:
    """Llama whose words see those after them (`llama_bidirectional_model.py` of nvidia/llama-nemotron-embed-1b-v2)."""
    named = config.get("architectures")
    one = named[0] if isinstance(named, list) and named else None
    return {**config, "model_type": "llama", "architectures": [_BIDIRECTIONAL.get(str(one), one)]}


def _minimax_m2(config: Config) -> Config:
    """MiniMax-M2's first files have Mixtral's type; servers go by the class (vllm 0.33, models/minimax_m2.py)."""
    return {**config, "model_type": "minimax_m2"} if config.get("architectures") == ["MiniMaxM2ForCausalLM"] else config


def _wav2vec2(config: Config) -> Config:
    """audeering's files name their class `Model`; what they were trained for says which one their card has."""
    by_card = config.get("architectures") == ["Model"] and config.get("finetuning_task") == "age-gender"
    return {**config, "architectures": ["AgeGenderModel"]} if by_card else config


def own_family(config: Config) -> str | None:
    """The name of a network that has another's tensors, but code of its own."""
    kind = str(config.get("model_type"))
    if kind in _OWN:
        return kind
    if kind == "llava_llama" and "llm_cfg" in config:
        return "vila1_5"
    return "jina-bert" if kind == "bert" and _biased(config) else None


_OWN = frozenset(("Emu3", "cogvlm", "cogvlm_video", "diffusion_gemma", "gpt_neox_reward_model", "moss", "nvembed"))


_MIXFORMER = {
    "n_embd": "hidden_size",
    "n_head": "num_attention_heads",
    "n_head_kv": "num_key_value_heads",
    "n_inner": "intermediate_size",
    "n_layer": "num_hidden_layers",
    "n_positions": "max_position_embeddings",
}


def _mixformer(config: Config) -> Config:
    """Phi's first files (`configuration_mixformer_sequential.py`): what is absent or null follows from the width."""
    found = _keys({key: value for key, value in config.items() if value is not None}, _MIXFORMER)
    hidden, heads = _size(found.get("hidden_size")), _size(found.get("num_attention_heads"))
    share = _size(found.get("rotary_dim")) * heads / hidden if hidden else 0.5
    return {"intermediate_size": 4 * hidden, **found, "partial_rotary_factor": share}


_FALCON = {"n_head": "num_attention_heads", "n_head_kv": "num_kv_heads", "n_layer": "num_hidden_layers"}


def _refined(config: Config) -> Config:
    """Falcon before transformers: the larger model has key heads in groups (`modelling_RW.py`)."""
    grouped = config.get("model_type") == "RefinedWeb"
    return {**_keys(config, _FALCON), "model_type": "falcon", "new_decoder_architecture": grouped}


def _minimax(config: Config) -> Config:
    """MiniMax-Text-01 and -M1: which layers see everything (`modeling_minimax_text_01.py`)."""
    kinds = config.get("attn_type_list")
    listed = {"layer_types": [_MINIMAX.get(each, "?") for each in kinds]} if isinstance(kinds, list) else {}
    return {**config, **listed, "model_type": "minimax"}


_MINIMAX: Mapping[object, str] = {0: "linear_attention", 1: "full_attention"}
_SEEN = {
    "clip-vit-large-patch14-336": ("clip_vision_model", 1024, 336, 4096, 16, 24, 14),
    "clip-vit-large-patch14": ("clip_vision_model", 1024, 224, 4096, 16, 24, 14),
    "siglip-so400m-patch14-384": ("siglip_vision_model", 1152, 384, 4304, 16, 27, 14),
}
"""Towers that older files only name, with what their own files say."""
_SIZES_SEEN = (
    "model_type", "hidden_size", "image_size", "intermediate_size", "num_attention_heads", "num_hidden_layers",
    "patch_size",
)  # fmt: skip


def _llava(config: Config) -> Config:
    """LLaVA as its own code saves it: the tower is only named (`llava_arch.py` of haotian-liu/LLaVA)."""
    named = config.get("mm_vision_tower")
    if not isinstance(named, str):
        return config
    tower = _SEEN.get(named.rpartition("/")[2])
    if tower is None:
        raise ConfigError.at("model.mm_vision_tower", "found {}; allowed: {}", shown(named), joined(", ", _SEEN))
    check_only(config, {"mm_projector_type": "mlp2x_gelu"})
    text = {key: value for key, value in config.items() if not key.startswith("mm_")}
    kind = str(config.get("model_type")).removeprefix("llava_").replace("llava", "llama")
    newline = "unpad" in str(config.get("mm_patch_merge_type"))
    return {
        "model_type": "llava_next" if newline else "llava",
        "text_config": {**text, "model_type": kind},
        "vision_config": dict(zip(_SIZES_SEEN, tower, strict=True)),
        "vision_feature_layer": config.get("mm_vision_select_layer", -2),
        "image_grid_pinpoints": config.get("image_grid_pinpoints"),
        "tie_word_embeddings": config.get("tie_word_embeddings", False),
    }


def _checks_images(config: Config) -> bool:
    """Whether it is the safety checker of Stable Diffusion's pipelines, which has CLIP's tower alone."""
    return config.get("architectures") == ["StableDiffusionSafetyChecker"]


def _projects(config: Config) -> int:
    """The width that its tower projects to."""
    return _size(config.get("projection_dim")) or 512


def _concepts(config: Config) -> tuple[Weight, ...]:
    """Twenty concepts with a threshold each (diffusers, pipelines/stable_diffusion/safety_checker.py)."""
    if not _checks_images(config):
        return ()
    return (
        Weight("concept_embeds", ((20,), (_projects(config),)), "other"),
        Weight("concept_embeds_weights", ((20,),), "other"),
    )


def _clip(config: Config) -> Config:
    """CLIP's first files have keys of their parts twice; these win (transformers 5.23, `CLIPConfig.__post_init__`)."""
    vision = config.get("vision_config")
    if _checks_images(config) and isinstance(vision, Mapping):
        own = {"architectures": ["CLIPVisionModelWithProjection"], "projection_dim": _projects(config)}
        return {**vision, **own, "model_type": "clip_vision_model"}
    found = dict(config)
    for name in ("text_config", "vision_config"):
        given, more = config.get(name), found.pop(f"{name}_dict", None)
        if isinstance(more, Mapping):
            found[name] = {**(given if isinstance(given, Mapping) else {}), **more}
    return found


_QWEN = {
    "n_embd": "hidden_size", "n_head": "num_attention_heads", "n_layer": "num_hidden_layers",
    "ffn_hidden_size": "intermediate_size", "n_positions": "max_position_embeddings", "padded_vocab_size": "vocab_size",
}  # fmt: skip
"""Names of the first files; the vocabulary is what the code pads it to."""


def _qwen(config: Config) -> Config:
    """Qwen's first files (`configuration_qwen.py` of August 2023)."""
    return (
        {**config, **{_QWEN[key]: value for key, value in config.items() if key in _QWEN}}
        if "n_embd" in config
        else config
    )


_SPARSE = {"sparse_num_index_heads": "index_n_heads", "sparse_index_dim": "index_head_dim"}
_FREQUENT = {True: "minimax_m3_sparse", False: "full_attention"}


def _minimax_m3(config: Config) -> Config:
    """MiniMax-M3's language model (transformers 5.23, `MiniMaxM3VLTextConfig.__post_init__`)."""
    sparse, ffns = config.get("sparse_attention_config"), config.get("moe_layer_freq")
    found = {key: value for key, value in config.items() if key not in ("sparse_attention_config", "moe_layer_freq")}
    if isinstance(sparse, Mapping):
        found |= {_SPARSE[key]: value for key, value in sparse.items() if key in _SPARSE}
        listed = sparse.get("sparse_attention_freq")
        found |= {"layer_types": [_FREQUENT[bool(each)] for each in listed]} if isinstance(listed, list) else {}
    if isinstance(ffns, list):
        found["mlp_layer_types"] = ["sparse" if each else "dense" for each in ffns]
    return {**found, "architectures": ["MiniMaxM3VLForCausalLM"], "model_type": "minimax_m3_vl_text"}


def _minimax_m3_vl(config: Config) -> Config:
    """The same keys within a file that has the tower, too."""
    text = config.get("text_config")
    if not isinstance(text, Mapping):
        return config
    return {**config, "text_config": {**_minimax_m3(text), "architectures": None}}


_NOT_TEXT = ("architectures", "auto_map", "model_type", "vision_config", "image_token_id", "quantization_config")


def _flat(kind: str) -> Callable[[Config], Config]:
    """A composite whose language model's keys are on top; transformers ties the head then, whatever the file says."""

    def change(config: Config) -> Config:
        if "text_config" in config:
            return config
        text = {key: value for key, value in config.items() if key not in (*_NOT_TEXT, "tie_word_embeddings")}
        kept = {key: value for key, value in config.items() if key in _NOT_TEXT}
        vision = config.get("vision_config")
        tower = {**vision, "model_type": f"{kind}_vision"} if isinstance(vision, Mapping) else {}
        return {**kept, "text_config": {**text, "model_type": f"{kind}_text"}, "vision_config": tower}

    return change


def _chatglm(config: Config) -> Config:
    """The first ChatGLM is another network than those after it; transformers of its time ties a head by default."""
    first = {"tie_word_embeddings": True, **config, "model_type": "chatglm-6b"}
    return first if "inner_hidden_size" in config else config


_UNIFIED = {"hidden_size_per_layer_input": 0, "max_position_embeddings": 262_144, "sliding_window": 1024}
"""What an absent key means where that is other than in Gemma 4's class."""


def _gemma4_unified(config: Config) -> Config:
    """Gemma 4 without towers: its decoder is Gemma 4's (transformers 5.23, models/gemma4_unified).

    The derived rows are proved for text alone, with values of their own.
    """
    text = config.get("text_config")
    inside = text if isinstance(text, Mapping) else config
    parts = (config.get("vision_config"), config.get("audio_config"))
    if not inside.get("attention_k_eq_v") and not any(isinstance(each, Mapping) for each in parts):
        return config
    if config.get("model_type") == "gemma4_unified_text":
        return {**_UNIFIED, **config, "model_type": "gemma4_text", "architectures": None}
    kept = {key: value for key, value in config.items() if key not in ("vision_config", "audio_config")}
    inside = {**_UNIFIED, **(text if isinstance(text, Mapping) else {}), "model_type": "gemma4_text"}
    return {**kept, "model_type": "gemma4", "text_config": inside, "architectures": None}


_RENAMED: Mapping[str, Callable[[Config], Config]] = {
    "aria": aria,
    "bloom": lambda config: _keys(config, {"n_embed": "hidden_size"}),
    "chatglm": _chatglm,
    **dict.fromkeys(("gemma4_unified", "gemma4_unified_text"), _gemma4_unified),
    **dict.fromkeys(("clip", "chinese_clip", "altclip", "clipseg", "clap", "groupvit", "owlvit"), _clip),
    **dict.fromkeys(("RefinedWeb", "RefinedWebModel"), _refined),
    **dict.fromkeys(("minimax_text_01", "minimax_m1"), _minimax),
    **dict.fromkeys(("llava", "llava_llama", "llava_mistral", "llava_qwen2"), _llava),
    "nemotron-nas": _blocks,
    **dict.fromkeys(("internvl_chat", "skywork_chat", "h2ovl_chat"), _intern),
    **dict.fromkeys(("longcat_flash", "longcat_flash_ngram"), longcat),
    "sarvam_mla": _sarvam,
    "mixtral": _minimax_m2,
    "bailing_hybrid": with_lightning,
    "interns1": interns1,
    "interns1_pro": interns1_pro,
    "opencua": opencua,
    "qwen": _qwen,
    **dict.fromkeys(("minimax_m3", "minimax_m3_text"), _minimax_m3),
    "minimax_m3_vl": _minimax_m3_vl,
    "ernie4_5_moe_vl": lambda config: _flat("ernie4_5_vl_moe")(ernie_vl(config)),
    "hunyuan_vl": _flat("hunyuan_vl"),
    "blt": blt,
    "ovis": ovis,
    "Emu3": emu3,
    "diffusion_gemma": diffusion_gemma,
    "GOT": got,
    **dict.fromkeys(("glm5_next", "glm5_next_text"), glm5_next),
    "llada": llada,
    "vlm": hyperclova,
    "qwen3_asr": qwen3_asr,
    **dict.fromkeys(("qwen4_exp", "qwen4_exp_text"), qwen4_exp),
    "paddleocr_vl": _flat("paddleocr_vl"),
    "kimi_k25": _kimi,
    "minicpmv": _minicpm,
    "minicpmo": _minicpm_omni,
    "phi3small": lambda config: {"tie_word_embeddings": True, **config},
    "minicpm": lambda config: {"tie_word_embeddings": True, **config},
    **dict.fromkeys(("deepseek_vl_v2", "DeepseekOCR"), _deepseek_ocr),
    "florence2": _florence,
    **dict.fromkeys(("step3p5", "step3p7"), step),
    "mimo_v2": _named("mimo_v2_flash"),
    "switch_transformers": stepped,
    **dict.fromkeys(("t5", "mt5", "umt5", "longt5", "udop", "pop2piano"), _gated),
    **dict.fromkeys(("musicgen", "musicgen_melody"), _encodes),
    "nomic_bert": lambda config: _keys(config, _NOMIC) if "n_embd" in config else config,
    "phi3_v": _phi3,
    "phi4mm": _phi4,
    "new": _named("gte"),
    "git": _named("grok-2", "Grok1ForCausalLM"),
    "xlm-roberta": _xlm,
    "bert": _bert,
    "llama_bidirec": _bidirectional,
    "wav2vec2": _wav2vec2,
    "moss": lambda config: {**config, "model_type": "codegen", "architectures": ["CodeGenForCausalLM"]},
    "gpt_neox_reward_model": lambda config: {**config, "model_type": "gpt_neox"},
    "mixformer-sequential": _mixformer,
}


def contradictions(config: Config) -> tuple[Message, ...]:
    """What a file says twice, differently."""
    return tuple(contradicted(config)) if config.get("model_type") == "switch_transformers" else ()


_PUBLISHED: Mapping[str, Callable[[Config], Mapping[str, int]]] = {
    "GOT": lambda config: {"head": _size(config.get("vocab_size")) * _size(config.get("hidden_size"))},
    "paddleocr_vl": lambda config: paddle(config) if "text_config" not in config else {},
}


def published(config: Config) -> Mapping[str, int]:
    """What the checkpoint that a file describes holds besides its network, in elements."""
    row, found = counted(config), _PUBLISHED.get(str(config.get("model_type")))
    return row.published(config) if row else found(config) if found else {}


def extra_weights(config: Config) -> tuple[Weight, ...]:
    """What a published checkpoint holds besides the network that `renamed` says it is: its code builds it too."""
    row, found = counted(config), _EXTRA_WEIGHTS.get(str(config.get("model_type")))
    if row is not None:
        return tuple(row.towers(config))
    return found(config) if found else ()


def _unused_patches(config: Config) -> tuple[Weight, ...]:
    """CLIP's patches, in whose place those of SAM are read (`deepencoder.py`)."""
    if not clips(config):
        return ()
    return (Weight("model.vision_model.embeddings.patch_embedding.weight", ((1024,), (3, 14, 14)), "tower"),)


def _phi4_adapters(config: Config) -> tuple[Weight, ...]:
    """A LoRA for images and one for speech on every matrix of the decoder, and the statistics of sounds."""
    sizes = [_size(config.get(key)) for key in ("hidden_size", "intermediate_size", "num_hidden_layers")]
    heads, keys = _size(config.get("num_attention_heads")), _size(config.get("num_key_value_heads"))
    ranks = [_size(within(config, f"{each}_lora", "r")) for each in ("vision", "speech")]
    if not heads or not all(sizes) or sum(ranks) > sizes[0]:
        return ()
    hidden, wide, layers = sizes
    attention = hidden // heads * (heads + 2 * (keys or heads)) + 3 * hidden
    count = sum(ranks) * layers * (attention + 2 * wide + wide + 2 * hidden)
    statistics = 2 * (_size(within(config, "audio_processor", "config", "input_size")) or 80)
    return (Weight("lora", ((count,),), "other"), Weight("audio_embed.statistics", ((statistics,),), "tower"))


_GEMMA3N_TOWERS = 983_281_504
"""Parameters of MobileNet v5 (300M), the audio encoder and what leads out of both: the published checkpoints of E2B
(5,439,438,272) and E4B (7,849,978,192) less their language models and the keys and values of layers that share them."""


def _gemma3n_towers(config: Config) -> tuple[Weight, ...]:
    """Both sizes have the same towers, whose network is timm's."""
    vision = within(config, "vision_config", "architecture") or "mobilenetv5_300m_enc"
    whole = isinstance(config.get("vision_config"), Mapping) and isinstance(config.get("audio_config"), Mapping)
    if not whole or vision != "mobilenetv5_300m_enc":
        return ()
    return (Weight("model.towers", ((_GEMMA3N_TOWERS,),), "tower"),)


def _jina_adapters(config: Config) -> tuple[Weight, ...]:
    """A LoRA for each task on every matrix, the embeddings' too (`modeling_lora.py`)."""
    tasks, rank = config.get("lora_adaptations"), _size(config.get("lora_rank"))
    names = ("hidden_size", "intermediate_size", "num_hidden_layers", "vocab_size")
    hidden, wide, layers, words = (_size(config.get(name)) for name in names)
    if not isinstance(tasks, list) or not layers or rank > hidden:
        return ()
    inside = layers * (6 * hidden + 2 * (hidden + wide))
    around = words + hidden + _size(config.get("type_vocab_size")) + hidden + 2 * hidden
    return (Weight("lora", ((len(tasks) * rank * (inside + around),),), "other"),)


_EXTRA_WEIGHTS: Mapping[str, Callable[[Config], tuple[Weight, ...]]] = {
    **dict.fromkeys(("longcat_flash", "longcat_flash_ngram"), longcat_more),
    **dict.fromkeys(("deepseek_vl_v2", "DeepseekOCR"), _unused_patches),
    "clip": _concepts,
    "diffusion_gemma": lambda config: (*gemma4(config), *more) if (more := conditions(config)) else (),
    "gemma3n": _gemma3n_towers,
    "minicpmo": lambda config: tuple(minicpm(config)),
    "gemma4": lambda config: tuple(gemma4(config)),
    "gemma4_unified": lambda config: tuple(gemma4_unified(config)),
    "phi4mm": _phi4_adapters,
    "qwen3_asr": times,
    **dict.fromkeys(("qwen4_exp", "qwen4_exp_text"), lambda config: tuple(grams(config))),
    "xlm-roberta": _jina_adapters,
    "bert": _pools,
}
