"""What one tensor-parallel rank has of a model.

torchtitan's plan (torchtitan/models/llama3/infra/parallelize.py, `apply_tp`): matrices into heads and into the width
of a feed-forward layer by columns, those out of them by rows, embedding and head by words; every rank has all norms.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

from memcore.messages import Message
from memcore.networks.network import EmbeddingAndHead, Layer, Model, Network, with_layers
from memcore.networks.parts import Attention, Experts, FeedForward, LatentAttention
from memcore.networks.weights import Linear, Norm, Weight
from memcore.symbols import Axis, Shape, split_over

RANKS = "tp"
"""The symbol for the number of ranks."""


@lru_cache(maxsize=64)
def parallelized(model: Model, *, experts: bool = False) -> Model:
    """Return the model as one rank has it. Tied tensors are no longer: each module is given a parameter of its own.

    `experts`: ranks share the width of routed experts, too (torchtitan/distributed/expert_parallel.py,
    `TensorParallel`).
    """
    return replace(model, network=_network(model.network, experts=experts))


def obstacles(network: Network, *, titan: bool) -> list[str]:
    """Name what a network has that is not supported with tensor parallelism; `titan`: with torchtitan's layers."""
    found = dict.fromkeys(each for layer in network.kinds for each in _of_layer(layer, titan=titan))
    return [*found, *_of_embedding_and_head(network)]


def _of_layer(layer: Layer, *, titan: bool) -> Iterator[str]:
    attention, ffn = layer.mixer, layer.feed_forward
    if not (titan and isinstance(attention, LatentAttention) and layer.second_mixer is None):
        yield from _of_attention(layer)
    if layer.second_feed_forward is not None or not isinstance(ffn, FeedForward | Experts if titan else FeedForward):
        yield "routed experts"
    elif isinstance(ffn, FeedForward):
        yield from _of_ffn(ffn)
    if layer.residual != "sequential" or layer.extra is not None:
        yield Message("layers connected as {!r}", layer.residual)
    yield from (Message("{!r} norms", norm.kind) for norm in layer.norms if norm.kind != "rms")


def _of_attention(layer: Layer) -> Iterator[str]:
    attention = layer.mixer
    plain = isinstance(attention, Attention) and attention.variant == "attention"
    if not isinstance(attention, Attention) or not plain or layer.second_mixer is not None:
        yield "mixers other than attention"
    elif _inseparable(attention) or attention.sinks is not None or attention.gated or attention.shares_cache:
        yield "attention without separate query, key and value matrices"
    elif attention.output.bias:
        yield "a bias that all ranks add to a sum over them"
    elif attention.norm_place == "row":
        yield "norms over all heads together"


def _inseparable(attention: Attention) -> bool:
    """Return whether one matrix makes queries, keys and values, and ranks cannot split it by key heads."""
    return len(attention.inputs) != 3 and attention.fused != "per-key-head"


def _of_ffn(ffn: FeedForward) -> Iterator[str]:
    if ffn.fused or ffn.gate is None or ffn.activation_weights:
        yield "feed-forward layers other than gated ones with three matrices"
    elif ffn.down.bias:
        yield "a bias that all ranks add to a sum over them"


def _of_embedding_and_head(network: Network) -> Iterator[str]:
    embedding_and_head = network.embedding_and_head
    if (
        embedding_and_head.start != "decoder"
        or embedding_and_head.positions
        or embedding_and_head.embedding_norm
        or embedding_and_head.others
        or embedding_and_head.embedding_scaled
    ):
        yield "embeddings other than token embeddings"
    if (
        embedding_and_head.project_in
        or embedding_and_head.project_out
        or embedding_and_head.head.bias
        or embedding_and_head.head_upcast
        or embedding_and_head.head_softcap
    ):
        yield "output heads other than a single matrix"
    if network.towers:
        yield "vision towers"


def split_axes(network: Network) -> Iterator[Axis]:
    """Yield the sizes that tensor-parallel ranks split, each once."""
    shared: list[Axis] = ["V"]
    for layer in network.kinds:
        if isinstance(layer.mixer, Attention | LatentAttention):
            shared += [layer.mixer.heads.query, layer.mixer.heads.key]
        ffn = layer.feed_forward.shared if isinstance(layer.feed_forward, Experts) else layer.feed_forward
        shared += [ffn.up.outer[0]] if isinstance(ffn, FeedForward) else []
    yield from dict.fromkeys(shared)


def _network(network: Network, *, experts: bool) -> Network:
    split = with_layers(network, lambda layer: _layer(layer, experts=experts))
    return replace(split, embedding_and_head=_embedding_and_head(network.embedding_and_head))


def _layer(layer: Layer, *, experts: bool) -> Layer:
    mixer, ffn = layer.mixer, layer.feed_forward
    if isinstance(mixer, Attention):
        mixer = replace(mixer, inputs=tuple(map(_columns, mixer.inputs)), **_attended(mixer))
    elif isinstance(mixer, LatentAttention):
        queries = (*mixer.queries[:-1], _columns(mixer.queries[-1]))
        mixer = replace(mixer, queries=queries, expand=_columns(mixer.expand), **_attended(mixer))
    if isinstance(ffn, Experts):
        ffn = replace(ffn, shared=None if ffn.shared is None else _fed(ffn.shared))
        ffn = replace(ffn, experts=tuple(map(_narrowed, ffn.experts))) if experts else ffn
    elif isinstance(ffn, FeedForward):
        ffn = _fed(ffn)
    return replace(layer, mixer=mixer, feed_forward=ffn, norms=tuple(map(_whole, layer.norms)))


def _attended(mixer: Attention | LatentAttention) -> dict[str, Any]:
    """Heads, and the matrix out of them; into a latent space every rank has all of it."""
    heads = replace(mixer.heads, query=split_over(mixer.heads.query), key=split_over(mixer.heads.key))
    return {"heads": heads, "output": _rows(mixer.output)}


def _fed(ffn: FeedForward) -> FeedForward:
    if ffn.gate is None:
        raise TypeError(ffn)
    return replace(ffn, gate=_columns(ffn.gate), up=_columns(ffn.up), down=_rows(ffn.down))


def _embedding_and_head(embedding_and_head: EmbeddingAndHead) -> EmbeddingAndHead:
    (rows, *columns) = embedding_and_head.embedding.axes
    return replace(
        embedding_and_head,
        embedding=replace(embedding_and_head.embedding, axes=(_first(rows), *columns)),
        final_norm=None if embedding_and_head.final_norm is None else _whole(embedding_and_head.final_norm),
        head=_columns(embedding_and_head.head),
        tied=False,
    )


def _columns(part: Linear) -> Linear:
    ranks = split_over("ra") if part.adapter_divided else part.adapter_ranks
    return replace(part, outer=_first(part.outer), split="outer", adapter_ranks=ranks)


def _rows(part: Linear) -> Linear:
    taken = split_over("ra") if part.adapter_divided else part.adapter_taken
    return replace(part, inner=_first(part.inner), split="inner", adapter_taken=taken)


def _narrowed(weight: Weight) -> Weight:
    """Return a matrix of all experts, whose own width ranks share: the last axis of the one that leads out of it."""
    place = 2 if weight.split == "inner" else 1
    return replace(weight, axes=(*weight.axes[:place], _first(weight.axes[place]), *weight.axes[place + 1 :]))


def _whole(norm: Norm) -> Norm:
    return replace(norm, replicated=True)


def _first(axes: Shape) -> Shape:
    return (split_over(axes[0], RANKS), *axes[1:])
