"""Keys without which a type's configuration class describes no network that transformers can build."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

INDEXER: Mapping[str, Any] = {
    "indexer_n_heads": 16,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 128,
    "indexer_budget": 2048,
    "indexer_compress_ratio": 4,
}
ROTARY: Mapping[str, Any] = {
    "rope_parameters.rope_type": "default",
    "rope_parameters.rope_theta": 10_000_000.0,
    "rope_parameters.partial_rotary_factor": 0.25,
}
EACH: Mapping[str, Any] = {
    "rope_parameters.full_attention.rope_type": "default",
    "rope_parameters.full_attention.rope_theta": 10_000.0,
}
STARTS: Mapping[str, Mapping[str, Any]] = {
    "aya_vision": {"vision_config.num_attention_heads": 16},
    "chameleon": {"vocabulary_map": {"<image>": 4}},
    "cohere_compass": {f"text_config.{key}": value for key, value in EACH.items()},
    "cohere_compass_text": EACH,
    "dbrx": {"attn_config.rope_theta": 10_000.0},
    "deepseek_ocr2": {"text_config.mlp_layer_types": ["dense", *["sparse"] * 11], "text_config.num_hidden_layers": 12},
    "deepseek_ocr2_text": {"mlp_layer_types": ["dense", *["sparse"] * 11], "num_hidden_layers": 12},
    "dots1": {"n_routed_experts": 128, "n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1},
    "emu3": {"vocabulary_map": {"<image>": 4}},
    "esm": {"vocab_size": 33, "pad_token_id": 1},
    "gemma4_assistant": {"text_config.hidden_size_per_layer_input": 0, "text_config.vocab_size_per_layer_input": 0},
    "granite4_vision": {"deepstack_layer_map": [[0, 0], [1, 1]], "downsample_rate": "4/8"},
    "hunyuan_v1_dense": {"head_dim": 128},
    "hunyuan_v1_moe": {"head_dim": 128},
    "hunyuan_vl": {"text_config.head_dim": 128},
    "lfm2_moe": {"layer_types": [*["conv"] * 3, *["full_attention"] * 29]},
    "ministral": {"head_dim": 128},
    "moonshine_streaming": {"num_key_value_heads": 8},
    "nemotron": {"num_key_value_heads": 8},
    "diffusion_gemma": {
        "text_config.num_experts": 128,
        "text_config.top_k_experts": 8,
        "text_config.moe_intermediate_size": 704,
    },
    "qwen3_omni_moe": {
        "talker_config.spatial_merge_size": 2,
        "talker_config.text_config.shared_expert_intermediate_size": 768,
    },
    "qwen4_exp": {f"text_config.{key}": value for key, value in {**INDEXER, **ROTARY}.items()},
    "qwen4_exp_text": {**INDEXER, **ROTARY},
    "wav2vec2-bert": {"vocab_size": 32},
    "wav2vec2-conformer": {"vocab_size": 32},
}
"""As keys with dots."""
_DECODERS = (
    *("BertLMHeadModel", "RobertaForCausalLM", "XLMRobertaForCausalLM", "CamembertForCausalLM"),
    *("ElectraForCausalLM",),
)
_DEEPSEEK_VL = ("DeepseekVLForConditionalGeneration", "DeepseekVLHybridForConditionalGeneration")
CLASSES: Mapping[str, Mapping[str, Any]] = {
    **{name: {"is_decoder": True} for name in _DECODERS},
    "ModernVBertForMaskedLM": {"text_config.classifier_bias": True, "text_config.norm_bias": True},
    "RadioModel": {"video_temporal_patch_size": 2},
    **{name: {"text_config.head_dim": 128} for name in _DEEPSEEK_VL},
}
"""Those of a class that another than its type's usual class needs: what attends to an encoder is a decoder.

The width of DeepSeek-VL's language model follows from no other key; its heads' own default would follow from it.
"""


def start_of(name: str, model_type: str) -> Mapping[str, Any]:
    """Keys without which a class describes no network, or not all that it can."""
    return CLASSES.get(name, STARTS.get(model_type, {}))


HIDING: Mapping[str, Mapping[str, Any]] = {
    "blip": {"text_config.tie_word_embeddings": False},
    "hunyuan_vl": {"text_config.tie_word_embeddings": False},
    "deberta-v2": {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
}
"""Values without which other keys change nothing, where the class's own default is another."""

LEFT: Mapping[str, tuple[str, ...]] = {
    "T5EncoderModel": ("is_decoder",),
    "UMT5EncoderModel": ("is_decoder",),
    "MT5EncoderModel": ("is_decoder",),
}
"""Keys that are left as the class has them: they would make something else of it."""

_PROJECTS = "not (decoder.hidden_size == encoder.hidden_size) and (decoder.cross_attention_hidden_size is None)"
_ADAPTED = "do_stable_layer_norm and not (adapter_attn_dim is None)"
LABELLED: Mapping[str, tuple[tuple[str, ...], ...]] = {
    **{
        name: tuple(
            (f"{prefix}encoder.layers.*.adapter_layer.{each}", _ADAPTED, *axes)
            for each, *axes in (
                ("norm.weight", "hidden_size"),
                ("norm.bias", "hidden_size"),
                ("linear_1.weight", "adapter_attn_dim", "hidden_size"),
                ("linear_1.bias", "adapter_attn_dim"),
                ("linear_2.weight", "hidden_size", "adapter_attn_dim"),
                ("linear_2.bias", "hidden_size"),
            )
        )
        for name, prefix in (("Wav2Vec2Model", ""), ("Wav2Vec2ForCTC", "wav2vec2."))
    },
    "ConvBertForMaskedLM": tuple(
        (f"convbert.encoder.layer.*.{name}.dense.weight", when, *axes)
        for name, inner, outer in (
            ("intermediate", "hidden_size", "intermediate_size"),
            ("output", "intermediate_size", "hidden_size"),
        )
        for when, *axes in (
            ("not num_groups > 1", outer, inner),
            ("num_groups > 1", "num_groups", f"({inner} // num_groups)", f"({outer} // num_groups)"),
        )
    ),
    "EsmForMaskedLM": (
        ("esm.embeddings.layer_norm.weight", "emb_layer_norm_before", "hidden_size"),
        ("esm.embeddings.layer_norm.bias", "emb_layer_norm_before", "hidden_size"),
    ),
    "SegformerForSemanticSegmentation": (
        ("decode_head.classifier.weight", "", "num_labels", "decoder_hidden_size", "1", "1"),
        ("decode_head.classifier.bias", "", "num_labels"),
    ),
    "YolosForObjectDetection": (
        ("class_labels_classifier.layers.2.weight", "", "(num_labels + 1)", "hidden_size"),
        ("class_labels_classifier.layers.2.bias", "", "(num_labels + 1)"),
    ),
    "LayoutLMv3ForTokenClassification": (
        ("classifier.weight", "num_labels < 10", "num_labels", "hidden_size"),
        ("classifier.bias", "num_labels < 10", "num_labels"),
        ("classifier.dense.weight", "not num_labels < 10", "hidden_size", "hidden_size"),
        ("classifier.dense.bias", "not num_labels < 10", "hidden_size"),
        ("classifier.out_proj.weight", "not num_labels < 10", "num_labels", "hidden_size"),
        ("classifier.out_proj.bias", "not num_labels < 10", "num_labels"),
    ),
}
"""What depends on the number of labels, or on a key that its class leaves at None, which samples leave as they are:
name, condition, axes.

Sources: transformers 5.23, modeling_wav2vec2.py (`Wav2Vec2EncoderLayerStableLayerNorm.__init__`: MMS has adapters for
each language in its layers); modeling_convbert.py (`GroupedLinearLayer`), modeling_esm.py (`EsmEmbeddings.__init__`),
modeling_layoutlmv3.py (`LayoutLMv3ForTokenClassification`: another kind of head for ten labels and more),
modeling_segformer.py (`SegformerDecodeHead.__init__`), modeling_yolos.py (`YolosForObjectDetection.__init__`: one more
for no object).
"""
BY_WORD: Mapping[str, tuple[str, str, str]] = {
    "xmod": (".adapter_modules.en_XX.", ".adapter_modules.language_", "languages"),
}
"""Modules that there are one of for each word of a list: as the defaults name theirs, what stands before the number of
others, the key of the list (transformers 5.23, modeling_xmod.py, `XmodOutput.__init__`)."""
_EITHERS = (*("glm4v_moe", "hunyuan_vl", "llava_next_video", "llava_onevision", "minimax_m3_vl", "video_llama_3"),)
_EITHER = {r"lm_head\.weight": "not (tie_word_embeddings or text_config.tie_word_embeddings)"}
CONDITIONS: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys(_EITHERS, _EITHER),
    **{
        kind: {r"enc_to_dec_proj\..*": _PROJECTS}
        for kind in ("vision-encoder-decoder", "speech-encoder-decoder", "encoder-decoder")
    },
    "modernvbert": {
        r"projection_head\.dense\.bias": "text_config.classifier_bias",
        r"projection_head\.norm\.bias": "text_config.norm_bias",
    },
    "radio": {r"embeddings\.video_patch_projection\..*": "not (video_temporal_patch_size is None)"},
    "chinese_clip_text_model": {r"pooler\..*": "False"},
    **{
        kind: {r"(.*\.)?masked_spec_embed": "mask_time_prob > 0 or mask_feature_prob > 0"}
        for kind in (
            *("data2vec-audio", "hubert", "sew", "sew-d", "speecht5", "unispeech", "unispeech-sat", "wav2vec2"),
            *("wav2vec2-bert", "wav2vec2-conformer", "wavlm"),
        )
    },
    "deberta": {
        r".*\.pos_proj\..*": "(relative_attention) and ('c2p' in pos_att_type)",
        r".*\.pos_q_proj\..*": "(relative_attention) and ('p2c' in pos_att_type)",
    },
}
"""Tensors whose presence depends on keys that no class declares, or on words that only some values of others allow.

Sources: transformers 5.23, modeling_vision_encoder_decoder.py (`VisionEncoderDecoderModel.__init__`) and its siblings;
modeling_deberta.py (`DisentangledSelfAttention.__init__`); modeling_chinese_clip.py (`ChineseCLIPModel.__init__`, which
makes its text model without a pooler); modeling_wav2vec2.py (`Wav2Vec2Model.__init__`) and its siblings;
modeling_radio.py (`video_patch_projection`); modeling_modernvbert.py (`ModernVBertPredictionHead`);
configuration_llava_onevision.py and its siblings (`__post_init__`: either
the whole or its language model ties the head).
"""
