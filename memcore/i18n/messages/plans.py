"""What plans change, why, and what they cost, in Chinese by the English sentence."""

from __future__ import annotations

from collections.abc import Mapping

OF_PLANS_IN_CHINESE: Mapping[str, str] = {
    # What binds
    "a plan needs to know the GPU": "制定方案需要知道 GPU 型号",
    "allowed: a share from 0 to below 1, such as 0.1": "允许 0 到 1（不含）之间的比例，如 0.1",
    "each GPU has {capacity}, and the leanest job that was tried needs {size}": (
        "每块 GPU 有 {capacity}，而试过的最省的任务需要 {size}"
    ),
    "its peak is in the {moment}, the largest part {category} ({bytes})": (
        "峰值在{moment}，其中最大的部分是{category}（{bytes}）"
    ),
    "each GPU has {capacity}, and the leanest server that was tried needs {size}, most of it {category} ({bytes})": (
        "每块 GPU 有 {capacity}，而试过的最省的服务需要 {size}，其中大部分是{category}（{bytes}）"
    ),
    # What a plan gives up
    "the same result": "结果相同",
    "the same result as the job that is asked for": "与所求任务的结果相同",
    "optimizer states in fewer bits": "低位优化器状态",
    "weights in fewer bits": "低位权重",
    "less work": "减少工作量",
    "more hardware": "更多硬件",
    # Why
    "runs the job": "运行任务",
    "divides the job among the GPUs, with the same sequences in each step": "将任务切分到各 GPU，每步的序列数不变",
    "more memory for each GPU": "每块 GPU 的显存更大",
    "activations grow with the sequence": "激活随序列长度增长",
    "the cache grows with each token": "缓存随每个 token 增长",
    "two bytes of moments for each parameter instead of four or eight": "每个参数的动量占 2 字节，而不是 4 或 8 字节",
    "the second moment is two vectors for each matrix, and each gradient is freed as soon as it is used": (
        "每个矩阵的二阶矩只是两个向量，且梯度用完即释放"
    ),
    "gradients and optimizer states exist for small matrices only": "只有小矩阵有梯度和优化器状态",
    "frozen weights take 4.5 bits each": "每个冻结权重占 4.5 位",
    "frozen weights need no fp32 copy": "冻结权重不需要 fp32 副本",
    "the usual format of this server's files": "该服务所用文件的常见格式",
    "nothing is computed twice": "没有重复计算",
    "core attention alone runs again": "只重新计算核心注意力",
    "each layer keeps its input alone": "每层只保留输入",
    "the forward pass runs again, about a third more arithmetic": "重新计算前向传播，计算量约多三分之一",
    "every second matrix product and the cheap operations run again, attention does not": (
        "重新计算每隔一个的矩阵乘和廉价操作，注意力不重新计算"
    ),
    "data-parallel ranks divide the optimizer's states and exchange the same number of bytes": (
        "数据并行 rank 切分优化器状态，通信字节数不变"
    ),
    "data-parallel ranks divide master weights and moments, and send as many bytes as before": (
        "数据并行 rank 切分主权重和动量，通信字节数不变"
    ),
    "tensor-parallel ranks divide norms and dropout, too": "张量并行 rank 也切分归一化和 dropout",
    "they send as many bytes as before": "通信字节数不变",
    "optimizer states stay on the host, whose processors run the step": "优化器状态留在主机上，由主机处理器执行更新",
    "master weights and moments stay on the host, whose processors run the step": (
        "主权重和动量留在主机上，由主机处理器执行更新"
    ),
    "shards, gradients and optimizer stay on the host, whose processors run the optimizer": (
        "参数分片、梯度和优化器留在主机上，由主机处理器运行优化器"
    ),
    "the GPU holds the layers that it works on": "GPU 只保留正在计算的层",
    "the rest comes over PCIe": "其余经 PCIe 传输",
    "the processor computes the layers that the GPU has no room for": "GPU 放不下的层由处理器计算",
    "each token waits for the host's memory": "每个 token 都要等待主机内存",
    # What it may cost in quality
    "published runs match 32-bit Adam": "已发表的训练结果与 32 位 Adam 一致",
    "no first moment, no gradient clipping, and bf16 parameters lose small updates": (
        "没有一阶矩，没有梯度裁剪，bf16 参数会丢失小的更新"
    ),
    "close to full fine-tuning for instruction tuning": "用于指令微调时接近全参数微调",
    "less for new knowledge (arXiv 2405.09673)": "学习新知识时较差（arXiv 2405.09673）",
    "weights are rounded to 4 bits": "权重舍入到 4 位",
    "arXiv 2305.14314 finds the same scores as 16-bit LoRA": "arXiv 2305.14314 的得分与 16 位 LoRA 相同",
    "checkpoints are published in bf16": "检查点以 bf16 发布",
    "adapters learn in bf16, too": "适配器也以 bf16 学习",
    "weights are stored as {format}": "权重以 {format} 存储",
    "prompt and answer are shorter, or more users wait": "提示和回答更短，或更多用户等待",
}
