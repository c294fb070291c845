"""Towers by `Tower.variant`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memcore.layers.transformers.vision import vits
from memcore.layers.transformers.vision.decoder_inputs import Features
from memcore.layers.transformers.vision.pixtral import pixtral
from memcore.tensors.tensor import Tensor
from memcore.trace.step import Step

TOWERS: Mapping[str, Callable[[Step, Tensor], Features]] = {
    "clip": vits.clip,
    "pixtral": pixtral,
    "siglip": vits.siglip,
}
"""Pixels to the tower's output."""
