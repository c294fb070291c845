"""Parts of the attention layer whose parameters several of Zamba 2's layers share.

Low-rank matrices next to the shared ones belong to a single use (`memcore.trace.shared_blocks`).
"""

from __future__ import annotations

from memcore.layers.transformers.attention import interface, update_cache
from memcore.layers.transformers.context import Context, Weights, project
from memcore.layers.transformers.recurrent.shared import projection
from memcore.layers.transformers.rotary import ROTATIONS
from memcore.networks.parts import Attention, FeedForward
from memcore.tensors.basics import contiguous, permute, split, unmerged
from memcore.tensors.operations import ACTIVATIONS, add, mul
from memcore.tensors.tensor import Tensor


def attend_zamba2(
    hidden_states: Tensor, weights: Weights, part: Attention, context: Context, drop: float = 0.0
) -> tuple[Tensor, Tensor | None]:
    """Return the attention module of the shared layer."""
    with hidden_states.tape.module(part.module):
        states = [project(hidden_states, weights, each) for each in part.inputs]
        for index, name in enumerate("qkv"):
            states[index] = _adapted(states[index], hidden_states, weights, f"{part.module}.linear_{name}_adapter_list")
        query_states, key_states, value_states = (permute(unmerged(each, 2), 0, 2, 1, 3) for each in states)
        del states
        if context.rotary is not None:
            query_states, key_states = ROTATIONS[part.rotary](query_states, key_states, *context.rotary)
        key_states, value_states = update_cache(key_states, value_states, context)
        attn_output, attn_weights = interface(query_states, key_states, value_states, part, context)
        attn_output = contiguous(attn_output)
        attn_output = project(attn_output, weights, part.output)
        return attn_output, attn_weights


def zamba2_ffn(hidden_state: Tensor, weights: Weights, part: FeedForward) -> Tensor:
    """`Zamba2MLP`."""
    with hidden_state.tape.module(part.module):
        gate_up_state = project(hidden_state, weights, part.up)
        name = f"{part.module}.gate_up_proj_adapter_list"
        gate_up_state = _adapted(gate_up_state, hidden_state, weights, name)
        batch, length, _, width = gate_up_state.shape
        halves = split(gate_up_state, (batch, length, width), 2, cut=2)
        del gate_up_state
        hidden_state = mul(ACTIVATIONS[part.activation](halves[0]), halves[1])
        return project(hidden_state, weights, part.down)


def _adapted(states: Tensor, hidden_states: Tensor, weights: Weights, name: str) -> Tensor:
    """With the result of two small matrices added, if there are any."""
    if f"{name}.0.weight" not in weights:
        return states
    with states.tape.module(name.rpartition(".")[2]):
        low = projection(hidden_states, weights, f"{name}.0")
        adapter = projection(low, weights, f"{name}.1")
        del low
    return add(states, adapter)
