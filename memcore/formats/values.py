"""Tables of values that several tools share."""

from __future__ import annotations

from collections.abc import Mapping

TORCH_DTYPES: Mapping[str, str] = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


def _optimizer(name: str, implementation: str | None = None) -> Mapping[str, str]:
    named = {"training.optimizer.name": name}
    return named if implementation is None else {**named, "training.optimizer.implementation": implementation}


TRAINER_OPTIMIZERS: Mapping[str, Mapping[str, str]] = {
    "adamw_torch_fused": _optimizer("adamw", "fused"),
    "adamw_torch": _optimizer("adamw", "foreach"),
    "adamw_bnb_8bit": _optimizer("adamw-8bit", "bitsandbytes"),
    "adamw_8bit": _optimizer("adamw-8bit", "bitsandbytes"),
    "paged_adamw_32bit": _optimizer("paged-adamw", "bitsandbytes"),
    "paged_adamw_8bit": _optimizer("paged-adamw-8bit", "bitsandbytes"),
    "adamw_torch_8bit": _optimizer("adamw-8bit", "torchao"),
    "adamw_torch_4bit": _optimizer("adamw-4bit", "torchao"),
    "adafactor": _optimizer("adafactor"),
    "lion_32bit": _optimizer("lion"),
    "sgd": _optimizer("sgd"),
    "adagrad": _optimizer("adagrad"),
    "rmsprop": _optimizer("rmsprop"),
}
"""Names of transformers, training_args.py, OptimizerNames."""
