"""Hugging Face models with Liger's kernels (`apply_liger_kernel_to_*`): transformers' layers, patched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memcore.config.training import Training
from memcore.errors import UnsupportedError
from memcore.layers.transformers import model, support, tables
from memcore.layers.transformers.norms import LIGER_NORMS
from memcore.messages import joined
from memcore.networks.network import Network
from memcore.networks.parts import Attention, is_gated
from memcore.tensors.tensor import Tensor
from memcore.trace.code import LayerCode
from memcore.trace.step import Batch, Step

KERNELS = frozenset({"rms_norm", "rope", "swiglu"})
"""As `apply_liger_kernel_to_llama` names them (liger_kernel 0.6, transformers/monkey_patch.py)."""


def fitting(network: Network, kernels: frozenset[str]) -> frozenset[str]:
    """Return the kernels that take the place of some of a network's parts.

    A part runs with Liger's kernel if it is like Llama's (`apply_liger_kernel_to_smollm3`: layers without positions
    rotate nothing; `apply_liger_kernel_to_gpt_oss`: its experts stay), all others as they are.
    """
    layers = network.kinds
    has = {
        "rms_norm": any(norm.kind in LIGER_NORMS for layer in layers for norm in layer.norms),
        "rope": any(isinstance(part, Attention) and part.rotary == "full" for layer in layers for part in layer.mixers),
        "swiglu": any(is_gated(ffn) for layer in layers for ffn in layer.ffns),
    }
    return frozenset(name for name in kernels if has[name])


_PARTS: Mapping[str, str] = {
    "rms_norm": "RMSNorm",
    "rope": "attention with full rotary embeddings",
    "swiglu": "a gated feed-forward layer of two matrices",
}
"""What each kernel takes the place of."""


def patched(network: Network, kernels: frozenset[str]) -> frozenset[str]:
    """Return the kernels that run; refuses families that have nothing for them."""
    found = fitting(network, kernels)
    if kernels and not found:
        raise UnsupportedError(
            Training.implementation,
            "Liger's kernels need {}, which {} lacks; use 'transformers'",
            joined(" and ", [title for name, title in _PARTS.items() if name in kernels]),
            network.family,
        )
    return found


def forward(step: Step, batch: Batch) -> tuple[Tensor, object]:
    """Run the forward pass with Liger's kernels."""
    step.tape.liger = step.recipe.liger
    return model.forward(step, batch)


def kernels(network: Network) -> Sequence[str]:
    """The attention kernels are those of transformers."""
    return support.kernels(network)


IMPLEMENTATIONS: Mapping[str, LayerCode] = {
    "liger": LayerCode(
        name="liger",
        title="Liger kernels",
        forward=forward,
        check=support.check,
        has_sdpa=lambda network: network.sdpa,
        kernels=kernels,
        computes_loss=True,
        has_cache=True,
        default_wrap="layer",
        buffers=tables.buffers,
        patched=patched,
    ),
}
"""By the value of `training.implementation`."""
