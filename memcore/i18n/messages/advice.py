"""Advice, searches, solutions and compared logs in Chinese, by the English sentence."""

from __future__ import annotations

from collections.abc import Mapping

OF_ADVICE_IN_CHINESE: Mapping[str, str] = {
    # Kinds of cost
    "costs nothing": "没有代价",
    "more communication": "更多通信",
    "more compute": "更多计算",
    "slower steps": "每步更慢",
    "traffic between GPU and host": "GPU 与主机间的传输",
    "lower precision": "精度降低",
    "a different training method": "改变训练方法",
    "more GPUs": "更多 GPU",
    "a different job": "改变任务本身",
    # Changes of training
    "Expandable segments": "可扩展段",
    "the allocator grows its segments instead of leaving gaps": "分配器扩展段而不留空隙",
    "tensors stay as they are": "张量不变",
    "Free the model's outputs before the backward pass": "反向传播前释放模型输出",
    "the training step does not need them": "训练步用不到它们",
    "No KV cache while training": "训练时不用 KV 缓存",
    "training never reads it": "训练中用不到",
    "Free gradients after each step": "每步之后释放梯度",
    "the next backward pass recreates them": "下一次反向传播会重新生成",
    "Fused optimizer": "融合优化器",
    "one kernel instead of lists of temporaries": "一个 kernel，不再需要成组的临时张量",
    "Gradients as views of DDP's buckets": "梯度直接使用 DDP bucket 的显存",
    "one copy of the gradients instead of two": "梯度由两份变为一份",
    "Flash attention instead of stored scores": "用 flash attention 代替保存全部注意力分数",
    "the kernel is faster too": "kernel 也更快",
    "Packed sequences instead of padded ones": "打包序列，不再填充",
    "the flash kernel takes no padding mask": "flash kernel 不接受填充掩码",
    "padding is not computed either": "也不计算填充部分",
    "Fused recurrent kernels": "循环层使用融合 kernel",
    "the kernels are faster too": "kernel 也更快",
    "Parallel loss": "并行损失",
    "ranks exchange a maximum and a sum per token instead of logits": (
        "每个 token 只在各 rank 间交换最大值与求和，不交换 logits"
    ),
    "Fused linear loss": "融合线性层与损失",
    "the output head and the loss run chunk by chunk": "输出头与损失逐块计算",
    "Liger's kernel is about as fast": "Liger 的 kernel 速度相近",
    "Loss without an fp32 copy of the logits": "计算损失时不为 logits 建 fp32 副本",
    "the softmax still sums in fp32, but its inputs and results are rounded": (
        "softmax 仍以 fp32 求和，但其输入和结果被舍入"
    ),
    "Half the micro-batch, twice the accumulation": "微批次减半，梯度累积加倍",
    "FSDP instead of DDP": "用 FSDP 代替 DDP",
    "Free parameters between forward and backward pass": "前向与反向传播之间释放参数",
    "Free the root's parameters after the forward pass": "前向传播后释放根单元的参数",
    "embedding, final norm and head are gathered once more": "嵌入、最后的归一化和输出头要再 all-gather 一次",
    "Sequence parallel": "序列并行",
    "all-gather and reduce-scatter replace the all-reduce, with the same number of bytes": (
        "以 all-gather 和 reduce-scatter 代替 all-reduce，通信量不变"
    ),
    "Reduce gradients after every micro-batch": "每个微批次后归约梯度",
    "Shard over all data-parallel ranks": "在所有数据并行 rank 上分片",
    "Half the saved activations of compiled blocks": "编译后的 block 保存的激活值减半",
    "Selective checkpointing of operations": "按算子选择性重计算",
    "Checkpoint every second layer": "每隔一层做重计算",
    "Selective recomputation of attention": "选择性重计算注意力",
    "Full activation checkpointing": "完全激活检查点（重计算）",
    "Twice the tensor parallelism": "张量并行数加倍",
    "Twice the context parallelism": "上下文并行数加倍",
    "Twice the pipeline stages": "流水线级数加倍",
    "Offload parameters, gradients and optimizer to the host": "把参数、梯度和优化器卸载到主机",
    "Shard optimizer states over data-parallel ranks": "在数据并行 rank 间切分优化器状态",
    "Shard gradients too": "梯度也切分",
    "Shard parameters too": "参数也切分",
    "Offload the optimizer to the host": "把优化器卸载到主机",
    "Reduce gradients in bf16": "以 bf16 归约梯度",
    "sums over ranks are rounded to 8 bits of mantissa": "跨 rank 求和的结果只有 8 位尾数",
    "AdamW with 8-bit states": "8 位状态的 AdamW",
    "both moments are quantized in blocks of 256": "一阶矩、二阶矩按 256 个一块量化",
    "a matrix's second moment is the product of two vectors, and there is no first moment": (
        "矩阵的二阶矩由两个向量相乘得到，不保存一阶矩"
    ),
    "Everything in bf16, no fp32 parameters": "全部用 bf16，不保留 fp32 参数",
    "small updates are lost to rounding unless the optimizer compensates": "除非优化器做补偿，否则小的更新会被舍入掉",
    "LoRA of rank 16 on all linear layers": "对所有线性层使用秩为 16 的 LoRA",
    "only small matrices are trained": "只训练小矩阵",
    "only these have gradients and optimizer states": "只有它们有梯度和优化器状态",
    "Twice the GPUs": "GPU 加倍",
    "more hardware for the same step": "同样的训练步占用更多硬件",
    "Sequences half as long": "序列长度减半",
    "the model sees less context": "模型看到的上下文更短",
    # What they cost
    "{percent}% FLOPs": "计算量 {percent}%",
    "{size} GB {words} per step instead of {before} GB": "每步{words} {size} GB，原为 {before} GB",
    "of parameters and gradients between data-parallel ranks": "在数据并行 rank 间传输参数与梯度",
    "of keys and values between context-parallel ranks": "在上下文并行 rank 间传输键和值",
    "of activations between tensor-parallel ranks": "在张量并行 rank 间传输激活值",
    "of hidden states between expert-parallel ranks": "在专家并行 rank 间传输隐藏状态",
    "of hidden states between stages": "在流水线各级间传输隐藏状态",
    "between GPU and host": "在 GPU 与主机间传输",
    "pipeline bubble: idle time is {percent}% of compute time": "流水线气泡：空闲时间为计算时间的 {percent}%",
    "no extra arithmetic and no extra communication": "不增加计算，也不增加通信",
    # Why they save nothing
    "{phase} falls from {now} to {then}": "{phase}从 {now} 降到 {then}",
    "no effect at the peak ({moment}), where {share}% is {category}": (
        "对峰值（{moment}）没有影响，其中 {share}% 是{category}"
    ),
    "reserved memory stays the same: the peak is in the {moment}": "分配器占用的显存不减少：峰值在{moment}",
    "{name} fall by {size}": "{name}减少 {size}",
    "the KV cache does not grow": "KV 缓存没有变大",
    "sequences of {length} tokens that fit: still {count}": "可容纳的 {length} token 序列：仍为 {count} 个",
    "sequences of {length} tokens that fit: {count} instead of {before}": (
        "可容纳的 {length} token 序列：{count} 个（原为 {before} 个）"
    ),
    # Changes of servers
    "A larger fraction of GPU memory": "使用更大比例的显存",
    "nothing else may run on the GPU": "GPU 上不能再运行其他程序",
    "memory outside the server's budget still fits": "预算之外的部分仍放得下",
    "attention scores are not stored, and the kernel is faster": "不保存注意力分数，kernel 也更快",
    "kernels launch one by one, which slows small batches most": "kernel 逐个启动，小批次受影响最大",
    "Half the tokens per step": "每步 token 数减半",
    "prompts are processed in more, smaller steps": "提示词分成更多、更小的步处理",
    "long prompts get their first token later": "长提示词的首 token 延迟变长",
    "No draft model": "不用草稿模型",
    "one token per forward pass": "每次前向传播只生成一个 token",
    "KV cache in fp8": "KV 缓存用 fp8",
    "keys and values are rounded to 3 bits of mantissa or fewer": "键和值舍入到 3 位或更少的尾数",
    "KV cache in q8_0": "KV 缓存用 q8_0",
    "keys and values are rounded to 8 bits in blocks of 32": "键和值按 32 个一块舍入到 8 位",
    "Weights in fp8": "权重用 fp8",
    "weights are rounded to 8 bits, with a scale for each matrix": "权重舍入到 8 位，每个矩阵一个缩放因子",
    "Weights in int4 (AWQ)": "权重用 int4（AWQ）",
    "weights are rounded to 4 bits in groups of 128: measure the effect on your task": (
        "权重按 128 个一组舍入到 4 位：请在您的任务上评估影响"
    ),
    "Weights in NF4": "权重用 NF4",
    "weights are rounded to 4 bits in blocks of 64": "权重按 64 个一块舍入到 4 位",
    "8-bit weights": "权重用 8 位",
    "weights are rounded to 8 bits": "权重舍入到 8 位",
    "Weights in Q8_0": "权重用 Q8_0",
    "weights are rounded to 8 bits in blocks of 32": "权重按 32 个一块舍入到 8 位",
    "Weights in Q4_K_M": "权重用 Q4_K_M",
    "Weights in {format}": "权重用 {format}",
    "Llama 3 8B's perplexity is {percent} % higher: measure the effect on your task": (
        "Llama 3 8B 的困惑度升高 {percent}%：请在您的任务上评估影响"
    ),
    "most matrices in 4.5 bits, some in 6.6": "多数矩阵 4.5 位，部分 6.6 位",
    "Twice the GPUs, each matrix split over them": "GPU 加倍，每个矩阵切分到各 GPU",
    "two all-reduces per layer and token": "每层每个 token 两次 all-reduce",
    "Half the sequences per step": "每步序列数减半",
    "more users wait for their turn": "更多用户需要排队",
    "prompt plus answer have half the tokens": "提示词与回答的总长度减半",
    # In a tool's words
    "GPUs in the launcher: {value}": "启动器中的 GPU 数：{value}",
    "del outputs before loss.backward()": "在 loss.backward() 之前 del outputs",
    "fully_shard(module) instead of DistributedDataParallel": "用 fully_shard(module) 代替 DistributedDataParallel",
    "no model.no_sync() and no set_requires_gradient_sync(False)": (
        "不用 model.no_sync() 和 set_requires_gradient_sync(False)"
    ),
    'init_device_mesh(..., mesh_dim_names=("dp", "tp")) with {value} ranks for "tp"': (
        'init_device_mesh(..., mesh_dim_names=("dp", "tp"))，"tp" 设 {value} 个 rank'
    ),
    'init_device_mesh(..., mesh_dim_names=("replicate", "shard")), shard {value}': (
        'init_device_mesh(..., mesh_dim_names=("replicate", "shard"))，shard 设 {value}'
    ),
    "torch.distributed.pipelining with {value} stages": "torch.distributed.pipelining，{value} 级",
    "gradient_checkpointing on every layer whose index is a multiple of {value}": (
        "对序号能被 {value} 整除的层用 gradient_checkpointing"
    ),
    "F.cross_entropy(logits, labels) without logits.float()": "F.cross_entropy(logits, labels)，不用 logits.float()",
    "pack sequences, pass no attention_mask": "打包序列，不传 attention_mask",
    "parallelism.dp for {value} GPUs": "parallelism.dp 按 {value} 块 GPU 设置",
    "an AWQ checkpoint of the model": "该模型的 AWQ checkpoint",
    "an FP8 checkpoint of the model": "该模型的 FP8 checkpoint",
    "no speculative_config": "不设 speculative_config",
    "-c {value} for each of the sequences (-np)": "每个序列（-np）-c {value}",
    "a GGUF file in {kind}": "{kind} 的 GGUF 文件",
    # Solving, searching, costs
    "needed to decide what fits": "判断能否放下需要它",
    "name one with --accelerator, or set --gpu-memory": "请用 --accelerator 指定，或设置 --gpu-memory",
    "found no key for the number of layers, only {names}": "没有表示层数的键，只有 {names}",
    "lists its layers one by one, so their number cannot be varied": "逐层列出，无法改变层数",
    "inputs: {names}": "输入：{names:s}",
    "must be above 0": "须大于 0",
    "engines: {names}": "引擎：{names:s}",
    "servers have no layouts to search": "推理服务没有可搜索的并行策略",
    "`memcore plan` finds what fits": "用 `memcore plan` 查找放得下的方案",
    "servers have no training steps: give the config of a training job": "推理服务没有训练步：请给出训练任务的配置",
    "servers have no training steps, so the cost model's rates do not apply": (
        "推理服务没有训练步，成本模型的速率不适用"
    ),
    "log {number} has no step time that memcore can read (it reads logs of {tools})": (
        "第 {number} 个日志中没有 memcore 能识别的单步时间；能识别的格式来自 {tools}"
    ),
    "searching layouts of {engine} is not supported yet": "暂不支持搜索 {engine} 的并行策略",
    "only {schedules} can be searched: leave it out, or set one of them": "只能搜索 {schedules}：请去掉此项，或选其一",
    "{policy} checkpointing": "激活检查点 {policy:s}",
    "no checkpointing": "无激活检查点",
    "parameters stay gathered": "参数保持完整（未切分）",
    "{count} virtual stages": "{count} 个虚拟流水线级",
    "whole experts": "完整专家",
    "offloaded": "卸载",
    "optimizer on the host": "优化器在主机上",
    # A log beside a prediction
    "one of {names}": "可用 {names:s}",
    "found no GPU memory value that memcore can read": "没有找到可识别的 GPU 显存数值",
    "print torch.cuda.max_memory_allocated(), or what nvidia-smi shows": (
        "请打印 torch.cuda.max_memory_allocated() 或 nvidia-smi 的读数"
    ),
    "{quantity} (rank {rank}) is not predicted for {engine}": "对 {engine} 不预测 {quantity}（rank {rank}）",
    "{quantity} at {moment} (rank {rank}) is not predicted": "不预测 {moment} 时的 {quantity}（rank {rank}）",
    "not predicted for {server}": "不为 {server} 预测",
    "not predicted for a training job": "训练任务没有此项预测",
    "{quantity} is not predicted for {engine}": "对 {engine} 不预测 {quantity}",
    "{quantity} at {moment} is not predicted": "不预测 {moment} 时的 {quantity}",
    "hardware.accelerator is needed to decide whether the job fits": "判断能否放下需要 hardware.accelerator",
    "measured.rank: found {rank}": "measured.rank：值为 {rank}",
    "allowed: 'max', 'min' or the number of a rank, {several}": "允许：'max'、'min' 或 rank 的编号，{several}",
    "all the same": "全部相同",
    "one of {count} stages": "{count} 级之一",
    "log of {tool}": "{tool} 的日志",
    "a number given without a log": "未附日志的数字",
    "a {name} pipeline alternates forward and backward passes, so its forward passes do not all end at one moment": (
        "{name} 流水线交替执行前向与反向，没有所有前向都结束的时刻"
    ),
    "{where}, line {line}": "{where}，第 {line} 行",
}
