"""What plans change, why, and what they cost, in Chinese by the English sentence."""

from __future__ import annotations

from collections.abc import Mapping

OF_PLANS_IN_CHINESE: Mapping[str, str] = {
    # What binds
    "a plan needs a GPU model": "制定方案需要 GPU 型号",
    "allowed: a fraction from 0 to below 1, such as 0.1": "允许 0 到 1（不含）之间的比例，如 0.1",
    "each GPU has {capacity}, but the smallest variant tried needs {size}": (
        "每块 GPU 有 {capacity}，而尝试过的最小方案仍需 {size}"
    ),
    "its peak is in the {moment}, the largest part {category} ({bytes})": (
        "峰值在{moment}，其中最大的部分是{category}（{bytes}）"
    ),
    "each GPU has {capacity}, and the config with the largest cache holds only {users} of {asked} "
    "sequences of {length} tokens": (
        "每块 GPU 有 {capacity}，缓存最大的配置也只能容纳 {asked} 个序列中的 {users} 个，每个 {length} token"
    ),
    "each GPU has {capacity}, and the largest cache of any config does not hold a sequence of {length} tokens": (
        "每块 GPU 有 {capacity}，缓存最大的配置也放不下 {length} token 的序列"
    ),
    "A sequence of {length} tokens": "一个 {length} token 的序列",
    "Tensor parallel": "张量并行",
    "Pipeline across nodes": "节点间流水线并行",
    "Replicas": "多副本",
    "tensor parallelism stays within a node, and stages send only hidden states between nodes": (
        "张量并行不跨节点；各级在节点间只传递隐藏状态"
    ),
    "each rank has a cache for its own users, and experts are distributed over all ranks": (
        "每个 rank 只为自己的用户保存缓存，专家分布在所有 rank 上"
    ),
    "fewer GPUs wait for each other at every layer, and each replica serves a part of the users": (
        "每层需要互相等待的 GPU 更少；每个副本服务一部分用户"
    ),
    "each GPU has {capacity}, but the smallest server config tried needs {size}, most of it {category} ({bytes})": (
        "每块 GPU 有 {capacity}，而尝试过的最小服务配置仍需 {size}，其中大部分是{category}（{bytes}）"
    ),
    "for training jobs only": "仅用于训练任务",
    "a server has no tokens to train on": "推理服务没有训练 token",
    # What a plan gives up
    "the same result": "结果相同",
    "the same result as the job you asked for": "结果与您要求的任务相同",
    "optimizer states in lower precision": "优化器状态精度更低",
    "weights in lower precision": "权重精度更低",
    "a smaller job": "任务变小",
    "more hardware": "更多硬件",
    # What changes
    "No checkpointing": "不做重计算",
    "Full checkpointing": "完全重计算",
    "Selective checkpointing": "选择性重计算",
    "No recomputation": "不做重计算",
    "Full recomputation": "完全重计算",
    "Selective recomputation": "选择性重计算",
    "LoRA on all linear layers": "对所有线性层使用 LoRA",
    "gradients take two bytes per parameter instead of four, and half as many bytes are sent": (
        "每个参数的梯度占两字节而不是四字节，通信量减半"
    ),
    "sums over micro-batches and ranks are rounded to 8 bits of mantissa": "对微批和 rank 的求和舍入到 8 位尾数",
    "LoRA on attention only": "只对注意力使用 LoRA",
    "gradients and optimizer states exist for small matrices only, none of them of experts": (
        "只有小矩阵有梯度和优化器状态，专家没有"
    ),
    "experts learn nothing": "专家不学习",
    "experts learn nothing, and their weights are rounded like the others": "专家不学习，其权重与其他权重一样舍入",
    "Experts quantized too, LoRA on attention only": "专家也量化，仅注意力层用 LoRA",
    "Unsloth quantizes the scales of NF4's blocks too": "Unsloth 也量化 NF4 各块的缩放因子",
    "Doubly quantized weights": "权重双重量化",
    "4.13 bits a weight instead of 4.5: scales are quantized too": "每个权重 4.13 位而非 4.5 位：缩放因子也量化",
    "arXiv 2305.14314 finds no loss from quantized scales": "arXiv 2305.14314 未发现量化缩放因子带来损失",
    "Paged AdamW with 8-bit states": "8 位状态的分页 AdamW",
    "moments take two bytes each, and move to the host when the GPU is full": "矩各占 2 字节，显存不足时移到主机",
    "a global batch of {tokens} tokens, usual for a model of this size": "全局批量 {tokens} 个 token（此规模的常用值）",
    "set it with --batch-tokens": "可用 --batch-tokens 设定",
    "a global batch of {tokens} tokens: the same number of whole sequences on every GPU": (
        "全局批量 {tokens} 个 token：每块 GPU 的完整序列数相同"
    ),
    "leave it out, or --batch-tokens": "请去掉它，或去掉 --batch-tokens",
    "a server has no optimizer steps": "推理服务没有优化器更新",
    "sequences of {tokens} tokens, usual for chats": "序列长 {tokens} 个 token（聊天的常用值）",
    "set it with --max-len": "可用 --max-len 设定",
    "No more sequences per step than needed": "每步序列数不超过所需",
    "graphs and the sampler are made for your users alone, or for what the cache holds": (
        "CUDA Graph 与采样器只按用户数或缓存能容纳的序列数准备"
    ),
    "further requests wait": "更多的请求需排队",
    "A smaller fraction of GPU memory": "降低显存比例",
    "of rank 16, TRL's and Unsloth's default": "秩为 16，即 TRL 与 Unsloth 的默认值",
    "GPUs of several kinds: {kinds}": "GPU 型号不同：{kinds}",
    "each counts as the one with least memory": "均按显存最小的一种计算",
    "A part of each GPU": "每块 GPU 的一部分",
    "A GPU of its own": "独占一块 GPU",
    "{apiece} GPUs of its own": "独占 {apiece} 块 GPU",
    "no job takes memory or time of another": "任务之间不争用显存和时间",
    "the servers divide each GPU by what they need": "各服务器按所需分用每块 GPU",
    "each GPU has {capacity}, but the smallest variants tried need {size} together": (
        "每块 GPU 有 {capacity}，而试过的最小变体合计需要 {size}"
    ),
    "memory outside the server's budget fits for certain": "服务器预算之外的显存一定放得下",
    "the cache is smaller": "缓存变小",
    "Experts quantized too": "专家也量化",
    "transformers 5 stacks experts in one tensor, which bitsandbytes leaves in 16 bits otherwise": (
        "transformers 5 把专家堆叠成一个张量，bitsandbytes 否则会让它保持 16 位"
    ),
    "Adafactor, stepped inside the backward pass": "在反向传播中更新的 Adafactor",
    "Chunked loss": "分块计算损失",
    "Frozen weights in int8": "冻结权重用 int8",
    "Frozen weights in NF4 (QLoRA)": "冻结权重用 NF4（QLoRA）",
    "Weights and moments in bf16": "权重和动量用 bf16",
    "AdamW with 8-bit states, stepped inside the backward pass": "8 位状态的 AdamW，在反向传播中更新",
    "Frozen weights in bf16": "冻结权重用 bf16",
    "Optimizer on the host": "优化器放在主机上",
    "Optimizer and parameters on the host": "优化器和参数放在主机上",
    "FSDP's CPU offload": "FSDP 的 CPU 卸载",
    "Some layers on the host": "部分层放在主机上",
    "Some experts on the host": "部分专家放在主机上",
    "{number} GPUs": "{number} 块 GPU",
    "Sequences of {length} tokens": "序列长度为 {length} token",
    "{count} sequences of {length} tokens": "{count} 个长度为 {length} token 的序列",
    "weights in {format}": "{format} 权重",
    # Why
    "each layer saves only its input, which waits in the host's memory for the backward pass": (
        "每层只保存输入，并在主机内存中等到反向传播"
    ),
    "the most bits that fit, up to 8": "放得下的最高位数，至多 8 位",
    "runs with {}": "用 {} 运行",
    "each matrix is split across GPUs of a node": "每个矩阵切分到同一节点的多块 GPU",
    "each GPU holds a part of the layers": "每块 GPU 只存放一部分层",
    "the stages cannot all have the same number of layers": "各级的层数无法相同",
    "each sequence is split across GPUs": "每条序列切分到多块 GPU",
    "experts are distributed over GPUs": "专家分布到多块 GPU",
    "how the job is divided among the GPUs": "任务在各 GPU 之间的划分方式",
    "keeps the global batch size on this number of GPUs": "在该 GPU 数下保持全局批次大小不变",
    "more memory for each GPU: the next size of the same line, else the newest of its size": (
        "每块 GPU 的显存更大：同系列的下一档，否则为该容量中最新的型号"
    ),
    "activations grow with the sequence": "激活值随序列长度增长",
    "the cache grows with each token": "缓存随每个 token 增长",
    "two bytes of moments per parameter instead of four or eight": (
        "每个参数的一阶、二阶矩共 2 字节，而不是 4 或 8 字节"
    ),
    "the second moment is two vectors per matrix, and each gradient is freed right after its use": (
        "每个矩阵的二阶矩只是两个向量，且梯度用完即释放"
    ),
    "parameters, gradients and moments take two bytes each, without an fp32 copy": (
        "参数、梯度和一阶、二阶矩各占 2 字节，没有 fp32 副本"
    ),
    "two bytes of moments per parameter, and each gradient is freed right after its use": (
        "每个参数的一阶、二阶矩共 2 字节，且梯度用完即释放"
    ),
    "gradients and optimizer states exist for small matrices only": "只有小矩阵有梯度和优化器状态",
    "frozen weights take a byte each": "每个冻结权重占 1 字节",
    "head and loss run over an eighth of the sequence at a time, so the logits never exist in full": (
        "输出头和损失每次只算序列的八分之一，logits 不会同时全部存在"
    ),
    "frozen weights take 4.5 bits each": "每个冻结权重占 4.5 位",
    "frozen weights need no fp32 copy": "冻结权重不需要 fp32 副本",
    "the usual format of this server's files": "该服务所用文件的常见格式",
    "nothing is computed twice": "没有重复计算",
    "only core attention is recomputed": "只重计算核心注意力",
    "each layer saves only its input": "每层只保存输入",
    "the forward pass runs twice: a third more compute, half more if the weights are frozen": (
        "前向传播执行两次：计算量增加三分之一，权重冻结时增加一半"
    ),
    "every second matrix product and cheap operations are recomputed, attention is not": (
        "重计算每两个矩阵乘中的一个和开销小的算子，注意力不重计算"
    ),
    "data-parallel ranks shard the optimizer states and exchange the same number of bytes": (
        "数据并行 rank 切分优化器状态，通信字节数不变"
    ),
    "data-parallel ranks shard master weights and moments and send as many bytes as before": (
        "在数据并行 rank 间切分主权重和一阶、二阶矩，通信量不变"
    ),
    "tensor-parallel ranks also split norms and dropout": "张量并行的 rank 也切分归一化和 dropout 的激活值",
    "they send as many bytes as before": "通信量不变",
    "optimizer states stay on the host, and the CPU runs the step": "优化器状态留在主机内存，由 CPU 执行更新",
    "master weights and moments stay on the host, and the CPU runs the step": (
        "主权重和一阶、二阶矩留在主机内存，由 CPU 执行更新"
    ),
    "shards, gradients and optimizer states stay on the host, and the CPU runs the step": (
        "参数分片、梯度和优化器状态留在主机内存，由 CPU 执行更新"
    ),
    "the GPU holds only the layers in use": "GPU 只保留正在计算的层",
    "frozen parameters are empty again when layers run again, which other checkpoints take for an error": (
        "重新计算层时冻结参数又成了空张量，其他形式的检查点会把它当作错误"
    ),
    "the rest comes over PCIe": "其余经 PCIe 传输",
    "the CPU computes the layers that do not fit on the GPU": "GPU 放不下的层由 CPU 计算",
    "the CPU computes the experts that do not fit on the GPU": "GPU 放不下的专家由 CPU 计算",
    "a token reads few of them from host memory": "每个 token 只从主机内存读取其中少数",
    "each token waits for host memory": "每个 token 都要等待主机内存",
    # What it may cost in quality
    "published runs match 32-bit Adam": "已发表的训练结果与 32 位 Adam 一致",
    "bf16 parameters lose small updates": "bf16 参数会丢失小的更新",
    "both moments are quantized in blocks of 256, and there is no gradient clipping": (
        "一阶、二阶矩按 256 个一组量化，且不做梯度裁剪"
    ),
    "no first moment, no gradient clipping, and bf16 parameters lose small updates": (
        "没有一阶矩，不做梯度裁剪，且 bf16 参数会丢失小的更新"
    ),
    "close to full fine-tuning for instruction tuning": "用于指令微调时接近全参数微调",
    "less for new knowledge (arXiv 2405.09673)": "学习新知识时较差（arXiv 2405.09673）",
    "weights are rounded to 4 bits": "权重舍入到 4 位",
    "weights are rounded to 8 bits, outliers are not": "权重舍入到 8 位，离群值除外",
    "arXiv 2208.07339 reports the same scores as 16 bits": "arXiv 2208.07339 报告得分与 16 位相同",
    "arXiv 2305.14314 reports the same scores as 16-bit LoRA": "arXiv 2305.14314 报告的得分与 16 位 LoRA 相同",
    "checkpoints are published in bf16": "checkpoint 以 bf16 发布",
    "the adapters are trained in bf16 too": "适配器也以 bf16 训练",
    "weights are stored as {format}": "权重以 {format} 存储",
    "prompt and answer are shorter, or more users wait": "提示词和回答更短，或更多用户等待",
    # Jobs on the same GPUs
    "jobs on the same GPU name different accelerators, {first} and {other}": (
        "共用 GPU 的任务指定了不同的型号：{first} 和 {other}"
    ),
    "give the same one for all of them": "请为它们指定同一型号",
}
