"""Settings of inference servers, as they name them on their command lines."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.kinds import Flag, Integer, Text, Version
from memcore.config.needs import ANY, ROUTED, Need
from memcore.config.parallelism import Parallelism
from memcore.config.schema import Section, setting
from memcore.serving.inference import POOLED, Inference

_VLLM, _SGLANG, _TRT, _CPP = ("vllm",), ("sglang",), ("tensorrt-llm",), ("llama.cpp",)


class ServerSettings(Section, path="engine"):
    """What servers can be told besides the job itself."""

    max_num_seqs = setting(
        Integer(unit="sequences"), "Max sequences per step",
        "Same as inference.max_num_seqs, for files that have it under engine.",
        flag="engine-max-seqs", engines=POOLED, advanced=True,
    )  # fmt: skip
    block_size = setting(
        Integer(unit="tokens"), "Block size", "Same as inference.block_size, for files that have it under engine.",
        flag="engine-block-size", engines=POOLED, advanced=True,
    )  # fmt: skip
    enable_expert_parallel = setting(
        Flag(),
        "Expert parallel",
        "Place whole experts on each rank instead of splitting every expert.",
        flag="enable-expert-parallel",
        engines=("vllm", "sglang"),
        advanced=True,
    )
    disable_custom_all_reduce = setting(
        Flag(),
        "NCCL sums",
        "NCCL adds up what the ranks have, instead of the server's own kernel, and its kernels are in every captured "
        "CUDA graph.",
        flag="disable-custom-all-reduce",
        engines=("vllm", "sglang"),
        default="false; true where GPUs do not reach each other",
        advanced=True,
    )
    allow_longer = setting(
        Flag(),
        "Longer than the model",
        "Take a max_model_len beyond the model's own maximum, which the server "
        "otherwise refuses when it starts (as VLLM_ALLOW_LONG_MAX_MODEL_LEN in its environment).",
        flag="allow-longer",
        engines=("vllm", "sglang"),
        default="false; true for SGLang 0.4.4 to 0.5.0",
        advanced=True,
    )
    scaled_positions = setting(
        Integer(unit="tokens"),
        "Scaled positions",
        "The longest sequence with the rotary positions that the server is told (--hf-overrides, --rope-scaling, "
        "--json-model-override-args), instead of what the model's config.json says. It changes no size.",
        flag="scaled-positions",
        engines=("vllm", "sglang"),
        default="the model's own maximum",
        advanced=True,
    )
    quantization = setting(
        Text(),
        "Server's quantization",
        "The server's own name for the weight format, for the record; inference.quantization decides.",
        flag="server-quantization",
        engines=POOLED,
        advanced=True,
    )


class ServerHardware(Section, path="hardware"):
    """What servers can be told of the GPUs besides what trainers can."""

    driver = setting(
        Version(),
        "NVIDIA driver",
        "Version of the NVIDIA driver, as nvidia-smi prints it, such as 580.76.05. What a captured CUDA graph takes "
        "depends on it.",
        flag="driver",
        engines=("vllm", "sglang"),
        default="a usual one for the GPU and the release",
        advanced=True,
    )


SECTIONS = (Inference, ServerSettings, ServerHardware)
IN_CHINESE: Mapping[str, tuple[str, ...]] = {
    Inference.batch_size: ("同时在显存中的序列数：一个批次，或服务的并发用户数。",),
    Inference.prompt_length: ("每个提示词的 token 数。", "", "最大序列长度减去输出"),
    Inference.output_length: ("每个提示词生成的 token 数。",),
    Inference.max_model_len: ("服务接受的最长序列：提示词加输出。", "", "提示词加输出，否则为模型的最大长度"),
    Inference.mean_length: (
        "每个用户的平均 token 数。缓存池共享，因此能容纳的用户数多于全部按最长计算的结果。",
        "",
        "最大长度的一半",
    ),
    Inference.max_num_seqs: ("调度器每步的最大序列数；决定采样器 logits 的大小。", "", "推理服务按显存决定"),
    Inference.weight_dtype: ("未量化部分的 dtype。", "", "checkpoint 的，否则为 bf16"),
    Inference.quantization: (
        "矩阵的权重格式；GGUF 类型用于 llama.cpp。",
        "",
        "按 checkpoint 的 quantization_config，否则为 none",
    ),
    Inference.kv_cache_dtype: (
        "KV 缓存的 dtype。",
        "",
        "",
        "模型的 dtype",
        "每个 token 的潜向量 656 字节（vLLM 的稀疏注意力）",
        "每个 token 和头一个 fp32 缩放因子",
        "",
        "ggml 每块 32 个值，带一个 fp16 缩放因子（llama.cpp）",
    ),
    Inference.block_size: (
        "KV 缓存每块的 token 数；一个序列占用整数个块。",
        "",
        "vLLM 16（MLA 为 64）、SGLang 1、TensorRT-LLM 32",
    ),
    Inference.use_cache: ("在 token 之间缓存键和值；不缓存时，每个 token 都要重新计算整个序列。", "KV 缓存"),
    Inference.draft_model: ("生成草稿 token 的小模型，写其 id 或 config.json；其权重和缓存另计。", "草稿模型"),
    Inference.speculative_method: (
        "投机解码方法；草稿部分的权重和缓存另计。",
        "投机解码方法",
        "该系列有此类层时为 mtp，否则 ngram；有草稿模型时为 draft",
        "checkpoint 自带的多 token 预测层",
        "EAGLE：作用于最后隐藏状态的一个解码层",
        "EAGLE-3：作用于三处隐藏状态的一个解码层，带小输出头",
        "Medusa：额外的预测头",
        "DFlash：几个解码层一次起草一整块 token",
        "在提示词中做 n-gram 查找；没有权重",
        "较小的草稿模型",
    ),
    Inference.num_speculative_tokens: (
        "每步生成并验证的草稿 token 数。",
        "草稿 token 数",
        "none；有草稿模型时为 5，llama.cpp 为 3",
    ),
    Inference.max_loras: ("同时在 GPU 显存中的 LoRA 适配器数。", "LoRA 槽位"),
    Inference.max_lora_rank: ("适配器的最高秩；每个 LoRA 槽位都按此大小分配。", "LoRA 秩"),
    Inference.images_per_sequence: (
        "每个提示词的图像数，用于带视觉塔的模型；0 表示显存探测时不运行视觉塔。",
        "",
        "推理服务做显存探测时所用的值",
    ),
    Inference.sleep_level: (
        "其他任务使用 GPU 时的状态：0 保持唤醒，1 把权重移到主机，2 丢弃权重；1 和 2 都丢弃缓存。",
        "休眠级别",
    ),
    ServerSettings.max_num_seqs: ("与 inference.max_num_seqs 相同，供写在 engine 下的文件使用。", "每步最大序列数"),
    ServerSettings.block_size: ("与 inference.block_size 相同，供写在 engine 下的文件使用。",),
    ServerSettings.enable_expert_parallel: ("每个 rank 放置完整的专家，而不是切分每个专家。",),
    ServerSettings.disable_custom_all_reduce: (
        "由 NCCL 而不是服务自己的 kernel 把各 rank 的结果相加，每个捕获的 CUDA Graph 中都有 NCCL 的 kernel。",
        "用 NCCL 求和",
        "false；GPU 之间不能直接访问时为 true",
    ),
    ServerSettings.allow_longer: (
        "允许 max_model_len 超过模型自身的最大长度，否则服务启动时会拒绝（环境变量 VLLM_ALLOW_LONG_MAX_MODEL_LEN）。",
        "超过模型长度",
        "false；SGLang 0.4.4 至 0.5.0 为 true",
    ),
    ServerSettings.scaled_positions: (
        "按服务所得的旋转位置设置（如 --hf-overrides）的最长序列，代替 config.json 中的值；不改变任何大小。",
        "缩放后的位置数",
        "模型自身的最大长度",
    ),
    ServerHardware.driver: (
        "NVIDIA 驱动的版本，与 nvidia-smi 显示的一致，例如 580.76.05。捕获的 CUDA Graph 所占显存取决于驱动。",
        "NVIDIA 驱动",
        "该 GPU 和版本常用的驱动",
    ),
    ServerSettings.quantization: (
        "服务自己的权重格式名称，仅作记录；以 inference.quantization 为准。",
        "推理服务的量化",
    ),
}
"""Of each setting its help, label, default and what its values mean, as far as these are its own."""
NEEDS: Mapping[str, Need] = {
    Inference.num_speculative_tokens: Need(Inference.draft_model, (ANY,)),
    Inference.max_lora_rank: Need(Inference.max_loras, (ANY,)),
    ServerSettings.enable_expert_parallel: ROUTED,
}
"""The one other setting that each of these waits for."""
NOT_SERVED = (Parallelism.sequence_parallel, Parallelism.loss_parallel)
"""Settings that no server has."""
UNDIVIDED = (
    Parallelism.tensor_parallel_size, Parallelism.pipeline_parallel_size, Parallelism.context_parallel_size,
)  # fmt: skip
"""Settings that a server without parallelism of its own refuses."""
