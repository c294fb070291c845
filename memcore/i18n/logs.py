"""Texts about comparing a run's log with a prediction: a part of `words.WORDS`."""

from __future__ import annotations

from collections.abc import Mapping

WORDS_OF_LOGS: Mapping[str, tuple[str, str]] = {
    "reconcile": ("Compare with your log", "对照您的日志"),
    "reconcile-note": (
        (
            "Paste what a run of this job printed: nvidia-smi, an out-of-memory message, torch.cuda.memory_summary(), "
            "the log of torchtitan, Megatron-LM, DeepSpeed, nanotron, vLLM, SGLang, llama.cpp and others, or a number "
            "such as 71.3 GiB. It stays on this machine."
        ),
        (
            "粘贴该任务运行时打印的内容：nvidia-smi、显存不足报错、torch.cuda.memory_summary()，torchtitan、Megatron-LM、"
            "DeepSpeed、nanotron、vLLM、SGLang、llama.cpp 等的日志，或如 71.3 GiB 的数字。数据不会离开本机。"
        ),
    ),
    "log": ("Log", "日志"),
    "log-file": ("Or a file", "或文件"),
    "log-reading": ("Treat an unlabeled number as", "未标明含义的数字视为"),
    "log-any": ("unknown: compare with all three", "未知：与三者对照"),
    "reconcile-button": ("Compare with the prediction", "与预测对照"),
    "log-says": ("The log says", "日志值"),
    "log-predicted": ("memcore says", "memcore 预测"),
    "log-difference": ("Difference", "差异"),
    "log-range": ("Predicted range", "预测范围"),
    "log-quantity": ("Quantity", "指标"),
    "log-line": ("line {line}", "第 {line} 行"),
    "log-lines": ("line {line}, of {times} lines that state it", "第 {line} 行（共 {times} 行有此项）"),
    "log-of-tool": ("{tool}: {quantity} ({place})", "{tool}：{quantity}（{place}）"),
    "log-at": ("{quantity} ({place})", "{quantity}（{place}）"),
    "log-bounds": ("{low} – {high}: {icon} {verdict}", "{low} – {high}：{icon} {verdict}"),
    "log-moment": ("{quantity}, {moment}", "{quantity}，{moment}"),
    "log-inside": ("inside the range", "范围内"),
    "log-below": ("below the range", "低于范围"),
    "log-above": ("above the range", "高于范围"),
    "log-unknown": ("not predicted", "无预测"),
    "log-all-inside": ("Every reading is inside the predicted range.", "所有读数都在预测范围内。"),
    "log-outside": (
        "Readings outside the predicted range: {outside} of {count}.",
        "超出预测范围的读数：{count} 个中有 {outside} 个。",
    ),
    "log-unlabelled": (
        "The log does not say what its number is. Name it with --as, as in --as max_allocated.",
        "日志没有说明这个数字是什么。用 --as 指定，例如 --as max_allocated。",
    ),
    "log-ran-out-though": (
        "The run ran out of memory, but memcore predicts that it fits.",
        "运行时显存不足，但 memcore 预测可以放下。",
    ),
    "log-fits": ("fits", "可以放下"),
    "log-no": ("does not fit", "放不下"),
    "log-ran-out": ("ran out of memory", "显存不足"),
    "log-least": ("at least {size}", "至少 {size}"),
    "log-cut": (
        "Only the first {count} characters were read.",
        "只读取了前 {count} 个字符。",
    ),
    "log-match": (
        "The difference ({quantity}) matches the size of {name}, {size}. Look there first; it need not be the cause.",
        "该差异（{quantity}）与{name}的大小（{size}）相同。可先从这里查起，但不一定是原因。",
    ),
    "log-request": (
        "The allocation that failed matches the size of {name}, {size}.",
        "失败的分配与{name}的大小（{size}）相同。",
    ),
    "log-unallocated": (
        "{size} were reserved but not in use: the caching allocator held them in pieces too small for the request.",
        "{size} 已保留但未使用：由缓存分配器持有，但没有足够大的空闲块满足该请求。",
    ),
    "log-copies": ("{title} × {copies}", "{title} × {copies}"),
    "case": ("Report it as a measured case", "作为实测案例上报"),
    "case-note": (
        "The job's config and the log's measurements, as memcore accuracy reads them.",
        "表单中的配置与日志实测值，格式可由 memcore accuracy 读取。",
    ),
    "case-none": (
        "No measured case yet: say what the number is.",
        "尚无可作为案例的数值：请说明该数字的含义。",
    ),
    "quantity max_allocated": ("peak allocated", "已分配峰值"),
    "quantity max_reserved": ("peak reserved", "已保留峰值"),
    "quantity device_used": ("used on the GPU", "GPU 已用"),
    "quantity allocated": ("allocated", "已分配"),
    "quantity weights": ("weights", "权重"),
    "quantity activations": ("activations", "激活值"),
    "quantity kv_cache": ("KV cache", "KV 缓存"),
    "quantity kv_cache_tokens": ("tokens in the KV cache", "KV 缓存 token 数"),
    "quantity kv_cache_blocks": ("blocks of the KV cache", "KV 缓存块数"),
    "quantity fits": ("whether it fits", "能否放下"),
    "quantity active": ("active blocks", "活动块"),
    "quantity max_active": ("peak in active blocks", "活动块峰值"),
    "quantity reserved": ("reserved by the allocator", "分配器已保留"),
    "quantity unallocated": ("reserved, not in use", "已保留未使用"),
    "quantity request": ("the allocation that failed", "失败的分配"),
    "quantity needed": ("needed by tensors", "张量所需"),
    "quantity capacity": ("the GPU's memory", "显存总量"),
    "quantity free": ("free on the GPU", "GPU 空闲"),
    "quantity process": ("used by one process", "单进程占用"),
    "quantity other_process": (
        "used by a process (inside a container it may be this one)",
        "某进程占用（容器中可能即本进程）",
    ),
    "quantity others": ("used by other processes", "其他进程占用"),
    "quantity non_torch": ("outside PyTorch's allocator", "PyTorch 分配器之外"),
    "quantity cuda_graphs": ("CUDA graphs, captured", "CUDA Graph（捕获后）"),
    "quantity cuda_graphs_estimated": ("CUDA graphs, as estimated before", "CUDA Graph（捕获前估算）"),
    "quantity number": ("an unlabeled number", "未标明含义的数字"),
    "quantity before_init_mem_gpu": ("allocated before the Trainer", "创建 Trainer 之前已分配"),
    "quantity init_mem_gpu_alloc_delta": ("added by creating the Trainer", "创建 Trainer 时增加"),
    "quantity train_mem_gpu_alloc_delta": ("added by training, at its end", "训练结束时增加"),
    "quantity train_mem_gpu_peaked_delta": ("further rise to the peak", "峰值时再增加"),
    "moment peak": ("at the peak", "峰值"),
    "moment first_step": ("in the first step", "第一步"),
    "moment after_init": ("after loading", "加载后"),
    "moment steady": ("between steps", "步间"),
    "moment out_of_memory": ("at the out-of-memory error", "显存不足时"),
}
