"""Llama 4 as torchtitan has it: Llama's attention in every layer, and its own mixtures of experts.

Source: torchtitan 0.2.2, models/llama4/model/{model,args}.py: text alone, no norms of queries and keys, and positions
in every layer but for the flavors called irope; models/moe.py (sigmoid scores, one shared expert).
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from memcore.networks.network import Layer, Model, with_layers
from memcore.networks.parts import Experts
from memcore.networks.read import read_model

_FAMILIES = ("llama4", "llama4_text")
_SMALL = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 8}


@lru_cache(maxsize=8)
def as_titan(model: Model) -> Model:
    """Return the model as torchtitan's own code has it, where that differs from the published one."""
    if model.network.family not in _FAMILIES:
        return model
    plain = read_model({"model_type": "llama", "tie_word_embeddings": False, **_SMALL}).network
    runs = with_layers(model.network, lambda layer: _layer(layer, plain.kinds[0])).runs
    kinds, repeats = {layer for run in runs for layer in run}, model.repeats
    if len(kinds) == 1:
        repeats = (sum(len(run) * times for run, times in zip(runs, repeats, strict=True)),)
        runs = (tuple(kinds),)
    network = replace(plain, family="llama4", runs=runs)
    sizes = {name: size for name, size in model.sizes.items() if not name.endswith("t")}
    return replace(model, network=network, repeats=repeats, tower_repeats=(), sizes=sizes, images=None)


def _layer(layer: Layer, plain: Layer) -> Layer:
    """Return a layer with Llama's attention, and a mixture of experts or Llama's feed-forward layer."""
    if not isinstance(layer.feed_forward, Experts):
        return plain
    return replace(plain, feed_forward=_experts())


@lru_cache(maxsize=1)
def _experts() -> Experts:
    """DeepSeek's, without groups and without sums of scores."""
    sizes = {"n_routed_experts": 2, "num_experts_per_tok": 1, "n_shared_experts": 1, "moe_intermediate_size": 8}
    latent = {"q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 2, "qk_nope_head_dim": 2, "v_head_dim": 2}
    grouped = {"n_group": 1, "topk_group": 1, "first_k_dense_replace": 0, "norm_topk_prob": False}
    found = read_model({"model_type": "deepseek_v3", **_SMALL, **sizes, **latent, **grouped}).network.kinds[-1]
    if not isinstance(found.feed_forward, Experts):
        raise TypeError(found)
    return replace(found.feed_forward, groups=None, options=frozenset())
