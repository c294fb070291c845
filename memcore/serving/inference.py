"""Settings of what a server generates, and how it stores weights and caches."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.kinds import Choice, Flag, Integer, Listed, ModelName
from memcore.config.schema import Section, setting
from memcore.dtypes import FLOATING
from memcore.messages import Message
from memcore.serving.formats import FORMATS
from memcore.serving.gguf_mixes import ALIASES, FILE_TYPES
from memcore.serving.gguf_types import BLOCK_TYPES

METHODS: Mapping[str, str] = {
    "mtp": "the checkpoint's own multi-token prediction layers",
    "eagle": "EAGLE: one decoder layer on the last hidden state",
    "eagle3": "EAGLE-3: one decoder layer on three hidden states, with a small head",
    "medusa": "Medusa: extra prediction heads",
    "dflash": "DFlash: a few decoder layers that draft a block at once",
    "ngram": "n-gram lookup in the prompt; no weights",
    "draft": "a smaller draft model",
}
"""How tokens are proposed."""

POOLED = ("vllm", "sglang", "tensorrt-llm", "tgi", "lmdeploy")
"""Servers that set memory aside for all sequences together."""
_SPECULATING = ("vllm", "sglang", "tensorrt-llm", "llama.cpp")
"""Servers whose speculative decoding is supported."""

QUANTIZATIONS: Mapping[str, str] = {
    **{name: Message("{}, not quantized", name) for name in ("fp32", "bf16", "fp16")},
    **{name: each.title for name, each in FORMATS.items()},
    **{name.lower(): f"GGUF {name}" for name in (*FILE_TYPES, *ALIASES, *BLOCK_TYPES)},
}
"""Every format of weights with its title; GGUF file types are those of llama.cpp."""

CACHE_DTYPES = Choice(
    (
        "auto", "fp32", "bf16", "fp16", "fp8", "fp8_ds_mla", "int8", "int4", "nvfp4",
        "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl",
    ),
    {
        "auto": "the model's dtype",
        "fp8_ds_mla": "656 bytes per token's latent vector (sparse attention in vLLM)",
        "int8": "with one fp32 scale per token and head",
        "int4": "with one fp32 scale per token and head",
        "q8_0": "ggml blocks of 32 values with an fp16 scale (llama.cpp)",
    },
)  # fmt: skip


CHAT = 8192
"""Tokens of a sequence where nobody says how many: few chats use all that a model allows, which servers would take.

LM Studio and Ollama begin with 4,096 (ollama, docs/context-length.mdx: below 24 GiB of GPU memory); vLLM's guide sets
8,192 where memory is short (vllm, docs/configuration/conserving_memory.md).
"""


class Inference(Section, path="inference"):
    """What is generated, for how many."""

    batch_size = setting(
        Integer(unit="sequences"),
        "Sequences at once",
        "Sequences in memory at the same time: a batch, or concurrent users of a server.",
        flag="batch",
        aliases=("users",),
        common=True,
        default="1",
    )
    prompt_length = setting(
        Integer(unit="tokens"),
        "Prompt",
        "Tokens per prompt.",
        flag="prompt",
        default="the longest sequence minus the output",
    )
    output_length = setting(
        Integer(unit="tokens"), "Output", "Tokens generated per prompt.", flag="output", default="128"
    )
    max_model_len = setting(
        Integer(unit="tokens"),
        "Longest sequence",
        "Longest sequence that the server accepts: prompt plus output.",
        flag="max-len",
        aliases=("context",),
        common=True,
        default="prompt plus output, otherwise the model's maximum",
    )
    mean_length = setting(
        Integer(unit="tokens"),
        "Mean sequence",
        "Average tokens per user. The cache pool is shared, so more users fit than at full length.",
        flag="mean-len",
        default="half the longest",
    )
    max_num_seqs = setting(
        Integer(unit="sequences"),
        "Max sequences per step",
        "Max sequences per scheduler step; sizes the sampler's logits.",
        flag="max-seqs",
        common=True,
        engines=POOLED,
        default="the server's, by GPU memory",
    )
    weight_dtype = setting(
        Choice(FLOATING),
        "Weight dtype",
        "Dtype of everything that is not quantized.",
        flag="weight-dtype",
        default="the checkpoint's, otherwise bf16",
    )
    quantization = setting(
        Listed("weight formats", QUANTIZATIONS),
        "Weight format",
        "Weight format of the matrices; GGUF types are for llama.cpp.",
        flag="quantization",
        common=True,
        default="from the checkpoint's quantization_config, otherwise none",
    )
    kv_cache_dtype = setting(
        CACHE_DTYPES, "KV cache dtype", "Dtype of the KV cache.", flag="kv-dtype", common=True, default="auto"
    )
    block_size = setting(
        Integer(unit="tokens"),
        "Block size",
        "Tokens per KV-cache block; a sequence occupies whole blocks.",
        flag="block-size",
        engines=POOLED,
        default="vLLM 16 (64 for latent attention), SGLang 1, TensorRT-LLM 32",
        advanced=True,
    )
    use_cache = setting(
        Flag(),
        "KV cache",
        "Cache keys and values between tokens; without a cache, every token recomputes the whole sequence.",
        flag="cache",
        engines=("transformers",),
        default="true",
        advanced=True,
    )
    draft_model = setting(
        ModelName(),
        "Draft model",
        "Smaller model that drafts tokens, by its id or config.json; adds its weights and cache.",
        flag="draft",
        engines=("vllm", "sglang", "llama.cpp"),
        default="none",
        advanced=True,
    )
    speculative_method = setting(
        Choice(tuple(METHODS), METHODS),
        "Speculative method",
        "Speculative decoding method; adds the draft's weights and cache.",
        flag="speculative-method",
        engines=_SPECULATING,
        default="mtp if the family has such layers, otherwise ngram; draft with a draft model",
        advanced=True,
    )
    num_speculative_tokens = setting(
        Integer(unit="tokens"),
        "Draft tokens",
        "Tokens drafted and verified per step.",
        flag="speculative-tokens",
        engines=_SPECULATING,
        default="none, or with a draft model 5, llama.cpp 3",
        advanced=True,
    )
    max_loras = setting(
        Integer(unit="adapters"),
        "LoRA slots",
        "LoRA adapters in GPU memory at the same time.",
        flag="max-loras",
        engines=("vllm", "sglang"),
        default="none",
        advanced=True,
    )
    max_lora_rank = setting(
        Integer(),
        "LoRA rank",
        "Highest adapter rank; every LoRA slot has this size.",
        flag="max-lora-rank",
        former="lora-rank",
        engines=("vllm", "sglang"),
        default="16",
        advanced=True,
    )
    images_per_sequence = setting(
        Integer(minimum=0, unit="images"),
        "Images",
        "Images per prompt, for models with a vision tower; 0 skips the tower in the profiling run.",
        flag="prompt-images",
        engines=("vllm", "transformers"),
        default="what the server profiles with",
        advanced=True,
    )
    sleep_level = setting(
        Integer(0, 2),
        "Sleep level",
        "State while another job uses the GPU: 0 awake, 1 weights moved to the host, 2 weights dropped; 1 "
        "and 2 drop the cache.",
        flag="sleep-level",
        engines=("vllm",),
        default="none",
        advanced=True,
    )


LENGTHS = (Inference.max_model_len, Inference.prompt_length, Inference.output_length, Inference.mean_length)
"""Settings of which any one says how long sequences are."""


def usual_length(tokens: int = CHAT) -> str:
    """Return what is said of sequences whose length is assumed."""
    return Message("sequences of {:,} tokens, usual for chats; set it with --max-len", tokens)
