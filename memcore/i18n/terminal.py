"""What the command line says in an answer, in English and in Simplified Chinese."""

from __future__ import annotations

from collections.abc import Mapping

WORDS_OF_TERMINAL: Mapping[str, tuple[str, str]] = {
    # What precedes a line
    "cli-error": ("error: {said}", "错误：{said}"),
    "cli-note": ("note: {said}", "提示：{said}"),
    "cli-saved": ("saved to {file}", "已保存到 {file}"),
    "cli-warning": ("warning: {said}", "警告：{said}"),
    "cli-source": ("source: {said}", "来源：{said}"),
    "cli-working": ("memcore {name}: working, {seconds} s", "memcore {name}：正在计算，{seconds} s"),
    "cli-outside": ("Outside the allocator", "分配器之外"),
    "cli-first": (
        """\
How much GPU memory a training or serving job takes, when, and because of which
tensors. Start with:

  memcore estimate --model llama-3.1-8b --adapter lora --accelerator rtx-4090
  memcore estimate --model qwen3-32b --engine vllm --accelerator h100-sxm-80gb
  memcore estimate train.sh --gpus 64      your tool's own file

`memcore --help` lists the commands, `memcore COMMAND --help` a command's flags.
""",
        """\
训练或推理任务需要多少 GPU 显存、何时最多、由哪些张量造成。可以这样开始：

  memcore estimate --model llama-3.1-8b --adapter lora --accelerator rtx-4090
  memcore estimate --model qwen3-32b --engine vllm --accelerator h100-sxm-80gb
  memcore estimate train.sh --gpus 64      直接使用您的工具的文件

`memcore --help` 列出全部命令，`memcore COMMAND --help` 列出该命令的参数。
""",
    ),
    # Help
    "cli-default-is": ("{said} (default: {value})", "{said}（默认：{value}）"),
    "cli-example": ("Example: {command}", "示例：{command}"),
    "cli-group-training": ("training", "训练"),
    "cli-group-inference": ("inference", "推理服务"),
    "cli-group-parallelism": ("parallelism", "并行"),
    "cli-group-engine": ("engine", "引擎"),
    "cli-group-hardware": ("hardware", "硬件"),
    # The job in one line
    "cli-model": ("{name} ({count} parameters)", "{name}（{count} 个参数）"),
    "cli-on-many": ("{engine} on {count} × {gpu}", "{count} × {gpu}，{engine}"),
    "cli-on-one": ("one {gpu}", "1 × {gpu}"),
    "cli-engine-on-one": ("{engine} on one {gpu}", "1 × {gpu}，{engine}"),
    "cli-sequence": ("sequence {length}", "序列长度 {length}"),
    "cli-split-sequence": ("sequence {length}, {part} per GPU", "序列长度 {length}，每块 GPU {part}"),
    "cli-batch": ("micro-batch {count}", "微批次大小 {count}"),
    "cli-pairs": ("micro-batch {count} pairs", "微批次 {count} 对"),
    "cli-pair": ("micro-batch {count} pair", "微批次 {count} 对"),
    # Tables of a training job
    "cli-allocated": ("allocated", "已分配合计"),
    "cli-capacity": ("capacity", "容量"),
    "cli-total": ("total", "合计"),
    "cli-highest": ("highest: {when}", "最高点：{when}"),
    "cli-narrower": (
        "To narrow the device range most, set {flags}: it depends on {because}.",
        "要缩小 device 的范围，最好设置 {flags}：它取决于{because}。",
    ),
    "cli-host": ("Host memory of a node (1 process)", "一个节点的主机内存（1 个进程）"),
    "cli-host-many": ("Host memory of a node ({count} processes)", "一个节点的主机内存（{count} 个进程）"),
    "cli-host-each": ("{because}; up to {size} in one process", "{because}；单个进程最多 {size}"),
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
    "cli-gpus-some": (
        "Unchanged, it fits on no number of these: {kinds}. `memcore plan` with --accelerator shows what to change.",
        "不改动任务时，以下 GPU 无论多少块都放不下：{kinds}。`memcore plan` 加 --accelerator 会给出可行的改法。",
    ),
    "cli-gpus-none": (
        "Unchanged, it fits on no number of GPUs of the {count} kinds tried. `memcore plan` shows what to change.",
        "不改动任务时，所试的 {count} 种 GPU 无论多少块都放不下。`memcore plan` 会给出可行的改法。",
    ),
    "cli-nodes": ("nodes", "节点数"),
    "cli-step-takes": ("step (s)", "每步（秒）"),
    "cli-hours-each": ("GPU-hours, {tokens} tokens", "{tokens} token 的 GPU 小时"),
    "cli-costs": ("cost", "费用"),
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
    "cli-combine": (
        "No single change is enough: --ladder combines the usual ones, and `memcore plan` finds configs that fit.",
        "单项调整都不够：--ladder 逐项叠加常用的调整，`memcore plan` 给出放得下的配置。",
    ),
    "cli-trained": (
        "Time: relative GPU time per token (roofline estimate, for ranking only).",
        "时间：每个 token 的相对 GPU 时间（roofline 估算，仅用于排序）。",
    ),
    "cli-served": (
        "Saves: room gained for the KV cache. Time: GPU-seconds per generated token, if limited by memory bandwidth.",
        "节省：为 KV 缓存腾出的空间。时间：受显存带宽限制时，每生成一个 token 的 GPU 秒数。",
    ),
    # Published formulas
    "cli-formula-states": ("states", "状态"),
    "cli-formula-activations": ("activations", "激活值"),
    "cli-not-reported": ("not reported", "未报告"),
    "cli-states-are": (
        "States: weights, gradients and optimizer states.",
        "状态：权重、梯度与优化器状态。",
    ),
    "cli-refused": ("memcore does not predict this job: {reason}", "memcore 不预测此任务：{reason}"),
    "cli-line-by-line": (
        "{tool}, line by line, and what memcore does instead",
        "{tool}：逐项列出，并说明 memcore 的做法",
    ),
    "cli-letters": (
        (
            "P parameters, w bytes each, N GPUs, t tensor-parallel ranks, p pipeline stages, b sequences of s tokens, "
            "L layers, h hidden size, f feed-forward width, V vocabulary, E experts of width e, k of them per token"
        ),
        (
            "P：参数量，w：每个参数的字节数，N：GPU 数，t：张量并行数，p：流水线级数，b：序列数，"
            "s：每个序列的 token 数，L：层数，h：隐藏维度，f：前馈层宽度，V：词表大小，"
            "E：专家数，e：专家宽度，k：每个 token 使用的专家数"
        ),
    ),
    "cli-prints": ("{tool} prints", "{tool}的输出"),
    "cli-assumes": ("{tool} assumes", "{tool}的假设"),
    "cli-why": ("Why memcore's numbers differ", "memcore 的数值为何不同"),
    "cli-of-tools": ("{text} ({tools})", "{text}（{tools}）"),
    # Measured cases
    "accuracy-case": ("case", "案例"),
    "accuracy-measured": ("measured", "实测"),
    "accuracy-predicted": ("predicted", "预测"),
    "accuracy-error-of": ("error", "误差"),
    "accuracy-unpredicted": ("no prediction", "没有预测"),
    "accuracy-cases": ("cases", "案例数"),
    "accuracy-median": ("median", "中位数"),
    "accuracy-worst": ("worst", "最大"),
    "accuracy-inside": ("in range", "范围内"),
    "accuracy-quantity": ("quantity", "量"),
    "accuracy-all-cases": ("all", "全部"),
    "accuracy-at-moment": ("{quantity} at {moment}", "{quantity}，{moment}"),
    "accuracy-of-engine": ("{engine}: {quantity}", "{engine}：{quantity}"),
    "accuracy-hardware": ("Measured on GPUs", "在 GPU 上实测"),
    "accuracy-simulated": ("Simulated", "模拟"),
    "accuracy-phase-right": (
        "The phase of the peak is right in {right} of {named} cases.",
        "峰值所在阶段：{named} 个案例中 {right} 个正确。",
    ),
    "accuracy-unpredicted-cases": ("No prediction for {count} of {cases} cases", "{cases} 个案例中 {count} 个没有预测"),
    "accuracy-layouts": ("layouts", "策略数"),
    "accuracy-spearman": ("rank correlation", "秩相关"),
    "accuracy-regret": ("time lost", "多用时间"),
    "accuracy-layouts-of": ("model, parameters, sequence length, GPUs", "模型、参数量、序列长度、GPU"),
    # Plans
    "cli-needs": ("needs", "需要"),
    "cli-left": ("free", "剩余"),
    "cli-per-step": ("step", "每步"),
    "cli-per-second": ("tokens/s", "token/s"),
    "cli-plan": ("plan", "方案"),
    "cli-plan-number": ("Plan {number}: {title}", "方案 {number}：{title}"),
    "cli-ways": (
        "What fits (`memcore plan` for the same job shows the configs)",
        "放得下的方案（对同一任务运行 `memcore plan` 可查看配置）",
    ),
    "cli-ways-of-size": (
        "What fits (name a model, and `memcore plan --model NAME` shows the configs)",
        "放得下的方案（指定模型后用 `memcore plan --model NAME` 查看配置）",
    ),
    "cli-name": ("model", "模型"),
    "cli-tokens": ("tokens", "token 数"),
    "cli-format": ("format", "格式"),
    "cli-models-that-fit": (
        (
            "Well-known models that {server} serves to one user there, with {length} tokens at least and in the format "
            "with most bits that fits. One whole: memcore plan {flags}"
        ),
        (
            "{server} 可在该硬件上为一位用户运行的常见模型：至少 {length} 个 token，取放得下的最高位数格式。"
            "查看完整方案：memcore plan {flags}"
        ),
    ),
    "cli-no-model-fits": (
        "None of the well-known models fits with {length} tokens.",
        "常见模型均无法以 {length} 个 token 放下。",
    ),
    "cli-plan-assumed": ("The plans assume {reason}.", "方案假定{reason}。"),
    "cli-no-plan": ("No plan fits as asked: {reason}.", "没有符合要求的方案：{reason}。"),
    "cli-memory": (
        "Memory: needs {need} ({low} to {high}) on each GPU, leaving {free} ({share}%) free.",
        "显存：每块 GPU 需要 {need}（{low} 至 {high}），剩余 {free}（{share}%）。",
    ),
    "cli-memory-of-one": (
        "Memory: needs {need} ({low} to {high}), leaving {free} ({share}%) free.",
        "显存：需要 {need}（{low} 至 {high}），剩余 {free}（{share}%）。",
    ),
    "cli-pace": ("Speed: {pace} tokens/s", "速度：{pace} token/s"),
    "cli-pace-each": (
        "Speed: {pace} tokens/s for each of {users} users",
        "速度：{users} 个用户，每个用户 {pace} token/s",
    ),
    "cli-pace-unknown": ("Speed: not known: {why}.", "速度：未知：{why}。"),
    "cli-pace-at": (
        "at a context of {length} tokens, not counting prompts.",
        "上下文为 {length} 个 token，不计提示词处理。",
    ),
    "cli-speed": (
        "Speed: {expected} tokens/s ({low} to {high}) by the cost model;",
        "速度：按成本模型为 {expected} token/s（{low} 至 {high}）；",
    ),
    "cli-seconds": ("{seconds} s per step ({low} to {high}).", "每步 {seconds} s（{low} 至 {high}）。"),
    "cli-seconds-mfu": (
        "{seconds} s per step ({low} to {high}), MFU {mfu}%.",
        "每步 {seconds} s（{low} 至 {high}），MFU {mfu}%。",
    ),
    "cli-days": ("{span} days", "{span} 天"),
    "cli-gpu-hours": ("{span} GPU-hours", "{span} GPU 小时"),
    "cli-money": ("{span} at {price} each", "费用 {span}（每 GPU 小时 {price}）"),
    "cli-energy": ("{span} kWh for the GPUs at full power", "GPU 满功率耗电 {span} kWh"),
    "cli-budget": (
        "{tokens} tokens: {parts}; failures and restarts not counted.",
        "{tokens} 个 token：{parts}；不计故障与重启。",
    ),
    "cli-speed-of": ("The GPU is not named: the speed is that of an {name}.", "未指定 GPU 型号：速度按 {name} 计算。"),
    "cli-tight": (
        "Tight: the expected value fits, the high end of the range does not.",
        "余量很小：预期值放得下，范围的上限放不下。",
    ),
    "cli-host-ram": ("Host: {size} of RAM on each node.", "主机：每个节点占用 {size} 内存。"),
    "cli-host-ram-alone": ("Host: {size} of RAM.", "主机：占用 {size} 内存。"),
    "cli-host-spills": (
        "More than a computer with such GPUs usually has, assumed {usual}; yours: --assume host_room=BYTES.",
        "超过此类 GPU 所在主机通常的内存（假定 {usual}）；实际值用 --assume host_room=BYTES 指定。",
    ),
    "cli-quality": ("Quality: {said}.", "质量：{said}。"),
    "cli-unchanged": ("Nothing changes.", "无改动。"),
    "cli-changes": ("Changes:", "改动："),
    "cli-for-tool": ("For {tool}:", "{tool}："),
    "cli-not-in-file": ("Not in this file, so set them yourself:", "文件中没有，请自行设置："),
    "cli-default": ("default", "默认"),
    # How far a setting goes
    "cli-none-fits": ("{label}: no value fits ({path}).", "{label}：没有放得下的值（{path}）。"),
    "cli-largest": ("{label}: {value} is the largest that fits ({path}).", "{label}：最大可为 {value}（{path}）。"),
    "cli-smallest": ("{label}: {value} is the smallest that fits ({path}).", "{label}：最小可为 {value}（{path}）。"),
    "cli-with": ("With {value}:", "取 {value} 时："),
    "cli-certain": (
        "{value} is the smallest that fits at the upper end of the range, too.",
        "按估算区间的上限也放得下的最小型号是 {value}。",
    ),
    "cli-closest": ("With {value}, which comes closest:", "取最接近的 {value} 时："),
    "cli-unlimited": ("Nothing limits it: the same fits whatever its value.", "没有上限：取任何值都放得下。"),
    # Layouts
    "cli-layouts": (
        "Searched {total} layouts: {pruned} ruled out by bounds, {measured} estimated, {refused} not supported.",
        "共搜索 {total} 种并行策略：按上下界排除 {pruned} 种，估算 {measured} 种，不支持 {refused} 种。",
    ),
    "cli-no-layout": ("No layout fits.", "没有放得下的并行策略。"),
    "cli-all-of": ("all of {title}", "{title} 的全部策略"),
    "cli-cost": (
        "Cost: relative GPU time per token (roofline estimate, for ranking only).",
        "代价：每个 token 的相对 GPU 时间（roofline 估算，仅用于排序）。",
    ),
    "cli-order": (
        "Order: cheapest first; of costs within about 2%, the simpler layout. Less than --headroom free comes last.",
        "顺序：代价相差约 2% 以内时，较简单的策略在前；余量低于 --headroom 的在最后。",
    ),
    "cli-cost-column": ("cost", "代价"),
    "cli-accelerator": ("accelerator", "加速器"),
    "cli-shards": ("shards", "分片数"),
    "cli-copies": ("copies", "副本数"),
    "cli-micro": ("micro", "微批次"),
    "cli-accum": ("accum", "累积"),
    # Rates of a run
    "cli-timed": (
        "{name}: {seconds} s per step, the median of {steps} ({tool})",
        "{name}：每步 {seconds} s，{steps} 步的中位数（{tool}）",
    ),
    "cli-predicted": ("predicted: {expected} s ({low} to {high} s)", "预测：{expected} s（{low} 至 {high} s）"),
    "cli-faster": (
        "The run is faster than any share of the GPU's peak explains: is the config the job that ran?",
        "运行速度超出 GPU 峰值能解释的范围：配置与实际运行的任务一致吗？",
    ),
    "cli-slower": (
        "The run is slower than any share of the GPU's peak explains: is the config the job that ran?",
        "运行速度低于 GPU 峰值能解释的范围：配置与实际运行的任务一致吗？",
    ),
    "cli-calibrated": ("with these rates: {seconds} s", "采用这些速率：{seconds} s"),
    "cli-rates": ("Pass them to `memcore search` and `memcore plan`:", "可传给 `memcore search` 和 `memcore plan`："),
    # Checks
    "cli-little-left": (
        "Less than {share}% of the memory stays free.",
        "剩余显存不到 {share}%。",
    ),
    "cli-upper-end": ("The upper end of the range does not fit.", "范围的上限放不下。"),
    "cli-check-together": (
        "if the files describe one job, such as a script and its DeepSpeed file, add --together",
        "若这些文件描述同一个任务（如脚本及其 DeepSpeed 文件），请加 --together",
    ),
    "cli-check-plan": (
        "what to change: `memcore plan` with the same file and flags",
        "如何调整：用相同的文件与参数运行 `memcore plan`",
    ),
    # Catalogs
    "cli-model-column": ("model, with or without its publisher", "模型（发布者可省略）"),
    "cli-parameters": ("parameters", "参数量"),
    "cli-family": ("family", "模型系列"),
    "cli-model-is": ("{name} ({family}): {count} parameters", "{name}（{family}）：{count} 个参数"),
    "cli-layers": ("layers", "层"),
    "cli-parameters-each": ("parameters each", "每层参数量"),
    "cli-mixer-and-ffn": ("mixer; feed-forward", "混合层；前馈层"),
    "cli-licences": (
        "The licences of {count} further models are not known.",
        "另有 {count} 个模型的许可证未知。",
    ),
    "cli-stdin": ("standard input", "标准输入"),
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
    "Notes": "说明",
    "While generating": "生成时",
    "From start to end": "从启动到结束",
    "Kept by each process": "每个进程常驻",
    "Users by context length": "各上下文长度下的用户数",
    "What saves memory, best trade-off first": "能节省显存的改动（代价最划算的在前）",
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
    "matrices that threads read ahead of their quantization": "线程先于量化读入的矩阵",
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
    "parameters are gathered one at a time and copied to the host": "参数逐个 all-gather 后复制到主机",
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
    "{dtype} compute, fp32 weights and optimizer states ({precision:s})": (
        "{dtype} 计算，权重与优化器状态为 fp32（{precision:s}）"
    ),
    "engine {name:s}": "引擎为 {name:s}",
    "GPUs of {size} GiB": "每块 GPU {size} GiB",
    "found {value}, a server": "值为 {value}，是推理服务",
    "a size alone is estimated for training only": "只给规模时只能估算训练",
    # Headings of a search
    "What fits, cheapest first (*: Pareto-optimal in headroom, cost and GPUs)": (
        "放得下的策略，代价从低到高（*：余量、代价与 GPU 数的帕累托最优）"
    ),
    "Cheapest first; name an accelerator to see what fits (*: Pareto-optimal in memory, cost and GPUs)": (
        "代价从低到高；指定加速器后才知道哪些放得下（*：显存、代价与 GPU 数的帕累托最优）"
    ),
    "Flags, in the same order": "选项（顺序同上）",
    "Not tried": "未尝试",
    "Refused": "被拒绝",
    # Help
    "usage: ": "用法：",
    "options": "选项",
    "positional arguments": "参数",
    "commands": "命令",
    "show this help message and exit": "显示此帮助",
    "show program's version number and exit": "显示版本号",
    "print JSON": "输出 JSON",
    "en or zh (default: the locale's)": "en 或 zh（默认：按系统语言）",
    "your tool's files, - for stdin, a link, a model, a question ({question}) or example: {names}": (
        "您的工具的文件、-（标准输入）、链接、模型、一句话（{question}）或示例：{names:s}"
    ),
    "flags override": "参数优先",
    "show all {count} flags, not only the usual ones": "显示全部 {count} 个参数，不只是常用的",
    "a variable that the script reads; repeatable": "脚本读取的变量；可重复",
    "a key of the files to ignore; repeatable": "文件中要忽略的键；可重复",
    "another job on the same GPUs; repeatable": "相同 GPU 上的另一个任务；可重复",
    "GiB of each GPU that other processes hold": "其他进程占用的每块 GPU 显存（GiB）",
    "the highest moment of a phase; default: the peak": "某阶段的最高点；默认：峰值",
    "also show the usual changes, each on top of the previous": "同时显示常用改动逐项叠加的效果",
    "print rows for a spreadsheet": "输出表格数据（CSV）",
    "what a training job is for (default: fine-tune)": "训练任务的目的（默认：fine-tune）",
    "model quality: keep the same, stay close, or any": "模型质量：保持不变、接近或不限",
    "fraction of each GPU to leave free (default: {share})": "每块 GPU 留空的比例（默认：{share}）",
    "tokens to train on, such as 15T; adds days and GPU-hours": "训练的 token 数，如 15T；增加天数与 GPU 小时",
    "tokens that a training job trains on, such as 15T (default: 1B)": "训练任务的 token 数，如 15T（默认：1B）",
    "price of an hour of a GPU, to find the cheapest; repeatable": "每种 GPU 每小时的价格，用于找出最便宜的；可重复",
    "tokens of one optimizer step of the whole job, such as 4M": "整个任务一次优化器更新的 token 数，如 4M",
    "price of a GPU-hour, in any currency; needs --tokens": "每 GPU 小时的价格，币种不限；需要 --tokens",
    "how many plans to show (default: {count})": "显示多少个方案（默认：{count}）",
    "one of: {settings}": "可为：{settings:s}",
    "find the largest value that fits": "求放得下的最大值",
    "find the smallest value that fits": "求放得下的最小值",
    # Commands
    "show what each GPU holds, and whether the job fits": "显示每块 GPU 的显存占用，以及任务能否放下",
    "estimate from a model's size alone, and say what is assumed": "只按模型规模估算，并说明所作的假设",
    "list every tensor at a moment, with its formula, numbers and source": (
        "列出某一时刻的每个张量，含公式、数值与来源"
    ),
    "find complete configs that fit your GPUs, best first": "查找放得下的完整配置，从最佳开始",
    "list every change that saves memory, what it costs and how to make it": ("列出能节省显存的每项改动、代价与做法"),
    "find the largest or smallest value of a setting that fits": "求一项设置放得下的最大或最小值",
    "find the layouts of a cluster that fit, cheapest first": "查找集群上放得下的并行策略，代价从低到高",
    "derive the rates of your machine from the step times in a run's log": "从运行日志的步时间推算机器的速率",
    "compare a run's log with the prediction": "将运行日志与预测对比",
    "check whether configs fit, one line each: a gate for pull requests": (
        "检查各配置能否放下，每个一行；可用于 pull request 的检查"
    ),
    "check a config without estimating it": "检查配置，不做估算",
    "print the part of the page's URL that holds a config": "输出页面 URL 中保存配置的部分",
    "write a config as your tool's file or command": "将配置写成您的工具的文件或命令",
    "--json prints the config itself too": "--json 同时输出配置本身",
    "compare predictions with measured cases": "将预测与实测对比",
    "compare published formulas for a training job with memcore, and say why they differ": (
        "将公开的训练显存公式与 memcore 对比，并说明差异的原因"
    ),
    "show what a model is made of: layers, parameters by kind, cache per token": (
        "显示模型的组成：层、各类参数、每个 token 的缓存"
    ),
    "list the models of the catalog, or those that match a query": "列出目录中的模型，或符合查询的模型",
    "find how many GPUs of each kind a job needs": "求任务所需的各型号 GPU 数",
    "list the accelerators of the catalog": "列出目录中的加速器",
    "print a completion script for bash, zsh or fish": "输出 bash、zsh 或 fish 的补全脚本",
    "How much GPU memory a training or serving job takes, when, and because of which tensors.": (
        "训练或推理任务需要多少 GPU 显存、何时最多、由哪些张量造成。"
    ),
    "found a null character, which no name of a file and no value has": ("含有空字符，文件名和值都不会含有它"),
    # Columns
    "name": "名称",
    "usable GiB": "可用 GiB",
    "Servers": "服务器",
    "Workstations": "工作站",
    "Desktop cards": "台式机显卡",
    "Laptops": "笔记本电脑",
    "Computers with unified memory": "统一内存的计算机",
    "source": "来源",
    "Sources of the capacity": "容量的来源",
    # Arguments
    "found one": "实为一个",
    "is not text": "不是文本",
    "pictures have a job only if this page saved them": "只有本页保存的图片才含有任务",
    "is not a safetensors file": "不是 safetensors 文件",
    "is not a GGUF file": "不是 GGUF 文件",
    "its version is not supported": "不支持其版本",
    "it has too many entries": "条目过多",
    "it has a value of an unknown type": "含有未知类型的值",
    "it ends early": "内容不完整",
    "is not a whole GGUF file: {reason}": "不是完整的 GGUF 文件：{reason}",
    "line {line}: byte {byte} is not UTF-8: save the text again as UTF-8": (
        "第 {line} 行：字节 {byte} 不是 UTF-8，请重新保存为 UTF-8"
    ),
    "cannot be read": "无法读取",
    "cannot be read or written": "无法读写",
    "No such file or directory": "没有这个文件或目录",
    "is a directory without {files}": "是一个目录，其中没有 {files}",
    "is empty": "是空的",
    "nothing matches {query}": "没有与 {query} 匹配的",
    "`memcore {command}` lists all": "`memcore {command}` 列出全部",
    "found {value}, which is a job": "{value} 是任务，不是命令",
    "put a command before it, as in `{command}`": "请在前面加上命令，如 `{command}`",
    "Permission denied": "没有权限",
    "this is a mistake in memcore, not in the input": "这是 memcore 的错误，不是输入的问题",
    "please report it with the config. {where}": "请连同配置一起报告。{where:s}",
    "a server has no phases of a training step": "推理服务没有训练步的阶段",
    "expected NAME=VALUE with a number, such as flops_efficiency=0.5, found {value}": (
        "应为 NAME=VALUE，值为数字，如 flops_efficiency=0.5，实为 {value}"
    ),
    "expected NAME=VALUE with a number, found {value}": "应为 NAME=VALUE，值为数字，实为 {value}",
    "expected a fraction such as 0.1 or a percentage such as 10%": "应为小于 1 的比例，如 0.1，或百分比，如 10%",
    "name one file at least, or describe a job by flags": "请至少给出一个文件，或用参数描述任务",
    "no GPU to check against": "没有可用来判断的 GPU",
    "name one with --accelerator": "请用 --accelerator 指定",
    "is longer than {count} bytes": "长度超过 {count} 字节",
    "name a config, not weights or data": "请给出配置文件，而不是权重或数据",
    "is a Git LFS pointer, not the file itself": "是 Git LFS 指针，不是文件本身",
    "run `git lfs pull`": "请运行 `git lfs pull`",
    "has a header longer than {count} bytes": "文件头超过 {count} 字节",
    "two files are expected: a config, and the log of its run": "需要两个文件：配置，以及其运行日志",
    "standard input is the config already": "标准输入已用于配置",
    "has rows that `memcore search` did not write": "含有不是 `memcore search` 写入的行",
    "name another file": "请换一个文件",
    "a price needs a number of tokens": "计算费用需要 token 数",
    "add --tokens, such as --tokens 300B": "请加上 --tokens，如 --tokens 300B",
    "unrecognized argument": "未识别的参数",
    "--gpus counts the GPUs of all nodes": "--gpus 是所有节点的 GPU 总数",
    "--frozen-weights is the format of a base model under an adapter, --quantization that of a server's weights": (
        "--frozen-weights 是适配器下基座模型的格式，--quantization 是推理服务的权重格式"
    ),
    "a global batch is --micro-batch times --grad-accum times the data-parallel ranks": (
        "全局批次大小 = --micro-batch × --grad-accum × 数据并行的 rank 数"
    ),
    "redirect the output, as in > FILE": "请重定向输出，如 > FILE",
    "stands before the command": "写在了命令之前",
    "write `{command}`": "请写作 `{command}`",
    "found {first} and {second}": "给出了 {first} 和 {second}",
    "a command takes one model": "一条命令只能用一个模型",
    "standard output": "标准输出",
    "standard input": "标准输入",
    "found {value}, a model, among files": "{value} 是模型，却与文件一起给出",
    "name it with --model, one model per command": "请用 --model 指定，一条命令一个模型",
    "is required, as in `{command}`": "必填，例如 `{command}`",
    "invalid {kind} value: {value}": "不是有效的 {kind} 值：{value}",
    "expected NAME=VALUE, such as TP=4, found {value}": "应为 NAME=VALUE，如 TP=4，实为 {value}",
    "expected a number above 0, such as 2.5, found {value}": "应为大于 0 的数，如 2.5，实为 {value}",
    "expected one argument": "需要一个值",
    "expected at least one argument": "至少需要一个值",
}
