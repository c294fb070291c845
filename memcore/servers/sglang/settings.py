"""Settings of SGLang, as it names them on its command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcore.config.engine import EngineSettings
from memcore.config.kinds import Choice, Flag, Integer, Names, Number
from memcore.config.needs import ANY, ROUTED, STATEFUL, Need
from memcore.config.parallelism import Parallelism
from memcore.config.schema import Section, Setting, setting
from memcore.serving.inference import Inference
from memcore.serving.settings import NOT_SERVED

_SGLANG = ("sglang",)
PREFILL, DECODE = "prefill", "decode"
"""Phases that servers of a disaggregated deployment have one of."""


_KERNELS = (
    *("auto", "fa3", "fa4", "flashinfer", "triton", "trtllm_mha", "trtllm_mla", "cutlass_mla", "cutedsl_mla"),
    *("flashmla", "dsa", "nsa", "dsv4", "compressed", "aiter", "hpc_ops", "torch_native", "flex_attention", "wave"),
    *("qsa", "minicpm_flashattn", "minicpm_flashinfer", "llada2_cfg_flashinfer", "dual_chunk_flash_attn"),
    "tokenspeed_mla",
)


class SglangSettings(Section, path="engine", engines=_SGLANG):
    """What SGLang can be told besides the job itself."""

    mem_fraction_static = setting(
        Number(0.01, 1),
        "Static memory fraction",
        "Fraction of the GPU that SGLang uses for weights and the KV cache pool, not counting activations "
        "and CUDA Graphs.",
        flag="mem-fraction-static",
        default="SGLang's own rule, from the GPU, chunk size and CUDA Graphs",
    )
    chunked_prefill_size = setting(
        Integer(unit="tokens"),
        "Chunked prefill",
        "Max prompt tokens per step.",
        flag="chunked-prefill-size",
        default="2048, 4096, 8192 or 16384 by GPU memory",
        advanced=True,
    )
    max_total_tokens = setting(
        Integer(unit="tokens"),
        "Token pool",
        "Max tokens in the KV cache pool; the memory left over stays free.",
        flag="max-total-tokens",
        default="as many as fit",
        advanced=True,
    )
    cuda_graph_max_bs = setting(
        Integer(unit="sequences"),
        "Max graph batch size",
        "Largest batch size captured as a CUDA Graph.",
        flag="cuda-graph-max-bs",
        default="by GPU memory",
        advanced=True,
    )
    cuda_graph_sizes = setting(
        Integer(unit="sizes"),
        "Graph batch sizes",
        "How many batch sizes up to the largest are captured.",
        flag="cuda-graph-sizes",
        default="SGLang's own list",
        advanced=True,
    )
    disable_cuda_graph = setting(
        Flag(),
        "No CUDA Graphs",
        "Capture nothing; before 0.5.15 the memory left for CUDA Graphs stays free.",
        flag="disable-cuda-graph",
        default="false",
        advanced=True,
    )
    disable_decode_cuda_graph = setting(
        Flag(),
        "No graphs of decoding",
        "Capture no CUDA Graphs of decoding; those of prompts stay.",
        flag="disable-decode-cuda-graph",
        default="false",
        advanced=True,
    )
    prefill_cuda_graph = setting(
        Flag(),
        "Graphs of prompts",
        "Capture CUDA Graphs of prompts, too, or none of them.",
        flag="prefill-cuda-graph",
        default="true since 0.5.10, with most models on NVIDIA's GPUs",
        advanced=True,
    )
    prefill_graph_tokens = setting(
        Integer(unit="tokens"),
        "Longest captured prompt",
        "Prompt tokens of the largest CUDA Graph of prompts; its pool keeps their activations.",
        flag="prefill-graph-tokens",
        default="the chunk; with latent attention 2048, since 0.5.23 8192",
        advanced=True,
    )
    swa_full_tokens_ratio = setting(
        Number(0.01, 1),
        "Window pool",
        "Tokens in the sliding-window pool, relative to the full-attention pool.",
        flag="swa-full-tokens-ratio",
        default="0.8; 0.1 for DeepSeek-V4",
        advanced=True,
    )
    mamba_full_memory_ratio = setting(
        Number(0.01, 100),
        "State pool",
        "Size of the recurrent-state pool, relative to the token pool.",
        flag="mamba-full-memory-ratio",
        default="0.9",
        advanced=True,
    )
    max_mamba_cache_size = setting(
        Integer(minimum=1),
        "State slots",
        "Slots of the recurrent-state pool; the token pool gets what they leave.",
        flag="max-mamba-cache-size",
        default="by the memory",
        advanced=True,
    )
    mamba_ssm_dtype = setting(
        Choice(("fp32", "bf16", "fp16")),
        "Recurrent state dtype",
        "Dtype of recurrent states; those of convolutions are in the model's.",
        flag="mamba-ssm-dtype",
        default="the checkpoint's, otherwise fp32",
        advanced=True,
    )
    mamba_radix_cache_strategy = setting(
        Choice(
            ("auto", "no_buffer", "extra_buffer", "extra_buffer_lazy"),
            {
                "no_buffer": "three slots for each request",
                "extra_buffer": "five: prefill and decoding overlap",
                "extra_buffer_lazy": "four",
            },
        ),
        "Slots of a request",
        "How finished prompts are kept next to recurrent states: slots that a request takes of their pool.",
        flag="mamba-radix-cache-strategy",
        default="auto: extra_buffer where the model can",
        advanced=True,
    )
    attention_backend = setting(
        Choice(_KERNELS, {"auto": "by GPU, model and release"}),
        "Attention kernels",
        "Kernels that attend. Their workspace and the tables that CUDA Graphs read are outside the static fraction; "
        "some need pages of their own size.",
        flag="attention-backend",
        default="auto",
        advanced=True,
    )
    lora_target_modules = setting(
        Names(),
        "LoRA modules",
        "Modules that LoRA slots have room for, such as q_proj,v_proj; all adds the embedding and the head.",
        flag="lora-target-modules",
        default="all-linear, as the adapters are not read",
        advanced=True,
    )
    enable_symm_mem = setting(
        Flag(),
        "Symmetric memory",
        "Keep results that ranks sum in NCCL's symmetric memory, apart from PyTorch's.",
        flag="symm-mem",
        default="false",
        advanced=True,
    )
    symm_mem_prealloc = setting(
        Number(0, 1000, unit="GiB"),
        "Symmetric memory ahead",
        "Symmetric memory that is allocated after the capture, in addition to the static fraction.",
        flag="symm-mem-prealloc",
        default="4 since 0.5.9",
        advanced=True,
    )
    prefill_attention_backend = setting(
        Choice(_KERNELS, {"auto": "by GPU, model and release"}),
        "Attention kernels of prompts",
        "Kernels that attend to prompts where they are others than those of decoding; both have their workspace.",
        flag="prefill-attention-backend",
        default="those of decoding",
        advanced=True,
    )
    disable_radix_cache = setting(
        Flag(),
        "No prefix cache",
        "Keep no finished prompts: with recurrent states, one slot for each request is enough.",
        flag="disable-radix-cache",
        default="false",
        advanced=True,
    )
    enable_dp_attention = setting(
        Flag(),
        "Data-parallel attention",
        "Run attention data-parallel inside the tensor-parallel group; each rank has its own KV cache pool.",
        flag="dp-attention",
        default="false",
        advanced=True,
    )
    enable_dp_lm_head = setting(
        Flag(),
        "Head by group",
        "Split the head over the ranks of a group of data-parallel attention, not over all: no logits are gathered.",
        flag="dp-lm-head",
        default="false",
        advanced=True,
    )
    moe_dense_tp_size = setting(
        Integer(minimum=1),
        "Ranks of dense layers",
        "1: the dense layers of a model with experts are whole on each rank.",
        flag="moe-dense-tp",
        default="the tensor-parallel size",
        advanced=True,
    )
    moe_a2a_backend = setting(
        Choice(
            ("none", "deepep", "flashinfer"),
            {
                "deepep": "DeepEP: whole experts on each rank, fixed buffers",
                "flashinfer": "FlashInfer's kernels over NVLink: whole experts on each rank, a slot for every token",
            },
        ),
        "All-to-all",
        "How tokens reach experts on other ranks.",
        flag="moe-a2a-backend",
        default="none",
        advanced=True,
    )
    deepep_mode = setting(
        Choice(
            ("auto", "normal", "low_latency"),
            {"auto": "both", "normal": "kernels for prompts", "low_latency": "kernels for decoding"},
        ),
        "DeepEP mode",
        "DeepEP kernels to allocate buffers for.",
        flag="deepep-mode",
        default="auto",
        advanced=True,
    )
    ep_num_redundant_experts = setting(
        Integer(minimum=0),
        "Redundant experts",
        "Copies of experts that all ranks hold together, in addition to the model's own.",
        flag="redundant-experts",
        default="0",
        advanced=True,
    )
    deepep_dispatch_tokens = setting(
        Integer(minimum=1, unit="tokens"),
        "DeepEP tokens per rank",
        "Tokens of a rank that DeepEP's kernels for decoding have room for at once.",
        flag="deepep-dispatch-tokens",
        default="128",
        advanced=True,
    )
    disaggregation_mode = setting(
        Choice(
            ("null", PREFILL, DECODE),
            {"null": "both phases", PREFILL: "prompts alone", DECODE: "decoding alone, its cache filled by others"},
        ),
        "Disaggregated phase",
        "The phase of a disaggregated deployment that this server runs: what the other needs is not kept free.",
        flag="disaggregation-mode",
        default="null",
        advanced=True,
    )
    moe_runner_backend = setting(
        Choice(
            (
                "auto",
                "triton",
                "triton_kernel",
                "deep_gemm",
                "cutlass",
                "flashinfer_trtllm",
                "flashinfer_trtllm_routed",
                "flashinfer_cutlass",
                "flashinfer_mxfp4",
                "flashinfer_cutedsl",
                "marlin",
                "humming",
                "aiter",
            ),
            {"auto": "by GPU and format; counted like Triton's"},
        ),
        "Expert kernels",
        "Kernels that run the experts. Their buffers are outside the static fraction and are freed after each step, so "
        "the KV cache pool stays the same.",
        flag="moe-runner-backend",
        default="auto",
        advanced=True,
    )


SECTIONS = (SglangSettings,)
IN_CHINESE: Mapping[str, tuple[str, ...]] = {
    SglangSettings.mem_fraction_static: (
        "SGLang 用于权重和 KV 缓存池的显存比例，不含激活值与 CUDA Graph。",
        "静态显存比例",
        "SGLang 自己的规则，取决于 GPU、分块大小和 CUDA Graph",
    ),
    SglangSettings.chunked_prefill_size: (
        "每步的最大提示词 token 数。",
        "分块预填充",
        "按显存为 2048、4096、8192 或 16384",
    ),
    SglangSettings.max_total_tokens: ("KV 缓存池的 token 数上限；多余的显存空闲。", "Token 池", "能放多少放多少"),
    SglangSettings.cuda_graph_max_bs: ("捕获为 CUDA Graph 的最大批次大小。", "CUDA Graph 最大批次", "按显存"),
    SglangSettings.cuda_graph_sizes: (
        "捕获多少种批次大小（不超过最大批次）。",
        "捕获的批次大小数",
        "SGLang 自己的列表",
    ),
    SglangSettings.disable_cuda_graph: ("不捕获 CUDA Graph；0.5.15 之前，为其留出的显存空闲。", "不用 CUDA Graph"),
    SglangSettings.disable_decode_cuda_graph: (
        "不捕获解码的 CUDA Graph；提示词的仍然捕获。",
        "不捕获解码",
    ),
    SglangSettings.prefill_cuda_graph: (
        "是否也捕获提示词的 CUDA Graph。",
        "捕获提示词",
        "0.5.10 起，对 NVIDIA GPU 上的大多数模型为 true",
    ),
    SglangSettings.prefill_graph_tokens: (
        "提示词的最大 CUDA Graph 的 token 数；其内存池保留这些 token 的激活值。",
        "捕获的最长提示词",
        "分块大小；潜向量注意力为 2048，0.5.23 起为 8192",
    ),
    SglangSettings.swa_full_tokens_ratio: (
        "滑动窗口池与全注意力池的 token 数之比。",
        "滑动窗口 KV 池",
        "0.8；DeepSeek-V4 为 0.1",
    ),
    SglangSettings.mamba_full_memory_ratio: ("循环状态池与 token 池的大小之比。", "状态池"),
    SglangSettings.max_mamba_cache_size: ("循环状态池的槽位数；其余显存归 token 池。", "状态槽位", "按显存"),
    SglangSettings.mamba_radix_cache_strategy: (
        "如何在循环状态旁保留已完成的提示：一个请求占用状态池的多少槽位。",
        "请求的槽位",
        "auto：模型支持时为 extra_buffer",
        "每个请求三个槽位",
        "五个：prefill 与解码重叠",
        "四个",
    ),
    SglangSettings.mamba_ssm_dtype: (
        "循环状态的 dtype；卷积状态用模型的 dtype。",
        "循环状态 dtype",
        "checkpoint 的，否则为 fp32",
    ),
    SglangSettings.attention_backend: (
        "执行注意力的 kernel。其工作区和 CUDA Graph 读取的表不在静态比例之内；有些需要特定的页大小。",
        "注意力 kernel",
        "",
        "按 GPU、模型和版本",
    ),
    SglangSettings.lora_target_modules: (
        "LoRA 槽位为哪些模块留出空间，例如 q_proj,v_proj；all 还包括嵌入和输出头。",
        "LoRA 模块",
        "all-linear，因为不读取适配器",
    ),
    SglangSettings.enable_symm_mem: (
        "把各 rank 求和的结果放在 NCCL 的对称内存中，与 PyTorch 的分开。",
        "对称内存",
    ),
    SglangSettings.symm_mem_prealloc: (
        "捕获之后预先分配的对称内存，在静态比例之外。",
        "预分配的对称内存",
        "0.5.9 起为 4",
    ),
    SglangSettings.prefill_attention_backend: (
        "执行提示词注意力的 kernel，如与解码的不同；两者各有工作区。",
        "提示词的注意力 kernel",
        "与解码相同",
        "按 GPU、模型和版本",
    ),
    SglangSettings.disable_radix_cache: ("不保留已完成的提示词：循环状态每个请求一个槽位即可。", "不用前缀缓存"),
    SglangSettings.enable_dp_attention: (
        "在张量并行组内对注意力做数据并行；每个 rank 有自己的 KV 缓存池。",
        "数据并行注意力",
    ),
    SglangSettings.enable_dp_lm_head: (
        "数据并行注意力时，输出头只在一个组的 rank 之间切分，而不是全部 rank：logits 无需收集。",
        "按组切分输出头",
    ),
    SglangSettings.moe_dense_tp_size: (
        "1：带专家的模型的稠密层在每个 rank 上完整保存。",
        "稠密层的 rank 数",
        "张量并行大小",
    ),
    SglangSettings.moe_a2a_backend: (
        "token 如何到达其他 rank 上的专家。",
        "All-to-all",
        "",
        "DeepEP：每个 rank 放完整的专家，缓冲区大小固定",
        "FlashInfer 经 NVLink 的 kernel：每个 rank 放完整的专家，每个 token 一个位置",
    ),
    SglangSettings.deepep_mode: (
        "为 DeepEP 的哪些 kernel 准备缓冲区。",
        "DeepEP 模式",
        "",
        "两者都有",
        "面向提示的 kernel",
        "面向解码的 kernel",
    ),
    SglangSettings.ep_num_redundant_experts: (
        "除模型自身的专家外，所有 rank 共同持有的专家副本数。",
        "冗余专家",
    ),
    SglangSettings.deepep_dispatch_tokens: (
        "DeepEP 的解码 kernel 一次能容纳的每个 rank 的 token 数。",
        "DeepEP 每 rank 的 token 数",
    ),
    SglangSettings.disaggregation_mode: (
        "分离部署中此服务器运行的阶段：不为另一阶段预留显存。",
        "分离部署阶段",
        "",
        "两个阶段",
        "只处理提示词",
        "只解码，缓存由其他服务器填充",
    ),
    SglangSettings.moe_runner_backend: (
        "运行专家的 kernel。其缓冲区不在静态比例之内，每步之后释放，因此 KV 缓存池不变。",
        "专家的 kernel",
        "",
        "按 GPU 和格式；按 Triton 的计算",
    ),
}
"""Of each setting its help, label, default and what its values mean, as far as these are its own."""
TAKES: Mapping[str, tuple[Setting[Any], ...]] = {
    "sglang": (Parallelism.data_parallel_size, Parallelism.pipeline_parallel_size, EngineSettings.version)
}
"""What of the settings that engines have in common it takes."""
REFUSED: Mapping[str, tuple[str, ...]] = {"sglang": (*NOT_SERVED, Parallelism.context_parallel_size)}
"""Settings that every engine could have, but this one refuses whatever their value."""
NEEDS: Mapping[str, Need] = {
    SglangSettings.moe_runner_backend: ROUTED,
    SglangSettings.deepep_dispatch_tokens: ROUTED,
    SglangSettings.ep_num_redundant_experts: ROUTED,
    SglangSettings.moe_dense_tp_size: ROUTED,
    SglangSettings.lora_target_modules: Need(Inference.max_loras, (ANY,)),
    SglangSettings.symm_mem_prealloc: Need(SglangSettings.enable_symm_mem, (ANY,)),
    SglangSettings.mamba_full_memory_ratio: STATEFUL,
    SglangSettings.mamba_radix_cache_strategy: STATEFUL,
}
"""The one other setting that each of these waits for."""
