"""What every layer of transformers is given, and the smallest pieces that all of them use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memcore.eager.operations import linear
from memcore.eager.tape import Held
from memcore.eager.tensor import Parameter, Tensor
from memcore.model.parts import Linear

Weights = Mapping[str, Parameter]
"""Parameters by name."""


@dataclass(frozen=True, slots=True)
class Context:
    """What every layer is given besides its input."""

    positions: Tensor
    """Position ids, of which every layer only keeps the reference."""
    kernel: str
    """The attention kernel that was asked for: sdpa (PyTorch chooses), flash, efficient, cudnn or math."""
    rotary: tuple[Tensor, Tensor] | None
    """Cosines and sines."""
    mask: Tensor | None
    """The attention mask of this kind of layer."""
    cache: Held[list[Tensor]] | None
    """The KV cache that is filled although nobody reads it, if `use_cache` was left on."""


def project(x: Tensor, weights: Weights, part: Linear) -> Tensor:
    """A linear layer."""
    with x.tape.module(leaf(part.name)):
        bias = weights.get(f"{part.name}.bias")
        return linear(x, weights[f"{part.name}.weight"], bias, addmm=part.transposed)


def leaf(name: str) -> str:
    """The last part of a dotted name."""
    return name.rpartition(".")[2]
