"""Optimizers: what each keeps for a parameter, and what its step needs for a moment.

Sources: torch/optim/adam.py and sgd.py of PyTorch 2.13 (`_multi_tensor_adam`, `_fused_adam`, `_single_tensor_adam`,
`_multi_tensor_sgd`). States follow the parameter's dtype and shape. Weight decay is folded in without a temporary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Implementation:
    """What a step needs besides parameters, gradients and states."""

    temporaries: int = 0
    """Tensors as large as all parameters of the rank, at once."""
    one_by_one: bool = False
    """Two tensors like the parameter at hand, and one like the parameter before it, whose variable is still there."""
    step_on_device: bool = False
    """Each parameter's step count is a tensor on the GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimizer:
    """A row of the table."""

    title: str
    states: tuple[str, ...]
    """Tensors like the parameter that are kept for it, from the first step on."""
    implementations: Mapping[str, Implementation]
    default: str
    source: str


_ADAM = {
    "fused": Implementation(step_on_device=True),
    "foreach": Implementation(temporaries=1),
    "for-loop": Implementation(one_by_one=True),
}

OPTIMIZERS: Mapping[str, Optimizer] = {
    "adamw": Optimizer(
        title="AdamW",
        states=("exp_avg", "exp_avg_sq"),
        implementations=_ADAM,
        default="fused",
        source="torch/optim/adam.py: foreach takes the square root of all second moments at once",
    ),
    "adam": Optimizer(
        title="Adam",
        states=("exp_avg", "exp_avg_sq"),
        implementations=_ADAM,
        default="fused",
        source="torch/optim/adam.py: foreach takes the square root of all second moments at once",
    ),
    "sgd": Optimizer(
        title="SGD",
        states=(),
        implementations={"fused": Implementation(), "foreach": Implementation(), "for-loop": Implementation()},
        default="foreach",
        source="torch/optim/sgd.py: in place",
    ),
    "sgd-momentum": Optimizer(
        title="SGD with momentum",
        states=("momentum_buffer",),
        implementations={"fused": Implementation(), "foreach": Implementation(), "for-loop": Implementation()},
        default="foreach",
        source="torch/optim/sgd.py: one momentum buffer for each parameter, updated in place",
    ),
}
"""Rows by name; SGD is two rows, with and without momentum."""
