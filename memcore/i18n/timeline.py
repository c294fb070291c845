"""What the picture of a step and the sliders say."""

from __future__ import annotations

from collections.abc import Mapping

WORDS_OF_TIMELINE: Mapping[str, tuple[str, str]] = {
    "moment-slider": ("Moment of the step", "训练步中的时刻"),
    "moment-panel": ("In memory at this moment", "此刻显存中的内容"),
    "moment-run": ("{name}, {number} of {count}", "{name}，第 {number} 个，共 {count} 个"),
    "moment-said": ("{name}: {size}", "{name}：{size}"),
    "moment-peak": ("At the peak", "峰值时刻"),
    "moment-here": ("At the crosshair", "光标所在时刻"),
    "moment-pinned": ("Pinned", "已固定"),
    "moment-unpin": ("Unpin", "取消固定"),
    "moment-largest": ("Largest tensors at this moment", "此刻最大的张量"),
    "moment-hint": (
        "Point or use the arrow keys; click or press Enter to pin; drag to zoom in.",
        "移动指针或按方向键查看；点击或按 Enter 固定；拖动可放大。",
    ),
    "moment-more": ("{count} more, {size} in all", "另有 {count} 项，共 {size}"),
    "key-moment": (
        "With the step focused: pin or zoom. Arrow keys move the crosshair, Page Up and Page Down jump further.",
        "聚焦训练步图时：固定时刻、放大或缩小；方向键移动光标，翻页键按区段移动。",
    ),
    "zoom-in": ("Zoom in", "放大"),
    "zoom-out": ("Zoom out", "缩小"),
    "zoom-reset": ("Whole step", "整步"),
    "ghost": ("Dashed: before your edit, peak {size}", "虚线：编辑前，峰值 {size}"),
    "stages": ("Stages of the pipeline", "流水线各级"),
    "used-share": ("{share}% used", "占用 {share}%"),
    "used-times": ("{times} times what the GPU has", "为 GPU 容量的 {times} 倍"),
    "used-fullest": ("{share}% used on the fullest GPU", "最满的 GPU 占用 {share}%"),
    "used-total": ("{count} GPUs hold {size}", "{count} 块 GPU 共占用 {size}"),
    "lower": ("Lower: {name}", "减小：{name}"),
    "raise": ("Raise: {name}", "增大：{name}"),
    "track": ("{name}, slider", "{name}，滑块"),
    "track-up-to": ("Fits up to {value}", "最多可放下 {value}"),
    "track-from": ("Fits from {value} on", "从 {value} 起可放下"),
    "track-between": ("Fits from {low} to {high}", "{low} 至 {high} 可放下"),
    "track-all": ("Every value on this slider fits", "滑块上的所有值都可放下"),
    "track-none": ("No value on this slider fits", "滑块上没有可放下的值"),
    "track-tight": ("{said}, though tightly", "{said}，但余量很小"),
    "track-some": ("Fits at {values}", "可放下的值：{values}"),
    "track-tight-at": ("{said}; tight at {values}", "{said}；{values} 余量很小"),
    "track-tight-above": ("{said}; tight above {value}", "{said}；超过 {value} 余量很小"),
    "track-tight-below": ("{said}; tight below {value}", "{said}；低于 {value} 余量很小"),
    "difference": ("{size} since the last edit", "较上次编辑 {size}"),
}
