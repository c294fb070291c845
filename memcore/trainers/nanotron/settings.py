"""Settings of nanotron, as its YAML files name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcore.config.kinds import Choice, Flag
from memcore.config.parallelism import Parallelism
from memcore.config.schema import Section, Setting, setting
from memcore.config.training import Training

NANOTRON = ("nanotron",)


class NanotronSettings(Section, path="engine"):
    """What nanotron can be told besides the job itself."""

    accumulate_grad_in_fp32 = setting(
        Flag(),
        "Accumulate in fp32",
        "Accumulate gradients in a flat fp32 buffer; the optimizer updates an fp32 copy of the parameters.",
        flag="accumulate-grad-in-fp32",
        engines=NANOTRON,
        default="true",
        advanced=True,
    )
    tp_mode = setting(
        Choice(
            ("ALL_REDUCE", "REDUCE_SCATTER"),
            {
                "ALL_REDUCE": "all-reduce: every tensor-parallel rank keeps whole sequences between layers",
                "REDUCE_SCATTER": "reduce-scatter: every rank keeps its part of the sequence (sequence parallelism)",
            },
        ),
        "Tensor-parallel mode",
        "How tensor-parallel ranks combine their partial results.",
        flag="tp-mode",
        engines=NANOTRON,
        default="ALL_REDUCE; REDUCE_SCATTER with sequence_parallel",
        advanced=True,
    )
    tp_linear_async_communication = setting(
        Flag(),
        "Overlapped tensor parallelism",
        "Overlap collectives with matrix products.",
        flag="tp-async",
        engines=NANOTRON,
        default="true; false with ALL_REDUCE",
        advanced=True,
    )
    tp_recompute_allgather = setting(
        Flag(),
        "Recompute all-gather",
        "Gather the sequence again in the backward pass instead of keeping it.",
        flag="tp-recompute-allgather",
        engines=NANOTRON,
        default="true",
        advanced=True,
    )


SECTIONS = (NanotronSettings,)
TAKES: Mapping[str, tuple[Setting[Any], ...]] = {
    "nanotron": (
        Parallelism.data_parallel_size,
        Parallelism.pipeline_parallel_size,
        Parallelism.pipeline_schedule,
    ),
}
"""What of the settings that engines have in common each of these takes."""
REFUSED: Mapping[str, tuple[str, ...]] = {
    "nanotron": (
        Training.activation_checkpointing.mode, Training.activation_checkpointing.every, Training.compute_dtype,
        Training.adapter.type, Training.zero_grad, Training.implementation, Training.liger_kernels, Training.loss_shift,
        Training.dropout.hidden, Training.dropout.attention, Training.activation_memory_budget,
        Parallelism.context_parallel_size,
    ),
}  # fmt: skip
"""Settings that every engine could have, but this one refuses whatever their value."""
