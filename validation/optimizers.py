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
_MOMENTS = {"adamw-8bit": 2, "lion-8bit": 1, "lion": 1, "lamb": 2}
"""Moments that each of them keeps."""


def build(
    parameters: Iterable[torch.nn.Parameter], wanted: Optimizer, *, simulated: bool = False
) -> torch.optim.Optimizer:
    """An optimizer over parameters; on fake tensors those of bitsandbytes are their states.

    Raises Refused for an optimizer that is not installed here.
    """
    learning = [each for each in parameters if each.requires_grad]
    if wanted.name in _BITSANDBYTES and wanted.implementation == "bitsandbytes":
        if simulated:
            return States(learning, count=_MOMENTS[wanted.name], eight_bits=wanted.name.endswith("8bit"))
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


class States(torch.optim.Optimizer):
    """States as bitsandbytes lays them out (optim/optimizer.py, init_state); its kernels work in place.

    In 8 bits: blocks of 256 share a scale, all parameters share a map, and fewer than 4096 elements stay in fp32.
    """

    def __init__(self, parameters: list[torch.nn.Parameter], *, count: int, eight_bits: bool) -> None:
        super().__init__(parameters, {})
        self._count, self._eight_bits = count, eight_bits

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Make what is not there yet."""
        learning = [each for group in self.param_groups for each in group["params"] if each.grad is not None]
        for parameter in learning:
            if not self.state[parameter]:
                self.state[parameter].update(self._fresh(getattr(parameter, "_local_tensor", parameter)))

    def _fresh(self, local: torch.Tensor) -> dict[str, torch.Tensor]:
        moments = range(self._count)
        if not self._eight_bits or local.numel() < 4096:
            return {f"state{each}": torch.zeros_like(local, dtype=torch.float32) for each in moments}
        maps = self.state["maps"]
        blocks = -(-local.numel() // 256)
        for each in moments:
            maps.setdefault(f"map{each}", torch.zeros(256, device=local.device))
        scales = {f"scale{each}": torch.zeros(blocks, device=local.device) for each in moments}
        return {**scales, **{f"state{each}": torch.zeros_like(local, dtype=torch.uint8) for each in moments}}
