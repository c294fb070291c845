"""Where in a step something is, which ranks have it, and what optimizers are, in Chinese by the English words."""

from __future__ import annotations

from collections.abc import Mapping

OF_PLACES_IN_CHINESE: Mapping[str, str] = {
    # Moments
    "released parameters": "释放的参数",
    "reduced gradients": "归约后的梯度",
    "parameters of all stages": "所有级的参数",
    "all-gather copy-in": "all-gather 拷入",
    "{name} adapters": "{name} 的适配器",
    "accumulation in fp32": "fp32 累积",
    "end of the encoder": "编码器结束",
    "return from the host": "从主机取回",
    "embedding of an additional token": "多 token 预测的嵌入",
    "positions and masks": "位置与掩码",
    "vision embedding": "视觉嵌入",
    "cast loss": "转换 dtype 后的损失",
    "chunk of the loss": "损失的分块",
    "since CUDA Graph capture": "自 CUDA Graph 捕获起",
    "capture of CUDA graphs": "CUDA Graph 捕获",
    "once all graphs in flight are captured": "所有在途微批次的 graph 都已捕获",
    "expert gradients": "专家梯度",
    "from forward to backward pass": "从前向到反向传播",
    "outputs of other micro-batches": "其他微批次的输出",
    "outputs of the last stage": "最后一级的输出",
    "until the chunk's next micro-batch": "直到该块的下一个微批次",
    "end of the cache": "缓存结束",
    "vision layer": "视觉层",
    "vision {number} layer": "视觉塔 {number} 的层",
    "positions of tower {number}": "第 {number} 个塔的位置数",
    "run {number}": "第 {number} 段",
    "run {number}:{part}": "第 {number} 段：{part}",
    "saved by {rules}": "由 {rules} 保存",
    "assumes a driver queue of {count} launches and {time} µs of host time per launch": (
        "假设驱动队列可容纳 {count} 次启动，主机每次启动耗时 {time} µs"
    ),
    "the expected value is the mean of two measured versions of {engine}": "预期值取两个实测 {engine} 版本的平均",
    # Targets of adapters
    "PEFT's default for {family}": "PEFT 对 {family} 的默认值",
    "LitGPT's lora_query and lora_value": "LitGPT 的 lora_query 和 lora_value",
    # Optimizers
    "bitsandbytes AdamW": "bitsandbytes 的 AdamW",
    "bitsandbytes Lion": "bitsandbytes 的 Lion",
    "8-bit AdamW": "8 位 AdamW",
    "8-bit Lion": "8 位 Lion",
    "paged AdamW": "分页 AdamW",
    "paged Lion": "分页 Lion",
    "paged 8-bit AdamW": "分页 8 位 AdamW",
    "paged 8-bit Lion": "分页 8 位 Lion",
    "torchao 8-bit AdamW": "torchao 的 8 位 AdamW",
    "torchao 4-bit AdamW": "torchao 的 4 位 AdamW",
    "torchao fp8 AdamW": "torchao 的 fp8 AdamW",
    "Muon, with AdamW for everything but the layers' matrices": "Muon，层内矩阵以外的参数用 AdamW",
    "8-bit AdEMAMix": "8 位 AdEMAMix",
    "8-bit GaLore": "8 位 GaLore",
    "distributed_shampoo {title}": "distributed_shampoo 的 {title}",
    "Adam with AMSGrad": "带 AMSGrad 的 Adam",
    "RMSprop with momentum": "带动量的 RMSprop",
    "SGD with momentum": "带动量的 SGD",
    "SGD with Nesterov momentum": "带 Nesterov 动量的 SGD",
}
