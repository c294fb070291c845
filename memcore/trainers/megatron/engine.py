"""Megatron-Core: gradients are added to flat buffers that stay, and freed as soon as they are there.

Source: Megatron-LM, core/distributed/distributed_data_parallel.py (`_make_backward_post_hook`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from memcore.networks.weights import Weight
from memcore.tensors.tensor import Parameter
from memcore.trace.engine import Engine, Runtime, precision


class Megatron(Runtime):
    """Parameters whose gradients leave nothing behind."""

    def parameter(self, weight: Weight) -> Parameter:
        """Return one parameter as the model sees it."""
        found = super().parameter(weight)
        found.bucketed = True
        return found


ENGINE = Engine(
    name="megatron",
    title="Megatron-Core",
    runtime=Megatron,
    presets={
        "fp32": precision("fp32"),
        "bf16": precision("bf16"),
        "bf16-mixed": precision("bf16", reduce="fp32"),
        "fp16-mixed": precision("fp16"),
        "fp8-mixed": precision("bf16", reduce="fp32"),
    },
    default_preset="bf16-mixed",
    stored=lambda weight: weight.stored_axes,
)

SHARDED = replace(ENGINE, name="megatron-fsdp", title="Megatron-FSDP")
"""Parameters, gradients and optimizer may be shared by data-parallel ranks; its own buffers do that."""
ENGINES: Mapping[str, Engine] = {each.name: each for each in (ENGINE, SHARDED)}
