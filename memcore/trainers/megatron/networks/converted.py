"""Networks of other families as Megatron-Core runs them: the same sizes, with its own matrices.

Megatron Bridge and Megatron's converters do the same with checkpoints: queries, keys and values become one matrix, gate
and up projection another, and every expert's matrices lie in `experts`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType

from memcore.config.engine import EngineSettings
from memcore.errors import UnsupportedError
from memcore.messages import Message, joined
from memcore.networks.network import Layer, Model, Network, Tower
from memcore.networks.parts import Attention, Experts, FeedForward, Ffn, LatentAttention, Mixer, SpecialMixer
from memcore.symbols import Axis
from memcore.trainers.megatron.networks import parts
from memcore.trainers.megatron.networks.arguments import embedding_and_head
from memcore.trainers.megatron.networks.gemma4 import around_gemma4, gemma4_layer, is_gemma4
from memcore.trainers.megatron.networks.parts import PATH, PREDICTION, RESIDUAL, Routing, Style, prediction, repeated
from memcore.trainers.megatron.networks.towers import MULTIMODAL, MULTIMODAL_FAMILIES, deep_layers, deepened, placed

_ACTIVATIONS = {"gelu_new": "gelu", "gelu_pytorch_tanh": "gelu", "gelu_fast": "gelu", "swish": "silu"}

_FEW = 8
"""Runs up to which those of the family stay as they are."""


def as_megatron(model: Model, towers: Mapping[str, str] = MappingProxyType({})) -> Model:
    """Return the network as Megatron-Core builds it; `towers`: how those of each family stand, all others are refused.

    Raises UnsupportedError for what it has no counterpart of.
    """
    return model if model.network.family == "megatron" else _converted(model, frozenset(towers.items()))


@lru_cache(maxsize=64)
def _converted(model: Model, standing: frozenset[tuple[str, str]]) -> Model:
    network, towers = model.network, dict(standing)
    obstacles = list(
        dict.fromkeys(
            [*_of_embedding_and_head(model, towers), *(each for layer in network.kinds for each in _of_layer(layer))]
        )
    )
    if obstacles and not is_gemma4(network):
        raise UnsupportedError(
            EngineSettings.type, "Megatron does not support {} yet ({})", joined(", ", obstacles), model.name
        )
    sizes = dict(model.sizes)
    sizes.setdefault("vd", 128)
    style = _style(network)
    made: dict[Layer, Layer] = {layer: _layer(layer, style, sizes) for layer in network.kinds}
    if network.family in MULTIMODAL_FAMILIES:
        made = {layer: _turned_by_grid(one) for layer, one in made.items()}
    around = embedding_and_head(
        style,
        learned=network.embedding_and_head.positions is not None,
        tied=network.embedding_and_head.tied,
        head_bias=network.embedding_and_head.head.bias,
    )
    if is_gemma4(network):
        around = around_gemma4(around, network.embedding_and_head)
    order = [layer for run, times in zip(network.runs, model.repeats, strict=True) for layer in run * times]
    kinds = list(made)
    found = repeated([kinds.index(layer) for layer in order]) if len(network.runs) > _FEW else None
    runs, repeats = network.runs, model.repeats
    if found is not None:
        runs = tuple(tuple(kinds[kind] for kind in pattern) for pattern, _ in found)
        repeats = tuple(times for _, times in found)
    runs = tuple(tuple(made[layer] for layer in run) for run in runs)
    seen = _towers(model, towers, sizes)
    runs = deepened(runs, repeats, deep_layers(seen))
    return replace(model, network=Network("megatron", PATH, runs, around, seen), repeats=repeats, sizes=sizes)


def _towers(model: Model, towers: Mapping[str, str], sizes: dict[str, int]) -> tuple[Tower, ...]:
    """Return the vision towers, where there are some."""
    network = model.network
    if not network.towers:
        return ()
    mixer = network.towers[0].runs[0][0].mixer
    if not isinstance(mixer, Attention):
        raise TypeError(mixer)
    return placed(model, towers[network.family], _rows(mixer, sizes))


@lru_cache(maxsize=64)
def predicting_too(model: Model, tokens: int) -> Model:
    """Return the model with layers behind the last one that predict further tokens, each like the last."""
    network, last = model.network, model.network.runs[-1][-1]
    extra = prediction(_style(network), 1)
    layer = replace(last, residual=PREDICTION, extra=extra)
    network = replace(network, runs=(*network.runs, (layer,)))
    return replace(model, network=network, repeats=(*model.repeats, tokens))


def _of_embedding_and_head(model: Model, towers: Mapping[str, str]) -> Iterator[str]:
    ends_ = model.network.embedding_and_head
    if model.network.towers and model.network.family not in towers:
        family, known = model.network.family, " / ".join(sorted(towers))
        own = Message("towers of family {!r}", family)
        yield Message("towers of family {!r} [supported: {}]", family, known) if known else own
    if model.network.adapted:
        yield "adapters"
    if ends_.project_in or ends_.project_out or ends_.embedding_norm or ends_.others:
        yield "embeddings other than those of tokens and positions"
    if ends_.head_softcap or ends_.embedding_scaled or ends_.head_scaled or ends_.embedding_multiplied:
        yield "scaled embeddings or logits"
    if ends_.final_norm is None or ends_.final_norm.kind == "layer-plain":
        yield "a network without a final norm"


def _of_layer(layer: Layer) -> Iterator[str]:
    mixer, ffn = layer.mixer, layer.feed_forward
    if "parallel" in layer.residual:
        yield "attention in parallel with the feed-forward layer"
    if layer.second_mixer or layer.second_feed_forward or layer.extra:
        yield "layers of several mixers"
    if len(layer.norms) != (mixer is not None) + (ffn is not None):
        yield "layers with norms after their parts, or one norm for several parts"
    if isinstance(mixer, Attention):
        yield from _of_attention(mixer)
    elif isinstance(mixer, LatentAttention):
        if mixer.indexer:
            yield "an indexer of sparse attention"
    elif isinstance(mixer, SpecialMixer) and mixer.variant not in ("mamba2", "gated-delta"):
        yield Message("{!r} mixers", mixer.variant)
    if isinstance(ffn, Experts):
        yield from _of_experts(ffn)
    if isinstance(ffn, FeedForward) and (ffn.gating != "plain" or ffn.borrowed or ffn.activation_weights):
        yield "feed-forward layers of another kind"


def _of_experts(ffn: Experts) -> Iterator[str]:
    if ffn.routing or ffn.table:
        yield "routers with additional parameters"
    if not any(weight.split == "inner" for weight in ffn.experts):
        yield "experts that are stacked in one matrix"


def _of_attention(mixer: Attention) -> Iterator[str]:
    if mixer.biased or mixer.softcap or mixer.clamped:
        yield "attention with biases or caps"
    if mixer.shares_cache or mixer.borrowed or mixer.crosses or mixer.heads.value != mixer.heads.width:
        yield "attention that shares keys and values"
    if mixer.value_norm or (mixer.query_norm is not None and mixer.norm_place == "row"):
        yield "norms over all heads together"


def _style(network: Network) -> Style:
    """Biases of the network's linear layers, from the first layer that has them."""
    attention = next((layer.mixer for layer in network.kinds if isinstance(layer.mixer, Attention)), None)
    dense = next((layer.feed_forward for layer in network.kinds if isinstance(layer.feed_forward, FeedForward)), None)
    last = network.embedding_and_head.final_norm
    biased = dense.down.bias if dense is not None else attention is not None and attention.output.bias
    return Style(
        norm="layer" if last is not None and last.kind.startswith("layer") else "rms",
        bias=biased,
        query_bias=attention is not None and attention.inputs[0].bias,
        dropout=max(layer.dropout for layer in network.kinds),
        attention_dropout=max((mixer.dropout for layer in network.kinds for mixer in layer.mixers), default=0.0),
    )


def _layer(layer: Layer, style: Style, sizes: dict[str, int]) -> Layer:
    if layer.residual == "gemma4" and isinstance(layer.mixer, Attention):
        return gemma4_layer(layer, style, _rows(layer.mixer, sizes))
    mixer = None if layer.mixer is None else _mixer(layer.mixer, style, sizes)
    ffn = None if layer.feed_forward is None else _ffn(layer.feed_forward, style)
    names = [*(["input_layernorm"] if mixer else []), *(["pre_mlp_layernorm"] if ffn else [])]
    norms = tuple(style.normed(name) for name in names)
    return Layer(mixer=mixer, feed_forward=ffn, residual=RESIDUAL, norms=norms, dropout=layer.dropout)


def _turned_by_grid(layer: Layer) -> Layer:
    """Positions are of three dimensions (M-RoPE)."""
    mixer = layer.mixer
    return replace(layer, mixer=replace(mixer, rotary=MULTIMODAL)) if isinstance(mixer, Attention) else layer


def _mixer(mixer: Mixer, style: Style, sizes: dict[str, int]) -> Mixer:
    if isinstance(mixer, LatentAttention):
        return parts.latent_attention(
            style, mixer.heads, compressed=len(mixer.queries) == 2, normed=True, rotary="full"
        )
    if isinstance(mixer, SpecialMixer):
        if mixer.variant == "mamba2":
            return parts.mamba(sizes)
        sizes["I"] = sizes["X"] + sizes["B"] * sizes["dv"] + 2 * sizes["B"]
        return parts.gated_delta(grouped="grouped" in mixer.options)
    rows = _rows(mixer, sizes)
    normed, gated = mixer.query_norm is not None, mixer.gated
    made = parts.attention(style, mixer.heads, rows, mixer.rotary, grouped=mixer.grouped, normed=normed, gated=gated)
    sinks = None if mixer.sinks is None else parts.sinks(made)
    return replace(made, mask=mixer.mask, bidirectional=mixer.bidirectional, sinks=sinks)


def _rows(mixer: Attention, sizes: dict[str, int]) -> Axis:
    """Heads of queries, keys and values together, and of gates."""
    heads = mixer.heads
    total, name = (1 + mixer.gated) * sizes[str(heads.query)] + 2 * sizes[str(heads.key)], "n"
    while sizes.setdefault(name, total) != total:
        name += "′"
    return name


def _ffn(ffn: Ffn, style: Style) -> Ffn:
    if isinstance(ffn, FeedForward):
        return _dense(ffn, style)
    activation = _ACTIVATIONS.get(ffn.activation, ffn.activation)
    down = next(weight for weight in ffn.experts if weight.split == "inner")
    routing = Routing(
        experts=ffn.router.outer[0],
        chosen=ffn.routed,
        width=down.axes[1][-1] if down.axes[-1] == ("h",) else down.axes[-1][-1],
        shared=None if ffn.shared is None else ffn.shared.down.inner[-1],
        latent=str(ffn.latent[0].outer[0]) if ffn.latent else None,
        shared_gate=ffn.shared_gate is not None,
        biased=ffn.correction is not None,
        score="sigmoid" if ffn.correction is not None else "softmax",
        groups=ffn.groups,
        clamped=ffn.variant == "gpt_oss",
    )
    return parts.sparse(style, routing, activation, gated=ffn.gated)


def _dense(ffn: FeedForward, style: Style) -> FeedForward:
    activation = _ACTIVATIONS.get(ffn.activation, ffn.activation)
    gated = ffn.gate is not None or ffn.fused
    return parts.dense(style, ffn.down.inner[-1], activation, gated=gated)
