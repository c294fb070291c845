"""Settings of vLLM, as it names them on its command line."""

from __future__ import annotations

from memcore.config.kinds import Flag, Integer, Number
from memcore.config.schema import Section, setting

_VLLM = ("vllm",)


class VllmSettings(Section, path="engine"):
    """What vLLM can be told besides the job itself."""

    gpu_memory_utilization = setting(
        Number(0.01, 1),
        "GPU memory utilization",
        "The share of the GPU that one vLLM instance may use: weights, activations and the cache that is left.",
        flag="gpu-memory-utilization",
        common=True,
        engines=_VLLM,
        default="0.92; 0.9 before 0.20",
    )
    kv_cache_memory_bytes = setting(
        Integer(unit="bytes"),
        "KV cache size",
        "The cache's size, instead of what is left below the utilization.",
        flag="kv-cache-memory",
        engines=_VLLM,
        default="what is left",
        advanced=True,
    )
    max_num_batched_tokens = setting(
        Integer(unit="tokens"),
        "Most tokens in a step",
        "Most tokens of one step; longer prompts are split. The profiling run computes this number of tokens.",
        flag="max-batched-tokens",
        engines=_VLLM,
        default="8192 from 70 GiB on (not A100), 16384 from 160 GiB on, else 2048",
    )
    enforce_eager = setting(
        Flag(), "No CUDA graphs", "Run without CUDA graphs and compilation.", flag="enforce-eager", engines=_VLLM,
        default="false", advanced=True,
    )  # fmt: skip
    enable_prefix_caching = setting(
        Flag(),
        "Prefix caching",
        "Blocks of equal prefixes are shared; the pool is as large, but holds more.",
        flag="prefix-caching",
        engines=_VLLM,
        default="true",
        advanced=True,
    )
    disable_hybrid_kv_cache_manager = setting(
        Flag(),
        "No hybrid cache manager",
        "Layers with windows cache everything, as if they attended to all of it.",
        flag="no-hybrid-cache",
        engines=_VLLM,
        default="false; true for chunked attention before 0.20",
        advanced=True,
    )


SECTIONS = (VllmSettings,)
