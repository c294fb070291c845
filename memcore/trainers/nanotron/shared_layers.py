"""What nanotron's Llama and its Qwen2 have in common: a layer's order, the Triton norm, rotations in place, the MLP.

Source: huggingface/nanotron, models/llama.py, models/qwen.py and nn/layer_norm.py; flash-attn,
ops/triton/layer_norm.py, layers/rotary.py (rotations in place) and csrc/flash_attn/flash_api.cpp.
"""

from __future__ import annotations

from collections.abc import Callable

from memcore.layers.transformers.context import Weights, leaf
from memcore.networks.network import Layer
from memcore.networks.parts import Attention, FeedForward
from memcore.networks.weights import Norm
from memcore.symbols import Rounded, Shifted
from memcore.tensors.autograd import Gradient, attach, save
from memcore.tensors.basics import contiguous, like, new, view
from memcore.tensors.operations import ACTIVATIONS, add, mul
from memcore.tensors.tensor import Tensor
from memcore.trainers.nanotron.parallel import column_linear, row_linear
from memcore.trainers.nanotron.step_plan import NanotronPlan

MULTIPROCESSORS = 132
"""Of an H100: the Triton kernel's backward pass has a row of partial sums for each."""


def decoder_layer(
    hidden_states: Tensor,
    weights: Weights,
    layer: Layer,
    plan: NanotronPlan,
    first_norm: Callable[[Tensor, Weights, Norm], Tensor],
    attention: Callable[[Tensor, Weights, Attention, NanotronPlan], Tensor],
) -> Tensor:
    """`_core_forward` of `LlamaDecoderLayer` and `Qwen2DecoderLayer`."""
    if not (isinstance(layer.mixer, Attention) and isinstance(layer.feed_forward, FeedForward)):
        raise TypeError(layer)
    residual = hidden_states
    hidden_states = first_norm(hidden_states, weights, layer.norms[0])
    output = attention(hidden_states, weights, layer.mixer, plan)  # in a dict there, which lives as long as the layer
    hidden_states = add(output, residual)
    residual = hidden_states
    hidden_states = rms_norm(hidden_states, weights, layer.norms[1])
    hidden_states = mlp(hidden_states, weights, layer.feed_forward, plan)
    return add(hidden_states, residual)


def rms_norm(x: Tensor, weights: Weights, part: Norm) -> Tensor:
    """`layer_norm_fn`: keeps its input and a number for each row; the weight's gradient is summed from partial rows."""
    tape, weight = x.tape, weights[f"{part.name}.weight"]
    with tape.module(leaf(part.name)):
        x = contiguous(x)
        saved = save(tape, x, weight)
        out = like(x, "rms_norm")
        statistics = new(tape, x.shape[:-1], "fp32", "norm_statistics")
        saved += save(tape, statistics)
        del statistics
        shape, dtype = x.shape, x.dtype

        def apply(gradients: list[Gradient], saved: list[Tensor]) -> list[Gradient]:
            for_x = new(tape, shape, dtype, "rms_norm_backward")
            for_x.viewed = True  # It is returned in its input's shape.
            partial = new(tape, (MULTIPROCESSORS, *weight.shape), "fp32", "rms_norm_backward")
            summed = new(tape, weight.shape, "fp32", "sum")
            for_weight = new(tape, weight.shape, dtype, "rms_norm_backward")
            del partial, summed
            return [for_x, for_weight]

        attach([out], [x, weight], saved, apply)
        return out


def rotated(x: Tensor) -> Tensor:
    """`apply_rotary` in place, there and back."""
    out = view(x, x.shape, x.order, x.cut)
    attach([out], [x], [], lambda g, s: [g[0]])
    return out


def workspaces(query: Tensor, *, shared: bool) -> None:
    """What the backward pass takes in fp32, and gradients of keys and values for each head, where heads share them."""
    tape, (batch, length, heads, width) = query.tape, query.shape
    rows, columns = Shifted(length, 1, 128), Rounded(width, 32, limit=128, beyond=64)
    held = [
        new(tape, (heads, batch, rows), "fp32", "flash_softmax_sum"),
        new(tape, (batch, rows, heads, columns), "fp32", "flash_query_accumulator"),
    ]
    if shared:
        held += [new(tape, query.shape, query.dtype, "flash_expanded_gradient") for _ in range(2)]
    del held


def mlp(x: Tensor, weights: Weights, part: FeedForward, plan: NanotronPlan) -> Tensor:
    """Return the gated feed-forward layer, whose gate and up are one matrix."""
    with x.tape.module(part.module):
        with x.tape.module(leaf(part.up.name)):
            merged_states = column_linear(x, weights[f"{part.up.name}.weight"], plan)
        gate_states, up_states = _chunks(merged_states)
        del merged_states
        hidden_states = mul(ACTIVATIONS[part.activation](gate_states), up_states)
        del gate_states, up_states
        with x.tape.module(leaf(part.down.name)):
            return row_linear(hidden_states, weights[f"{part.down.name}.weight"], plan)


def _chunks(x: Tensor) -> list[Tensor]:
    """Gate and up as slices of (s, b, 2, f); their gradients are put together in one."""
    tape, full, dtype = x.tape, x.shape, x.dtype
    parts = [view(x, (*full[:2], full[3]), cut=2) for _ in range(2)]
    attach(parts, [x], [], lambda g, s: [new(tape, full, dtype, "cat")])
    return parts
