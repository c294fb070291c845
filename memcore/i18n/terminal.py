"""What the command line says in an answer, in English and in Simplified Chinese."""

from __future__ import annotations

from collections.abc import Mapping

WORDS_OF_TERMINAL: Mapping[str, tuple[str, str]] = {
    # What precedes a line
    "cli-error": ("error: {said}", "错误：{said}"),
    "cli-note": ("note: {said}", "提示：{said}"),
    "cli-warning": ("warning: {said}", "警告：{said}"),
    "cli-source": ("source: {said}", "来源：{said}"),
    "cli-working": ("memcore {name}: working, {seconds} s", "memcore {name}：正在计算，{seconds} s"),
    "cli-outside": ("Outside the allocator", "分配器之外"),
    # The job in one line
    "cli-model": ("{name} ({count} parameters)", "{name}（{count} 个参数）"),
    "cli-on-many": ("{engine} on {count} × {gpu}", "{count} × {gpu}，{engine}"),
    "cli-on-one": ("one {gpu}", "1 × {gpu}"),
    "cli-engine-on-one": ("{engine} on one {gpu}", "1 × {gpu}，{engine}"),
    "cli-sequence": ("sequence {length}", "序列长度 {length}"),
    "cli-batch": ("micro-batch {count}", "微批次大小 {count}"),
    "cli-pairs": ("micro-batch {count} pairs", "微批次 {count} 对"),
    # Tables of a training job
    "cli-allocated": ("allocated", "已分配合计"),
    "cli-capacity": ("capacity", "容量"),
    "cli-total": ("total", "合计"),
    "cli-highest": ("highest: {when}", "最高点：{when}"),
    "cli-narrower": (
        "{setting}, if set, narrows the device range most: {low} to {high}",
        "设置 {setting} 最能缩小 device 的范围：{low} 至 {high}",
    ),
    "cli-host": ("Host memory of a node (1 process)", "一个节点的主机内存（1 个进程）"),
    "cli-host-many": ("Host memory of a node ({count} processes)", "一个节点的主机内存（{count} 个进程）"),
    "cli-host-each": ("{because}; {size} in one process", "{because}；每个进程 {size}"),
    "cli-more-engine": ("the engine's defaults; --json lists them", "引擎的默认值；--json 会全部列出"),
    "cli-more-server": ("the server's defaults; --json lists them", "推理服务的默认值；--json 会全部列出"),
    "cli-more": ("{count} more", "另有 {count} 项"),
    "cli-at": ("{when}: {size} allocated", "{when}：已分配 {size}"),
    "cli-part": ("{category}: {size}", "{category}：{size}"),
    "cli-part-of": ("{category}: {size} ({meaning})", "{category}：{size}（{meaning}）"),
    "cli-observed": ("{name}, {low} to {high}", "{name}，{low} 至 {high}"),
    "cli-free": ("{size} free", "空闲 {size}"),
    "cli-assumed-size": ("Assumed, because only the size is given:", "只给出了模型规模，因此假设："),
    "cli-valid": ("valid: {count} settings given, {assumed} assumed", "有效：给出 {count} 项设置，假设 {assumed} 项"),
    "cli-valid-one": ("valid: 1 setting given, {assumed} assumed", "有效：给出 1 项设置，假设 {assumed} 项"),
    "cli-gpus-needed": ("GPUs needed", "所需 GPU 数"),
    # The picture
    "cli-bar": ("{used} of {capacity}", "{used}，共 {capacity}"),
    "cli-bar-end": ("capacity", "容量"),
    "cli-step": ("one step, up to {size}", "一个训练步，最高 {size}"),
    # Advice
    "cli-saves": ("saves", "节省"),
    "cli-then-fits": ("then fits", "能否放下"),
    "cli-time": ("time", "时间"),
    "cli-change": ("change", "改动"),
    "cli-then-needs": ("then needs", "之后需要"),
    "cli-trained": (
        "Time: relative GPU time per token (roofline estimate, for ranking only).",
        "时间：每个 token 的相对 GPU 时间（roofline 估算，仅用于排序）。",
    ),
    "cli-served": (
        "Saves: room gained for the KV cache. Time: GPU-seconds per generated token, if limited by memory bandwidth.",
        "节省：为 KV 缓存腾出的空间。时间：受显存带宽限制时，每生成一个 token 的 GPU 秒数。",
    ),
    # Plans
    "cli-needs": ("needs", "需要"),
    "cli-left": ("free", "剩余"),
    "cli-per-step": ("step", "每步"),
    "cli-plan": ("plan", "方案"),
    "cli-plan-number": ("Plan {number}: {title}", "方案 {number}：{title}"),
    "cli-ways": (
        "What fits (`memcore plan` with the same arguments shows the configs)",
        "放得下的方案（用相同参数运行 `memcore plan` 可查看配置）",
    ),
    "cli-no-plan": ("No plan fits as asked: {reason}.", "没有符合要求的方案：{reason}。"),
    "cli-memory": (
        "Memory: needs {need} ({low} to {high}) on each GPU, leaving {free} ({share} %) free.",
        "显存：每个 GPU 需要 {need}（{low} 至 {high}），剩余 {free}（{share} %）。",
    ),
    "cli-pace": ("Speed: {pace} tokens/s", "速度：{pace} token/s"),
    "cli-pace-each": (
        "Speed: {pace} tokens/s for each of {users} users",
        "速度：{users} 个用户，每个用户 {pace} token/s",
    ),
    "cli-pace-at": ("at {length} tokens, while no prompt is read.", "上下文为 {length} 个 token，不计提示词处理。"),
    "cli-speed": (
        "Speed: {expected} tokens/s ({low} to {high}) by the cost model;",
        "速度：按成本模型为 {expected} token/s（{low} 至 {high}）；",
    ),
    "cli-seconds": ("{seconds} s a step ({low} to {high}).", "每步 {seconds} s（{low} 至 {high}）。"),
    "cli-seconds-mfu": (
        "{seconds} s a step ({low} to {high}), MFU {mfu} %.",
        "每步 {seconds} s（{low} 至 {high}），MFU {mfu} %。",
    ),
    "cli-days": ("{span} days", "{span} 天"),
    "cli-gpu-hours": ("{span} GPU-hours", "{span} GPU 小时"),
    "cli-money": ("{span} at {price} each", "费用 {span}（每 GPU 小时 {price}）"),
    "cli-energy": ("{span} kWh for the GPUs at full power", "GPU 满功率耗电 {span} kWh"),
    "cli-budget": (
        "{tokens} tokens: {parts}; failures and restarts not counted.",
        "{tokens} 个 token：{parts}；不计故障与重启。",
    ),
    "cli-tight": (
        "Tight: the expected value fits, the high end of the range does not.",
        "余量很小：预期值放得下，范围的上限放不下。",
    ),
    "cli-host-ram": (
        "Host: what is offloaded takes {size} of each node's RAM.",
        "主机：卸载的内容占用每个节点 {size} 内存。",
    ),
    "cli-quality": ("Quality: {said}.", "质量：{said}。"),
    "cli-unchanged": ("Nothing changes.", "无改动。"),
    "cli-changes": ("Changes:", "改动："),
    "cli-for-tool": ("For {tool}:", "{tool}："),
    "cli-default": ("default", "默认"),
    # How far a setting goes
    "cli-none-fits": ("{label}: no value fits ({path}).", "{label}：没有放得下的值（{path}）。"),
    "cli-largest": ("{label}: {value} is the largest that fits ({path}).", "{label}：最大可为 {value}（{path}）。"),
    "cli-smallest": ("{label}: {value} is the smallest that fits ({path}).", "{label}：最小可为 {value}（{path}）。"),
    "cli-with": ("With {value}:", "若为 {value}："),
    "cli-closest": ("With {value}, which comes closest:", "最接近的 {value}："),
    "cli-unlimited": ("Nothing limits it: the same fits whatever its value.", "没有上限：取任何值都放得下。"),
    # Jobs that share GPUs
    "cli-range": ("range", "范围"),
    "cli-job": ("job", "任务"),
    "cli-together": ("together", "合计"),
    "cli-share-unknown": (
        "Name an accelerator to see whether the jobs fit together.",
        "请指定加速器，以判断这些任务能否一起放下。",
    ),
    "cli-share-no": (
        "The jobs do not fit on one GPU of {capacity}: {size} too much.",
        "一块 {capacity} 的 GPU 放不下这些任务：超出 {size}。",
    ),
    "cli-share-tight": (
        "The jobs should fit on one GPU of {capacity} with {size} free, but the high end of the range does not.",
        "这些任务应能放进一块 {capacity} 的 GPU，剩余 {size}；但范围的上限放不下。",
    ),
    "cli-share-fits": (
        "The jobs fit on one GPU of {capacity}, with {size} free.",
        "一块 {capacity} 的 GPU 放得下这些任务，剩余 {size}。",
    ),
    "cli-share-left": (
        "{size} would be left for {name}: {share} of the GPU.",
        "留给 {name} 的只有 {size}：GPU 的 {share}。",
    ),
}

TERMINAL_IN_CHINESE: Mapping[str, str] = {
    # Headings
    "Readings": "读数",
    "Assumed": "采用的假设",
    "Symbols": "符号",
    "Stages": "流水线各级",
    "Parts": "组成部分",
    "Notes": "说明",
    "From start to end": "从启动到结束",
    "Kept by each process": "每个进程常驻",
    "Users by context length": "各上下文长度下的用户数",
    "What saves memory, best first": "能节省显存的改动（从最佳开始）",
    "Cost and flags": "代价与参数",
    "Saves nothing here": "此处没有效果",
    "One on top of another": "逐项叠加",
    # Phases of a job
    "initialization": "初始化",
    "parameters and flat buffers side by side": "参数与扁平缓冲区同时存在",
    "before the first step": "第一步之前",
    "Loading": "加载",
    "parameters and buffers": "参数与缓冲区",
    "one matrix before it is quantized": "一个量化前的矩阵",
    "First step": "第一步",
    "the optimizer states ({size}) are created at its end": "优化器状态（{size}）在这一步末尾创建",
    "as every later step": "与之后各步相同",
    "Every later step": "之后每一步",
    "optimizer states are already allocated": "优化器状态已经分配",
    "Evaluation": "评估",
    "a batch of the same size": "批次大小相同",
    "each further batch whose logits are kept adds {size}": "每多保留一个批次的 logits 增加 {size}",
    "Saving a full state dict": "保存完整的 state dict",
    "tensors are copied to the host as they are": "张量原样复制到主机",
    "parameters are gathered one at a time and copied to the host": "参数逐个聚合后复制到主机",
    "First step after resuming": "恢复训练后的第一步",
    "states come from the checkpoint, so it needs as much as a later step": (
        "状态来自 checkpoint，所需显存与之后各步相同"
    ),
    # Memory of the host
    "Steps": "训练步",
    "Saving": "保存",
    "offloaded shards, states and activations": "卸载的分片、状态与激活值",
    "nothing is offloaded": "没有卸载",
    "the model is built without memory, and read into its shards": "先构建不占内存的模型，再读入各分片",
    "a matrix at a time, on its way to the GPU": "每次一个矩阵，随后送往 GPU",
    "the whole model in the first process of each node, which sends it to the others": (
        "整个模型在每个节点的第一个进程中，再发送给其他进程"
    ),
    "the whole model in every process, before it goes to the GPU": "送往 GPU 之前，每个进程都有整个模型",
    "the full state dict in rank 0": "rank 0 持有完整的 state dict",
    "the tensors of one file, in the process that writes it": "写文件的进程持有一个文件的张量",
    # Parts of a server
    "model weights": "模型权重",
    "embeddings and head": "嵌入与输出头",
    "input data": "输入数据",
    "temporary activations": "临时激活值",
    "CUDA context and libraries": "CUDA 上下文与库",
    # Assumed from a size alone
    "a sequence of {length} tokens, one sequence in a micro-batch": "序列长 {length} 个 token，微批次大小为 1",
    "AdamW, no activation checkpointing": "AdamW，不做激活重计算",
    "{dtype} with fp32 optimizer states ({precision:s})": "{dtype}，优化器状态为 fp32（{precision:s}）",
    "engine {name:s}": "引擎为 {name:s}",
    "GPUs of {size} GiB": "每块 GPU {size} GiB",
    "found {value}, a server": "值为 {value}，是推理服务",
    "a size alone is taken for training": "只给规模时按训练估算",
    # Arguments
    "unrecognized arguments": "未识别的参数",
    "the following arguments are required": "缺少参数",
    "expected one argument": "需要一个值",
    "expected at least one argument": "至少需要一个值",
}
