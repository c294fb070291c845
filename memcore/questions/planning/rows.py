"""Rows of knowledge about methods: what to change of a training job, when, and what it costs in quality.

What engines offer (ways to run a job, degrees of checkpointing and of offloading) stands in their modules `knobs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from memcore import registry
from memcore.config.knobs import TIERS, Knob, Method, Settings
from memcore.config.training import Training
from memcore.networks.adapter_kinds import ADAPTER_KINDS
from memcore.networks.adapters import mixer_names
from memcore.trace.job import Job

FULL = "full-fine-tune"
"""The goal that no adapter keeps: all weights are trained."""
GOALS: Mapping[str, tuple[str, ...]] = {
    "fine-tune": ("same", "states", "method", "quantized", "transfer"),
    FULL: ("same", "states", "method", "transfer"),
    "pre-train": ("same", "states", "transfer"),
}
"""Tiers that keep the goal; all work on the hardware that there is."""
QUALITIES: Mapping[str, tuple[str, ...]] = {
    "same": ("same", "transfer"),
    "close": ("same", "states", "transfer"),
    "any": ("same", "states", "method", "quantized", "transfer"),
}
"""Tiers that keep a quality."""


_ADAM: Mapping[str, tuple[object, ...]] = {
    Training.optimizer.name: (None, "adamw", "adam"),
    Training.adapter.type: (None,),
}
_EIGHT_BITS = Knob(
    title="AdamW with 8-bit states",
    to={Training.optimizer.name: "adamw-8bit", Training.optimizer.implementation: None},
    when=_ADAM,
    why="two bytes of moments per parameter instead of four or eight",
    quality="both moments are quantized in blocks of 256; published runs match 32-bit Adam",
    source="arXiv 2110.02861; bitsandbytes, optim/adamw.py; torchao, optim/adam.py",
)
_LORA = Knob(
    title="LoRA on all linear layers",
    to={
        Training.adapter.type: "lora",
        Training.adapter.rank: 16,
        Training.adapter.target_modules: "all-linear",
    },
    when={Training.adapter.type: (None,)},
    why="gradients and optimizer states exist for small matrices only; of rank 16, TRL's and Unsloth's default",
    quality="close to full fine-tuning for instruction tuning; less for new knowledge (arXiv 2405.09673)",
    source="arXiv 2106.09685; peft, tuners/lora; trl, trainer/model_config.py; unsloth, models/llama.py",
)


def _at_attention(job: Job) -> Settings | None:
    """Linear layers of attention, where experts would have adapters too."""
    named = mixer_names(job.model.network) if "E" in job.model.sizes else []
    return {Training.adapter.target_modules: named} if named else None


_LORA_AT_ATTENTION = replace(
    _LORA,
    title="LoRA on attention only",
    made=_at_attention,
    why="gradients and optimizer states exist for small matrices only, none of them of experts; of rank 16, TRL's and "
    "Unsloth's default",
    quality="experts learn nothing; close to full fine-tuning for instruction tuning",
    source="axolotl, examples/glm45 and examples/glm47-flash, README.md; docs/expert_quantization.qmd",
)
_NF4 = Knob(
    title="Frozen weights in NF4 (QLoRA)",
    to={Training.quantization: "nf4"},
    when={Training.quantization: (None,), Training.trainable: (None, "all")},
    why="frozen weights take 4.5 bits each",
    quality="weights are rounded to 4 bits; arXiv 2305.14314 reports the same scores as 16-bit LoRA",
    source="arXiv 2305.14314; bitsandbytes, nn/modules.py, Linear4bit",
)
_INT8 = Knob(
    title="Frozen weights in int8",
    to={Training.quantization: "int8"},
    when=_NF4.when,
    alone=True,
    why="frozen weights take a byte each",
    quality="weights are rounded to 8 bits, outliers are not; arXiv 2208.07339 reports the same scores as 16 bits",
    source="arXiv 2208.07339; bitsandbytes, nn/modules.py, Linear8bitLt; "
    "LLaMA-Factory, model/model_utils/quantization.py",
)
_DOUBLE = Knob(
    title="Doubly quantized weights",
    to={Training.quantization: "nf4-double"},
    when={Training.quantization: ("nf4",)},
    why="4.13 bits a weight instead of 4.5: scales are quantized too",
    quality="arXiv 2305.14314 finds no loss from quantized scales",
    source="arXiv 2305.14314, section 3; bitsandbytes, functional.py, quantize_4bit, compress_statistics",
)
_PAGED = Knob(
    title="Paged AdamW with 8-bit states",
    to={Training.optimizer.name: "paged-adamw-8bit", Training.optimizer.implementation: None},
    when={Training.optimizer.name: (None, "adamw", "adam"), Training.adapter.type: tuple(ADAPTER_KINDS)},
    alone=True,
    why="moments take two bytes each, and move to the host when the GPU is full",
    quality=_EIGHT_BITS.quality,
    source="arXiv 2305.14314, section 3; bitsandbytes, optim/adamw.py; axolotl, utils/schemas/validation.py",
)
_NARROW = (None, "bf16", "fp16", "fp16-mixed", "fp8-mixed")
_BASE = Knob(
    title="Frozen weights in bf16",
    to={Training.precision: "bf16", Training.parameter_dtype: None},
    when={Training.precision: ("fp32", "tf32", "bf16-mixed", "bf16-autocast")},
    why="frozen weights need no fp32 copy",
    quality="checkpoints are published in bf16; the adapters are trained in bf16 too",
    source="peft, tuners/lora/layer.py; transformers 4.57, modeling_utils.py, dtype",
)
_PURE = Knob(
    title="Weights and moments in bf16",
    to=_BASE.to,
    when={**_BASE.when, Training.adapter.type: (None,)},
    why="parameters, gradients and moments take two bytes each, without an fp32 copy",
    quality="bf16 parameters lose small updates",
    source="torchtune, recipes/configs, dtype: bf16 (all full fine-tunes)",
)
_EITHER: tuple[Settings, ...] = ({}, {Training.optimizer.implementation: "torchao"})
_MIXED: tuple[Settings, ...] = ({}, {Training.precision: "bf16-mixed"})
"""Megatron calls mixed what has fp32 copies of trained parameters only: frozen weights are in bf16 there too."""
_COMMON: tuple[Method, ...] = (
    Method("same", ()),
    Method("states", (_EIGHT_BITS,), _EITHER),
    Method("method", (_PURE,), spare=True),
    Method("method", (_PURE, _EIGHT_BITS), _EITHER, spare=True),
    Method("method", (_LORA, _BASE), _MIXED),
    Method("method", (_LORA_AT_ATTENTION, _BASE), _MIXED, narrow=True),
    Method("method", (replace(_LORA, when={**_LORA.when, Training.precision: _NARROW}),)),
    Method("method", (replace(_LORA_AT_ATTENTION, when={**_LORA.when, Training.precision: _NARROW}),), narrow=True),
    Method("quantized", (_LORA, _INT8), near=True),
    Method("quantized", (_LORA, _NF4)),
    Method("quantized", (_LORA_AT_ATTENTION, _NF4), narrow=True),
    Method("quantized", (_INT8,), near=True),
    Method("quantized", (_NF4,)),
    Method("quantized", (_DOUBLE, _PAGED), narrow=True),
    Method("quantized", (_DOUBLE,), narrow=True),
)
"""Of every trainer."""
_OWN = (each for module in registry.engine_modules("knobs") for each in getattr(module, "METHODS", ()))
METHODS: tuple[Method, ...] = tuple(sorted((*_COMMON, *_OWN), key=lambda each: tuple(TIERS).index(each.tier)))
"""In the order of what they give up, and of what an expert tries first."""
