"""What a missing setting means, in Chinese, by the English texts; values and names stay as they are."""

from __future__ import annotations

from collections.abc import Mapping

DEFAULTS_IN_CHINESE: Mapping[str, str] = {
    "the model's maximum, at most 4096": "模型的最大长度，不超过 4096",
    "1 for a model with a vision tower": "带视觉塔的模型为 1",
    "the tower's native size; 1024 for towers that take any size (Qwen-VL), rounded to whole tokens": (
        "视觉塔的原生尺寸；接受任意尺寸的塔（Qwen-VL）为 1024，取整到整数个 token"
    ),
    "bf16-mixed with FSDP; otherwise bf16, the checkpoint's dtype, as in transformers 5": (
        "FSDP 为 bf16-mixed；否则为 checkpoint 的 dtype bf16，与 transformers 5 相同"
    ),
    "adapter with an adapter, otherwise copy": "有适配器时为 adapter，否则为 copy",
    "256, as in TRL, at most the sequence length": "256，与 TRL 相同，不超过序列长度",
    "by the preset": "由预设决定",
    "by the precision preset": "由精度预设决定",
    "the parameter dtype": "参数的 dtype",
    "fp32 with a mixed preset, otherwise the compute dtype": "混合预设为 fp32，否则为计算的 dtype",
    "the engine's": "引擎的",
    "fused, as in the Hugging Face Trainer and torchtitan; foreach for SGD, as in torch.optim": (
        "fused，与 Hugging Face Trainer 和 torchtitan 相同；SGD 为 foreach，与 torch.optim 相同"
    ),
    "the parameters'": "参数的",
    "128 for GaLore, 256 for APOLLO, 1 for APOLLO-Mini": "GaLore 为 128，APOLLO 为 256，APOLLO-Mini 为 1",
    "8, as in PEFT; 32 with Megatron, as in Megatron Bridge": (
        "8，与 PEFT 相同；Megatron 为 32，与 Megatron Bridge 相同"
    ),
    "all-linear; PEFT's for the family where engine.framework is peft, transformers, trl or accelerate": (
        "all-linear；engine.framework 为 peft、transformers、trl 或 accelerate 时用 PEFT 对该系列的默认值"
    ),
    "near the square root of the width, as in PEFT": "接近宽度的平方根，与 PEFT 相同",
    "32 for OFT without a rank, 4 for BOFT, as in PEFT": "没有秩的 OFT 为 32，BOFT 为 4，与 PEFT 相同",
    "2, for the tokens that begin and end a sequence": "2，即序列的起始与结束 token",
    "64, as in PEFT": "64，与 PEFT 相同",
    "12, as in PEFT": "12，与 PEFT 相同",
    "10 inside the layers, as in LitGPT; 20 prepended to the sequence": "10，与 LitGPT 相同；在序列之前时为 20",
    "fp32, as in PEFT": "fp32，与 PEFT 相同",
    "none, the parameter dtype": "none：以参数的 dtype",
    "op; layer if every is given": "op；给出间隔时为 layer",
    "2, as in torchtitan": "2，与 torchtitan 相同",
    "true, as in torch.utils.checkpoint": "true，与 torch.utils.checkpoint 相同",
    "transformers, or the framework's own; torchtitan with expert parallelism; Megatron's with Megatron": (
        "transformers，或框架自己的；专家并行时为 torchtitan；Megatron 用自己的"
    ),
    "sdpa; math if the family has no SDPA in transformers (Gemma 2)": (
        "sdpa；该系列在 transformers 中没有 SDPA（Gemma 2）时为 math"
    ),
    "cross-entropy-fp32, as in transformers": "cross-entropy-fp32，与 transformers 相同",
    "model; labels-preshifted with torchtitan's layers": "model；torchtitan 的层为 labels-preshifted",
    "1, all that the compiler would save; 0.5 in torchtitan's mode memory_budget": (
        "1，即编译器会保存的全部；torchtitan 的 memory_budget 模式为 0.5"
    ),
    "what the framework's version does if blocks are compiled; otherwise false": (
        "编译 block 时按框架版本的做法；否则为 false"
    ),
    "what the model's config.json says": "按模型的 config.json",
    "the longest sequence minus the output": "最大序列长度减去输出",
    "prompt plus output, otherwise the model's maximum": "提示加输出，否则为模型的最大长度",
    "half the longest": "最大长度的一半",
    "the server's, by GPU memory": "推理服务按显存决定",
    "the checkpoint's, otherwise bf16": "checkpoint 的，否则为 bf16",
    "from the checkpoint's quantization_config, otherwise none": "按 checkpoint 的 quantization_config，否则为 none",
    "vLLM 16 (64 for latent attention), SGLang 1, TensorRT-LLM 32": "vLLM 16（MLA 为 64）、SGLang 1、TensorRT-LLM 32",
    "none, or 5 with a draft model": "none，有草稿模型时为 5",
    "mtp if the family has such layers, otherwise ngram; draft with a draft model": (
        "该系列有此类层时为 mtp，否则 ngram；有草稿模型时为 draft"
    ),
    "what the server profiles with": "推理服务做显存探测时所用的值",
    "all GPUs; 1 for servers": "全部 GPU；推理服务为 1",
    "all data-parallel ranks": "所有数据并行 rank",
    "all ranks": "所有 rank",
    "the GPU": "该 GPU",
    "true with tensor parallelism": "张量并行时为 true",
    "true with torchtitan's layers": "torchtitan 的层为 true",
    "1; 2 with PyTorch's interleaved-1f1b, zbv and dualpipev": "1；PyTorch 的 interleaved-1f1b、zbv 和 dualpipev 为 2",
    "even; torchtitan counts embedding and head as a layer each": "均匀；torchtitan 将嵌入和输出头各算一层",
    "none on 1 GPU, fsdp on several": "单 GPU 为 none，多 GPU 为 fsdp",
    "2 for FSDP; otherwise the newest known release": "FSDP 为 2；其余为已知的最新版本",
    "alltoall; allgather with Megatron": "alltoall；Megatron 为 allgather",
    "1, even": "1，即均匀分布",
    "0.92; 0.9 before 0.20": "0.92；0.20 之前为 0.9",
    "what gpu_memory_utilization leaves": "gpu_memory_utilization 剩余的部分",
    "8192 on GPUs from 70 GiB (except A100), 16384 from 160 GiB, otherwise 2048": (
        "70 GiB 起（A100 除外）为 8192，160 GiB 起为 16384，否则为 2048"
    ),
    "false; true for chunked attention before 0.20": "false；0.20 之前对分块注意力为 true",
    "SGLang's own rule, from the GPU, chunk size and CUDA Graphs": (
        "SGLang 自己的规则，取决于 GPU、分块大小和 CUDA Graph"
    ),
    "2048, 4096, 8192 or 16384 by GPU memory": "按显存为 2048、4096、8192 或 16384",
    "by GPU memory": "按显存",
    "false, as in FullyShardedDataParallel; true with LitGPT": (
        "false，与 FullyShardedDataParallel 相同；LitGPT 为 true"
    ),
    "by training.loss": "由 training.loss 决定",
    "no_shard, as in Megatron-LM": "no_shard，与 Megatron-LM 相同",
    "the pipeline-parallel size": "流水线级数",
    "delayed with Megatron, tensorwise with FSDP (with fp8-mixed)": (
        "fp8-mixed 时：Megatron 为 delayed，FSDP 为 tensorwise"
    ),
    "none: no token is dropped": "none：不丢弃 token",
    "whole layers": "整层",
    "ALL_REDUCE; REDUCE_SCATTER with sequence_parallel": "ALL_REDUCE；序列并行时为 REDUCE_SCATTER",
    "true; false with ALL_REDUCE": "true；ALL_REDUCE 时为 false",
    "true for stage 3, else false": "阶段 3 为 true，否则为 false",
    "1, no secondary copy": "1，即没有第二份副本",
    "false, as fully_shard does for the root": "false，与 fully_shard 对根模块相同",
    "layer; torchtitan with torchtitan's layers": "layer；torchtitan 的层为 torchtitan",
    "false, as in DistributedDataParallel": "false，与 DistributedDataParallel 相同",
    "true, as in torch.distributed.pipelining; false with torchtitan's layers": (
        "true，与 torch.distributed.pipelining 相同；torchtitan 的层为 false"
    ),
    "transformers' Trainer": "transformers 的 Trainer",
    "none, so no verdict": "none：不判断能否放下",
    "the product of the parallel sizes": "各并行规模之积",
    "the catalog's": "目录中的值",
}
