"""Settings of inference servers, as they name them on their command lines."""

from __future__ import annotations

from dataclasses import dataclass

from memcore.config.kinds import Choice, Flag, Integer, Listed, Number, Text
from memcore.trainers.pytorch.settings import NativeFlags
from memcore.config.schema import setting
from memcore.serving.gguf_types import BLOCK_TYPES

_VLLM, _SGLANG, _TRT, _CPP = ("vllm",), ("sglang",), ("tensorrt-llm",), ("llama.cpp",)
_GGML = Listed("ggml types", {name.lower(): name for name in BLOCK_TYPES})


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFlags(NativeFlags):
    """What servers can be told besides the job itself."""

    gpu_memory_utilization: float | None = setting(
        Number(0.01, 1),
        "GPU memory utilization",
        "The share of the GPU that one vLLM instance may use: weights, activations and the cache that is left.",
        flag="gpu-memory-utilization",
        engines=_VLLM,
        default="0.92; 0.9 before 0.20",
    )
    max_num_seqs: int | None = setting(
        Integer(unit="sequences"), "Most sequences in a step",
        "The same as inference.max_num_seqs, where a file has it here.",
        flag="engine-max-seqs", engines=("vllm", "sglang", "tensorrt-llm"), advanced=True,
    )  # fmt: skip
    block_size: int | None = setting(
        Integer(unit="tokens"), "Block size", "The same as inference.block_size, where a file has it here.",
        flag="engine-block-size", engines=("vllm", "sglang", "tensorrt-llm"), advanced=True,
    )  # fmt: skip
    kv_cache_memory_bytes: int | None = setting(
        Integer(unit="bytes"),
        "KV cache size",
        "The cache's size, instead of what is left below the utilization.",
        flag="kv-cache-memory",
        engines=_VLLM,
        default="what is left",
        advanced=True,
    )
    max_num_batched_tokens: int | None = setting(
        Integer(unit="tokens"),
        "Most tokens in a step",
        "Tokens that one step computes; longer prompts are split. Profiling runs with so many.",
        flag="max-batched-tokens",
        engines=_VLLM,
        default="8192 from 70 GiB on (not A100), 16384 from 160 GiB on, else 2048",
    )
    enforce_eager: bool | None = setting(
        Flag(), "No CUDA graphs", "Run without CUDA graphs and compilation.", flag="enforce-eager", engines=_VLLM,
        default="false", advanced=True,
    )  # fmt: skip
    enable_prefix_caching: bool | None = setting(
        Flag(),
        "Prefix caching",
        "Blocks of equal prefixes are shared; the pool is as large, but holds more.",
        flag="prefix-caching",
        engines=_VLLM,
        default="true",
        advanced=True,
    )
    enable_expert_parallel: bool | None = setting(
        Flag(),
        "Expert parallel",
        "Whole experts on each rank instead of a part of every expert.",
        flag="enable-expert-parallel",
        engines=("vllm", "sglang"),
        default="false",
        advanced=True,
    )
    disable_hybrid_kv_cache_manager: bool | None = setting(
        Flag(),
        "No hybrid cache manager",
        "Layers with windows cache everything, as if they attended to all of it.",
        flag="no-hybrid-cache",
        engines=_VLLM,
        default="false; true for chunked attention before 0.20",
        advanced=True,
    )
    quantization: str | None = setting(
        Text(),
        "Server's quantization",
        "The name under which the server knows the weight format; for the record, inference.quantization decides.",
        flag="server-quantization",
        engines=("vllm", "sglang", "tensorrt-llm"),
        advanced=True,
    )
    mem_fraction_static: float | None = setting(
        Number(0.01, 1),
        "Static memory fraction",
        "SGLang's share of the GPU for weights and the cache pool; activations and graphs live outside of it.",
        flag="mem-fraction-static",
        engines=_SGLANG,
        default="by SGLang's rule from the GPU, the chunk size and the graphs",
    )
    chunked_prefill_size: int | None = setting(
        Integer(unit="tokens"),
        "Chunked prefill",
        "Tokens of a prompt that one step computes.",
        flag="chunked-prefill-size",
        engines=_SGLANG,
        default="2048, 4096, 8192 or 16384 by GPU memory",
        advanced=True,
    )
    cuda_graph_max_bs: int | None = setting(
        Integer(unit="sequences"),
        "Largest graph",
        "The largest batch for which a CUDA graph is captured.",
        flag="cuda-graph-max-bs",
        engines=_SGLANG,
        default="by GPU memory",
        advanced=True,
    )
    swa_full_tokens_ratio: float | None = setting(
        Number(0.01, 1),
        "Window pool",
        "Tokens of the pool for layers with windows, as a share of the other pool's.",
        flag="swa-full-tokens-ratio",
        engines=_SGLANG,
        default="0.8",
        advanced=True,
    )
    mamba_full_memory_ratio: float | None = setting(
        Number(0.01, 100),
        "State pool",
        "Bytes of the pool of recurrent states, as a share of the token pool's.",
        flag="mamba-full-memory-ratio",
        engines=_SGLANG,
        default="0.9",
        advanced=True,
    )
    enable_dp_attention: bool | None = setting(
        Flag(),
        "Data-parallel attention",
        "Attention is replicated over data-parallel ranks inside the tensor-parallel group; each has its own pool.",
        flag="dp-attention",
        engines=_SGLANG,
        default="false",
        advanced=True,
    )
    free_gpu_memory_fraction: float | None = setting(
        Number(0.01, 1),
        "Cache fraction",
        "TensorRT-LLM's share of the memory that is free after loading for the cache pool.",
        flag="free-gpu-memory-fraction",
        engines=_TRT,
        default="0.9",
    )
    max_num_tokens: int | None = setting(
        Integer(unit="tokens"), "Most tokens in a step", "Tokens that one step computes.", flag="max-num-tokens",
        engines=_TRT, default="8192", advanced=True,
    )  # fmt: skip
    n_gpu_layers: int | None = setting(
        Integer(minimum=0), "Layers on GPUs",
        "-ngl: layers from the last one on that are on GPUs; the head counts as one.",
        flag="n-gpu-layers", engines=_CPP, default="all",
    )  # fmt: skip
    n_batch: int | None = setting(
        Integer(unit="tokens"), "Batch", "-b: tokens that are given to the context at once.", flag="n-batch",
        engines=_CPP, default="2048", advanced=True,
    )  # fmt: skip
    n_ubatch: int | None = setting(
        Integer(unit="tokens"), "Micro-batch", "-ub: tokens that are computed at once; it sizes the compute buffer.",
        flag="n-ubatch", engines=_CPP, default="512", advanced=True,
    )  # fmt: skip
    flash_attn: bool | None = setting(
        Flag(), "Flash attention", "-fa: attention scores are not kept.", flag="flash-attn", engines=_CPP,
        default="true", advanced=True,
    )  # fmt: skip
    cache_type_k: str | None = setting(
        _GGML, "Key cache type", "-ctk: how keys are cached.", flag="cache-type-k", engines=_CPP, default="f16",
        advanced=True,
    )  # fmt: skip
    cache_type_v: str | None = setting(
        _GGML, "Value cache type", "-ctv: how values are cached.", flag="cache-type-v", engines=_CPP, default="f16",
        advanced=True,
    )  # fmt: skip
    kv_unified: bool | None = setting(
        Flag(), "Unified cache", "-kvu: one cache for all sequences instead of a part for each.", flag="kv-unified",
        engines=_CPP, default="false", advanced=True,
    )  # fmt: skip
    swa_full: bool | None = setting(
        Flag(), "Full window cache", "--swa-full: layers with windows cache the whole context.", flag="swa-full",
        engines=_CPP, default="false", advanced=True,
    )  # fmt: skip
    split_mode: str | None = setting(
        Choice(("none", "layer", "row"), {"layer": "layers are shared out", "row": "matrices are"}),
        "Split mode", "-sm: how several GPUs share a model.", flag="split-mode", engines=_CPP, default="layer",
        advanced=True,
    )  # fmt: skip
    n_cpu_moe: int | None = setting(
        Integer(minimum=0), "Experts on the host",
        "--n-cpu-moe: the first so many layers keep their experts on the host.",
        flag="n-cpu-moe", engines=_CPP, default="0", advanced=True,
    )  # fmt: skip
    mla: int | None = setting(
        Integer(0, 3), "MLA mode", "-mla of ik_llama.cpp: how latent attention is cached.", flag="mla", engines=_CPP,
        default="latent", advanced=True,
    )  # fmt: skip
    fork: str | None = setting(
        Text(), "Fork", "Which llama.cpp: mainline or ik_llama.cpp.", flag="fork", engines=_CPP, default="mainline",
        advanced=True,
    )  # fmt: skip
