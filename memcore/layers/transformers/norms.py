"""Norms of transformers, spelled out in Python or PyTorch's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memcore.eager.basics import to
from memcore.eager.operations import add_scalar, layer_norm, mean, mul, power, rsqrt
from memcore.eager.tensor import Tensor
from memcore.layers.transformers.context import Weights, leaf
from memcore.model.parts import Norm


def norm(x: Tensor, weights: Weights, part: Norm) -> Tensor:
    """A norm of any kind."""
    with x.tape.module(leaf(part.name)):
        return NORMS[part.kind](x, weights, part.name)


def _layer_norm(x: Tensor, weights: Weights, name: str) -> Tensor:
    return layer_norm(x, weights[f"{name}.weight"], weights.get(f"{name}.bias"))


def _llama_rms_norm(hidden_states: Tensor, weights: Weights, name: str) -> Tensor:
    dtype = hidden_states.dtype
    hidden_states = to(hidden_states, "fp32")
    variance = mean(power(hidden_states))
    hidden_states = mul(hidden_states, rsqrt(add_scalar(variance)))
    return mul(weights[f"{name}.weight"], to(hidden_states, dtype))


def _gemma_rms_norm(x: Tensor, weights: Weights, name: str) -> Tensor:
    output = _normalized(to(x, "fp32"))
    output = mul(output, add_scalar(to(weights[f"{name}.weight"], "fp32")))
    return to(output, x.dtype)


def _normalized(x: Tensor) -> Tensor:
    return mul(x, rsqrt(add_scalar(mean(power(x)))))


NORMS: Mapping[str, Callable[[Tensor, Weights, str], Tensor]] = {
    "rms": _llama_rms_norm,
    "rms-offset": _gemma_rms_norm,
    "layer": _layer_norm,
}
"""By `Norm.kind`."""
