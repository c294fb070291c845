"""Rotary position embeddings: the tables that all layers share, and how families apply them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from memcore.layers.transformers.angles import TABLES, cosines_and_sines
from memcore.layers.transformers.rotations import DENSE, IN_FP32, WHOLE, parted
from memcore.networks.network import Layer, Network
from memcore.networks.parts import Attention, LatentAttention, SpecialMixer
from memcore.symbols import Axis, half
from memcore.tensors import liger
from memcore.tensors.basics import cat, narrow
from memcore.tensors.operations import add, mul, scale
from memcore.tensors.tensor import Tensor
from memcore.trace.step import Step

Tables = Mapping[str, tuple[Tensor, ...]]
"""Cosines and sines by `Attention.table`; complex rotations are one tensor."""


def rotary_tables(step: Step, dtype: str) -> Tables:
    """`RotaryEmbedding.forward`: cosines and sines for every position, computed in fp32, shared by all layers.

    Families whose layers rotate at different frequencies have a table for each kind of layer.
    """
    network = step.recipe.network
    parts = [part for layer in network.kinds for part in _rotating(layer)]
    if any(part.rotary in IN_FP32 for part in parts):
        dtype = "fp32"
    kinds = [part.rotary for part in parts]
    kinds += [part.grids for part in parts if isinstance(part, Attention) and part.grids is not None]
    table = next((TABLES[kind] for kind in kinds if kind in TABLES), cosines_and_sines)
    return {name: table(step.tape, dtype, width) for name, width in rotary_widths(network).items()}


def rotary_widths(network: Network) -> Mapping[str, Axis]:
    """Return how many elements of a head each table rotates; empty if no layer rotates."""
    found: dict[str, Axis] = {}
    for part in (part for layer in network.kinds for part in _rotating(layer)):
        found.setdefault(part.table, part.heads.width if part.rotary in WHOLE else part.heads.rotated)
    return found


def table_of(layer: Layer, tables: Tables) -> tuple[Tensor, ...] | None:
    """The table that a layer uses, if it rotates. Recurrent layers are given it too, and a checkpoint holds it."""
    if layer.mixers and all(isinstance(mixer, SpecialMixer) for mixer in layer.mixers):
        return next(iter(tables.values()), None)
    return next((tables[part.table] for part in _rotating(layer)), None)


def _rotating(layer: Layer) -> Iterator[Attention | LatentAttention]:
    parts = (part for part in layer.mixers if isinstance(part, (Attention, LatentAttention)))
    return (part for part in parts if part.rotary != "none" and part.table != "module")


def _rotate(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
    q_embed = add(mul(q, cos), mul(_rotate_half(q), sin))
    k_embed = add(mul(k, cos), mul(_rotate_half(k), sin))
    return q_embed, k_embed


def _rotate_half(x: Tensor) -> Tensor:
    width = half(x.shape[3])
    x1 = narrow(x, 3, width)
    x2 = narrow(x, 3, width)
    return cat([scale(x2, "neg"), x1], x.shape)


def _rotate_partly(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
    (q_rot, q_pass), (k_rot, k_pass) = parted(q, cos.shape[-1]), parted(k, cos.shape[-1])
    q_embed, k_embed = _rotate(q_rot, k_rot, cos, sin)
    q_embed = cat([q_embed, q_pass], q.shape)
    k_embed = cat([k_embed, k_pass], k.shape)
    return q_embed, k_embed


def _rotate_partly_kept(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
    """Phi does it inside its attention module, whose slices live until the module ends."""
    (q_rot, q_pass), (k_rot, k_pass) = parted(q, cos.shape[-1]), parted(k, cos.shape[-1])
    q_rot, k_rot = _rotate(q_rot, k_rot, cos, sin)
    return cat([q_rot, q_pass], q.shape), cat([k_rot, k_pass], k.shape), q_rot, k_rot, q_pass, k_pass


def liger_rotation(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
    """Liger's kernel, in place."""
    return liger.rotated(q), liger.rotated(k)


ROTATIONS: Mapping[str, Callable[..., tuple[Tensor, ...]]] = {
    "full": _rotate,
    "partial": _rotate_partly,
    "partial-kept": _rotate_partly_kept,
    **DENSE,
}
