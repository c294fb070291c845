"""Which networks TGI runs: its own, and those that transformers loads for it with AutoModelForCausalLM or -Seq2SeqLM.

Sources: text-generation-inference 3.3 (db931fc), server/text_generation_server/models/__init__.py (`ModelType`,
`get_model`, which raises "Unsupported model type" for all others) and server/uv.lock, whose transformers is 4.51.0:
models/auto/modeling_auto.py (`MODEL_FOR_CAUSAL_LM_MAPPING_NAMES`, `MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES`).
"""

from __future__ import annotations

from memcore.networks.families.remote_rows import REMOTE
from memcore.servers import registries

OWN = frozenset((
    *("deepseek_v2", "deepseek_v3", "idefics2", "idefics3", "llava_next", "llama", "llama4", "phi3", "granite"),
    *("gemma", "paligemma", "gemma2", "gemma3", "gemma3_text", "cohere", "dbrx", "mamba", "mistral", "mixtral"),
    *("gpt_bigcode", "phi", "phimoe", "baichuan", "falcon", "starcoder2", "qwen2", "qwen2_vl", "qwen2_5_vl", "opt"),
    *("t5", "bloom", "mpt", "gpt2", "gpt_neox", "gptj", "idefics", "mllama"),
))  # fmt: skip
LOADED = frozenset((
    *("aria_text", "bamba", "bart", "bert", "bert-generation", "big_bird", "bigbird_pegasus", "biogpt", "blenderbot"),
    *("blenderbot-small", "camembert", "codegen", "cohere2", "cpmant", "ctrl", "data2vec-text", "diffllama"),
    *("electra", "emu3", "encoder-decoder", "ernie", "falcon_mamba", "fsmt", "fuyu", "git", "glm", "got_ocr2"),
    *("gpt-sw3", "gpt_neo", "gpt_neox_japanese", "granitemoe", "granitemoeshared", "helium", "jamba", "jetmoe", "led"),
    *("llama4_text", "longt5", "m2m_100", "mamba2", "marian", "mbart", "megatron-bert", "moshi", "mt5", "musicgen"),
    *("musicgen_melody", "mvp", "nemotron", "nllb-moe", "olmo", "olmo2", "olmoe", "openai-gpt", "pegasus"),
    *("pegasus_x", "persimmon", "phi4_multimodal", "plbart", "prophetnet", "qwen2_audio", "qwen2_moe", "qwen3"),
    *("qwen3_moe", "recurrent_gemma", "reformer", "rembert", "roberta", "roberta-prelayernorm", "roc_bert"),
    *("roformer", "rwkv", "seamless_m4t", "seamless_m4t_v2", "stablelm", "switch_transformers", "trocr", "umt5"),
    *("whisper", "xglm", "xlm", "xlm-roberta", "xlm-roberta-xl", "xlnet", "xmod", "zamba", "zamba2"),
))  # fmt: skip


def check(family: str) -> None:
    """Refuse a network that TGI does not have; code that comes with a checkpoint is loaded like transformers' own.

    Raises UnsupportedError.
    """
    registries.check("TGI", {*OWN, *LOADED, *REMOTE}, family)
