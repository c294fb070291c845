"""Megatron-Core's implementations of its layers."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.trace.code import LayerCode
from memcore.trainers.megatron.layers import model as megatron
from memcore.trainers.megatron.layers import towers
from memcore.trainers.megatron.layers.core_attention import KERNELS

IMPLEMENTATIONS: Mapping[str, LayerCode] = {
    "transformer-engine": LayerCode(
        name="transformer-engine",
        title="Megatron-Core with TransformerEngine",
        forward=megatron.transformer_engine,
        sees=towers.sees,
        check=megatron.check,
        has_sdpa=lambda network: False,
        kernels=lambda network: tuple(KERNELS),
        computes_loss=True,
        has_cache=False,
        default_wrap="layer",
        buffers=megatron.buffers,
    ),
    "megatron-local": LayerCode(
        name="megatron-local",
        title="Megatron-Core's own layers",
        forward=megatron.megatron_local,
        check=megatron.check,
        has_sdpa=lambda network: False,
        kernels=lambda network: ("math",),
        computes_loss=True,
        has_cache=False,
        default_wrap="layer",
        buffers=megatron.buffers,
    ),
}
"""By the value of `training.implementation`."""
