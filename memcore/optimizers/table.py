"""Optimizers: what each keeps for a parameter, and what its step needs for a moment.

Sources: torch/optim of PyTorch 2.13 (the temporaries of each implementation were counted in its code, allocation by
allocation). Weight decay is that of the usual call: decoupled, or none.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.optimizers.few_bits import FP32_MOMENTS, KERNEL, QUANTIZED
from memcore.optimizers.further import FURTHER
from memcore.optimizers.matrices import OF_MATRICES
from memcore.optimizers.states import Implementation, Needs, Optimizer, State

_MOMENTS = (State("exp_avg"), State("exp_avg_sq"))
_ADAM = {
    "fused": Implementation(step_on_device=True),
    "foreach": Implementation(temporaries=1),
    "for-loop": Implementation(own=2, before=1),
}
_ADAMW = {
    **_ADAM,
    "bitsandbytes": Implementation(states=FP32_MOMENTS, source="bitsandbytes/optim/adam.py"),
    "transformer-engine": Implementation(
        states=FP32_MOMENTS,
        dtypes=("fp32", "bf16"),
        masters=("none", "fp32", "int16"),
        source="transformer_engine 2.20, pytorch/optimizers/fused_adam.py: updates in place; both moments in bf16 are "
        "read as they are",
    ),
}
_KERNEL = {"bitsandbytes": KERNEL}


def _foreach(foreach: Implementation, loop: Implementation) -> Mapping[str, Implementation]:
    return {"foreach": foreach, "for-loop": loop}


def _all(temporaries: int = 1) -> Implementation:
    return Implementation(temporaries=temporaries)


OPTIMIZERS: Mapping[str, Optimizer] = {
    "adamw": Optimizer(
        title="AdamW",
        states=_MOMENTS,
        implementations={
            **_ADAMW,
            "transformers": Implementation(
                own=1, before=1, source="transformers 4.46, optimization.py, AdamW.step: the root of the second moment"
            ),
        },
        default="fused",
        source="torch/optim/adam.py: foreach takes the square root of all second moments at once",
    ),
    "adam": Optimizer(
        title="Adam",
        states=_MOMENTS,
        implementations=_ADAMW,
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
    "adafactor@transformers": Optimizer(
        title="Adafactor of transformers",
        states=(State("row_var", "rows", "fp32"), State("col_var", "columns", "fp32")),
        vector=(State("square_avg", dtype="fp32"),),
        implementations={
            "transformers": Implementation(
                times=(
                    Needs(
                        other=(
                            (2, State("optimizer_temporary", "cast", "fp32")),
                            (2, State("optimizer_temporary", "like", "fp32")),
                        )
                    ),
                )
            )
        },
        default="transformers",
        source="transformers/optimization.py, Adafactor.step: the gradient and the parameter in fp32, and the squared "
        "gradients twice, as one more is added to them",
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
        states=(State("momentum_buffer", cloned=True),),
        implementations={"fused": Implementation(), "foreach": Implementation(), "for-loop": Implementation()},
        default="foreach",
        source="torch/optim/sgd.py: a momentum buffer, cloned of the first gradient and updated in place",
    ),
    "sgd-nesterov": Optimizer(
        title="SGD with Nesterov momentum",
        states=(State("momentum_buffer", cloned=True),),
        implementations={"fused": Implementation(), "foreach": Implementation(), "for-loop": Implementation(own=1)},
        default="foreach",
        source="torch/optim/sgd.py: foreach adds the momentum to the gradients in place",
    ),
    "lion": Optimizer(
        title="Lion",
        states=(State("exp_avg", dtype="fp32"),),
        implementations={
            **_KERNEL,
            "for-loop": Implementation(
                own=1,
                states=(State("exp_avg"),),
                source="LLM Foundry, llmfoundry/optim/lion.py: a moment like the parameter, and `exp_avg.lerp`",
            ),
        },
        default="bitsandbytes",
        source="bitsandbytes/optim/lion.py: one moment in fp32; the kernel works in place",
    ),
    **FURTHER,
    **OF_MATRICES,
    **QUANTIZED,
}
"""Rows by name; where `momentum` is given, SGD and RMSprop are their rows with momentum."""
