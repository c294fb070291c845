"""Settings of vLLM, as it names them on its command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcore.config.engine import EngineSettings
from memcore.config.kinds import Choice, Flag, Integer, Number
from memcore.config.needs import ROUTED, Need
from memcore.config.parallelism import Parallelism
from memcore.config.schema import Section, Setting, setting
from memcore.serving.settings import NOT_SERVED

_VLLM = ("vllm",)


class VllmSettings(Section, path="engine", engines=_VLLM):
    """What vLLM can be told besides the job itself."""

    gpu_memory_utilization = setting(
        Number(0.01, 1),
        "GPU memory utilization",
        "Fraction of the GPU that vLLM may use for weights, activations and the KV cache.",
        flag="gpu-memory-utilization",
        common=True,
        default="0.92; 0.9 before 0.20",
    )
    kv_cache_memory_bytes = setting(
        Integer(unit="bytes"),
        "KV cache size",
        "Size of the KV cache, instead of what gpu_memory_utilization leaves.",
        flag="kv-cache-memory",
        default="what gpu_memory_utilization leaves",
        advanced=True,
    )
    max_num_batched_tokens = setting(
        Integer(unit="tokens"),
        "Max tokens per step",
        "Max tokens per step; longer prompts are chunked. The profiling run uses this number of tokens.",
        flag="max-batched-tokens",
        default="8192 on GPUs from 70 GiB (except A100), 16384 from 160 GiB, otherwise 2048",
    )
    enforce_eager = setting(
        Flag(), "No CUDA graphs", "Run without CUDA Graphs and compilation.", flag="enforce-eager",
        advanced=True,
    )  # fmt: skip
    max_cudagraph_capture_size = setting(
        Integer(unit="tokens"),
        "Max tokens in a CUDA graph",
        "Largest batch that is captured as a CUDA graph, in tokens.",
        flag="max-graph-tokens",
        default="twice max_num_seqs, at most 512 and max_num_batched_tokens",
        advanced=True,
    )
    cudagraph_mode = setting(
        Choice(
            ("none", "piecewise", "full", "full_decode_only", "full_and_piecewise"),
            {
                "none": "compiled, but not captured",
                "piecewise": "graphs of what lies between attention layers",
                "full": "whole steps of any requests, where the attention kernel allows it",
                "full_decode_only": "whole steps that only decode",
                "full_and_piecewise": "whole steps that only decode, and pieces of all others",
            },
        ),
        "Kind of CUDA graphs",
        "What is captured (cudagraph_mode of --compilation-config).",
        flag="graph-mode",
        default="full_and_piecewise from 0.11, before that piecewise",
        advanced=True,
    )
    compile_cache = setting(
        Flag(),
        "Compile cache kept",
        "Whether vLLM's compile cache is kept from an earlier start. A first start times kernels on an embedding "
        "table, which leaves less for the KV cache. With VLLM_DISABLE_COMPILE_CACHE=1 every start is a first one.",
        flag="compile-cache",
        default="false; the range covers later starts",
        advanced=True,
    )
    flashinfer_sampler = setting(
        Flag(),
        "FlashInfer's sampler",
        "Sample with FlashInfer, which sorts no logits (VLLM_USE_FLASHINFER_SAMPLER). The log says which sampler runs.",
        flag="flashinfer-sampler",
        default="true from 0.21; before 0.11.1 if FlashInfer is installed",
        advanced=True,
    )
    estimate_cudagraphs = setting(
        Flag(),
        "CUDA graphs in the budget",
        "Subtract the estimate of CUDA graphs from the KV cache (VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS).",
        flag="estimate-graphs",
        default="true from 0.20; graphs are estimated since 0.19",
        advanced=True,
    )
    use_v1 = setting(
        Flag(),
        "V1 engine",
        "Run with the present engine, or with the former one (VLLM_USE_V1), which 0.8 to 0.10 still have.",
        flag="v1-engine",
        default="from 0.8, unless something needs the former one",
        advanced=True,
    )
    use_v2_model_runner = setting(
        Flag(),
        "Second model runner",
        "Run with the second model runner, or never (VLLM_USE_V2_MODEL_RUNNER). Before 0.29 only the first one logs an "
        "estimate of CUDA graphs.",
        flag="v2-runner",
        default="by release and architecture",
        advanced=True,
    )
    skip_mm_profiling = setting(
        Flag(),
        "No image profiling",
        "Encode no images while profiling. The KV cache gets that memory, and requests with images may run out of it.",
        flag="skip-mm-profiling",
        default="false",
        advanced=True,
    )
    videos_per_sequence = setting(
        Integer(minimum=0, unit="videos"),
        "Videos",
        "Videos per prompt. In 0.11 and 0.12 profiling shows Qwen3-VL one, unless 0 allows images alone.",
        flag="prompt-videos",
        default="what the server profiles with",
        advanced=True,
    )
    max_pixels = setting(
        Integer(1, 1 << 28),
        "Pixels of an image",
        "Pixels of the largest image, for models whose images keep their size, such as Qwen's (max_pixels of "
        "--mm-processor-kwargs).",
        flag="max-pixels",
        default="the processor's",
        advanced=True,
    )
    enable_prefix_caching = setting(
        Flag(),
        "Prefix caching",
        "Reuse cache blocks of identical prefixes; the pool stays the same size but holds more.",
        flag="prefix-caching",
        default="true",
        advanced=True,
    )
    disable_hybrid_kv_cache_manager = setting(
        Flag(),
        "No hybrid cache manager",
        "Cache the full context in sliding-window layers too.",
        flag="no-hybrid-cache",
        default="false; true for chunked attention before 0.20",
        advanced=True,
    )
    cpu_offload_gb = setting(
        Number(unit="GiB"),
        "Weights on the host",
        "GiB of weights that each GPU leaves in the host's memory and reads over PCIe.",
        flag="cpu-offload-gb",
        default="0",
        advanced=True,
    )
    kv_offloading_size = setting(
        Number(unit="GiB"),
        "KV cache on the host",
        "GiB of host memory for offloaded cache blocks, over all ranks.",
        flag="kv-offloading-size",
        default="none",
        advanced=True,
    )
    kv_connector = setting(
        Choice(
            ("offloading", "lmcache", "nixl"),
            {
                "offloading": "OffloadingConnector: blocks are copied to the host's memory",
                "lmcache": "LMCacheConnectorV1: chunks are copied through a buffer on the GPU",
                "nixl": "NixlConnector: other servers read the cache itself",
            },
        ),
        "KV connector",
        "Where blocks of the cache go besides the GPU (--kv-transfer-config).",
        flag="kv-connector",
        default="none",
        advanced=True,
    )
    runner = setting(
        Choice(
            ("generate", "pooling"),
            {
                "generate": "words are predicted one after the other",
                "pooling": "embeddings, scores or classes of whole prompts: no head for words, and no sampling",
            },
        ),
        "Runner",
        "What the model is for.",
        flag="runner",
        default="by the class that config.json names",
        advanced=True,
    )
    all2all_backend = setting(
        Choice(
            (
                "naive",
                "allgather_reducescatter",
                "deepep_high_throughput",
                "deepep_low_latency",
                "flashinfer_nvlink_one_sided",
                "flashinfer_nvlink_two_sided",
                "pplx",
                "mori_high_throughput",
                "mori_low_latency",
                "nixl_ep",
            ),
            {
                "naive": "broadcasts",
                "allgather_reducescatter": "all-gather and reduce-scatter",
                "deepep_high_throughput": "DeepEP's kernels for prompts: fixed buffers",
                "deepep_low_latency": "DeepEP's kernels for decoding: a message for each expert and token",
                "flashinfer_nvlink_one_sided": "FlashInfer's kernels over NVLink: a slot for every token of all ranks",
                "flashinfer_nvlink_two_sided": "FlashInfer's kernels over NVLink: queues of fixed size",
                "pplx": "Perplexity's kernels, in releases that still have them",
                "mori_high_throughput": "MoRI on AMD GPUs, for prompts",
                "mori_low_latency": "MoRI on AMD GPUs, for decoding",
                "nixl_ep": "NIXL's kernels",
            },
        ),
        "All-to-all",
        "How tokens reach experts on other ranks, with data and expert parallelism.",
        flag="all2all-backend",
        default="allgather_reducescatter",
        advanced=True,
    )
    moe_backend = setting(
        Choice(
            (
                "auto",
                "triton",
                "triton_unfused",
                "deep_gemm",
                "deep_gemm_mega_moe",
                "cutlass",
                "flashinfer_trtllm",
                "flashinfer_cutlass",
                "flashinfer_cutedsl",
                "flashinfer_b12x",
                "marlin",
                "humming",
                "aiter",
                "emulation",
            ),
            {
                "auto": "the first that the format and the GPU support",
                "triton": "Triton's kernels",
                "deep_gemm": "DeepGEMM's kernels",
                "cutlass": "vLLM's own kernels, which sort rows by expert",
                "flashinfer_trtllm": "TensorRT-LLM's kernels in FlashInfer",
                "flashinfer_cutlass": "CUTLASS kernels in FlashInfer",
                "flashinfer_cutedsl": "CuTe kernels in FlashInfer",
                "marlin": "Marlin: weights alone are in few bits",
                "aiter": "AITER's kernels on AMD GPUs",
                "emulation": "formats that the GPU lacks, computed in the model's dtype",
            },
        ),
        "Expert kernels",
        "Kernels that run the experts; the log says which. They differ in what they allocate while profiling.",
        flag="moe-backend",
        default="auto",
        advanced=True,
    )


SECTIONS = (VllmSettings,)
IN_CHINESE: Mapping[str, tuple[str, ...]] = {
    VllmSettings.gpu_memory_utilization: ("vLLM 可用于权重、激活值和 KV 缓存的显存比例。", "", "0.92；0.20 之前为 0.9"),
    VllmSettings.kv_cache_memory_bytes: (
        "KV 缓存的大小，代替 gpu_memory_utilization 剩下的部分。",
        "KV 缓存大小",
        "gpu_memory_utilization 剩余的部分",
    ),
    VllmSettings.max_num_batched_tokens: (
        "每步的最大 token 数；更长的提示词会分块。显存探测也按此数运行。",
        "",
        "70 GiB 起（A100 除外）为 8192，160 GiB 起为 16384，否则为 2048",
    ),
    VllmSettings.enforce_eager: ("不使用 CUDA Graph 和编译。", "不用 CUDA Graph"),
    VllmSettings.max_cudagraph_capture_size: (
        "捕获为 CUDA Graph 的最大批次，以 token 计。",
        "CUDA Graph 的最大 token 数",
        "max_num_seqs 的两倍，不超过 512 和 max_num_batched_tokens",
    ),
    VllmSettings.cudagraph_mode: (
        "捕获哪些 CUDA Graph（--compilation-config 的 cudagraph_mode）。",
        "CUDA Graph 的种类",
        "0.11 起为 full_and_piecewise，之前为 piecewise",
        "只编译，不捕获",
        "捕获注意力层之间的部分",
        "捕获任意请求的完整步骤，前提是注意力 kernel 支持",
        "只捕获纯解码的完整步骤",
        "纯解码捕获完整步骤，其余分段捕获",
    ),
    VllmSettings.compile_cache: (
        "vLLM 的编译缓存是否保留自先前的启动。首次启动用嵌入表给 kernel 计时，KV 缓存因此更小。",
        "已编译过",
        "false；范围包含之后的启动",
    ),
    VllmSettings.flashinfer_sampler: (
        "用 FlashInfer 采样，不对 logits 排序（VLLM_USE_FLASHINFER_SAMPLER）。日志写明用的是哪一种。",
        "FlashInfer 采样",
        "0.21 起为 true；0.11.1 之前取决于是否安装了 FlashInfer",
    ),
    VllmSettings.estimate_cudagraphs: (
        "从 KV 缓存中扣除对 CUDA Graph 的估计（VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS）。",
        "CUDA Graph 计入预算",
        "0.20 起为 true；0.19 起才有估计",
    ),
    VllmSettings.use_v1: (
        "用现在的引擎，或用旧引擎（VLLM_USE_V1）；0.8 到 0.10 两者都有。",
        "V1 引擎",
        "0.8 起为 true，除非某项设置只有旧引擎支持",
    ),
    VllmSettings.use_v2_model_runner: (
        "用第二种 model runner，或始终不用（VLLM_USE_V2_MODEL_RUNNER）。0.29 之前只有第一种会记录 CUDA Graph 的估计。",
        "第二种 model runner",
        "按版本和架构",
    ),
    VllmSettings.skip_mm_profiling: (
        "显存探测时不编码图像。省下的显存归 KV 缓存，带图像的请求可能因此显存不足。",
        "探测时不用图像",
    ),
    VllmSettings.videos_per_sequence: (
        "每个提示中的视频数。0.11 与 0.12 的 profiling 给 Qwen3-VL 一段视频；0 则只给图像。",
        "视频",
        "服务器做 profiling 时的视频数",
    ),
    VllmSettings.max_pixels: (
        "最大图像的像素数，用于图像保持原尺寸的模型，如 Qwen 系列（--mm-processor-kwargs 的 max_pixels）。",
        "图像像素数",
        "处理器自身的值",
    ),
    VllmSettings.enable_prefix_caching: ("相同前缀复用缓存块；缓存池大小不变，但容纳更多。", "前缀缓存"),
    VllmSettings.disable_hybrid_kv_cache_manager: (
        "滑动窗口层也缓存完整上下文。",
        "不用混合缓存管理器",
        "false；0.20 之前对分块注意力为 true",
    ),
    VllmSettings.cpu_offload_gb: ("每块 GPU 留在主机内存、经 PCIe 读取的权重，以 GiB 计。", "主机上的权重"),
    VllmSettings.kv_offloading_size: (
        "存放移出 GPU 的缓存块的主机内存，以 GiB 计，所有 rank 合计。",
        "主机上的 KV 缓存",
    ),
    VllmSettings.kv_connector: (
        "缓存块除 GPU 外还存放到哪里（--kv-transfer-config）。",
        "KV connector",
        "",
        "OffloadingConnector：把缓存块复制到主机内存",
        "LMCacheConnectorV1：经 GPU 上的一个缓冲区分块复制",
        "NixlConnector：其他服务直接读取缓存",
    ),
    VllmSettings.runner: (
        "模型的用途。",
        "Runner",
        "按 config.json 指明的类",
        "逐个预测词",
        "整个提示的嵌入、得分或类别：没有词的输出层，也不采样",
    ),
    VllmSettings.all2all_backend: (
        "数据并行加专家并行时，token 如何到达其他 rank 上的专家。",
        "All-to-all",
        "",
        "广播",
        "all-gather 和 reduce-scatter",
        "DeepEP 面向提示的 kernel：固定大小的缓冲区",
        "DeepEP 面向解码的 kernel：每个专家和 token 一条消息",
        "FlashInfer 的 NVLink kernel：为所有 rank 的每个 token 预留位置",
        "FlashInfer 的 NVLink kernel：固定大小的队列",
        "Perplexity 的 kernel，仅在仍提供它的版本中",
        "AMD GPU 上的 MoRI，面向提示",
        "AMD GPU 上的 MoRI，面向解码",
        "NIXL 的 kernel",
    ),
    VllmSettings.moe_backend: (
        "运行专家的 kernel；日志写明用的是哪一种。它们在显存探测时的分配不同。",
        "专家的 kernel",
        "",
        "格式和 GPU 支持的第一种",
        "Triton 的 kernel",
        "DeepGEMM 的 kernel",
        "vLLM 自己的 kernel，按专家对行排序",
        "FlashInfer 中 TensorRT-LLM 的 kernel",
        "FlashInfer 中的 CUTLASS kernel",
        "FlashInfer 中的 CuTe kernel",
        "Marlin：只有权重是低位数的",
        "AMD GPU 上 AITER 的 kernel",
        "GPU 不支持的格式，用模型的 dtype 计算",
    ),
}
"""Of each setting its help, label, default and what its values mean, as far as these are its own."""
TAKES: Mapping[str, tuple[Setting[Any], ...]] = {
    "vllm": (Parallelism.data_parallel_size, Parallelism.pipeline_parallel_size, EngineSettings.version)
}
"""What of the settings that engines have in common it takes."""
REFUSED: Mapping[str, tuple[str, ...]] = {"vllm": (*NOT_SERVED,)}
"""Settings that every engine could have, but this one refuses whatever their value."""
_BOTH_ENGINES = (
    *("0.8", "0.8.0", "0.8.1", "0.8.2", "0.8.3", "0.8.4", "0.8.5", "0.8.5.post1", "0.9", "0.9.0", "0.9.0.1", "0.9.1"),
    *("0.9.2", "0.10", "0.10.0", "0.10.1", "0.10.1.1", "0.10.2"),
)
"""Releases with the former engine next to the present one."""
NEEDS: Mapping[str, Need] = {
    VllmSettings.moe_backend: ROUTED,
    VllmSettings.use_v1: Need(EngineSettings.version, _BOTH_ENGINES),
}
"""The one other setting that each of these waits for."""
