"""DeepSeek-V4's hyper-connections: several residual streams, mixed by weights that depend on them.

Source: `models/deepseek_v4` (`DeepseekV4HyperConnection`, `DeepseekV4DecoderLayer`, `DeepseekV4Model`).
"""

from __future__ import annotations

from memcore.layers.transformers.context import Context, Weights
from memcore.layers.transformers.ffns import ffn
from memcore.layers.transformers.mixers import mix
from memcore.layers.transformers.norms import norm, unweighted_norm
from memcore.networks.network import Layer
from memcore.symbols import Axis, Shifted
from memcore.tensors.arithmetic import divide, sigmoid, total
from memcore.tensors.autograd import Gradient, attach, save, tracked
from memcore.tensors.basics import like, only, permute, to
from memcore.tensors.operations import add, add_scalar, linear, matmul, mul, scale, softmax
from memcore.tensors.slices import reshape, split_sizes, unsqueeze
from memcore.tensors.tensor import Tensor

_SQUARED: Axis = Shifted("ho", -1, Shifted("hc", 1, "hc"))
"""Weights that mix the streams with each other."""
_PARTS: tuple[Axis, ...] = ("hc", "hc", _SQUARED)


def hyper_connected(hidden_states: Tensor, weights: Weights, layer: Layer, context: Context) -> Tensor:
    """Return a decoder layer."""
    dtype = hidden_states.dtype
    rounds = 0 if layer.extra is None else layer.extra.rounds
    post, comb, collapsed = _connection(hidden_states, weights, "attn_hc", rounds)
    attn_output, _scores = mix(norm(collapsed, weights, layer.norms[0]), weights, layer, context)
    hidden_states = add(_expanded(to(post, dtype), attn_output), _mixed(to(comb, dtype), hidden_states))
    post, comb, collapsed = _connection(hidden_states, weights, "ffn_hc", rounds)
    mlp_output = ffn(norm(collapsed, weights, layer.norms[1]), weights, layer, context)
    return add(_expanded(to(post, dtype), mlp_output), _mixed(to(comb, dtype), hidden_states))


def _expanded(post: Tensor, output: Tensor) -> Tensor:
    return mul(unsqueeze(post, 3), unsqueeze(output, 2))


def _mixed(comb: Tensor, hidden_states: Tensor) -> Tensor:
    return matmul(permute(comb, 0, 1, 3, 2), hidden_states)


def collapsed_streams(pre: Tensor, hidden_streams: Tensor) -> Tensor:
    """Return the sum of the streams by weight."""
    return to(total(mul(unsqueeze(pre, 3), hidden_streams), 2), hidden_streams.dtype)


def _connection(hidden_streams: Tensor, weights: Weights, name: str, rounds: int) -> tuple[Tensor, Tensor, Tensor]:
    """Weights that expand a part's output, those that mix the streams, and the part's input."""
    with hidden_streams.tape.module(name):
        flattened = to(reshape(hidden_streams, hidden_streams.shape), "fp32")
        flattened = unweighted_norm(flattened, "input_norm", axes=2)
        flattened = linear(flattened, to(weights[f"{name}.fn"], "fp32"))
        pre_w, post_w, comb_w = split_sizes(flattened, 2, _PARTS)
        pre_b, post_b, comb_b = split_sizes(weights[f"{name}.base"], 0, _PARTS)
        pre_scale, post_scale, comb_scale = split_sizes(weights[f"{name}.scale"], 0, (1, 1, 1))
        comb_w = reshape(comb_w, (*comb_w.shape[:2], "hc", "hc"))
        comb_b = reshape(comb_b, ("hc", "hc"))
        pre = add_scalar(sigmoid(add(_times(pre_w, pre_scale), pre_b)))
        post = scale(sigmoid(add(_times(post_w, post_scale), post_b)))
        comb = add_scalar(softmax(add(_times(comb_w, comb_scale), comb_b)))
        comb = _divided(comb, 2)
        for _ in range(rounds - 1):
            comb = _divided(comb, 3)
            comb = _divided(comb, 2)
        collapsed = collapsed_streams(pre, hidden_streams)
        return post, comb, collapsed


def _divided(comb: Tensor, axis: int) -> Tensor:
    """Return a round of Sinkhorn and Knopp: rows or columns sum to one."""
    return divide(comb, add_scalar(total(comb, axis, keepdim=True)))


def _times(x: Tensor, factor: Tensor) -> Tensor:
    """Return the product with a tensor without axes, which does not change the dtype."""
    x_needs, factor_needs = tracked(x), tracked(factor)
    saved = save(x.tape, x if factor_needs else None, factor if x_needs else None)
    out = like(x, "mul")

    def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
        for_factor = like(only(gradients), "mul_backward") if factor_needs else None
        for_x = like(only(gradients), "mul_backward") if x_needs else None
        return [for_x, for_factor]

    if x_needs or factor_needs:
        attach([out], [x, factor], saved, apply)
    return out
