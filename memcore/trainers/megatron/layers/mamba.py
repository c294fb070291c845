"""Mamba 2. Source: Megatron-LM, core/ssm/{mamba_layer,mamba_mixer}.py."""

from __future__ import annotations

from dataclasses import replace

from memcore.layers.transformers.recurrent.kernels_mamba2 import split_conv1d_scan
from memcore.networks.parts import SpecialMixer
from memcore.networks.weights import Linear, Norm
from memcore.tensors.basics import contiguous, new, permute
from memcore.tensors.tensor import Tensor
from memcore.trainers.megatron.layers.attention import LayerContext
from memcore.trainers.megatron.layers.dispatch import view_of
from memcore.trainers.megatron.layers.fused import norm
from memcore.trainers.megatron.layers.linear import Weights, linear, norm_linear


def mamba(x: Tensor, part: SpecialMixer, before: Norm, weights: Weights, around: LayerContext) -> Tensor:
    """Run one kernel for convolution, scan and gate; norm and projections are modules of their own."""
    how, tape = around.how, x.tape
    projection, output = _linear(part, "in_proj"), _linear(part, "out_proj")
    with tape.module(part.module):
        projected = norm_linear(x, before, projection, weights, how)
        projected = contiguous(permute(projected, 1, 0, 2))
        rates = new(tape, ("H",), "fp32", "exp")
        outside = tuple(f"{part.module}.{name}." for name in ("in_proj", "out_proj", "norm"))
        inside = {name: weight for name, weight in weights.items() if not name.startswith(outside)}
        plain = replace(part, options=part.options - {"normed"})
        y = split_conv1d_scan(projected, rates, plain, inside, shared=how.tensor)
        del projected, rates
        y = contiguous(permute(y, 1, 0, 2, 3))
        y = view_of(y, (*y.shape[:2], *output.inner))
        y = norm(y, Norm(f"{part.module}.norm", "rms", output.inner), weights)
        return linear(y, output, weights, how)


def _linear(part: SpecialMixer, name: str) -> Linear:
    """Return one of its matrices."""
    weight = next(each for each in part.parameters if each.name == f"{part.module}.{name}.weight")
    return Linear(f"{part.module}.{name}", weight.outer, weight.inner, split=weight.split)
