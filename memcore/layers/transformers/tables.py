"""What models of transformers hold besides parameters: frequencies, scales, and tables for the longest sequence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memcore.layers.transformers.rotary import rotary_widths
from memcore.layers.transformers.vision.buffers import tower_buffers
from memcore.networks.network import Layer, Network
from memcore.networks.parts import Attention, FeedForward, SpecialMixer
from memcore.symbols import Shape, half
from memcore.trace.recipe import Buffer

_SCALARS = {"gemma4": ("layer_scalar",), "gemma3n": ("altup.router_input_scale",)}
"""Buffers of one element in every layer, by residual layout."""
_SQUARE: Shape = ("P", "P")


def buffers(network: Network) -> Sequence[Buffer]:
    """Everything that is no parameter."""
    found = [*_frequencies(network), *tower_buffers(network)]
    if network.embedding_and_head.embedding_scaled:
        module = f"{network.embedding_and_head.embedding.name.removesuffix('.weight')}.embed_scale"
        found.append(Buffer(rule="embedding_scale", module=module, shape=(), dtype="fp32"))
    for each in network.embedding_and_head.others:
        if each.name.endswith("embed_tokens_per_layer.weight"):
            module = f"{each.name.removesuffix('.weight')}.embed_scale"
            found.append(Buffer(rule="embedding_scale", module=module, shape=(), dtype="fp32"))
    if network.embedding_and_head.start == "gemma3n":
        path = network.path.rpartition(".")[0]
        names = ("per_layer_projection_scale", "per_layer_input_scale")
        found += [Buffer(rule="embedding_scale", module=f"{path}.{each}", shape=(), dtype="fp32") for each in names]
    if network.family == "gpt_bigcode":
        found.append(Buffer(rule="causal_buffer", module="transformer.bias", shape=_SQUARE, dtype="bool"))
    for layer in network.kinds:
        found += _in_layer(layer, f"{network.path}.*")
    return found


def _frequencies(network: Network) -> Iterator[Buffer]:
    """Rotary frequencies, twice (`inv_freq`, `original_inv_freq`)."""
    path = network.path.rpartition(".")[0]
    if any(mixer.variant == "deepseek_v4" for layer in network.kinds for mixer in layer.mixers):
        yield from _twice(f"{path}.rotary_emb", None)
    for table, width in rotary_widths(network).items():
        kind = "" if table == "main" else f"{table}_attention_"
        for name in ("inv_freq", "original_inv_freq"):
            module = f"{path}.rotary_emb.{kind}{name}"
            yield Buffer(rule="rotary_frequencies", module=module, shape=(half(width),), dtype="fp32")


def _twice(module: str, layer: Layer | None) -> Iterator[Buffer]:
    """DeepSeek-V4: frequencies for compressed and for other layers, wherever something rotates."""
    for name in ("main_inv_freq", "main_original_inv_freq", "compress_inv_freq", "compress_original_inv_freq"):
        path, width = f"{module}.{name}", half("r")
        yield Buffer(rule="rotary_frequencies", module=path, shape=(width,), dtype="fp32", layer=layer)


def _in_layer(layer: Layer, path: str) -> Iterator[Buffer]:
    for scalar in _SCALARS.get(layer.residual, ()):
        yield Buffer(rule="layer_scale", module=f"{path}.{scalar}", shape=(), dtype="fp32", layer=layer)
    yield from _in_mixers(layer, path)
    for ffn in layer.ffns:
        if isinstance(ffn, FeedForward) and ffn.activation_weights:
            for name in ("beta", "eps"):
                module = f"{path}.{ffn.module}.act_fn.{name}"
                yield Buffer(rule="activation_constant", module=module, shape=(), dtype="fp32", layer=layer)


def _in_mixers(layer: Layer, path: str) -> Iterator[Buffer]:
    for mixer in layer.mixers:
        if isinstance(mixer, Attention) and mixer.table == "module":
            for name in ("inv_freq", "original_inv_freq"):
                module, width = f"{path}.{mixer.module}.rotary_emb.{name}", half(mixer.heads.rotated)
                yield Buffer(rule="rotary_frequencies", module=module, shape=(width,), dtype="fp32", layer=layer)
        if isinstance(mixer, Attention) and mixer.variant == "gpt_neo":
            module = f"{path}.{mixer.module}.bias"
            yield Buffer(rule="causal_buffer", module=module, shape=_SQUARE, dtype="bool", layer=layer)
        if isinstance(mixer, Attention) and mixer.variant == "gptj":
            module, shape = f"{path}.{mixer.module}.embed_positions", ("P", mixer.heads.rotated)
            yield Buffer(rule="rotary_table", module=module, shape=shape, dtype="fp32", layer=layer)
        if isinstance(mixer, SpecialMixer) and mixer.variant == "deepseek_v4" and mixer.mask != "sliding":
            parts = ("compressor", "compressor.indexer") if "sparse" in mixer.options else ("compressor",)
            for part in parts:
                yield from _twice(f"{path}.{mixer.module}.{part}.rotary_emb", layer)
