"""Implementations of layers that several trainers use."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.layers import liger, unsloth
from memcore.layers.litgpt import model as litgpt
from memcore.layers.torchtitan import model as torchtitan
from memcore.layers.transformers import model as transformers
from memcore.layers.transformers import support, tables
from memcore.layers.transformers.vision import models as vision
from memcore.trace.code import LayerCode

IMPLEMENTATIONS: Mapping[str, LayerCode] = {
    "transformers": LayerCode(
        title="transformers",
        forward=transformers.forward,
        check=support.check,
        has_sdpa=lambda network: network.sdpa,
        kernels=support.kernels,
        computes_loss=True,
        has_cache=True,
        default_wrap="layer",
        buffers=tables.buffers,
        inputs=vision.inputs,
        sees=vision.sees,
    ),
    "liger": LayerCode(
        title="Liger kernels",
        forward=liger.forward,
        check=liger.check,
        has_sdpa=lambda network: network.sdpa,
        kernels=liger.kernels,
        computes_loss=True,
        has_cache=True,
        default_wrap="layer",
        buffers=tables.buffers,
    ),
    "unsloth": LayerCode(
        title="Unsloth",
        forward=unsloth.forward,
        check=unsloth.check,
        has_sdpa=lambda network: network.sdpa,
        kernels=liger.kernels,
        computes_loss=True,
        has_cache=True,
        default_wrap="layer",
        buffers=tables.buffers,
        loss="cut-cross-entropy",
    ),
    "torchtitan": LayerCode(
        title="torchtitan",
        forward=torchtitan.forward,
        check=torchtitan.check,
        has_sdpa=lambda network: True,
        kernels=lambda network: (*support.KERNELS, "flex"),
        computes_loss=False,
        has_cache=False,
        default_wrap="torchtitan",
        buffers=torchtitan.buffers,
    ),
    "lit-gpt": LayerCode(
        title="LitGPT",
        forward=litgpt.forward,
        check=litgpt.check,
        has_sdpa=lambda network: True,
        kernels=lambda network: support.KERNELS,
        computes_loss=True,
        has_cache=False,
        default_wrap="layer",
        buffers=litgpt.buffers,
    ),
}
"""By the value of `training.implementation`."""
