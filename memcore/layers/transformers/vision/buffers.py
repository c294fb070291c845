"""What towers hold besides parameters: position ids, and frequencies of rotations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memcore.networks.network import Network
from memcore.symbols import Quotient, Shape
from memcore.trace.recipe import Buffer

_POSITIONS = (("position_ids", "embeddings.position_ids", (1, "nt"), "int64"),)


def _frequencies(module: str, shape: Shape) -> tuple[tuple[str, str, Shape, str], ...]:
    names = ("inv_freq", "original_inv_freq")
    return tuple(("rotary_frequencies", f"{module}.{name}", shape, "fp32") for name in names)


_AXIAL = _frequencies("rotary_pos_emb", (Quotient(("dt",), 4),))
_BUFFERS: Mapping[str, Sequence[tuple[str, str, Shape, str]]] = {
    "clip": _POSITIONS,
    "siglip": _POSITIONS,
    "qwen2_vl": _AXIAL,
    "qwen2_5_vl": _AXIAL,
    "qwen3_vl": _AXIAL,
    "pixtral": _frequencies("patch_positional_embedding", (Quotient(("dt",), 2),)),
    "llama4": (("rotary_table", "rotary_embedding.freqs_ci", ("nt", "dt"), "fp32"),),
}
"""By `Tower.variant`: rule, name below the tower, shape and dtype."""


def tower_buffers(network: Network) -> Sequence[Buffer]:
    """Return the buffers of all towers."""
    return [
        Buffer(rule=rule, module=f"{root_of(tower.path)}{name}", shape=shape, dtype=dtype)
        for tower in network.towers[:1]
        for rule, name, shape, dtype in _BUFFERS.get(tower.variant, ())
    ]


def root_of(path: str) -> str:
    """Return the module of a tower given where its layers are, with the dot that ends it."""
    marks = ("vision_tower.", "vision_model.", "visual.", "vpm.")
    return next(f"{path.partition(mark)[0]}{mark}" for mark in marks if mark in path)
