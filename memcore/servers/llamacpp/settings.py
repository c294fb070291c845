"""Settings of llama.cpp, as it names them on its command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcore.config.engine import EngineSettings
from memcore.config.kinds import Choice, Flag, Integer, Listed, Proportions, Text
from memcore.config.needs import ANY, ROUTED, SEEING, Need
from memcore.config.parallelism import Parallelism
from memcore.config.schema import Section, Setting, setting
from memcore.servers.llamacpp.tensor_types import TensorTypes
from memcore.serving.gguf_mixes import FILE_TYPES
from memcore.serving.gguf_types import BLOCK_TYPES
from memcore.serving.inference import Inference
from memcore.serving.settings import NOT_SERVED, UNDIVIDED

_CPP = ("llama.cpp",)
OLLAMA = "ollama"
"""The fork that chooses a context by itself."""
PROJECTORS = ("f16", "bf16", "f32", "q8_0")
"""What `convert_hf_to_gguf.py --mmproj --outtype` writes."""
PYTHON, LIBRARY = "llama-cpp-python", "libllama"
"""Programs that use llama.cpp as a library: its context keeps whole windows and reserves logits of a whole batch
(`llama_context_default_params`), and llama-cpp-python 0.3.36 asks for batches of 512 and no flash attention."""
_GGML = Listed("ggml types", {name.lower(): name for name in BLOCK_TYPES})


class LlamaCppSettings(Section, path="engine", engines=_CPP):
    """What llama.cpp can be told besides the job itself."""

    n_gpu_layers = setting(
        Integer(minimum=0), "Layers on GPUs",
        "-ngl: layers on the GPU, counted from the last; the output head counts as one, until 2026 after all layers.",
        flag="n-gpu-layers", default="all",
    )  # fmt: skip
    n_batch = setting(
        Integer(unit="tokens"), "Batch", "-b: logical batch size, in tokens.", flag="n-batch",
        default="2048", advanced=True,
    )  # fmt: skip
    n_ubatch = setting(
        Integer(unit="tokens"), "Micro-batch", "-ub: physical batch size, in tokens; sizes the compute buffer.",
        flag="n-ubatch", default="512", advanced=True,
    )  # fmt: skip
    flash_attn = setting(
        Flag(), "Flash attention", "-fa: use flash attention.", flag="flash-attn",
        default="true", advanced=True,
    )  # fmt: skip
    cache_type_k = setting(
        _GGML, "Key cache type", "-ctk: type of cached keys.", flag="cache-type-k", default="f16",
        advanced=True,
    )  # fmt: skip
    cache_type_v = setting(
        _GGML, "Value cache type", "-ctv: type of cached values.", flag="cache-type-v", default="f16",
        advanced=True,
    )  # fmt: skip
    kv_unified = setting(
        Flag(), "Unified cache", "-kvu: one KV buffer for all sequences instead of one per sequence.",
        flag="kv-unified",
        advanced=True,
    )  # fmt: skip
    swa_full = setting(
        Flag(), "Full window cache", "--swa-full: cache the full context in sliding-window layers.", flag="swa-full",
        advanced=True,
    )  # fmt: skip
    split_mode = setting(
        Choice(("none", "layer", "row"), {"layer": "split by layers", "row": "split matrices by rows"}),
        "Split mode", "-sm: how the model is split over several GPUs.",
        flag="split-mode", default="layer",
        advanced=True,
    )  # fmt: skip
    tensor_split = setting(
        Proportions(), "Tensor split", "-ts: how much of the model each GPU gets, as proportions: 3,1.",
        flag="tensor-split", default="alike",
        advanced=True,
    )  # fmt: skip
    n_cpu_moe = setting(
        Integer(minimum=0), "Experts on the host",
        "--n-cpu-moe: number of layers, from the first, whose experts stay on the host.",
        flag="n-cpu-moe", default="0", advanced=True,
    )  # fmt: skip
    tensor_types = setting(
        TensorTypes(), "Tensor types",
        "--tensor-type of llama-quantize: types that differ from the file's, such as blk.0-7.ffn_down=q6_k.",
        flag="tensor-type", default="those of the weight format", advanced=True,
    )  # fmt: skip
    mmproj = setting(
        Choice(PROJECTORS), "Vision file",
        "--mmproj: type of the file with the towers of images and sound, whole on the first GPU.",
        flag="mmproj", default="none", advanced=True,
    )  # fmt: skip
    draft_quantization = setting(
        Listed("weight formats", {name.lower(): f"GGUF {name}" for name in (*FILE_TYPES, *BLOCK_TYPES)}),
        "Draft's weight format", "GGUF type of the draft model's file (-md).",
        flag="draft-quantization", default="q8_0", advanced=True,
    )  # fmt: skip
    n_gpu_layers_draft = setting(
        Integer(minimum=0), "Draft layers on GPUs", "-ngld: layers of the draft model on the GPU.",
        flag="n-gpu-layers-draft", default="all", advanced=True,
    )  # fmt: skip
    cache_type_k_draft = setting(
        _GGML, "Draft key cache type", "-ctkd: type of the draft model's cached keys.", flag="cache-type-k-draft",
        default="f16", advanced=True,
    )  # fmt: skip
    cache_type_v_draft = setting(
        _GGML, "Draft value cache type", "-ctvd: type of the draft model's cached values.", flag="cache-type-v-draft",
        default="f16", advanced=True,
    )  # fmt: skip
    mla = setting(
        Integer(0, 3), "MLA mode",
        "-mla of ik_llama.cpp: cache format of latent attention. 0 caches every head's keys and values, as llama.cpp "
        "does for GGUF files from before April 2025.",
        flag="mla", default="latent; 0 for DeepSeek-V2", advanced=True,
    )  # fmt: skip
    ggml_backend = setting(
        Choice(("cuda", "vulkan"), {"cuda": "CUDA or ROCm; others are counted alike", "vulkan": "Vulkan"}),
        "Backend", "GPU backend of the build: its kernels decide what compute buffers keep.", flag="ggml-backend",
        default="cuda", advanced=True,
    )  # fmt: skip
    fork = setting(
        Text(), "Fork",
        "llama.cpp fork: mainline, ik_llama.cpp or ollama; llama-cpp-python, or libllama for other programs with it.",
        flag="fork", default="mainline", advanced=True,
    )  # fmt: skip


SECTIONS = (LlamaCppSettings,)
SOLVED: Mapping[str, str] = {"layers": LlamaCppSettings.n_gpu_layers}
"""What people call a setting of which they look for the largest value."""
IN_CHINESE: Mapping[str, tuple[str, ...]] = {
    LlamaCppSettings.n_gpu_layers: (
        "-ngl：放在 GPU 上的层数，从最后一层数起；输出头算一层（2026 年以前最后放）。",
        "GPU 上的层数",
    ),
    LlamaCppSettings.n_batch: ("-b：逻辑批大小，以 token 计。", "批次"),
    LlamaCppSettings.mmproj: ("--mmproj：图像与声音编码器文件的类型，整个放在第一块 GPU 上。", "视觉文件"),
    LlamaCppSettings.n_ubatch: ("-ub：物理批大小，以 token 计；决定计算缓冲区的大小。", "微批次"),
    LlamaCppSettings.flash_attn: ("-fa：使用 flash 注意力。", "Flash attention"),
    LlamaCppSettings.cache_type_k: ("-ctk：键缓存的类型。", "键缓存类型"),
    LlamaCppSettings.cache_type_v: ("-ctv：值缓存的类型。", "值缓存类型"),
    LlamaCppSettings.kv_unified: ("-kvu：所有序列共用一个 KV 缓冲区，而不是每个序列一个。", "统一缓存"),
    LlamaCppSettings.swa_full: ("--swa-full：滑动窗口层缓存完整上下文。", "完整窗口缓存"),
    LlamaCppSettings.split_mode: ("-sm：模型如何切分到多块 GPU。", "拆分方式", "", "按层切分", "按行切分矩阵"),
    LlamaCppSettings.tensor_split: ("-ts：每块 GPU 分得模型的比例，如 3,1。", "分配比例", "均分"),
    LlamaCppSettings.n_cpu_moe: ("--n-cpu-moe：前多少层的专家留在主机上。", "主机上的专家"),
    LlamaCppSettings.tensor_types: (
        "llama-quantize 的 --tensor-type：与文件类型不同的张量类型，例如 blk.0-7.ffn_down=q6_k。",
        "张量类型",
        "按权重格式",
    ),
    LlamaCppSettings.draft_quantization: ("草稿模型文件（-md）的 GGUF 类型。", "草稿模型的权重格式"),
    LlamaCppSettings.n_gpu_layers_draft: ("-ngld：草稿模型放在 GPU 上的层数。", "草稿模型在 GPU 上的层数"),
    LlamaCppSettings.cache_type_k_draft: ("-ctkd：草稿模型键缓存的类型。", "草稿模型的键缓存类型"),
    LlamaCppSettings.cache_type_v_draft: ("-ctvd：草稿模型值缓存的类型。", "草稿模型的值缓存类型"),
    LlamaCppSettings.mla: (
        "ik_llama.cpp 的 -mla：潜在注意力的缓存格式。0 缓存每个头的键和值，2025 年 4 月以前的 GGUF 文件亦然。",
        "MLA 模式",
        "latent；DeepSeek-V2 为 0",
    ),
    LlamaCppSettings.ggml_backend: (
        "构建所用的 GPU 后端：其 kernel 决定计算缓冲区保留什么。",
        "后端",
        "",
        "CUDA 或 ROCm；其他后端按同样方式计算",
        "Vulkan",
    ),
    LlamaCppSettings.fork: (
        "llama.cpp 的分支：mainline、ik_llama.cpp 或 ollama；另有 llama-cpp-python，其他使用该库的程序填 libllama。",
        "分支版本",
    ),
}
"""Of each setting its help, label, default and what its values mean, as far as these are its own."""
NEEDS: Mapping[str, Need] = {
    LlamaCppSettings.n_cpu_moe: ROUTED,
    LlamaCppSettings.mmproj: SEEING,
    LlamaCppSettings.draft_quantization: Need(Inference.draft_model, (ANY,)),
    LlamaCppSettings.n_gpu_layers_draft: Need(Inference.draft_model, (ANY,)),
    LlamaCppSettings.cache_type_k_draft: Need(Inference.draft_model, (ANY,)),
    LlamaCppSettings.cache_type_v_draft: Need(Inference.draft_model, (ANY,)),
}
"""The one other setting that each of these waits for."""
TAKES: Mapping[str, tuple[Setting[Any], ...]] = {
    "llama.cpp": (Parallelism.pipeline_parallel_size, EngineSettings.version)
}
"""What of the settings that engines have in common it takes."""
REFUSED: Mapping[str, tuple[str, ...]] = {"llama.cpp": (*NOT_SERVED, *UNDIVIDED)}
"""Settings that every engine could have, but this one refuses whatever their value."""
