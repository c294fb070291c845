"""Rotary position embeddings: the tables that all layers share, and how families apply them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memcore.eager.basics import cat, like, narrow, new, to
from memcore.eager.operations import add, mul, scale
from memcore.eager.tensor import Tensor
from memcore.model.network import Network
from memcore.model.parts import Attention
from memcore.step.step import Step
from memcore.symbols import Shifted, half


def rotary_tables(step: Step, dtype: str) -> tuple[Tensor, Tensor] | None:
    """`RotaryEmbedding.forward`: cosines and sines for every position, computed in fp32, shared by all layers."""
    kind = rotary_kind(step.recipe.network)
    if kind == "none":
        return None
    tape, width = step.tape, rotary_width(kind)
    with tape.module("rotary_emb"), tape.no_grad():
        freqs = new(tape, ("s", half(width)), "fp32", "rotary")
        emb = cat([freqs, freqs], ("s", width))
        cos = _scaled(like(emb, "rotary"))
        sin = _scaled(like(emb, "rotary"))
        return to(cos, dtype), to(sin, dtype)


def _scaled(x: Tensor) -> Tensor:
    return like(x, "rotary")


def rotary_kind(network: Network) -> str:
    """The rotation of the network's attention layers; `none` if there is none."""
    kinds = (mixer.rotary for layer in network.kinds for mixer in layer.mixers if isinstance(mixer, Attention))
    return next((kind for kind in kinds if kind != "none"), "none")


def rotary_width(kind: str) -> str:
    """The symbol of how many elements of a head are rotated."""
    return "d" if kind == "full" else "r"


def _rotate(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
    q_embed = add(mul(q, cos), mul(_rotate_half(q), sin))
    k_embed = add(mul(k, cos), mul(_rotate_half(k), sin))
    return q_embed, k_embed


def _rotate_half(x: Tensor) -> Tensor:
    width = half(x.shape[3])
    x1 = narrow(x, 3, width)
    x2 = narrow(x, 3, width)
    return cat([scale(x2, "neg"), x1], x.shape)


_PASSED = Shifted("d", -1, "r")
"""Elements of a head that are not rotated."""


def _rotate_partly(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
    q_rot, q_pass = narrow(q, 3, "r"), narrow(q, 3, _PASSED)
    k_rot, k_pass = narrow(k, 3, "r"), narrow(k, 3, _PASSED)
    q_embed, k_embed = _rotate(q_rot, k_rot, cos, sin)
    q_embed = cat([q_embed, q_pass], q.shape)
    k_embed = cat([k_embed, k_pass], k.shape)
    return q_embed, k_embed


def _rotate_partly_kept(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
    """Phi does it inside its attention module, whose slices live until the module ends."""
    q_rot, q_pass = narrow(q, 3, "r"), narrow(q, 3, _PASSED)
    k_rot, k_pass = narrow(k, 3, "r"), narrow(k, 3, _PASSED)
    q_rot, k_rot = _rotate(q_rot, k_rot, cos, sin)
    return cat([q_rot, q_pass], q.shape), cat([k_rot, k_pass], k.shape), q_rot, k_rot, q_pass, k_pass


ROTATIONS: Mapping[str, Callable[..., tuple[Tensor, ...]]] = {
    "full": _rotate,
    "partial": _rotate_partly,
    "partial-kept": _rotate_partly_kept,
}
