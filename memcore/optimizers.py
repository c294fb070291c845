"""Optimizers: what each keeps for a parameter, and what its step needs for a moment.

Sources: torch/optim of PyTorch 2.13 (the temporaries of each implementation were counted in its code, allocation by
allocation) and bitsandbytes. Unless a row says otherwise, states have the parameter's dtype and shape, on the rank that
has the parameter. Weight decay is that of the usual call: decoupled, or none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from memcore.symbols import Quotient, Shape, product


@dataclass(frozen=True, slots=True, kw_only=True)
class Implementation:
    """What a step needs besides parameters, gradients and states."""

    temporaries: int = 0
    """Tensors as large as all parameters of the rank, at once."""
    own: int = 0
    """Tensors like the parameter at hand, where parameters are updated one by one."""
    before: int = 0
    """Tensors like the parameter before it, whose variables are still there."""
    step_on_device: bool = False
    """Each parameter's step count is a tensor on the GPU."""


@dataclass(frozen=True, slots=True)
class State:
    """A tensor that is kept for a parameter."""

    rule: str
    of: str = "like"
    """`like` the parameter; `rows` or `columns` of a matrix, and like a vector; `blocks`: a number for each block."""
    dtype: str | None = None
    """None: the parameter's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimizer:
    """A row of the table."""

    title: str
    states: tuple[State, ...]
    """What is kept for each parameter, from the first step on."""
    implementations: Mapping[str, Implementation]
    default: str
    source: str
    vector: tuple[State, ...] | None = None
    """What is kept for a vector, where that is something else."""
    quantized_from: int = 0
    """Parameters with fewer elements than this keep `plain` states instead."""
    plain: tuple[State, ...] = ()
    block: int = 1
    """Elements that share a scale."""
    maps: int = 0
    """Maps of 256 numbers that all parameters share."""
    from_start: bool = False
    """States are there before the first step."""

    def states_of(self, shape: tuple[Shape, ...], sizes: Mapping[str, int]) -> Iterator[tuple[str, Shape, str | None]]:
        """The states of a parameter with these axes on a rank: rule, shape and dtype of each."""
        whole: Shape = tuple(axis for axes in shape for axis in axes)
        small = product(whole, sizes) < self.quantized_from
        states = self.vector if self.vector is not None and len(shape) == 1 else self.states
        for state in self.plain if small else states:
            yield state.rule, self._shape(state, shape, whole), state.dtype

    def _shape(self, state: State, shape: tuple[Shape, ...], whole: Shape) -> Shape:
        if state.of == "blocks":
            return (Quotient(whole, self.block),)
        if state.of == "like" or len(shape) == 1:
            return whole
        leading = tuple(axis for axes in shape[:-2] for axis in axes)
        return (*leading, *(shape[-2] if state.of == "rows" else shape[-1]))


_MOMENTS = (State("exp_avg"), State("exp_avg_sq"))
_ADAM = {
    "fused": Implementation(step_on_device=True),
    "foreach": Implementation(temporaries=1),
    "for-loop": Implementation(own=2, before=1),
}
_FP32 = tuple(State(state.rule, dtype="fp32") for state in _MOMENTS)
_KERNEL = {"bitsandbytes": Implementation()}


def _foreach(foreach: Implementation, loop: Implementation) -> Mapping[str, Implementation]:
    return {"foreach": foreach, "for-loop": loop}


def _all(temporaries: int = 1) -> Implementation:
    return Implementation(temporaries=temporaries)


OPTIMIZERS: Mapping[str, Optimizer] = {
    "adamw": Optimizer(
        title="AdamW",
        states=_MOMENTS,
        implementations=_ADAM,
        default="fused",
        source="torch/optim/adam.py: foreach takes the square root of all second moments at once",
    ),
    "adam": Optimizer(
        title="Adam",
        states=_MOMENTS,
        implementations=_ADAM,
        default="fused",
        source="torch/optim/adam.py: foreach takes the square root of all second moments at once",
    ),
    "amsgrad": Optimizer(
        title="Adam with AMSGrad",
        states=(*_MOMENTS, State("max_exp_avg_sq")),
        implementations=_ADAM,
        default="fused",
        source="torch/optim/adam.py, amsgrad=True: the largest second moment so far is kept too",
    ),
    "nadam": Optimizer(
        title="NAdam",
        states=_MOMENTS,
        implementations=_foreach(_all(), Implementation(own=2, before=1)),
        default="foreach",
        source="torch/optim/nadam.py: foreach takes the square root of all second moments at once",
    ),
    "radam": Optimizer(
        title="RAdam",
        states=_MOMENTS,
        implementations=_foreach(_all(), Implementation(own=2)),
        default="foreach",
        source="torch/optim/radam.py: foreach takes the square root of all second moments at once",
    ),
    "adamax": Optimizer(
        title="Adamax",
        states=(State("exp_avg"), State("exp_inf")),
        implementations=_foreach(_all(), Implementation(own=1)),
        default="foreach",
        source="torch/optim/adamax.py: foreach holds the absolute values of all gradients",
    ),
    "adadelta": Optimizer(
        title="Adadelta",
        states=(State("square_avg"), State("acc_delta")),
        implementations=_foreach(_all(2), Implementation(own=2, before=1)),
        default="foreach",
        source="torch/optim/adadelta.py: roots of both averages at once",
    ),
    "adagrad": Optimizer(
        title="Adagrad",
        states=(State("sum_of_squares"),),
        implementations=_foreach(_all(2), Implementation(own=1, before=1)),
        default="foreach",
        source="torch/optim/adagrad.py: states are made with the optimizer; foreach holds roots and scaled gradients",
        from_start=True,
    ),
    "rmsprop": Optimizer(
        title="RMSprop",
        states=(State("square_avg"),),
        implementations=_foreach(_all(), Implementation(own=1, before=1)),
        default="foreach",
        source="torch/optim/rmsprop.py: foreach takes the square root of all averages at once",
    ),
    "rmsprop-momentum": Optimizer(
        title="RMSprop with momentum",
        states=(State("square_avg"), State("momentum_buffer")),
        implementations=_foreach(_all(), Implementation(own=1, before=1)),
        default="foreach",
        source="torch/optim/rmsprop.py: foreach takes the square root of all averages at once",
    ),
    "asgd": Optimizer(
        title="Averaged SGD",
        states=(State("averaged"),),
        implementations=_foreach(_all(), Implementation()),
        default="foreach",
        source="torch/optim/asgd.py: foreach holds the differences to all averages",
    ),
    "adafactor": Optimizer(
        title="Adafactor",
        states=(State("row_var", "rows"), State("col_var", "columns")),
        vector=(State("square_avg"),),
        implementations=_foreach(_all(), Implementation(own=1, before=1)),
        default="foreach",
        source="torch/optim/_adafactor.py: a matrix's second moment as its rows' and columns' means; no first moment",
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
        states=(State("momentum_buffer"),),
        implementations={"fused": Implementation(), "foreach": Implementation(), "for-loop": Implementation()},
        default="foreach",
        source="torch/optim/sgd.py: one momentum buffer for each parameter, updated in place",
    ),
    "sgd-nesterov": Optimizer(
        title="SGD with Nesterov momentum",
        states=(State("momentum_buffer"),),
        implementations={"fused": Implementation(), "foreach": Implementation(), "for-loop": Implementation(own=1)},
        default="foreach",
        source="torch/optim/sgd.py: foreach adds the momentum to the gradients in place",
    ),
    "adamw-8bit": Optimizer(
        title="AdamW in 8 bits",
        states=(
            State("quantized_moment", dtype="uint8"),
            State("quantized_moment", dtype="uint8"),
            State("block_scales", "blocks", "fp32"),
            State("block_scales", "blocks", "fp32"),
        ),
        plain=_FP32,
        maps=2,
        quantized_from=4096,
        block=256,
        implementations=_KERNEL,
        default="bitsandbytes",
        source="bitsandbytes/optim/optimizer.py, Optimizer2State.init_state: blocks of 256; small tensors in fp32",
    ),
    "lion-8bit": Optimizer(
        title="Lion in 8 bits",
        states=(State("quantized_moment", dtype="uint8"), State("block_scales", "blocks", "fp32")),
        plain=(State("exp_avg", dtype="fp32"),),
        maps=1,
        quantized_from=4096,
        block=256,
        implementations=_KERNEL,
        default="bitsandbytes",
        source="bitsandbytes/optim/optimizer.py, Optimizer1State.init_state: blocks of 256; small tensors in fp32",
    ),
    "lion": Optimizer(
        title="Lion",
        states=(State("exp_avg", dtype="fp32"),),
        implementations=_KERNEL,
        default="bitsandbytes",
        source="bitsandbytes/optim/lion.py: one moment in fp32; the kernel works in place",
    ),
    "lamb": Optimizer(
        title="LAMB",
        states=_FP32,
        implementations=_KERNEL,
        default="bitsandbytes",
        source="bitsandbytes/optim/lamb.py: two moments in fp32; the kernel works in place",
    ),
}
"""Rows by name; where `momentum` is given, SGD and RMSprop are their rows with momentum."""
