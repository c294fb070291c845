"""Norms of transformers, spelled out in Python or PyTorch's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace

from memcore.layers import compiled
from memcore.layers.tensor_parallel import normalized
from memcore.layers.transformers.context import Weights, leaf
from memcore.networks.weights import Norm
from memcore.tensors import liger
from memcore.tensors.basics import cat, split, to
from memcore.tensors.operations import add_scalar, layer_norm, mean, mul, power, rms_norm, rsqrt, sub
from memcore.tensors.tensor import Tensor

LIGER_NORMS = ("rms", "rms-offset")
"""Kinds for which Liger has a kernel."""


def norm(x: Tensor, weights: Weights, part: Norm) -> Tensor:
    """A norm of any kind."""
    with x.tape.module(leaf(part.name)):
        return x.tape.part(lambda x: _norm(x, weights, part), x)


def _norm(x: Tensor, weights: Weights, part: Norm) -> Tensor:
    if part.listed is not None:
        return _per_head(x, weights, part, part.listed)
    if "rms_norm" in x.tape.liger and part.kind in LIGER_NORMS:
        return liger.rms_norm(x, weights[f"{part.name}.weight"])
    run = _compiled_rms_norm if x.tape.compiled and part.kind in compiled.NORMS else NORMS[part.kind]
    return normalized(run, x, weights, part)


def _compiled_rms_norm(x: Tensor, weights: Weights, part: Norm) -> Tensor:
    """One kernel, which keeps its input and a statistic of each row, as PyTorch's own does, and casts its result."""
    return rms_norm(x, weights[f"{part.name}.weight"], dtype=x.tape.autocast)


def _per_head(hidden_states: Tensor, weights: Weights, part: Norm, heads: int) -> Tensor:
    """StableLM: a norm of its own for each head, over (b, 1, s, d)."""
    batch, _, *rest = hidden_states.shape
    states = split(hidden_states, (batch, 1, *rest), heads, order=hidden_states.order, cut=1)
    parts = [replace(part, name=f"{part.name}.norms.{each}", listed=None) for each in range(heads)]
    return cat([norm(*each) for each in zip(states, [weights] * heads, parts, strict=True)], hidden_states.shape)


def _layer_norm(x: Tensor, weights: Weights, part: Norm) -> Tensor:
    return layer_norm(x, weights[f"{part.name}.weight"], weights.get(f"{part.name}.bias"))


def _llama_rms_norm(hidden_states: Tensor, weights: Weights, part: Norm) -> Tensor:
    dtype = hidden_states.dtype
    hidden_states = to(hidden_states, "fp32")
    variance = mean(power(hidden_states), len(part.width))
    hidden_states = mul(hidden_states, rsqrt(add_scalar(variance)))
    return mul(weights[f"{part.name}.weight"], to(hidden_states, dtype))


def _nemotron_h_rms_norm(hidden_states: Tensor, weights: Weights, part: Norm) -> Tensor:
    dtype = hidden_states.dtype
    hidden_states = to(hidden_states, "fp32")
    variance = mean(power(hidden_states))
    hidden_states = mul(hidden_states, rsqrt(add_scalar(variance)))
    return to(mul(to(weights[f"{part.name}.weight"], "fp32"), hidden_states), dtype)


def _olmo_rms_norm(hidden_states: Tensor, weights: Weights, part: Norm) -> Tensor:
    dtype = hidden_states.dtype
    hidden_states = to(hidden_states, "fp32")
    variance = mean(power(hidden_states), len(part.width))
    hidden_states = mul(hidden_states, rsqrt(add_scalar(variance)))
    return to(mul(weights[f"{part.name}.weight"], hidden_states), dtype)


def _gemma_rms_norm(x: Tensor, weights: Weights, part: Norm) -> Tensor:
    output = rms_normalized(to(x, "fp32"))
    output = mul(output, add_scalar(to(weights[f"{part.name}.weight"], "fp32")))
    return to(output, x.dtype)


def rms_normalized(x: Tensor) -> Tensor:
    """An RMS norm without a weight."""
    return mul(x, rsqrt(add_scalar(mean(power(x)))))


def _llama4_rms_norm(x: Tensor, weights: Weights, part: Norm) -> Tensor:
    output = _plain_rms_norm(x, weights, part)
    return mul(output, weights[f"{part.name}.weight"])


def _plain_rms_norm(x: Tensor, weights: Weights, part: Norm) -> Tensor:
    return to(rms_normalized(to(x, "fp32")), x.dtype)


def _gemma4_rms_norm(hidden_states: Tensor, weights: Weights, part: Norm) -> Tensor:
    """Gemma 3n and 4, where a norm may have no weight."""
    normed_output = _normalized_by_power(to(hidden_states, "fp32"))
    weight = weights.get(f"{part.name}.weight")
    if weight is not None:
        normed_output = mul(normed_output, to(weight, "fp32"))
    return to(normed_output, hidden_states.dtype)


def _normalized_by_power(x: Tensor) -> Tensor:
    mean_squared = add_scalar(mean(power(x)))
    return mul(x, power(mean_squared))


def _plain_layer_norm(hidden_states: Tensor, weights: Weights, part: Norm) -> Tensor:
    """OLMo: without parameters, in fp32."""
    return to(layer_norm(to(hidden_states, "fp32"), None, None), hidden_states.dtype)


def _cohere_layer_norm(hidden_states: Tensor, weights: Weights, part: Norm) -> Tensor:
    dtype = hidden_states.dtype
    hidden_states = to(hidden_states, "fp32")
    average = mean(hidden_states)
    variance = mean(power(sub(hidden_states, average)))
    hidden_states = mul(sub(hidden_states, average), rsqrt(add_scalar(variance)))
    hidden_states = mul(to(weights[f"{part.name}.weight"], "fp32"), hidden_states)
    return to(hidden_states, dtype)


def _nemotron_layer_norm(x: Tensor, weights: Weights, part: Norm) -> Tensor:
    """With 1 + w. Under autocast everything is cast first, and the norm runs in half precision."""
    tape, dtype = x.tape, x.tape.autocast
    raised = add_scalar(weights[f"{part.name}.weight"])
    args = [x, raised, weights[f"{part.name}.bias"]]
    if dtype:
        args = [to(each, dtype) for each in args]
    del raised
    with tape.autocasting(None) if dtype else nullcontext():
        return layer_norm(*args)


def unweighted_norm(x: Tensor, name: str, axes: int = 1) -> Tensor:
    """x · rsqrt(mean x²), where only the root is computed in fp32."""
    with x.tape.module(name):
        return mul(x, to(rsqrt(add_scalar(mean(power(to(x, "fp32")), axes))), x.dtype))


NORMS: Mapping[str, Callable[[Tensor, Weights, Norm], Tensor]] = {
    "rms": _llama_rms_norm,
    "rms-offset": _gemma_rms_norm,
    "rms-after": _olmo_rms_norm,
    "rms-cast": _llama4_rms_norm,
    "rms-plain": _plain_rms_norm,
    "rms-wide": _nemotron_h_rms_norm,
    "rms-power": _gemma4_rms_norm,
    "rms-power-plain": _gemma4_rms_norm,
    "layer": _layer_norm,
    "layer-biased": _layer_norm,
    "layer-plain": _plain_layer_norm,
    "layer-fp32": _cohere_layer_norm,
    "layer-offset": _nemotron_layer_norm,
}
"""By `Norm.kind`."""
