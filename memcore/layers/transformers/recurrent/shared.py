"""What several recurrent mixers of transformers share: padding, projections, the convolution over tokens."""

from __future__ import annotations

from memcore.layers.transformers.context import Context, Weights, project
from memcore.layers.transformers.recurrent.kernels_convolution import causal_conv1d
from memcore.networks.parts import SpecialMixer
from memcore.tensors.basics import narrow, to
from memcore.tensors.convolution import conv1d
from memcore.tensors.operations import linear, mul, silu
from memcore.tensors.reshaping import insert
from memcore.tensors.tensor import Tensor


def without_padding(hidden_states: Tensor, context: Context) -> Tensor:
    """`apply_mask_to_padding_states`: the mask of `create_recurrent_attention_mask` is the padding mask itself."""
    if context.padding is None:
        return hidden_states
    dtype, mask = hidden_states.dtype, context.padding
    for axis in range(2, len(hidden_states.shape)):
        mask = insert(mask, axis)
    return to(mul(hidden_states, mask), dtype)


def projection(x: Tensor, weights: Weights, name: str, part: SpecialMixer | None = None) -> Tensor:
    """Return a linear layer by its full name, with its adapter if the mixer has one there."""
    own = next((each for each in part.linears if each.name == name), None) if part is not None else None
    if own is not None and (own.adapter_dtype is not None or own.quantized is not None):
        return project(x, weights, own)
    with x.tape.module(name.rpartition(".")[2]):
        return linear(x, weights[f"{name}.weight"], weights.get(f"{name}.bias"))


def causal_convolution(
    hidden_states: Tensor, weights: Weights, name: str, context: Context, *, activated: bool = True
) -> Tensor:
    """`causal_conv1d_fn`: a kernel, or a convolution of (b, channels, s) with too many zeros, cropped."""
    weight, bias = weights[f"{name}.weight"], weights.get(f"{name}.bias")
    if context.recurrence.kernels == "fused":
        return causal_conv1d(hidden_states, weight, bias)
    out = narrow(conv1d(to(hidden_states, weight.dtype), weight, bias), 2, hidden_states.shape[2])
    if activated:
        out = silu(out)
    return to(out, hidden_states.dtype)


def constant(x: Tensor, part: SpecialMixer, context: Context, name: str) -> Tensor:
    """Return a buffer of the module, whose memory is there from start to end."""
    shape = next(each.shape for each in part.constants if each.name == f"{part.module}.{name}")
    return Tensor(x.tape, None, shape, context.recurrence.stored)
