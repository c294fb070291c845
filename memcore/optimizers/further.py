"""Optimizers of other libraries, and Muon.

Sources: torch/optim/_muon.py (Newton-Schulz in bf16, one matrix at a time), schedule_free/schedulefree (the averages
are made in place, of parameters and gradients), bitsandbytes/optim/lars.py, lamb.py and ademamix.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.optimizers.few_bits import FP32_MOMENTS
from memcore.optimizers.states import Implementation, Optimizer, State

_MOMENTS = (State("exp_avg"), State("exp_avg_sq"))
_MOMENT = State("exp_avg", dtype="fp32")
_NORM = State("update_norm", "map", "fp32", size=1)
_MUON = Implementation(
    matrix=(
        State("muon_update"),
        State("newton_schulz", dtype="bf16"),
        State("newton_schulz", dtype="bf16"),
        State("newton_schulz", "square", "bf16"),
        State("newton_schulz", "square", "bf16"),
    )
)
_SCHEDULE_FREE = {"foreach": Implementation(temporaries=1), "for-loop": Implementation(own=1, before=1)}
_UPCASTING = {"bitsandbytes": Implementation(upcasts=True)}
_IN_8_BITS = State("quantized_moment", dtype="uint8")
_SCALE = State("block_scales", "blocks", "fp32")

FURTHER: Mapping[str, Optimizer] = {
    "muon": Optimizer(
        title="Muon, with AdamW for everything but the layers' matrices",
        states=(State("momentum_buffer"),),
        plain=_MOMENTS,
        only_matrices=True,
        implementations={"for-loop": _MUON},
        default="for-loop",
        source="torch/optim/_muon.py: momentum like the matrix; the update is orthogonalized in bf16",
    ),
    "adamw-schedule-free": Optimizer(
        title="Schedule-Free AdamW",
        states=(State("schedule_free_z"), State("exp_avg_sq")),
        implementations=_SCHEDULE_FREE,
        default="foreach",
        source="schedule_free, schedulefree/adamw_schedulefree.py: a second sequence instead of the first moment",
    ),
    "lora-fa": Optimizer(
        title="LoRA-FA",
        states=_MOMENTS,
        implementations={"for-loop": Implementation(own=2, before=2)},
        default="for-loop",
        source="peft/optimizers/lorafa.py: first matrices are frozen; a projected gradient and a root for each other",
    ),
    "lars": Optimizer(
        title="LARS",
        states=(_MOMENT, _NORM),
        implementations=_UPCASTING,
        default="bitsandbytes",
        source="bitsandbytes/optim/lars.py: one moment in fp32, the norm of each update and of each parameter",
    ),
    "lamb": Optimizer(
        title="LAMB",
        states=(*FP32_MOMENTS, _NORM),
        implementations=_UPCASTING,
        default="bitsandbytes",
        source="bitsandbytes/optim/lamb.py: two moments in fp32, the norm of each update and of each parameter",
    ),
    "ademamix": Optimizer(
        title="AdEMAMix",
        states=(State("exp_avg", "pair", "fp32"), State("exp_avg_sq", dtype="fp32")),
        implementations={"bitsandbytes": Implementation()},
        default="bitsandbytes",
        source="bitsandbytes/optim/ademamix.py: a fast and a slow first moment in fp32, and a second one",
    ),
    "ademamix-8bit": Optimizer(
        title="8-bit AdEMAMix",
        states=(State("quantized_moment", "pair", "uint8"), _IN_8_BITS, _SCALE, _SCALE, _SCALE),
        plain=(State("exp_avg", "pair", "fp32"), State("exp_avg_sq", dtype="fp32")),
        maps=2,
        quantized_from=4096,
        block=256,
        implementations={"bitsandbytes": Implementation()},
        default="bitsandbytes",
        source="bitsandbytes/optim/ademamix.py: blocks of 256; tensors below 4096 elements in fp32",
    ),
}
"""Rows by name."""
