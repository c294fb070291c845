"""nanotron's implementation of its layers."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.trace.code import LayerCode
from memcore.trainers.nanotron import layers as nanotron

IMPLEMENTATIONS: Mapping[str, LayerCode] = {
    "nanotron": LayerCode(
        title="nanotron",
        forward=nanotron.forward,
        check=nanotron.check,
        has_sdpa=lambda network: False,
        kernels=lambda network: ("flash",),
        computes_loss=False,
        has_cache=False,
        default_wrap="layer",
        buffers=nanotron.buffers,
    ),
}
"""By the value of `training.implementation`."""
