"""What a missing setting means, in Chinese, by the English texts; values and names stay as they are."""

from __future__ import annotations

from collections.abc import Mapping

DEFAULTS_IN_CHINESE: Mapping[str, str] = {
    "the whole GPU": "整块 GPU",
    "all three": "三者全部",
    "never": "从不",
    "none: no token is dropped; 1 with Megatron-DeepSpeed": "无：不丢弃 token；Megatron-DeepSpeed 为 1",
    "the model's maximum, at most 4096": "模型的最大长度，不超过 4096",
    "1 for a model with a vision tower": "带视觉塔的模型为 1",
    "the tower's native size; 1024 for towers that take any size (Qwen-VL), rounded to whole tokens": (
        "视觉塔的原生尺寸；接受任意尺寸的塔（Qwen-VL）为 1024，取整到整数个 token"
    ),
    "bf16-mixed with FSDP; otherwise bf16, the checkpoint's dtype, as in transformers 5": (
        "FSDP 为 bf16-mixed；否则为 checkpoint 的 dtype bf16，与 transformers 5 相同"
    ),
    "adapter if an adapter is trained, otherwise copy": "训练适配器时为 adapter，否则为 copy",
    "256, as in TRL, at most the sequence length": "256，与 TRL 相同，不超过序列长度",
    "set by the preset": "由预设决定",
    "the parameter dtype": "与参数相同",
    "fp32 with a mixed preset, otherwise the compute dtype": "混合预设为 fp32，否则为计算的 dtype",
    "the engine's": "引擎的",
    "fused, as in the Hugging Face Trainer and torchtitan; foreach for SGD, as in torch.optim": (
        "fused，与 Hugging Face Trainer 和 torchtitan 相同；SGD 为 foreach，与 torch.optim 相同"
    ),
    "the parameters' dtype": "参数的 dtype",
    "128 for GaLore, 256 for APOLLO, 1 for APOLLO-Mini": "GaLore 为 128，APOLLO 为 256，APOLLO-Mini 为 1",
    "8, as in PEFT; 32 with Megatron, as in Megatron Bridge": (
        "8，与 PEFT 相同；Megatron 为 32，与 Megatron Bridge 相同"
    ),
    "all-linear; with engine.framework peft, transformers, trl or accelerate, PEFT's default for the family": (
        "all-linear；engine.framework 为 peft、transformers、trl 或 accelerate 时用 PEFT 对该系列的默认值"
    ),
    "the same rank everywhere": "各处相同",
    "near the square root of the width, as in PEFT": "接近宽度的平方根，与 PEFT 相同",
    "32 for OFT without a rank, 4 for BOFT, 256 for C3A, as in PEFT": (
        "没有秩的 OFT 为 32，BOFT 为 4，C3A 为 256，与 PEFT 相同"
    ),
    "2, for the tokens that begin and end a sequence": "2，即序列的起始与结束 token",
    "64, as in PEFT": "64，与 PEFT 相同",
    "1000, as in PEFT": "1000，与 PEFT 相同",
    "12, as in PEFT": "12，与 PEFT 相同",
    "10 inside the layers, as in LitGPT; 20 prepended to the sequence": "10，与 LitGPT 相同；在序列之前时为 20",
    "fp32, as in PEFT": "fp32，与 PEFT 相同",
    "none: weights in the parameter dtype": "none：权重为参数的 dtype",
    "op, or layer if `every` is set": "op；设置了 every 时为 layer",
    "2, as in torchtitan": "2，与 torchtitan 相同",
    "false; if true, tiles of hidden_size tokens, or the framework's default": (
        "false；为 true 时每块的 token 数等于隐藏维度，或按框架自身的设定"
    ),
    "true, as in torch.utils.checkpoint": "true，与 torch.utils.checkpoint 相同",
    "transformers, or the framework's own; torchtitan with expert parallelism; Megatron's with Megatron": (
        "transformers，或框架自己的；专家并行时为 torchtitan；Megatron 用自己的"
    ),
    "sdpa; math if the family has no SDPA in transformers (Gemma 2)": (
        "sdpa；该系列在 transformers 中没有 SDPA（Gemma 2）时为 math"
    ),
    "cross-entropy-fp32, as in transformers": "cross-entropy-fp32，与 transformers 相同",
    "model; labels-preshifted with torchtitan's layers": "model；torchtitan 的层为 labels-preshifted",
    "1: everything the compiler would save; 0.5 in torchtitan's memory_budget mode": (
        "1：编译器会保存的全部；torchtitan 的 memory_budget 模式为 0.5"
    ),
    "as this framework version does if blocks are compiled, otherwise false": (
        "编译 block 时与该框架版本相同，否则为 false"
    ),
    "what the model's config.json says": "按模型的 config.json",
    "all GPUs; 1 for servers": "全部 GPU；推理服务为 1",
    "all data-parallel ranks": "所有数据并行 rank",
    "the GPU": "该 GPU",
    "true with tensor parallelism": "张量并行时为 true",
    "true with torchtitan's layers": "torchtitan 的层为 true",
    "1; 2 with PyTorch's interleaved-1f1b, zbv and dualpipev": "1；PyTorch 的 interleaved-1f1b、zbv 和 dualpipev 为 2",
    "even; torchtitan counts embedding and head as a layer each": "均匀；torchtitan 将嵌入和输出头各算一层",
    "none on 1 GPU, fsdp on several": "单 GPU 为 none，多 GPU 为 fsdp",
    "2 for FSDP; otherwise the newest known release": "FSDP 为 2；其余为已知的最新版本",
    "1, even": "1，即均匀分布",
    "delayed with Megatron, tensorwise with FSDP (with fp8-mixed)": (
        "fp8-mixed 时：Megatron 为 delayed，FSDP 为 tensorwise"
    ),
    "none: no token is dropped": "none：不丢弃 token",
    "transformers' Trainer": "transformers 的 Trainer",
    "none, so no verdict": "none：不判断能否放下",
    "the product of the parallel sizes": "各并行规模之积",
    "the catalog's": "目录中的值",
    "all blocks are split": "所有块都可拆分",
    "requests are rounded up to 512 bytes": "请求向上取整到 512 字节",
    "estimated": "估算值",
}
