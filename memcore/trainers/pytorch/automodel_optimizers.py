"""Optimizers that recipes of NeMo Automodel name by their classes: PyTorch's, and others' with master weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.errors import UnsupportedError
from memcore.formats.tool import Key
from memcore.messages import Message, joined

_NAME, _HOW, _STATES, _MASTER = "*optimizer_name", "*implementation", "*states", "*master"
_CLASSES: Mapping[str, tuple[str, str | None]] = {
    "torch.optim.AdamW": ("adamw", None), "torch.optim.Adam": ("adam", None), "torch.optim.SGD": ("sgd", None),
    "adamw": ("adamw", None), "adam": ("adam", None),
    "bitsandbytes.optim.AdamW8bit": ("adamw-8bit", "bitsandbytes"),
    "torchao.optim.AdamW8bit": ("adamw-8bit", "torchao"),
}  # fmt: skip
_FUSED_ADAM, _FLASH_ADAM = "transformer_engine.pytorch.optimizers.FusedAdam", "flashoptim.FlashAdamW"
_DTYPES: Mapping[str, str] = {"float32": "fp32", "fp32": "fp32", "bfloat16": "bf16", "bf16": "bf16"}
_CORRECTIONS: Mapping[object, str] = {24: "int8", 32: "int16", None: "none"}
"""What FlashOptim keeps next to bf16 weights by the bits that both have together."""
_RATE = 1e-5
KEYS = (
    Key(path=Training.optimizer.name, name=_NAME),
    Key(path=Training.optimizer.implementation, name=_HOW),
    Key(path=Training.optimizer.state_dtype, name=_STATES),
    Key(path=Training.master_dtype, name=_MASTER),
)


def read_optimizer(normalized: dict[str, Any]) -> None:
    """Say an optimizer's class in plain words: its name, how its step runs, and what it keeps."""
    target = str(normalized.pop("optimizer._target_", "torch.optim.AdamW"))
    copying = {"FusedAdam": _fused_adam, "FlashAdamW": _flash_adam}.get(target.rpartition(".")[2])
    if copying is not None:
        copying(normalized)
        return
    if target not in _CLASSES:
        others = joined(", ", (*_CLASSES, _FUSED_ADAM, _FLASH_ADAM))
        raise UnsupportedError.of_value("optimizer._target_", target, Message("supported: {}", others))
    normalized[_NAME], how = _CLASSES[target]
    fused, foreach = normalized.pop("optimizer.fused", None), normalized.pop("optimizer.foreach", None)
    normalized[_HOW] = how or ("fused" if fused is True else "for-loop" if foreach is False else None)


def _fused_adam(normalized: dict[str, Any]) -> None:
    """TransformerEngine's Adam: both moments in one dtype, and master weights if it is told to keep them.

    Source: transformer_engine 2.20, pytorch/optimizers/fused_adam.py; components/optim/optimizer.py (`FusedAdamConfig`
    stands for a `type`; a `_target_` is called as it is).
    """
    kept = {
        name: str(normalized.pop(f"optimizer.{name}", None) or "float32").rpartition(".")[2]
        for name in ("exp_avg_dtype", "exp_avg_sq_dtype", "master_weight_dtype")
    }
    first, second, master = (_DTYPES.get(dtype) for dtype in kept.values())
    if master != "fp32" or first is None or first != second:
        found = joined(", ", (f"{name} {dtype}" for name, dtype in kept.items()))
        why = "supported: master weights in float32, and both moments in float32 or in bfloat16"
        raise UnsupportedError("optimizer", "found {}; {}", found, why)
    remainders = normalized.pop("optimizer.store_param_remainders", False) is True
    copies = normalized.pop("optimizer.master_weights", False) is True
    normalized |= {
        _NAME: "adamw" if normalized.pop("optimizer.adam_w_mode", True) is True else "adam",
        _HOW: "transformer-engine",
        _STATES: first,
        _MASTER: ("int16" if remainders else "fp32") if copies else "none",
    }


def _flash_adam(normalized: dict[str, Any]) -> None:
    """FlashOptim's AdamW, with the bits of its master weights that bf16 weights lack (flashoptim 0.1.4)."""
    bits = normalized.pop("optimizer.master_weight_bits", 24)
    if bits not in _CORRECTIONS:
        raise UnsupportedError.of_value("optimizer.master_weight_bits", bits, Message("supported: {}", "24, 32, null"))
    if normalized.pop("optimizer.quantize", True) is not True:
        raise UnsupportedError.of_value("optimizer.quantize", False, Message("supported: {}", "true"))
    normalized |= {_NAME: "adamw", _HOW: "flashoptim", _MASTER: _CORRECTIONS[bits]}


def written_optimizer(config: Config) -> dict[str, Any]:
    """Return the optimizer's class with how its step runs, and what it keeps."""
    name, how = config[Training.optimizer.name] or "adamw", config[Training.optimizer.implementation]
    master, states = config[Training.master_dtype], config[Training.optimizer.state_dtype]
    keys: dict[str, Any] = {"optimizer.lr": _RATE}
    if how == "transformer-engine" and name in ("adamw", "adam"):
        dtype = "torch.bfloat16" if states == "bf16" else "torch.float32"
        return keys | {
            "optimizer._target_": _FUSED_ADAM, "optimizer.adam_w_mode": name == "adamw",
            "optimizer.master_weights": master in ("fp32", "int16"),
            "optimizer.store_param_remainders": master == "int16",
            "optimizer.exp_avg_dtype": dtype, "optimizer.exp_avg_sq_dtype": dtype,
        }  # fmt: skip
    if how == "flashoptim" and name == "adamw":
        bits = {kept: number for number, kept in _CORRECTIONS.items()}.get(str(master or "int8"), 24)
        return keys | {"optimizer._target_": _FLASH_ADAM, "optimizer.master_weight_bits": bits}
    classes = {parts: target for target, parts in reversed([*_CLASSES.items()]) if "." in target}
    own = next((theirs for ours, theirs in classes if ours == name and theirs == how), None)
    target = classes.get((name, own)) or next((each for (ours, _), each in classes.items() if ours == name), None)
    if target is None:
        return {}
    steps = {"fused": {"optimizer.fused": True}, "for-loop": {"optimizer.foreach": False}}
    return keys | {"optimizer._target_": target} | (steps.get(str(how), {}) if own is None else {})
