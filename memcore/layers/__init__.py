"""Layer implementations: the forward pass of each, written against `memcore.tensors` like the original."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from memcore.layers import liger, unsloth
from memcore.layers.litgpt import model as litgpt
from memcore.layers.torchtitan import model as torchtitan
from memcore.layers.transformers import model as transformers
from memcore.layers.transformers import support, tables
from memcore.layers.transformers.vision import models as vision
from memcore.networks.network import Network
from memcore.trace.recipe import Buffer
from memcore.trace.step import Forward, Inputs
from memcore.trainers.megatron.layers import model as megatron
from memcore.trainers.megatron.layers import towers
from memcore.trainers.megatron.layers.core_attention import KERNELS
from memcore.trainers.megatron_deepspeed import layers as megatron_deepspeed
from memcore.trainers.nanotron import layers as nanotron


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerCode:
    """One implementation, and what it can do."""

    title: str
    forward: Forward
    check: Callable[[Network], None]
    """Raises UnsupportedError for a network that it cannot express."""
    has_sdpa: Callable[[Network], bool]
    kernels: Callable[[Network], Sequence[str]]
    """The values of `training.attention` that it offers for a network."""
    computes_loss: bool
    """The loss is part of the model's forward pass."""
    has_cache: bool
    default_wrap: str
    """How FSDP wraps it by default."""
    buffers: Callable[[Network], Sequence[Buffer]]
    """What the model holds besides parameters."""
    loss: str = "cross-entropy-fp32"
    """The loss that it takes by itself."""
    inputs: Inputs = lambda step: {}
    """What it is given of images."""
    sees: Callable[[Network], bool] = lambda network: False
    """Whether it covers what a network's towers do with images."""


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
    "transformer-engine": LayerCode(
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
