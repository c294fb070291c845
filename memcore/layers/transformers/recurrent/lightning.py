"""Lightning attention (`MiniMaxLightningAttention`): linear attention by blocks, for which there are no kernels."""

from __future__ import annotations

from memcore.layers.transformers.context import Context, Weights
from memcore.layers.transformers.norms import norm
from memcore.layers.transformers.recurrent.shared import constant, projection, without_padding
from memcore.networks.parts import SpecialMixer
from memcore.networks.weights import Norm
from memcore.symbols import Axis, Quotient, Shifted
from memcore.tensors.arithmetic import sigmoid
from memcore.tensors.basics import narrow, new, permute, split
from memcore.tensors.loops import iterations
from memcore.tensors.operations import add, matmul, mul, scale, silu
from memcore.tensors.reshaping import fold, join, regroup
from memcore.tensors.running import exp
from memcore.tensors.tensor import Tensor

_BUFFERS = ("slope_rate", "query_decay", "key_decay", "diagonal_decay")


def lightning(
    hidden_states: Tensor, weights: Weights, part: SpecialMixer, context: Context, drop: float = 0.0
) -> tuple[Tensor, Tensor | None]:
    """Return a layer of lightning attention, and its last state."""
    name = part.module
    with hidden_states.tape.module(name):
        qkv_states = silu(projection(hidden_states, weights, f"{name}.qkv_proj", part))
        qkv_states = without_padding(qkv_states, context)
        qkv_states = regroup(qkv_states, 2, 3, ("a", 3, "d"))
        batch, length = hidden_states.shape[:2]
        parts = split(qkv_states, (batch, length, "a", "d"), cut=3)
        query_states, key_states, value_states = (permute(each, 0, 2, 1, 3) for each in parts)
        del parts
        slope_rate, *decays = (constant(hidden_states, part, context, each) for each in _BUFFERS)
        attn_weights_inter = new(hidden_states.tape, (batch, "a", "d", "d"), value_states.dtype, "zeros")
        attn_outputs = []
        for index in iterations(hidden_states.tape, part.trips, context.recurrence.trips):
            all_states = query_states, key_states, value_states
            query, key, value = (_of_block(each, index, part, context) for each in all_states)
            query_decay, key_decay, diagonal_decay = (_of_buffer(each, query) for each in decays)
            block_decay = exp(mul(scale(slope_rate, "neg"), Tensor(hidden_states.tape, None, (), "int64")))
            attn_weights_intra = matmul(query, permute(key, 0, 1, 3, 2))
            attn_output_intra = matmul(mul(attn_weights_intra, diagonal_decay), value)
            attn_output_inter = matmul(mul(query, query_decay), attn_weights_inter)
            block_attn_output = add(attn_output_inter, attn_output_intra)
            attn_outputs.append(block_attn_output)
            next_attn_weights_inter = matmul(permute(mul(key, key_decay), 0, 1, 3, 2), value)
            attn_weights_inter = add(mul(attn_weights_inter, block_decay), next_attn_weights_inter)
        attn_output = join(attn_outputs, 2, length, 1)
        del attn_outputs
        attn_output = fold(permute(attn_output, 0, 2, 1, 3), 2, 4)
        attn_output = norm(attn_output, weights, Norm(f"{name}.norm", "rms", ("a", "d")))
        attn_output = mul(sigmoid(projection(hidden_states, weights, f"{name}.output_gate", part)), attn_output)
        attn_output = projection(attn_output, weights, f"{name}.out_proj", part)
        return attn_output, attn_weights_inter


def _of_block(x: Tensor, index: int, part: SpecialMixer, context: Context) -> Tensor:
    """Return a slice for one block."""
    recorded = context.recurrence.trips
    if recorded == 1:
        return x
    return narrow(x, 2, _last(part, context) if index == recorded - 1 else part.chunk)


def _last(part: SpecialMixer, context: Context) -> Axis:
    """Return tokens of the last block."""
    if context.recurrence.even:
        return part.chunk
    return Shifted("s", -1, Quotient((Shifted(part.trips, -1, 1), part.chunk), 1))


def _of_buffer(decay: Tensor, states: Tensor) -> Tensor:
    """Return a slice of a buffer for a block of this size."""
    shape = tuple(states.shape[2] if axis == "q" else axis for axis in decay.shape)
    return Tensor(decay.tape, None, shape, decay.dtype)
