"""Values as they are written, and tables of those that several tools share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcore.config.training import Training

TORCH_DTYPES: Mapping[str, str] = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


def _optimizer(name: str, implementation: str | None = None) -> Mapping[str, str]:
    named: Mapping[str, str] = {Training.optimizer.name: name}
    return named if implementation is None else {**named, Training.optimizer.implementation: implementation}


TRAINER_OPTIMIZERS: Mapping[str, Mapping[str, str]] = {
    "adamw_torch_fused": _optimizer("adamw", "fused"),
    "adamw_torch": _optimizer("adamw", "foreach"),
    "adamw_hf": _optimizer("adamw", "transformers"),  # until release 4
    "adamw_bnb_8bit": _optimizer("adamw-8bit", "bitsandbytes"),
    "adamw_8bit": _optimizer("adamw-8bit", "bitsandbytes"),
    "paged_adamw_32bit": _optimizer("paged-adamw", "bitsandbytes"),
    "paged_adamw_8bit": _optimizer("paged-adamw-8bit", "bitsandbytes"),
    "adamw_torch_8bit": _optimizer("adamw-8bit", "torchao"),
    "adamw_torch_4bit": _optimizer("adamw-4bit", "torchao"),
    "adafactor": _optimizer("adafactor"),
    "lion_32bit": _optimizer("lion"),
    "lion_8bit": _optimizer("lion-8bit"),
    "paged_lion_32bit": _optimizer("paged-lion"),
    "paged_lion_8bit": _optimizer("paged-lion-8bit"),
    "ademamix": _optimizer("ademamix"),
    "ademamix_8bit": _optimizer("ademamix-8bit"),
    "galore_adamw": _optimizer("galore"),
    "galore_adamw_8bit": _optimizer("galore-8bit"),
    "apollo_adamw": _optimizer("apollo"),
    "schedule_free_adamw": _optimizer("adamw-schedule-free"),
    "sgd": _optimizer("sgd"),
    "adagrad": _optimizer("adagrad"),
    "rmsprop": _optimizer("rmsprop"),
}
"""Names of transformers, training_args.py, OptimizerNames."""


def number(text: str) -> Any:
    """Return a number, or the word that it is not."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


def underscored(name: str) -> str:
    """Return a flag as a Trainer's script has it, which takes dashes too (transformers, hf_argparser.py)."""
    return f"--{name[2:].replace('-', '_')}" if name.startswith("--") else name
