"""What `memcore formulas` and `memcore accuracy` print, in Chinese."""

from __future__ import annotations

from collections.abc import Mapping

OF_FORMULAS_IN_CHINESE: Mapping[str, str] = {
    # Tools and their engines
    "meta-device script (gpu_memory_calculator.py)": "meta-device 脚本（gpu_memory_calculator.py）",
    "gpu-mem-calculator ({engine})": "gpu-mem-calculator（{engine:s}）",
    "Megatron Bridge until May 2026": "Megatron Bridge（2026 年 5 月之前）",
    "DeepSpeed ZeRO-{stage}, {what} offloaded": "DeepSpeed ZeRO-{stage}，卸载{what}",
    "the optimizer": "优化器",
    "parameters and optimizer": "参数与优化器",
    # Lines of a sum
    "input": "输入",
    "overhead": "额外开销",
    "20% of the lines above": "以上各项的 20%",
    "20% of the lines above and of 2·P/N": "以上各项与 2·P/N 的 20%",
    "0 (offloaded)": "0（已卸载）",
    "each parameter has its own dtype, and engines split them over GPUs": (
        "每个参数有自己的 dtype，引擎还会把参数切分到多块 GPU"
    ),
    "only trainable parameters have gradients": "只有可训练的参数有梯度",
    "states have the parameters' dtype (fp32 in mixed precision), not the compute dtype": (
        "状态的 dtype 与参数相同（混合精度时为 fp32），而不是计算的 dtype"
    ),
    "full checkpointing keeps one input of width h per layer and recomputes one layer at a time": (
        "完全重计算每层只保存一个宽度为 h 的输入，每次重计算一层"
    ),
    "memcore counts the tensors that autograd saves, and the logits b·s·V, which the script leaves out": (
        "memcore 统计 autograd 保存的张量，以及脚本未计入的 logits b·s·V"
    ),
    "part of the P parameters: counted twice": "已包含在 P 个参数中：重复计入",
    "the input is b·s token ids of 8 bytes each": "输入是 b·s 个 token id，每个 8 字节",
    "frozen parameters have none": "冻结的参数没有梯度",
    "FSDP and Megatron may keep them in fp32": "FSDP 与 Megatron 可能以 fp32 保存梯度",
    "12 bytes are an fp32 copy and two states": "12 字节是一份 fp32 副本和两个状态",
    "PyTorch keeps no copy": "PyTorch 不保存副本",
    "16·h is the same for every model, and the factor for checkpointing for every sequence length": (
        "16·h 对所有模型相同，重计算的系数对所有序列长度相同"
    ),
    "memcore counts the tensors that autograd saves, and the logits b·s·V, which are left out": (
        "memcore 统计 autograd 保存的张量，以及该公式未计入的 logits b·s·V"
    ),
    "memcore replays the caching allocator": "memcore 重放缓存分配器的行为",
    "the CUDA context does not grow with the job": "CUDA 上下文不随任务增大",
    "each parameter has its own dtype, fp32 in mixed precision": "每个参数有自己的 dtype，混合精度时为 fp32",
    "the first term is the largest layer": "第一项是最大的一层",
    "FSDP prefetches a second one": "FSDP 还会预取另一层",
    "the shard, 2·P/N, is left out of the sum": "合计中未计入分片 2·P/N",
    "only the largest layer is counted": "只计入最大的一层",
    "pipeline stages, which split the layers, are left out": "未考虑流水线级对层的切分",
    # What the tools assume
    "allocator overhead, workspaces and CUDA graphs are left out": "不计分配器开销、工作区与 CUDA Graph",
    "Adam takes 18 bytes per parameter": "Adam 每个参数占 18 字节",
    "with the distributed optimizer 6, plus 12 split over the data-parallel ranks": (
        "使用分布式优化器时为 6 字节，另有 12 字节切分到数据并行的各 rank"
    ),
    "embeddings are on the first and last stages": "嵌入位于第一级和最后一级",
    "an untied output head counts only without a pipeline": "不共享权重的输出头只在没有流水线时计入",
    "expert- and expert-tensor-parallel ranks split routed experts, expert-data-parallel ranks their states": (
        "路由专家切分到专家并行与专家张量并行的各 rank，其状态切分到专家数据并行的各 rank"
    ),
    "activations are 18·h + 4·f bytes per token and layer (sequence parallelism, selective recomputation)": (
        "激活值为每个 token 每层 18·h + 4·f 字节（序列并行、选择性重计算）"
    ),
    "no full recomputation, offloading, expert imbalance or dispatcher buffers": (
        "不考虑完全重计算、卸载、专家负载不均与分发器缓冲区"
    ),
    "every layer has all experts at the dense width, split over tensor-parallel ranks only": (
        "每层都有全部专家，宽度与稠密层相同，且只切分到张量并行的各 rank"
    ),
    "the most loaded shard has 1/p of the layers, all multi-token-prediction layers, and an embedding": (
        "负载最重的分片有 1/p 的层、全部多 token 预测层和一个嵌入"
    ),
    "any other job takes h·(10 + 24/t), plus 5%": "其他任务为 h·(10 + 24/t)，再加 5%",
    # Why memcore differs
    "a gated feed-forward layer saves 6·f bytes per token": "门控前馈层每个 token 保存 6·f 字节",
    "the formula counts 4·f": "公式按 4·f 计",
    "the formula ignores grouped-query attention, which has fewer and thus smaller keys and values": (
        "公式未考虑分组查询注意力（GQA），它的键和值更小"
    ),
    "18·h and 4·f describe a 2022 GPT with dropout": "18·h 与 4·f 描述的是 2022 年带 dropout 的 GPT",
    "memcore counts each tensor that the layers save": "memcore 逐个统计各层保存的张量",
    "the logits, 2 to 6 bytes per vocabulary entry and token, are on the last stage, which the formula leaves out": (
        "logits（每个词表项、每个 token 2 到 6 字节）在最后一级，公式未计入这一级"
    ),
    "full recomputation keeps one input per layer": "完全重计算每层只保存一个输入",
    "the formula counts all activations": "公式计入全部激活值",
    "no activations are reported without sequence parallelism and selective recomputation": (
        "没有序列并行与选择性重计算时不报告激活值"
    ),
    "norms and routers are replicated on every tensor-parallel rank": "归一化层与路由器在每个张量并行 rank 上各有一份",
    "the formula splits them": "公式将它们切分",
    "routers are not counted": "未计入路由器",
    "the formula puts all experts, at the dense width, in every layer and on every expert-parallel rank": (
        "公式在每一层、每个专家并行 rank 上都放置全部专家，宽度与稠密层相同"
    ),
    "multi-head latent attention is counted as ordinary attention": "多头潜在注意力（MLA）按普通注意力计算",
    "dispatched tokens, their copies and the router's probabilities are not counted": (
        "未计入分发的 token、其副本与路由器的概率"
    ),
    "context-parallel ranks also split the optimizer states and the sequence": (
        "上下文并行的各 rank 还会切分优化器状态与序列"
    ),
    "the formulas assume bf16 parameters with fp32 gradients and states, and leave out buffer padding, dummy "
    "gradients of fused accumulation, the embedding's dense gradient and workspaces": (
        "公式假设参数为 bf16、梯度与状态为 fp32，不计缓冲区填充、融合累加的占位梯度、嵌入的稠密梯度与工作区"
    ),
    "DeepSpeed's estimators leave out activations, buckets and gathered parameters": (
        "DeepSpeed 的估算不计激活值、bucket 与 all-gather 得到的参数"
    ),
    "the published formulas cover attention only": "公开的公式只涵盖注意力层",
    "{model} also has other mixers": "{model:s} 还有其他混合层",
    "the published formulas are of training only": "公开的公式只适用于训练",
}
