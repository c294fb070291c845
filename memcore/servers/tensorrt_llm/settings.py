"""Settings of TensorRT-LLM, as it names them on its command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcore.config.engine import EngineSettings
from memcore.config.kinds import Choice, Flag, Integer, Number
from memcore.config.needs import ROUTED, Need
from memcore.config.parallelism import Parallelism
from memcore.config.schema import Section, Setting, setting
from memcore.serving.settings import NOT_SERVED

_TRT = ("tensorrt-llm",)
AUTO, CUTLASS, TRTLLM, TRITON, DEEPGEMM = "auto", "cutlass", "trtllm", "triton", "deepgemm"
PYTORCH, TENSORRT = BACKENDS = ("pytorch", "tensorrt")
KERNELS = (AUTO, CUTLASS, TRTLLM, TRITON, DEEPGEMM, "cutedsl", "wideep", "vanilla")
"""Kernels of experts (llmapi/llm_args.py, `MoeConfig`)."""


class TensorRtSettings(Section, path="engine", engines=_TRT):
    """What TensorRT-LLM can be told besides the job itself."""

    free_gpu_memory_fraction = setting(
        Number(0.01, 1),
        "Cache fraction",
        "Fraction of the memory free after loading that TensorRT-LLM gives to the KV cache pool.",
        flag="free-gpu-memory-fraction",
        default="0.9",
    )
    max_num_tokens = setting(
        Integer(unit="tokens"), "Max tokens per step", "Max tokens per step.", flag="max-num-tokens",
        default="8192", advanced=True,
    )  # fmt: skip
    cuda_graphs = setting(
        Integer(0), "CUDA graph sizes", "Batch sizes of decoding that are captured as CUDA graphs.", flag="cuda-graphs",
        default="34: 1 to 32, 64 and 128", advanced=True,
    )  # fmt: skip
    largest_graph = setting(
        Integer(unit="sequences"), "Max graph batch size", "Largest batch of decoding that is captured.",
        flag="largest-graph", default="128, or fewer if no more may run", advanced=True,
    )  # fmt: skip
    trtllm_backend = setting(
        Choice(BACKENDS, {PYTORCH: "models run in PyTorch", TENSORRT: "an engine that is built"}),
        "Backend", "How models run: a built engine has room for as many sequences as may run.",
        flag="trtllm-backend", default="pytorch since 1.0, tensorrt before", advanced=True,
    )  # fmt: skip
    enable_attention_dp = setting(
        Flag(), "Data-parallel attention",
        "Each rank of the tensor-parallel group serves requests of its own and holds all but its part of the experts.",
        flag="enable-attention-dp", advanced=True,
    )  # fmt: skip
    moe_kernels = setting(
        Choice(KERNELS, {AUTO: "TRTLLM and Triton for gpt-oss on Blackwell and Hopper, else CUTLASS"}),
        "Expert kernels", "Kernels that run the experts (moe_config.backend): they pad MXFP4 differently, and "
        "DeepGEMM's keep room for all tokens of a step for every expert.",
        flag="moe-kernels", default=AUTO, advanced=True,
    )  # fmt: skip


SECTIONS = (TensorRtSettings,)
IN_CHINESE: Mapping[str, tuple[str, ...]] = {
    TensorRtSettings.free_gpu_memory_fraction: ("TensorRT-LLM 把加载后空闲显存的多大比例用作 KV 缓存池。", "缓存比例"),
    TensorRtSettings.max_num_tokens: ("每步的最大 token 数。",),
    TensorRtSettings.enable_attention_dp: (
        "张量并行组中的每个 rank 各自处理请求，并持有除专家以外的全部权重；专家切分到各 rank。",
        "数据并行注意力",
    ),
    TensorRtSettings.cuda_graphs: (
        "捕获为 CUDA Graph 的解码批大小个数。",
        "CUDA Graph 的批大小数",
        "34：1 至 32、64 与 128",
    ),
    TensorRtSettings.largest_graph: (
        "被捕获的最大解码批次。",
        "CUDA Graph 最大批次",
        "128；同时运行的序列更少时为其数量",
    ),
    TensorRtSettings.trtllm_backend: (
        "模型如何运行：构建的引擎按可同时运行的序列数预留空间。",
        "后端",
        "1.0 起为 pytorch，之前为 tensorrt",
        "模型在 PyTorch 中运行",
        "构建的引擎",
    ),
    TensorRtSettings.moe_kernels: (
        "运行专家的 kernel（moe_config.backend）：它们对 MXFP4 的填充不同；DeepGEMM 为每个专家预留一步的全部 token。",
        "专家的 kernel",
        "",
        "gpt-oss 在 Blackwell 与 Hopper 上为 TRTLLM 与 Triton，其余为 CUTLASS",
    ),
}
"""Of each setting its help, label, default and what its values mean, as far as these are its own."""
TAKES: Mapping[str, tuple[Setting[Any], ...]] = {
    "tensorrt-llm": (Parallelism.pipeline_parallel_size, EngineSettings.version)
}
"""What of the settings that engines have in common it takes."""
REFUSED: Mapping[str, tuple[str, ...]] = {"tensorrt-llm": (*NOT_SERVED, Parallelism.context_parallel_size)}
"""Settings that every engine could have, but this one refuses whatever their value."""
NEEDS: Mapping[str, Need] = {TensorRtSettings.moe_kernels: ROUTED}
"""The one other setting that each of these waits for."""
