"""A network of another family in Megatron-LM's arguments, where they describe all of it.

Source: Megatron-LM, megatron/training/arguments.py. What is found is read again and compared layer by layer, so that no
argument is written that would make another network.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.errors import MemcoreError
from memcore.messages import Message, joined
from memcore.networks.catalog import content_of, find_model
from memcore.networks.network import EmbeddingAndHead, Layer, Model
from memcore.networks.parts import Attention, Experts, FeedForward, LatentAttention
from memcore.symbols import Axis
from memcore.trainers.megatron.networks.adapted import ALL, targets_of
from memcore.trainers.megatron.networks.converted import as_megatron

FAMILY = "megatron"
_PADDED = 128
"""What a vocabulary is padded to a multiple of where nothing is said."""
_ACTIVATIONS: Mapping[str, str] = {"silu": "swiglu", "relu2": "squared_relu"}
_NUMBERS: Mapping[str, tuple[str, ...]] = {
    "norm_epsilon": ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps"),
    "rotary_base": ("rope_theta", "rotary_emb_base"),
}  # fmt: skip
"""Arguments that no tensor's size depends on, and the keys of config.json that they are."""
_GROUPED: Mapping[str, str] = {"moe_router_num_groups": "n_group", "moe_router_group_topk": "topk_group"}
"""Experts in groups of which only some are chosen from; the layers keep the same tensors."""


def described(config: Config) -> dict[str, Any] | None:
    """Return the arguments for a config's model, by name; None where they cannot describe it, or do already."""
    try:
        model = find_model(config.model)
        if model.network.family == FAMILY:
            return None
        own = as_megatron(model)
        if not all(map(_usual, own.network.kinds)):
            return None
        found = {"model_type": FAMILY, **dict(_arguments(own, config[Training.sequence_length] or 1))}
        again = find_model(found)
    except MemcoreError:
        return None
    return found if _same_network(own, again) else None


def numbers(config: Config) -> dict[str, Any]:
    """Arguments that change no size, as the model's config.json has them."""
    content = content_of(config.model)
    ropes = [each for key in ("rope_parameters", "rope_scaling") if isinstance(each := content.get(key), Mapping)]
    content = {**(ropes[0] if ropes else {}), **content}
    given = {ours: next((content[name] for name in names if name in content), None) for ours, names in _NUMBERS.items()}
    if content.get("n_group", 1) != 1 and find_model(config.model).has_experts:
        given |= {name: content.get(theirs) for name, theirs in _GROUPED.items()}
    return {name: value for name, value in given.items() if isinstance(value, (int, float))}


def unsaid(config: Config) -> dict[str, str]:
    """Numbers of a model by name that the catalog lacks, and the script therefore leaves at Megatron-LM's defaults."""
    found = described(config) if isinstance(config.model, str) else None
    if found is None:
        return {}
    wanted = ["norm_epsilon", *(["rotary_base"] if found["position_embedding_type"] == "rope" else ())]
    known = numbers(config)
    lacking = [f"--{name.replace('_', '-')}" for name in wanted if name not in known]
    said = "take {} from its config.json, which the catalog has in part"
    return {"model": Message(said, joined(", ", lacking))} if lacking else {}


def of_all(model: Any, targets: Sequence[str]) -> str | list[str]:
    """Return `all-linear` for the names of all linear layers of a model that get an adapter, else the names.

    A file may name no model: then these are all of them.

    >>> four = ("linear_qkv", "linear_proj", "linear_fc1", "linear_fc2")
    >>> of_all("llama-3.1-8b", four), of_all("deepseek-ai/DeepSeek-V2-Lite", four)[:2]
    ('all-linear', ['linear_qkv', 'linear_proj'])
    """
    if model is None:
        return ALL
    try:
        known = targets_of(as_megatron(find_model(model)))
    except MemcoreError:
        return ALL
    return ALL if {*known} <= {*targets} else list(targets)


def _arguments(model: Model, tokens: int) -> Iterator[tuple[str, Any]]:
    sizes, ends = model.sizes, model.network.embedding_and_head
    layers = list(_order(model))
    mixer = layers[0].mixer
    ffns = [layer.feed_forward for layer in layers]
    biased = _biased(ffns)
    yield "num_layers", len(layers)
    yield "hidden_size", sizes["h"]
    if isinstance(mixer, Attention):
        yield from _attention(mixer, sizes)
        if mixer.inputs[0].bias and not biased:
            yield "add_qkv_bias", True
    elif isinstance(mixer, LatentAttention):
        yield from _latent(mixer, sizes)
    yield from _feed_forward(ffns, sizes)
    yield "disable_bias_linear", not biased
    yield "normalization", "RMSNorm" if ends.final_norm is not None and ends.final_norm.kind == "rms" else "LayerNorm"
    rotary = getattr(mixer, "rotary", "none") != "none"
    yield "position_embedding_type", "learned_absolute" if ends.positions else "rope" if rotary else "none"
    yield "max_position_embeddings", max(sizes.get("P", 1), tokens)
    yield "vocab_size", sizes["V"]
    if sizes["vd"] != _PADDED:
        yield "make_vocab_size_divisible_by", sizes["vd"]
    yield "untie_embeddings_and_output_weights", not ends.tied


def _attention(mixer: Attention, sizes: Mapping[str, int]) -> Iterator[tuple[str, Any]]:
    query, key, width = (sizes[str(each)] for each in (mixer.heads.query, mixer.heads.key, mixer.heads.width))
    yield "num_attention_heads", query
    if key != query:
        yield "num_query_groups", key
    if query * width != sizes["h"]:
        yield "kv_channels", width
    if mixer.rotary == "partial":
        yield "rotary_percent", _size(mixer.heads.rotated, sizes) / width
    if mixer.query_norm is not None:
        yield "qk_layernorm", True


def _latent(mixer: LatentAttention, sizes: Mapping[str, int]) -> Iterator[tuple[str, Any]]:
    yield "multi_latent_attention", True
    yield "num_attention_heads", _size(mixer.heads.query, sizes)
    if len(mixer.queries) > 1:
        yield "q_lora_rank", sizes["lq"]
    yield "kv_lora_rank", sizes["lk"]
    yield "qk_head_dim", sizes["p"]
    yield "qk_pos_emb_head_dim", _size(mixer.heads.rotated, sizes)
    yield "v_head_dim", _size(mixer.heads.value, sizes)
    yield "qk_layernorm", True


def _feed_forward(ffns: list[Any], sizes: Mapping[str, int]) -> Iterator[tuple[str, Any]]:
    dense = next((each for each in ffns if isinstance(each, FeedForward)), None)
    sparse = next((each for each in ffns if isinstance(each, Experts)), None)
    if dense is not None:
        yield "ffn_hidden_size", _size(dense.down.inner[-1], sizes)
    if sparse is not None:
        yield from _experts(sparse, sizes, first=dense is None)
    if sparse is not None and dense is not None:
        yield "moe_layer_freq", _spelled([int(isinstance(each, Experts)) for each in ffns])
    activation = next(each.activation for each in (dense, sparse) if each is not None)
    if activation in _ACTIVATIONS:
        yield _ACTIVATIONS[activation], True


def _experts(sparse: Experts, sizes: Mapping[str, int], *, first: bool) -> Iterator[tuple[str, Any]]:
    down = next(weight for weight in sparse.experts if weight.split == "inner")
    width = _size(down.axes[-1][-1], sizes)
    yield "num_experts", _size(sparse.router.outer[0], sizes)
    yield "moe_router_topk", sizes[str(sparse.routed)]
    yield "moe_ffn_hidden_size", width
    if first:
        yield "ffn_hidden_size", width
    if sparse.shared is not None:
        yield "moe_shared_expert_intermediate_size", _size(sparse.shared.down.inner[-1], sizes)
    if "sigmoid-scores" in sparse.options:
        yield "moe_router_score_function", "sigmoid"
    if sparse.shared_gate is not None:
        yield "moe_shared_expert_gate", True
    if sparse.correction is not None:
        yield "moe_router_enable_expert_bias", True


def _spelled(kinds: list[int]) -> str:
    """Return which layers have experts, as Megatron's examples write it: `([0]*3+[1]*58)`."""
    runs: list[tuple[int, int]] = []
    for each in kinds:
        last = runs[-1] if runs and runs[-1][0] == each else None
        runs[len(runs) - (last is not None) :] = [(each, last[1] + 1 if last else 1)]
    return f"({'+'.join(f'[{kind}]*{times}' for kind, times in runs)})"


def _biased(ffns: list[Any]) -> bool:
    dense = next((each for each in ffns if isinstance(each, FeedForward)), None)
    return dense is not None and bool(dense.down.bias)


def _size(axis: Axis, sizes: Mapping[str, int]) -> int:
    return axis if isinstance(axis, int) else sizes[str(axis)]


def _usual(layer: Layer) -> bool:
    """Return whether a layer has attention and a feed-forward layer, as all of `pretrain_gpt.py` have."""
    return isinstance(layer.mixer, (Attention, LatentAttention)) and layer.feed_forward is not None


def _order(model: Model) -> Iterator[Layer]:
    for run, times in zip(model.network.runs, model.repeats, strict=True):
        yield from run * times


def _same_network(one: Model, other: Model) -> bool:
    """Return whether two networks have the same layers of the same sizes, apart from dropout, which is a setting."""
    if one.network.towers or any(one.sizes.get(name) != size for name, size in other.sizes.items() if name != "P"):
        return False
    pairs = [(_without_dropout(a), _without_dropout(b)) for a, b in {*zip(_order(one), _order(other), strict=False)}]
    ends = (_without(each.network.embedding_and_head) for each in (one, other))
    return one.num_layers == other.num_layers and all(a == b for a, b in pairs) and len({*ends}) == 1


def _without_dropout(layer: Layer) -> Layer:
    mixer, ffn = layer.mixer, layer.feed_forward
    ffn = replace(ffn, groups=None) if isinstance(ffn, Experts) else ffn
    mixer = mixer if mixer is None else replace(mixer, dropout=0.0)
    return replace(layer, dropout=0.0, mixer=mixer, feed_forward=ffn)


def _without(ends: EmbeddingAndHead) -> EmbeddingAndHead:
    return replace(ends, embedding_dropout=0.0)
