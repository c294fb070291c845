"""What the implementation of Hugging Face transformers can do."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.layers.transformers import model, support, tables
from memcore.layers.transformers.vision import models as vision
from memcore.trace.code import LayerCode

IMPLEMENTATIONS: Mapping[str, LayerCode] = {
    "transformers": LayerCode(
        name="transformers",
        title="transformers",
        forward=model.forward,
        check=support.check,
        has_sdpa=lambda network: network.sdpa,
        kernels=support.kernels,
        computes_loss=True,
        has_cache=True,
        default_wrap="layer",
        buffers=tables.buffers,
        inputs=vision.given,
        sees=vision.sees,
        approximates=True,
    ),
}
"""By the value of `training.implementation`."""
