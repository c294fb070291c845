"""A network as LitGPT builds it: queries, keys and values come from one matrix, whose adapters share their first one.

Source: lit_gpt/model.py and lit_gpt/lora.py (8641822, October 2023), `CausalSelfAttention` and `LoRAQKVLinear`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from memcore.networks.network import Layer, Model, Network, with_layers
from memcore.networks.parts import Attention, FeedForward
from memcore.networks.usual_targets import LLAMA_LINEARS
from memcore.networks.weights import Linear, Weight
from memcore.symbols import Axis, Total, total_of

TARGETS = LLAMA_LINEARS
"""Layers that can have adapters, whatever a family calls them (`lora_query`, `lora_projection`, `lora_mlp` …)."""
_HEADS = TARGETS[:3]
HEAD = "lm_head"
"""The output head, which `all-linear` is without (`lora_head`)."""


def litgpt(model: Model, targets: Collection[str]) -> Model:
    """Fuse a network's matrices as LitGPT does; `targets` says which of their parts have adapters.

    Its head is a matrix of its own, a copy of the embedding where the checkpoint ties them (scripts/
    convert_hf_checkpoint.py, `copy_weights_hf_llama`: `lm_head.weight` is loaded from `transformer.wte.weight`). All
    tokens see all before them: Mistral's windows came in September 2024 (be8b28d).
    """
    network = with_layers(model.network, lambda layer: _fused(layer, targets))
    head = replace(network.embedding_and_head, tied=False)
    return replace(model, window=None, network=replace(network, embedding_and_head=head))


def _fused(layer: Layer, targets: Collection[str]) -> Layer:
    part = layer.mixer
    if not isinstance(part, Attention):
        return layer
    heads, ffn = part.heads, layer.feed_forward
    key = heads.key if part.grouped else heads.query
    counts: Mapping[str, Axis] = dict(zip(_HEADS, (heads.query, key, key), strict=True))
    chosen = [counts[name] for name in _HEADS if name in targets]
    fused = Linear(
        f"{part.module}.attn",
        (total_of(counts.values()), heads.width),
        ("h",),
        bias=part.inputs[0].bias,
        adapter_ranks=Total(f"{len(chosen)}·ra", (("ra",),) * len(chosen)) if len(chosen) > 1 else "ra",
        adapter_outer=(total_of(chosen), heads.width) if 0 < len(chosen) < len(counts) else None,
    )
    mask = "full" if part.mask == "sliding" else part.mask
    mixer = replace(part, inputs=(fused,), fused="litgpt", mask=mask, rotary=_OWN.get(part.rotary, part.rotary))
    ffn = _split(ffn) if isinstance(ffn, FeedForward) else ffn
    return replace(layer, mixer=mixer, feed_forward=ffn, residual=_OWN.get(layer.residual, layer.residual))


_OWN: Mapping[str, str] = {"partial-each": "partial", "sequential-dropped": "sequential"}
"""How transformers rotates heads and adds residuals for Phi-3, and what LitGPT has for every family instead."""


def _split(part: FeedForward) -> FeedForward:
    """Return a feed-forward layer with two matrices for gate and up (`copy_weights_phi`: Phi-3 has one)."""
    if not part.fused:
        return part
    gate, up = (replace(part.up, name=f"{part.module}.{each}_proj", outer=part.up.outer[1:]) for each in ("gate", "up"))
    return replace(part, gate=gate, up=up, fused=False)


def prompted(model: Model, tokens: int, dtype: str, *, second: bool) -> Model:
    """LLaMA-Adapter: every attention layer from the third on attends to learned tokens too, with a gate for each head.

    The second version also scales and shifts the result of every linear layer, and trains the norms
    (lit_gpt/adapter.py and adapter_v2.py). The model has one kind of layer, and more than two layers.
    """
    network, (count,) = model.network, model.repeats
    ((layer,),) = network.runs
    if second:
        layer = _scaled(layer, dtype)
    part = layer.mixer
    if not isinstance(part, Attention):
        raise TypeError(part)
    names = {"adapter_wte.weight": (("va",), ("h",)), "gating_factor": ((1,), (1,), (part.heads.query,), (1,))}
    adapter_weights = tuple(
        Weight(f"{part.module}.{name}", axes, "adapter", dtype=dtype) for name, axes in names.items()
    )
    later = replace(layer, mixer=replace(part, adapter_weights=adapter_weights))
    head = (
        replace(network.embedding_and_head.head, adapter_dtype=dtype, adapter_kind="scale")
        if second
        else network.embedding_and_head.head
    )
    changed = replace(
        network,
        runs=((layer,), (later,)),
        embedding_and_head=replace(network.embedding_and_head, head=head),
        adapted=True,
        trainable=("adapter", "norm") if second else None,
    )
    repeats = (FIRST_PROMPTED, count - FIRST_PROMPTED)
    return replace(model, network=changed, repeats=repeats, sizes={**model.sizes, "va": tokens})


FIRST_PROMPTED = 2
"""The first layer with learned tokens (`adapter_start_layer`)."""


def _scaled(part: Any, dtype: str) -> Any:
    """Return the part with a factor and a bias next to every linear layer."""
    if isinstance(part, Linear):
        return replace(part, adapter_dtype=dtype, adapter_kind="scale")
    if isinstance(part, tuple):
        return tuple(_scaled(item, dtype) for item in part)
    if is_dataclass(part) and not isinstance(part, (Weight, type)):
        changed = {item.name: _scaled(getattr(part, item.name), dtype) for item in fields(part) if item.init}
        return replace(part, **changed)
    return part


def linear_targets(network: Network, targets: Collection[str]) -> tuple[str, ...]:
    """Return the last parts of the names of the linear layers that these targets are."""
    head = [_leaf(network.embedding_and_head.head)] if HEAD in targets else []
    return tuple(dict.fromkeys([*(name for layer in network.kinds for name in _names(layer, targets)), *head]))


def _names(layer: Layer, targets: Collection[str]) -> Iterator[str]:
    part, ffn = layer.mixer, layer.feed_forward
    if isinstance(part, Attention):
        if set(targets) & set(_HEADS):
            yield _leaf(part.inputs[0])
        if "o_proj" in targets:
            yield _leaf(part.output)
    if isinstance(ffn, FeedForward):
        own = zip(TARGETS[4:], (ffn.gate, ffn.up, ffn.down), strict=True)
        yield from (_leaf(each) for name, each in own if name in targets and each is not None)


def _leaf(linear: Linear) -> str:
    return linear.name.rpartition(".")[2]
