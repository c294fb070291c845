"""The guide's pictures: stacked bars of what memcore predicts, for every stop of a slider, computed when the site is built.

A row of a figure is a job; what the reader pulls stands in it as `PULLED`. The rows are links that open their job in the page.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from html import escape
from typing import Any

from memcore.config.settings import Config
from memcore.config.url import encode_fragment
from memcore.estimation import estimate
from memcore.faces.render.svg import COLOURS, slug
from memcore.i18n.page import speaking, translated
from memcore.units import format_bytes

PULLED = object()
"""Stands in a row's config for the value of the slider."""
Parts = Mapping[str, int]
Texts = tuple[str, str]
"""The same in English and in Chinese."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Some jobs as stacked bars, and what the reader pulls."""

    pulled: Texts
    unit: Texts
    stops: tuple[Any, ...]
    start: int
    """The stop that is shown first."""
    rows: Mapping[Texts, Mapping[str, Any]]
    """Configs by what tells them apart; values by the path of their setting."""
    parts: Callable[[Any], Parts]
    """What an estimate's bar consists of, in bytes."""


def _peak(found: Any) -> Parts:
    return dict(found.ledger.by_category)


def _readings(found: Any) -> Parts:
    allocated, reserved, device = (each.expected for each in found.readings)
    return {"in tensors": allocated, "unused": reserved - allocated, "outside": device - reserved}


def _states(found: Any) -> Parts:
    kept = ("parameters", "gradients", "optimizer states")
    return {name: size for name, size in found.ledger.by_category.items() if name in kept}


SEQUENCE = {"pulled": ("Sequence length", "序列长度"), "unit": ("tokens", "token")}
EIGHT = {"model": "llama-3.1-8b", "hardware.num_gpus": 8, "training.activation_checkpointing.policy": "full"}
"""Llama 3.1 8B on eight GPUs, sharded by FSDP2."""
MANY = {
    "model": "llama-3.1-8b", "engine.type": "megatron", "hardware.num_gpus": 8, "training.sequence_length": 8192,
}  # fmt: skip
FIGURES: Mapping[str, Figure] = {
    "weights": Figure(
        pulled=("Model", "模型"),
        unit=("", ""),
        stops=("llama-3.2-1b", "llama-3.2-3b", "llama-2-7b-hf", "llama-3.1-8b"),
        start=3,
        rows={
            ("fp32 weights, AdamW", "fp32 权重，AdamW"): {"training.precision": "bf16-mixed"},
            ("bf16 weights, AdamW", "bf16 权重，AdamW"): {"training.precision": "bf16"},
            ("bf16 weights, 8-bit AdamW", "bf16 权重，8 位 AdamW"): {
                "training.precision": "bf16", "training.optimizer.name": "adamw-8bit",
            },
            ("bf16 weights, SGD", "bf16 权重，SGD"): {"training.precision": "bf16", "training.optimizer.name": "sgd"},
        },
        parts=_states,
    ),
    "activations": Figure(
        **SEQUENCE,
        stops=(1024, 2048, 4096, 8192),
        start=2,
        rows={
            ("no checkpointing", "不用激活检查点"): {**EIGHT, "training.activation_checkpointing.policy": "none"},
            ("selective checkpointing", "选择性激活检查点"): {**EIGHT, "training.activation_checkpointing.policy": "selective"},
            ("full checkpointing", "完全激活检查点"): EIGHT,
        },
        parts=_peak,
    ),
    "loss": Figure(
        **SEQUENCE,
        stops=(2048, 4096, 8192, 16384),
        start=2,
        rows={
            ("cross-entropy in fp32", "fp32 交叉熵"): EIGHT,
            ("in 8 chunks", "分 8 块计算"): {**EIGHT, "training.loss": "chunked:8"},
            ("fused with the output head", "与输出层融合"): {**EIGHT, "training.loss": "fused-linear"},
        },
        parts=_peak,
    ),
    "sharding": Figure(
        pulled=("GPUs", "GPU 数"),
        unit=("", ""),
        stops=(2, 4, 8, 16, 32, 64),
        start=2,
        rows={
            ("DDP", "DDP"): {"engine.type": "ddp", "training.precision": "bf16-mixed"},
            ("ZeRO-1", "ZeRO-1"): {"engine.type": "deepspeed", "engine.zero_stage": 1},
            ("ZeRO-2", "ZeRO-2"): {"engine.type": "deepspeed", "engine.zero_stage": 2},
            ("ZeRO-3", "ZeRO-3"): {"engine.type": "deepspeed", "engine.zero_stage": 3},
            ("FSDP2", "FSDP2"): {"engine.type": "fsdp"},
        },
        parts=_peak,
    ),
    "parallelism": Figure(
        pulled=("Ranks of each kind", "每种并行的规模"),
        unit=("", ""),
        stops=(1, 2, 4, 8),
        start=2,
        rows={
            ("tensor", "张量并行"): {**MANY, "parallelism.tensor_parallel_size": PULLED, "parallelism.sequence_parallel": False},
            ("tensor and sequence", "张量＋序列并行"): {
                **MANY, "parallelism.tensor_parallel_size": PULLED, "parallelism.sequence_parallel": True,
            },
            ("context", "上下文并行"): {**MANY, "parallelism.context_parallel_size": PULLED},
            ("pipeline", "流水线并行"): {
                **MANY, "parallelism.pipeline_parallel_size": PULLED, "training.gradient_accumulation_steps": 8,
            },
        },
        parts=_peak,
    ),
    "allocator": Figure(
        **SEQUENCE,
        stops=(1024, 2048, 4096, 8192),
        start=2,
        rows={
            ("default allocator", "默认分配器"): {**EIGHT, "hardware.accelerator": "h100-sxm-80gb"},
            ("expandable segments", "可扩展段"): {
                **EIGHT, "hardware.accelerator": "h100-sxm-80gb", "engine.expandable_segments": True,
            },
        },
        parts=_readings,
    ),
    "adapters": Figure(
        **SEQUENCE,
        stops=(512, 1024, 2048, 4096, 8192),
        start=2,
        rows={
            ("full fine-tuning", "全参数微调"): {},
            ("LoRA", "LoRA"): {"training.adapter.type": "lora"},
            ("QLoRA (NF4)", "QLoRA（NF4）"): {"training.adapter.type": "lora", "training.quantization": "nf4"},
        },
        parts=_peak,
    ),
    "serving": Figure(
        pulled=("Users", "并发用户"),
        unit=("× 4,096 tokens", "× 4,096 token"),
        stops=(1, 2, 4, 8, 16, 32),
        start=3,
        rows={
            ("Llama 2 7B, all heads", "Llama 2 7B，全部注意力头"): {"model": "llama-2-7b-hf"},
            ("Llama 3.1 8B, grouped heads", "Llama 3.1 8B，分组注意力头"): {"model": "llama-3.1-8b"},
            ("Gemma 3 4B, sliding window", "Gemma 3 4B，滑动窗口"): {"model": "gemma-3-4b-it"},
        },
        parts=_peak,
    ),
}  # fmt: skip
COMMON: Mapping[str, Mapping[str, Any]] = {
    "weights": {"model": PULLED, "training.sequence_length": 512},
    "activations": {"training.sequence_length": PULLED},
    "loss": {"training.sequence_length": PULLED},
    "sharding": {
        "model": "llama-3.1-8b", "hardware.num_gpus": PULLED, "training.sequence_length": 2048,
        "training.activation_checkpointing.policy": "full",
    },
    "parallelism": {},
    "allocator": {"training.sequence_length": PULLED},
    "adapters": {
        "model": "llama-3.1-8b", "training.sequence_length": PULLED, "training.activation_checkpointing.policy": "full",
    },
    "serving": {
        "engine.type": "transformers", "inference.batch_size": PULLED, "inference.prompt_length": 3584,
        "inference.output_length": 512,
    },
}  # fmt: skip
"""What all rows of a figure have in common."""


def jobs(name: str) -> list[list[Config]]:
    """The jobs of a figure: for each stop of its slider, each row's."""
    figure = FIGURES[name]
    return [[_config({**COMMON[name], **row}, stop) for row in figure.rows.values()] for stop in figure.stops]


def _config(row: Mapping[str, Any], stop: Any) -> Config:
    found = Config.from_dict({"model": stop if row["model"] is PULLED else row["model"]})
    return found.changed({path: stop if value is PULLED else value for path, value in row.items() if path != "model"})


@cache
def bars(name: str) -> tuple[tuple[Parts, ...], ...]:
    """The bars of a figure, in bytes: for each stop, each row's parts."""
    parts = FIGURES[name].parts
    return tuple(tuple(parts(estimate(job)) for job in row) for row in jobs(name))


def html(name: str, language: str, page: str) -> str:
    """A figure as it is before any script runs, with what the script needs to redraw it; `page` leads to the page."""
    figure, found, mine = FIGURES[name], bars(name), int(language == "zh")
    names = list(dict.fromkeys(part for stop in found for row in stop for part, size in row.items() if size))
    largest = max(sum(row.values()) for stop in found for row in stop)
    frames = [
        {
            "value": f"{_stop(stop)} {figure.unit[mine]}".strip(),
            "rows": [
                {
                    "link": f"{page}#{encode_fragment(job)}",
                    "total": format_bytes(sum(row.values())),
                    "widths": [round(100 * row.get(part, 0) / largest, 2) for part in names],
                }
                for job, row in zip(configs, rows, strict=True)
            ],
        }
        for stop, configs, rows in zip(figure.stops, jobs(name), found, strict=True)
    ]
    first: Any = frames[figure.start]
    rows = "".join(
        f'<div class="memory-row"><a href="{escape(row["link"])}">{escape(label[mine])}</a>'
        f'<span class="memory-bar" aria-hidden="true">{_segments(names, row["widths"])}</span>'
        f"<output>{row['total']}</output></div>"
        for label, row in zip(figure.rows, first["rows"], strict=True)
    )
    with speaking(language):
        legend = "".join(f'<li><i class="{_class(part)}"></i>{escape(_said(part, mine))}</li>' for part in names)
    hint = ("Pull to change; each name opens its job.", "拖动滑块即可变化；点击名称可打开对应任务。")[mine]
    return (
        f'<figure class="memory" data-frames="{escape(json.dumps(frames, separators=(",", ":"), ensure_ascii=False))}">'
        f'<label>{figure.pulled[mine]} <input type="range" min="0" max="{len(frames) - 1}" value="{figure.start}"> '
        f"<output>{first['value']}</output></label>{rows}"
        f'<figcaption><ul class="memory-legend">{legend}</ul><p>{hint}</p></figcaption></figure>'
    )


def _stop(stop: Any) -> str:
    return f"{stop:,}" if isinstance(stop, int) else str(stop)


_FURTHER: Mapping[str, tuple[str, Texts]] = {
    "in tensors": ("parameters", ("tensors (allocated)", "张量（allocated）")),
    "unused": ("unused", ("held by the allocator, unused (reserved)", "分配器持有而未用（reserved）")),
    "outside": ("outside", ("outside the allocator: CUDA, NCCL (device)", "分配器之外：CUDA、NCCL（device）")),
    "weights": ("parameters", ("weights", "权重")),
    "KV cache": ("optimizer-states", ("KV cache", "KV 缓存")),
}
"""Parts that no training step has: the class of their colour and their names."""


def _class(part: str) -> str:
    return _FURTHER[part][0] if part in _FURTHER else slug(part) if slug(part) in COLOURS else "outside"


def _said(part: str, mine: int) -> str:
    return _FURTHER[part][1][mine] if part in _FURTHER else translated(part)


def _segments(names: list[str], widths: list[float]) -> str:
    return "".join(
        f'<i class="{_class(part)}" style="width:{width}%"></i>' for part, width in zip(names, widths, strict=True)
    )


def colours() -> str:
    """The colours of the bars, as the page has them."""
    light = "".join(f".memory .{name}{{background:{tones[0]}}}" for name, tones in COLOURS.items())
    dark = "".join(
        f'[data-md-color-scheme="slate"] .memory .{name}{{background:{tones[1]}}}' for name, tones in COLOURS.items()
    )
    return light + dark + "\n"
