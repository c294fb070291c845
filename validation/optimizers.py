"""Optimizers of torch.optim, and those of bitsandbytes where it is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from validation.plan import Optimizer, Refused

_TORCH: Mapping[str, Callable[..., torch.optim.Optimizer]] = {
    "adamw": torch.optim.AdamW,
    "adam": torch.optim.Adam,
    "amsgrad": lambda parameters, **rest: torch.optim.Adam(parameters, amsgrad=True, **rest),
    "nadam": torch.optim.NAdam,
    "radam": torch.optim.RAdam,
    "adamax": torch.optim.Adamax,
    "adadelta": torch.optim.Adadelta,
    "adagrad": torch.optim.Adagrad,
    "rmsprop": torch.optim.RMSprop,
    "asgd": torch.optim.ASGD,
    "adafactor": torch.optim.Adafactor,
    "sgd": torch.optim.SGD,
    "sgd-nesterov": lambda parameters, **rest: torch.optim.SGD(parameters, momentum=0.9, nesterov=True, **rest),
}
_MOMENTUM = ("sgd", "rmsprop")
_BITSANDBYTES = {
    "adamw-8bit": "AdamW8bit",
    "lion-8bit": "Lion8bit",
    "lion": "Lion",
    "lamb": "LAMB",
}


def build(parameters: Iterable[torch.nn.Parameter], wanted: Optimizer) -> torch.optim.Optimizer:
    """An optimizer over parameters.

    Raises Refused for an optimizer that is not installed here.
    """
    learning = [each for each in parameters if each.requires_grad]
    if wanted.name in _BITSANDBYTES and wanted.implementation == "bitsandbytes":
        return _of_bitsandbytes(_BITSANDBYTES[wanted.name], learning)
    if wanted.name not in _TORCH or wanted.implementation not in {"foreach", "fused", "for-loop"}:
        raise Refused(f"training.optimizer: found {wanted.name!r} ({wanted.implementation}), which this tool lacks")
    options: dict[str, Any] = {"lr": 1e-4, "foreach": wanted.implementation == "foreach"}
    if wanted.implementation == "fused":
        options["fused"] = True
    if wanted.momentum and wanted.name in _MOMENTUM:
        options["momentum"] = wanted.momentum
    return _TORCH[wanted.name](learning, **options)


def _of_bitsandbytes(name: str, parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
    try:
        import bitsandbytes
    except ImportError:
        raise Refused(f"training.optimizer: {name} needs bitsandbytes, which is not installed") from None
    made: torch.optim.Optimizer = getattr(bitsandbytes.optim, name)(parameters, lr=1e-4)
    return made
