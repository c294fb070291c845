"""Which networks llama.cpp runs.

Sources: llama.cpp, conversion/__init__.py (`TEXT_MODEL_MAP`), src/llama-arch.cpp (LLM_ARCH_NAMES); transformers 5.23,
models/auto/modeling_auto.py, for the classes of a type.
"""

from __future__ import annotations

from memcore.errors import UnsupportedError
from memcore.networks.network import Layer, Network
from memcore.networks.parts import SpecialMixer

ABSENT = frozenset((
    *("albert", "bart", "bert-generation", "big_bird", "bigbird_pegasus", "biogpt", "blenderbot", "blenderbot-small"),
    *("blip", "blip-2", "canary", "chinese_clip", "clap", "codegen", "convbert", "cpmant", "ctrl", "data2vec-text"),
    *("deberta", "deberta-v2", "dia", "electra", "encoder-decoder", "ernie", "esm", "flaubert", "florence2", "fnet"),
    *("fsmt", "funnel", "fuyu", "git", "gpt_neo", "gpt_neox_japanese", "hubert", "ibert", "idefics", "idefics2"),
    *("instructblip", "kosmos-2", "layoutlm", "led", "longformer", "longt5", "luke", "m2m_100", "marian", "mbart"),
    *("megatron-bert", "minimax", "mllama", "mobilebert", "moonshine", "mpnet", "mra", "musicgen", "musicgen_melody"),
    *("mvp", "nllb-moe", "nystromformer", "openai-gpt", "opt", "pegasus", "pegasus_x", "perceiver", "pix2struct"),
    *("plbart", "pop2piano", "prophetnet", "recurrent_gemma", "reformer", "rembert", "roberta-prelayernorm"),
    *("roc_bert", "roformer", "rwkv", "seamless_m4t", "seamless_m4t_v2", "speech-encoder-decoder", "speech_to_text"),
    *("speecht5", "squeezebert", "switch_transformers", "tapas", "trocr", "udop", "vision-encoder-decoder"),
    *("wav2vec2", "wavlm", "xglm", "xlm", "xlm-roberta-xl", "xlnet", "xlstm", "xmod", "yoso", "zamba", "zamba2"),
))  # fmt: skip
"""Types none of whose classes is converted."""
UNWRITTEN = ("deepseek_v41_text", "kimi_k3_text")
"""Types whose graph is not written here: keys shared by layers, Kimi-K3's gates and attention over earlier layers."""


def check(path: str, network: Network) -> None:
    """Refuse a network that llama.cpp does not have, or whose graph is not written here.

    Raises UnsupportedError.
    """
    family = network.family
    if family in ABSENT:
        raise UnsupportedError(path, "llama.cpp has no architecture for {}; allowed: other servers", family)
    if family in UNWRITTEN or not all(map(_is_written, network.kinds)):
        raise UnsupportedError(path, "found {}; not supported yet with llama.cpp; allowed: other servers", family)


def _is_written(layer: Layer) -> bool:
    """Return whether a layer is a mixer and a feed-forward layer, or one of them; derived states have other tensors."""
    if layer.residual == "derived" and any(isinstance(part, SpecialMixer) for part in layer.mixers):
        return False
    return layer.residual.startswith("single") or bool(layer.mixers and layer.ffns)
