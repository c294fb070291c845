"""Gemma 4's sparse layers on Megatron-Core, as Megatron Bridge has them.

Source: Megatron-Bridge 0.7, models/gemma/modeling_gemma4.py (`Gemma4TransformerLayer`, `Gemma4MoELayer`,
`Gemma4TopKRouter`, `_gemma4_rms_norm`) and models/common/te_layers.py (`TERowParallelLinearLayerNorm`). Norms around
the feed-forward layers are spelled out in fp32; those around attention are TransformerEngine's.
"""

from __future__ import annotations

from memcore.networks.parts import Attention, Experts
from memcore.networks.weights import Norm
from memcore.tensors.arithmetic import divide, total
from memcore.tensors.basics import to
from memcore.tensors.operations import add, add_scalar, mean, mul, power, rsqrt, scale
from memcore.tensors.tensor import Tensor
from memcore.trace.step import Slot
from memcore.trainers.megatron.layers.attention import LayerContext, attention
from memcore.trainers.megatron.layers.dispatch import DISPATCHERS
from memcore.trainers.megatron.layers.experts import run_rows, shared_result
from memcore.trainers.megatron.layers.fused import bias_dropout_add, norm
from memcore.trainers.megatron.layers.linear import Weights
from memcore.trainers.megatron.layers.recompute import recomputes, run_again
from memcore.trainers.megatron.layers.routing import route


def gemma4_layer(x: Tensor, slot: Slot, around: LayerContext) -> Tensor:
    """`Gemma4TransformerLayer.forward`: seven norms, three of them of one input."""
    own, weights = slot.layer, slot.weights
    mixer, ffn, norms = own.mixer, own.feed_forward, own.norms
    if not isinstance(mixer, Attention) or not isinstance(ffn, Experts):
        raise TypeError(own)
    y, bias = attention(x, mixer, norms[0], weights, around)
    y = norm(y, norms[1], weights)
    x = bias_dropout_add(y, bias, x, own.dropout)
    del y
    given = (rms_norm(x, norms[2], weights), rms_norm(x, norms[3], weights), x)

    def forward(first: Tensor, second: Tensor, third: Tensor) -> Tensor:
        return _experts((first, second, third), ffn, norms[4:6], weights, around)

    found = run_again(forward, *given) if recomputes(around.how, "moe") else forward(*given)
    del given
    return scale(add(x, rms_norm(found, norms[6], weights)))


def _experts(
    inputs: tuple[Tensor, Tensor, Tensor],
    part: Experts,
    norms: tuple[Norm, ...],
    weights: Weights,
    around: LayerContext,
) -> Tensor:
    """`forward_with_separate_inputs`: of experts, the shared expert and the router."""
    x, shared, routed_by = inputs
    plan = around.how.experts
    if plan is None:
        raise TypeError(around.how)
    with x.tape.module(part.module):
        added = shared_result(shared, part, weights, around)
        with x.tape.module("router"):
            scales = [weights[each.name] for each in part.routing]
            given = scale(mul(rms_norm(routed_by, None, weights), scales[0]))
            probabilities, routed = route(given, weights[f"{part.router.name}.weight"], part, plan)
            del given
            probabilities = mul(divide(probabilities, total(probabilities, keepdim=True)), scales[1])

        def run(rows: Tensor, factor: Tensor) -> Tensor:
            return run_rows(rows, factor, part, weights, around, plan)

        out = DISPATCHERS[plan.dispatcher](x, probabilities, routed, part, plan, run)
        del x, probabilities, routed
        out = rms_norm(out, norms[0], weights)
        return out if added is None else add(out, rms_norm(added, norms[1], weights))


def rms_norm(x: Tensor, part: Norm | None, weights: Weights) -> Tensor:
    """`_gemma4_rms_norm`: the input is cast twice."""
    upcast = to(x, "fp32")
    normed = mul(upcast, rsqrt(add_scalar(mean(power(to(x, "fp32"))))))
    del upcast
    if part is not None:
        normed = mul(normed, to(weights[f"{part.name}.weight"], "fp32"))
    return to(normed, x.dtype)
