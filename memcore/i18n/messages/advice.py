"""What to change, what was searched or solved, and a log beside a prediction, in Chinese by the English sentence."""

from __future__ import annotations

from collections.abc import Mapping

OF_ADVICE_IN_CHINESE: Mapping[str, str] = {
    # Kinds of cost
    "costs nothing": "无代价",
    "more communication": "更多通信",
    "more arithmetic": "更多计算",
    "slower steps": "每步更慢",
    "traffic with the host": "与主机的传输",
    "lower precision": "更低精度",
    "another method of training": "另一种训练方法",
    "more GPUs": "更多 GPU",
    "another job": "另一个任务",
    # Changes of training
    "Expandable segments": "可扩展段",
    "the allocator grows its segments instead of leaving gaps": "分配器扩展段而不留空隙",
    "tensors stay as they are": "张量不变",
    "Free the model's outputs before the backward pass": "在反向传播前释放模型输出",
    "nobody reads them": "无人读取",
    "No KV cache while training": "训练时不用 KV 缓存",
    "nobody reads it": "无人读取",
    "Free gradients after each step": "每步之后释放梯度",
    "the next backward pass recreates them": "下一次反向传播会重新生成",
    "Fused optimizer": "融合优化器",
    "one kernel instead of lists of temporaries": "一个 kernel 代替成列的临时张量",
    "Gradients as views of DDP's buckets": "梯度作为 DDP 桶的视图",
    "one copy of the gradients instead of two": "梯度由两份变为一份",
    "Flash attention instead of all scores": "用 flash attention 代替全部分数",
    "the kernel is faster too": "kernel 也更快",
    "Packed sequences instead of padded ones": "打包序列代替填充序列",
    "the flash kernel takes no padding mask": "flash kernel 不接受填充掩码",
    "padding is not computed either": "也不计算填充部分",
    "Fused recurrent kernels": "融合的循环 kernel",
    "the kernels are faster too": "kernel 也更快",
    "Parallel loss": "并行损失",
    "ranks exchange a maximum and a sum for each token instead of logits": (
        "各 rank 对每个 token 交换最大值与和，而不是 logits"
    ),
    "Fused linear loss": "融合线性损失",
    "the head's product runs in pieces": "输出头的矩阵乘分块进行",
    "Liger's kernel is about as fast": "Liger 的 kernel 速度相近",
    "Loss without an fp32 copy of the logits": "损失不用 logits 的 fp32 副本",
    "the softmax still sums in fp32, its inputs and results are rounded": (
        "softmax 仍以 fp32 求和，但其输入和结果被舍入"
    ),
    "Half the micro-batch, twice the accumulation": "微批次减半，累积加倍",
    "FSDP instead of DDP": "用 FSDP 代替 DDP",
    "Free parameters between forward and backward pass": "前向与反向之间释放参数",
    "Free the root's parameters after the forward pass": "前向之后释放根模块的参数",
    "embedding, final norm and head are gathered once more": "嵌入、最后的归一化和输出头再聚集一次",
    "Sequence parallel": "序列并行",
    "tensor-parallel ranks gather and scatter instead of all-reducing, as many bytes": (
        "张量并行 rank 以 all-gather 与 reduce-scatter 代替 all-reduce，字节数相同"
    ),
    "Reduce gradients after every micro-batch": "每个微批次后归约梯度",
    "Shard over all data-parallel ranks": "在所有数据并行 rank 上分片",
    "Half of the activations of compiled blocks": "编译块的激活减半",
    "Selective checkpointing of operations": "按操作的选择性检查点",
    "Checkpoint every second layer": "每隔一层设检查点",
    "Selective recomputation of attention": "注意力的选择性重计算",
    "Full activation checkpointing": "全量激活检查点",
    "Twice the tensor parallelism": "张量并行加倍",
    "Twice the context parallelism": "上下文并行加倍",
    "Twice the pipeline stages": "流水线阶段加倍",
    "Offload parameters, gradients and optimizer to the host": "将参数、梯度和优化器卸载到主机",
    "Share the optimizer among data-parallel ranks": "优化器在数据并行 rank 间分片",
    "Share gradients too": "梯度也分片",
    "Share parameters too": "参数也分片",
    "Offload the optimizer to the host": "将优化器卸载到主机",
    "Reduce gradients in bf16": "以 bf16 归约梯度",
    "sums over ranks are rounded to 8 bits of mantissa": "跨 rank 的和舍入到 8 位尾数",
    "AdamW with states in 8 bits": "8 位状态的 AdamW",
    "moments are rounded in blocks of 256": "动量以每块 256 个舍入",
    "a matrix's second moment is the product of two vectors, and there is no first moment": (
        "矩阵的二阶动量为两个向量之积，且没有一阶动量"
    ),
    "Everything in bf16, no fp32 parameters": "全部用 bf16，无 fp32 参数",
    "small updates are lost to rounding unless the optimizer compensates": "除非优化器补偿，小的更新会因舍入丢失",
    "LoRA of rank 16 on all linear layers": "所有线性层使用秩 16 的 LoRA",
    "only small matrices learn": "只有小矩阵学习",
    "gradients and optimizer states exist for them alone": "梯度和优化器状态只为它们存在",
    "Twice the GPUs": "GPU 加倍",
    "more hardware for the same step": "同样的一步用更多硬件",
    "Sequences half as long": "序列长度减半",
    "the model sees less context": "模型看到的上下文更短",
    # What they cost
    "{percent}% arithmetic": "计算 {percent}%",
    "{size} GB {words} per step, was {before}": "每步{words} {size} GB，原为 {before} GB",
    "of parameters and gradients between data-parallel ranks": "在数据并行 rank 间传输的参数与梯度为",
    "of keys and values between context-parallel ranks": "在上下文并行 rank 间传输的键和值为",
    "of activations between tensor-parallel ranks": "在张量并行 rank 间传输的激活为",
    "of hidden states between expert-parallel ranks": "在专家并行 rank 间传输的隐藏状态为",
    "of hidden states between stages": "在流水线阶段间传输的隐藏状态为",
    "between GPU and host": "在 GPU 与主机间的传输为",
    "the pipeline idles {percent}% of the time it works": "流水线空闲时间为工作时间的 {percent}%",
    "no more arithmetic and no more communication": "计算和通信都不增加",
    # Why they save nothing
    "it lowers the {phase} from {now} to {then}": "它使{phase}从 {now} 降到 {then}",
    "the peak is in the {moment}, where {share}% are {category} and this changes nothing": (
        "峰值在{moment}，其中 {share}% 是{category}，此改动不影响"
    ),
    "the allocator holds no less: the peak is in the {moment}": "分配器占用不减：峰值在{moment}",
    "{name} fall by {size}": "{name}减少 {size}",
    "the cache gets no more room for what is asked": "缓存没有为所需腾出更多空间",
    "room for {count} sequences of {length} tokens, was {before}": (
        "可容纳 {count} 个 {length} token 的序列，原为 {before}"
    ),
    # Changes of servers
    "A larger share of the GPU": "使用 GPU 的更大份额",
    "nothing else may run on the GPU": "GPU 上不能再运行其他程序",
    "what lies outside the server's budget still has room": "预算之外的部分仍有空间",
    "scores are not kept, and the kernel is faster": "不保存分数，kernel 也更快",
    "every kernel is launched by itself, which small batches feel most": "每个 kernel 单独启动，小批次受影响最大",
    "Half the tokens in a step": "每步 token 数减半",
    "prompts are computed in more and smaller steps": "提示分更多更小的步计算",
    "the first token of long ones comes later": "长提示的首个 token 更晚",
    "No draft model": "不用草稿模型",
    "one token for each pass of the model": "模型每次前向一个 token",
    "KV cache in fp8": "KV 缓存用 fp8",
    "keys and values are rounded to 3 bits of mantissa or fewer": "键和值舍入到 3 位或更少的尾数",
    "KV cache in q8_0": "KV 缓存用 q8_0",
    "keys and values are rounded to 8 bits in blocks of 32": "键和值以每块 32 个舍入到 8 位",
    "Weights in fp8": "权重用 fp8",
    "weights are rounded to 8 bits, with a scale for each matrix": "权重舍入到 8 位，每个矩阵一个缩放因子",
    "Weights in int4 (AWQ)": "权重用 int4（AWQ）",
    "weights are rounded to 4 bits in groups of 128: measure what that costs on your task": (
        "权重以每组 128 个舍入到 4 位：请在您的任务上测量其影响"
    ),
    "Weights in NF4": "权重用 NF4",
    "weights are rounded to 4 bits in blocks of 64": "权重以每块 64 个舍入到 4 位",
    "Weights in 8 bits": "权重用 8 位",
    "weights are rounded to 8 bits": "权重舍入到 8 位",
    "Weights in Q8_0": "权重用 Q8_0",
    "weights are rounded to 8 bits in blocks of 32": "权重以每块 32 个舍入到 8 位",
    "Weights in Q4_K_M": "权重用 Q4_K_M",
    "most matrices in 4.5 bits, some in 6.6": "多数矩阵 4.5 位，部分 6.6 位",
    "Twice the GPUs, which share every matrix": "GPU 加倍，分担每个矩阵",
    "two all-reduces for each layer and token": "每层每 token 两次 all-reduce",
    "Half as many sequences in a step": "每步序列数减半",
    "more users wait for their turn": "更多用户需要等待",
    "prompt and answer together have half the tokens": "提示与回答合计的 token 数减半",
    # In a tool's words
    "{value} GPUs in the launcher": "启动器中设 {value} 个 GPU",
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
    "torch.distributed.pipelining with {value} stages": "torch.distributed.pipelining，{value} 个阶段",
    "gradient_checkpointing on every layer whose number {value} divides": (
        "对序号能被 {value} 整除的层用 gradient_checkpointing"
    ),
    "F.cross_entropy(logits, labels) without logits.float()": "F.cross_entropy(logits, labels)，不用 logits.float()",
    "pack sequences, pass no attention_mask": "打包序列，不传 attention_mask",
    "parallelism.dp for {value} GPUs": "parallelism.dp 按 {value} 个 GPU 设置",
    "an AWQ checkpoint of the model": "该模型的 AWQ checkpoint",
    "an FP8 checkpoint of the model": "该模型的 FP8 checkpoint",
    "no speculative_config": "不设 speculative_config",
    "-c {value} for each of the sequences (-np)": "每个序列（-np）-c {value}",
    "a GGUF file in {kind}": "{kind} 的 GGUF 文件",
    # Solving, searching, costs
    "without it nothing is known to fit": "没有它就无法知道能否放下",
    "name one, or hardware.gpu_memory_gb": "请给出一个，或 hardware.gpu_memory_gb",
    "its number of layers is not one of its keys: found {names}": "层数不是它的键：有 {names}",
    "lists its layers one by one, so that they cannot be counted": "逐层列出，无法计数",
    "inputs: {names}": "输入：{names:s}",
    "above 0": "须大于 0",
    "engines: {names}": "引擎：{names:s}",
    "layouts are searched for training": "布局搜索仅用于训练",
    "found a server": "当前为推理服务",
    "a server has no layouts": "推理服务没有布局",
    "layouts of {engine} are not searched yet": "{engine} 的布局尚不能搜索",
    "layouts are searched with {schedules}: leave it out, or name one of them": (
        "布局搜索可用 {schedules}：请去掉此项，或选其一"
    ),
    "checkpointing {policy}": "检查点 {policy:s}",
    "keeps gathered": "保持聚集",
    "{count} chunks": "{count} 个块",
    "whole experts": "完整专家",
    "offloaded": "卸载",
    "optimizer on the host": "优化器在主机上",
    # A log beside a prediction
    "one of {names}": "可用 {names:s}",
    "nothing in it is understood as memory of a GPU": "其中没有可识别为 GPU 显存的内容",
    "{quantity} (rank {rank}) is not predicted for {engine}": "对 {engine} 不预测 {quantity}（rank {rank}）",
    "{quantity} at {moment} (rank {rank}) is not predicted": "不预测 {moment} 时的 {quantity}（rank {rank}）",
    "hardware.accelerator: without it nothing says whether the job fits": (
        "hardware.accelerator：没有它就无法判断能否放下"
    ),
    "measured.rank: found {rank}": "measured.rank：值为 {rank}",
    "allowed: 'max', 'min' or the number of a rank, {several}": "允许：'max'、'min' 或 rank 的编号，{several}",
    "all alike": "全部相同",
    "a stage of {count}": "{count} 个阶段之一",
    "log of {tool}": "{tool} 的日志",
    "a number without a log": "没有日志的数字",
    "{name} of a pipeline takes turns: no moment is the end of all forward passes": (
        "{name} 在流水线中前向与反向交替：没有一个时刻是所有前向的结束"
    ),
    "{where}, line {line}": "{where}，第 {line} 行",
}
