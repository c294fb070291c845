"""What the command line says in an answer, in English and in Simplified Chinese; a part of `page.WORDS`."""

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
