"""The dense feed-forward layer. Source: Megatron-LM, core/transformer/mlp.py."""

from __future__ import annotations

from memcore.networks.parts import FeedForward
from memcore.networks.weights import Norm
from memcore.tensors.tensor import Parameter, Tensor
from memcore.trainers.megatron.layers.attention import LayerContext
from memcore.trainers.megatron.layers.fused import bias_gelu, norm, spelled_out, swiglu
from memcore.trainers.megatron.layers.linear import Weights, linear, local_linear, local_row_linear, norm_linear


def feed_forward(
    x: Tensor, part: FeedForward, before: Norm | None, weights: Weights, around: LayerContext
) -> tuple[Tensor, Parameter | None]:
    """The result before its bias is added, and the bias; `before`: the norm that the first matrix is fused with."""
    how, run = around.how, local_linear if around.local else linear
    with x.tape.module(part.module):
        if before is None:
            y = run(x, part.up, weights, how, biased=False)
        elif around.local:
            y = local_linear(norm(x, before, weights), part.up, weights, how, biased=False)
        else:
            y = norm_linear(x, before, part.up, weights, how, biased=False)
        y = activated(y, part, weights.get(f"{part.up.name}.bias"), around)
        finish = local_row_linear if around.local else linear
        return finish(y, part.down, weights, how, biased=False), weights.get(f"{part.down.name}.bias")


def activated(x: Tensor, part: FeedForward, bias: Parameter | None, around: LayerContext) -> Tensor:
    """Bias and activation, in one kernel where Megatron has one."""
    if around.how.gate_fusion and part.fused and part.activation == "silu":
        return swiglu(x, bias, part.down.inner[0])
    if around.how.activation_fusion and not part.fused and part.activation == "gelu" and bias is not None:
        return bias_gelu(x, bias)
    return spelled_out(x, bias, part.activation, gated=part.fused)
