"""Which networks SGLang runs: those of its registry, and what its Transformers backend loads.

Sources: sglang 0.5.23, srt/models (`EntryClass` of each file) and srt/model_loader/utils.py
(`resolve_transformers_arch`); transformers 5.23, `PreTrainedModel.is_backend_compatible` of the classes of
models/auto/modeling_auto.py.
"""

from __future__ import annotations

from memcore.errors import UnsupportedError
from memcore.networks.network import Model
from memcore.servers.elsewhere import elsewhere

ABSENT = frozenset((
    *("bailing_hybrid", "bamba", "bart", "big_bird", "bigbird_pegasus", "biogpt", "blenderbot", "blenderbot-small"),
    *("blip", "bloom", "blt", "canary", "canine", "clap", "codegen", "cogvlm", "cogvlm_video", "cohere_asr"),
    *("colpali", "convbert", "convnext", "convnextv2", "cpmant", "csm", "data2vec-audio", "deberta", "deberta-v2"),
    *("deepseek_vl", "deepseek_vl_hybrid", "dia", "donut-swin", "dpr", "Dream", "efficientnet", "Emu3", "encodec"),
    *("encoder-decoder", "evolla", "falcon", "flaubert", "florence2", "fnet", "fsmt", "funnel", "git", "glm_image"),
    *("gpt_neo", "gpt_neox_japanese", "gpt_neox_reward_model", "hubert", "ibert", "internlm", "jamba", "janus"),
    *("jina-bert", "lasr_ctc", "layoutlm", "layoutlmv3", "led", "lilt", "llada", "longformer", "longt5", "luke"),
    *("lxmert", "m2m_100", "marian", "markuplm", "mbart", "megatron-bert", "mixformer-sequential", "mobilenet_v2"),
    *("moonshine", "moonshine_streaming", "moss", "mpnet", "mpt", "mra", "mt5", "musicgen", "musicgen_melody"),
    *("mvp", "nllb-moe", "nvembed", "nystromformer", "olmo_hybrid", "openai-gpt", "PanguEmbedded", "parakeet_ctc"),
    *("parakeet_tdt", "pegasus", "pegasus_x", "perceiver", "pix2struct", "plbart", "pop2piano", "pp_formulanet"),
    *("prophetnet", "reformer", "rembert", "resnet", "roformer", "rwkv", "seamless_m4t", "seamless_m4t_v2"),
    *("segformer", "sew", "sew-d", "speech-encoder-decoder", "speech_to_text", "speecht5", "splinter"),
    *("squeezebert", "swin", "swinv2", "switch_transformers", "t5", "t5gemma", "t5gemma2", "tapas", "trocr"),
    *("udop", "umt5", "unispeech", "unispeech-sat", "vila1_5", "vilt", "vision-encoder-decoder"),
    *("vision-text-dual-encoder", "visual_bert", "voxtral_realtime_text", "wav2vec2", "wav2vec2-bert"),
    *("wav2vec2-conformer", "wavlm", "xglm", "xlm", "xlnet", "xlstm", "yoso", "zamba", "zamba2", "arctic"),
))  # fmt: skip
"""Types that no class of the registry runs, and whose classes in transformers have no attention to replace, or generate
frames of several codes (CSM) or of an image, or read sounds alone and are trained by CTC; pairs of an encoder and a
decoder of which the Transformers backend feeds only one (T5Gemma); and code of checkpoints (NV-Embed, CogVLM)."""


def check(model: Model) -> None:
    """Refuse a network that SGLang does not have; say what runs it.

    Raises UnsupportedError.
    """
    family = model.network.family
    if family in ABSENT:
        raise UnsupportedError("model.model_type", "SGLang does not support {!r}; {}", family, elsewhere(model))
