"""CUDA graphs of layers: what runs in them has a pool of its own, and inputs that stay where they are.

Sources: Megatron-LM, core/transformer/{cuda_graphs,transformer_layer}.py; TransformerEngine, pytorch/graph.py
(`_make_graphed_callables` with `_reuse_graph_input_output_buffers`): inputs and gradients of outputs are copied to
static tensors; outputs are in the pool until the backward graph has been captured. Megatron-Core's own graphs have
their inputs in the pool too, and read there what an earlier graph has left.
"""

from __future__ import annotations

from memcore.networks.network import Layer
from memcore.networks.parts import Experts, FeedForward, SpecialMixer
from memcore.tensors.autograd import SavedTensor, attach, memory_of, tracked
from memcore.tensors.basics import new, view
from memcore.tensors.tape import CAPTURED
from memcore.tensors.tensor import Tensor
from memcore.trainers.megatron.step_plan import Graphs


def covers(graphs: Graphs | None, module: str) -> bool:
    """Return whether graphs contain a module of a layer; without names they contain all of it."""
    return graphs is not None and (not graphs.modules or module in graphs.modules)


def module_of(layer: Layer) -> tuple[str, str]:
    """Return what graphs call a layer's mixer and its feed-forward layer; empty: there is none."""
    mixer = "" if layer.mixer is None else "mamba" if isinstance(layer.mixer, SpecialMixer) else "attn"
    ffn = layer.feed_forward
    return mixer, "mlp" if isinstance(ffn, FeedForward) else "moe" if isinstance(ffn, Experts) else ""


def routes(graphs: Graphs | None, layer: Layer) -> bool:
    """Return whether a layer's router is in a graph and its experts are not."""
    named = graphs is not None and "moe_router" in graphs.modules
    return named and isinstance(layer.feed_forward, Experts)


def captured(graphs: Graphs | None, layer: Layer) -> bool:
    """Return whether any part of a layer is in a graph."""
    return routes(graphs, layer) or any(name and covers(graphs, name) for name in module_of(layer))


def enter(x: Tensor, graphs: Graphs) -> Tensor:
    """Return a graph's input; from here on everything is in its pool."""
    tape = x.tape
    pooled = x.storage is not None and tape.blocks[x.storage.block].pool == CAPTURED
    if graphs.own_inputs:
        static = Tensor(tape, None, x.shape, x.dtype, order=x.order)
    elif pooled:
        static = view(x, x.shape, x.order, x.cut)
    else:
        with tape.stream(CAPTURED):
            static = new(tape, x.shape, x.dtype, "graph_input")
    if tracked(x):
        attach([static], [x], [] if static.storage is None else [SavedTensor(memory_of(static))], lambda g, s: [g[0]])
    tape.pool = CAPTURED
    return static


def leave(x: Tensor) -> Tensor:
    """Return a graph's output, whose gradient is copied to where it stays."""
    tape = x.tape
    tape.pool = "default"
    out = view(x, x.shape, x.order, x.cut)
    if tracked(x):
        shape, dtype = x.shape, x.dtype
        attach([out], [x], [SavedTensor(memory_of(x))], lambda g, s: [Tensor(tape, None, shape, dtype)])
    return out
