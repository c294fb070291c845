"""What the page says of plans and of free room, in English and in Simplified Chinese."""

from __future__ import annotations

from collections.abc import Mapping

WORDS_OF_WAYS: Mapping[str, tuple[str, str]] = {
    "ways": ("What to do next", "下一步"),
    "ways-earlier": ("Updating …", "更新中……"),
    "ways-looking": ("Looking for plans that fit …", "正在寻找放得下的方案……"),
    "ways-plans": ("Plans that fit", "放得下的方案"),
    "ways-sure": ("Plans that are certain to fit", "确定放得下的方案"),
    "ways-other": ("Fits only with a smaller job or more hardware", "只有减少工作量或增加硬件才放得下"),
    "ways-none": ("No plan fits", "没有放得下的方案"),
    "ways-limit": ("Limited by: {reason}.", "受限于：{reason}。"),
    "ways-least": (
        "Choose more or larger GPUs, or a smaller model.",
        "请选用更多或更大的 GPU，或更小的模型。",
    ),
    "ways-free": ("and at no cost: {moves}", "另外（无代价）：{moves}"),
    "ways-plus": (" + ", " + "),
    "ways-needs": ("{need} ({low} to {high}) {unit}", "{need}（{low} 至 {high}）{unit}"),
    "ways-left": ("{size} free", "余 {size}"),
    "ways-host": ("{size} of RAM on each node", "每个节点占用内存 {size}"),
    "ways-step": ("{seconds} s per step", "每步 {seconds} s"),
    "ways-pace": ("{tokens} tokens/s each", "每个用户每秒 {tokens} 个 token"),
    "ways-tight": ("tight fit", "余量很小"),
    "ways-spills": ("more RAM than the usual {usual}", "超过通常的 {usual} 内存"),
    "ways-gauge": ("{need} of {capacity}", "{capacity} 中的 {need}"),
    "ways-use": ("Use this", "采用"),
    "ways-used": ("You use: {moves}.", "已采用：{moves}。"),
    "ways-undo": ("Undo", "撤销"),
    "ways-of": ("{action}: {what}", "{action}：{what}"),
    "crowd": ("Users and context", "用户数与上下文"),
    "crowd-note": (
        "✓ all fit at full length · ~ some may wait · ✕ does not fit. Click a cell to set both.",
        "✓ 全部用满长度也放得下 · ~ 部分可能要等待 · ✕ 放不下。点击格子可同时设置两者。",
    ),
    "crowd-corner": ("users × tokens", "用户 × token"),
    "crowd-cell": ("{users} × {length} tokens: {state}", "{users} × {length} token：{state}"),
    "crowd-fits": ("fit", "放得下"),
    "crowd-waits": ("fit at the mean length", "平均长度放得下"),
    "crowd-no": ("do not fit", "放不下"),
    "pin-this": ("Keep this job", "保留当前任务"),
    "pin-note": (
        "Keep this job, then change it: both stand side by side. If both run on the same GPU, the page adds them up.",
        "先保留当前任务，再修改它，即可并排对比；若两者同时运行在同一块 GPU 上，本页会把显存相加。",
    ),
    "share-gpus": ("{name} on the same GPU", "{name} 在同一块 GPU 上"),
    "subject-tokens": ("{length} tokens", "{length} token"),
    "subject-users": ("{users} users of {length} tokens", "{users} 个用户，各 {length} token"),
    "this-job": ("this job", "当前任务"),
    "together": ("On one GPU at the same time", "在同一块 GPU 上同时运行"),
    "together-with": ("With {names} on the same GPU:", "与 {names} 同在一块 GPU 上："),
    "together-fits": (
        "fits. Together {need} of {capacity}, {size} free.",
        "放得下。合计 {need}，容量 {capacity}，余 {size}。",
    ),
    "together-tight": (
        "probably fits. Together {need} of {capacity}, {size} free; the range is {range}.",
        "可能放得下。合计 {need}，容量 {capacity}，余 {size}；范围为 {range}。",
    ),
    "together-over": (
        "probably does not fit. Together {need}, but the GPU has {capacity}: {size} short; the range is {range}.",
        "可能放不下。合计 {need}，容量只有 {capacity}，还差 {size}；范围为 {range}。",
    ),
    "together-no": (
        "does not fit. Together {need}, but the GPU has {capacity}: {size} short.",
        "放不下。合计 {need}，容量只有 {capacity}，还差 {size}。",
    ),
    "together-unknown": (
        "{need} in all. Choose a GPU to see whether that fits.",
        "合计 {need}。选择 GPU 后即可判断能否放下。",
    ),
    "together-room": (
        "Next to the other jobs, {name} can use {size} ({share} of the GPU).",
        "除其他任务占用的之外，{name} 可用 {size}（该 GPU 的 {share}）。",
    ),
    "together-how": (
        "Each job is a process with a CUDA context and keeps its peak, so peaks add up even at different times.",
        "每个任务是一个进程，各有 CUDA 上下文并保留自己的峰值，因此峰值不同时出现也要相加。",
    ),
    "room": ("Also certain to fit", "还确定放得下"),
    "room-looking": ("Looking for what else fits …", "正在寻找还放得下什么……"),
    "room-none": (
        "Nothing to raise: larger values do not fit, or exceed the model's maximum.",
        "没有可再增大的设置：更大的值放不下，或超出模型上限。",
    ),
    "room-set": ("{label}: {value}", "{label}：{value}"),
}
