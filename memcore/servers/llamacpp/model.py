"""The graph that llama.cpp reserves its compute buffers with: a micro-batch of prompt tokens through the whole model.

Source: `src/models/*.cpp` of llama.cpp 0.5.
"""

from __future__ import annotations

from collections.abc import Sequence

from memcore.servers.llamacpp.ggml.graph import Graph, apply, get_rows, mul_mat
from memcore.servers.llamacpp.ggml.tensor import Tensor
from memcore.servers.llamacpp.gguf_tensors import layers_in_order
from memcore.servers.llamacpp.graph import SELECTS_LATE, Builder
from memcore.servers.llamacpp.layers import layer_of


def build(to: Builder, layers: Sequence[int]) -> Graph:
    """Return the graph of the embedding, of layers by number, and of the head."""
    embedding_and_head = to.model.network.embedding_and_head
    current = _embedded(to)
    if embedding_and_head.positions is not None:
        current = apply("ADD", current, get_rows(to.weights["position_embd.weight"], to.positions()))
    current = to.norm(embedding_and_head.embedding_norm, "token_embd_norm", current)
    whole = list(layers_in_order(to.model))
    for index in layers:
        to.block = f"blk.{index}."
        current = layer_of(to, whole[index], index, current, last=index == len(whole) - 1)
    to.block = ""
    last = "output_norm" if "output_norm.weight" in to.weights else "token_embd_norm"
    current = to.norm(embedding_and_head.final_norm, last, current)
    if to.model.network.family in SELECTS_LATE:
        current.output = True  # a draft head may read it
        current = to.selected(current)
    to.graph.expand(_logits(to, current))
    return to.graph


def _embedded(to: Builder) -> Tensor:
    """Rows of the embedding; an input for embeddings instead of tokens is there as well."""
    embedding_and_head = to.model.network.embedding_and_head
    tokens = to.input("inp_tokens", "I32", to.batch.tokens)
    current = get_rows(to.weights["token_embd.weight"], tokens)
    to.graph.expand(current)
    if to.batch.release.takes_embeddings:
        to.graph.expand(to.input("inp_embd", "F32", to.size("h"), to.batch.tokens))
    if embedding_and_head.embedding_multiplied:
        current = apply("SCALE", current)
        to.graph.expand(current)
    return apply("SCALE", current) if embedding_and_head.embedding_scaled else current


def _logits(to: Builder, tensor: Tensor) -> Tensor:
    """Return the head; what llama.cpp reads is never overwritten."""
    embedding_and_head = to.model.network.embedding_and_head
    found = mul_mat(to.weights["output.weight"], tensor)
    bias = to.weights.get("output.bias")
    if bias is not None:
        found = apply("ADD", found, bias)
    if embedding_and_head.head_scaled:
        found = apply("SCALE", found)
    if embedding_and_head.head_softcap:
        found = apply("SCALE", apply("TANH", apply("SCALE", found)))
    tensor.output = found.output = True
    return found
