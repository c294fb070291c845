"""Hugging Face models with Liger's kernels (`apply_liger_kernel_to_*`): transformers' layers, patched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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


def patched(network: Network, kernels: frozenset[str]) -> frozenset[str]:
    """Return Liger's kernels; refuses families whose layers Liger does not patch like Llama's."""
    layers = network.kinds
    wanted = {
        "rms_norm": ("RMSNorm", all(norm.kind in LIGER_NORMS for layer in layers for norm in layer.norms)),
        "rope": (
            "attention with full rotary embeddings",
            all(isinstance(layer.mixer, Attention) and layer.mixer.rotary == "full" for layer in layers),
        ),
        "swiglu": (
            "a gated feed-forward layer of two matrices",
            all(is_gated(layer.feed_forward) for layer in layers),
        ),
    }
    missing = [title for name, (title, has) in wanted.items() if name in kernels and not has]
    missing += ["no towers"] if network.towers else []
    if missing:
        raise UnsupportedError(
            "training.implementation",
            "Liger's kernels need {}, which {} lacks; use 'transformers'",
            joined(" and ", missing),
            network.family,
        )
    return kernels


def forward(step: Step, batch: Batch) -> tuple[Tensor, object]:
    """Run the forward pass with Liger's kernels."""
    step.tape.liger = step.recipe.liger
    return model.forward(step, batch)


def kernels(network: Network) -> Sequence[str]:
    """The attention kernels are those of transformers."""
    return support.kernels(network)


IMPLEMENTATIONS: Mapping[str, LayerCode] = {
    "liger": LayerCode(
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
