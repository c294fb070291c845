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
    "mtp": "the checkpoint's own layers that predict further tokens",
    "eagle": "a decoder layer that reads the last hidden state",
    "eagle3": "a decoder layer that reads three hidden states, with a small head of its own",
    "medusa": "heads of their own",
    "ngram": "lookup in the prompt, without weights",
    "draft": "a smaller model",
}
"""How tokens are proposed."""

POOLED = ("vllm", "sglang", "tensorrt-llm")
"""Servers that set memory aside for all sequences together."""

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
        "fp8_ds_mla": "656 bytes for a token's latent vector (sparse attention in vLLM)",
        "int8": "with an fp32 scale for each token and head",
        "int4": "with an fp32 scale for each token and head",
        "q8_0": "ggml's blocks of 32 with an fp16 scale (llama.cpp)",
    },
)  # fmt: skip


class Inference(Section, path="inference"):
    """What is generated, for how many."""

    batch_size = setting(
        Integer(unit="sequences"),
        "Sequences at once",
        "Sequences in memory at the same time: a batch, or users of a server whose answers are being written.",
        flag="batch",
        default="1",
    )
    prompt_length = setting(
        Integer(unit="tokens"),
        "Prompt",
        "Tokens of a prompt.",
        flag="prompt",
        default="the longest sequence less the output",
    )
    output_length = setting(
        Integer(unit="tokens"), "Output", "Tokens that are generated for a prompt.", flag="output", default="128"
    )
    max_model_len = setting(
        Integer(unit="tokens"),
        "Longest sequence",
        "Tokens of prompt and output together that the server allows.",
        flag="max-len",
        common=True,
        default="prompt and output, else the model's maximum",
    )
    mean_length = setting(
        Integer(unit="tokens"),
        "Mean sequence",
        "Tokens that a user's sequence has on average; a pool is shared, so more users fit than at the longest.",
        flag="mean-len",
        default="half of the longest",
    )
    max_num_seqs = setting(
        Integer(unit="sequences"),
        "Most sequences in a step",
        "Sequences that the scheduler puts into one step; it sizes the sampler's logits.",
        flag="max-seqs",
        common=True,
        engines=POOLED,
        default="the server's, by GPU memory",
    )
    weight_dtype = setting(
        Choice(FLOATING),
        "Weight dtype",
        "The dtype of what is not quantized.",
        flag="weight-dtype",
        default="the checkpoint's, else bf16",
    )
    quantization = setting(
        Listed("weight formats", QUANTIZATIONS),
        "Weight format",
        "How matrices are stored; GGUF types are for llama.cpp.",
        flag="quantization",
        common=True,
        default="what the checkpoint's quantization_config says, else none",
    )
    kv_cache_dtype = setting(
        CACHE_DTYPES, "KV cache dtype", "How keys and values are cached.", flag="kv-dtype", common=True, default="auto"
    )
    block_size = setting(
        Integer(unit="tokens"),
        "Block size",
        "Tokens in a block of the cache; a sequence takes whole blocks.",
        flag="block-size",
        engines=POOLED,
        default="vLLM 16 (64 for latent attention), SGLang 1, TensorRT-LLM 32",
        advanced=True,
    )
    use_cache = setting(
        Flag(),
        "KV cache",
        "Keep keys and values between tokens; without it every token runs the whole sequence again.",
        flag="cache",
        engines=("transformers",),
        default="true",
        advanced=True,
    )
    draft_model = setting(
        ModelName(),
        "Draft model",
        "A smaller model that proposes tokens, by its id or config.json; its weights and cache come on top.",
        flag="draft",
        engines=("vllm", "sglang"),
        default="none",
        advanced=True,
    )
    speculative_method = setting(
        Choice(tuple(METHODS), METHODS),
        "Proposals by",
        "How tokens are proposed that one step checks; weights and cache of it come on top.",
        flag="speculative-method",
        engines=("vllm", "sglang"),
        default="mtp where the family has such layers, else ngram; draft with a draft model",
        advanced=True,
    )
    num_speculative_tokens = setting(
        Integer(unit="tokens"),
        "Proposed tokens",
        "Tokens that are proposed and checked in one step.",
        flag="speculative-tokens",
        engines=("vllm", "sglang"),
        default="none, or 5 with a draft model",
        advanced=True,
    )
    max_loras = setting(
        Integer(unit="adapters"),
        "LoRA slots",
        "Adapters that are in GPU memory at the same time.",
        flag="max-loras",
        engines=("vllm",),
        default="none",
        advanced=True,
    )
    max_lora_rank = setting(
        Integer(),
        "LoRA rank",
        "The highest rank of an adapter; slots are as large as this.",
        flag="lora-rank",
        engines=("vllm",),
        default="16",
        advanced=True,
    )
    images_per_sequence = setting(
        Integer(minimum=0, unit="images"),
        "Images",
        "Images of a prompt, for models with a vision tower; 0 turns the tower's part of profiling off.",
        flag="prompt-images",
        engines=("vllm", "transformers"),
        default="what the server profiles with",
        advanced=True,
    )
    sleep_level = setting(
        Integer(0, 2),
        "Sleep level",
        "While another job has the GPU: 0 stays awake, 1 moves weights to the host, 2 drops them; both drop the cache.",
        flag="sleep-level",
        engines=("vllm",),
        default="none",
        advanced=True,
    )
