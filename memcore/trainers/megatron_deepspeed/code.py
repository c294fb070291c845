"""Megatron-DeepSpeed's implementation of its layers."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.trace.code import LayerCode
from memcore.trainers.megatron_deepspeed import layers as megatron_deepspeed

IMPLEMENTATIONS: Mapping[str, LayerCode] = {
    "megatron-deepspeed": LayerCode(
        title="Megatron-DeepSpeed's layers",
        forward=megatron_deepspeed.forward,
        check=megatron_deepspeed.check,
        has_sdpa=lambda network: False,
        kernels=lambda network: ("flash", "math"),
        computes_loss=True,
        has_cache=False,
        default_wrap="layer",
        buffers=megatron_deepspeed.buffers,
    ),
}
"""By the value of `training.implementation`."""
