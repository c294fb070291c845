"""Which networks vLLM runs: those of its registry, and what its Transformers backend loads.

Sources: vllm 0.33, model_executor/models/registry.py (`_VLLM_MODELS`, `_PREVIOUSLY_SUPPORTED_MODELS`,
`_OOT_SUPPORTED_MODELS`, `_try_resolve_transformers`) and transformers/base.py, which says that vLLM does not support
models with an encoder and a decoder; transformers 5.23, `PreTrainedModel.is_backend_compatible`,
`_can_set_attn_implementation` and `is_encoder_decoder`.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.engine import EngineSettings, release
from memcore.errors import UnsupportedError
from memcore.messages import Message
from memcore.networks.network import Model
from memcore.servers.elsewhere import elsewhere

ABSENT = frozenset((
    *("big_bird", "blip", "canine", "clap", "codegen", "cogvlm", "cogvlm_video", "convbert", "convnext"),
    *("convnextv2", "cpmant", "csm", "data2vec-audio", "deberta", "deberta-v2", "donut-swin", "Dream", "efficientnet"),
    *("Emu3", "encodec", "llada", "llada2_moe", "sdar", "xlstm"),
    *("flaubert", "funnel", "glm_image", "gpt_neo", "gpt_neox_japanese", "gpt_neox_reward_model", "hubert", "ibert"),
    *("jina-bert", "lasr_ctc", "layoutlmv3", "lilt", "longformer", "luke", "lxmert", "markuplm", "megatron-bert"),
    *("mixformer-sequential", "mobilenet_v2", "moss", "mpnet", "mra", "nvembed", "nystromformer", "openai-gpt"),
    *("parakeet_ctc", "parakeet_tdt", "splinter", "vision-text-dual-encoder"),
    *("perceiver", "reformer", "rembert", "resnet", "roformer", "rwkv", "segformer", "sew", "sew-d", "squeezebert"),
    *("swin", "swinv2", "tapas", "trocr", "unispeech", "unispeech-sat", "vila1_5", "vilt", "visual_bert"),
    *("voxtral_realtime_text", "wav2vec2", "wav2vec2-bert", "wav2vec2-conformer", "wavlm", "xglm", "xlm", "xlnet"),
    *("yoso",),
))  # fmt: skip
"""Types that no class of the registry runs, and whose classes have no attention to choose: transformers' own, or code
that comes with checkpoints (`modeling_mixformer_sequential.py`, `modeling_cogvlm.py`, `modeling_bert.py` of Jina); and
CSM, which generates frames of several codes, and GLM-Image's encoder, which is in vLLM-Omni's registry alone; what
reads sounds alone and is trained by CTC; and what fills in masked words instead of generating the next one."""
TWO_STACKS = frozenset((
    *("bigbird_pegasus", "blenderbot", "blenderbot-small", "canary", "dia", "encoder-decoder", "fsmt", "led", "longt5"),
    *("m2m_100", "marian", "moonshine", "mt5", "musicgen", "musicgen_melody", "mvp", "nllb-moe", "pegasus"),
    *("pegasus_x", "pix2struct", "plbart", "pop2piano", "pp_formulanet", "prophetnet", "seamless_m4t"),
    *("seamless_m4t_v2", "speech-encoder-decoder", "speech_to_text", "speecht5", "switch_transformers", "t5"),
    *("t5gemma", "t5gemma2", "udop", "umt5", "vision-encoder-decoder"),
))  # fmt: skip
"""Types with an encoder and a decoder that neither the registry nor a plugin that it names has."""
UNTIL: Mapping[str, str] = {
    "phi3small": "0.9.2",
    **dict.fromkeys(("qwen", "baichuan", "xverse", "internlm"), "0.23.0"),
    **dict.fromkeys(("grok-1", "grok-2"), "0.24.0"),
    **dict.fromkeys(("arctic", "mpt"), "0.28.0"),
}
"""The last release that has a type: later ones name it."""


BLOCKS = frozenset(("llada2_moe", "sdar"))
"""Types that fill in blocks of masked words, which SGLang runs (sglang 0.5.23, srt/models/llada2.py and sdar.py)."""


def check(model: Model, version: object) -> None:
    """Refuse a network that no release has, or that this one has no more; say what runs it.

    Raises UnsupportedError.
    """
    family = model.network.family
    if family in ABSENT:
        raise UnsupportedError("model.model_type", "vLLM does not support {!r}; {}", family, _instead(model))
    if family in TWO_STACKS:
        said = "vLLM does not support {!r}; of encoder-decoder models it runs only Whisper and a few others; {}"
        raise UnsupportedError("model.model_type", said, family, _instead(model))
    last = UNTIL.get(family)
    if last is not None and release(version) > release(last):
        said = "found {}; {} is the last release of vLLM that supports {!r}"
        raise UnsupportedError(EngineSettings.version, said, version, last, family)


def _instead(model: Model) -> Message:
    """Return what runs a network instead."""
    if model.network.family in BLOCKS:
        return Message("engine.type sglang serves it")
    return elsewhere(model)
