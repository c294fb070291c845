"""Which values a key may have: its default, and others that a network can be built with."""

from __future__ import annotations

import inspect
import random
import re
import sys
from collections.abc import Collection
from functools import lru_cache
from typing import Any

from transformers.activations import ACT2FN

from deriver.building import Flat, find

NO_MATTER = re.compile(
    r"(.*\.)?(.*(_token_id|_token_index|_token|_eps|_epsilon|_std|_range|_coef|dropout\w*|_pdrop|_ids?)|rope_.*"
    r"|dtype|torch_dtype|architectures|_name_or_path|transformers_version|use_cache|return_dict|output_(attentions|hidden_states|past|\w*logits)"
    r"|initializer_\w+|problem_type|id2label|label2id|model_type|_attn_implementation\w*|chunk_size_feed_forward)"
)
"""Keys that decide neither a part nor a size."""
HARMLESS = re.compile(
    rf"{NO_MATTER.pattern}|(.*\.)?(.*dropout_prob|suppress_tokens|summary_\w+|freeze_\w+|(text|vision)_config_dict"
    r"|sampling_rate|chunk_length_s|hop_length|pad_mode|classifier_pooling|num_image_tokens|qk_scale_factor|embedding_scale"
    r"|layer_scale_initial_scale|final_logit_softcapping|mlp_\w+_softcap|route_scale|router_ignore_padding_tokens"
    r"|cat_hidden_layers|expert_capacity|capacity_factor|norm_topk_prob|\w+_attn_chunk_length|hidden_act|prefix_lm"
    r"|n_group|topk_group|scoring_func|use_bidirectional_attention)"
)
"""Keys without a size in them: a value for which no network was built changes nothing that is counted."""
LAYERS = re.compile(r"(.*\.)?(num_\w*layers|n_layers?|\w*_layers|num_layers|depth|n_layer|num_\w*blocks|layers)")
SIZES = re.compile(
    rf"{LAYERS.pattern}|(.*\.)?(hidden_size|hidden_dim|d_model|embed_dim|dim|(moe_)?intermediate_size|d_ff|d_kv|\w*ffn_dim"
    r"|(\w+_)?num_\w*heads|num_heads|\w+_attention_heads|head_dim|\w*num_(local_|routed_)?experts|n_routed_experts"
    r"|vocab_size|tie_word_embeddings)"
)
"""Keys in which published checkpoints of a family differ most."""
FLAG = re.compile(r"(.*\.)?((use|is|has|with|add|tie|do|enable)_\w+|\w+_bias|bias)")


def shrunk(defaults: Flat, follows: Collection[str] = ()) -> Flat:
    """A few layers each, but for keys that follow from others: nothing else makes a network slow to build."""
    counted = {key: value for key, value in defaults.items() if LAYERS.fullmatch(key) and key not in follows}
    return {key: 4 for key, value in counted.items() if type(value) is int and value > 4}


@lru_cache(maxsize=64)
def literals(name: str) -> str:
    """The source of a class's module and of its configuration."""
    cls = find(name)
    modules = [sys.modules[cls.__module__], sys.modules[cls.config_class.__module__]]
    return "\n".join(map(inspect.getsource, modules))


def words(name: str, key: str) -> list[str]:
    """Words that the source compares a key with."""
    last = key.rpartition(".")[2]
    stems = {last, last.removesuffix("s"), last.removesuffix("_pattern")}
    found: set[str] = set()
    for line in literals(name).splitlines():
        if any(re.search(rf"\b{re.escape(stem)}\b", line) for stem in stems) and not line.lstrip().startswith("raise"):
            found.update(re.findall(r"[\"']([A-Za-z_0-9.-]{2,30})[\"']", line))
    return sorted(found)


def values(name: str, key: str, default: Any, rng: random.Random) -> list[Any]:
    """Values to try for a key, the default among them."""
    if isinstance(default, bool):
        return [True, False]
    if default is None:
        if FLAG.fullmatch(key):
            return [None, True, False]
        named = words(name, key)[:3]
        return [None, *rng.sample((2, 3, 8, 16, 24, 64), 3), *([named, named[:1]] if named else ())]
    if isinstance(default, int):
        return _integers(key, default, rng)
    if isinstance(default, float):
        return [default, default * 2, default / 2, default * 1.5]
    if isinstance(default, str) and default in ACT2FN:
        gated = [f"gated-{each}" for each in ("gelu", "silu", "relu")] if '"gated-gelu"' in literals(name) else []
        return [default, "relu", "gelu", *gated]
    if isinstance(default, str) and default.startswith("gated-"):
        return [default, "relu", "gelu", "gated-silu", "gated-relu"]
    if isinstance(default, str):
        return [default, *[each for each in words(name, key) if each != default]][:6]
    if isinstance(default, list):
        return _lists(name, key, default, rng)
    return [default]


def _integers(key: str, default: int, rng: random.Random) -> list[int]:
    if LAYERS.fullmatch(key):
        return [min(default, 4), 1, 2, 3, 5, 6, 7, 8]
    if default <= 0:
        return [default, 0, 1, 2, 3, 4]
    if default < 16:
        return sorted({default, default + 1, default * 2, max(default // 2, 1), max(default - 1, 1), default * 3})
    if "vocab" in key or "position" in key:
        return [default, *(rng.randrange(100, 5000) for _ in range(3)), default + 8]
    step = next(each for each in (64, 16, 8, 4, 2, 1) if default % each == 0)
    factors = rng.sample(range(1, 4 * default // step), min(3, 4 * default // step - 1))
    return [default, default // 2, default * 2, default // 4 * 3, *(step * each for each in factors)]


def _lists(name: str, key: str, default: list[Any], rng: random.Random) -> list[Any]:
    found: list[Any] = [default]
    if default and all(type(each) is int for each in default):
        # Each element gets a different factor, so that a formula names the right one.
        found += [[each * (2 + place) for place, each in enumerate(default)], default[:-1], [*default, default[-1]]]
        found += [default[::-1]]
        found += [[max(each + rng.choice((-1, 0, 1, 2)), 1) for each in default] for _ in range(2)]
    elif default and all(isinstance(each, str) for each in default):
        choices = sorted({*default, *words(name, key)})
        for _ in range(4):
            found.append([rng.choice(choices) for _ in default])
    elif not default:
        found += [[0], [1], [0, 2]]
    return found
